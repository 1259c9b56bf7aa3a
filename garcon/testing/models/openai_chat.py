"""OpenAI Chat Completions (``POST /v1/chat/completions``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from attrs import Factory, define, frozen

from garcon.testing.models.script import Asked, Call, Fail, FreeCall, StreamError, Text, Turn
from garcon.testing.models.server import Encoder, sse


@frozen
class ChatCompletions:
    """The wire of most "OpenAI compatible" servers; opencode can use it."""

    name: str = "openai-chat"

    def claims(self, method: str, path: str) -> bool:
        """Chat completion requests."""
        return method == "POST" and path.endswith("/chat/completions")

    def parse(self, path: str, body: dict[str, Any]) -> Asked:
        """Read model, tools, system prompt and the last user text."""
        messages = body.get("messages", [])
        return Asked(
            wire=self.name,
            path=path,
            model=str(body.get("model", "")),
            stream=bool(body.get("stream")),
            system=_joined(messages, "system", "developer"),
            last_user=_last(messages),
            tools=tuple(t.get("function", {}).get("name", "?") for t in body.get("tools") or []),
            body=body,
        )

    def encoder(self, asked: Asked, turn: Turn) -> Encoder:
        """An encoder for one completion."""
        return ChatEncoder(asked.model, turn)

    def failure(self, fail: Fail) -> dict[str, Any]:
        """``{"error": {...}}``."""
        return {"error": {"message": fail.message, "type": fail.kind, "code": fail.kind}}

    def extra(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """A model list of one."""
        if method == "GET" and path.endswith("/models"):
            row = {"id": "scripted", "object": "model", "created": 0, "owned_by": "scripted"}
            return {"object": "list", "data": [row]}
        return None


@define
class ChatEncoder:
    """Chunks that share one id, ended by ``[DONE]``."""

    model: str
    turn: Turn
    calls: int = 0
    id: str = Factory(lambda: f"chatcmpl-{uuid4().hex[:12]}")

    def start(self) -> Iterator[bytes]:
        """The role."""
        yield self._chunk({"role": "assistant", "content": ""})

    def text(self, text: Sequence[str]) -> Iterator[bytes]:
        """Content deltas."""
        for piece in text:
            yield self._chunk({"content": piece})

    def think(self, text: str) -> Iterator[bytes]:
        """The widespread, unofficial ``reasoning_content`` delta."""
        yield self._chunk({"reasoning_content": text})

    def call(self, call: Call | FreeCall) -> Iterator[bytes]:
        """Name first, arguments in a second delta."""
        whole = _tool_call(call)
        arguments = whole["function"]["arguments"]
        opening = {**whole, "index": self.calls, "function": {**whole["function"], "arguments": ""}}
        yield self._chunk({"tool_calls": [opening]})
        rest = {"index": self.calls, "function": {"arguments": arguments}}
        yield self._chunk({"tool_calls": [rest]})
        self.calls += 1

    def error(self, error: StreamError) -> Iterator[bytes]:
        """An error object as data."""
        yield sse({"error": {"message": error.message, "type": error.kind, "code": error.kind}})

    def finish(self) -> Iterator[bytes]:
        """Finish reason, usage, ``[DONE]``."""
        yield self._chunk({}, self._reason())
        yield sse({**self._frame("chat.completion.chunk"), "choices": [], "usage": self._usage()})
        yield sse("[DONE]")

    def whole(self, turn: Turn) -> dict[str, Any]:
        """The completion object."""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(s.text for s in turn.steps if isinstance(s, Text)),
        }
        calls = [_tool_call(s) for s in turn.steps if isinstance(s, (Call, FreeCall))]
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": self._reason()}
        return {**self._frame("chat.completion"), "choices": [choice], "usage": self._usage()}

    def _reason(self) -> str:
        return "tool_calls" if self.turn.calls_tools else "stop"

    def _usage(self) -> dict[str, int]:
        given, made = self.turn.usage
        return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}

    def _frame(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": 0, "model": self.model}

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return sse({**self._frame("chat.completion.chunk"), "choices": [choice]})


def _tool_call(call: Call | FreeCall) -> dict[str, Any]:
    """A finished tool call."""
    args = call.args if isinstance(call, Call) else {"input": call.input}
    function = {"name": call.name, "arguments": json.dumps(args, ensure_ascii=False)}
    return {"id": call.id or f"call_{uuid4().hex[:16]}", "type": "function", "function": function}


def _content(message: dict[str, Any]) -> str:
    """Text of a message, whichever form it has."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(p.get("text", "") for p in content or [])


def _joined(messages: list[dict[str, Any]], *roles: str) -> str:
    """The text of every message that has one of ``roles``."""
    return "\n".join(_content(m) for m in messages if m.get("role") in roles)


def _last(messages: list[dict[str, Any]]) -> str:
    """The text of the last message that the user or a tool sent."""
    for message in reversed(messages):
        if message.get("role") in ("user", "tool"):
            return _content(message)
    return ""
