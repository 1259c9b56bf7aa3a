"""What becomes of running work when the session that started it is lost.  One object decides; the
rest obeys.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define
from twisted.internet.defer import CancelledError
from twisted.logger import Logger
from zope.interface import Interface, implementer

from garcon.contract.runs import PermissionResponse
from garcon.deferreds import Tasks
from garcon.errors import GarconError
from garcon.runtime.interfaces import IExecutorRuntime
from garcon.worker.serving.bindings import Binding, Bindings


class IContinuity(Interface):
    """Decides the fate of bindings."""

    def session_lost(orphans: Sequence[Binding]) -> None:
        """The session these belong to has ended and will not come back."""

    def unwanted(binding: Binding) -> None:
        """The controller has closed a stream whose run it will hear no more of."""

    def overflowed(binding: Binding) -> None:
        """A run produced more than could be kept; it cannot be shown whole any more."""


@implementer(IContinuity)
@define(eq=False)
class EndWithSession:
    """A run ends with the session that started it: questions are denied, the agent is stopped."""

    _runtime: IExecutorRuntime
    _bindings: Bindings
    _tasks: Tasks
    _log = Logger()

    def session_lost(self, orphans: Sequence[Binding]) -> None:
        """Close the streams and stop their runs."""
        for binding in orphans:
            self.unwanted(binding)

    def unwanted(self, binding: Binding) -> None:
        """Close the stream and stop its run, which nobody could answer or see any more."""
        self._bindings.close(binding.binding_id)
        if binding.launching is not None:
            binding.launching.cancel()
        elif binding.run_id is not None and not binding.has_ended:
            self._tasks.spawn("stop an orphaned run", self._end(binding, binding.run_id))

    def overflowed(self, binding: Binding) -> None:
        """Stop the run; its end is then published as a failure."""
        if binding.run_id is not None:
            self._tasks.spawn("stop a run that lost output", self._end(binding, binding.run_id))

    async def _end(self, binding: Binding, run_id: str) -> None:
        for occurrence_id in sorted(binding.asked):
            try:
                await self._runtime.respond(
                    PermissionResponse(
                        run_id=run_id, permission_occurrence_id=occurrence_id, allow=False
                    )
                )
            except CancelledError:
                raise
            except GarconError as error:
                self._log.debug("a denial was not delivered: {error}", error=error.text)
        await self._runtime.abort(run_id)
