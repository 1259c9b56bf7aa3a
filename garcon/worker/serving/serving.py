"""Everything a worker serves over its link, put together: methods, streams, and what ends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from garcon.deferreds import Tasks, returns_deferred
from garcon.link.interfaces import Handler
from garcon.runtime.interfaces import IExecutorRuntime
from garcon.worker.serving.backlog import Backlog
from garcon.worker.serving.bindings import Binding, Bindings
from garcon.worker.serving.continuity import EndWithSession, IContinuity
from garcon.worker.serving.methods import Methods
from garcon.worker.serving.relay import Relay


class Serving:
    """The worker's side of its controller's sessions, over however many of them.

    `offer` queues one numbered producer frame on the current session and says whether it was
    admitted.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        runtime: IExecutorRuntime,
        offer: Callable[[int, Struct], bool],
        backlog: Backlog | None = None,
    ) -> None:
        self._clock = clock
        self._tasks = Tasks()
        self._relay = Relay(clock, offer, backlog or Backlog())
        self._bindings = Bindings(self._relay, self._overflowed)
        self._continuity: IContinuity = EndWithSession(runtime, self._bindings, self._tasks)
        self._methods = Methods(runtime, self._bindings, self._continuity)

    @property
    def streams(self) -> int:
        """How many run streams are open."""
        return len(self._bindings)

    def handlers(self) -> Mapping[str, Handler]:
        """Return what the link dispatches to, by method name."""
        return self._methods.handlers()

    def session_lost(self, generation: str) -> None:
        """A session of the controller has ended."""
        self._continuity.session_lost(self._bindings.of_generation(generation))

    def acknowledged(self, acknowledgements: dict[str, int]) -> None:
        """The controller has these frames."""
        self._bindings.acknowledged(acknowledgements)

    @returns_deferred
    async def delivered(self, seconds: float) -> None:
        """Fire once the controller has the ends of all ended runs, or the time is over."""
        waiting = self._bindings.delivered()
        try:
            await waiting.addTimeout(seconds, self._clock)
        except TimeoutError:
            self._log.debug("the controller did not take the ends of all runs in time")

    def stop(self) -> Deferred[None]:
        """Offer nothing more and end what is under way."""
        self._relay.stop()
        return self._tasks.stopService()

    def _overflowed(self, binding: Binding) -> None:
        self._continuity.overflowed(binding)
