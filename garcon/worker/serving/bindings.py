"""The streams a controller has bound: each takes the facts of one run and knows whose session it
belongs to.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from zope.interface import implementer

from garcon.contract import limits
from garcon.contract.runs import (
    Launched,
    PermissionRequested,
    PermissionWithdrawn,
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
    "The worker could not keep this run's output while the controller did not take it;"
    " the run was stopped.",
)
BINDINGS = 2 * limits.SESSIONS
"""Streams at once: every session's own, and as many that only wait for their last acknowledgement.
"""


@implementer(IRunSink)
@define(eq=False)
class Binding:
    """One run's stream of facts to the session that bound it; deaf once closed."""

    binding_id: str
    generation: str
    _relay: Relay
    _overflowed: Callable[[Binding], None]
    run_id: str | None = None
    launching: Deferred[Launched] | None = None
    asked: set[str] = field(factory=set)
    """Permission requests that wait for a decision."""
    is_open: bool = True
    has_ended: bool = False
    has_lost_output: bool = False

    def event(self, event: RunEvent) -> None:
        """Publish the next fact of the run."""
        if isinstance(event, PermissionRequested):
            self.asked.add(event.permission_occurrence_id)
        elif isinstance(event, PermissionWithdrawn):
            self.asked.discard(event.permission_occurrence_id)
        elif isinstance(event, RunEnded):
            self.has_ended = True
            self.asked.clear()
            if self.has_lost_output:
                event = RunEnded(outcome="failed", error=OUTPUT_LOST)
        if not self.is_open:
            return
        is_row = isinstance(event, RowProduced)
        if is_row and self.has_lost_output:
            return
        kept = self._relay.publish(self.binding_id, msgspec.json.encode(event), must=not is_row)
        if not kept:
            self.has_lost_output = True
            self._overflowed(self)

    def close(self) -> None:
        """Take no further facts and drop those not delivered."""
        self.is_open = False
        self._relay.close(self.binding_id)


class Bindings:
    """All streams of this worker, by id."""

    _log = Logger()

    def __init__(self, relay: Relay, overflowed: Callable[[Binding], None]) -> None:
        self._relay = relay
        self._overflowed = overflowed
        self._open: dict[str, Binding] = {}
        self._delivered: Waiters[None] = Waiters()

    def __len__(self) -> int:
        return len(self._open)

    def bind(self, binding_id: str, generation: str) -> Binding:
        """Open a stream for a session; the same session may ask twice."""
        known = self._open.get(binding_id)
        if known is not None:
            if known.generation != generation:
                raise validation("the binding belongs to another session")
            return known
        if len(self._open) >= BINDINGS:
            raise LimitExceeded(
                "EXECUTOR_UNAVAILABLE",
                "The worker has as many run streams open as it can keep.",
                status=503,
                retryable=True,
            )
        binding = Binding(binding_id, generation, self._relay, self._overflowed)
        self._relay.open(binding_id)
        self._open[binding_id] = binding
        return binding

    def of(self, binding_id: str, generation: str) -> Binding:
        """Return a stream that this session has bound."""
        binding = self._open.get(binding_id)
        if binding is None or binding.generation != generation:
            raise GarconError("VALIDATION_FAILED", "the run's stream is not bound by this session")
        return binding

    def find(self, binding_id: str) -> Binding | None:
        """Return an open stream, or None."""
        return self._open.get(binding_id)

    def close(self, binding_id: str) -> None:
        """Close a stream, if it is open."""
        binding = self._open.pop(binding_id, None)
        if binding is not None:
            binding.close()
            if not self._undelivered():
                self._delivered.fire(None)

    def delivered(self) -> Deferred[None]:
        """Fire once no ended run waits for its last acknowledgement; at once if none does."""
        return self._delivered.wait() if self._undelivered() else succeed(None)

    def _undelivered(self) -> bool:
        return any(binding.has_ended for binding in self._open.values())

    def of_generation(self, generation: str) -> list[Binding]:
        """List the streams that a session has bound."""
        return [b for b in self._open.values() if b.generation == generation]

    def running(self, run_id: str) -> Binding | None:
        """Return the stream of a run, if it is still there."""
        return next((b for b in self._open.values() if b.run_id == run_id), None)

    def acknowledged(self, acknowledgements: dict[str, int]) -> None:
        """Free what the controller has; a stream whose run has ended and is delivered whole closes
        itself.
        """
        for binding_id in self._relay.acknowledged(acknowledgements):
            binding = self._open.get(binding_id)
            if binding is not None and binding.has_ended:
                self.close(binding_id)
