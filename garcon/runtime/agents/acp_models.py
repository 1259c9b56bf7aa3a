"""The models of an agent of this protocol: those of its manifest until it has told its own, by a
command that lists them or when it opens a session.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define
from msgspec.structs import replace
from twisted.internet.interfaces import IReactorTime

from garcon.contract.catalogs import Model
from garcon.deferreds import Waiters
from garcon.runtime.agents.question import ask_program

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
    _known: tuple[Model, ...]
    _images: bool
    _command: Sequence[str] | None
    _environment: Mapping[str, str]
    _of: object = None
    _until: float = 0.0
    _asking: Waiters[None] | None = None

    async def models(self) -> tuple[Model, ...]:
        """Return what can be chosen, the usual first.  Cancelling ends the question, for all."""
        if self._command is None:
            return self._known
        clock: IReactorTime = self._reactor
        of = _identity(self._command[0], self._environment)
        if self._is_fresh(of):
            return self._known
        if self._asking is not None:
            await self._asking.wait()
            return self._known
        self._asking = Waiters()
        try:
            said = await ask_program(self._reactor, self._command, self._environment, PATIENCE)
            listed = listed_in(said or b"")
            if not listed and not self._is_fresh(of):
                # Fresh it is where a session that was opened meanwhile has told.
                self._of, self._until = of, clock.seconds() + FAILED_KEPT
            self.learned(listed)
        finally:
            asking, self._asking = self._asking, None
            asking.fire(None)
        return self._known

    def _is_fresh(self, of: object) -> bool:
        clock: IReactorTime = self._reactor
        return self._of == of and clock.seconds() < self._until

    def learned(self, listed: Sequence[Model]) -> None:
        """Take what it lists; its own choice goes on to be the first where it has a name here.
        Its command need not be asked for a while then.
        """
        if not listed:
            return
        if self._command is not None:
            clock: IReactorTime = self._reactor
            self._of = _identity(self._command[0], self._environment)
            self._until = clock.seconds() + KEPT
        first = self._known[:1]
        told = (replace(one, supports_images=self._images) for one in listed[:MODELS])
        self._known = (*first, *(one for one in told if one.value != first[0].value))


def listed_in(said: bytes) -> list[Model]:
    """Read a list of one model a line; other lines are none."""
    lines = said.decode("utf-8", "replace").split("\n")
    names = dict.fromkeys(line.strip() for line in lines)
    return [Model(value=name, label=name) for name in names if _is_name(name)]


def _is_name(line: str) -> bool:
    return "/" in line and line.isprintable() and " " not in line and len(line) <= 200


def _identity(program: str, environment: Mapping[str, str]) -> object:
    """Return what changes when another version is installed."""
    path = shutil.which(program, path=environment.get("PATH", os.defpath))
    try:
        found = os.stat(path or "")
    except OSError:
        return None
    return path, found.st_ino, found.st_size, found.st_mtime_ns
