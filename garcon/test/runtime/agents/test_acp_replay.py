"""A history that an agent tells when it loads a session, as rows."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.messages import Image, TodoWriteToolUse, ToolResult, UserMessage
from garcon.contract.runs import HistoryMessage, NativeSession
from garcon.runtime.agents.acp_opening import SETTLED
from garcon.runtime.agents.acp_replay import PAGES, Replay
from garcon.runtime.agents.conversation import Output, Ready, Refused, Send
from garcon.runtime.agents.history import preface
from garcon.runtime.agents.unknown import KINDS
from garcon.test.runtime.agents.hostile import attack
from garcon.test.runtime.agents.replay import recorded
from garcon.testing.agent_runs import a_launch

LOADS: dict[str, Any] = {"loadSession": True}
LISTS: dict[str, Any] = {**LOADS, "sessionCapabilities": {"list": {}}}
SESSION = "ses_dd48802e2ffeJNeRS1TYfmlaCW"
RECORDED = "ses_dd00efe4bffeSTSESmM75sRm9v"
CHANGED = "2026-12-01T04:51:02.547Z"


class ReplayCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.replay = Replay(NativeSession("a", "s", "/p"))
        self.sent: list[dict[str, Any]] = []
        self.other: list[Output] = []
        self.take(self.replay.begin())

    def take(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Send):
                self.sent.append(output.message)
            else:
                self.other.append(output)

    def hear(self, **message: Any) -> None:
        self.take(self.replay.received({"jsonrpc": "2.0", **message}))

    def answer(self, result: Any) -> None:
        self.hear(id=self.sent[-1]["id"], result=result)

    def refuse(self, text: str = "no such method") -> None:
        self.hear(id=self.sent[-1]["id"], error={"code": -32601, "message": text})

    def present(self, capabilities: dict[str, Any] | None = None) -> None:
        self.answer({"protocolVersion": 1, "agentCapabilities": capabilities or LOADS})

    def update(self, update_kind: str, /, session: str = "s", **update: Any) -> None:
        told = {"sessionUpdate": update_kind, **update}
        self.hear(method="session/update", params={"sessionId": session, "update": told})

    def say(self, whose: str, text: str, **more: Any) -> None:
        self.update(f"{whose}_message_chunk", content={"type": "text", "text": text}, **more)

    def settle(self) -> None:
        """The session is loaded, and nothing more comes."""
        self.answer({})
        while self.sent[-1]["method"] == SETTLED and not self.other:
            self.refuse()

    def story(self) -> list[str]:
        """What the rows say."""
        told = []
        for row in self.replay.rows:
            said = getattr(row, "content", None) or getattr(row, "command", "")
            said = said["text"] if isinstance(said, dict) else said
            told.append(f"{type(row).__name__}: {said}")
        return told


class Rows(ReplayCase):
    def test_a_whole_history(self) -> None:
        """Inputs, thoughts, words and calls, in their order."""
        self.present()
        self.say("user", "one")
        self.update("agent_thought_chunk", content={"type": "text", "text": "hm"})
        self.say("agent", "I will")
        self.update("tool_call", toolCallId="t", kind="execute", rawInput={"command": "ls"})
        self.update("tool_call_update", toolCallId="t", status="completed", rawOutput="a")
        self.say("agent", "done")
        self.say("user", "two")
        self.say("agent", "fine")
        self.settle()
        self.assertEqual(
            self.story(),
            [
                "UserMessage: one",
                "Thinking: hm",
                "AssistantMessage: I will",
                "BashToolUse: ls",
                "ToolResult: a",
                "AssistantMessage: done",
                "UserMessage: two",
                "AssistantMessage: fine",
            ],
        )

    def test_inputs(self) -> None:
        """Pieces of one are one row, with its pictures; another id is another one."""
        self.present()
        self.update(
            "user_message_chunk",
            content={"type": "image", "mimeType": "image/png", "data": "AAA"},
        )
        self.say("user", "lo")
        self.say("user", "ok")
        self.say("user", "more", messageId="2")
        self.say("user", "again", messageId="3")
        self.settle()
        self.assertEqual([row.content for row in self.inputs()], ["look", "more", "again"])
        picture = Image(data="data:image/png;base64,AAA", mime_type="image/png")
        self.assertEqual(self.inputs()[0].images, [picture])

    def inputs(self) -> list[UserMessage]:
        return [row for row in self.replay.rows if isinstance(row, UserMessage)]

    def test_what_we_told_of_an_earlier_conversation(self) -> None:
        """Is nobody's input."""
        launch = a_launch("hi", history=[HistoryMessage(role="user", content="earlier")])
        self.present()
        self.say("user", preface(launch) or "")
        self.say("user", "hi")
        self.settle()
        self.assertEqual(self.story(), ["UserMessage: hi"])

    def test_a_call_without_an_end(self) -> None:
        """Is over with its turn."""
        self.present()
        self.update("tool_call", toolCallId="t", kind="execute", rawInput={"command": "ls"})
        self.say("user", "two")
        self.settle()
        kinds = [type(row).__name__ for row in self.replay.rows]
        self.assertEqual(kinds, ["BashToolUse", "ToolResult", "UserMessage"])
        (result,) = (row for row in self.replay.rows if isinstance(row, ToolResult))
        self.assertTrue(result.is_error)

    def test_plans(self) -> None:
        """Each has a name of its own, the same whenever it is read."""
        names = []
        for _ in range(2):
            self.begin()
            self.present()
            for _ in range(2):
                self.update("plan", entries=[{"content": "a", "status": "pending"}])
            self.settle()
            uses = [row for row in self.replay.rows if isinstance(row, TodoWriteToolUse)]
            names.append([row.tool_id for row in uses])
        self.assertEqual((len(set(names[0])), names[0]), (2, names[1]))

    def test_what_comes_after_the_answer(self) -> None:
        """Belongs to it; what is another session's does not."""
        self.present()
        self.say("user", "other", session="o")
        self.answer({})
        self.say("user", "late")
        self.refuse()
        self.assertEqual(self.other, [])
        self.refuse()
        self.assertEqual((self.other, self.story()), ([Ready()], ["UserMessage: late"]))


