"""One terminal: its output, who has it, and what is to be done with it (values only; server.md C).

Its owner is one attachment.  Owners are counted, and whatever an owner has asked for is done only
while that very ownership lasts.  The shell around this (`live.py`) gives events to sinks, writes to
the PTY, and fires the tickets that `settled` names.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field

from garcon.contract.limits import (
    TERMINAL_INPUT,
    TERMINAL_LAG,
    TERMINAL_SUBSCRIPTIONS,
    TERMINAL_WINDOW,
)
from garcon.contract.terminals import (
    AUTH_EXPIRED,
    BACKPRESSURE,
    NOT_ATTACHED,
    PROCESS_EXITED,
    REPLAY_SEQUENCE,
    TAKEOVER_REQUIRED,
    VALIDATION,
    TerminalAttached,
    TerminalAttachment,
    TerminalDetached,
    TerminalEvent,
    TerminalGone,
    TerminalInfo,
    TerminalSize,
    terminal_error,
)
from garcon.errors import GarconError
from garcon.runtime.terminals.attachment import Attachment
from garcon.runtime.terminals.operations import Operation, Operations
from garcon.runtime.terminals.scrollback import Scrollback

TOO_SLOW = "The terminal's output was not taken in time; attach again to go on with it."
EXPIRED = "The authorization of this connection has expired."


@define(eq=False)
class Session:
    """Everything that is known of a terminal."""

    session_id: str
    display_sequence: int
    directory: str
    created_at: str
    title: str | None = None
    exit_code: int | None = None
    lag_limit: int = TERMINAL_LAG
    window: int = TERMINAL_WINDOW
    """What may wait for an attachment, and what it may have without having taken it; in bytes."""
    scrollback: Scrollback = field(factory=Scrollback)
    operations: Operations = field(factory=Operations)
    attachments: dict[str, Attachment] = field(factory=dict)
    """By id; one whose end was given is not among them."""
    owner: Attachment | None = None
    generation: int = 0
    settled: list[tuple[Any, GarconError | None]] = field(factory=list)
    """Tickets of operations that have ended, and how; None is well, or silently dropped."""

    def info(self) -> TerminalInfo:
        """Return it as it is shown."""
        return TerminalInfo(
            session_id=self.session_id,
            display_sequence=self.display_sequence,
            title=self.title,
            initial_working_directory=self.directory,
            process_status="running" if self.exit_code is None else "exited",
            attachment_status="detached" if self.owner is None else "attached",
            created_at=self.created_at,
            exit_code=self.exit_code,
            latest_output_sequence=self.scrollback.latest,
        )

    # -- what the process does

    def output(self, text: str, cost: int) -> None:
        """The process has written something."""
        chunk = self.scrollback.append(text, cost)
        owner = self.owner
        if owner is not None and not owner.queue(chunk):
            self._finish(owner, TerminalDetached(code=BACKPRESSURE, message=TOO_SLOW))

    def exited(self, code: int) -> None:
        """The process has ended, and all its output has come."""
        self.exit_code = code
        for attachment in self.attachments.values():
            attachment.owe_status()
        for operation in self.operations.drop(lambda _: True):
            self.end(operation, None if operation.data is None else _exited())

    # -- who has it

    def attach(self, wanted: TerminalAttachment, now: float) -> TerminalAttached:
        """Let somebody own the terminal; see `ITerminals.attach` for the refusals."""
        latest = self.scrollback.latest
        if wanted.after_sequence > latest:
            raise terminal_error(
                REPLAY_SEQUENCE, f"The output of this terminal has come to {latest} only."
            )
        if wanted.expires_in is not None and wanted.expires_in <= 0:
            raise terminal_error(AUTH_EXPIRED, EXPIRED)
        if wanted.attachment_id in self.attachments:
            raise terminal_error(VALIDATION, "There is an attachment of this id already.")
        if len(self.attachments) >= TERMINAL_SUBSCRIPTIONS:
            raise terminal_error(BACKPRESSURE, "Too many connections follow this terminal.")
        expires = None if wanted.expires_in is None else now + wanted.expires_in
        attachment = Attachment(
            wanted.attachment_id, wanted.client_id, expires, self.lag_limit, self.window
        )
        self.attachments[attachment.id] = attachment
        previous = self.owner
        if previous is not None:
            is_other = previous.client_id != wanted.client_id
            if is_other and wanted.intent == "restore":
                raise terminal_error(
                    TAKEOVER_REQUIRED, "Another client is attached to this terminal."
                )
            previous.displace(wanted.client_id if is_other else None)
            self._drop_operations()
        return self._own(attachment, wanted)

    def _own(self, attachment: Attachment, wanted: TerminalAttachment) -> TerminalAttached:
        self.generation += 1
        self.owner = attachment
        attachment.is_owner, attachment.generation = True, self.generation
        for chunk in self.scrollback.after(wanted.after_sequence):
            attachment.queue(chunk)
        if wanted.size is not None and self.exit_code is None:
            self.operations.resize(self.generation, wanted.size, None)
        first = max(wanted.after_sequence + 1, self.scrollback.first)
        return TerminalAttached(
            terminal=self.info(),
            generation=self.generation,
            first_sequence=first,
            replay_through=self.scrollback.latest,
            is_truncated=first > wanted.after_sequence + 1,
        )

    def detach(self, attachment_id: str) -> None:
        """Somebody wants to hear no more."""
        attachment = self.attachments.pop(attachment_id, None)
        if attachment is not None:
            attachment.finish(TerminalGone())
            self._released(attachment)

    def detach_all(self, end: TerminalDetached) -> None:
        """Nobody is to have it any more."""
        for attachment in list(self.attachments.values()):
            self._finish(attachment, end)

    def terminated(self) -> None:
        """It is over; everybody hears of it."""
        for attachment in list(self.attachments.values()):
            self._finish(attachment, TerminalGone())

    def expire(self, now: float) -> None:
        """End what has lasted as long as it may."""
        for attachment in list(self.attachments.values()):
            if attachment.expires_at is not None and attachment.expires_at <= now:
                self._finish(attachment, TerminalDetached(code=AUTH_EXPIRED, message=EXPIRED))

    @property
    def next_expiry(self) -> float | None:
        """When `expire` has something to do next."""
        times = [a.expires_at for a in self.attachments.values() if not a.is_ending]
        return min((time for time in times if time is not None), default=None)

    def _finish(self, attachment: Attachment, end: TerminalGone | TerminalDetached) -> None:
        attachment.finish(end)
        self._released(attachment)

    def _released(self, attachment: Attachment) -> None:
        if self.owner is attachment:
            self.owner = None
            self._drop_operations()

    def rename(self, title: str | None) -> None:
        """Give it a title, or take it away."""
        self.title = title
        for attachment in self.attachments.values():
            attachment.owe_status()

    # -- what is told

    def next_event(self, attachment: Attachment) -> TerminalEvent | None:
        """Return what an attachment is to be told next, None if nothing or if it has to wait."""
        return attachment.next_event(self.info())

    def gave(self, attachment: Attachment, event: TerminalEvent) -> None:
        """It was told that."""
        attachment.gave(event)
        if attachment.is_over:
            self.attachments.pop(attachment.id, None)

    # -- what is asked for

    def type(self, attachment_id: str, data: str, ticket: Any, now: float) -> None:
        """Add an input to what waits; see `ITerminals.input` for the refusals."""
        encoded = data.encode("utf-8", "replace")
        if len(encoded) > TERMINAL_INPUT:
            raise terminal_error(
                VALIDATION, f"One input may have {TERMINAL_INPUT} bytes; nothing of it was typed."
            )
        owner = self._owner(attachment_id, now)
        if self.exit_code is not None:
            raise _exited()
        self.operations.type(owner.generation, encoded, ticket)

    def resize(self, attachment_id: str, size: TerminalSize, ticket: Any, now: float) -> None:
        """Add a size to what waits; see `ITerminals.resize`."""
        owner = self._owner(attachment_id, now)
        if self.exit_code is not None:
            self.settled.append((ticket, None))
        else:
            self.operations.resize(owner.generation, size, ticket)

    def _owner(self, attachment_id: str, now: float) -> Attachment:
        self.expire(now)
        owner = self.owner
        if owner is None or owner.id != attachment_id:
            raise terminal_error(NOT_ATTACHED, "This terminal is not attached here.")
        return owner

    def next_operation(self, now: float) -> Operation | None:
        """Take out what is to be done next; `end` says how that went."""
        self.expire(now)
        while (operation := self.operations.next()) is not None:
            if self.owner is not None and self.owner.generation == operation.generation:
                return operation
            self.end(operation, None)
        return None

    def end(self, operation: Operation, error: GarconError | None) -> None:
        """An operation is over."""
        self.settled += [(t, error) for t in operation.tickets if t is not None]

    def _drop_operations(self) -> None:
        for operation in self.operations.drop(lambda _: True):
            self.end(operation, None)


def _exited() -> GarconError:
    return terminal_error(PROCESS_EXITED, "The process of this terminal has exited.")
