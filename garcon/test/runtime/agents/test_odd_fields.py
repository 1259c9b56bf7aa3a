"""Claude Code and Codex may say anything in any field that we read, in any order and again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.runs import NativeRow
from garcon.runtime.agents import claude_history, codex_history
from garcon.runtime.agents.claude_known import FIELDS
from garcon.runtime.agents.claude_protocol import ClaudeConversation
from garcon.runtime.agents.claude_tools import _ROWS
from garcon.runtime.agents.codex_known import MEMBERS
from garcon.runtime.agents.codex_protocol import CodexConversation
from garcon.runtime.agents.codex_requests import KINDS
from garcon.runtime.agents.codex_settings import USUAL_EFFORTS
from garcon.runtime.agents.conversation import Conversation
from garcon.test.properties import given, settings
from garcon.test.runtime.agents.odd import (
    ODD,
    Listener,
    Message,
    as_read,
    kinds,
    places,
    put,
)
from garcon.test.runtime.agents.replay import Taken, recorded
from garcon.testing.agent_runs import a_launch

THREAD, TURN = "thread-1", "turn-1"
TOOL_INPUT = {
    **dict.fromkeys(("command", "file_path", "path", "old_string", "new_string", "content"), "x"),
    **dict.fromkeys(("pattern", "url", "prompt", "query", "subagent_type", "plan"), "x"),
    "offset": 1,
    "limit": 2,
    "todos": [{"content": "a", "status": "completed"}],
    "questions": [
        {
            "question": "q",
            "header": "h",
            "multiSelect": True,
            "options": [{"label": "l", "description": "d"}],
        }
    ],
}
ITEM = {
    "changes": [{"path": "a", "kind": {"type": "add", "move_path": "b"}, "diff": "d"}],
    "receiverThreadIds": ["a"],
    "agentsStates": {"a": {"status": "s", "message": "m"}},
    "contentItems": [{"type": "text", "text": "t"}],
    "result": {"content": [{"type": "text", "text": "t"}]},
    "arguments": {"a": 1},
    "action": {"query": "q", "url": "u"},
    "summary": ["a"],
    "exitCode": 1,
    "status": "failed",
    "tool": "spawnAgent",
}
ASKED = {
    **dict.fromkeys(("reason", "command", "kind", "serverName", "message", "grantRoot"), "x"),
    "itemId": "i",
    "networkApprovalContext": {"host": "h", "protocol": "p"},
    "additionalPermissions": {"a": 1},
    "permissions": {"a": 1},
    "requestedSchema": {"properties": {}},
    "questions": [
        {
            "id": "q",
            "question": "w",
            "header": "h",
            "isSecret": True,
            "options": [{"label": "l", "description": "d"}],
        }
    ],
}
TOLD: dict[str, Message] = {
    "error": {
        "willRetry": True,
        "error": {
            "message": "m",
            "codexErrorInfo": {"a": {"httpStatusCode": 429}},
            "additionalDetails": "d",
        },
    },
    "turn/started": {"turn": {"id": TURN}},
    "turn/completed": {
        "turn": {"id": TURN, "status": "failed", "error": {"message": "m", "codexErrorInfo": "x"}}
    },
    "turn/plan/updated": {"explanation": "e", "plan": [{"step": "s", "status": "completed"}]},
    "thread/tokenUsage/updated": {
        "tokenUsage": {
            "last": {"totalTokens": 1, "inputTokens": 1, "outputTokens": 1},
            "total": {"totalTokens": 1, "inputTokens": 1, "outputTokens": 1},
            "modelContextWindow": 1,
        }
    },
    "model/rerouted": {"fromModel": "a", "toModel": "b"},
    "warning": {"message": "a"},
    "serverRequest/resolved": {"requestId": 3},
}


def claude_messages() -> Iterator[Message]:
    """Yield all that Claude Code is known to say: as recorded, and each field of each kind."""
    for name in ("claude", "claude-controls", "claude-steering"):
        for direction, message in recorded(f"{name}.jsonl"):
            if direction == "out":
                yield message
    for kind, fields in FIELDS.items():
        name, _, subtype = kind.partition("/")
        whole = dict.fromkeys(fields - {"parent_tool_use_id"}, "x") | {"type": name}
        yield {**whole, "subtype": subtype} if subtype else whole
    about = {"trigger": "auto", "pre_tokens": 15, "post_tokens": 7}
    yield {"type": "system", "subtype": "compact_boundary", "compact_metadata": about}
    yield {"type": "user", "uuid": "u", "message": {"content": "the summary"}}
    yield {"type": "result", "is_error": True, "errors": ["x"], "api_error_status": 500}
    retry = {"attempt": 1, "max_retries": 2, "retry_delay_ms": 3, "error_status": 500}
    yield {"type": "system", "subtype": "api_retry", "error": "x", **retry}
    for tool in _ROWS:
        block = {"type": "tool_use", "id": "t", "name": tool, "input": TOOL_INPUT}
        yield {"type": "assistant", "uuid": "u", "message": {"content": [block]}}
        asked = {
            "subtype": "can_use_tool",
            "tool_name": tool,
            "tool_use_id": "t",
            "input": TOOL_INPUT,
            "permission_suggestions": [{"type": "setMode", "mode": "plan"}],
        }
        yield {"type": "control_request", "request_id": "q", "request": asked}


def codex_items() -> Iterator[Message]:
    """Yield an item of each kind, with all of its members."""
    for kind, members in MEMBERS.items():
        whole: Message = {**dict.fromkeys(members, "x"), "type": kind, "id": "i"}
        yield whole | {name: value for name, value in ITEM.items() if name in members}


def codex_messages() -> Iterator[Message]:
    """Yield all that Codex is known to say, likewise."""
    for name in ("codex-approvals", "codex-turns"):
        for direction, message in recorded(f"{name}.jsonl"):
            if direction == "out":
                said = message.get("params")
                if isinstance(said, dict) and "threadId" in said:
                    message = {**message, "params": {**said, "threadId": THREAD}}
                yield message
    here = {"threadId": THREAD, "turnId": TURN}
    for item in codex_items():
        for stage in ("started", "completed"):
            yield {"method": f"item/{stage}", "params": {**here, "item": item}}
    for method, said in TOLD.items():
        yield {"method": method, "params": {**here, **said}}
    for method in KINDS:
        yield {"method": method, "id": 3, "params": {**here, **ASKED}}


def claude() -> tuple[Conversation, Taken]:
    """Return a talk with Claude Code that has taken up its turn's line."""
    conversation, taken = ClaudeConversation(), Taken()
    taken.take(conversation.open())
    ready = {"subtype": "success", "request_id": "initialize"}
    taken.take(
        conversation.received({"type": "control_response", "response": ready}, taken.stamp())
    )
    moment = taken.stamp()
    taken.take(conversation.prompt(a_launch("hi"), moment))
    line = {"type": "user", "isReplay": True, "uuid": moment.fresh_id, "message": {"content": "hi"}}
    taken.take(conversation.received(line, taken.stamp()))
    about = {"type": "system", "subtype": "compact_boundary", "compact_metadata": {"pre_tokens": 1}}
    taken.take(conversation.received(about, taken.stamp()))
    return conversation, taken


