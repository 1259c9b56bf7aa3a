"""Claude Code's session files, read as rows."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.messages import (
    AssistantMessage,
    Compaction,
    ErrorMessage,
    ToolResult,
    UserMessage,
)
from garcon.contract.runs import (
    ForkPoint,
    HistoryMessage,
    NativeRow,
    NativeSession,
    SessionPoint,
)
from garcon.errors import GarconError
from garcon.runtime.agents import claude_history
from garcon.runtime.agents.history import preface
from garcon.testing.agent_runs import a_launch

AT = "2026-12-01T00:53:45.142Z"
SESSION = "e5e454d1-061a-45d8-8710-1b36a9e42be2"
PROJECT = "/srv/a.b_c"
FOLDER = "-srv-a-b-c"


def text(row: NativeRow) -> str:
    """Tell a row in a few words."""
    match row:
        case UserMessage(content=content, steer=steer):
            return f"{'steer' if steer is True else 'user'}: {content}"
        case AssistantMessage(content=content):
            return f"said: {content}"
        case ToolResult(content=content):
            return f"result: {content['text']}"
        case Compaction(summary=summary):
            return f"compacted: {summary}"
        case ErrorMessage(content=content):
            return f"error: {content}"
    return type(row).__name__


class HistoryCase(SynchronousTestCase):
    """A session file in the making."""

    def setUp(self) -> None:
        self.home = Path(self.mktemp())
        self.path = self.home / ".claude" / "projects" / FOLDER / f"{SESSION}.jsonl"
        self.path.parent.mkdir(parents=True)
        self.environment = {"HOME": str(self.home)}
        self.last: str | None = None
        self.number = 0
        self.path.write_text("")

    def add(self, **entry: Any) -> str:
        """Add an entry; where nothing else is said it hangs on the last one."""
        self.number += 1
        name = f"u{self.number}"
        usual = {"uuid": name, "parentUuid": self.last, "isSidechain": False, "timestamp": AT}
        whole = usual | entry
        with self.path.open("a") as file:
            file.write(json.dumps(whole) + "\n")
        if "uuid" in whole:
            self.last = str(whole["uuid"])
        return name

    def user(self, content: Any, **more: Any) -> str:
        """Let the user say something."""
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        return self.add(type="user", message={"role": "user", "content": blocks}, **more)

    def says(self, *blocks: Any, **more: Any) -> str:
        """Let the agent say something."""
        content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        message = {"id": "m", "model": "opus", "content": content}
        return self.add(type="assistant", message=message, **more)

    def calls(self, tool_id: str, **more: Any) -> str:
        """Let the agent call a tool."""
        call = {"type": "tool_use", "id": tool_id, "name": "Bash", "input": {"command": tool_id}}
        return self.says(call, **more)

    def gets(self, tool_id: str, **more: Any) -> str:
        """Give it what the tool gave."""
        result = {"type": "tool_result", "tool_use_id": tool_id, "content": f"of {tool_id}"}
        return self.user([result], **more)

    def read(self) -> list[str]:
        """Read the session."""
        return [text(row) for row in claude_history.rows_of(str(self.path))]


class RowsTests(HistoryCase):
    """What is shown of it."""

    def test_a_conversation(self) -> None:
        """What was told, said and done, at its time; hidden context is not shown."""
        self.add(type="queue-operation", operation="enqueue", uuid=None)
        self.user("first")
        self.add(type="attachment", attachment={"type": "skill_listing", "content": "..."})
        self.says({"type": "thinking", "thinking": "hm"})
        self.says("hi")
        self.calls("t")
        self.gets("t")
        self.says("done")
        self.add(type="last-prompt", lastPrompt="first", leafUuid="u8", uuid=None)
        self.assertEqual(
            self.read(),
            ["user: first", "Thinking", "said: hi", "BashToolUse", "result: of t", "said: done"],
        )
        rows = list(claude_history.rows_of(str(self.path)))
        self.assertEqual({row.timestamp for row in rows}, {AT})

    def test_calls_side_by_side(self) -> None:
        """Their results hang on different entries; none is lost."""
        self.user("both")
        one = self.calls("a")
        two = self.calls("b")
        self.gets("b", parentUuid=two)
        self.gets("a", parentUuid=one)
        self.says("after both")
        self.assertEqual(
            self.read()[1:],
            ["BashToolUse", "BashToolUse", "result: of b", "result: of a", "said: after both"],
        )

    def test_an_input_that_was_taken_back(self) -> None:
        """Is not shown, nor what followed from it."""
        self.user("first")
        fork = self.says("one")
        self.user("wrong")
        self.says("oh")
        self.user("right", parentUuid=fork)
        self.says("good")
        self.assertEqual(self.read(), ["user: first", "said: one", "user: right", "said: good"])

    def test_further_input(self) -> None:
        """What joined a turn stands where the agent took it up."""
        self.user("work")
        self.calls("t")
        self.gets("t")
        prompt = [{"type": "text", "text": "and this"}]
        queued = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt"}
        self.add(type="attachment", attachment=queued)
        self.add(
            type="attachment",
            attachment={"type": "queued_command", "prompt": "x", "commandMode": "task"},
        )
        self.says("both")
        self.assertEqual(self.read()[3:], ["steer: and this", "said: both"])

    def test_a_compaction(self) -> None:
        """Its summary stands behind what it is of; what was kept is not shown twice."""
        self.user("first")
        kept = self.says("one")
        self.says("one", uuid=kept, parentUuid="u1")
        about = {"trigger": "manual", "preTokens": 89}
        self.add(
            type="system",
            subtype="compact_boundary",
            parentUuid=None,
            logicalParentUuid=kept,
            compactMetadata=about,
        )
        self.user("what was said", isCompactSummary=True)
        self.user("<local-command-caveat>x</local-command-caveat>", isMeta=True, parentUuid=kept)
        self.user("<command-name>/compact</command-name>")
        self.user("<local-command-stdout>Compacted</local-command-stdout>")
        self.user("go on")
        self.says("two")
        rows = list(claude_history.rows_of(str(self.path)))
        self.assertEqual(
            [text(row) for row in rows],
            [
                "user: first",
                "said: one",
                "compacted: what was said",
                "user: go on",
                "said: two",
            ],
        )
        row = rows[2]
        assert isinstance(row, Compaction)
        self.assertEqual((row.trigger, row.pre_tokens), ("manual", 89))

    def test_pictures(self) -> None:
        """Are shown with the text that came with them."""
        source = {"type": "base64", "media_type": "image/png", "data": "AAA"}
        self.user([{"type": "image", "source": source}, {"type": "text", "text": "look"}])
        (row,) = claude_history.rows_of(str(self.path))
        assert isinstance(row, UserMessage) and isinstance(row.images, list)
        self.assertEqual((row.content, row.images[0].data), ("look", "data:image/png;base64,AAA"))

    def test_what_is_not_the_users(self) -> None:
        """What we said ahead of a prompt, notes of an interrupt, and a subagent's talk."""
        launch = a_launch("x", history=[HistoryMessage("user", "before")])
        earlier = preface(launch)
        assert earlier is not None
        self.user([{"type": "text", "text": earlier}, {"type": "text", "text": "now"}])
        self.user("[Request interrupted by user]")
        self.user("told a subagent", isSidechain=True)
        self.assertEqual(self.read(), ["user: now"])

    def test_a_model_that_failed(self) -> None:
        """Shows as an error."""
        self.user("go")
        self.says("API Error: 500 boom", isApiErrorMessage=True, error="server_error")
        self.assertEqual(self.read(), ["user: go", "error: API Error: 500 boom"])

    def test_what_cannot_be_read_is_left_out(self) -> None:
        """A cut line, a line that is no object, an entry without a time."""
        self.user("first")
        with self.path.open("a") as file:
            file.write('{"type":"user","message"\n[]\n')
        self.says("one", timestamp=7)
        with self.path.open("a") as file:
            file.write('{"type":"assistant","uuid":"half')
        self.assertEqual(self.read(), ["user: first", "said: one"])
        rows = list(claude_history.rows_of(str(self.path)))
        self.assertEqual(rows[1].timestamp, "1970-01-01T00:00:00.000Z")

    def test_a_line_that_is_too_long_is_left_out(self) -> None:
        """At the bound it is read, and one byte above not; what follows is read either way."""
        self.patch(claude_history, "LINE", 4096)
        for extra, shown in ((0, 3), (1, 2)):
            self.setUp()
            self.user("first")
            size = self.path.stat().st_size
            self.says("x")
            line = self.path.stat().st_size - size
            self.path.write_text("")
            self.number, self.last = 0, None
            self.user("first")
            self.says("x" * (4096 - line + 1 + extra))
            self.user("last", parentUuid="u1")
            self.assertEqual(len(self.read()), shown)

    def test_hostile_files(self) -> None:
        """Anything may be anywhere; nothing is raised, and circles end."""
        chance = random.Random(5)
        names = [f"u{n}" for n in range(6)]
        values: list[Any] = [None, 0, True, "", "x", [], {}, [None], {"type": "text"}, *names]
        fields = ["type", "uuid", "parentUuid", "message", "attachment", "subtype", "error"]
        fields += ["isSidechain", "isMeta", "isCompactSummary", "compactMetadata", "timestamp"]
        kinds = ["user", "assistant", "attachment", "system"]
        for _ in range(300):
            with self.path.open("w") as file:
                for _ in range(chance.randrange(12)):
                    entry = {name: chance.choice(values) for name in fields}
                    entry |= {"type": chance.choice(kinds), "uuid": chance.choice(names)}
                    if chance.random() < 0.7:
                        block = {"type": chance.choice(["text", "image", "tool_use", 3])}
                        block |= {name: chance.choice(values) for name in ("text", "source", "id")}
                        entry["message"] = {"content": chance.choice([[block], "x", values])}
                    file.write(json.dumps(entry) + "\n")
            self.read()


