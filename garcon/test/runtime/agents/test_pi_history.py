"""Pi's session files: where they are, and what is shown of them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st
from msgspec import UNSET
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.messages import (
    AssistantMessage,
    BashToolUse,
    Compaction,
    ErrorMessage,
    Image,
    ToolResult,
    TranscriptNotice,
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
from garcon.runtime.agents import pi_history, pi_sessions
from garcon.runtime.agents.pi_prompts import prompt, without_preface
from garcon.test.properties import given
from garcon.testing.agent_runs import a_launch
from garcon.testing.faults.fuzz import Mutator

RECORDING = Path(__file__).with_name("pi-session.jsonl")
SESSION = "e5e454d1-061a-45d8-8710-1b36a9e42be2"
PROJECT = "/srv/a.b_c"
PIXEL = "iVBORw0KGgo"
FILES = 300


def text(row: NativeRow) -> str:
    """Tell a row in a few words."""
    match row:
        case UserMessage(content=content, steer=steer):
            return f"{'user' if steer is UNSET else 'steer'}: {content}"
        case AssistantMessage(content=content):
            return f"said: {content}"
        case BashToolUse(command=command):
            return f"ran: {command}"
        case ToolResult(content=content, is_error=is_error):
            return f"{'error' if is_error else 'result'}: {content['text']}"
        case Compaction(summary=summary):
            return f"compacted: {summary}"
        case ErrorMessage(content=content):
            return f"failed: {content}"
        case TranscriptNotice(content=content):
            return f"note: {content}"
    return type(row).__name__


class HistoryCase(SynchronousTestCase):
    """A session file in the making."""

    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        self.place = self.home / ".pi/agent/sessions"
        self.environment = {"HOME": str(self.home)}
        self.path = self.begin()
        self.last: str | None = None
        self.number = 0

    def begin(self, session: str = SESSION, directory: str = PROJECT, **header: Any) -> Path:
        """Begin a session's file."""
        folder = self.place / f"--{directory.strip('/').replace('/', '-')}--"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"2026-12-01T04-51-24-341Z_{session}.jsonl"
        usual = {"type": "session", "version": 3, "id": session, "cwd": directory}
        path.write_text(json.dumps(usual | header) + "\n")
        return path

    def add(self, kind: str, **entry: Any) -> str:
        """Add an entry; where nothing else is said it hangs on the last one."""
        self.number += 1
        name = f"e{self.number}"
        at = f"2026-12-01T00:00:{self.number:02}.000Z"
        usual = {"type": kind, "id": name, "parentId": self.last, "timestamp": at}
        whole = usual | entry
        with self.path.open("a") as file:
            file.write(json.dumps(whole) + "\n")
        self.last = whole["id"]
        return name

    def message(self, role: str, content: Any, entry: Any = None, **more: Any) -> str:
        """Add a message."""
        message = {"role": role, "content": content, **more}
        return self.add("message", **{"message": message, **(entry or {})})

    def user(self, said: Any, entry: Any = None, **more: Any) -> str:
        """Let the user say something."""
        return self.message("user", said, entry, **more)

    def says(self, *blocks: Any, entry: Any = None, **more: Any) -> str:
        """Let the agent say something."""
        content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        return self.message("assistant", content, entry, **more)

    def read(self) -> list[str]:
        """Read the session."""
        return [text(row) for row in pi_history.rows_of(str(self.path))]


