"""Raw rows and what they show: made once as JSON, stored so, read back as messages (chats.md 4.20,
4.21).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from garcon.contract.events import ShownRow
from garcon.contract.messages import (
    AgentSwitch,
    AssistantMessage,
    ErrorMessage,
    Image,
    PermissionCancelled,
    PermissionRequest,
    PermissionResolved,
    Presentation,
    ProviderRow,
    RowDetail,
    Style,
    TranscriptNotice,
    UserMessage,
    UserMetadata,
)
from garcon.contract.runs import NativeRow, RunEnded, RunFailure, UnknownEvent, Usage
from garcon.store.interfaces import Damaged
from garcon.store.records import Row, RowKind

_encode = msgspec.json.Encoder().encode
_decode_notice = msgspec.json.Decoder(ErrorMessage | TranscriptNotice).decode
ERROR = b'{"type":"error"'
_ASSISTANT = b'{"type":"assistant-message"'
"""How every error row's JSON begins: msgspec writes the tag first."""
HIDDEN: frozenset[RowKind] = frozenset({"session", "run-ended", "unknown-event"})
"""Rows that readers are not shown."""

Outcome = Literal["finished", "failed", "interrupted"]


class Draft(Struct, frozen=True):
    """A row that has no ordinal yet."""

    kind: RowKind
    at: str
    payload: bytes
    client_message_id: str | None = None

    def placed(self, ordinal: int) -> Row:
        return Row(ordinal, self.kind, self.at, self.payload, self.client_message_id)


class Input(Struct, frozen=True, rename="camel", kw_only=True):
    """A user row as stored.  A reader of messages sees it as the `UserMessage` it contains."""

    type: Literal["user-message"] = "user-message"
    timestamp: str
    content: str
    images: list[Image] | UnsetType = UNSET
    metadata: UserMetadata
    presentation: Any = UNSET
    """How the input is to be shown (decisions.md 29), legible or not; never part of the prompt."""
    steer: Literal[True] | UnsetType = UNSET
    """Set where it joined a turn that ran: part of what makes it the same input (chats.md 2.4)."""

    @property
    def attached(self) -> list[Image]:
        return self.images or []


class _Unreadable(Struct, frozen=True, rename="camel", kw_only=True):
    """A chat row that asks to be shown in a way nobody knows."""

    timestamp: str
    content: str
    detail: RowDetail
    title: Any = UNSET


class _Wish(Struct):
    """How an input asks to be shown."""

    presentation: Presentation | UnsetType = UNSET


_decode_wish = msgspec.json.Decoder(_Wish).decode
_PRESENTATION = b'"presentation":'
_NOTICE = Style(style="notice")


class Session(Struct, frozen=True, rename="camel"):
    """A hidden row: from here on the agent's session has this name."""

    agent_session_id: str