def codex() -> tuple[Conversation, Taken]:
    """Return a talk with Codex whose turn has its name."""
    conversation, taken = CodexConversation(a_launch("hi"), None, lambda _: USUAL_EFFORTS), Taken()

    def reply(result: Message) -> None:
        asked = [one["id"] for one in taken.sent if "id" in one]
        taken.take(conversation.received({"id": asked[-1], "result": result}, taken.stamp()))

    taken.take(conversation.open())
    reply({})
    reply({"thread": {"id": THREAD}, "model": "m"})
    taken.take(conversation.prompt(a_launch("hi"), taken.stamp()))
    reply({"turn": {"id": TURN}})
    return conversation, taken


CLAUDE, CODEX = list(kinds(claude_messages())), list(kinds(codex_messages()))
WHO: Sequence[tuple[Callable[[], tuple[Conversation, Taken]], list[Message]]] = (
    (claude, CLAUDE),
    (codex, CODEX),
)


class Fields(SynchronousTestCase):
    def test_no_value_of_one_field_breaks_anything(self) -> None:
        """Each place of each message, with each odd value, in a turn that goes on meanwhile."""
        for make, messages in WHO:
            listener = Listener(make)
            for message in messages:
                for place in places(message):
                    for odd in ODD:
                        listener.hears(put(message, place, odd))
                    listener.goes()

    @settings(max_examples=300)
    @given(seed=st.integers(0, 2**32), who=st.sampled_from((0, 1)))
    def test_several_in_any_order(self, seed: int, who: int) -> None:
        """Messages twice, late, after the end, before what they answer, and each odd somewhere."""
        make, messages = WHO[who]
        chance = random.Random(seed)
        listener = Listener(make)
        for _ in range(chance.randrange(1, 30)):
            message: Any = chance.choice(messages)
            for _ in range(chance.choice((0, 0, 1, 3))):
                place = chance.choice(list(places(message)) or [()])
                message = put(message, place, chance.choice(ODD)) if place else message
            for _ in range(chance.choice((1, 1, 2))):
                if (read := as_read(message)) is not None:
                    listener.hears(read)
        listener.goes()

    def test_no_value_of_one_field_breaks_a_history(self) -> None:
        """What cannot be told is left out; the rows can be written, and read again."""
        said = {"type": "text", "text": "x"}, {"type": "image", "url": "data:image/png;base64,AA"}
        items = [*codex_items(), {"type": "userMessage", "id": "a", "content": [*said]}]
        for item in items:
            entry = {"item": item, "startedAtMs": 1, "completedAtMs": 2}
            for place in places(entry):
                for odd in ODD:
                    for row in codex_history.rows(put(entry, place, odd)):
                        msgspec.json.decode(msgspec.json.encode(row), type=NativeRow)
        for message in CLAUDE:
            entry = {**message, "timestamp": "2026-01-02T03:04:05.678Z", "uuid": "u"}
            for place in places(entry):
                for odd in ODD:
                    for row in claude_history._rows(put(entry, place, odd), {"preTokens": odd}):
                        msgspec.json.decode(msgspec.json.encode(row), type=NativeRow)
