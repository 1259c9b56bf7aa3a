"""One request to stop a turn, on its way to the executor: answered, failed, or kept.

A request is kept while the executor's link is down: it is delivered when the link is back, however
long that takes, and nobody has to wait for that.
"""

from __future__ import annotations

from enum import Enum

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from garcon.deferreds import Waiters
from garcon.errors import GarconError


class Fate(Enum):
    """What has become of the request so far."""

    TAKEN = "taken"
    """The executor had the run, and interrupts it."""
    NOT_THERE = "not-there"
    """The executor has no such run any more."""
    FAILED = "failed"
    UNDECIDED = "undecided"
    """Its link was lost meanwhile."""


class Interruption:
    """Knows the fate of one request.  Owned by the turn; `cancel` gives it up."""

    _log = Logger()

    def __init__(self, run_id: str, asked: Deferred[bool]) -> None:
        self._run_id = run_id
        self._asked = asked
        self._waiting: Waiters[Fate] = Waiters()
        self.fate = Fate.UNDECIDED
        asked.addCallbacks(self._answered, self._failed)

    def decided(self) -> Deferred[Fate]:
        """Fire with the fate once there is one, or as undecided when the link is lost."""
        waiting = self._waiting.wait()
        if self.fate is not Fate.UNDECIDED:
            self._waiting.fire(self.fate)
        return waiting

    def link_lost(self) -> None:
        """An answer can be long in coming now: let nobody wait for it who need not."""
        self._waiting.fire(self.fate)

    def cancel(self) -> None:
        """Give the request up."""
        self._asked.cancel()

    def _answered(self, there: bool) -> None:
        self._decide(Fate.TAKEN if there else Fate.NOT_THERE)

    def _failed(self, failure: Failure) -> None:
        if failure.check(GarconError, CancelledError):
            why = failure.getErrorMessage()
            self._log.warn("stopping {run} failed: {why}", run=self._run_id, why=why)
        else:
            self._log.failure("stopping {run} failed", failure=failure, run=self._run_id)
        self._decide(Fate.FAILED)

    def _decide(self, fate: Fate) -> None:
        self.fate = fate
        self._waiting.fire(fate)
