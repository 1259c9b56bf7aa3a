"""What is remembered of a chat, as values: its record, its rows, and the changes a commit may
hold.
"""

from __future__ import annotations

from typing import Any, Literal
from zlib import crc32

import msgspec
from msgspec import Struct, field, structs

from garcon.contract.catalogs import AgentSettings
from garcon.contract.ids import is_chat_id, minted_at
from garcon.contract.runs import ForkPoint

OrderGroup = Literal["pinned", "orphan", "normal", "archived"]

RowKind = Literal[
    "user-input",
    "provider-row",
    "notice",
    "session",
    "run-ended",
    "permission-requested",
    "permission-resolved",
    "permission-cancelled",
    "agent-switch",
    "unknown-event",
]


class NativeFork(Struct, frozen=True, kw_only=True):
    """Where in its parent's agent session a chat goes on.  `inherited` of its rows, the first ones,
    are not in that session.
    """

    point: ForkPoint
    inherited: int = 0


class ChatRecord(Struct, frozen=True, kw_only=True):
    """Every durable attribute of a chat but its transcript.

    `position` orders it inside its group, smallest first.  `first_message` is the first line of the
    first input.
    """

    chat_id: str
    executor_id: str
    agent_id: str
    agent_ownership_epoch: str
    agent_settings: AgentSettings
    agent_session_id: str | None = None
    model: str | None = None
    api_provider_id: str | None = None
    model_endpoint_id: str | None = None
    model_protocol: str | None = None
    permission_mode: str = "default"
    thinking_mode: str = "none"
    project_path: str
    project_key: str
    tags: list[str] = field(default_factory=list)
    name: str | None = None
    first_message: str = ""
    parent_chat_id: str | None = None
    parent_relation: Literal["delegation", "fork", "handoff"] = "delegation"
    parent_view_id: str | None = None
    parent_ordinal: int | None = None
    """Up to which row of which view of its parent a fork or a continuation was copied."""
    made_by: str | None = None
    """The command that made a fork or a continuation, for a client that asks once more."""
    is_unfinished: bool = False
    """Its rows are being copied: it is no chat yet, and a process that finds it removes it."""
    inherited: int = 0
    """How many of its rows, the first ones, were there before its agent's session began: what the
    agent keeps of the chat does not have them.
    """
    fork_from: NativeFork | None = None
    """Set while its first session has not begun, if that is to be a fork."""
    forks: int = 0
    """How many forks were made of it."""
    origin: str | None = None
    ordered_preamble_ids: list[str] | None = None
    order_group: OrderGroup = "normal"
    position: int = 0
    created_at: str
    last_read_at: str | None = None


class Row(Struct, frozen=True):
    """One raw row of a view.  `payload` is JSON, made once; `ordinal` has no gap below it."""

    ordinal: int
    kind: RowKind
    at: str
    payload: bytes
    client_message_id: str | None = None

    def check(self, view_id: str) -> int:
        """Return the value that tells this row, in this place, from a damaged or misplaced one."""
        head = (
            f"{view_id}\0{self.ordinal}\0{self.kind}\0{self.at}\0{self.client_message_id or ''}\0"
        )
        return crc32(self.payload, crc32(head.encode()))


class PutChat(Struct, frozen=True):
    """Add a chat, or replace what is remembered of it."""

    record: ChatRecord


class TouchChat(Struct, frozen=True):
    """Remember the latest conversational row of a chat (chats.md 4.1 `activity`, `preview`)."""

    chat_id: str
    last_activity_at: str
    last_message: str | None
    """None keeps what is there: a row without text moves the time only."""


class RemoveChat(Struct, frozen=True):
    """Forget a chat with all of its views and rows."""

    chat_id: str


class PutView(Struct, frozen=True):
    """Make a view the current one of its chat; the one it replaces is forgotten with its rows."""

    chat_id: str
    view_id: str


class AppendRows(Struct, frozen=True):
    """Add rows at the end of a view.  The same rows again are no change."""

    view_id: str
    rows: tuple[Row, ...]


class PutSetting(Struct, frozen=True):
    """Set one value of the small key-value settings; None removes it."""

    key: str
    value: str | None


Change = PutChat | TouchChat | RemoveChat | PutView | AppendRows | PutSetting


class StoredChat(Struct, frozen=True, kw_only=True):
    """A chat as it was found at start.

    `damaged`: its record could not be trusted; what was legible of it is kept, and the chat is to
    be fenced.  So it is where `last_ordinal` is None: not even the end of its rows can be read.
    """

    record: ChatRecord
    last_activity_at: str | None
    last_message: str
    view_id: str | None
    last_ordinal: int | None
    damaged: bool = False


def encode_record(record: ChatRecord) -> tuple[bytes, int]:
    """Return a chat record as stored, with its check value."""
    blob = msgspec.json.encode(record)
    return blob, crc32(blob)


_decode = msgspec.json.Decoder(ChatRecord).decode
_ALIKE = (
    "executor_id",
    "agent_id",
    "model",
    "api_provider_id",
    "model_endpoint_id",
    "model_protocol",
    "permission_mode",
    "thinking_mode",
    "project_path",
    "project_key",
    "order_group",
)
"""What is the same text in many chats."""


def decode_record(
    chat_id: str, blob: Any, check: Any, texts: dict[str, str]
) -> tuple[ChatRecord, bool]:
    """Return the record and whether it is damaged; an illegible one becomes a stand-in that names
    its chat only.

    `texts` are those of other records: what is alike is in memory once.
    """
    try:
        record = _decode(blob)
    except (msgspec.DecodeError, TypeError, ValueError):
        return _stand_in(chat_id), True
    for name in _ALIKE:
        text = getattr(record, name)
        if text is not None:
            structs.force_setattr(record, name, texts.setdefault(text, text))
    return record, crc32(blob) != check or record.chat_id != chat_id


def _stand_in(chat_id: str) -> ChatRecord:
    return ChatRecord(
        chat_id=chat_id,
        executor_id="local",
        agent_id="unknown",
        agent_ownership_epoch=f"unreadable-{chat_id}",
        agent_settings=AgentSettings(owner_id="unknown", schema_version=1, values={}),
        project_path="",
        project_key="",
        created_at=minted_at(chat_id if is_chat_id(chat_id) else "0"),
    )
