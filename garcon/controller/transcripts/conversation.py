"""The conversation of a view, as an agent without a session of its own is given it (chats.md
5.1.4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec
from twisted.internet.defer import Deferred

from garcon.contract.limits import MIB
from garcon.contract.messages import AssistantMessage, Image
from garcon.contract.runs import HistoryMessage
from garcon.controller.transcripts.rows import input_of
from garcon.store.interfaces import Damaged
from garcon.store.records import Row

MESSAGES = 199
"""Earlier messages that a turn is given; with its prompt they make two hundred."""
TEXT_BYTES, IMAGE_BYTES = 6 * MIB, 4 * MIB
"""What they may hold together: a launch has to fit into one message of the link.  The newest are
kept; an older message loses its attachments before any text is left out.
"""

_ASSISTANT = b'{"type":"assistant-message"'
"""How the JSON of such a row begins: msgspec writes the tag first."""
_CHUNK = 200

Read = Callable[[int, int], Deferred[list[Row]]]


async def conversation(
    read: Read, view_id: str, last_ordinal: int, without: Collection[int] = ()
) -> list[HistoryMessage]:
    """Return the texts of users and agents, oldest first; `without` names user rows to leave out.

    `read` returns the rows between two ordinals; fails with `Damaged`.
    """
    found: list[HistoryMessage] = []
    text, pictures, last = 0, 0, last_ordinal
    while last > 0:
        first = max(1, last - _CHUNK + 1)
        for row in reversed(await read(first, last)):
            message = _message(view_id, row, without)
            if message is None:
                continue
            text += len(message.content.encode())
            pictures += sum(len(image.data) for image in message.images)
            if len(found) == MESSAGES or text > TEXT_BYTES:
                return found[::-1]
            if pictures > IMAGE_BYTES:
                message = HistoryMessage(message.role, message.content)
            found.append(message)
        last = first - 1
    return found[::-1]


def _message(view_id: str, row: Row, without: Collection[int]) -> HistoryMessage | None:
    if row.kind == "user-input" and row.ordinal not in without:
        stored = input_of(view_id, row)
        images: list[Image] = stored.attached
        return HistoryMessage("user", stored.content, images)
    if row.kind == "provider-row" and row.payload.startswith(_ASSISTANT):
        try:
            said: Any = msgspec.json.decode(row.payload, type=AssistantMessage)
        except msgspec.DecodeError as error:
            raise Damaged(view_id, f"row {row.ordinal} is illegible") from error
        return HistoryMessage("assistant", said.content) if said.content else None
    return None
