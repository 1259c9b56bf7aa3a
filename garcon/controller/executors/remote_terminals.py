"""The terminals of a worker behind its link, as the same interface that Local has.

An attachment lives no longer than the link's session: when that is lost its sink hears of it and
nothing is left out silently, as whoever attaches again says how far it had come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import define, field
from msgspec import Struct
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from garcon.contract import rpc
from garcon.contract.limits import RETRY, TERMINAL_WINDOW, TERMINAL_WINDOW_CHUNKS
from garcon.contract.terminals import (
    BACKPRESSURE,
    ENDS_SUBSCRIPTION,
    INTERNAL,
    NOT_ATTACHED,
    OUTCOME_UNKNOWN,
    STATUSES,
    TAKEOVER_REQUIRED,
    UNAVAILABLE,
    UNSUPPORTED,
    VALIDATION,
    TerminalAttached,
    TerminalAttachment,
    TerminalCreation,
    TerminalDetached,
    TerminalEvent,
    TerminalGone,
    TerminalInfo,
    TerminalNotification,
    TerminalOutput,
    TerminalRemoved,
    TerminalRenaming,
    TerminalSize,
    TerminalsListed,
    TerminalsQuery,
    TerminalTakenOver,
    TerminalTermination,
    terminal_error,
)
from garcon.controller.executors.remote_typing import Typing
from garcon.deferreds import returns_deferred
from garcon.errors import CallError, GarconError
from garcon.link.calls import EXECUTOR_BUSY, MESSAGE_TOO_LARGE, METHOD_UNKNOWN
from garcon.link.interfaces import ILink
from garcon.runtime.interfaces import ITerminals, ITerminalSink

TAKEN_SIZE, TAKEN_CHUNKS = TERMINAL_WINDOW // 4, TERMINAL_WINDOW_CHUNKS // 4
"""So much is told without waiting for more."""
LOST = "The connection to the executor was lost; the terminal goes on there."


@define(eq=False)
class _Attachment:
    """One attachment that the worker may know."""

    id: str
    sink: ITerminalSink
    typing: Typing
    waiting: deque[TerminalEvent] = field(factory=deque)
    """Refused by the sink; the worker's window bounds them."""
    given: deque[tuple[int, int, int]] = field(factory=deque)
    """Of each output: its last number, its size and its chunks, until it is taken."""


