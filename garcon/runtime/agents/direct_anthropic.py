"""Anthropic's Messages API, as values."""

from __future__ import annotations

import re
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
    ModelRequest,
    Pieces,
    Reply,
    Usage,
    decoded,
    headers,
    reported,
    whole,
)

VERSION = "2023-06-01"
_REASONS = {
    "max_tokens": CUT_SHORT,
    "model_context_window_exceeded": "the conversation has filled the model's context window",
    "refusal": "the model declined to go on",
}

_TOKENS, _TOKENS_LARGE = 8_192, 32_000
"""The most tokens of a reply, which this API wants to be told: what every server's models can make,
and what Claude's can since version 4.
"""
_BESIDE = 8_000
"""What a reply may have beside its thinking, where that has a number of its own."""
_BUDGETS: dict[ThinkingMode, int] = {
    "low": 4_000,
    "medium": 8_000,
    "high": 16_000,
    "xhigh": 20_000,
    "max": 24_000,
    "ultra": 24_000,
}
_EFFORTS: dict[ThinkingMode, str] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
    "ultra": "max",
}
_CLAUDE = re.compile(r"claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")


@frozen
class AnthropicMessages:
    """``POST …/v1/messages``, always streamed."""

    speech: Protocol = "anthropic-messages"

    def is_offered_by(self, endpoint: ResolvedEndpoint) -> bool:
        """See `Wire`."""
        return endpoint.protocol == self.speech

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
                {"role": one.role, "content": content(one, _text, _picture, _document)}
                for one in messages
            ],
            "stream": True,
            **thinking(model, effort),
        }
        own = {"anthropic_version": VERSION}
        if endpoint.api_key:
            own["x_api_key"] = endpoint.api_key
        return ModelRequest(
            url(endpoint.base_url), headers(endpoint, **own), msgspec.json.encode(body)
        )

    def reader(self) -> MessageReader:
        """See `Wire`."""
        return MessageReader()


def url(base: str) -> str:
    """Return the one route, below a base with or without the version (control.md B.6)."""
    base = base.rstrip("/")
    return f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"


def thinking(model: str, effort: ThinkingMode) -> dict[str, Any]:
    """Return the members that say how much a model may think and make.

    Claude 4.6 and later is told an effort, and from 4.7 on takes nothing else; what came before,
    and other makers' models behind this API, are told a number of tokens.
    """
    found = _CLAUDE.search(model)
    version = (0, 0) if found is None else (int(found[1]), int(found[2] or 0))
    if effort not in _BUDGETS:
        return {"max_tokens": _TOKENS_LARGE if version >= (4, 0) else _TOKENS}
    if version < (4, 6):
        budget = _BUDGETS[effort]
        return {
            "max_tokens": budget + _BESIDE,
            "thinking": {"type": "enabled", "budget_tokens": budget},
        }
    name = _EFFORTS[effort]
    if name == "xhigh" and version < (4, 7):
        name = "high"
    return {
        "max_tokens": _TOKENS_LARGE,
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": name},
    }


def _text(text: str) -> Part:
    return {"type": "text", "text": text}


def _picture(one: Attachment) -> Part:
    return {"type": "image", "source": _source(one)}


def _document(one: Attachment) -> Part:
    return {"type": "document", "source": _source(one), "title": one.name}


def _source(one: Attachment) -> Part:
    return {"type": "base64", "media_type": one.mime_type, "data": one.content}


class _Delta(msgspec.Struct):
    type: str = ""
    text: Any = None
    thinking: Any = None
    stop_reason: str | None = None


class _Counted(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Started(msgspec.Struct):
    usage: _Counted | None = None


class _Event(msgspec.Struct):
    type: str = ""
    delta: _Delta | None = None
    content_block: _Delta | None = None
    message: _Started | None = None
    usage: _Counted | None = None
    error: Any = None


@define
class MessageReader:
    """Blocks of text and thinking, ended by ``message_stop``."""

    _said: Pieces = field(factory=Pieces)
    _thought: Pieces = field(factory=Pieces)
    _reason: str | None = None
    _given: int = 0
    _made: int = 0
    _is_done: bool = False

    def take(self, event: ServerEvent) -> bool:
        """See `Reader`."""
        if event.name == "ping":
            return False
        found = decoded(event.data, _Event)
        match found.type or event.name:
            case "error":
                raise reported(found.error)
            case "message_start" if found.message is not None:
                self._count(found.message.usage)
            case "content_block_start" if found.content_block is not None:
                if found.content_block.type == "thinking" and self._thought:
                    self._thought.add("\n\n")
                self._take(found.content_block)
            case "content_block_delta" if found.delta is not None:
                self._take(found.delta)
            case "message_delta":
                self._count(found.usage)
                if found.delta is not None:
                    self._reason = found.delta.stop_reason or self._reason
            case "message_stop":
                self._is_done = True
        return self._is_done

    def _take(self, delta: _Delta) -> None:
        if delta.type in ("text", "text_delta"):
            self._said.add(delta.text)
        elif delta.type in ("thinking", "thinking_delta"):
            self._thought.add(delta.thinking)

    def _count(self, usage: _Counted | None) -> None:
        """Take the numbers so far; the last ones stand."""
        if usage is not None:
            self._given = usage.input_tokens or self._given
            self._made = usage.output_tokens or self._made

    def reply(self) -> Reply:
        """See `Reader`."""
        ended = self._is_done or self._reason is not None
        usage = Usage(self._given, self._made) if self._given or self._made else None
        cut_short = _REASONS.get(self._reason or "")
        return whole(self._said, self._thought, ended, cut_short, usage)
