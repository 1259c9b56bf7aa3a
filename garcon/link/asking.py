"""The calls a session makes: from admission to the one end that each of them has."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec
from attrs import define
from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from garcon.contract.rpc import Lane, Method
from garcon.errors import LaneLost
from garcon.link import calls, frames
from garcon.link.calls import Slots
from garcon.link.outbox import Outbox
from garcon.link.queue import Item, Kind, Progress, fits


@define(eq=False)
class _Asked:
    """A call of ours that has not ended."""

    id: str
    method: Method
    item: Item
    waiter: Deferred[Any]
    timer: IDelayedCall | None = None


class Asking:
    """Knows which calls are open."""

    def __init__(self, lane: Lane, outbox: Outbox, slots: Slots, clock: IReactorTime) -> None:
        self._lane = lane
        self._outbox = outbox
        self._slots = slots
        self._clock = clock
        self._open: dict[str, _Asked] = {}

    def ask(
        self, method: Method, request: Struct | None, seconds: float | None, integration_id: str
    ) -> Deferred[Any]:
        """Send a call.  Raises `CallError` when it is not admitted."""
        asked = self._admit(method, request, integration_id)
        waiter = asked.waiter
        self._outbox.flush()
        if seconds is not None and asked.id in self._open:
            asked.timer = self._clock.callLater(max(seconds, 0.0), self._expired, asked)
        return waiter

    def _admit(self, method: Method, request: Struct | None, integration_id: str) -> _Asked:
        call_id = str(uuid4())
        try:
            body = frames.encode(request)
        except (TypeError, ValueError) as error:
            raise calls.refusal(
                "VALIDATION_FAILED", f"a request of {method.name} cannot be encoded", status=400
            ) from error
        head = frames.request_head(call_id, method.name, integration_id, body)
        if not fits(head, needs_number=True):
            raise calls.refusal(calls.MESSAGE_TOO_LARGE, "the request is too large", status=413)
        if not self._slots.take(self._lane, method.installation):
            raise calls.busy()
        item = self._outbox.offer(head, Kind.ORDINARY, needs_number=True)
        if item is None:
            self._slots.free(self._lane, method.installation)
            raise calls.busy()

        def abandon(_: Deferred[Any]) -> None:
            self._abandon(call_id)

        asked = self._open[call_id] = _Asked(call_id, method, item, Deferred(abandon))
        return asked

    def _take(self, call_id: str) -> _Asked | None:
        asked = self._open.pop(call_id, None)
        if asked is not None:
            if asked.timer is not None and asked.timer.active():
                asked.timer.cancel()
            self._slots.free(self._lane, asked.method.installation)
        return asked

    def _abandon(self, call_id: str) -> bool:
        """Forget a call; return whether the peer may have begun it."""
        asked = self._take(call_id)
        if asked is None:
            return False
        return self._outbox.withdraw(asked.item, frames.encode(frames.Cancel(id=call_id)))

    def _expired(self, asked: _Asked) -> None:
        asked.timer = None
        begun = self._abandon(asked.id)
        asked.waiter.errback(
            calls.refusal(
                calls.DEADLINE_PASSED,
                f"{asked.method.name} was not answered in time",
                outcome="unknown" if begun else "not-dispatched",
                retryable=not begun,
                status=504,
            )
        )

    def result_received(self, frame: frames.Result) -> None:
        """A call has succeeded.  A late answer, of one that has ended already, is nothing."""
        asked = self._take(frame.id)
        if asked is None:
            return
        value: Any = None
        if asked.method.result is not None:
            try:
                value = msgspec.json.decode(frame.value, type=asked.method.result)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                asked.waiter.errback(
                    calls.refusal(
                        calls.PROVIDER_FAILURE,
                        f"the answer to {asked.method.name} is malformed",
                        outcome="unknown",
                    )
                )
                return
        asked.waiter.callback(value)

    def error_received(self, frame: frames.Error) -> None:
        """A call has failed on the other side."""
        asked = self._take(frame.id)
        if asked is not None:
            asked.waiter.errback(calls.call_error(frame.error))

    def fail(self, reason: str) -> None:
        """The session has ended: what left whole may have run, everything else has not."""
        for call_id in list(self._open):
            asked = self._take(call_id)
            if asked is not None:
                sent = asked.item.progress is Progress.SENT
                asked.waiter.errback(
                    LaneLost(reason, outcome="unknown" if sent else "not-dispatched")
                )
