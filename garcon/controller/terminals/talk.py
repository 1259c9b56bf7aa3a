"""What one browser socket and the executors say to each other about terminals (server.md C.3 to
C.7).

Two mechanisms keep a slow client from costing much, and they meet here.  While the socket takes
what it is given, everything goes out at once.  While it does not, a little output waits here, in
turns; more of it is refused, and as the executor is told only of what has left (`ITerminals.taken`)
it holds the program, and then goes on without this client, which is detached with
``terminal-backpressure``.  So only what nobody can hold back, as the answers to a client's own
mistakes, ever meets the bounds of the queue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from uuid import uuid4

import msgspec
from attrs import frozen
from msgspec import UNSET
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.contract.limits import (
    CLIENT_ID_BYTES,
    TERMINAL_INPUT,
    TERMINAL_OPERATIONS,
    TERMINAL_OPERATIONS_BYTES,
    TERMINAL_SUBSCRIPTIONS,
)
from garcon.contract.terminals import (
    AUTH_EXPIRED,
    BACKPRESSURE,
    ENDS_SUBSCRIPTION,
    INTERNAL,
    NOT_ATTACHED,
    TAKEOVER_REQUIRED,
    VALIDATION,
    AttachMessage,
    ClientMessage,
    DetachMessage,
    ErrorMessage,
    InputMessage,
    ResizeMessage,
    TerminalAttached,
    TerminalAttachment,
    TerminalChanged,
    TerminalDetached,
    TerminalEvent,
    TerminalGone,
    TerminalOutput,
    TerminalSize,
    TerminalTakenOver,
    parse_terminal_id,
)
from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.executors.terminals import terminals_of
from garcon.controller.principals import Principal
from garcon.controller.terminals.delivery import Delivery, Part
from garcon.controller.terminals.subscription import Subscription, Worded
from garcon.controller.terminals.wording import Id, worded
from garcon.controller.ws.interfaces import ITerminalTalk
from garcon.errors import GarconError
from garcon.runtime.interfaces import ITerminalSink
from garcon.runtime.terminals.text import size_of

OVERFLOW, OVERFLOW_REASON = 1013, "TERMINAL_STREAM_BACKPRESSURE"
SEND_FAILED, SEND_FAILED_REASON = 1011, "TERMINAL_STREAM_SEND_FAILED"
LONGEST_STEP = 2_147_000.0
"""A deadline further away is looked at again after so many seconds."""
EXPIRED = "The authorization of this connection has expired; connect again."

_decode = msgspec.json.Decoder(ClientMessage).decode


class ITerminalClient(Protocol):
    """The socket, as its terminals need it."""

    @property
    def principal(self) -> Principal:
        """Whose it is."""

    @property
    def expires_at(self) -> float | None:
        """When that ends for terminals, in seconds since the epoch."""

    @property
    def is_clear(self) -> bool:
        """Whether it is open and what is sent now goes out at once."""

    def say(self, text: bytes) -> None:
        """Send a message."""

    def close(self, code: int, reason: str) -> None:
        """End the socket; which ends this too."""


@implementer(ITerminalTalk)
class TerminalTalk:
    """One socket's terminals.  Owned by the socket, which says when it is over."""

    _log = Logger()

    def __init__(
        self,
        client: ITerminalClient,
        executors: IExecutors,
        clock: IReactorTime,
        now: Callable[[], float],
        ended: Callable[[TerminalTalk], None],
    ) -> None:
        self.session = client.principal.session
        self._client = client
        self._executors = executors
        self._clock = clock
        self._now = now
        self._ended = ended
        self._expires = client.expires_at
        self._delivery = Delivery()
        self._subscriptions: dict[str, Subscription] = {}
        self._timer: IDelayedCall | None = None
        self._is_over = False
        self._is_sending = False
        self._watch()

    # -- from the socket

    def received(self, payload: bytes) -> None:
        """See `ITerminalTalk`."""
        if self._is_over or self._has_expired():
            return
        try:
            message = _decode(payload)
            _check(message)
            match message:
                case InputMessage() | ResizeMessage():
                    self._operate(message)
                case AttachMessage():
                    self._attach(message)
                case DetachMessage():
                    self._detach(message)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._complain(VALIDATION, f"The message does not fit: {error}")
        except GarconError as error:
            self._complain(error.code, error.text)
        except Exception:
            self._log.failure("a message about a terminal went wrong")
            self._complain(INTERNAL, "Something went wrong inside Garcon.")

    def room(self) -> None:
        """See `ITerminalTalk`."""
        self._send()

    def end(self) -> None:
        """See `ITerminalTalk`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_over = True
        self._delivery.clear()
        self._let_go()
        self._ended(self)

    # -- attaching

    def _attach(self, wanted: AttachMessage) -> None:
        executor_id, runtime_id, session_id = parse_terminal_id(wanted.terminal_id)
        self._retire(wanted.terminal_id)
        if len(self._subscriptions) >= TERMINAL_SUBSCRIPTIONS:
            text = f"One connection follows {TERMINAL_SUBSCRIPTIONS} terminals at most."
            self._complain(BACKPRESSURE, text, wanted.terminal_id, wanted.attachment_id)
            return
        try:
            terminals = terminals_of(self._executors, executor_id)
        except GarconError as error:
            self._complain(error.code, error.text, wanted.terminal_id, wanted.attachment_id)
            return
        subscription = Subscription(
            wanted.terminal_id,
            executor_id,
            runtime_id,
            str(uuid4()),
            wanted.attachment_id,
            terminals,
        )
        self._subscriptions[wanted.terminal_id] = subscription
        epoch, expires = wanted.attachment_epoch, self._expires
        attachment = TerminalAttachment(
            principal_key=self._client.principal.key,
            session_id=session_id,
            attachment_id=subscription.attachment_id,
            client_id=wanted.client_id,
            after_sequence=wanted.after_sequence,
            intent=wanted.intent,
            attachment_epoch=None if epoch is UNSET else epoch,
            expires_in=None if expires is None else expires - self._now(),
            terminal_runtime_id=runtime_id,
        )
        attaching = terminals.attach(attachment, _Sink(self, subscription))
        subscription.attaching = attaching
        attaching.addCallbacks(
            self._attached,
            self._refused,
            callbackArgs=(subscription,),
            errbackArgs=(subscription,),
        )
        attaching.addErrback(self._broken, subscription)

    def _is_current(self, subscription: Subscription) -> bool:
        return self._subscriptions.get(subscription.terminal_id) is subscription

    def _attached(self, attached: TerminalAttached, subscription: Subscription) -> None:
        if not self._is_current(subscription):
            subscription.terminals.detach(subscription.attachment_id)
            return
        subscription.attaching = None
        self._tell(subscription, subscription.attached(attached))
        self._go_on(subscription)

    def _refused(self, reason: Failure, subscription: Subscription) -> None:
        if not self._is_current(subscription):
            return
        subscription.attaching = None
        error = self._explained(reason)
        if error.code == AUTH_EXPIRED:
            self.expire()
            return
        if error.code != TAKEOVER_REQUIRED:
            del self._subscriptions[subscription.terminal_id]
        self._tell(subscription, subscription.failed(error.code, error.text))
        self._go_on(subscription)

    def _go_on(self, subscription: Subscription) -> None:
        """Do what the client asked for while it was not known whether it is attached."""
        operations = subscription.operations
        while operations and not self._is_over:
            self._operate(operations.popleft())

    def _broken(self, reason: Failure, subscription: Subscription) -> None:
        self._log.failure("an attachment of a terminal went wrong", failure=reason)
        if self._is_current(subscription):
            self._retire(subscription.terminal_id)

    def _detach(self, message: DetachMessage) -> None:
        subscription = self._subscriptions.get(message.terminal_id)
        if subscription is not None and _means(message.attachment_id, subscription):
            self._retire(message.terminal_id)

    def _retire(self, terminal_id: str) -> None:
        """Let go of a terminal, with what was still to be said of it."""
        subscription = self._subscriptions.pop(terminal_id, None)
        if subscription is None:
            return
        self._delivery.drop(terminal_id)
        attaching, subscription.attaching = subscription.attaching, None
        if attaching is not None:
            attaching.cancel()
        else:
            subscription.terminals.detach(subscription.attachment_id)

    def _let_go(self) -> None:
        for terminal_id in list(self._subscriptions):
            self._retire(terminal_id)

    # -- typing

    def _operate(self, message: InputMessage | ResizeMessage) -> None:
        subscription = self._subscriptions.get(message.terminal_id)
        if subscription is None or not _means(message.attachment_id, subscription):
            parse_terminal_id(message.terminal_id)
            text = "This terminal is not attached here."
            self._complain(NOT_ATTACHED, text, message.terminal_id, message.attachment_id)
            return
        if subscription.attaching is not None:
            self._postpone(subscription, message)
            return
        if isinstance(message, InputMessage):
            d = subscription.terminals.input(subscription.attachment_id, message.data)
        else:
            size = TerminalSize(cols=message.cols, rows=message.rows)
            d = subscription.terminals.resize(subscription.attachment_id, size)
        d.addErrback(self._failed, subscription)

    def _postpone(self, subscription: Subscription, message: InputMessage | ResizeMessage) -> None:
        if isinstance(message, InputMessage):
            subscription.operations_size += size_of(message.data)
        if (
            len(subscription.operations) >= TERMINAL_OPERATIONS
            or subscription.operations_size > TERMINAL_OPERATIONS_BYTES
        ):
            text = "Too much was typed before the terminal was attached; nothing of it arrived."
            self._overflowed(subscription.terminal_id, text)
        else:
            subscription.operations.append(message)

    def _failed(self, reason: Failure, subscription: Subscription) -> None:
        if not self._is_current(subscription):
            return
        error = self._explained(reason)
        if error.code == AUTH_EXPIRED:
            self.expire()
            return
        self._tell(subscription, subscription.failed(error.code, error.text))
        if error.code in ENDS_SUBSCRIPTION and self._is_current(subscription):
            del self._subscriptions[subscription.terminal_id]
            subscription.terminals.detach(subscription.attachment_id)

    def _explained(self, reason: Failure) -> GarconError:
        if isinstance(reason.value, GarconError):
            return reason.value
        if not reason.check(CancelledError):
            self._log.failure("a terminal failed", failure=reason)
        return GarconError(INTERNAL, "Something went wrong inside Garcon.")

    # -- from the executor

    def offer(self, subscription: Subscription, event: TerminalEvent) -> bool:
        """Take an event of an attachment; see `ITerminalSink`."""
        if not self._is_current(subscription) or self._has_expired():
            return True
        if isinstance(event, TerminalOutput):
            return self._output(subscription, event)
        terminal_id = subscription.terminal_id
        match event:
            case TerminalDetached(code=code) if code == AUTH_EXPIRED:
                self.expire()
                return True
            case TerminalDetached(code=code) if code == BACKPRESSURE:
                self._delivery.drop(terminal_id)
            case _ if not self._delivery.room(terminal_id):
                return False
        match event:
            case TerminalChanged(terminal=info):
                said = subscription.changed(info)
            case TerminalTakenOver(replacement_client_id=replacement):
                said = subscription.taken_over(replacement)
            case TerminalGone():
                said = subscription.terminated()
                del self._subscriptions[terminal_id]
            case TerminalDetached(code=code, message=text):
                said = subscription.failed(code, text)
                del self._subscriptions[terminal_id]
        self._tell(subscription, said)
        return True

    def _output(self, subscription: Subscription, event: TerminalOutput) -> bool:
        """Take as much of it as there is room for; the rest of it is offered again."""
        chunks = event.chunks
        if chunks[0].sequence <= subscription.last:
            chunks = [chunk for chunk in chunks if chunk.sequence > subscription.last]
        while chunks:
            room = self._delivery.room(subscription.terminal_id)
            if not room:
                return False
            said = subscription.output(chunks[:room])
            chunks = chunks[room:]
            if said:
                self._tell(subscription, said)
            else:
                # It waits for the rest of the replay, which does not come before.
                subscription.terminals.taken(subscription.attachment_id, subscription.last)
            if not self._is_current(subscription):
                return True
        return True

    # -- to the client

    def _tell(self, subscription: Subscription, said: list[Worded]) -> None:
        for text, through in said:
            if not self._put(subscription.terminal_id, Part(text, subscription, through)):
                return
        self._send()

    def _complain(
        self, code: str, text: str, terminal_id: Id = UNSET, attachment_id: Id = UNSET
    ) -> None:
        message = ErrorMessage(
            code=code, message=text, terminal_id=terminal_id, attachment_id=attachment_id
        )
        line = None if terminal_id is UNSET else terminal_id
        if self._put(line, Part(worded(message))):
            self._send()

    def _put(self, terminal_id: str | None, part: Part) -> bool:
        if self._is_over:
            return False
        if self._delivery.put(terminal_id, part):
            return True
        if terminal_id is None:
            self._client.close(OVERFLOW, OVERFLOW_REASON)
        else:
            self._overflowed(terminal_id, "Too much waits for this connection.")
        return False

    def _overflowed(self, terminal_id: str, text: str) -> None:
        """A terminal has more to say than its client takes: give it up, and say so."""
        subscription = self._subscriptions.get(terminal_id)
        self._delivery.drop(terminal_id)
        self._retire(terminal_id)
        message = ErrorMessage(
            code=BACKPRESSURE,
            message=text,
            terminal_id=terminal_id,
            attachment_id=UNSET if subscription is None else subscription.echo,
        )
        if self._delivery.put(terminal_id, Part(worded(message))):
            self._send()
        else:
            self._client.close(OVERFLOW, OVERFLOW_REASON)

    def _send(self) -> None:
        """Send what the socket takes, and let as much again come."""
        if self._is_sending:
            return
        self._is_sending = True
        client, delivery = self._client, self._delivery
        left: dict[Subscription, int] = {}
        try:
            while client.is_clear and (part := delivery.next()) is not None:
                client.say(part.text)
                if part.source is not None and part.through:
                    left[part.source] = part.through
        except Exception:
            self._log.failure("a message of a terminal could not be sent")
            client.close(SEND_FAILED, SEND_FAILED_REASON)
        finally:
            self._is_sending = False
        for subscription, through in left.items():
            if self._is_current(subscription):
                subscription.terminals.taken(subscription.attachment_id, through)

    # -- the end of its authority

    def _watch(self) -> None:
        self._timer = None
        if self._expires is None or self._has_expired():
            return
        wait = min(self._expires - self._now(), LONGEST_STEP)
        self._timer = self._clock.callLater(wait, self._watch)

    def _has_expired(self) -> bool:
        """Whether it is over, now or before; a suspended machine's timers are late."""
        if self._expires is not None and not self._is_over and self._now() >= self._expires:
            self.expire()
        return self._is_over

    def expire(self) -> None:
        """End all rights on terminals; the socket goes on without (C.7)."""
        if self._is_over:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._delivery.clear()
        self._let_go()
        self._complain(AUTH_EXPIRED, EXPIRED)
        self._is_over = True


