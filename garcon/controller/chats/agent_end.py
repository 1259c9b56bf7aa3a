"""The end of a turn's run as its executor makes it: asked for, and waited for as long as something
still comes.
"""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred, TimeoutError, maybeDeferred
from twisted.logger import Logger

from garcon.contract.limits import DEAD_AFTER
from garcon.contract.runs import RunEnded, RunEvent
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.interruption import Fate, Interruption
from garcon.controller.chats.state import State
from garcon.deferreds import Waiters

ABORT_WAIT, END_WAIT = DEAD_AFTER + 1.0, 10.0
"""Seconds for the executor to take a stop, and then for the run's end to arrive.  A dead link is
noticed in the first of them, and both fit into the time of the operation.
"""


class AgentEnd:
    """Knows whether a run's end has come.  Owned by the turn, which tells it what it hears."""

    _log = Logger()

    def __init__(self, state: State, chat: Chat, run_id: str) -> None:
        self._state = state
        self._chat = chat
        self._run_id = run_id
        self._asking: Interruption | None = None
        self._heard = 0.0
        self._coming: Waiters[None] = Waiters()
        self.event: RunEnded | None = None
        """The end, once it has come."""

    def noticed(self, event: RunEvent) -> None:
        """Something of the run has arrived; call `told` once the turn has taken it."""
        self._heard = self._state.clock.seconds()
        if isinstance(event, RunEnded):
            self.event = self.event or event

    @property
    def has_come(self) -> bool:
        """Whether the run's end has."""
        return self.event is not None

    def told(self) -> None:
        """Let those go on who wait for an end that has come."""
        if self.has_come:
            self._coming.fire(None)

    def ask(self) -> Interruption:
        """Ask the executor to end the run; whatever keeps it from being asked is a failed stop."""

        def asked() -> Deferred[bool]:
            runtime = self._state.executors.existing(self._chat.record.executor_id)
            return runtime.abort(self._run_id)

        return Interruption(self._run_id, maybeDeferred(asked))

    async def fate(self, interruption: Interruption) -> Fate:
        """Wait for the executor to take a stop, unless its link is down."""
        self._asking = interruption
        try:
            if self._is_reconnecting:
                return interruption.fate
            return await interruption.decided().addTimeout(ABORT_WAIT, self._state.clock)
        except TimeoutError:
            if self._is_reconnecting:
                return interruption.fate
            interruption.cancel()
            return Fate.FAILED
        finally:
            self._asking = None

    async def soon(self) -> bool:
        """Wait for the run's end to arrive; return whether it has."""
        if not self.has_come:
            try:
                await self._coming.wait().addTimeout(END_WAIT, self._state.clock)
            except TimeoutError:
                self._log.warn("{run} was stopped but does not end", run=self._run_id)
        return self.has_come

    async def late(self) -> None:
        """Wait for an end that comes behind whatever the run said before, which can take its
        time; nobody waits for a run that is silent over a link that is up.
        """
        while not await self.soon():
            if not self._is_reconnecting and self._is_quiet:
                return

    async def abort(self) -> None:
        """End the run of a turn that is over, best effort."""
        interruption = self.ask()
        try:
            if await self.fate(interruption) is Fate.UNDECIDED:
                await interruption.decided()
        except CancelledError:
            interruption.cancel()
            raise

    def executor_changed(self) -> None:
        """The executor's link was lost, or is back."""
        if self._asking is not None and self._is_reconnecting:
            self._asking.link_lost()

    @property
    def _is_reconnecting(self) -> bool:
        executor = self._chat.record.executor_id
        return self._state.executors.availability(executor) == "reconnecting"

    @property
    def _is_quiet(self) -> bool:
        return self._state.clock.seconds() - self._heard >= END_WAIT