class FindingTests(HistoryCase):
    """Where sessions are."""

    def find(self, session: str = SESSION, project: str = PROJECT) -> str | None:
        return claude_history.session_file(session, project, self.environment)

    def test_by_directory_and_id(self) -> None:
        """In the user's home, or where Claude Code is told to keep its files."""
        self.assertEqual(self.find(), str(self.path))
        self.assertIsNone(self.find(project="/srv/other"))
        self.assertIsNone(self.find("00000000-0000-4000-8000-000000000000"))
        moved = self.home / "elsewhere"
        os.rename(self.home / ".claude", moved)
        self.assertIsNone(self.find())
        self.environment["CLAUDE_CONFIG_DIR"] = str(moved)
        self.assertIsNotNone(self.find())

    def test_an_id_is_no_path(self) -> None:
        """It names one file of that folder, and no other."""
        for odd in ("", "../x", f"../{FOLDER}/{SESSION}", "a/b", "a\0b", "x" * 101):
            self.assertIsNone(self.find(odd))

    def test_none_there(self) -> None:
        """Is told as such."""
        session = NativeSession("claude", SESSION, "/srv/other")
        error = self.assertRaises(GarconError, claude_history.pieces, session, self.environment)
        self.assertEqual((error.code, error.retryable), ("HISTORY_LOAD_FAILED", False))

    def test_whether_it_was_gone_on_with(self) -> None:
        """It has more to show than at an entry; what is not shown, or not known, is no more."""

        def has(anchor: str, project: str = PROJECT) -> bool:
            point = SessionPoint(NativeSession("claude", SESSION, project), anchor)
            return claude_history.has_moved_on(point, self.environment)

        first = self.user("first")
        end = self.says("one")
        self.assertEqual((has(first), has(end)), (True, False))
        self.add(type="last-prompt", lastPrompt="first", leafUuid=end, uuid=None)
        self.user("<command-name>/model</command-name>")
        self.assertFalse(has(end))
        self.user("by hand")
        self.assertTrue(has(end))
        self.assertFalse(has("nothing") or has(end, "/srv/other"))

    def test_the_failure_of_the_last_turn_is_no_more(self) -> None:
        """It lies behind the turn's last entry; what was said after it is more."""
        self.user("first")
        result = self.user([{"type": "tool_result", "tool_use_id": "t", "content": "done"}])
        self.says("API Error: 500 boom", isApiErrorMessage=True, error="server_error")
        point = SessionPoint(NativeSession("claude", SESSION, PROJECT), result)
        self.assertFalse(claude_history.has_moved_on(point, self.environment))
        self.user("by hand")
        self.assertTrue(claude_history.has_moved_on(point, self.environment))

    def test_where_it_can_be_forked(self) -> None:
        """At an entry that it has, and that its compaction has not left behind."""

        def can(anchor: str | None, session: str = SESSION) -> str:
            point = ForkPoint(session, anchor)
            return claude_history.can_fork(point, PROJECT, self.environment)

        self.user("first")
        early = self.says("one")
        self.assertEqual((can(early), can(None)), ("yes", "yes"))
        # It may be on its way.
        self.assertEqual((can("nothing"), can(None, "gone")), ("not yet", "not yet"))
        self.add(type="system", subtype="compact_boundary", parentUuid=None)
        late = self.says("two")
        self.assertEqual((can(early), can(late)), ("no", "yes"))