@implementer(ITerminalSink)
@frozen(eq=False)
class _Sink:
    """One attachment's way in."""

    _talk: TerminalTalk
    _subscription: Subscription

    def offer(self, event: TerminalEvent) -> bool:
        """See `ITerminalSink`."""
        return self._talk.offer(self._subscription, event)


def _means(attachment_id: Id, subscription: Subscription) -> bool:
    """Whether a message is about a socket's present attachment."""
    return attachment_id is UNSET or attachment_id == subscription.echo


def _check(message: Any) -> None:
    """Check what its shape does not say; raises ``terminal-validation``."""
    for text in (message.terminal_id, message.attachment_id):
        _require_short(text)
    if isinstance(message, InputMessage):
        data = message.data
        if size_of(data) > TERMINAL_INPUT:
            text = f"One input may have {TERMINAL_INPUT} bytes; nothing of it was typed."
            raise GarconError(VALIDATION, text)
    elif isinstance(message, AttachMessage):
        _require_short(message.client_id)
        _require_short(message.attachment_epoch)


def _require_short(text: Id) -> None:
    if text is UNSET or len(text) * 4 <= CLIENT_ID_BYTES:
        return
    if len(text.encode("utf-8", "replace")) > CLIENT_ID_BYTES:
        raise GarconError(VALIDATION, f"An id has 1 to {CLIENT_ID_BYTES} bytes.")