class RowsTests(HistoryCase):
    """What is shown of it."""

    def test_the_recorded_session(self) -> None:
        """Each kind of thing that Pi did, in its order and at its time."""
        rows = list(pi_history.rows_of(str(RECORDING)))
        told = [text(row)[:60] for row in rows]
        self.assertEqual(
            told,
            [
                "user: first",
                "said: one",
                "user: work",
                "said: p",
                "ran: sleep 1",
                "result: (no output)",
                "steer: steered",
                "said: both",
                "ran: echo userbash",
                "result: userbash\n",
                "user: fail",
                'failed: 400: {"message":"scripted failure","type":"api_error',
                "user: abort me",
                "said: half",
                f"user: {'word ' * 10}word",
                f"said: {'x ' * 27}",
                "compacted: Scripted title\n\n---\n\n**Turn Context (split turn):",
                "user: go on",
                "said: a summary",
            ],
        )
        self.assertEqual(rows[0].timestamp, "2026-12-01T04:51:25.578Z")
        (work,) = (row for row in rows if isinstance(row, UserMessage) and row.images)
        assert isinstance(work.images, list)
        self.assertTrue(work.images[0].data.startswith("data:image/png;base64,iVBOR"))
        (compacted,) = (row for row in rows if isinstance(row, Compaction))
        self.assertEqual(compacted.pre_tokens, 15)

    def test_only_the_branch_that_goes_on_is_shown(self) -> None:
        """What was said on another is not, as in a fork of an earlier point."""
        self.user("first")
        fork = self.says("one")
        self.user("wrong")
        self.says("oh")
        self.user("right", {"parentId": fork})
        self.says("good")
        self.assertEqual(self.read(), ["user: first", "said: one", "user: right", "said: good"])

    def test_the_first_files_of_pi_have_no_branches(self) -> None:
        """All of one is shown."""
        for said in ("first", "second"):
            self.user(said, {"id": None})
        self.assertEqual(self.read(), ["user: first", "user: second"])

    def test_further_input_is_told_from_a_prompt(self) -> None:
        """It was said before the work was done that it stands behind."""
        moment = 1796083200_000
        self.user("go", timestamp=moment)
        self.says("part")
        self.user("joined", timestamp=moment + 1_500)
        self.says("done")
        self.user("next", timestamp=moment + 4_001)
        self.assertEqual(
            self.read(), ["user: go", "said: part", "steer: joined", "said: done", "user: next"]
        )

    def test_what_was_said_ahead_of_a_prompt_is_not_the_users(self) -> None:
        """It was put there for an agent that had not heard it."""
        launch = a_launch("now", history=[HistoryMessage("user", "before")])
        self.user([{"type": "text", "text": prompt(launch, is_fork=False)["message"]}])
        self.assertEqual(self.read(), ["user: now"])

    def test_what_extensions_and_the_user_did_besides(self) -> None:
        """Notes that are to be seen, summaries of other branches, and commands run by hand."""
        self.add("custom_message", content="seen", display=True)
        self.add("custom_message", content="hidden", display=False)
        self.add("custom", customType="x", data={})
        self.add("branch_summary", summary="it failed", fromId="e1")
        self.message("bashExecution", None, command="ls", output="a", exitCode=2, cancelled=False)
        self.assertEqual(
            self.read(),
            [
                "note: seen",
                "note: Another branch of the session was left. A summary of it: it failed",
                "ran: ls",
                "error: a",
            ],
        )

    def test_an_answer_that_had_to_end(self) -> None:
        """Says so."""
        self.says("half", stopReason="length")
        self.assertEqual(self.read()[1][:28], "note: The answer ends here: ")

    def test_pictures_are_shown_with_the_text_that_came_with_them(self) -> None:
        """As data, by their kind."""
        picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
        self.user([{"type": "text", "text": "look"}, picture, {"type": "image"}])
        (row,) = pi_history.rows_of(str(self.path))
        assert isinstance(row, UserMessage)
        whole = Image(data=f"data:image/png;base64,{PIXEL}", mime_type="image/png")
        self.assertEqual((row.content, row.images), ("look", [whole]))

    def test_what_cannot_be_read_is_left_out(self) -> None:
        """A cut line, a line that is no object, an entry without a time; text stays as it is."""
        self.user("é 漢字 🙂 \u2028 ñ")
        with self.path.open("a") as file:
            file.write('{"type":"message","message"\n[]\n')
        self.says("one", entry={"timestamp": 7})
        with self.path.open("a") as file:
            file.write('{"type":"message","id":"half')
        self.assertEqual(self.read(), ["user: é 漢字 🙂 \u2028 ñ", "said: one"])
        rows = list(pi_history.rows_of(str(self.path)))
        self.assertEqual(rows[1].timestamp, "1970-01-01T00:00:00.000Z")

    def test_a_line_that_is_too_long_is_left_out(self) -> None:
        """What follows is read."""
        self.patch(pi_sessions, "LINE", 1024)
        self.user("first")
        self.says("x" * 2048, entry={"id": "long", "parentId": "e1"})
        self.user("last", {"parentId": "e1"})
        self.assertEqual(self.read(), ["user: first", "user: last"])

    def test_hostile_files(self) -> None:
        """Made of the recorded one and broken in every way: nothing is raised, circles end."""
        mutator = Mutator(Random(7))
        sound = tuple(RECORDING.read_bytes().splitlines(keepends=True))
        for _ in range(FILES):
            self.path.write_bytes(b"".join(mutator.mutated(sound) for _ in range(12)))
            self.read()
            point = SessionPoint(NativeSession("pi", SESSION, PROJECT), "9fe1a5ef")
            pi_history.has_moved_on(point, self.environment)

    def test_a_circle_ends(self) -> None:
        """Entries that hang on each other are shown once."""
        self.user("one", {"id": "a", "parentId": "b"})
        self.user("two", {"id": "b", "parentId": "a"})
        self.assertEqual(self.read(), ["user: one", "user: two"])


