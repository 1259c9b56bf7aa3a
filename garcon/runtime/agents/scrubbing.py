"""What an agent was told and nobody else may read: taken out of everything it says, in whatever
form it repeats it: as it is, and as JSON, HTML, addresses and base64 write it.

Who turns it into something else, or says one half now and the other later, is not caught: a tool
that may read its environment may tell it.
"""

from __future__ import annotations

import html
import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast
from urllib.parse import quote

import msgspec

from garcon.contract.providers import ResolvedEndpoint
from garcon.contract.runs import NativeRow, RunEvent

T = TypeVar("T")

SHORTEST = 4
"""Shorter ones are words like others, and would be taken out of every sentence."""
SHORTEST_LETTERS = 8
"""Of base64, likewise."""
_INSTEAD = "[secret]"
_FOR_ADDRESSES = str.maketrans("+/", "-_")
_OPEN = frozenset({"http-referer", "referer", "user-agent", "x-title", "x-openrouter-title"})
"""Headers by which a client says who it is, in words that may stand in any text."""


class Secrets:
    """The secrets of one process; false when there are none."""

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        told = [secret for secret in secrets if secret and len(secret) >= SHORTEST]
        forms = {form for secret in told for form in _forms(secret)}
        # The longest first: a secret may be the beginning of another.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))

    @classmethod
    def of(cls, *endpoints: ResolvedEndpoint | None) -> Secrets:
        """Return those of endpoints."""
        return cls(secret for one in endpoints if one is not None for secret in secrets_of(one))

    def __bool__(self) -> bool:
        return bool(self._forms)

    def out_of(self, text: str) -> str:
        """Return a text without them."""
        # One look for each is many times as fast as an expression for all, and texts can be long.
        for form in self._forms:
            if form in text:
                text = text.replace(form, _INSTEAD)
        return text

    def out_of_start(self, text: str) -> str:
        """Return what is the start of a longer text without them; a part of one that was cut goes
        as well, but for three characters.
        """
        text = self.out_of(text)
        cut = self._part(lambda form, size: text.endswith(form[:size]))
        return text[:-cut] + _INSTEAD if cut else text

    def out_of_end(self, text: str) -> str:
        """Return what is the end of a longer text without them; likewise."""
        text = self.out_of(text)
        cut = self._part(lambda form, size: text.startswith(form[-size:]))
        return _INSTEAD + text[cut:] if cut else text

    def _part(self, is_there: Callable[[str, int], bool]) -> int:
        """Return the length of the longest part of a secret that is there."""
        sizes = ((form, size) for form in self._forms for size in range(SHORTEST, len(form)))
        return max((size for form, size in sizes if is_there(form, size)), default=0)

    def out_of_event(self, event: RunEvent) -> RunEvent:
        """Return an event without them, wherever in it they are."""
        return self._out_of_struct(event, cast(type[RunEvent], RunEvent))

    def out_of_row(self, row: NativeRow) -> NativeRow:
        """Return a row that an agent remembers without them."""
        return self._out_of_struct(row, cast(type[NativeRow], NativeRow))

    def _out_of_struct(self, value: T, kind: type[T]) -> T:
        if not self._forms:
            return value
        return msgspec.convert(self._out_of(msgspec.to_builtins(value)), kind)

    def _out_of(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.out_of(value)
        if isinstance(value, list):
            return [self._out_of(item) for item in value]
        if isinstance(value, dict):
            return {self.out_of(str(key)): self._out_of(item) for key, item in value.items()}
        return value


def secrets_of(endpoint: ResolvedEndpoint) -> Iterator[str]:
    """Return an endpoint's key, and what its headers say beside who asks."""
    for name, value in endpoint.headers.items():
        if name.lower() not in _OPEN:
            yield value
    if endpoint.api_key is not None:
        yield endpoint.api_key


def _forms(secret: str) -> Iterator[str]:
    yield from (secret, json.dumps(secret)[1:-1], html.escape(secret), quote(secret, ""))
    plain = secret.encode("utf-8", "replace")
    for before in range(3):
        # By where it begins among the three bytes that make four letters; those that what is
        # before and behind it has a share in are left out.
        letters = b64encode(bytes(before) + plain).decode("ascii")
        whole = letters[(before * 8 + 5) // 6 : (before + len(plain)) * 8 // 6]
        if len(whole) >= SHORTEST_LETTERS:
            yield whole
            yield whole.translate(_FOR_ADDRESSES)
