"""What the three model APIs have in common, as values: a request, its answer's reader, the reply.

A reader is fed the events of one answer.  What it collected counts only when the answer came to its
own end: there is no part of a reply.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import StringIO
from typing import Any, Protocol, TypeVar

import msgspec
from attrs import define, field, frozen

from garcon.contract.catalogs import Protocol as Speech
from garcon.contract.catalogs import ThinkingMode
from garcon.contract.decoding import decode, must_be_few
from garcon.contract.limits import KIB, MIB
from garcon.contract.providers import ResolvedEndpoint
from garcon.contract.version import VERSION
from garcon.runtime.agents.direct_events import ServerEvent
from garcon.runtime.agents.direct_messages import Message
from garcon.runtime.agents.scrubbing import Secrets

T = TypeVar("T")

REPLY = 8 * MIB
"""The most that a reply's text may have in UTF-8, and its thinking."""
EVENT = 16 * MIB
"""The most that one event of an answer may have: room for a whole reply, escaped."""
_ERROR_READ = 16 * KIB
"""Characters of a provider's own words that are looked at."""
_ERROR_CHARACTERS = 1_000

_EXTRA = ("authorization", "x-api-key", "host", "content-length", "content-type", "accept")
"""Headers that a profile cannot set: they are ours."""


class ProviderFailed(Exception):
    """A provider gave no reply; `text` says why, for people.

    `is_temporary`: the same request may succeed later, as nothing of an answer came; not before
    `retry_after` (the header, as it was) where the provider says so.
    """

    def __init__(
        self, text: str, *, is_temporary: bool = False, retry_after: str | None = None
    ) -> None:
        super().__init__(text)
        self.text = text
        self.is_temporary = is_temporary
        self.retry_after = retry_after


@frozen
class ModelRequest:
    """One request; its representation shows no header, as the key is in one of them."""

    url: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@frozen
class Usage:
    """What the provider counted, in tokens."""

    given: int
    made: int


@frozen
class Reply:
    """One whole reply.  `cut_short` says why the model stopped before it was done, if it did."""

    text: str
    thinking: str = ""
    cut_short: str | None = None
    usage: Usage | None = None


class Reader(Protocol):
    """Takes one answer, event by event."""

    def take(self, event: ServerEvent) -> bool:
        """Take the next event; True when the answer is over and nothing more is to be read.

        Raises `ProviderFailed`.
        """

    def reply(self) -> Reply:
        """Return the reply; raises `ProviderFailed` where the answer did not come to its end, or
        holds nothing.
        """


class Wire(Protocol):
    """One model API."""

    @property
    def speech(self) -> Speech:
        """The protocol of the endpoints that speak it."""

    def is_offered_by(self, endpoint: ResolvedEndpoint) -> bool:
        """Whether an endpoint speaks it, as far as its profile says."""

    def request(
        self,
        endpoint: ResolvedEndpoint,
        model: str,
        effort: ThinkingMode,
        messages: Sequence[Message],
    ) -> ModelRequest:
        """Return the request that asks `model` for the next message."""

    def reader(self) -> Reader:
        """Return a reader for its answer."""


@define
class Pieces:
    """A text that comes in pieces, joined once."""

    _limit: int = REPLY
    _size: int = 0
    _text: StringIO = field(factory=StringIO)

    def add(self, text: object) -> None:
        """Append what a delta holds, if it is text.  Raises `ProviderFailed` over the limit."""
        if not isinstance(text, str) or not text:
            return
        self._size += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if self._size > self._limit:
            raise ProviderFailed(f"The reply is longer than {self._limit} bytes.")
        self._text.write(text)

    def __bool__(self) -> bool:
        return self._size > 0

    def joined(self) -> str:
        """Return the text.  Halves of a character that came in two pieces are one; halves that stay
        alone become replacement characters.
        """
        text = self._text.getvalue()
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return text


def whole(
    text: Pieces, thinking: Pieces, ended: bool, cut_short: str | None, usage: Usage | None
) -> Reply:
    """Return what an answer amounts to; raises `ProviderFailed` where that is no reply."""
    if not ended:
        raise ProviderFailed("The provider's answer broke off before its end.")
    said = text.joined()
    if not said.strip():
        raise ProviderFailed(
            "The provider's answer is empty."
            if cut_short is None
            else f"The provider's answer is empty: {cut_short}"
        )
    return Reply(said, thinking.joined(), cut_short, usage)


