"""Everything a worker serves over its link, put together: methods, streams, and what ends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from garcon.deferreds import Tasks, returns_deferred
from garcon.link.interfaces import Handler, ICapturedLink
from garcon.link.settings import LinkSettings
from garcon.runtime.interfaces import (
    IExecutorRuntime,
    IFileHost,
    ILeftoverHost,
    INativeHistory,
    ITerminalHost,
)
from garcon.worker.serving.answers import Answers
from garcon.worker.serving.backlog import Backlog
from garcon.worker.serving.bindings import Bindings
from garcon.worker.serving.continuity import Continuity
from garcon.worker.serving.files import FileServing
from garcon.worker.serving.history import HistoryServing
from garcon.worker.serving.leftovers import LeftoverServing
from garcon.worker.serving.methods import Methods
from garcon.worker.serving.relay import Relay
from garcon.worker.serving.terminals import Send, TerminalServing


class Serving:
    """The worker's side of its controller's sessions, over however many of them.

    `offer` queues one numbered producer frame on the current session and says whether it was
    admitted; `tell` does so with one terminal event.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        runtime: IExecutorRuntime,
        offer: Callable[[int, Struct], bool],
        backlog: Backlog | None = None,
        settings: LinkSettings | None = None,
        tell: Send = lambda _: False,
    ) -> None:
        settings = settings or LinkSettings()
        self._clock = clock
        self._tasks = Tasks()
        self._relay = Relay(clock, offer, backlog or Backlog(), settings.retry)
        self._bindings = Bindings(self._relay)
        self._continuity = Continuity(clock, runtime, self._bindings, self._tasks, settings)
        self._methods = Methods(runtime, self._bindings, self._continuity)
        self.terminals: TerminalServing | None = None
        """Where the runtime has terminals."""
        if ITerminalHost.providedBy(runtime):
            self.terminals = TerminalServing(runtime.terminals, tell, Answers(clock))
        self._files = FileServing(clock, runtime.files) if IFileHost.providedBy(runtime) else None
        self._history: HistoryServing | None = None
        if INativeHistory.providedBy(runtime):
            self._history = HistoryServing(clock, runtime)
        self._leftovers: LeftoverServing | None = None
        if ILeftoverHost.providedBy(runtime):
            self._leftovers = LeftoverServing(runtime.leftovers)

    @property
    def streams(self) -> int:
        """How many run streams are open."""
        return len(self._bindings)

    def handlers(self) -> Mapping[str, Handler]:
        """Return what the link dispatches to, by method name."""
        terminals = {} if self.terminals is None else self.terminals.handlers()
        files = {} if self._files is None else self._files.handlers()
        leftovers = {} if self._leftovers is None else self._leftovers.handlers()
        history = {} if self._history is None else self._history.handlers()
        return {**self._methods.handlers(), **terminals, **files, **leftovers, **history}

    def session_started(self, captured: ICapturedLink) -> None:
        """A session of a controller is there."""
        self._continuity.session_started(captured.generation)

    def session_lost(self, captured: ICapturedLink) -> None:
        """A session of a controller has ended."""
        self._continuity.session_lost(captured.generation, captured.peer.runtime_id)
        if self.terminals is not None:
            self.terminals.session_lost(captured.generation)
        if self._history is not None:
            self._history.session_lost(captured.generation)

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
        self._continuity.stop()
        if self._history is not None:
            self._history.stop()
        return self._tasks.stopService()
