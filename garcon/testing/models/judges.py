"""Strict readers of what direct agents ask, one for each wire: anything that some compatible server
might refuse, and anything that the contract forbids, is a violation (existing-clients.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from attrs import Factory, frozen

from garcon.testing.models.server import HttpRequest

_ANY_HEADER = frozenset(
    {"host", "user-agent", "content-type", "content-length", "accept", "connection"}
)
_ROLES = ("user", "assistant")


@frozen(kw_only=True)
class _Judge:
    """What is the same on each wire.  `key` None: none may be sent."""

    base: str
    key: str | None = None
    extra_headers: Mapping[str, str] = Factory(dict)

    route: ClassVar[str]
    keys: ClassVar[frozenset[str]]
    wanted: ClassVar[Mapping[str, Any]]
    messages: ClassVar[str] = "messages"
    parts: ClassVar[Mapping[str, frozenset[str]]]

    def judge(self, request: HttpRequest) -> Iterator[str]:
        """See `Judge`."""
        if (request.method, request.path) == ("GET", f"{self.base}/models"):
            yield from self._headers(request.headers)
            return
        if (request.method, request.path) != ("POST", f"{self.base}{self.route}"):
            yield "not a route of this API"
            return
        headers, body = request.headers, request.body
        yield from self._headers(headers)
        if headers.get("content-type") != "application/json":
            yield "the content is not said to be JSON"
        if headers.get("accept") != "text/event-stream":
            yield "no event stream is asked for"
        yield from (f"the member {name}" for name in sorted(body.keys() - self.keys))
        for name, value in self.wanted.items():
            if body.get(name) is not value:
                yield f"{name} is {body.get(name)!r}"
        if not isinstance(body.get("model"), str) or not body["model"]:
            yield "no model"
        yield from self._messages(body.get(self.messages))
        yield from self._effort(body)

    def _credentials(self) -> dict[str, str]:
        return {} if self.key is None else {"authorization": f"Bearer {self.key}"}

    def _headers(self, headers: Mapping[str, str]) -> Iterator[str]:
        wanted = self._credentials() | dict(self.extra_headers)
        for name in sorted(headers.keys() - _ANY_HEADER - wanted.keys()):
            yield f"the header {name}"
        for name, value in wanted.items():
            if headers.get(name) != value:
                yield f"the header {name} is not what it should be"

    def _messages(self, messages: Any) -> Iterator[str]:
        if not isinstance(messages, list) or not messages:
            yield "no messages"
            return
        if messages[-1].get("role") != "user":
            yield "the last message is not the user's"
        for message in messages:
            if message.keys() != {"role", "content"}:
                yield f"a message with the members {sorted(message)}"
            elif message["role"] not in _ROLES:
                yield f"the role {message['role']}"
            else:
                yield from self._content(message["role"], message["content"])

    def _content(self, role: str, content: Any) -> Iterator[str]:
        if isinstance(content, str):
            if not content.strip():
                yield "a message without text"
            return
        if not isinstance(content, list) or not content or role != "user":
            yield f"content of the role {role} that is neither text nor parts"
            return
        for part in content:
            kind = part.get("type")
            if part.keys() - {"type"} != self.parts.get(kind):
                yield f"a part {kind} with the members {sorted(part)}"
            else:
                yield from self._part(kind, part)

    def _part(self, kind: str, part: Mapping[str, Any]) -> Iterator[str]:
        text = part.get("text")
        if "text" in part and (not isinstance(text, str) or not text.strip()):
            yield "a part without text"
        url = part.get("image_url") or part.get("file_data")
        url = url.get("url") if isinstance(url, dict) else url
        if url is not None and not str(url).startswith(("data:image/", "data:application/pdf;")):
            yield f"a part {kind} that is no data URL"

    def _effort(self, body: Mapping[str, Any]) -> Iterator[str]:
        return iter(())


_OPENAI_EFFORTS = ("low", "medium", "high", "xhigh")


@frozen(kw_only=True)
class ChatJudge(_Judge):
    """Chat Completions."""

    route: ClassVar[str] = "/chat/completions"
    keys: ClassVar[frozenset[str]] = frozenset({"model", "messages", "stream", "reasoning_effort"})
    wanted: ClassVar[Mapping[str, Any]] = {"stream": True}
    parts: ClassVar[Mapping[str, frozenset[str]]] = {
        "text": frozenset({"text"}),
        "image_url": frozenset({"image_url"}),
    }

    def _effort(self, body: Mapping[str, Any]) -> Iterator[str]:
        if body.get("reasoning_effort", "low") not in _OPENAI_EFFORTS:
            yield f"the effort {body['reasoning_effort']!r}"


@frozen(kw_only=True)
class ResponsesJudge(_Judge):
    """Responses."""

    route: ClassVar[str] = "/responses"
    keys: ClassVar[frozenset[str]] = frozenset({"model", "input", "stream", "store", "reasoning"})
    wanted: ClassVar[Mapping[str, Any]] = {"stream": True, "store": False}
    messages: ClassVar[str] = "input"
    parts: ClassVar[Mapping[str, frozenset[str]]] = {
        "input_text": frozenset({"text"}),
        "input_image": frozenset({"image_url"}),
        "input_file": frozenset({"filename", "file_data"}),
    }

    def _effort(self, body: Mapping[str, Any]) -> Iterator[str]:
        reasoning = body.get("reasoning", {"effort": "low"})
        if reasoning.keys() != {"effort"} or reasoning["effort"] not in _OPENAI_EFFORTS:
            yield f"the reasoning {reasoning!r}"


@frozen(kw_only=True)
class AnthropicJudge(_Judge):
    """Messages; `base` ends in the version."""

    route: ClassVar[str] = "/messages"
    keys: ClassVar[frozenset[str]] = frozenset(
        {"model", "max_tokens", "messages", "stream", "thinking", "output_config"}
    )
    wanted: ClassVar[Mapping[str, Any]] = {"stream": True}
    parts: ClassVar[Mapping[str, frozenset[str]]] = {
        "text": frozenset({"text"}),
        "image": frozenset({"source"}),
        "document": frozenset({"source", "title"}),
    }

    def _credentials(self) -> dict[str, str]:
        key = {} if self.key is None else {"x-api-key": self.key}
        return {"anthropic-version": "2023-06-01"} | key

    def _part(self, kind: str, part: Mapping[str, Any]) -> Iterator[str]:
        yield from super()._part(kind, part)
        source = part.get("source")
        if source is None:
            return
        if source.keys() != {"type", "media_type", "data"} or source["type"] != "base64":
            yield f"a source with the members {sorted(source)}"
        elif (kind == "document") != (source["media_type"] == "application/pdf"):
            yield f"a {kind} of the type {source['media_type']}"

    def _effort(self, body: Mapping[str, Any]) -> Iterator[str]:
        tokens, thinking = body.get("max_tokens"), body.get("thinking")
        if not isinstance(tokens, int) or tokens < 1:
            yield f"max_tokens is {tokens!r}"
        elif thinking is None:
            if "output_config" in body:
                yield "an effort without thinking"
        elif thinking.get("type") == "enabled":
            if not 1_024 <= thinking.get("budget_tokens", 0) < tokens or "output_config" in body:
                yield f"the thinking {thinking!r} of {tokens} tokens"
        elif thinking != {"type": "adaptive"} or body.get("output_config", {}).keys() != {"effort"}:
            yield f"the thinking {thinking!r}"
