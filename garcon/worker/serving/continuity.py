"""What becomes of running work when the session that started it is lost (control.md J.5, J.10).

A run goes on, and what it has to tell is kept.  It has the grace, counted from the loss of the last
session, until a session resumes it; once a newer session is there it has five minutes.  A session
that is lost again before it had resumed anything does not count against the runs of its own
controller process, which will come back for them; another process never can.

A run whose time is over is detached: its output is dropped, its questions are denied, it is stopped
as far as it lets itself be stopped, and its chat is refused other runs before it has ended.  So is
one that its controller gives up, but that controller may launch the chat's next run at once: the
runtime lets it wait for the end.
"""

from __future__ import annotations

from attrs import define
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from garcon.contract.runs import PermissionResponse
from garcon.deferreds import Tasks
from garcon.errors import GarconError
from garcon.link.settings import LinkSettings
from garcon.runtime.interfaces import IExecutorRuntime
from garcon.worker.serving.bindings import Binding, Bindings


@define(eq=False)
class Continuity:
    """Decides the fate of bindings; see `BindingOwner` for what they tell it."""

    _clock: IReactorTime
    _runtime: IExecutorRuntime
    _bindings: Bindings
    _tasks: Tasks
    _settings: LinkSettings
    _log = Logger()

    def session_started(self, generation: str) -> None:
        """A session is there: what it does not resume soon is not wanted any more."""
        for binding in self._bindings.all():
            if binding.generation != generation:
                self._expire(binding, self._settings.newer_grace)

    def session_lost(self, generation: str, controller: str) -> None:
        """The session of a controller process has ended."""
        for binding in self._bindings.all():
            if binding.generation == generation:
                self._bindings.orphan(binding)
            if binding.controller == controller:
                binding.stop_expiry()
                self._expire(binding, self._settings.grace)

    def unwanted(self, binding: Binding) -> None:
        """The controller has given up a stream, or a launch on it."""
        self._detach(binding)

    def overflowed(self, binding: Binding) -> None:
        """Stop the run; its end is then published as a failure."""
        self._tasks.spawn("stop a run that lost facts", self._end(binding))

    def asked_in_vain(self, binding: Binding, occurrence_id: str) -> None:
        """Deny what nobody could decide."""
        self._tasks.spawn("deny a question nobody sees", self._deny_soon(binding, occurrence_id))

    def ended_detached(self, binding: Binding) -> None:
        """Its chat is free again."""
        self._bindings.forget(binding)

    def stop(self) -> None:
        """Let no more time run out."""
        for binding in self._bindings.all():
            binding.stop_expiry()

    def _expire(self, binding: Binding, seconds: float) -> None:
        """Give a binding so long, or what it has left if that is less."""
        due = self._clock.seconds() + seconds
        if binding.expiry is not None:
            if binding.expiry.getTime() <= due:
                return
            binding.stop_expiry()
        binding.expiry = self._clock.callLater(seconds, self._expired, binding)

    def _expired(self, binding: Binding) -> None:
        binding.expiry = None
        if binding.goes_on:
            self._log.warn("a run that its controller did not resume in time is given up")
            self._bindings.block_chat(binding)
        self._detach(binding)

    def _detach(self, binding: Binding) -> None:
        """Give a binding up, and what goes on there."""
        if binding.launching is not None:
            # It ends here: a launch that begins all the same is ended by the runtime.
            self._bindings.close(binding.binding_id)
            binding.launching.cancel()
            return
        self._bindings.close(binding.binding_id)
        if binding.goes_on:
            binding.is_detached = True
            self._tasks.spawn("stop a detached run", self._end(binding))

    async def _end(self, binding: Binding) -> None:
        assert binding.run_id is not None
        for occurrence_id in sorted(binding.asked):
            await self._deny(binding, occurrence_id)
        if not binding.has_ended:
            await self._runtime.abort(binding.run_id)

    async def _deny_soon(self, binding: Binding, occurrence_id: str) -> None:
        # Not from inside the event: the agent is still telling of its question.
        await deferLater(self._clock, 0, lambda: None)
        if occurrence_id in binding.asked:
            await self._deny(binding, occurrence_id)

    async def _deny(self, binding: Binding, occurrence_id: str) -> None:
        assert binding.run_id is not None
        binding.asked.discard(occurrence_id)
        response = PermissionResponse(
            run_id=binding.run_id, permission_occurrence_id=occurrence_id, allow=False
        )
        try:
            await self._runtime.respond(response)
        except CancelledError:
            raise
        except GarconError as error:
            self._log.debug("a denial was not delivered: {error}", error=error.text)