class FindingTests(HistoryCase):
    """Where sessions are."""

    def find(self, session: str = SESSION, project: str = PROJECT) -> str | None:
        """The directory of a session that is found."""
        kept = pi_sessions.find(session, project, self.environment)
        return None if kept is None else kept.directory

    def test_by_id_in_whatever_directory(self) -> None:
        """The one of the project first; an id that another one ends with is another one."""
        self.assertEqual((self.find(), self.find(project="/srv/other")), (PROJECT, PROJECT))
        self.begin(directory="/srv/zzz")
        self.assertEqual((self.find(project="/srv/zzz"), self.find()), ("/srv/zzz", PROJECT))
        self.begin("x_tail")
        self.assertIsNone(self.find("tail"))

    def test_where_pi_is_told_to_keep_them(self) -> None:
        """By a variable for all of its own, by one for sessions alone, or by its settings."""
        home = self.environment["HOME"]
        folder = str(self.path.parent)
        for variables in (
            {"PI_CODING_AGENT_DIR": f"{home}/.pi/agent"},
            {"PI_CODING_AGENT_SESSION_DIR": folder, "PI_CODING_AGENT_DIR": "/nowhere"},
            {"PI_CODING_AGENT_SESSION_DIR": folder.replace(home, "~")},
        ):
            self.environment = {"HOME": home} | variables
            self.assertEqual(self.find(), PROJECT, variables)
        self.environment = {"HOME": home, "PI_CODING_AGENT_DIR": "/nowhere"}
        self.assertIsNone(self.find())
        own = self.home / "own"
        own.mkdir()
        (own / "settings.json").write_text(json.dumps({"sessionDir": folder}, indent=2))
        self.environment["PI_CODING_AGENT_DIR"] = str(own)
        self.assertEqual(self.find(), PROJECT)

    def test_an_id_is_no_path_and_no_pattern(self) -> None:
        """It names one session, and nothing else."""
        for odd in ("", "../x", "a/b", "a\0b", "*", "?", SESSION[:-1] + "?", "x" * 101, "-x"):
            self.assertIsNone(self.find(odd), odd)

    def test_none_there(self) -> None:
        """Is told as such; so is a file that is no session."""
        self.begin("other", type="else")
        for session in ("none", "other"):
            wanted = NativeSession("pi", session, PROJECT)
            error = self.assertRaises(GarconError, pi_history.pieces, wanted, self.environment)
            self.assertEqual((error.code, error.retryable), ("HISTORY_LOAD_FAILED", False))

    def test_whether_it_was_gone_on_with(self) -> None:
        """It has more to show than at an entry; what is not shown, or not known, is no more."""

        def has(anchor: str, session: str = SESSION) -> bool:
            point = SessionPoint(NativeSession("pi", session, PROJECT), anchor)
            return pi_history.has_moved_on(point, self.environment)

        first = self.user("first")
        end = self.says("one")
        self.assertEqual((has(first), has(end)), (True, False))
        self.add("model_change", provider="a", modelId="b")
        self.add("session_info", name="x")
        self.assertFalse(has(end))
        self.user("by hand")
        self.assertTrue(has(end))
        self.assertFalse(has("nothing") or has(end, "gone"))

    def test_where_it_can_be_forked(self) -> None:
        """At any entry that it has, whatever became of it since, or at its end."""

        def can(anchor: str | None, session: str = SESSION) -> bool:
            return pi_history.can_fork(ForkPoint(session, anchor), PROJECT, self.environment)

        self.user("first")
        early = self.says("one")
        self.add("compaction", summary="s", firstKeptEntryId="e1")
        self.assertTrue(can(early) and can(None))
        self.assertFalse(can("nothing") or can(None, "gone"))


class PrefaceTests(SynchronousTestCase):
    @given(st.text())
    def test_a_prompt_comes_back(self, said: str) -> None:
        """With or without what was said before it."""
        for history in ([], [HistoryMessage("assistant", "before\n\nthat")]):
            told = prompt(a_launch(said, history=history), is_fork=False)["message"]
            self.assertEqual(without_preface(told), said)
