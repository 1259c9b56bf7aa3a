"""The identities of Garcon, each its own type so that no two are confused (architecture.md,
"Identities").
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from os import urandom
from typing import NewType

ChatId = NewType("ChatId", str)
"""16 decimal digits: microseconds since the epoch, minted by the client (chats.md 2.1)."""
TurnId = NewType("TurnId", str)
"""One agent turn; equals the run id.  UUID, minted by the controller."""
ExecutorId = NewType("ExecutorId", str)
"""``local``, or a UUID v4 minted by the controller."""
ServerInstanceId = NewType("ServerInstanceId", str)
"""One controller process: the generation that fences bridged requests."""
RuntimeId = NewType("RuntimeId", str)
"""One process of either role, as the link's hello names it."""
SessionId = NewType("SessionId", str)
"""One authenticated lane.  The primary's is the link generation."""
BindingId = NewType("BindingId", str)
"""One run's stream of producer frames from an executor."""
OccurrenceId = NewType("OccurrenceId", str)
"""One permission request.  UUID v4."""

LOCAL = ExecutorId("local")

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_VARIANTS = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
_CHAT_ID = re.compile(r"[0-9]{16}")
_LARGEST_CHAT_ID = 2**53 - 1


def new_uuid4() -> str:
    """Return a new UUID v4, in a third of the time that the standard library takes: every call over
    a link waits for one.
    """
    digits = urandom(16).hex()
    variant = _VARIANTS[digits[16]]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def is_uuid4(text: object) -> bool:
    """Whether `text` is a lower-case UUID v4 (control.md 0)."""
    return isinstance(text, str) and UUID4.fullmatch(text) is not None


def is_executor_id(text: object) -> bool:
    """Whether `text` is ``local`` or a UUID v4."""
    return text == LOCAL or is_uuid4(text)


def is_chat_id(text: object) -> bool:
    """Whether `text` is a chat id: 16 digits, at most 2**53 - 1, with a millisecond part above 0
    (chats.md 2.1).
    """
    return (
        isinstance(text, str)
        and _CHAT_ID.fullmatch(text) is not None
        and 1_000 <= int(text) <= _LARGEST_CHAT_ID
    )


def minted_at(chat_id: str) -> str:
    """Return the instant that a well-formed chat id names, as ISO text (chats.md 2.1)."""
    instant = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(chat_id) // 1_000)
    return instant.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
