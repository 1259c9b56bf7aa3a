"""The launch of one turn's run: begun once, waited for 20 s, given up when it is stopped."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime

from garcon.contract.limits import LAUNCH_WAIT
from garcon.contract.runs import Launch
from garcon.deferreds import Waiters
from garcon.errors import CallError, GarconError
from garcon.runtime.interfaces import IExecutorRuntime, IRunSink

START_UNKNOWN = (
    "The executor was lost, or given up, while the agent was being started there. Whether it began"
    " is not known; it may have worked on this input."
)


class TurnStopped(GarconError):
    """The turn was stopped before its agent was known to have begun; it `may_have_begun` where
    nobody could say so any more.
    """

    def __init__(self, may_have_begun: bool = False) -> None:
        super().__init__("SESSION_BUSY", "The turn was stopped before it began.", status=409)
        self.may_have_begun = may_have_begun


class Launching:
    """Knows whether a turn's launch is under way.  Owned by the turn; `is_stopped` asks it."""

    def __init__(self, clock: IReactorTime, is_stopped: Callable[[], bool]) -> None:
        self._clock = clock
        self._is_stopped = is_stopped
        self._launching: Deferred[object] | None = None
        self._over: Waiters[None] = Waiters()

    @property
    def is_under_way(self) -> bool:
        return self._launching is not None

    async def run(self, runtime: IExecutorRuntime, launch: Launch, sink: IRunSink) -> None:
        """Launch, in at most 20 s; `TurnStopped` if a stop came meanwhile."""
        self._launching = runtime.launch(launch, sink).addTimeout(LAUNCH_WAIT, self._clock)
        try:
            await self._launching
        except (CancelledError, GarconError) as error:
            if self._is_stopped():
                raise TurnStopped(is_unknown(error)) from None
            raise
        except TimeoutError:
            raise GarconError(
                "INTERNAL_ERROR", f"The agent did not begin within {LAUNCH_WAIT:.0f} s.", status=500
            ) from None
        finally:
            self._launching = None
            self._over.fire(None)

    def cancel(self) -> None:
        """Give it up.  It is over then; what has begun of it is the executor's to end."""
        assert self._launching is not None
        self._launching.cancel()

    def over(self) -> Deferred[None]:
        """Fire once no launch is under way; at once where none is."""
        waiting = self._over.wait()
        if self._launching is None:
            self._over.fire(None)
        return waiting


def is_unknown(error: BaseException) -> bool:
    """Whether a launch that failed may have begun all the same."""
    return isinstance(error, CallError) and error.outcome == "unknown"
