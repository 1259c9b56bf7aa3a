"""What one browser socket and the executors say to each other about terminals (server.md C.3 to
C.7).
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from attrs import frozen
from msgspec import UNSET
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.contract.limits import (
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
    AttachMessage,
    ClientMessage,
    DetachMessage,
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
    terminal_error,
)
from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.executors.terminals import terminals_of
from garcon.controller.terminals import requests
from garcon.controller.terminals.deadline import Deadline
from garcon.controller.terminals.stream import ITerminalClient, Stream
from garcon.controller.terminals.subscription import Subscription
from garcon.controller.terminals.wording import Id
from garcon.controller.ws.interfaces import ITerminalTalk
from garcon.errors import GarconError
from garcon.runtime.interfaces import ITerminalSink
from garcon.runtime.terminals.text import size_of

EXPIRED = "The authorization of this connection has ended; connect again."


@implementer(ITerminalTalk)
class TerminalTalk:
    """One socket's terminals.  Owned by the socket; `ended` hears of its end.

    `session` is the login whose authority it has.
    """

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
        self._principal_key = client.principal.key
        self._executors = executors
        self._ended = ended
        self._stream = Stream(client, self._sent, self._gave_up)
        self._subscriptions: dict[str, Subscription] = {}
        self._is_over = False
        self._deadline = Deadline(client.expires_at, clock, now, self.expire)
        self._deadline.watch()

    # -- from the socket

    def received(self, payload: bytes) -> None:
        """See `ITerminalTalk`."""
        if self._has_ended():
            return
        try:
            self._take(requests.read(payload))
        except GarconError as error:
            self._stream.complain(error.code, error.text)
        except Exception:
            self._log.failure("a message about a terminal went wrong")
            self._stream.complain(INTERNAL, "Something went wrong inside Garcon.")

    def room(self) -> None:
        """See `ITerminalTalk`."""
        self._stream.send()

    def end(self) -> None:
        """See `ITerminalTalk`."""
        self._is_over = True
        self._deadline.stop()
        self._let_go()
        self._stream.clear()
        self._ended(self)

    def expire(self) -> None:
        """End all rights on terminals; the socket goes on without (C.7)."""
        if self._is_over:
            return
        self._is_over = True
        self._deadline.stop()
        self._let_go()
        self._stream.clear()
        self._stream.complain(AUTH_EXPIRED, EXPIRED)

    def _has_ended(self) -> bool:
        if not self._is_over and self._deadline.has_come:
            self.expire()
        return self._is_over

    def _take(self, message: ClientMessage) -> None:
        match message:
            case InputMessage() | ResizeMessage():
                self._operate(message)
            case AttachMessage():
                self._attach(message)
            case DetachMessage():
                subscription = self._subscriptions.get(message.terminal_id)
                if subscription is not None and subscription.is_meant(message.attachment_id):
                    self._retire(subscription)

    # -- attaching

    def _attach(self, wanted: AttachMessage) -> None:
        executor_id, runtime_id, session_id = parse_terminal_id(wanted.terminal_id)
        previous = self._subscriptions.get(wanted.terminal_id)
        if previous is not None:
            self._retire(previous)
        try:
            if len(self._subscriptions) >= TERMINAL_SUBSCRIPTIONS:
                text = f"One connection follows {TERMINAL_SUBSCRIPTIONS} terminals at most."
                raise terminal_error(BACKPRESSURE, text)
            terminals = terminals_of(self._executors, executor_id)
        except GarconError as error:
            self._stream.complain(error.code, error.text, wanted.terminal_id, wanted.attachment_id)
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
        epoch = wanted.attachment_epoch
        attachment = TerminalAttachment(
            principal_key=self._principal_key,
            session_id=session_id,
            attachment_id=subscription.attachment_id,
            client_id=wanted.client_id,
            after_sequence=wanted.after_sequence,
            intent=wanted.intent,
            attachment_epoch=None if epoch is UNSET else epoch,
            expires_in=self._deadline.left,
            terminal_runtime_id=runtime_id,
        )
        attaching = terminals.attach(attachment, _Sink(self, subscription))
        subscription.attaching = attaching
        attaching.addCallback(self._attached, subscription)
        attaching.addErrback(self._refused, subscription)

    def _is_current(self, subscription: Subscription) -> bool:
        return self._subscriptions.get(subscription.terminal_id) is subscription

    def _attached(self, attached: TerminalAttached, subscription: Subscription) -> None:
        if not self._is_current(subscription):
            subscription.terminals.detach(subscription.attachment_id)
            return
        subscription.attaching = None
        self._stream.tell(subscription, subscription.attached(attached))
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
            self._retire(subscription)
        self._stream.tell(subscription, subscription.failed(error.code, error.text))
        self._go_on(subscription)

    def _go_on(self, subscription: Subscription) -> None:
        """Do what the client asked for while it was not known whether it is attached."""
        operations = subscription.operations
        while operations and not self._is_over:
            self._operate(operations.popleft())

    def _retire(self, subscription: Subscription) -> None:
        """Let go of a terminal, with what was still to be said of it."""
        terminal_id = subscription.terminal_id
        del self._subscriptions[terminal_id]
        self._stream.drop(terminal_id)
        attaching, subscription.attaching = subscription.attaching, None
        if attaching is not None:
            attaching.cancel()
        else:
            subscription.terminals.detach(subscription.attachment_id)

    def _let_go(self) -> None:
        for subscription in list(self._subscriptions.values()):
            self._retire(subscription)

    def _gave_up(self, terminal_id: str) -> Id:
        subscription = self._subscriptions.get(terminal_id)
        if subscription is None:
            return UNSET
        self._retire(subscription)
        return subscription.echo

    # -- typing

    def _operate(self, message: InputMessage | ResizeMessage) -> None:
        subscription = self._subscriptions.get(message.terminal_id)
        if subscription is None or not subscription.is_meant(message.attachment_id):
            parse_terminal_id(message.terminal_id)
            text = "This terminal is not attached here."
            self._stream.complain(NOT_ATTACHED, text, message.terminal_id, message.attachment_id)
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
            self._stream.overflow(subscription.terminal_id, text)
        else:
            subscription.operations.append(message)

    def _failed(self, reason: Failure, subscription: Subscription) -> None:
        if not self._is_current(subscription):
            return
        error = self._explained(reason)
        if error.code == AUTH_EXPIRED:
            self.expire()
            return
        if error.code in ENDS_SUBSCRIPTION:
            self._retire(subscription)
        self._stream.tell(subscription, subscription.failed(error.code, error.text))

    def _explained(self, reason: Failure) -> GarconError:
        if isinstance(reason.value, GarconError):
            return reason.value
        if not reason.check(CancelledError):
            self._log.failure("a terminal failed", failure=reason)
        return terminal_error(INTERNAL, "Something went wrong inside Garcon.")

    # -- from the executor

    def offer(self, subscription: Subscription, event: TerminalEvent) -> bool:
        """Take an event of an attachment; see `ITerminalSink`."""
        if not self._is_current(subscription) or self._has_ended():
            return True
        if isinstance(event, TerminalOutput):
            return self._output(subscription, event)
        terminal_id = subscription.terminal_id
        if isinstance(event, TerminalDetached) and event.code == AUTH_EXPIRED:
            self.expire()
            return True
        if isinstance(event, TerminalDetached) and event.code == BACKPRESSURE:
            self._stream.drop(terminal_id)
        elif not self._stream.room(terminal_id):
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
        self._stream.tell(subscription, said)
        return True

    def _output(self, subscription: Subscription, event: TerminalOutput) -> bool:
        """Take as much of it as there is room for; what is left of it is offered again."""
        chunks = event.chunks
        if chunks[0].sequence <= subscription.last:
            chunks = [chunk for chunk in chunks if chunk.sequence > subscription.last]
        while chunks and self._is_current(subscription):
            room = self._stream.room(subscription.terminal_id)
            if not room:
                return False
            said = subscription.output(chunks[:room])
            chunks = chunks[room:]
            if said:
                self._stream.tell(subscription, said)
            else:
                # They wait for the rest of the replay, which does not come before.
                self._sent(subscription, subscription.last)
        return True

    def _sent(self, subscription: Subscription, through: int) -> None:
        if self._is_current(subscription):
            subscription.terminals.taken(subscription.attachment_id, through)


@implementer(ITerminalSink)
@frozen(eq=False)
class _Sink:
    """One attachment's way in."""

    _talk: TerminalTalk
    _subscription: Subscription

    def offer(self, event: TerminalEvent) -> bool:
        """See `ITerminalSink`."""
        return self._talk.offer(self._subscription, event)