class UnknownWords(ReplayCase):
    def test_are_noted(self) -> None:
        """By kind, each once and no more than are told apart anywhere; none stops the reading."""
        self.present()
        for _ in range(2):
            self.update("sparkle")
        self.say("user", "hi", sparkle=1)
        self.assertEqual(
            self.replay.unknown, {"session/update.sparkle", "user_message_chunk.sparkle"}
        )
        for number in range(KINDS):
            self.update(f"kind-{number}")
        self.settle()
        self.assertEqual(len(self.replay.unknown), KINDS)
        self.assertEqual(self.story(), ["UserMessage: hi"])


class Recorded(ReplayCase):
    def test_opencode(self) -> None:
        """1.18.33 tells all of it: a picture, a call with its end, and two turns."""
        self.replay = Replay(NativeSession("opencode", RECORDED, "/srv/project"))
        self.sent.clear()
        self.take(self.replay.begin())
        for _, message in recorded("acp-opencode-load.jsonl"):
            if "method" not in message:
                message = {**message, "id": self.sent[-1]["id"]}
            self.take(self.replay.received(message))
        for _ in range(2):
            self.refuse()
        self.assertEqual((self.other, self.replay.unknown), ([Ready()], set()))
        self.assertEqual(
            self.story(),
            [
                "UserMessage: the first words",
                "AssistantMessage: I will. ",
                "BashToolUse: echo hi",
                "ToolResult: hi\n",
                "AssistantMessage: first answer",
                "UserMessage: more words",
                "AssistantMessage: second answer",
            ],
        )
        first = self.replay.rows[0]
        assert isinstance(first, UserMessage) and isinstance(first.images, list)
        self.assertEqual(first.images[0].mime_type, "image/png")
        self.assertEqual({row.timestamp for row in self.replay.rows}, {CHANGED})