def decoded(data: bytes, kind: type[T]) -> T:
    """Return an event's data as a shape; raises `ProviderFailed` for what is none.

    Halves of characters, which a server that cuts its text by UTF-16 units writes, are let through.
    """
    try:
        try:
            return decode(data, kind)
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, UnicodeDecodeError):
            must_be_few(data)
            return msgspec.convert(json.loads(data.decode("utf-8", "replace")), kind)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise ProviderFailed("The provider's answer could not be understood.") from None


def error_text(error: Any) -> str:
    """Return the beginning of what a provider says is wrong, from any of the shapes in use, on one
    line.  It may hold what the provider was sent, and is longer than what is shown: `shown`.
    """
    found = error
    for _ in range(3):
        if not isinstance(found, dict):
            break
        found = found.get("error") or found.get("message") or found.get("detail") or ""
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    text = text[:_ERROR_READ].encode("utf-8", "replace").decode("utf-8", "replace")
    return " ".join(text.split())


def shown(text: str, endpoint: ResolvedEndpoint) -> str:
    """Return a provider's words as they may be shown: without the secrets it was sent, which some
    repeat, in whatever form, and cut only then, so that no part of one is left at the end.
    """
    text = Secrets.of(endpoint).out_of(text)
    return text if len(text) <= _ERROR_CHARACTERS else text[:_ERROR_CHARACTERS] + "…"


def reported(error: Any) -> ProviderFailed:
    """Return the failure for an error inside an answer that had begun well."""
    return ProviderFailed(
        f"The provider reported an error: {error_text(error) or 'it did not say'}"
    )


def unstreamed(body: bytes) -> ProviderFailed:
    """Return the failure for an answer with a good status that is JSON: some servers tell of errors
    that way.
    """
    found = _object(body)
    if found is not None and found.get("error"):
        return reported(found["error"])
    return ProviderFailed("The provider did not stream its answer.")


def refused(status: int, body: bytes, retry_after: str | None = None) -> ProviderFailed:
    """Return the failure for an answer with an HTTP status that is not 200."""
    error = _object(body)
    said = error_text(error) if error is not None else ""
    text = f"The provider answered with HTTP status {status}"
    if 300 <= status < 400:
        text += " (redirects are not followed)"
    return ProviderFailed(
        f"{text}: {said}" if said else f"{text}.",
        is_temporary=(status in (408, 429) or status >= 500) and not _is_final(error),
        retry_after=retry_after,
    )


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_final(error: dict[str, Any] | None) -> bool:
    """Whether waiting cannot help although the status says so: the account has no money left."""
    inner = error.get("error") if error is not None else None
    return isinstance(inner, dict) and "insufficient_quota" in (
        inner.get("code"),
        inner.get("type"),
    )


def headers(endpoint: ResolvedEndpoint, **own: str) -> dict[str, str]:
    """Return the headers of a request; names in `own` have underscores for dashes."""
    kept = {name: value for name, value in endpoint.headers.items() if name.lower() not in _EXTRA}
    return {
        "User-Agent": f"garcon/{VERSION}",
        **kept,
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        **{name.replace("_", "-"): value for name, value in own.items()},
    }


def bearer(endpoint: ResolvedEndpoint) -> dict[str, str]:
    """Return the headers of a request to an OpenAI compatible server."""
    if endpoint.api_key:
        return headers(endpoint, Authorization=f"Bearer {endpoint.api_key}")
    return headers(endpoint)


def openai_url(base: str, route: str) -> str:
    """Return where a route of an OpenAI compatible server is: below the base, which is ``/v1``
    where it has no path, as for its list of models (control.md B.6).
    """
    base = base.rstrip("/")
    has_path = "/" in base.partition("://")[2]
    return f"{base}{route}" if has_path else f"{base}/v1{route}"


OPENAI_EFFORTS: dict[ThinkingMode, str] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "xhigh",
    "ultra": "xhigh",
}
"""What these servers call an effort; none is not said at all."""

CUT_SHORT = "the model reached the most tokens it may make in one reply"
FILTERED = "the provider's content filter stopped the model"