class RunEnd(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A hidden row: the turn is over.

    `anchors` name points in the agent's session: those after the last of the turn's assistant
    messages, in order, and None for one that has none.  `anchor` is the one after the turn.
    """

    turn_id: str
    outcome: Outcome
    error: RunFailure | None = None
    agent_version: str | None = None
    anchors: Sequence[str | None] = ()
    anchor: str | None = None
    usage: Usage | None = None


def user_input(
    at: str,
    content: str,
    images: list[Image],
    client_message_id: str,
    presentation: Any = None,
    *,
    is_steer: bool = False,
) -> Draft:
    """Return the row of an accepted input; its metadata is the message's identity and nothing
    else.
    """
    payload = Input(
        timestamp=at,
        content=content,
        images=images or UNSET,
        metadata=UserMetadata(client_message_id),
        presentation=UNSET if presentation is None else presentation,
        steer=True if is_steer else UNSET,
    )
    return Draft("user-input", at, _encode(payload), client_message_id)


def provider_row(message: ProviderRow) -> Draft:
    """Return the row of a run's output; a notice among it (output was lost) is a notice."""
    kind: RowKind = "notice" if isinstance(message, TranscriptNotice) else "provider-row"
    return Draft(kind, message.timestamp, _encode(message))


def imported(message: NativeRow) -> Draft:
    """Return the row of what an agent remembers; an input's identity is not among that."""
    if not isinstance(message, UserMessage):
        return provider_row(message)
    payload = Input(
        timestamp=message.timestamp,
        content=message.content,
        images=message.images,
        metadata=UserMetadata(),
    )
    return Draft("user-input", message.timestamp, _encode(payload))


def notice(at: str, content: str) -> Draft:
    return Draft("notice", at, _encode(TranscriptNotice(timestamp=at, content=content)))


def session(at: str, agent_session_id: str) -> Draft:
    return Draft("session", at, _encode(Session(agent_session_id)))


def run_ended(
    at: str,
    turn_id: str,
    outcome: Outcome,
    error: RunFailure | None,
    event: RunEnded | None = None,
    anchors: Sequence[str | None] = (),
) -> Draft:
    """Return the row of a turn's end; what the agent says of it comes from its own `event`."""
    end = RunEnd(
        turn_id=turn_id,
        outcome=outcome,
        error=error,
        agent_version=None if event is None else event.agent_version,
        anchors=anchors,
        anchor=None if event is None else event.anchor,
        usage=None if event is None else event.usage,
    )
    return Draft("run-ended", at, _encode(end))


def unknown_event(at: str, event: UnknownEvent) -> Draft:
    """Return the hidden row of what an agent said that we do not know, as it came."""
    return Draft("unknown-event", at, _encode(event))


def agent_switch(message: AgentSwitch) -> Draft:
    """Return the row at which a chat changes hands."""
    return Draft("agent-switch", message.timestamp, _encode(message))


def permission_requested(request: PermissionRequest) -> Draft:
    return Draft("permission-requested", request.timestamp, _encode(request))


def permission_resolved(at: str, occurrence_id: str, allowed: bool) -> Draft:
    message = PermissionResolved(
        timestamp=at, permission_occurrence_id=occurrence_id, allowed=allowed
    )
    return Draft("permission-resolved", at, _encode(message))


def permission_cancelled(at: str, occurrence_id: str) -> Draft:
    """Return the row of a void question; whatever voided it, readers see ``cancelled`` (4.21)."""
    message = PermissionCancelled(
        timestamp=at, permission_occurrence_id=occurrence_id, reason="cancelled"
    )
    return Draft("permission-cancelled", at, _encode(message))


def chat_row_message(view_id: str, row: Row) -> ErrorMessage | TranscriptNotice | None:
    """Return what a chat row shows, None for any other row; with an unreadable presentation it is
    an expanded notice.
    """
    if row.kind != "notice" or row.client_message_id is None:
        return None
    try:
        return _decode_notice(row.payload)
    except msgspec.DecodeError:
        return _as_notice(view_id, row)


def _as_notice(view_id: str, row: Row) -> TranscriptNotice:
    try:
        stored = msgspec.json.decode(row.payload, type=_Unreadable)
    except msgspec.DecodeError as error:
        raise Damaged(view_id, f"row {row.ordinal} is illegible") from error
    return TranscriptNotice(
        timestamp=stored.timestamp,
        content=stored.content,
        detail=stored.detail,
        title=stored.title if isinstance(stored.title, str) else UNSET,
        presentation=_NOTICE,
        body_disclosure="expanded",
        format="plain",
    )


def displayed(view_id: str, row: Row) -> ShownRow | None:
    """Return what a row shows, as it is stored, or None for a hidden one.

    Only what asks to be shown in a way nobody knows is made anew, as an expanded notice; where that
    cannot be done it is `Damaged`.
    """
    if row.kind in HIDDEN:
        return None
    payload = row.payload
    if row.kind == "user-input" and _PRESENTATION in payload:
        payload = _legible_input(view_id, row)
    elif row.kind == "notice" and row.client_message_id is not None:
        payload = _legible_chat_row(view_id, row)
    return ShownRow(row.ordinal, msgspec.Raw(payload))


def _legible_input(view_id: str, row: Row) -> bytes:
    try:
        _decode_wish(row.payload)
        return row.payload
    except msgspec.DecodeError:
        stored = input_of(view_id, row)
    return _encode(structs.replace(stored, presentation=Presentation(presentation=_NOTICE)))


def _legible_chat_row(view_id: str, row: Row) -> bytes:
    try:
        _decode_notice(row.payload)
        return row.payload
    except msgspec.DecodeError:
        return _encode(_as_notice(view_id, row))


def ended_turn(row: Row) -> str | None:
    """Return the turn that a row ends."""
    end = run_end(row)
    return None if end is None else end.turn_id


def run_end(row: Row) -> RunEnd | None:
    """Return what a row says of the end of a turn, None for any other."""
    if row.kind != "run-ended":
        return None
    return msgspec.json.decode(row.payload, type=RunEnd)


def session_of(row: Row) -> str | None:
    """Return the agent's session that a row begins."""
    if row.kind != "session":
        return None
    return msgspec.json.decode(row.payload, type=Session).agent_session_id


def is_said(row: Row) -> bool:
    """Whether a row is something that the agent said or did."""
    return row.kind == "provider-row" and not row.payload.startswith(ERROR)


def is_assistants(row: Row) -> bool:
    """Whether a row is an assistant's message."""
    return row.kind == "provider-row" and row.payload.startswith(_ASSISTANT)


def input_of(view_id: str, row: Row) -> Input:
    """Return the input of a ``user-input`` row."""
    try:
        return msgspec.json.decode(row.payload, type=Input)
    except msgspec.DecodeError as error:
        raise Damaged(view_id, f"row {row.ordinal} is illegible") from error


def answers_input(row: Row | Draft) -> bool:
    """Whether input before this row counts as answered (chats.md 5.2.1)."""
    match row.kind:
        case "provider-row":
            return not row.payload.startswith(ERROR)
        case "permission-requested":
            return True
        case "run-ended":
            return msgspec.json.decode(row.payload, type=RunEnd).outcome != "interrupted"
    return False


def is_conversation(message: ProviderRow) -> bool:
    """Whether a provider row moves a chat's activity (chats.md 5.14)."""
    return not isinstance(message, ErrorMessage | TranscriptNotice)


def text_of(message: ProviderRow) -> str | None:
    """Return the text that a preview shows, where a provider row has one."""
    return message.content if isinstance(message, AssistantMessage) else None


def preview_of(row: Row) -> str | None:
    """Return the text that a preview shows of a stored row, empty where it has none; None for a row
    that is no conversation.  An illegible one counts as one without a text.
    """
    if row.kind == "user-input":
        said = _text(row)
    elif row.kind == "provider-row" and not row.payload.startswith(ERROR):
        said = _text(row) if row.payload.startswith(_ASSISTANT) else ""
    else:
        return None
    return said


def _text(row: Row) -> str:
    try:
        return msgspec.json.decode(row.payload, type=_Content).content
    except msgspec.DecodeError:
        return ""


class _Content(Struct, frozen=True):
    content: str = ""
