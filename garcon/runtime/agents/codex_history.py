"""What Codex remembers of a thread, as rows, oldest first: asked of it page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET

from garcon.contract.limits import MIB, RUN_EVENT
from garcon.contract.messages import Compaction, Image, UserMessage
from garcon.contract.runs import NativeRow, RowProduced, SessionPoint
from garcon.errors import GarconError
from garcon.runtime.agents import codex_items
from garcon.runtime.agents.codex_client import CodexClient, CodexFailed
from garcon.runtime.agents.codex_turn import COMPACTED
from garcon.runtime.agents.codex_wire import an_object, objects_of, text_of
from garcon.runtime.agents.history import is_preface
from garcon.runtime.cutting import fitting
from garcon.runtime.interfaces import TakeRows

PAGE = 20
"""Items that are asked for at once: each may be large, and they come in one line."""
ANSWER_TIME = 60.0
"""How long a page may take."""
PIECE_ROWS, PIECE_BYTES = 100, MIB
"""Of one piece; a row that is larger by itself is a piece of its own."""


async def hand_over(client: CodexClient, thread_id: str, take: TakeRows) -> None:
    """Hand over all rows of a thread.  Raises `GarconError` where it cannot be read."""
    cursor: Any = None
    while True:
        asked = {"threadId": thread_id, "limit": PAGE, "sortDirection": "asc", "cursor": cursor}
        try:
            page = await client.call("thread/items/list", asked)
        except CodexFailed as failure:
            raise unreadable(failure.text) from None
        for piece in pieces(row for entry in objects_of(page.get("data")) for row in rows(entry)):
            await take(piece)
        cursor = page.get("nextCursor")
        if not cursor:
            return


async def has_moved_on(client: CodexClient, point: SessionPoint) -> bool:
    """Whether a thread's last turn is another one than the point is behind: it was gone on with, or
    reverted.  Raises `CodexFailed`.
    """
    asked = {"threadId": point.session.agent_session_id, "limit": 1}
    turns = objects_of((await client.call("thread/turns/list", asked)).get("data"))
    return bool(turns) and text_of(turns[0].get("id")) != point.anchor


def unreadable(why: str) -> GarconError:
    """A thread cannot be read, now at least."""
    return GarconError(
        "HISTORY_LOAD_FAILED", f"Codex could not read its session: {why}", retryable=True
    )


def rows(entry: dict[str, Any]) -> Iterator[NativeRow]:
    """Yield the rows of one item of a thread."""
    item = an_object(entry.get("item"))
    begun, ended = _time(entry, item, "startedAtMs"), _time(entry, item, "completedAtMs")
    match item.get("type"):
        case "userMessage":
            if (message := _user(item, begun)) is not None:
                yield message
            return
        case "contextCompaction":
            yield Compaction(timestamp=ended, trigger="auto", summary=COMPACTED)
            return
    for row in codex_items.said(item, ended):
        yield _cut(row)
    if (use := codex_items.use(item, begun)) is not None:
        yield _cut(use)
        yield _cut(codex_items.result(item, ended))


def pieces(found: Iterator[NativeRow]) -> Iterator[Sequence[NativeRow]]:
    """Yield rows in pieces of a bounded size."""
    piece: list[NativeRow] = []
    size = 0
    for row in found:
        more = len(msgspec.json.encode(row))
        if piece and (len(piece) >= PIECE_ROWS or size + more > PIECE_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(row)
        size += more
    if piece:
        yield piece


def _user(item: dict[str, Any], at: str) -> UserMessage | None:
    """Return an input, without what was put ahead of it for a thread that had not heard it."""
    texts, images = [], []
    for part in objects_of(item.get("content")):
        match part.get("type"):
            case "text" if not is_preface(text := text_of(part.get("text"))):
                texts.append(text)
            case "image" if (url := text_of(part.get("url"))).startswith("data:image/"):
                images.append(Image(data=url))
    text = "\n\n".join(texts)
    if not text.strip() and not images:
        return None
    if sum(len(image.data) for image in images) > RUN_EVENT // 2:
        images = []
    return UserMessage(timestamp=at, content=text, images=images or UNSET)


def _cut(row: Any) -> Any:
    """Return a row that is no larger than those of a turn are."""
    event = fitting(RowProduced(message=row), RUN_EVENT)
    return event.message if isinstance(event, RowProduced) else row


def _time(entry: dict[str, Any], item: dict[str, Any], name: str) -> str:
    """Return when an item began or ended; what is not told was at the beginning of time."""
    told = next((v for v in (entry.get(name), item.get(name)) if isinstance(v, int)), 0)
    try:
        moment = datetime.fromtimestamp(told / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        moment = datetime.fromtimestamp(0, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