class Times(ReplayCase):
    def at(self) -> str:
        self.say("user", "one")
        self.settle()
        (row,) = self.replay.rows
        return row.timestamp

    def test_the_time_of_the_last_change(self) -> None:
        """Where the agent lists its sessions, on whatever page."""
        self.present(LISTS)
        self.assertEqual(
            (self.sent[-1]["method"], self.sent[-1]["params"]), ("session/list", {"cwd": "/p"})
        )
        self.answer({"sessions": [{"sessionId": "o", "updatedAt": "x"}, 3], "nextCursor": "c"})
        self.assertEqual(self.sent[-1]["params"], {"cwd": "/p", "cursor": "c"})
        self.answer({"sessions": [{"sessionId": "s", "updatedAt": CHANGED}]})
        self.assertEqual(self.sent[-1]["method"], "session/load")
        self.assertEqual(self.at(), CHANGED)

    def test_a_time_that_is_not_told(self) -> None:
        """Is that of no moment; the history is read all the same."""
        lists: list[Any] = [
            {"sessions": []},
            {"sessions": [{"sessionId": "s"}]},
            {"sessions": [{"sessionId": "s", "updatedAt": "soon"}]},
            3,
        ]
        for listed in lists:
            self.begin()
            self.present(LISTS)
            self.answer(listed)
            self.assertEqual(self.at(), "1970-01-01T00:00:00.000Z")
        self.begin()
        self.present(LISTS)
        self.refuse()
        self.assertEqual(self.at(), "1970-01-01T00:00:00.000Z")

    def test_a_list_without_end(self) -> None:
        """Is given up."""
        self.present(LISTS)
        for _ in range(PAGES):
            self.answer({"sessions": [], "nextCursor": "c"})
        self.assertEqual(self.sent[-1]["method"], "session/load")


class Refusals(ReplayCase):
    def refused(self) -> str:
        (refused,) = self.other
        assert isinstance(refused, Refused)
        return refused.text

    def test_an_agent_that_cannot_load(self) -> None:
        """Is asked for nothing else: a new session would tell nothing."""
        resumes: dict[str, Any] = {"sessionCapabilities": {"resume": {}, "list": {}}}
        for capabilities in ({"x": 1}, resumes):
            self.begin()
            self.present(capabilities)
            self.assertEqual(self.refused(), "the agent cannot load its sessions")
            self.assertEqual(len(self.sent), 1)

    def test_another_version(self) -> None:
        """As for a turn."""
        self.answer({"protocolVersion": 2})
        self.assertIn("does not speak", self.refused())

    def test_a_session_that_it_does_not_have(self) -> None:
        """In its words."""
        self.present()
        self.refuse("Session not found")
        self.assertIn("Session not found", self.refused())

    def test_its_requests_are_answered(self) -> None:
        """By an error, as nobody is there to decide."""
        self.present()
        self.hear(id=9, method="session/request_permission", params={})
        self.assertEqual((self.sent[-1]["id"], self.sent[-1]["error"]["code"]), (9, -32601))

    def test_nothing_an_agent_says_breaks_it(self) -> None:
        """Thousands of messages made from recordings, whole and broken."""
        samples = [m for way, m in recorded("acp-opencode.jsonl") if way == "out"]
        make: Any = Attacked
        self.assertGreater(attack(make, samples, 2000, seed=3), 1000)


class Attacked:
    """A replay in the place of a conversation, which has no turns."""

    def __init__(self) -> None:
        self._replay = Replay(NativeSession("a", SESSION, "/p"))

    def open(self) -> list[Output]:
        return self._replay.begin()

    def received(self, message: dict[str, Any], _: Any) -> list[Output]:
        return self._replay.received(message)

    def prompt(self, *_: Any) -> list[Output]:
        return []

    interrupt = ended = prompt

    def capture_steering(self) -> None:
        pass
