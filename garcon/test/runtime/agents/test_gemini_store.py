"""Gemini's files of a session, as rows; and when a session of its must not be loaded yet."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.messages import (
    AssistantMessage,
    BashToolUse,
    Image,
    ToolResult,
    UserMessage,
)
from garcon.contract.runs import HistoryMessage, NativeRow, NativeSession
from garcon.errors import GarconError
from garcon.runtime.agents.gemini_store import pieces, wait_before_load
from garcon.runtime.agents.history import preface
from garcon.testing.agent_runs import a_launch

ID = "bd2fb8fd-96e0-43ab-a732-2847b139114a"
AT = "2026-12-01T04:55:16.440Z"
HEAD = {"sessionId": ID, "projectHash": "x", "startTime": AT, "kind": "main"}
CONTEXT = {"id": "c", "timestamp": AT, "type": "user", "content": [{"text": "<session_context>x"}]}


def user(name: str, *parts: Any) -> dict[str, Any]:
    told = [{"text": part} if isinstance(part, str) else part for part in parts]
    return {"id": name, "timestamp": AT, "type": "user", "content": told}


def gemini(name: str, content: Any = "", **more: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": AT, "type": "gemini", "content": content, **more}


def answered(call: str, **response: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": call, "name": "x", "response": response}}


class StoreCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        self.folder = self.home / ".gemini" / "tmp" / "proj" / "chats"
        self.folder.mkdir(parents=True)
        (self.folder.parent / ".project_root").write_text("/p\n")
        self.environment = {"HOME": str(self.home)}

    def write(self, *records: Any, minute: str = "2026-12-01T04-55", age: int = 0) -> Path:
        path = self.folder / f"session-{minute}-{ID[:8]}.jsonl"
        lines = [one if isinstance(one, str) else json.dumps(one) for one in records]
        path.write_text("".join(f"{line}\n" for line in lines))
        os.utime(path, (10**9 - age, 10**9 - age))
        return path

    def rows(self, session: str = ID, project: str = "/p") -> list[NativeRow]:
        found = pieces(NativeSession("gemini", session, project), self.environment)
        return [row for piece in found for row in piece]

    def story(self) -> list[str]:
        told = []
        for row in self.rows():
            said = getattr(row, "content", None) or getattr(row, "command", "")
            said = said["text"] if isinstance(said, dict) else said
            told.append(f"{type(row).__name__}: {said}")
        return told


class Rows(StoreCase):
    def test_a_whole_history(self) -> None:
        """Inputs, thoughts, words and calls; what it tells the model besides is left out."""
        call = {
            "id": "t",
            "name": "run_shell_command",
            "args": {"command": "ls"},
            "status": "success",
            "result": [answered("t", output="a")],
        }
        thoughts = [{"subject": "S", "description": "hm"}]
        self.write(
            HEAD,
            {"$set": {"messages": [CONTEXT]}},
            user("1", "one"),
            {"$set": {"lastUpdated": AT}},
            gemini("2", "I will", thoughts=thoughts),
            gemini("3", toolCalls=[call]),
            user("4", answered("t", output="a")),
            gemini("5", "done"),
        )
        self.assertEqual(
            self.story(),
            [
                "UserMessage: one",
                "Thinking: S\nhm",
                "AssistantMessage: I will",
                "BashToolUse: ls",
                "ToolResult: a",
                "AssistantMessage: done",
            ],
        )
        self.assertEqual({row.timestamp for row in self.rows()}, {AT})

    def test_calls_among_the_words(self) -> None:
        """As it writes them once a turn was stopped: the result comes with the next message."""
        begun = {"functionCall": {"id": "t", "name": "read_file", "args": {"file_path": "/p/a"}}}
        for response, is_error in (({"output": "text"}, False), ({"error": "no"}, True)):
            self.write(
                HEAD, gemini("1", [{"text": "so"}, begun]), user("2", answered("t", **response))
            )
            _, use, result = self.rows()
            assert isinstance(result, ToolResult)
            self.assertEqual(type(use).__name__, "ReadToolUse")
            self.assertEqual(result.is_error, is_error)
            self.assertEqual(result.content["text"], next(iter(response.values())))

    def test_a_call_without_an_end(self) -> None:
        """Has one all the same."""
        call = {"id": "t", "name": "odd", "args": {"x": 1}, "status": "executing"}
        self.write(HEAD, gemini("1", toolCalls=[call]))
        self.assertEqual(self.story(), ["UnknownToolUse: ", "ToolResult: The call did not end."])

    def test_pictures(self) -> None:
        """Are those of their input."""
        picture = {"inlineData": {"mimeType": "image/png", "data": "AAA"}}
        self.write(HEAD, user("1", picture, "look"), user("2", {"inlineData": {"mimeType": "x"}}))
        (row,) = self.rows()
        assert isinstance(row, UserMessage)
        self.assertEqual(
            row.images, [Image(data="data:image/png;base64,AAA", mime_type="image/png")]
        )

    def test_what_we_told_of_an_earlier_conversation(self) -> None:
        """Is nobody's input."""
        launch = a_launch("hi", history=[HistoryMessage(role="user", content="earlier")])
        self.write(HEAD, user("1", preface(launch) or "", "hi"))
        self.assertEqual(self.story(), ["UserMessage: hi"])

    def test_a_message_that_is_written_again(self) -> None:
        """Stands where it stood."""
        self.write(HEAD, gemini("1", "half"), user("2", "two"), gemini("1", "whole"))
        self.assertEqual(self.story(), ["AssistantMessage: whole", "UserMessage: two"])

    def test_all_messages_anew(self) -> None:
        """Are all there is."""
        anew = [CONTEXT, user("1", "kept"), 3]
        self.write(HEAD, user("1", "one"), gemini("2", "gone"), {"$set": {"messages": anew}})
        self.assertEqual(self.story(), ["UserMessage: kept"])

    def test_what_was_taken_back(self) -> None:
        """Goes with what follows it; a name that nobody knows takes back all."""
        said = [HEAD, user("1", "one"), gemini("2", "two"), user("3", "three")]
        self.write(*said, {"$rewindTo": "2"}, user("4", "four"))
        self.assertEqual(self.story(), ["UserMessage: one", "UserMessage: four"])
        self.write(*said, {"$rewindTo": "odd"}, user("4", "four"))
        self.assertEqual(self.story(), ["UserMessage: four"])

    def test_what_cannot_be_read(self) -> None:
        """Is left out, line by line and member by member."""
        odd = {
            "id": "2",
            "type": "gemini",
            "content": 3,
            "toolCalls": [3, {"id": 3}],
            "thoughts": 3,
        }
        self.write(HEAD, "{", "3", user("1", "one"), odd, {"$set": 3}, {"id": "4", "type": "new"})
        self.assertEqual(self.story(), ["UserMessage: one"])
        self.write(HEAD, {**user("1", "one"), "timestamp": "soon"})
        self.assertEqual(self.rows()[0].timestamp, "1970-01-01T00:00:00.000Z")


