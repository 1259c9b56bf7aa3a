"""Answers of two doors, made comparable: known values become their names, and what may differ
becomes what it is.  Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import define, field

from garcon.cli.render import json_text
from garcon.testing.matrix.differences import Allowed, Kind, fits


@define
class Mask:
    """Covers the answers to one case at one door.  `used` collects the allowances that were
    needed, and `reasons` why.
    """

    _allowed: Allowed
    _names: Mapping[str, str]
    used: set[str] = field(factory=set)
    reasons: set[str] = field(factory=set)
    _seen: dict[str, int] = field(factory=dict, init=False)

    def body(self, content: bytes) -> bytes:
        """Return a body whose allowed members are covered; what is not JSON only has its names."""
        try:
            value = msgspec.json.decode(content)
        except msgspec.DecodeError:
            return self._named(content.decode("utf-8", "backslashreplace")).encode()
        # Only a form that survives being read and written is compared by its values.
        exact = msgspec.json.encode(value) == content
        covered = msgspec.json.encode(self._covered(value))
        return covered if exact else b"not canonical: " + covered

    def output(self, text: str) -> str:
        """Return what a command printed, alike."""
        if text.startswith("{"):
            value = json.loads(text)
            exact = "" if json_text(value) == text else "not canonical: "
            return exact + json_text(self._covered(value))
        text = self._named(text)
        for printed in self._allowed.printed:
            text = re.sub(printed.pattern, self._replaced(printed.kind), text, flags=re.MULTILINE)
        return text

    def _replaced(self, kind: Kind) -> Any:
        def replace(found: re.Match[str]) -> str:
            self.used.add(found.re.pattern)
            self.reasons.add(kind.value)
            whole, start = found[0], found.start(0)
            value = self._word(kind, found[1])
            return whole[: found.start(1) - start] + value + whole[found.end(1) - start :]

        return replace

    def _covered(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._named(value)
        if isinstance(value, list):
            return [self._covered(each) for each in value]
        if not isinstance(value, dict):
            return value
        return {self._named(name): self._member(name, each) for name, each in value.items()}

    def _member(self, name: str, value: Any) -> Any:
        kind = self._allowed.members.get(name)
        if kind is None or not fits(kind, value):
            return self._covered(value)
        self.used.add(name)
        self.reasons.add(kind.value)
        if kind is Kind.ID:
            if value is None:
                return None
            known = value in self._names.values()
            return self._named(value) if known else self._word(kind, value)
        return self._word(kind, str(value))

    def _word(self, kind: Kind, value: str) -> str:
        if kind is not Kind.ID:
            return f"<{kind.name.lower()}>"
        # The same id twice is the same id twice at the other door, too.
        return f"<id {self._seen.setdefault(value, len(self._seen) + 1)}>"

    def _named(self, text: str) -> str:
        for name, value in sorted(self._names.items(), key=lambda one: -len(one[1])):
            if value:
                text = text.replace(value, f"{{{name}}}")
        return text
