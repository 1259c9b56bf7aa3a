"""One request for every operation on a chat: in order in all but the chat, which a test names."""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.contract.operations import Operation
from garcon.test.controller.chats.cast import INSTANCE, SETTINGS

Request = dict[str, Any]

_COMMAND = {"clientRequestId": "r"}
_MESSAGE = {"clientRequestId": "r", "clientMessageId": "m"}
_VIEW = {"transcriptViewId": "v"}
_ENTRY = {"clientRequestId": "r", "entryId": "e"}


def _control(chat_id: str) -> Request:
    return {
        "serverInstanceId": INSTANCE,
        "chatId": chat_id,
        "runId": "run",
        "permissionOccurrenceId": "o",
    }


def requests(chat_id: str, other: str) -> dict[str, tuple[Operation, Request, Request]]:
    """Return operation, body and query by name; `other` is the chat that some of them make."""
    chat = {"chatId": chat_id}
    source = {"sourceChatId": chat_id, "chatId": other}
    bodies: list[tuple[Operation, Request]] = [
        (operations.RUN_CHAT, {**chat, **_MESSAGE, **_VIEW, "command": "x"}),
        (operations.FORK, source),
        (operations.FORK_RUN, {**source, **_MESSAGE, "command": "x"}),
        (operations.HANDOFF_RUN, {**source, **_MESSAGE, "command": "x"}),
        (operations.COMPACT, {**chat, **_COMMAND}),
        (operations.STOP_CHAT, {**chat, **_COMMAND}),
        (operations.INTERRUPT_AND_SEND, {**chat, **_COMMAND}),
        (operations.STEER, {**chat, **_MESSAGE, **_VIEW, "content": "x"}),
        (operations.CREATE_ENTRY, {**chat, **_MESSAGE, **_VIEW, "content": "x"}),
        (operations.REPLACE_ENTRY, {**chat, **_ENTRY, "content": "x", "expectedRevision": 1}),
        (operations.DELETE_ENTRY, {**chat, **_ENTRY}),
        (
            operations.MOVE_ENTRY,
            {
                **chat,
                **_ENTRY,
                "targetEntryId": "t",
                "placement": "after",
                "expectedReorderRevision": 0,
                "expectedSourceRevision": 1,
                "expectedTargetRevision": 1,
            },
        ),
        (
            operations.STEER_ENTRY,
            {**chat, **_ENTRY, **_VIEW, "expectedRevision": 1, "expectedReorderRevision": 0},
        ),
        (operations.PAUSE_QUEUE, chat),
        (operations.CLEAR_QUEUE, chat),
        (operations.RESUME_QUEUE, {**chat, "pauseId": "p"}),
        (operations.ADD_ROW, {**chat, **_MESSAGE, **_VIEW, "type": "notice", "content": "x"}),
        (
            operations.PERMISSION_DECISION,
            {
                **chat,
                **_COMMAND,
                "permissionOccurrenceId": "o",
                "allow": True,
                "alwaysAllow": False,
                "control": _control(chat_id),
            },
        ),
        (operations.CHANGE_PROJECT_PATH, {**chat, "projectPath": "/p"}),
        (operations.DELETE_CHAT, chat),
        (operations.TOGGLE_PIN, chat),
        (operations.TOGGLE_ARCHIVE, chat),
        (operations.PIN, {**chat, "pinned": True}),
        (operations.ARCHIVE, {**chat, "archived": True}),
        (operations.REORDER_CHAT, {**chat, "placement": {"kind": "boundary", "boundary": "top"}}),
        (operations.SET_TAGS, {**chat, "tags": []}),
        (operations.CHANGE_TAGS, {**chat, "tags": []}),
        (operations.CHANGE_EXECUTION_SETTINGS, {**chat, "thinkingMode": "high"}),
        (operations.CHANGE_MODEL, {**chat, "model": "x"}),
        (operations.SELECT_CHAT, chat),
        (operations.SESSION_NAME, {**chat, "title": "x"}),
    ]
    queries = (
        *(operations.SNAPSHOT, operations.MESSAGES, operations.READ_QUEUE, operations.READ_ROWS),
        *(operations.CHAT_DETAILS, operations.READ_TAGS),
    )
    found = {one.route.key: (one, body, Request()) for one, body in bodies}
    return found | {one.route.key: (one, Request(), chat) for one in queries}


def start(chat_id: str, project: str) -> Request:
    """Return the body of a start."""
    return {
        **_MESSAGE,
        "chatId": chat_id,
        "agentId": "scripted",
        "projectPath": project,
        "model": "scripted",
        "agentSettings": SETTINGS,
        "command": "hello",
    }
