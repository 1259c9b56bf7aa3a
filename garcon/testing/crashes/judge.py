"""What must be true of a store, and of the controller that takes it up, after a crash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from attrs import frozen
from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.contract.ids import is_uuid4
from garcon.contract.queues import QueueState
from garcon.controller.transcripts.rows import HIDDEN
from garcon.store.records import Row, StoredChat
from garcon.store.sqlite import SqliteStore
from garcon.testing.crashes.users import Chat, Endpoint
from garcon.testing.inline_threads import InlinePool, InlineReactor
from garcon.testing.strict_client import StrictClient


@frozen
class Kept:
    """One chat as the store has it."""

    stored: StoredChat
    rows: list[Row]

    def ids(self, kind: str) -> list[str]:
        """Return the message ids of a kind of rows, in order."""
        return [row.client_message_id or "" for row in self.rows if row.kind == kind]

    def unanswered(self) -> list[Row]:
        """Return the inputs that nobody has answered, by the words of chats.md 5.2.1."""
        found: list[Row] = []
        for row in reversed(self.rows):
            said = msgspec.json.decode(row.payload)
            if row.kind == "provider-row" and said["type"] != "error":
                break
            if row.kind == "permission-requested":
                break
            if row.kind == "run-ended" and said["outcome"] in ("finished", "failed"):
                break
            if row.kind == "user-input":
                found.insert(0, row)
        return found


def kept_in(file: Path) -> dict[str, Kept]:
    """Read everything, while no controller has the file; a gap or a damaged row fails by itself."""
    store = SqliteStore(str(file), InlineReactor(), InlinePool())
    _result(store.open())
    try:
        found = {}
        for stored in _result(store.load()):
            assert stored.view_id is not None and not stored.damaged, stored
            rows = _result(store.read_rows(stored.view_id, 1, stored.last_ordinal or 0))
            found[stored.record.chat_id] = Kept(stored, rows)
        return found
    finally:
        _result(store.close())


def _result(d: Deferred[Any]) -> Any:
    found: list[Any] = []
    d.addCallbacks(found.append, lambda f: f.raiseException())
    return found[0]


def judge_store(chats: Iterable[Chat], kept: dict[str, Kept]) -> list[str]:
    """Return what is wrong with what the store kept of what the users were told."""
    return [text for chat in chats for text in _judge_kept(chat, kept)]


def _judge_kept(chat: Chat, kept: dict[str, Kept]) -> list[str]:
    found = kept.get(chat.id)
    if found is None:
        return [f"{chat.id} is gone"] if chat.is_started else []
    inputs, rows = found.ids("user-input"), found.ids("notice")
    wrong = []
    for name, count in Counter(inputs + [row for row in rows if row]).items():
        if count > 1:
            wrong.append(f"{name} is there {count} times")
    wrong += [f"{name} was accepted and is gone" for name in chat.accepted if name not in inputs]
    wrong += [f"{name} was refused and is there" for name in chat.refused if name in inputs]
    wrong += [f"the row {name} is gone" for name in chat.rows if name not in rows]
    told = [name for name in inputs if name in chat.accepted]
    if told != [name for name in chat.accepted if name in inputs]:
        wrong.append(f"the inputs of {chat.id} are out of order: {told}")
    known = {*chat.accepted, *chat.queued, *_asked_for(chat)}
    wrong += [f"nobody has sent {name}" for name in inputs if name not in known]
    view = found.stored.view_id
    if chat.view_id not in (None, view) or not is_uuid4(view):
        wrong.append(f"the view of {chat.id} is {view}, and was {chat.view_id}")
    waiting = [row.client_message_id for row in found.unanswered()]
    if chat.held is not None and chat.held not in waiting:
        wrong.append(f"{chat.held} was never answered, and only {waiting} are unanswered")
    for fork in chat.forks:
        copy = kept.get(fork)
        if copy is None:
            wrong.append(f"the fork {fork} is gone")
        elif copy.ids("user-input") != inputs[: len(copy.ids("user-input"))]:
            wrong.append(f"the fork {fork} is no copy of {chat.id}")
    return wrong


def _asked_for(chat: Chat) -> list[str]:
    if chat.unknown is None:
        return []
    _, body = chat.unknown
    return [body.get("clientMessageId", "")]


def judge_ends(before: dict[str, Kept], kept: dict[str, Kept]) -> list[str]:
    """Return which turns of the process that was stopped in order have no end."""
    wrong = []
    for chat_id, one in kept.items():
        if one.stored.record.parent_chat_id is not None:
            continue  # a copy may have been made while its parent's turn ran
        past = len(before[chat_id].rows) if chat_id in before else 0
        new = [row.kind for row in one.rows[past:] if row.kind != "notice"]
        if new and new[-1] != "run-ended":
            wrong.append(f"the last turn of {chat_id} has no end")
    return wrong


def judge_controller(client: StrictClient, kept: dict[str, Kept]) -> list[str]:
    """Return what a controller that has just taken the store up shows otherwise than it was."""
    wrong = []
    listed = [entry.id for entry in client.chats()]
    if sorted(listed) != sorted(kept):
        wrong.append(f"the list has {sorted(listed)} instead of {sorted(kept)}")
    running = client.asked(operations.RUNNING_CHATS).sessions
    if any(running.values()):
        wrong.append(f"something runs: {running}")
    for chat_id, one in kept.items():
        wrong += [f"{chat_id}: {text}" for text in _judge_shown(client, chat_id, one)]
    return wrong


def _judge_shown(client: StrictClient, chat_id: str, one: Kept) -> list[str]:
    wrong = []
    page, snapshot = client.messages(chat_id, limit=200), client.snapshot(chat_id, 1)
    if (page.transcript_view_id, page.last_ordinal) != (one.stored.view_id, len(one.rows)):
        wrong.append(f"view {page.transcript_view_id} to {page.last_ordinal}")
    candidates = [(row.ordinal, row.content) for row in page.resend_candidates]
    wanted = [(row.ordinal, _content(row)) for row in one.unanswered()]
    if candidates != wanted:
        wrong.append(f"unanswered are {candidates} instead of {wanted}")
    control = snapshot.control
    if (control.version, control.updated_at, control.queue) != (0, None, QueueState()):
        wrong.append(f"its control is {control}")
    feed = snapshot.transient_feed
    if (snapshot.processing_phase, feed.rows, feed.transient_revision) != (None, [], 0):
        wrong.append(f"it is {snapshot.processing_phase}, {feed}")
    shown = [message.ordinal for message in client.all_messages(chat_id, 50)]
    visible = [row.ordinal for row in one.rows if row.kind not in HIDDEN]
    if shown != visible:
        wrong.append(f"it shows {shown} instead of {visible}")
    return wrong


def _content(row: Row) -> str:
    content: str = msgspec.json.decode(row.payload)["content"]
    return content


def ask_again(endpoint: Endpoint, chats: Sequence[Chat]) -> list[str]:
    """Ask once more for what was never answered, as a client does; afterwards it is known."""
    wrong = []
    for chat in chats:
        if chat.unknown is None:
            continue
        (operation, body), chat.unknown = chat.unknown, None
        if operation not in (operations.START_CHAT, operations.RUN_CHAT, operations.ADD_ROW):
            continue  # nothing that outlives the process
        status, answer = endpoint.ask(operation, body)
        good = 200 if operation is operations.ADD_ROW else 202
        is_there = operation is operations.START_CHAT and status == 409
        if status != good and not is_there:
            wrong.append(f"{operation.route} asked again: {status} {answer}")
        elif operation is operations.ADD_ROW:
            chat.rows.append(body["clientMessageId"])
        else:
            chat.accepted.append(body["clientMessageId"])
            chat.held = None
            chat.is_started = True
    for chat in chats:
        if chat.is_started and chat.view_id is None:
            _, page = endpoint.ask(operations.MESSAGES, query={"chatId": chat.id, "limit": 1})
            chat.view_id = page["transcriptViewId"]
    return wrong
