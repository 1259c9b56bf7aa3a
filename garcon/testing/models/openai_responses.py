"""OpenAI Responses (``POST /v1/responses``), the wire that Codex speaks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from attrs import Factory, define, frozen

from garcon.testing.models.script import Asked, Call, Fail, FreeCall, StreamError, Text, Think, Turn
from garcon.testing.models.server import Encoder, sse


@frozen
class Responses:
    """Items, each added, filled by deltas and done."""

    name: str = "openai-responses"

    def claims(self, method: str, path: str) -> bool:
        """Response requests."""
        return method == "POST" and path.endswith("/responses")

    def parse(self, path: str, body: dict[str, Any]) -> Asked:
        """Read model, tools, instructions and the last user text."""
        return Asked(
            wire=self.name,
            path=path,
            model=str(body.get("model", "")),
            stream=bool(body.get("stream")),
            system=str(body.get("instructions") or ""),
            last_user=_last(body.get("input", [])),
            tools=_tool_names(body),
            body=body,
        )

    def encoder(self, asked: Asked, turn: Turn) -> Encoder:
        """An encoder for one response."""
        return ResponseEncoder(asked.model, turn)

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
class ResponseEncoder:
    """Numbers every event and collects the finished items."""

    model: str
    turn: Turn
    sequence: int = 0
    items: list[dict[str, Any]] = Factory(list)
    id: str = Factory(lambda: f"resp_{uuid4().hex[:12]}")

    def start(self) -> Iterator[bytes]:
        """``response.created`` and ``response.in_progress``."""
        yield self._event("response.created", response=self._response("in_progress"))
        yield self._event("response.in_progress", response=self._response("in_progress"))

    def text(self, text: Sequence[str]) -> Iterator[bytes]:
        """An output message with one text part."""
        item = _message("")
        at = {"item_id": item["id"], "output_index": len(self.items), "content_index": 0}
        yield self._added({**item, "status": "in_progress", "content": []})
        empty = {"type": "output_text", "text": "", "annotations": []}
        yield self._event("response.content_part.added", **at, part=empty)
        for piece in text:
            yield self._event("response.output_text.delta", **at, delta=piece)
        full = "".join(text)
        part = {**empty, "text": full}
        yield self._event("response.output_text.done", **at, text=full)
        yield self._event("response.content_part.done", **at, part=part)
        yield self._done({**item, "content": [part]})

    def think(self, text: str) -> Iterator[bytes]:
        """A reasoning item with one summary part."""
        item = _reasoning("")
        at = {"item_id": item["id"], "output_index": len(self.items), "summary_index": 0}
        yield self._added({**item, "summary": []})
        part = {"type": "summary_text", "text": ""}
        yield self._event("response.reasoning_summary_part.added", **at, part=part)
        yield self._event("response.reasoning_summary_text.delta", **at, delta=text)
        yield self._event("response.reasoning_summary_text.done", **at, text=text)
        yield self._event("response.reasoning_summary_part.done", **at, part={**part, "text": text})
        yield self._done({**item, "summary": [{**part, "text": text}]})

    def call(self, call: Call | FreeCall) -> Iterator[bytes]:
        """A function call, or a custom tool call for free text."""
        item = _call_item(call)
        at = {"item_id": item["id"], "output_index": len(self.items)}
        if isinstance(call, Call):
            yield self._added({**item, "arguments": "", "status": "in_progress"})
            args = item["arguments"]
            yield self._event("response.function_call_arguments.delta", **at, delta=args)
            yield self._event("response.function_call_arguments.done", **at, arguments=args)
        else:
            yield self._added({**item, "input": "", "status": "in_progress"})
            yield self._event("response.custom_tool_call_input.delta", **at, delta=call.input)
            yield self._event("response.custom_tool_call_input.done", **at, input=call.input)
        yield self._done(item)

    def error(self, error: StreamError) -> Iterator[bytes]:
        """``response.failed``."""
        failed = self._response("failed")
        failed["error"] = {"code": error.kind, "message": error.message}
        yield self._event("response.failed", response=failed)

    def finish(self) -> Iterator[bytes]:
        """``response.completed`` with every item and the usage."""
        yield self._event("response.completed", response=self._response("completed"))

    def whole(self, turn: Turn) -> dict[str, Any]:
        """The response object."""
        for step in turn.steps:
            match step:
                case Text():
                    self.items.append(_message(step.text))
                case Think():
                    self.items.append(_reasoning(step.text))
                case Call() | FreeCall():
                    self.items.append(_call_item(step))
        return self._response("completed")

    def _response(self, status: str) -> dict[str, Any]:
        given, made = self.turn.usage
        usage = {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": made,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": given + made,
        }
        return {
            "id": self.id,
            "object": "response",
            "created_at": 0,
            "status": status,
            "model": self.model,
            "output": list(self.items),
            "error": None,
            "usage": usage if status == "completed" else None,
        }

    def _added(self, item: dict[str, Any]) -> bytes:
        return self._event("response.output_item.added", output_index=len(self.items), item=item)

    def _done(self, item: dict[str, Any]) -> bytes:
        done = self._event("response.output_item.done", output_index=len(self.items), item=item)
        self.items.append(item)
        return done

    def _event(self, kind: str, **fields: Any) -> bytes:
        self.sequence += 1
        return sse({"type": kind, "sequence_number": self.sequence, **fields}, kind)


def _message(text: str) -> dict[str, Any]:
    """A finished assistant message."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "id": f"msg_{uuid4().hex[:12]}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def _reasoning(text: str) -> dict[str, Any]:
    """A finished reasoning item."""
    summary = [{"type": "summary_text", "text": text}]
    return {"id": f"rs_{uuid4().hex[:12]}", "type": "reasoning", "summary": summary}


def _call_item(call: Call | FreeCall) -> dict[str, Any]:
    """A finished call item."""
    item: dict[str, Any] = {
        "id": f"fc_{uuid4().hex[:12]}",
        "status": "completed",
        "call_id": call.id or f"call_{uuid4().hex[:16]}",
        "name": call.name,
    }
    if isinstance(call, Call):
        return {
            **item,
            "type": "function_call",
            "arguments": json.dumps(call.args, ensure_ascii=False),
        }
    return {**item, "type": "custom_tool_call", "input": call.input}


def _tool_names(body: dict[str, Any]) -> tuple[str, ...]:
    """The tools offered at the top, or inside ``additional_tools`` input items."""
    offered = list(body.get("tools") or [])
    items = body.get("input")
    for item in items if isinstance(items, list) else []:
        if item.get("type") == "additional_tools":
            offered.extend(item.get("tools", []))
    return tuple(t.get("name") or t.get("type", "?") for t in offered)


def _last(items: Any) -> str:
    """The text of the last user message or tool output."""
    if isinstance(items, str):
        return items
    for item in reversed(items):
        if item.get("role") == "user":
            content = item.get("content", "")
            if isinstance(content, str):
                return content
            return "\n".join(p.get("text", "") for p in content)
        if item.get("type", "").endswith("_output"):
            return json.dumps(item.get("output"), ensure_ascii=False)
    return ""