@implementer(ITerminals)
class RemoteTerminals:
    """See `ITerminals`.  `link` returns the link there is, connected or not."""

    _log = Logger()

    def __init__(
        self, clock: IReactorTime, link: Callable[[], ILink | None], ack_batch: float
    ) -> None:
        self._clock = clock
        self._link = link
        self._ack_batch = ack_batch
        self._attachments: dict[str, _Attachment] = {}
        self._taken: dict[str, int] = {}
        self._taken_size = self._taken_chunks = 0
        self._telling: IDelayedCall | None = None
        self._retry: IDelayedCall | None = None

    # -- ITerminals

    @returns_deferred
    async def list(self, principal_key: str) -> TerminalsListed:
        """See `ITerminals`."""
        query = TerminalsQuery(principal_key=principal_key)
        listed: TerminalsListed = await self._ask(rpc.LIST_TERMINALS, query)
        return listed

    @returns_deferred
    async def create(self, wanted: TerminalCreation) -> TerminalInfo:
        """See `ITerminals`."""
        created: TerminalInfo = await self._ask(rpc.CREATE_TERMINAL, wanted, changes=True)
        return created

    @returns_deferred
    async def rename(self, wanted: TerminalRenaming) -> TerminalInfo:
        """See `ITerminals`."""
        renamed: TerminalInfo = await self._ask(rpc.RENAME_TERMINAL, wanted, changes=True)
        return renamed

    @returns_deferred
    async def terminate(self, wanted: TerminalTermination) -> TerminalInfo | None:
        """See `ITerminals`."""
        removed: TerminalRemoved = await self._ask(rpc.TERMINATE_TERMINAL, wanted, changes=True)
        return removed.terminal

    @returns_deferred
    async def attach(self, wanted: TerminalAttachment, sink: ITerminalSink) -> TerminalAttached:
        """See `ITerminals`."""
        if wanted.attachment_id in self._attachments:
            raise terminal_error(VALIDATION, "An attachment needs an id of its own.")
        attachment = self._made(wanted.attachment_id, sink)
        try:
            attached: TerminalAttached = await self._ask(rpc.ATTACH_TERMINAL, wanted)
        except GarconError as error:
            if error.code != TAKEOVER_REQUIRED:
                # Where its answer was lost the worker may have it.
                self.detach(attachment.id)
            raise
        except CancelledError:
            self.detach(attachment.id)
            raise
        if self._attachments.get(attachment.id) is not attachment:
            raise _not_here()
        return attached

    def taken(self, attachment_id: str, sequence: int) -> None:
        """See `ITerminals`."""
        attachment = self._attachments.get(attachment_id)
        if attachment is None:
            return
        while attachment.given and attachment.given[0][0] <= sequence:
            _, size, chunks = attachment.given.popleft()
            self._taken_size += size
            self._taken_chunks += chunks
        self._taken[attachment_id] = max(sequence, self._taken.get(attachment_id, 0))
        if self._taken_size >= TAKEN_SIZE or self._taken_chunks >= TAKEN_CHUNKS:
            self._tell_taken()
        elif self._telling is None:
            self._telling = self._clock.callLater(self._ack_batch, self._tell_taken)

    def input(self, attachment_id: str, data: str) -> Deferred[None]:
        """See `ITerminals`."""
        attachment = self._attachments.get(attachment_id)
        return fail(_not_here()) if attachment is None else attachment.typing.type(data)

    def resize(self, attachment_id: str, size: TerminalSize) -> Deferred[None]:
        """See `ITerminals`."""
        attachment = self._attachments.get(attachment_id)
        return fail(_not_here()) if attachment is None else attachment.typing.resize(size)

    def detach(self, attachment_id: str) -> None:
        """See `ITerminals`."""
        attachment = self._remove(attachment_id)
        link = self._link()
        if attachment is not None and link is not None:
            link.detach_terminal(attachment_id)

    # -- the link's side

    def received(self, notification: TerminalNotification) -> None:
        """Take the next event of an attachment; one that is over may still be on its way here."""
        attachment = self._attachments.get(notification.attachment_id)
        if attachment is None:
            return
        if isinstance(notification.event, TerminalTakenOver | TerminalGone | TerminalDetached):
            attachment.typing.close(_not_here())
        self._tell(attachment, notification.event)

    def session_lost(self) -> None:
        """All attachments have ended with the session."""
        self._stop_telling()
        for attachment in list(self._attachments.values()):
            attachment.typing.close(_not_here())
            self._tell(attachment, TerminalDetached(code=UNAVAILABLE, message=LOST))

    # -- events

    def _made(self, attachment_id: str, sink: ITerminalSink) -> _Attachment:
        def broken(error: GarconError) -> None:
            self._broken(attachment, error)

        typing = Typing(attachment_id, self._call, _translated, self._again, broken)
        attachment = self._attachments[attachment_id] = _Attachment(attachment_id, sink, typing)
        return attachment

    def _broken(self, attachment: _Attachment, error: GarconError) -> None:
        """What was typed last did not arrive, so nothing that follows may."""
        code = error.code if error.code in ENDS_SUBSCRIPTION else UNAVAILABLE
        link = self._link()
        if link is not None and self._attachments.get(attachment.id) is attachment:
            link.detach_terminal(attachment.id)
        self._tell(attachment, TerminalDetached(code=code, message=error.text))

    def _tell(self, attachment: _Attachment, event: TerminalEvent) -> None:
        attachment.waiting.append(event)
        if len(attachment.waiting) == 1:
            self._give(attachment)

    def _give(self, attachment: _Attachment) -> None:
        """Give what waits; what is refused is offered again in a moment."""
        while attachment.waiting and self._attachments.get(attachment.id) is attachment:
            event = attachment.waiting[0]
            if isinstance(event, TerminalOutput):
                # Before it is given, as it may be taken at once.
                size = sum(len(chunk.data) for chunk in event.chunks)
                attachment.given.append((event.chunks[-1].sequence, size, len(event.chunks)))
            try:
                is_taken = attachment.sink.offer(event)
            except Exception:
                # A client's trouble must not become the link's, whose frame is being taken here.
                self._log.failure("an attachment of a terminal failed; it is given up")
                self.detach(attachment.id)
                return
            if not is_taken:
                if isinstance(event, TerminalOutput):
                    attachment.given.pop()
                self._again()
                return
            if attachment.waiting:
                attachment.waiting.popleft()
            if isinstance(event, TerminalGone | TerminalDetached):
                self._remove(attachment.id)

    def _again(self) -> None:
        if self._retry is None:
            self._retry = self._clock.callLater(RETRY, self._go_on)

    def _go_on(self) -> None:
        self._retry = None
        for attachment in list(self._attachments.values()):
            self._give(attachment)
            attachment.typing.send()

    def _remove(self, attachment_id: str) -> _Attachment | None:
        attachment = self._attachments.pop(attachment_id, None)
        self._taken.pop(attachment_id, None)
        if attachment is not None:
            attachment.waiting.clear()
            attachment.typing.close(_not_here())
        return attachment

    # -- what was taken

    def _tell_taken(self) -> None:
        taken = self._taken
        self._stop_telling()
        link = self._link()
        if link is not None and taken:
            link.take_terminals(taken)

    def _stop_telling(self) -> None:
        self._taken = {}
        self._taken_size = self._taken_chunks = 0
        if self._telling is not None and self._telling.active():
            self._telling.cancel()
        self._telling = None

    # -- calls

    async def _ask(self, method: rpc.Method, request: Struct, *, changes: bool = False) -> Any:
        try:
            return await self._call(method, request)
        except CallError as error:
            raise _translated(error, changes=changes) from None

    def _call(self, method: rpc.Method, request: Struct) -> Deferred[Any]:
        link = self._link()
        if link is None:
            return fail(_unavailable())
        return link.call(method, request)


def _translated(error: BaseException, *, changes: bool = False) -> GarconError:
    """Say in the words of terminals how a call has failed."""
    if not isinstance(error, CallError):
        return terminal_error(INTERNAL, "The terminal failed.")
    if error.domain == "terminal" and error.code in STATUSES:
        return terminal_error(error.code, error.text, status=error.status)
    if error.code == METHOD_UNKNOWN:
        return terminal_error(UNSUPPORTED, "This executor has no terminals.")
    if error.code == EXECUTOR_BUSY:
        return terminal_error(BACKPRESSURE, "Too much is under way on the executor's link.")
    if error.code == MESSAGE_TOO_LARGE:
        return terminal_error(VALIDATION, "The request is too large.")
    if changes and error.outcome == "unknown":
        return terminal_error(
            OUTCOME_UNKNOWN,
            "The executor was asked, and its answer was lost; list its terminals to see what it"
            " has done.",
        )
    return _unavailable()


def _unavailable() -> CallError:
    text = "The executor is not connected."
    return CallError(
        UNAVAILABLE, text, outcome="not-dispatched", domain="terminal", status=503, retryable=True
    )


def _not_here() -> GarconError:
    return terminal_error(NOT_ATTACHED, "This terminal is not attached here.")
