"""OpenAI's Responses API, as values.  Nothing is kept at the provider: ``store`` is false."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from attrs import define, field, frozen

from garcon.contract.catalogs import Protocol, ThinkingMode
from garcon.contract.providers import ResolvedEndpoint
from garcon.runtime.agents.direct_events import ServerEvent
from garcon.runtime.agents.direct_messages import Attachment, Message, Part, content
from garcon.runtime.agents.direct_wire import (
    CUT_SHORT,
    FILTERED,
    OPENAI_EFFORTS,
    ModelRequest,
    Pieces,
    Reply,
    Usage,
    bearer,
    decoded,
    error_text,
    openai_url,
    reported,
    whole,
)

_REASONS = {"max_output_tokens": CUT_SHORT, "content_filter": FILTERED}
_SAID = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THOUGHT = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_MEANT = _SAID | _THOUGHT | _ENDS | {"error"}
"""Events that are looked at; the others repeat what these say, some of them at length."""


@frozen
class Responses:
    """``POST …/responses``, always streamed."""

    speech: Protocol = "openai-compatible"

    def is_offered_by(self, endpoint: ResolvedEndpoint) -> bool:
        """See `Wire`."""
        offers = endpoint.capabilities
        return endpoint.protocol == self.speech and offers is not None and offers.responses

    def request(
        self,
        endpoint: ResolvedEndpoint,
        model: str,
        effort: ThinkingMode,
        messages: Sequence[Message],
    ) -> ModelRequest:
        """See `Wire`."""
        body: dict[str, Any] = {
            "model": model,
            "input": [
                {"role": one.role, "content": content(one, _text, _picture, _document)}
                for one in messages
            ],
            "stream": True,
            "store": False,
        }
        if effort in OPENAI_EFFORTS:
            body["reasoning"] = {"effort": OPENAI_EFFORTS[effort]}
        url = openai_url(endpoint.base_url, "/responses")
        return ModelRequest(url, bearer(endpoint), msgspec.json.encode(body))

    def reader(self) -> ResponseReader:
        """See `Wire`."""
        return ResponseReader()


def _text(text: str) -> Part:
    return {"type": "input_text", "text": text}


def _picture(one: Attachment) -> Part:
    return {"type": "input_image", "image_url": one.url}


def _document(one: Attachment) -> Part:
    return {"type": "input_file", "filename": one.name, "file_data": one.url}


class _Counted(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Item(msgspec.Struct):
    type: str = ""
    content: Any = None


class _Response(msgspec.Struct):
    error: Any = None
    incomplete_details: _Incomplete | None = None
    usage: _Counted | None = None
    output: list[_Item] | None = None


class _Event(msgspec.Struct):
    type: str = ""
    delta: Any = None
    output_index: int = 0
    summary_index: int = 0
    response: _Response | None = None
    message: Any = None
    error: Any = None


@define
class _Sections:
    """A text in sections, each begun with a blank line after the one before."""

    pieces: Pieces = field(factory=Pieces)
    _at: object = None

    def add(self, at: object, text: object) -> None:
        if self.pieces and at != self._at:
            self.pieces.add("\n\n")
        self._at = at
        self.pieces.add(text)


@define
class ResponseReader:
    """Deltas of text, ended by the response's own end."""

    _said: _Sections = field(factory=_Sections)
    _thought: _Sections = field(factory=_Sections)
    _end: _Response | None = None

    def take(self, event: ServerEvent) -> bool:
        """See `Reader`."""
        if event.name.startswith("response.") and event.name not in _MEANT:
            return False
        if event.data.strip() == b"[DONE]":
            return True
        found = decoded(event.data, _Event)
        kind = found.type or event.name
        if kind in _SAID:
            self._said.add(found.output_index, found.delta)
        elif kind in _THOUGHT:
            self._thought.add((found.output_index, found.summary_index), found.delta)
        elif kind == "error":
            raise reported(found.error or found.message)
        elif kind in _ENDS:
            # Some servers end a stream without saying everything again.
            end = found.response or _Response()
            if kind == "response.failed" or end.error:
                raise reported(end.error)
            self._end = end
            return True
        return False

    def reply(self) -> Reply:
        """See `Reader`."""
        end, usage, cut_short = self._end, None, None
        if end is not None:
            if not self._said.pieces:
                self._repeated(end.output or [])
            if end.usage is not None:
                usage = Usage(end.usage.input_tokens or 0, end.usage.output_tokens or 0)
            if end.incomplete_details is not None:
                reason = error_text(end.incomplete_details.reason or "the provider did not say why")
                cut_short = _REASONS.get(reason, reason)
        return whole(self._said.pieces, self._thought.pieces, end is not None, cut_short, usage)

    def _repeated(self, output: list[_Item]) -> None:
        """Take the text from the response itself, of a server that sent no deltas of it."""
        for index, item in enumerate(output):
            parts = item.content if item.type == "message" else None
            for part in parts if isinstance(parts, list) else ():
                if isinstance(part, dict):
                    self._said.add(index, part.get("text") or part.get("refusal"))
