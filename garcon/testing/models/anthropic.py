"""Anthropic Messages (``POST /v1/messages``), streamed and whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from attrs import define, frozen

from garcon.testing.models.script import Asked, Call, Fail, FreeCall, StreamError, Text, Think, Turn
from garcon.testing.models.server import Encoder, sse


@frozen
class AnthropicMessages:
    """The wire that Claude Code speaks."""

    name: str = "anthropic"

    def claims(self, method: str, path: str) -> bool:
        """Model requests; a ``/v1`` prefix may be doubled or absent."""
        return method == "POST" and path.endswith("/messages")

    def parse(self, path: str, body: dict[str, Any]) -> Asked:
        """Read model, tools, system prompt and the last user text."""
        return Asked(
            wire=self.name,
            path=path,
            model=str(body.get("model", "")),
            stream=bool(body.get("stream")),
            system=_text_of(body.get("system", "")),
            last_user=_last_user(body.get("messages", [])),
            tools=tuple(t.get("name", "?") for t in body.get("tools") or []),
            body=body,
        )

    def encoder(self, asked: Asked, turn: Turn) -> Encoder:
        """An encoder for one message."""
        return MessageEncoder(asked.model, turn)

    def failure(self, fail: Fail) -> dict[str, Any]:
        """``{"type": "error", "error": {...}}``."""
        return {"type": "error", "error": {"type": fail.kind, "message": fail.message}}

    def extra(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Token counting, by a rough rule, and a model list of one."""
        if method == "GET" and path.endswith("/models"):
            row = {"type": "model", "id": "scripted", "display_name": "Scripted"}
            return {"data": [row], "has_more": False, "first_id": "scripted", "last_id": "scripted"}
        if method == "POST" and path.endswith("/messages/count_tokens"):
            return {"input_tokens": len(json.dumps(body)) // 4}
        return None


@define
class MessageEncoder:
    """Content blocks, each opened, filled by deltas and closed."""

    model: str
    turn: Turn
    index: int = 0

    def start(self) -> Iterator[bytes]:
        """``message_start``."""
        yield _event("message_start", message=self._message([], None))

    def text(self, text: Sequence[str]) -> Iterator[bytes]:
        """A text block."""
        yield self._open({"type": "text", "text": ""})
        for piece in text:
            yield self._delta({"type": "text_delta", "text": piece})
        yield self._close()

    def think(self, text: str) -> Iterator[bytes]:
        """A thinking block, with a made-up signature."""
        yield self._open({"type": "thinking", "thinking": "", "signature": ""})
        yield self._delta({"type": "thinking_delta", "thinking": text})
        yield self._delta({"type": "signature_delta", "signature": "c2NyaXB0ZWQ="})
        yield self._close()

    def call(self, call: Call | FreeCall) -> Iterator[bytes]:
        """A ``tool_use`` block; the input arrives as JSON text in two deltas."""
        block = _tool_use(call)
        text = json.dumps(block.pop("input"), ensure_ascii=False)
        yield self._open({**block, "input": {}})
        half = len(text) // 2
        for piece in (text[:half], text[half:]):
            yield self._delta({"type": "input_json_delta", "partial_json": piece})
        yield self._close()

    def error(self, error: StreamError) -> Iterator[bytes]:
        """An ``error`` event."""
        yield _event("error", error={"type": error.kind, "message": error.message})

    def finish(self) -> Iterator[bytes]:
        """``message_delta`` with the stop reason, then ``message_stop``."""
        yield _event(
            "message_delta",
            delta={"stop_reason": self._reason(), "stop_sequence": None},
            usage={"output_tokens": self.turn.usage[1]},
        )
        yield _event("message_stop")

    def whole(self, turn: Turn) -> dict[str, Any]:
        """The message object."""
        blocks: list[dict[str, Any]] = []
        for step in turn.steps:
            match step:
                case Text():
                    blocks.append({"type": "text", "text": step.text})
                case Think():
                    blocks.append(
                        {"type": "thinking", "thinking": step.text, "signature": "c2NyaXB0ZWQ="}
                    )
                case Call() | FreeCall():
                    blocks.append(_tool_use(step))
        return self._message(blocks, self._reason())

    def _reason(self) -> str:
        return "tool_use" if self.turn.calls_tools else "end_turn"

    def _message(self, content: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
        return {
            "id": f"msg_{uuid4().hex[:12]}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": self.turn.usage[0], "output_tokens": self.turn.usage[1]},
        }

    def _open(self, block: dict[str, Any]) -> bytes:
        return _event("content_block_start", index=self.index, content_block=block)

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", index=self.index, delta=delta)

    def _close(self) -> bytes:
        closing = _event("content_block_stop", index=self.index)
        self.index += 1
        return closing


def _event(kind: str, **fields: Any) -> bytes:
    """An event whose data repeats its type, as this API does."""
    return sse({"type": kind, **fields}, kind)


def _tool_use(call: Call | FreeCall) -> dict[str, Any]:
    """A ``tool_use`` block."""
    args = call.args if isinstance(call, Call) else {"input": call.input}
    return {
        "type": "tool_use",
        "id": call.id or f"toolu_{uuid4().hex[:16]}",
        "name": call.name,
        "input": args,
    }


def _text_of(content: Any) -> str:
    """The text in a string, or in a list of blocks (tool results included)."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(b.get("text") or _text_of(b.get("content")) for b in content)


def _last_user(messages: list[dict[str, Any]]) -> str:
    """The text of the last user message."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return _text_of(message.get("content"))
    return ""
