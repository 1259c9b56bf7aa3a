"""What an agent was told and nobody else may read: taken out of everything it says, in whatever
form it repeats it.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import msgspec

from garcon.contract.providers import ResolvedEndpoint
from garcon.contract.runs import RunEvent

SHORTEST = 4
"""Shorter ones are words like others, and would be taken out of every sentence."""
_INSTEAD = "[secret]"
_OPEN = frozenset({"http-referer", "referer", "user-agent", "x-title", "x-openrouter-title"})
"""Headers by which a client says who it is, in words that may stand in any text."""


class Secrets:
    """The secrets of one process; false when there are none."""

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        forms = {
            form
            for secret in secrets
            if secret and len(secret) >= SHORTEST
            for form in (secret, json.dumps(secret)[1:-1], html.escape(secret), quote(secret, ""))
        }
        # The longest first: a secret may be the beginning of another.
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self._found = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    @classmethod
    def of(cls, endpoint: ResolvedEndpoint | None) -> Secrets:
        """Return those of an endpoint: its key, and what its headers say beside who asks."""
        if endpoint is None:
            return cls()
        told = (v for name, v in endpoint.headers.items() if name.lower() not in _OPEN)
        return cls((endpoint.api_key, *told))

    def __bool__(self) -> bool:
        return self._found is not None

    def out_of(self, text: str) -> str:
        """Return a text without them."""
        return text if self._found is None else self._found.sub(_INSTEAD, text)

    def out_of_event(self, event: RunEvent) -> RunEvent:
        """Return an event without them, wherever in it they are."""
        if self._found is None:
            return event
        told: RunEvent = msgspec.convert(self._out_of(msgspec.to_builtins(event)), RunEvent)
        return told

    def _out_of(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.out_of(value)
        if isinstance(value, list):
            return [self._out_of(item) for item in value]
        if isinstance(value, dict):
            return {self.out_of(str(key)): self._out_of(item) for key, item in value.items()}
        return value
