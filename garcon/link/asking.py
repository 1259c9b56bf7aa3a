"""The calls a session makes: from admission to the one end that each of them has.

Calls that outlive sessions are lent to a session by their keeper (continuing.py), which owns their
slots and timers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from attrs import define
from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from garcon.contract.ids import new_uuid4
from garcon.contract.rpc import Continuity, Lane, Method
from garcon.errors import LaneLost, LaunchLost
from garcon.link import calls, frames
from garcon.link.calls import Slots
from garcon.link.outbox import Outbox
from garcon.link.queue import Item, Kind, Progress, fits


class Keeper(Protocol):
    """Who lent a call to a session."""

    def ended(self, asked: Asked) -> None:
        """The call is over; its waiter is fired right after."""

    def session_lost(self, asked: Asked) -> None:
        """The session has ended and gives the call back."""


@define(eq=False)
class Asked:
    """A call of ours that has not ended.  `item` None: sent on an earlier session already."""

    id: str
    method: Method
    item: Item | None
    waiter: Deferred[Any]
    timer: IDelayedCall | None = None
    keeper: Keeper | None = None
    exempt: bool = False


class Asking:
    """Knows which calls are open.  `answered` hears of each reply that its peer keeps."""

    def __init__(
        self,
        lane: Lane,
        outbox: Outbox,
        slots: Slots,
        clock: IReactorTime,
        answered: Callable[[str], None] | None = None,
    ) -> None:
        self._lane = lane
        self._outbox = outbox
        self._slots = slots
        self._clock = clock
        self._answered = answered
        self._open: dict[str, Asked] = {}

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

    def _admit(self, method: Method, request: Struct | None, integration_id: str) -> Asked:
        call_id = new_uuid4()
        head = request_head(call_id, method, request, integration_id)
        exempt = method.installation and self._slots.take(self._lane, exempt=True)
        if not exempt and not self._slots.take(self._lane, exempt=False):
            raise calls.busy()
        item = self._outbox.offer(head, Kind.ORDINARY, needs_number=True)
        if item is None:
            self._slots.free(self._lane, exempt)
            raise calls.busy()

        def abandon(_: Deferred[Any]) -> None:
            self._abandon(call_id)

        asked = Asked(call_id, method, item, Deferred(abandon), exempt=exempt)
        self._open[call_id] = asked
        return asked

    def _take(self, call_id: str) -> Asked | None:
        asked = self._open.pop(call_id, None)
        if asked is not None:
            if asked.keeper is not None:
                asked.keeper.ended(asked)
                return asked
            if asked.timer is not None and asked.timer.active():
                asked.timer.cancel()
            self._slots.free(self._lane, asked.exempt)
        return asked

    def lend(self, asked: Asked, head: bytes) -> bool:
        """Send a call of a keeper's; False when it is not admitted now."""
        item = self._outbox.offer(head, Kind.ORDINARY, needs_number=True)
        if item is None:
            return False
        asked.item = item
        self._open[asked.id] = asked
        self._outbox.flush()
        return True

    def await_reply(self, asked: Asked) -> None:
        """Take the reply to a keeper's call that was sent on an earlier session."""
        asked.item = None
        self._open[asked.id] = asked

    def give_back(self, call_id: str) -> None:
        """Let a keeper's call go without an end."""
        self._open.pop(call_id, None)

    def withdraw(self, call_id: str) -> bool:
        """Forget a call; return whether the peer may have begun it."""
        return self._abandon(call_id)

    def _abandon(self, call_id: str) -> bool:
        asked = self._take(call_id)
        if asked is None:
            return False
        if asked.item is None:
            self._outbox.send(frames.encode(frames.Cancel(id=call_id)), Kind.SMALL)
            return True
        return self._outbox.withdraw(asked.item, frames.encode(frames.Cancel(id=call_id)))

    def _expired(self, asked: Asked) -> None:
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
        if self._answered is not None and asked.method.continuity is Continuity.JOURNALED:
            self._answered(frame.id)
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
        if asked is None:
            return
        if self._answered is not None and asked.method.continuity is Continuity.JOURNALED:
            self._answered(frame.id)
        asked.waiter.errback(calls.call_error(frame.error))

    def fail(self, reason: str) -> None:
        """The session has ended: what left whole may have run, everything else has not."""
        for call_id in list(self._open):
            asked = self._open.get(call_id)
            if asked is not None and asked.keeper is not None:
                del self._open[call_id]
                asked.keeper.session_lost(asked)
                continue
            asked = self._take(call_id)
            if asked is not None:
                asked.waiter.errback(_lost(asked, reason))


def _lost(asked: Asked, reason: str) -> LaneLost:
    if asked.item is not None and asked.item.progress is not Progress.SENT:
        return LaneLost(reason, outcome="not-dispatched")
    if asked.method.continuity is Continuity.LAUNCH:
        return LaunchLost(reason)
    return LaneLost(reason)


def request_head(
    call_id: str, method: Method, request: Struct | None, integration_id: str = ""
) -> bytes:
    """Return a request but for its number, or raise the `CallError` of one that cannot be sent."""
    try:
        body = frames.encode(request)
    except (TypeError, ValueError) as error:
        raise calls.refusal(
            "VALIDATION_FAILED", f"a request of {method.name} cannot be encoded", status=400
        ) from error
    head = frames.request_head(call_id, method.name, integration_id, body)
    if not fits(head, needs_number=True):
        raise calls.refusal(calls.MESSAGE_TOO_LARGE, "the request is too large", status=413)
    return head
