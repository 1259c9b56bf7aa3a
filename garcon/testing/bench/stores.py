"""Stores with many chats in them, made without a controller."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from uuid import UUID

from garcon.contract.catalogs import AgentSettings
from garcon.contract.messages import AssistantMessage
from garcon.controller.service import STORE_FILE
from garcon.controller.transcripts import rows
from garcon.controller.transcripts.rows import Draft
from garcon.store.records import AppendRows, ChatRecord, PutChat, PutView, TouchChat
from garcon.store.schema import Tables, create
from garcon.testing.quick_agent import AT, QUICK

TURN_ROWS = 4
_QUESTION = "What became of part %d, and what should be done about it before the others begin?"
_ANSWER = "It is done; the tests pass, and the notes say what was left out and why. " * 4


def chat_id(number: int) -> str:
    """Return the id of the chat with this number."""
    return f"17670000{number:08}"


def view_id(number: int) -> str:
    """Return the id of its view."""
    return str(UUID(int=number, version=4))


def fill(workspace: Path, project: Path, chats: int, rows_each: int) -> None:
    """Make the store of a workspace: so many chats with so many rows each, whole turns of four."""
    workspace.mkdir(mode=0o700)
    db = sqlite3.connect(workspace / STORE_FILE, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = OFF")
    create(db)
    tables = Tables(db)
    turns = [_turn(number) for number in range(rows_each // TURN_ROWS)]
    placed = tuple(
        draft.placed(n) for n, draft in enumerate((one for turn in turns for one in turn), 1)
    )
    db.execute("BEGIN")
    for number in range(chats):
        record = _record(number, str(project))
        view = view_id(number)
        tables.apply([PutChat(record), PutView(record.chat_id, view), AppendRows(view, placed)])
        tables.apply([TouchChat(record.chat_id, AT, _ANSWER[:120])])
    db.execute("COMMIT")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    db.close()


def _record(number: int, project: str) -> ChatRecord:
    return ChatRecord(
        chat_id=chat_id(number),
        executor_id="local",
        agent_id=QUICK,
        agent_ownership_epoch=str(UUID(int=number)),
        agent_session_id="session",
        agent_settings=AgentSettings(owner_id=QUICK, schema_version=1, values={}),
        model=QUICK,
        project_path=project,
        project_key=project,
        tags=["bench"],
        first_message=_QUESTION % number,
        position=1_024 * number,
        created_at=AT,
        origin="cli",
    )


def _turn(number: int) -> list[Draft]:
    return [
        rows.user_input(AT, _QUESTION % number, [], f"message-{number}"),
        rows.session(AT, "session"),
        rows.provider_row(AssistantMessage(timestamp=AT, content=_ANSWER)),
        rows.run_ended(AT, str(UUID(int=number)), "finished", None),
    ]
