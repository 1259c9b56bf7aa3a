"""Chat Completions, the API of most "OpenAI compatible" servers, as values."""

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
    openai_url,
    reported,
    whole,
)

_REASONS = {"length": CUT_SHORT, "content_filter": FILTERED}


@frozen
class ChatCompletions:
    """``POST …/chat/completions``, always streamed."""

    speech: Protocol = "openai-compatible"

    def is_offered_by(self, endpoint: ResolvedEndpoint) -> bool:
        """See `Wire`."""
        offers = endpoint.capabilities
        return endpoint.protocol == self.speech and (offers is None or offers.chat_completions)

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
            "messages": [
                {"role": one.role, "content": content(one, _text, _picture)} for one in messages
            ],
            "stream": True,
        }
        if effort in OPENAI_EFFORTS:
            body["reasoning_effort"] = OPENAI_EFFORTS[effort]
        url = openai_url(endpoint.base_url, "/chat/completions")
        return ModelRequest(url, bearer(endpoint), msgspec.json.encode(body))

    def reader(self) -> ChatReader:
        """See `Wire`."""
        return ChatReader()


def _text(text: str) -> Part:
    return {"type": "text", "text": text}


def _picture(one: Attachment) -> Part:
    return {"type": "image_url", "image_url": {"url": one.url}}


class _Delta(msgspec.Struct):
    content: Any = None
    refusal: Any = None
    reasoning_content: Any = None
    reasoning: Any = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Counted(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Counted | None = None
    error: Any = None


@define
class ChatReader:
    """Chunks, ended by ``[DONE]``; a server that forgets that has at least given its reason."""

    _said: Pieces = field(factory=Pieces)
    _thought: Pieces = field(factory=Pieces)
    _reason: str | None = None
    _usage: Usage | None = None
    _is_done: bool = False

    def take(self, event: ServerEvent) -> bool:
        """See `Reader`."""
        if event.data.strip() == b"[DONE]":
            self._is_done = True
            return True
        if event.name == "error":
            raise reported(decoded(event.data, dict))
        chunk = decoded(event.data, _Chunk)
        if chunk.error:
            raise reported(chunk.error)
        if chunk.usage is not None:
            self._usage = Usage(chunk.usage.prompt_tokens or 0, chunk.usage.completion_tokens or 0)
        # One reply is asked for; a server that makes more is not listened to.
        for choice in (chunk.choices or ())[:1]:
            if choice.delta is not None:
                self._delta(choice.delta)
            self._reason = choice.finish_reason or self._reason
        return False

    def _delta(self, delta: _Delta) -> None:
        for part in delta.content if isinstance(delta.content, list) else [delta.content]:
            # Some servers send parts, as in a message, with thinking among them.
            if isinstance(part, dict):
                part = part.get("text") if part.get("type") == "text" else None
            self._said.add(part)
        self._said.add(delta.refusal)
        # Two names for the same, which some servers send side by side.
        self._thought.add(delta.reasoning_content or delta.reasoning)

    def reply(self) -> Reply:
        """See `Reader`."""
        ended = self._is_done or self._reason is not None
        cut_short = _REASONS.get(self._reason or "")
        return whole(self._said, self._thought, ended, cut_short, self._usage)
