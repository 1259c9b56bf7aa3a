"""Looking after chats: deleting, selecting, ordering, tagging, marking as read, finding and
describing them (chats.md 3.2, 3.3, 3.25 to 3.28, 3.33 to 3.35; control.md K9).
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field


class _Part(Struct, frozen=True, rename="camel", kw_only=True):
    pass


class _Exact(_Part, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Done(_Part, frozen=True, kw_only=True):
    success: bool = True


class ChatQuery(_Part, frozen=True, kw_only=True):
    chat_id: str = ""


class NamedChat(_Part, frozen=True, kw_only=True):
    """A chat that the body names, or else the query."""

    chat_id: str = ""


class SelectChat(_Part, frozen=True, kw_only=True):
    """None selects nothing; it has to be said."""

    chat_id: str | None


class SelectedChat(Done, frozen=True, kw_only=True):
    last_selected_chat_id: str | None


# Places in the list


class TogglePin(NamedChat, frozen=True, kw_only=True):
    pass


class PinToggled(Done, frozen=True, kw_only=True):
    is_pinned: bool


class ToggleArchive(NamedChat, frozen=True, kw_only=True):
    pass


class ArchiveToggled(Done, frozen=True, kw_only=True):
    is_archived: bool


class SetPinned(_Part, frozen=True, kw_only=True):
    chat_id: str
    pinned: bool


class PinSet(Done, frozen=True, kw_only=True):
    chat_id: str
    pinned: bool
    changed: bool


class SetArchived(_Part, frozen=True, kw_only=True):
    chat_id: str
    archived: bool


class ArchiveSet(Done, frozen=True, kw_only=True):
    chat_id: str
    archived: bool
    changed: bool


class AtBoundary(_Exact, frozen=True, tag_field="kind", tag="boundary", kw_only=True):
    boundary: Literal["top", "bottom"]


class RelativeTo(_Exact, frozen=True, tag_field="kind", tag="relative", kw_only=True):
    reference_chat_id: str
    position: Literal["before", "after"]


class ReorderChat(_Exact, frozen=True, kw_only=True):
    chat_id: str
    placement: AtBoundary | RelativeTo


class ChatReordered(Done, frozen=True, kw_only=True):
    chat_id: str
    order_group: Literal["pinned", "normal", "archived"]
    changed: bool


# Marks and tags


class ReadMark(_Part, frozen=True, kw_only=True):
    chat_id: str
    last_read_at: str


class MarkRead(_Part, frozen=True, kw_only=True):
    """`entries` are objects with a ``chatId``; their times are not looked at."""

    entries: Any = None


class MarkedRead(Done, frozen=True, kw_only=True):
    results: list[ReadMark] = field(default_factory=list)


class ChangeTags(_Part, frozen=True, kw_only=True):
    """`tags` replace all; what is no list is none."""

    chat_id: str
    tags: Any = None


class TagsChanged(Done, frozen=True, kw_only=True):
    chat_id: str
    tags: list[str]


class SetTags(_Exact, frozen=True, kw_only=True):
    chat_id: str
    tags: list[str]


class TagsSet(Done, frozen=True, kw_only=True):
    chat_id: str
    tags: list[str]
    changed: bool


class ChatTags(_Part, frozen=True, kw_only=True):
    chat_id: str
    tags: list[str]


# Looking


class RunningChat(_Part, frozen=True, kw_only=True):
    id: str
    status: Literal["running"] = "running"


class RunningChats(_Part, frozen=True, kw_only=True):
    """What runs, by agent; every known agent has a key."""

    sessions: dict[str, list[RunningChat]]


class TranscriptSource(_Part, frozen=True, kw_only=True):
    kind: Literal["filesystem-path", "provider-reference"]
    value: str


class TrailingHandoff(_Part, frozen=True, kw_only=True):
    agent_id: str
    model: str | None


class CarryOverSegment(_Part, frozen=True, kw_only=True):
    id: str
    agent_id: str
    model: str | None
    captured_at: str
    stored_message_count: int
    visible_message_count: int
    truncated: bool
    trailing_handoff: TrailingHandoff | None


class CarryOver(_Part, frozen=True, kw_only=True):
    """What was archived of a chat in an older layout: nothing, as this controller has none."""

    revision: str = "carry-v1:0"
    archived_message_count: int = 0
    segments: list[CarryOverSegment] = field(default_factory=list)


class ChatDetails(_Part, frozen=True, kw_only=True):
    """chats.md 3.34, with the executor (contract/README.md)."""

    chat_id: str
    executor_id: str
    first_message: str
    created_at: str | None
    last_activity_at: str | None
    agent_session_id: str | None
    transcript_source: TranscriptSource | None
    carry_over: CarryOver = CarryOver()


class ValidateStartQuery(_Part, frozen=True, kw_only=True):
    path: str = ""
    executor_id: str | None = None


class StartValid(_Part, frozen=True, kw_only=True):
    valid: Literal[True] = True
    is_git_repo: bool


class StartInvalid(_Part, frozen=True, kw_only=True):
    """Why no chat can be started there.  It is an answer, not a failure (3.35)."""

    success: Literal[False] = False
    valid: Literal[False] = False
    error: str
    error_code: Literal[
        "path_required",
        "not_directory",
        "outside_base_dir",
        "path_not_found",
        "permission_denied",
        "unknown",
    ]
    retryable: Literal[False] = False


class FindNativeSession(_Part, frozen=True, kw_only=True):
    """Which chats an agent's own session belongs to; the same id on two executors is two."""

    native_session_id: str
    executor_id: str | None = None
    agent_id: str | None = None


class NativeSessionChat(_Part, frozen=True, kw_only=True):
    chat_id: str
    executor_id: str
    agent_id: str


class NativeSessionFound(Done, frozen=True, kw_only=True):
    matches: list[NativeSessionChat]
