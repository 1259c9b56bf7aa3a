"""The models of an agent of this protocol: those of its manifest until it has told its own, by a
command that lists them or when it opens a session.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field
from msgspec.structs import replace

from garcon.contract.catalogs import Model
from garcon.runtime.agents.question import ask_program
from garcon.runtime.agents.remembered import Remembered

PATIENCE = 6.0
"""Seconds for the command: a catalog waits for it."""
KEPT, FAILED_KEPT = 3600.0, 60.0
"""Seconds for which a list is good, and none."""
MODELS = 500
"""More are not shown."""


@define(eq=False)
class AcpModels:
    """Asks one process at a time, whoever wants to know.  `images`: they take pictures."""

    _reactor: Any
    _shown: tuple[Model, ...]
    """Until it has told its own."""
    _images: bool
    _command: Sequence[str] | None
    _path: str
    """Where its program is looked for."""
    _known: Remembered[tuple[Model, ...]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._known = Remembered(self._reactor, self._shown)

    async def models(self, environment: Mapping[str, str]) -> tuple[Model, ...]:
        """Return what can be chosen, the usual first.  Cancelling ends the question; whoever waits
        for it asks again.
        """
        command = self._command
        if command is None:
            return self._known.value
        of = _identity(command[0], self._path)

        async def ask() -> tuple[tuple[Model, ...], float]:
            said = await ask_program(self._reactor, command, environment, PATIENCE)
            self.learned(listed_in(said or b""))
            # It is good also where a session that was opened meanwhile has told.
            return self._known.value, KEPT if self._known.is_good(of) else FAILED_KEPT

        return await self._known.get(of, ask)

    def learned(self, listed: Sequence[Model]) -> None:
        """Take what it lists; its own choice goes on to be the first where it has a name here.
        Its command need not be asked for a while then.
        """
        if not listed:
            return
        first = self._known.value[:1]
        told = (replace(one, supports_images=self._images) for one in listed[:MODELS])
        known = (*first, *(one for one in told if one.value != first[0].value))
        of = None if self._command is None else _identity(self._command[0], self._path)
        self._known.take(of, known, KEPT)


def listed_in(said: bytes) -> list[Model]:
    """Read a list of one model a line; other lines are none."""
    lines = said.decode("utf-8", "replace").split("\n")
    names = dict.fromkeys(line.strip() for line in lines)
    return [Model(value=name, label=name) for name in names if _is_name(name)]


def _is_name(line: str) -> bool:
    return "/" in line and line.isprintable() and " " not in line and len(line) <= 200


def _identity(program: str, path: str) -> object:
    """Return what changes when another version is installed."""
    file = shutil.which(program, path=path)
    try:
        found = os.stat(file or "")
    except OSError:
        return None
    return file, found.st_ino, found.st_size, found.st_mtime_ns
