"""Terminals (server.md C): what HTTP and the browser socket carry, and what an executor and the
controller say to each other about them.

To an executor a terminal is a session of one principal, named by a UUID.  Clients know it by
`terminal_id`, which also names the executor and its process, and which only the controller makes
and reads.  Everything after "Between executor and controller" serves Local directly and a worker
over the link (control.md J.9).
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from garcon.contract.ids import is_executor_id, is_uuid4
from garcon.contract.limits import CLIENT_ID_BYTES
from garcon.errors import GarconError

ProcessStatus = Literal["running", "exited"]
AttachmentStatus = Literal["attached", "detached"]
Intent = Literal["restore", "takeover"]

NOT_FOUND = "terminal-not-found"
LIMIT = "terminal-limit"
VALIDATION = "terminal-validation"
TAKEOVER_REQUIRED = "terminal-takeover-required"
NOT_ATTACHED = "terminal-not-attached"
PROCESS_EXITED = "terminal-process-exited"
REPLAY_SEQUENCE = "terminal-replay-sequence"
BACKPRESSURE = "terminal-backpressure"
AUTH_EXPIRED = "terminal-auth-expired"
INTERNAL = "terminal-internal"
UNSUPPORTED = "terminal-unsupported"
UNAVAILABLE = "terminal-unavailable"
OUTCOME_UNKNOWN = "terminal-outcome-unknown"
RUNTIME_CHANGED = "terminal-runtime-changed"

STATUSES = {
    NOT_FOUND: 404,
    LIMIT: 409,
    VALIDATION: 400,
    TAKEOVER_REQUIRED: 409,
    NOT_ATTACHED: 409,
    PROCESS_EXITED: 409,
    REPLAY_SEQUENCE: 400,
    BACKPRESSURE: 429,
    AUTH_EXPIRED: 401,
    INTERNAL: 500,
    UNSUPPORTED: 501,
    UNAVAILABLE: 503,
    OUTCOME_UNKNOWN: 503,
    RUNTIME_CHANGED: 409,
}
"""Every code of C.2 with its HTTP status; a bad directory is the one `VALIDATION` with 422."""

ENDS_SUBSCRIPTION = frozenset({UNAVAILABLE, BACKPRESSURE, AUTH_EXPIRED})
"""After a `terminal-error` of these the socket is no subscriber of that terminal any more."""


def terminal_error(code: str, text: str, *, status: int | None = None) -> GarconError:
    """Return a failure of the table above; it is retryable where its status says so."""
    status = STATUSES[code] if status is None else status
    return GarconError(code, text, status=status, retryable=status >= 500)


def terminal_id(executor_id: str, runtime_id: str, session_id: str) -> str:
    """Return the name by which clients know a session."""
    return f"{executor_id}/{runtime_id}/{session_id}"


def parse_terminal_id(text: str) -> tuple[str, str, str]:
    """Return the executor, the process and the session that a client's name stands for.

    Raises ``terminal-validation`` for anything `terminal_id` does not make.
    """
    parts = text.split("/")
    if (
        len(parts) != 3
        or len(text) > CLIENT_ID_BYTES
        or not is_executor_id(parts[0])
        or not (is_uuid4(parts[1]) and is_uuid4(parts[2]))
    ):
        raise terminal_error(VALIDATION, "This is not the id of a terminal.")
    return parts[0], parts[1], parts[2]


class _Part(Struct, frozen=True, rename="camel", kw_only=True):
    pass


class Terminal(_Part, frozen=True, kw_only=True):
    """A terminal as clients see it (C.1); `exit_code` is None while its process runs."""

    terminal_id: str
    display_sequence: int
    title: str | None
    initial_working_directory: str
    process_status: ProcessStatus
    attachment_status: AttachmentStatus
    created_at: str
    exit_code: int | None
    latest_output_sequence: int


# HTTP (C.2)

ClientId = Annotated[str, Meta(min_length=1)]
"""At most `CLIENT_ID_BYTES` of UTF-8, which its reader checks."""


class TerminalQuery(_Part, frozen=True, kw_only=True):
    executor_id: str | None = None


class TerminalList(_Part, frozen=True, kw_only=True):
    """Whole for this executor and this process of it, and for nothing else."""

    terminals: list[Terminal]
    terminal_runtime_id: str
    attachment_epoch: str
    success: Literal[True] = True


class CreateTerminal(_Part, frozen=True, kw_only=True):
    request_id: ClientId
    requested_initial_working_directory: str | None
    executor_id: str | None = None
    expected_terminal_runtime_id: str | None = None


class TerminalCreated(_Part, frozen=True, kw_only=True):
    terminal: Terminal
    success: Literal[True] = True


class TerminateTerminal(_Part, frozen=True, kw_only=True):
    terminal_id: ClientId
    request_id: ClientId


class TerminalTerminated(_Part, frozen=True, kw_only=True):
    """`terminal` is what was last known of it, None where there was none."""

    terminal_id: str
    terminal: Terminal | None
    success: Literal[True] = True


class RenameTerminal(_Part, frozen=True, kw_only=True):
    terminal_id: ClientId
    title: str | None


class TerminalRenamed(_Part, frozen=True, kw_only=True):
    terminal_id: str
    title: str | None
    success: Literal[True] = True


# The browser socket, from the client (C.3).  Without an attachment id the socket's present
# attachment of that terminal is meant.


class _Message(Struct, frozen=True, rename="camel", tag_field="type", kw_only=True):
    pass


_Positive = Annotated[int, Meta(gt=0, le=2**53 - 1)]
_Natural = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class AttachMessage(_Message, frozen=True, tag="terminal-attach", kw_only=True):
    terminal_id: ClientId
    client_id: ClientId
    after_sequence: _Natural
    intent: Intent
    attachment_id: ClientId | UnsetType = UNSET
    attachment_epoch: ClientId | UnsetType = UNSET


class InputMessage(_Message, frozen=True, tag="terminal-input", kw_only=True):
    """At most `TERMINAL_INPUT` bytes of UTF-8."""

    terminal_id: ClientId
    data: str
    attachment_id: ClientId | UnsetType = UNSET


class ResizeMessage(_Message, frozen=True, tag="terminal-resize", kw_only=True):
    terminal_id: ClientId
    cols: _Positive
    rows: _Positive
    attachment_id: ClientId | UnsetType = UNSET


class DetachMessage(_Message, frozen=True, tag="terminal-detach", kw_only=True):
    terminal_id: ClientId
    attachment_id: ClientId | UnsetType = UNSET


ClientMessage = AttachMessage | InputMessage | ResizeMessage | DetachMessage


# The browser socket, to the client (C.4).  `attachment_id` repeats the client's own, if it gave
# one.


class TerminalChunk(_Part, frozen=True, kw_only=True):
    """What was read from the PTY at once: whole characters, numbered from 1 within a terminal."""

    sequence: int
    data: str


class EncodedChunk(_Part, frozen=True, kw_only=True):
    """The same with its UTF-8 in base64."""

    sequence: int
    data_base64: str


class AttachedMessage(_Message, frozen=True, tag="terminal-attached", kw_only=True):
    terminal: Terminal
    replay: list[TerminalChunk]
    attachment_id: str | UnsetType = UNSET


class OutputMessage(_Message, frozen=True, tag="terminal-output", kw_only=True):
    terminal_id: str
    sequence: int
    data: str
    attachment_id: str | UnsetType = UNSET


class ReplayBatchMessage(_Message, frozen=True, tag="terminal-replay-batch", kw_only=True):
    terminal_id: str
    chunks: list[EncodedChunk]
    attachment_id: str | UnsetType = UNSET


class OutputFragmentMessage(_Message, frozen=True, tag="terminal-output-fragment", kw_only=True):
    terminal_id: str
    sequence: int
    fragment_index: int
    fragment_count: int
    data_base64: str
    attachment_id: str | UnsetType = UNSET


class StatusMessage(_Message, frozen=True, tag="terminal-status", kw_only=True):
    terminal: Terminal
    attachment_id: str | UnsetType = UNSET


class TakenOverMessage(_Message, frozen=True, tag="terminal-taken-over", kw_only=True):
    terminal_id: str
    replacement_client_id: str
    attachment_id: str | UnsetType = UNSET


class TerminatedMessage(_Message, frozen=True, tag="terminal-terminated", kw_only=True):
    terminal_id: str
    attachment_id: str | UnsetType = UNSET


class ReplayTruncatedMessage(_Message, frozen=True, tag="terminal-replay-truncated", kw_only=True):
    terminal_id: str
    first_sequence: int
    attachment_id: str | UnsetType = UNSET


class ErrorMessage(_Message, frozen=True, tag="terminal-error", kw_only=True):
    code: str
    message: str
    terminal_id: str | UnsetType = UNSET
    attachment_id: str | UnsetType = UNSET


ServerMessage = (
    AttachedMessage
    | OutputMessage
    | ReplayBatchMessage
    | OutputFragmentMessage
    | StatusMessage
    | TakenOverMessage
    | TerminatedMessage
    | ReplayTruncatedMessage
    | ErrorMessage
)


# Between executor and controller


class TerminalInfo(_Part, frozen=True, kw_only=True):
    """A terminal as its executor knows it; see `Terminal`."""

    session_id: str
    display_sequence: int
    title: str | None
    initial_working_directory: str
    process_status: ProcessStatus
    attachment_status: AttachmentStatus
    created_at: str
    exit_code: int | None
    latest_output_sequence: int

    def shown(self, executor_id: str, runtime_id: str) -> Terminal:
        """Return it under the name that clients know."""
        fields = structs.asdict(self)
        session_id = fields.pop("session_id")
        return Terminal(terminal_id=terminal_id(executor_id, runtime_id, session_id), **fields)


class TerminalsQuery(_Part, frozen=True, kw_only=True):
    principal_key: str


class TerminalsListed(_Part, frozen=True, kw_only=True):
    """One principal's terminals, in display order.

    `terminal_runtime_id` is a UUID of this executor process; `attachment_epoch` changes whenever
    all attachments have ended at once, as they do with a link's session.
    """

    terminals: list[TerminalInfo]
    terminal_runtime_id: str
    attachment_epoch: str


class TerminalCreation(_Part, frozen=True, kw_only=True):
    """One new terminal; the same `request_id` again gets the same answer.

    `directory` None is the project base.  With `expected_terminal_runtime_id` of another process
    nothing is started.
    """

    principal_key: str
    request_id: str
    directory: str | None = None
    expected_terminal_runtime_id: str | None = None


class TerminalRenaming(_Part, frozen=True, kw_only=True):
    """With a `terminal_runtime_id` of another process there is no such terminal, as with the two
    that follow.
    """

    principal_key: str
    session_id: str
    title: str | None
    terminal_runtime_id: str | None = None


class TerminalTermination(_Part, frozen=True, kw_only=True):
    principal_key: str
    session_id: str
    request_id: str
    terminal_runtime_id: str | None = None


class TerminalRemoved(_Part, frozen=True, kw_only=True):
    """What was last known of the terminal, None where there was none."""

    terminal: TerminalInfo | None = None


class TerminalSize(_Part, frozen=True, kw_only=True):
    cols: _Positive
    rows: _Positive


class TerminalAttachment(_Part, frozen=True, kw_only=True):
    """One socket's wish to have a terminal.

    `attachment_id` is made by the controller for each attempt and never used twice; `client_id` is
    the browser's.  `expires_in` is what is left of the socket's authority, in seconds, None without
    end.  `size` is set before the attachment's first input.
    """

    principal_key: str
    session_id: str
    attachment_id: str
    client_id: str
    after_sequence: _Natural
    intent: Intent
    attachment_epoch: str | None = None
    expires_in: float | None = None
    size: TerminalSize | None = None
    terminal_runtime_id: str | None = None


class TerminalAttached(_Part, frozen=True, kw_only=True):
    """The attachment owns the terminal from now on.

    The chunks from `first_sequence` up to `replay_through` are what was kept; they come first, as
    events like all that follow, and are none when the first number is the greater one.
    `is_truncated`: what lay between the wished number and `first_sequence` is gone.  `generation`
    counts the terminal's owners.
    """

    terminal: TerminalInfo
    generation: int
    first_sequence: int
    replay_through: int
    is_truncated: bool


class TerminalInput(_Part, frozen=True, kw_only=True):
    """`number` counts the inputs and sizes of an attachment from 1: what follows one that was
    refused is refused too, so that nothing is ever typed with a hole in it.
    """

    attachment_id: str
    number: int
    data: str


class TerminalResize(_Part, frozen=True, kw_only=True):
    attachment_id: str
    number: int
    size: TerminalSize


class TerminalDetach(_Part, frozen=True, kw_only=True):
    attachment_id: str


class _Event(Struct, frozen=True, rename="camel", tag_field="type", kw_only=True):
    pass


class TerminalOutput(_Event, frozen=True, tag="output", kw_only=True):
    """The next chunks, for the owner alone; encoded, a link record holds them."""

    chunks: list[TerminalChunk]


class TerminalChanged(_Event, frozen=True, tag="status", kw_only=True):
    """The terminal was renamed, or its process has exited; to its owner that comes after all
    output.
    """

    terminal: TerminalInfo


class TerminalTakenOver(_Event, frozen=True, tag="taken-over", kw_only=True):
    """Another client owns the terminal; this attachment only hears of its status from now on."""

    replacement_client_id: str


class TerminalGone(_Event, frozen=True, tag="terminated", kw_only=True):
    """The terminal was terminated.  The last event."""


class TerminalDetached(_Event, frozen=True, tag="detached", kw_only=True):
    """The executor has ended the attachment, with a code of `ENDS_SUBSCRIPTION`.  The last event.

    The process goes on, and what was not delivered can still be had by attaching again.
    """

    code: str
    message: str


TerminalEvent = (
    TerminalOutput | TerminalChanged | TerminalTakenOver | TerminalGone | TerminalDetached
)


class TerminalNotification(_Part, frozen=True, kw_only=True):
    """One event of an attachment, on its way from a worker (control.md J.6 `terminal`)."""

    attachment_id: str
    event: TerminalEvent
