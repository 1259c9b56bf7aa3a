"""Gemini ``generateContent`` and ``streamGenerateContent?alt=sse``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import define, frozen

from garcon.testing.models.script import Asked, Call, Fail, FreeCall, StreamError, Text, Think, Turn
from garcon.testing.models.server import Encoder, sse


@frozen
class Gemini:
    """The wire of the Gemini API (``/v1beta/models/MODEL:METHOD``)."""

    name: str = "gemini"

    def claims(self, method: str, path: str) -> bool:
        """Generation requests, streamed or not."""
        return method == "POST" and path.endswith((":streamGenerateContent", ":generateContent"))

    def parse(self, path: str, body: dict[str, Any]) -> Asked:
        """Read the model from the path, the rest from the body."""
        declared = [d for t in body.get("tools") or [] for d in t.get("functionDeclarations", [])]
        return Asked(
            wire=self.name,
            path=path,
            model=path.rsplit("/", 1)[-1].split(":", 1)[0],
            stream=path.endswith(":streamGenerateContent"),
            system=_text(body.get("systemInstruction") or {}),
            last_user=_last(body.get("contents", [])),
            tools=tuple(d.get("name", "?") for d in declared),
            body=body,
        )

    def encoder(self, asked: Asked, turn: Turn) -> Encoder:
        """An encoder for one answer."""
        return GeminiEncoder(asked.model, turn)

    def failure(self, fail: Fail) -> dict[str, Any]:
        """``{"error": {"code", "message", "status"}}``."""
        return {"error": {"code": fail.status, "message": fail.message, "status": fail.kind}}

    def extra(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Token counting."""
        if path.endswith(":countTokens"):
            return {"totalTokens": 10}
        return None


@define
class GeminiEncoder:
    """Every chunk is a small but complete answer object."""

    model: str
    turn: Turn

    def start(self) -> Iterator[bytes]:
        """Nothing precedes the first chunk."""
        return iter(())

    def text(self, text: Sequence[str]) -> Iterator[bytes]:
        """Text parts."""
        for piece in text:
            yield sse(self._answer([{"text": piece}]))

    def think(self, text: str) -> Iterator[bytes]:
        """A part marked as thought."""
        yield sse(self._answer([{"text": text, "thought": True}]))

    def call(self, call: Call | FreeCall) -> Iterator[bytes]:
        """A function call part."""
        yield sse(self._answer([_call_part(call)]))

    def error(self, error: StreamError) -> Iterator[bytes]:
        """An error object as data."""
        yield sse({"error": {"code": 500, "message": error.message, "status": error.kind}})

    def finish(self) -> Iterator[bytes]:
        """The finish reason and the usage."""
        yield sse(self._answer([{"text": ""}], "STOP"))

    def whole(self, turn: Turn) -> dict[str, Any]:
        """All parts in one answer."""
        parts: list[dict[str, Any]] = []
        for step in turn.steps:
            match step:
                case Text():
                    parts.append({"text": step.text})
                case Think():
                    parts.append({"text": step.text, "thought": True})
                case Call() | FreeCall():
                    parts.append(_call_part(step))
        return self._answer(parts, "STOP")

    def _answer(self, parts: list[dict[str, Any]], reason: str | None = None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if reason:
            candidate["finishReason"] = reason
        given, made = self.turn.usage
        usage = {
            "promptTokenCount": given,
            "candidatesTokenCount": made,
            "totalTokenCount": given + made,
        }
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": self.model}


def _call_part(call: Call | FreeCall) -> dict[str, Any]:
    """A part that calls a function; ``id`` is optional on this wire."""
    function: dict[str, Any] = {
        "name": call.name,
        "args": call.args if isinstance(call, Call) else {"input": call.input},
    }
    if call.id:
        function["id"] = call.id
    return {"functionCall": function}


def _text(content: dict[str, Any]) -> str:
    """The text parts of one content object."""
    return "\n".join(p.get("text", "") for p in content.get("parts", []))


def _last(contents: list[dict[str, Any]]) -> str:
    """The text of the last user content."""
    for content in reversed(contents):
        if content.get("role") == "user":
            return _text(content)
    return ""
