"""The streams a controller has bound: each takes the facts of one run and knows which session it
belongs to.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall
from zope.interface import implementer

from garcon.contract import limits
from garcon.contract.runs import (
    Launched,
    LaunchFailure,
    LaunchSettled,
    PermissionRequested,
    PermissionWithdrawn,
    RelayedEvent,
    RowProduced,
    RunEnded,
    RunEvent,
    RunFailure,
)
from garcon.deferreds import Waiters
from garcon.errors import GarconError, LimitExceeded, validation
from garcon.runtime.interfaces import IRunSink
from garcon.worker.serving.relay import Relay

OUTPUT_LOST = RunFailure(
    "OUTCOME_UNKNOWN",
    "The worker could not keep what this run had to tell while the controller did not take it;"
    " the run was stopped.",
)
TOO_LARGE = RunFailure(
    "OUTCOME_UNKNOWN",
    "This run had something to tell that is larger than the link to the controller can carry; it"
    " was stopped.",
)
BINDINGS = 2 * limits.SESSIONS
"""Streams at once: every session's own, and as many that only wait for their last acknowledgement.
"""


class BindingOwner(Protocol):
    """Who looks after bindings in trouble (`continuity.py`)."""

    def overflowed(self, binding: Binding) -> None:
        """A fact could not be kept: the run cannot be shown any more."""

    def asked_in_vain(self, binding: Binding, occurrence_id: str) -> None:
        """A detached run asks for a permission."""

    def ended_detached(self, binding: Binding) -> None:
        """A detached run is over."""


@implementer(IRunSink)
@define(eq=False)
class Binding:
    """One run's stream of facts to the session that has bound or resumed it.

    A controller binds a stream for each run, so of the eight launches that a worker may have to
    remember on a binding (control.md J.5) there is one here.  It is remembered as long as the
    binding is, and a second one is refused (`methods.py`).

    Without a session its facts are kept; closed, it is deaf.  A detached binding is a closed one
    whose run goes on: nobody sees it any more, and its questions are denied.
    """

    binding_id: str
    generation: str
    controller: str
    """The controller process that owns the run."""
    _relay: Relay
    _owner: BindingOwner
    run_id: str | None = None
    chat_id: str | None = None
    launching: Deferred[Launched] | None = None
    is_launched: bool = False
    failure: LaunchFailure | None = None
    """Why the launch failed, if it did."""
    is_failure_told: bool = False
    expiry: IDelayedCall | None = None
    asked: set[str] = field(factory=set)
    """Permission requests that wait for a decision."""
    is_open: bool = True
    is_detached: bool = False
    has_ended: bool = False
    lost: RunFailure | None = None
    """Why a fact could not be kept, if one could not."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be published: the run has ended, or never began."""
        return self.has_ended or self.is_failure_told

    @property
    def goes_on(self) -> bool:
        """Whether its run has begun and not ended."""
        return self.is_launched and not self.has_ended

    def settled(self, failure: LaunchFailure | None, *, is_heard: bool) -> None:
        """The launch has succeeded or failed.  Unless its caller hears it, it is published."""
        self.launching = None
        self.failure, self.is_launched = failure, failure is None
        if not is_heard:
            self.tell_settlement()

    def tell_settlement(self) -> None:
        """Publish what became of the launch."""
        assert self.run_id is not None
        self.is_failure_told = self.failure is not None
        self._publish(LaunchSettled(run_id=self.run_id, error=self.failure))

    def event(self, event: RunEvent) -> None:
        """Publish the next fact of the run."""
        if isinstance(event, PermissionRequested):
            self.asked.add(event.permission_occurrence_id)
            if self.is_detached:
                self._owner.asked_in_vain(self, event.permission_occurrence_id)
        elif isinstance(event, PermissionWithdrawn):
            self.asked.discard(event.permission_occurrence_id)
        elif isinstance(event, RunEnded):
            self.has_ended = True
            self.asked.clear()
            if self.is_detached:
                self._owner.ended_detached(self)
            if self.lost is not None:
                event = RunEnded(outcome="failed", error=self.lost)
        if self.lost is None or isinstance(event, RunEnded):
            self._publish(event)

    def room(self) -> Deferred[None]:
        """Ask the relay."""
        return self._relay.room(self.binding_id)

    def close(self) -> None:
        """Take no further facts and drop those not delivered."""
        self.is_open = False
        self.stop_expiry()
        self._relay.close(self.binding_id)

    def stop_expiry(self) -> None:
        """Whatever time this binding had left does not count any more."""
        if self.expiry is not None and self.expiry.active():
            self.expiry.cancel()
        self.expiry = None

    def _publish(self, event: RelayedEvent) -> None:
        if not self.is_open:
            return
        content = msgspec.json.encode(event)
        kept = self._relay.publish(
            self.binding_id,
            content,
            is_row=isinstance(event, RowProduced),
            is_due=isinstance(event, RunEnded | LaunchSettled),
        )
        if not kept:
            self.lost = TOO_LARGE if len(content) > limits.RUN_EVENT else OUTPUT_LOST
            self._owner.overflowed(self)