class Recorded(StoreCase):
    def test_a_file_of_gemini(self) -> None:
        """0.61.0: two turns, and one that was stopped, of which it keeps nothing."""
        text = Path(__file__).with_name("gemini-session.jsonl").read_text()
        session = json.loads(text.partition("\n")[0])["sessionId"]
        name = f"session-2026-12-01T04-55-{session[:8]}.jsonl"
        (self.folder / name).write_text(text)
        (self.folder.parent / ".project_root").write_text("/srv/project")
        self.assertEqual(
            [type(row).__name__ for row in self.rows(session, "/srv/project")],
            [
                *("UserMessage", "AssistantMessage", "BashToolUse", "ToolResult"),
                *("AssistantMessage", "UserMessage", "AssistantMessage"),
            ],
        )
        first, said, use, result, *_ = self.rows(session, "/srv/project")
        assert isinstance(first, UserMessage) and isinstance(first.images, list)
        self.assertEqual((first.content, len(first.images)), ("the first words", 1))
        assert isinstance(said, AssistantMessage) and isinstance(use, BashToolUse)
        self.assertEqual((said.content, use.command), ("I will. ", "echo hi"))
        assert isinstance(result, ToolResult)
        self.assertIn("Output: hi", result.content["text"])
        self.assertFalse(result.is_error)


class Files(StoreCase):
    def test_a_session_that_was_taken_up(self) -> None:
        """Goes on in its old file, and has a new one with nothing in it; the newest that has
        something is read.
        """
        self.write(HEAD, user("1", "old"), minute="2026-12-01T04-50", age=30)
        self.write(HEAD, user("1", "goes on"), minute="2026-12-01T04-51", age=20)
        self.write(HEAD, CONTEXT, minute="2026-12-01T04-52", age=10)
        self.assertEqual(self.story(), ["UserMessage: goes on"])

    def missing(self, session: str = ID, project: str = "/p") -> None:
        error = self.assertRaises(GarconError, self.rows, session, project)
        self.assertEqual((error.code, error.status), ("HISTORY_LOAD_FAILED", 404))

    def test_sessions_that_are_not_there(self) -> None:
        """Another's that begins alike, another directory's, a name that is none, and no file."""
        self.missing()
        self.write(HEAD, user("1", "one"))
        self.missing(session=f"{ID[:8]}-other")
        self.missing(project="/q")
        self.missing(session="../../etc")
        self.missing(session="*" * 8)
        (self.folder.parent / ".project_root").unlink()
        self.assertEqual(self.story(), ["UserMessage: one"])

    def test_a_home_of_its_own(self) -> None:
        """Goes before the user's."""
        self.write(HEAD, user("1", "one"))
        self.environment = {"HOME": "/nowhere", "GEMINI_CLI_HOME": str(self.home)}
        self.assertEqual(self.story(), ["UserMessage: one"])


class Waiting(StoreCase):
    def wait(self, minute: int, second: int, session: str = ID) -> int:
        now = datetime(2026, 12, 1, 4, minute, second, tzinfo=UTC)
        return wait_before_load(session, self.environment, now)

    def test_the_minute_in_which_its_file_was_begun(self) -> None:
        """Is waited for to be over: to load the session within it would destroy it."""
        self.write(HEAD, user("1", "one"))
        self.assertEqual((self.wait(55, 0), self.wait(55, 59)), (61, 2))
        self.assertEqual((self.wait(56, 0), self.wait(54, 30)), (0, 0))
        self.assertEqual(self.wait(55, 0, "other-session"), 0)
