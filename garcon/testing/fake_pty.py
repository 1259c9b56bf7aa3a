"""Terminals without processes: a test plays the shell, byte by byte, and moves the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import Clock
from zope.interface import implementer

from garcon.contract.terminals import (
    TerminalChunk,
    TerminalDetached,
    TerminalEvent,
    TerminalGone,
    TerminalOutput,
    TerminalSize,
)
from garcon.runtime.interfaces import ITerminalSink
from garcon.runtime.terminals.pty import PtyOwner
from garcon.runtime.terminals.service import Terminals
from garcon.testing.inline_threads import InlinePool, InlineReactor

AT = "2026-01-02T03:04:05.678Z"


@define(eq=False)
class WithThreads(InlineReactor):
    """A clock whose threads are the caller's; with `pool.held` set they wait for the test."""

    clock: Clock
    pool: InlinePool = field(factory=InlinePool)

    def seconds(self) -> float:
        return self.clock.seconds()

    def callLater(self, *arguments: Any, **more: Any) -> IDelayedCall:
        return self.clock.callLater(*arguments, **more)

    def getThreadPool(self) -> InlinePool:
        return self.pool


@define(eq=False)
class FakePty:
    """One shell that does nothing by itself."""

    owner: PtyOwner
    command: Sequence[str]
    environment: Mapping[str, str]
    directory: str
    sizes: list[TerminalSize]
    typed: list[bytes] = field(factory=list)
    done: list[bytes | TerminalSize] = field(factory=list)
    """What was typed and which sizes were set, in order."""
    is_held: bool = False
    is_writable: bool = True
    error: OSError | None = None
    """What the next operation meets."""
    has_exited: bool = False
    echo: bytes = b""
    """What a look finds, once."""
    ends: int = 0
    ending: Deferred[None] | None = None
    """What `end` waits for; the exit is then the test's to tell."""

    def write(self, data: bytes) -> None:
        self._fail()
        self.typed.append(data)
        self.done.append(data)

    def resize(self, size: TerminalSize) -> None:
        self._fail()
        self.sizes.append(size)
        self.done.append(size)

    def hold(self, is_held: bool) -> None:
        self.is_held = is_held

    def look(self) -> None:
        echo, self.echo = self.echo, b""
        if echo:
            self.say(echo)

    def end(self) -> Deferred[None]:
        self.ends += 1
        if self.ending is not None:
            return self.ending
        if not self.has_exited:
            self.exit(129)
        return succeed(None)

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error

    # -- the test's side

    def say(self, text: str | bytes) -> None:
        """Write some output."""
        self.owner.output_received(text.encode() if isinstance(text, str) else text)

    def block(self) -> None:
        """Read nothing."""
        self.is_writable = False

    def read_on(self) -> None:
        """Read again."""
        self.is_writable = True
        self.owner.input_wanted()

    def exit(self, code: int = 0) -> None:
        """End by itself."""
        self.has_exited = True
        self.owner.process_exited(code)


@define(eq=False)
class FakePtys:
    """Opens shells; `error` is what the next meets instead."""

    opened: list[FakePty] = field(factory=list)
    error: OSError | None = None

    def __call__(
        self,
        owner: PtyOwner,
        command: Sequence[str],
        environment: Mapping[str, str],
        directory: str,
        size: TerminalSize,
    ) -> FakePty:
        if self.error is not None:
            raise self.error
        opened = FakePty(owner, command, environment, directory, [size])
        self.opened.append(opened)
        return opened

    @property
    def last(self) -> FakePty:
        return self.opened[-1]


def fake_terminals(
    clock: Clock, ptys: FakePtys, base: str, pool: InlinePool | None = None
) -> Terminals:
    """Return the real service over such shells, with ids that are told apart at a glance."""
    numbers = count(1)
    return Terminals(
        WithThreads(clock, InlinePool() if pool is None else pool),
        base,
        {"SHELL": "/bin/sh"},
        {"PATH": "/bin:/usr/bin", "GARCON_RUNTIME": "executor"},
        ptys,
        now=lambda: AT,
        new_id=lambda: f"00000000-0000-4000-8000-{next(numbers):012x}",
    )


@implementer(ITerminalSink)
@define(eq=False)
class RecordingTerminalSink:
    """Remembers the events of an attachment; refuses them while `is_full`."""

    events: list[TerminalEvent] = field(factory=list)
    is_full: bool = False
    refused: int = 0

    def offer(self, event: TerminalEvent) -> bool:
        if self.is_full:
            self.refused += 1
            return False
        self.events.append(event)
        return True

    @property
    def chunks(self) -> list[TerminalChunk]:
        """All output so far."""
        return [c for e in self.events if isinstance(e, TerminalOutput) for c in e.chunks]

    @property
    def text(self) -> str:
        return "".join(chunk.data for chunk in self.chunks)

    @property
    def others(self) -> list[TerminalEvent]:
        """Everything that is no output."""
        return [event for event in self.events if not isinstance(event, TerminalOutput)]

    @property
    def is_over(self) -> bool:
        return any(isinstance(e, TerminalGone | TerminalDetached) for e in self.events)
