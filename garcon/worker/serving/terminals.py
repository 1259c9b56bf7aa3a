"""A worker's terminals over its link (control.md J.9): the methods, and the events of attachments.

Attachments live no longer than the link's session that made them, and terminals do not care.  So
the session's id is the attachment epoch here.  An event that the link does not admit now stays
with its terminal, where what waits is bounded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from attrs import define, field
from msgspec import structs
from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.contract import rpc
from garcon.contract.terminals import (
    NOT_ATTACHED,
    TAKEOVER_REQUIRED,
    UNAVAILABLE,
    TerminalAttached,
    TerminalAttachment,
    TerminalCreation,
    TerminalDetach,
    TerminalDetached,
    TerminalEvent,
    TerminalGone,
    TerminalInfo,
    TerminalInput,
    TerminalNotification,
    TerminalRemoved,
    TerminalRenaming,
    TerminalResize,
    TerminalsListed,
    TerminalsQuery,
    TerminalTermination,
    terminal_error,
)
from garcon.errors import CallError, GarconError
from garcon.link.interfaces import CallContext, Handler
from garcon.runtime.interfaces import ITerminals, ITerminalSink
from garcon.worker.serving.answers import Answers

T = TypeVar("T")
Send = Callable[[TerminalNotification], bool]
DOMAIN = "terminal"


def _served(
    body: Callable[[TerminalServing, Any, CallContext], Awaitable[T]],
) -> Callable[[TerminalServing, Any, CallContext], Deferred[T]]:
    """Make a handler of a coroutine method, whose refusals cross in their own domain."""

    async def run(self: TerminalServing, request: Any, context: CallContext) -> T:
        try:
            return await body(self, request, context)
        except GarconError as error:
            raise _crossing(error) from None

    @wraps(body)
    def handler(self: TerminalServing, request: Any, context: CallContext) -> Deferred[T]:
        return Deferred.fromCoroutine(run(self, request, context))

    return handler


def _crossing(error: GarconError) -> CallError:
    return CallError(
        error.code,
        error.text,
        outcome="rejected",
        domain=DOMAIN,
        status=error.status,
        retryable=error.retryable,
    )


def _refused(reason: Failure) -> Any:
    return Failure(_crossing(reason.value)) if isinstance(reason.value, GarconError) else reason


_NOTHING = rpc.Nothing()


@define(eq=False)
class TerminalServing:
    """What a worker's controller may do with its terminals."""

    _terminals: ITerminals
    _send: Send
    _answers: Answers
    _attachments: dict[str, _Attachment] = field(factory=dict)

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers by method name."""
        table: list[tuple[rpc.Method, Handler]] = [
            (rpc.LIST_TERMINALS, self.list),
            (rpc.CREATE_TERMINAL, self.create),
            (rpc.RENAME_TERMINAL, self.rename),
            (rpc.TERMINATE_TERMINAL, self.terminate),
            (rpc.ATTACH_TERMINAL, self.attach),
            (rpc.TERMINAL_INPUT, self.input),
            (rpc.RESIZE_TERMINAL, self.resize),
            (rpc.DETACH_TERMINAL, self.detach),
        ]
        return {method.name: handler for method, handler in table}

    @_served
    async def list(self, request: TerminalsQuery, context: CallContext) -> TerminalsListed:
        """Return what a principal has."""
        listed = await self._terminals.list(request.principal_key)
        return structs.replace(listed, attachment_epoch=context.generation)

    @_served
    async def create(self, request: TerminalCreation, context: CallContext) -> TerminalInfo:
        """Start a shell, which stays whatever becomes of this call."""
        return await self._terminals.create(request)

    @_served
    async def rename(self, request: TerminalRenaming, context: CallContext) -> TerminalInfo:
        """Change a title."""
        return await self._terminals.rename(request)

    @_served
    async def terminate(
        self, request: TerminalTermination, context: CallContext
    ) -> TerminalRemoved:
        """End a terminal."""
        return TerminalRemoved(terminal=await self._terminals.terminate(request))

    @_served
    async def attach(self, request: TerminalAttachment, context: CallContext) -> TerminalAttached:
        """Own a terminal for a socket of the controller's."""
        if request.attachment_epoch not in (None, context.generation):
            raise terminal_error(
                UNAVAILABLE,
                "The executor was connected anew since its terminals were listed; list them again.",
            )
        attachment = _Attachment(request.attachment_id, context.generation, self)
        wanted = structs.replace(request, attachment_epoch=None)
        is_new = self._attachments.setdefault(request.attachment_id, attachment) is attachment
        try:
            return await self._terminals.attach(wanted, attachment)
        except GarconError as error:
            if is_new and error.code != TAKEOVER_REQUIRED:
                self._attachments.pop(request.attachment_id, None)
            raise

    def input(self, request: TerminalInput, context: CallContext) -> Deferred[rpc.Nothing]:
        """Type something; fires when the terminal has it.

        No coroutine, as each key is one of these calls.
        """
        try:
            attachment = self._at(request.attachment_id, request.number)
        except GarconError as error:
            return fail(_crossing(error))
        shown = self._answers.shown
        typing = attachment.numbered(self._terminals.input(attachment.id, request.data))
        if typing.called and typing.result is None:
            return self._answers.behind(shown, _NOTHING)
        return typing.addCallbacks(lambda _: _NOTHING, _refused)

    @_served
    async def resize(self, request: TerminalResize, context: CallContext) -> rpc.Nothing:
        """Change the window's size, in order with the input."""
        attachment = self._at(request.attachment_id, request.number)
        await attachment.numbered(self._terminals.resize(attachment.id, request.size))
        return rpc.Nothing()

    @_served
    async def detach(self, request: TerminalDetach, context: CallContext) -> rpc.Nothing:
        """End an attachment."""
        self.detached(request.attachment_id)
        return rpc.Nothing()

    def _at(self, attachment_id: str, number: int) -> _Attachment:
        attachment = self._attachments.get(attachment_id)
        if attachment is None or number != attachment.expected:
            raise terminal_error(NOT_ATTACHED, "This terminal is not attached here.")
        return attachment

    # -- what the link tells

    def detached(self, attachment_id: str) -> None:
        """The controller does not want an attachment any more."""
        if self._attachments.pop(attachment_id, None) is not None:
            self._terminals.detach(attachment_id)

    def taken(self, taken: Mapping[str, int]) -> None:
        """The controller has handed on the output of attachments so far."""
        for attachment_id, sequence in taken.items():
            if attachment_id in self._attachments:
                self._terminals.taken(attachment_id, sequence)

    def session_lost(self, generation: str) -> None:
        """Nobody hears of that session's attachments any more."""
        for attachment in list(self._attachments.values()):
            if attachment.generation == generation:
                self.detached(attachment.id)

    # -- what attachments tell

    def told(self, attachment: _Attachment, event: TerminalEvent) -> bool:
        """Send an event, if the link takes it now."""
        notification = TerminalNotification(attachment_id=attachment.id, event=event)
        if not self._send(notification):
            return False
        if isinstance(event, TerminalGone | TerminalDetached):
            self._attachments.pop(attachment.id, None)
        self._answers.was_shown()
        return True


@implementer(ITerminalSink)
@define(eq=False)
class _Attachment:
    id: str
    generation: str
    _serving: TerminalServing
    expected: int = 1
    """The number of its next input or size."""

    def numbered(self, operation: Deferred[None]) -> Deferred[None]:
        """Count an operation, unless it was refused: then nothing that follows is taken either."""
        is_refused = operation.called and isinstance(operation.result, Failure)
        self.expected += not is_refused
        return operation

    def offer(self, event: TerminalEvent) -> bool:
        """See `ITerminalSink`."""
        return self._serving.told(self, event)
