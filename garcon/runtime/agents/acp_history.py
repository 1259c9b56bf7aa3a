"""How what an agent of this protocol remembers of a session is read back: as it tells it when it
loads the session, or out of files of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from attrs import field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from garcon.contract.limits import MIB
from garcon.contract.runs import NativeSession, RunFailure
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError
from garcon.runtime.agents import claude_history, gemini_store
from garcon.runtime.agents.acp_replay import Replay
from garcon.runtime.agents.conversation import Output, Ready, Refused, Send
from garcon.runtime.agents.native_history import Piece, hand_over, in_pieces, no_history, not_read
from garcon.runtime.agents.process import AgentProcess, Exit
from garcon.runtime.interfaces import TakeRows
from garcon.runtime.session_limits import SessionLimits

SILENCE = 120.0
"""Seconds for which an agent may say nothing: some are slow to start."""
REPLAY = 256 * MIB
"""What it may say in all: its rows are kept until they are whole."""


@frozen
class Asked:
    """The session of an agent, and how it is started."""

    session: NativeSession
    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)


class HistoryWays(Protocol):
    """How one agent's history is read."""

    def read(self, reactor: Any, asked: Asked, take: TakeRows) -> Deferred[None]:
        """See `IAgentHistory.read_history`."""


@frozen
class StoredHistory:
    """In files of its own: `pieces` reads them, in a thread."""

    pieces: Callable[[NativeSession, Mapping[str, str]], Iterator[Piece]]

    def read(self, reactor: Any, asked: Asked, take: TakeRows) -> Deferred[None]:
        """Hand over what the files say."""
        return hand_over(reactor, partial(self.pieces, asked.session, asked.environment), take)


@frozen
class ReplayedHistory:
    """As `session/load` tells it, to a process of its own."""

    @returns_deferred
    async def read(self, reactor: Any, asked: Asked, take: TakeRows) -> None:
        """Hand over what the agent tells."""
        asking = _Asking(reactor, asked.session)
        try:
            rows = await asking.rows(asked)
        finally:
            await asking.close()
        if not rows:
            # Some answer that they have loaded whatever they are asked for.
            raise no_history("The agent tells nothing of such a session.")
        for piece in in_pieces(rows):
            await take(piece)


class _Asking:
    """One process, ended by `close`."""

    _log = Logger()

    def __init__(self, reactor: Any, session: NativeSession) -> None:
        self._clock: IReactorTime = reactor
        self._replay = Replay(session)
        self._over: Deferred[None] = Deferred()
        self._process = AgentProcess(
            reactor, self._received, self._ended, self._exceeded, SessionLimits(output=REPLAY)
        )

    async def rows(self, asked: Asked) -> list[Any]:
        """Start it and return what it tells.  Raises `GarconError`."""
        self._process.start(asked.command, asked.environment, asked.session.project_path)
        self._late = self._clock.callLater(SILENCE, self._is_late)
        try:
            self._take(self._replay.begin())
            await self._over
        finally:
            if self._late.active():
                self._late.cancel()
        for kind in sorted(self._replay.unknown):
            self._log.info("a history holds what is not known: {kind}", kind=kind)
        return self._replay.rows

    async def close(self) -> None:
        """End it, if it was begun."""
        if self._process.pid:
            await self._process.end("TERM")

    def _received(self, message: dict[str, Any]) -> None:
        if self._late.active():
            self._late.reset(SILENCE)
        self._take(self._replay.received(message))

    def _take(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Send(message):
                    self._process.send(message)
                case Ready():
                    self._settle(None)
                case Refused(text):
                    self._settle(not_read(text))

    def _is_late(self) -> None:
        self._settle(not_read(f"the agent said nothing for {SILENCE:g} seconds"))

    def _ended(self, exit: Exit) -> None:
        tail = self._process.stderr_tail()
        self._settle(not_read(f"the agent {exit}: {tail}" if tail else f"the agent {exit}"))

    def _exceeded(self, failure: RunFailure) -> None:
        self._settle(not_read(failure.message))

    def _settle(self, error: GarconError | None) -> None:
        if self._over.called:
            return
        if error is None:
            self._over.callback(None)
        else:
            self._over.errback(error)


REPLAYED = ReplayedHistory()
CLAUDES = StoredHistory(claude_history.pieces)
"""The adapter's sessions are Claude Code's."""
GEMINIS = StoredHistory(gemini_store.pieces)