class Bindings:
    """All streams of this worker, by id, and the runs whose controller was lost, by chat."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._open: dict[str, Binding] = {}
        self._blocking: dict[str, Binding] = {}
        self._delivered: Waiters[None] = Waiters()

    def __len__(self) -> int:
        return len(self._open)

    def bind(
        self, binding_id: str, generation: str, controller: str, owner: BindingOwner
    ) -> Binding:
        """Open a stream for a session.

        Asking twice changes nothing; a later session may ask again as long as nothing was launched.
        """
        known = self._open.get(binding_id)
        if known is not None:
            if known.generation != generation:
                if known.run_id is not None:
                    raise validation("the binding belongs to another session")
                self.resume(known, generation, controller, 0)
            return known
        if len(self._open) >= BINDINGS:
            raise LimitExceeded(
                "EXECUTOR_UNAVAILABLE",
                "The worker has as many run streams open as it can keep.",
                status=503,
                retryable=True,
            )
        binding = Binding(binding_id, generation, controller, self._relay, owner)
        self._relay.open(binding_id)
        self._open[binding_id] = binding
        return binding

    def resume(self, binding: Binding, generation: str, controller: str, acknowledged: int) -> int:
        """Go on with a stream in a newer session; returns the last number given out so far.

        A launch that has failed is told of again, in case its reply was lost.
        """
        binding.generation, binding.controller = generation, controller
        binding.stop_expiry()
        if binding.failure is not None and not binding.is_failure_told:
            binding.tell_settlement()
        return self._relay.resume(binding.binding_id, acknowledged)

    def orphan(self, binding: Binding) -> None:
        """The session of a stream is lost: its facts are kept from now on."""
        self._relay.orphan(binding.binding_id)

    def of(self, binding_id: str, generation: str) -> Binding:
        """Return a stream that this session has bound."""
        binding = self._open.get(binding_id)
        if binding is None or binding.generation != generation:
            raise GarconError("VALIDATION_FAILED", "the run's stream is not bound by this session")
        return binding

    def find(self, binding_id: str) -> Binding | None:
        """Return an open stream, or None."""
        return self._open.get(binding_id)

    def all(self) -> list[Binding]:
        """List the open streams."""
        return list(self._open.values())

    def close(self, binding_id: str) -> None:
        """Close a stream, if it is open."""
        binding = self._open.pop(binding_id, None)
        if binding is not None:
            binding.close()
            if not self._undelivered():
                self._delivered.fire(None)

    def block_chat(self, binding: Binding) -> None:
        """The controller of a run is lost: its chat takes no other run until that has ended."""
        assert binding.chat_id is not None
        self._blocking[binding.chat_id] = binding

    def forget(self, binding: Binding) -> None:
        """A detached run is over."""
        if binding.chat_id is not None and self._blocking.get(binding.chat_id) is binding:
            del self._blocking[binding.chat_id]

    def must_be_free(self, chat_id: str) -> None:
        """Raise ``SESSION_BUSY`` while a run of this chat whose controller was lost goes on."""
        if chat_id in self._blocking:
            raise GarconError(
                "SESSION_BUSY",
                "An earlier turn of this chat, whose controller was lost, has not ended yet.",
                status=409,
                retryable=True,
            )

    def delivered(self) -> Deferred[None]:
        """Fire once no ended run waits for its last acknowledgement; at once if none does."""
        return self._delivered.wait() if self._undelivered() else succeed(None)

    def _undelivered(self) -> bool:
        return any(binding.has_ended for binding in self._open.values())

    def running(self, run_id: str) -> Binding | None:
        """Return the stream of a run, if it is still there."""
        return next((b for b in self._open.values() if b.run_id == run_id), None)

    def acknowledged(self, acknowledgements: dict[str, int]) -> None:
        """Free what the controller has; a stream with nothing more to say that is delivered whole
        closes itself.
        """
        for binding_id in self._relay.acknowledged(acknowledgements):
            binding = self._open.get(binding_id)
            if binding is not None and binding.is_over:
                self.close(binding_id)
