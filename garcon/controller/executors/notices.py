"""Telling of changed executors: at once, then at most once a second (control.md E.2)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from garcon.contract.events import ExecutorsChanged
from garcon.contract.executors import ExecutorSnapshot

PACE = 1.0


class ExecutorNotices:
    """Tells how all executors are, whenever that may have changed and did.

    A link that comes and goes many times in a second is told of with what it is at the end of it.
    """

    def __init__(
        self,
        clock: IReactorTime,
        snapshots: Callable[[], list[ExecutorSnapshot]],
        publish: Callable[[ExecutorsChanged], None],
    ) -> None:
        self._clock = clock
        self._snapshots = snapshots
        self._publish = publish
        self._told: list[ExecutorSnapshot] | None = None
        self._timer: IDelayedCall | None = None
        self._is_wanted = False
        self._is_over = False

    def changed(self) -> None:
        """Something of an executor may have changed."""
        self._is_wanted = True
        if self._timer is None and not self._is_over:
            # What is changing now may not be done with it: whoever changes it calls from within.
            self._timer = self._clock.callLater(0, self._due)

    def stop(self) -> None:
        """Tell of nothing more."""
        self._is_over = True
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _due(self) -> None:
        self._timer = None
        if not self._is_wanted:
            return
        self._is_wanted = False
        shown = self._snapshots()
        if shown == self._told:
            return
        self._told = shown
        self._timer = self._clock.callLater(PACE, self._due)
        self._publish(ExecutorsChanged(executors=shown))
