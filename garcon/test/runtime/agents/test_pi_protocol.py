"""Pi's RPC mode: a recorded talk, what is decided of calls, and whatever else it may say."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.catalogs import PERMISSION_MODES
from garcon.contract.messages import AskUserQuestionToolUse, AssistantMessage
from garcon.contract.runs import (
    PermissionRequested,
    PermissionResponse,
    RowProduced,
    RunEnded,
    SessionStarted,
    Usage,
)
from garcon.contract.steering import Steer, SteerCapture, Steered, SteerTarget
from garcon.runtime.agents.conversation import (
    Output,
    Ready,
    Refused,
    SteerSettled,
    Unknown,
    Version,
)
from garcon.runtime.agents.pi_dialogs import OPEN
from garcon.runtime.agents.pi_endpoint import literal
from garcon.runtime.agents.pi_permissions import Call, verdict
from garcon.runtime.agents.pi_protocol import PiConversation
from garcon.runtime.agents.pi_usage import Spent
from garcon.runtime.agents.stamps import Stamp
from garcon.test.runtime.agents.hostile import attack
from garcon.test.runtime.agents.replay import NOW, Taken, recorded
from garcon.testing.agent_runs import a_launch, a_response

RECORDING, FORK = "pi-turns.jsonl", "pi-fork.jsonl"
FORK_AT = "e4460fdb"
SESSION = "11111111-1111-4111-8111-111111111111"
INPUTS = 6_000
GATE = {
    "type": "extension_ui_request",
    "id": "u",
    "method": "setStatus",
    "statusKey": "garcon",
    "statusText": "1.6.0",
}
STATE = {
    "id": "garcon-state",
    "type": "response",
    "command": "get_state",
    "success": True,
    "data": {
        "sessionId": SESSION,
        "model": {"provider": "p", "id": "m", "contextWindow": 9},
        "thinkingLevel": "low",
    },
}
BAD = '{"message":"bad thing","type":"api_error","code":"api_error"}'
BROKEN = '{"message":"broken","type":"api_error","code":"api_error"}'
STORIES = {
    "hello": [f"session {SESSION}", "Thinking: Hm.", "AssistantMessage: Hello there", "finished"],
    "run it": [
        "BashToolUse: touch one",
        "asked: BashToolUse",
        "result: (no output)",
        "AssistantMessage: done",
        "finished",
    ],
    "not that": [
        "BashToolUse: touch two",
        "ReadToolUse: ",
        "asked: BashToolUse",
        "result error: This was not allowed.",
        "result error: ENOENT: no such file or directory, access '/srv/project/nope.txt'",
        "AssistantMessage: as you like",
        "finished",
    ],
    "edit": [
        "WriteToolUse: one\n",
        "result: Successfully wrote to a.txt",
        "EditToolUse: ",
        "result: Successfully replaced 1 block(s) in a.txt.",
        "AssistantMessage: edited",
        "finished",
    ],
    "stop in text": ["AssistantMessage: part", "interrupted"],
    "stop in a tool": [
        "BashToolUse: sleep 300",
        "PermissionAutoResolved",
        "result error: Command aborted",
        "interrupted",
    ],
    "steered": ["AssistantMessage: part rest", "AssistantMessage: after more", "finished"],
    "bad": [f"failed: 400: {BAD}"],
    "retried": [
        f"TranscriptNotice: The model could not be reached (500: {BROKEN}); trying again"
        " (attempt 1 of 2).",
        "AssistantMessage: fine",
        "finished",
    ],
    "no such model": ["failed: Model not found: scripted/none"],
    "be short": ["Compaction: ", "finished"],
    "": ["failed: Already compacted"],
    "/mcp": [
        "TranscriptNotice: No MCP servers configured. Add them to"
        " /home/user/.pi/agent/mcp.json or .pi/mcp.json.",
        "finished",
    ],
}


@define(eq=False)
class Player:
    """Plays a recording: what is wanted of a conversation, and what it hears."""

    recording: str = RECORDING
    conversation: PiConversation = field(factory=PiConversation)
    taken: Taken = field(factory=Taken)
    said: list[dict[str, Any]] = field(factory=list)
    stories: dict[str, list[str]] = field(factory=dict)
    anchors: list[str | None] = field(factory=list)
    """Of each answer and each end."""
    _title: str | None = None

    def play(self) -> None:
        """Play all of it."""
        for direction, message in recorded(self.recording):
            if direction == "in":
                self.said.append(message)
            elif direction == "out":
                self.taken.take(self.conversation.received(message, self.taken.stamp()))
            else:
                self._do(**message)
            self._tell()

    def _tell(self) -> None:
        if self._title is None or not any(isinstance(e, RunEnded) for e in self.taken.events):
            return
        self.anchors += [
            one.anchor
            for one in self.taken.events
            if isinstance(one, RunEnded)
            or (isinstance(one, RowProduced) and isinstance(one.message, AssistantMessage))
        ]
        self.stories[self._title] = self.taken.story()

    def _do(self, what: str, **given: Any) -> None:
        conversation, stamp = self.conversation, self.taken.stamp()
        outputs: list[Output] | None = None
        match what:
            case "open":
                outputs = conversation.open()
            case "prompt":
                self._title = given.pop("text")
                usual = {"agent_id": "pi", "run_id": "run", "project_path": "/srv/project"}
                launch = a_launch(self._title, **(usual | {"model": "scripted/m1"} | given))
                outputs = conversation.prompt(launch, stamp)
            case "interrupt":
                outputs = conversation.interrupt(stamp)
            case "decide":
                answer = a_response("run", self.taken.asked, **given)
                outputs = conversation.decide(answer, stamp)
            case "steer":
                outputs = conversation.steer(a_steer(given["text"]))
        self.taken.take(outputs)


def a_steer(text: str) -> Steer:
    """Return further input for the turn."""
    return Steer(target=SteerTarget(run_id="run"), client_message_id="cm-1", content=text)


def an_opened_one() -> PiConversation:
    """Return a conversation that turns can begin in."""
    conversation = PiConversation()
    for message in (GATE, STATE):
        conversation.received(message, Stamp(now=NOW, fresh_id="id"))
    return conversation


def answered(command_id: str, command: str, **data: Any) -> dict[str, Any]:
    """Return a response that it succeeded."""
    return {
        "id": command_id,
        "type": "response",
        "command": command,
        "success": True,
        "data": data,
    }


def gate(key: str, text: str) -> dict[str, Any]:
    """Return what our extension says."""
    return {**GATE, "statusKey": f"garcon-{key}", "statusText": text}


def answer(*content: dict[str, Any]) -> dict[str, Any]:
    """Return an answer that is whole."""
    return {"type": "message_end", "message": {"role": "assistant", "content": list(content)}}


class Recorded(SynchronousTestCase):
    def test_each_turn(self) -> None:
        """What is made of it, and that it is answered as it was."""
        player = Player()
        player.play()
        self.assertEqual(player.stories, STORIES)
        self.assertEqual(player.taken.sent, player.said)
        delivered = SteerSettled("cm-1", Steered(outcome="delivered"))
        self.assertEqual(player.taken.other, [Version("1.6.0"), Ready(adapts=True), delivered])

    def test_a_fork(self) -> None:
        """It begins behind an entry of its source; each answer and each end, of a compaction too,
        names one of its own.
        """
        player = Player(FORK, PiConversation(is_fork=True, fork_at=FORK_AT))
        player.play()
        question = ["UnknownToolUse: ", "AskUserQuestionToolUse: ", "asked: AskUserQuestionToolUse"]
        stories = {
            "aside": [
                "session 22222222-2222-4222-8222-222222222222",
                "AssistantMessage: p",
                "BashToolUse: true",
                "result: (no output)",
                "AssistantMessage: in the fork",
                "finished",
            ],
            "ask me": [
                *question,
                "result: Red",
                "result: Red",
                "AssistantMessage: as you like",
                "finished",
            ],
            "word " * 600: [f"AssistantMessage: {'x ' * 600}", "finished"],
            "be short": ["Compaction: ", "finished"],
        }
        self.assertEqual(player.stories, stories)
        self.assertEqual(player.taken.sent, player.said)
        self.assertEqual(player.taken.other, [Version("1.6.0"), Ready(adapts=True)])
        answers = ["42a5f0b4", "adccdf23", "adccdf23", "479a3691", "479a3691"]
        self.assertEqual(player.anchors, [*answers, "c9f584ff", "c9f584ff", "58791faf"])


class Talks(SynchronousTestCase):
    def setUp(self) -> None:
        self.taken = Taken()
        self.pi = an_opened_one()

    def hear(self, *messages: dict[str, Any]) -> None:
        """Let it take messages."""
        for message in messages:
            self.taken.take(self.pi.received(message, self.taken.stamp()))

    def begin(self, **changes: Any) -> None:
        """Begin a turn that needs no other setting, and have Pi take it."""
        launch = a_launch("go", **({"agent_id": "pi", "model": "p/m"} | changes))
        self.taken.take(self.pi.prompt(launch, self.taken.stamp()))
        self.hear(answered(self.last("prompt"), "prompt", disposition="started"))

    def last(self, kind: str) -> str:
        """The id of the last command of a kind."""
        return str([one for one in self.taken.sent if one["type"] == kind][-1]["id"])

    def test_not_ready_without_the_gate(self) -> None:
        """Nothing is asked of one that would ask for nothing."""
        stamp = self.taken.stamp()
        fresh = PiConversation()
        self.assertEqual(fresh.received(STATE, stamp), [])
        self.assertIn(Ready(adapts=True), fresh.received(GATE, stamp))
        refused = PiConversation().received({**STATE, "success": False, "error": "x"}, stamp)
        self.assertEqual(refused, [Refused("Pi does not open its session: x")])

    def test_a_late_steer_does_not_stay_for_the_next_turn(self) -> None:
        """What Pi queued behind the end is taken out of its queue again."""
        self.begin()
        self.taken.take(self.pi.steer(a_steer("more")))
        self.hear({"type": "agent_settled", "aborted": False})
        self.assertEqual(self.taken.sent[-1]["type"], "clear_queue")
        self.assertEqual(self.taken.story(), [])
        self.hear(answered(self.last("steer"), "steer"))
        self.assertEqual(self.taken.other, [SteerSettled("cm-1", Steered(outcome="not-delivered"))])
        self.hear(answered(self.last("clear_queue"), "clear_queue"))
        self.assertEqual(self.taken.story(), ["finished"])

    def test_a_stop_before_the_prompt_is_taken(self) -> None:
        """The abort waits for it: one that came first would stop nothing."""
        launch = a_launch("go", agent_id="pi", model="p/m")
        self.taken.take(self.pi.prompt(launch, self.taken.stamp()))
        self.taken.take(self.pi.interrupt(self.taken.stamp()))
        self.assertEqual(len(self.taken.sent), 1)
        self.hear(answered(self.last("prompt"), "prompt", disposition="started"))
        self.hear({"type": "agent_settled", "aborted": True})
        self.assertEqual(self.taken.story(), [])
        self.hear(answered(self.last("abort"), "abort"))
        self.assertEqual(self.taken.story(), ["interrupted"])

    def test_a_stop_between_the_settings(self) -> None:
        """The prompt is not sent any more."""
        launch = a_launch("go", agent_id="pi", model="p/other")
        self.taken.take(self.pi.prompt(launch, self.taken.stamp()))
        self.taken.take(self.pi.interrupt(self.taken.stamp()))
        self.hear(answered(self.last("set_model"), "set_model"))
        self.assertEqual(self.taken.story(), ["interrupted"])
        self.assertEqual([one["type"] for one in self.taken.sent], ["set_model"])

    def test_always(self) -> None:
        """An answer that lasts is for just that call."""
        self.begin()
        message = '{"id": "t", "name": "bash", "input": {"command": "ls"}}'
        ask = {
            "type": "extension_ui_request",
            "id": "q",
            "method": "confirm",
            "title": "garcon",
            "message": message,
        }
        self.hear(ask)
        answer = a_response("run", self.taken.asked, always_allow=True)
        self.taken.take(self.pi.decide(answer, self.taken.stamp()))
        self.assertIsNone(self.pi.decide(answer, self.taken.stamp()))
        self.hear(ask)
        self.assertEqual([one.get("confirmed") for one in self.taken.sent[1:]], [True, True])
        self.hear({**ask, "message": message.replace("ls", "rm")})
        self.assertEqual(
            len([e for e in self.taken.events if isinstance(e, PermissionRequested)]), 2
        )

    def ask(self, method: str, **given: Any) -> str:
        """Let an extension ask something, and return the occurrence of the question."""
        ask = {"type": "extension_ui_request", "id": method, "method": method, "title": "eh?"}
        self.hear({**ask, **given})
        return self.taken.asked.permission_occurrence_id

    def decided(self, occurrence: str, allow: bool = True, **response: Any) -> dict[str, Any]:
        """Return what Pi is told of a decision."""
        answer = PermissionResponse(
            run_id="run", permission_occurrence_id=occurrence, allow=allow, response=response
        )
        outputs = self.pi.decide(answer, self.taken.stamp())
        self.assertIsNotNone(outputs)
        self.taken.take(outputs)
        self.assertIsNone(self.pi.decide(answer, self.taken.stamp()))
        sent = self.taken.sent[-1]
        self.assertEqual(sent.pop("type"), "extension_ui_response")
        return sent

    def test_a_dialog_of_another_extension_is_a_question_in_every_mode(self) -> None:
        """Its choices come back as they are, an own text where one is asked for."""
        self.begin(permission_mode="bypassPermissions")

        def chosen(*ids: str) -> dict[str, Any]:
            return {"outcome": "answered", "answers": [answers(*ids)]}

        def answers(*ids: str) -> dict[str, Any]:
            return {"questionId": "question-1", "selectedOptionIds": list(ids)}

        select = {"options": ["Blue", "Red", 7]}
        for method, given, options, response, told in (
            ("select", select, ["Blue", "Red"], chosen("option-2"), {"value": "Red"}),
            ("select", select, ["Blue", "Red"], chosen("Green"), {"cancelled": True}),
            ("select", select, ["Blue", "Red"], {}, {"cancelled": True}),
            ("confirm", {"message": "so?"}, ["Yes", "No"], chosen("option-1"), {"confirmed": True}),
            ("confirm", {}, ["Yes", "No"], chosen("option-2"), {"confirmed": False}),
            ("confirm", {}, ["Yes", "No"], {}, {"confirmed": True}),
            ("input", {"placeholder": "p"}, [], chosen("my own"), {"value": "my own"}),
            ("input", {}, [], {}, {"cancelled": True}),
            ("editor", {"prefill": "as it is"}, [], {}, {"value": "as it is"}),
            ("editor", {}, [], {"outcome": "skipped"}, {"cancelled": True}),
        ):
            occurrence = self.ask(method, **given)
            tool = self.taken.asked.requested_tool
            assert isinstance(tool, AskUserQuestionToolUse)
            (question,) = tool.questions
            self.assertEqual([one.label for one in question.options], options)
            self.assertEqual(question.prompt[:4], "eh?" + question.prompt[3:4])
            self.assertEqual(self.decided(occurrence, **response), {"id": method, **told})
        self.assertEqual(self.decided(self.ask("confirm"), False)["confirmed"], False)
        self.assertEqual(self.decided(self.ask("input"), False)["cancelled"], True)

    def test_a_dialog_is_shown_with_its_answer(self) -> None:
        """As a call and its result."""
        self.begin()
        self.decided(self.ask("confirm"))
        self.decided(self.ask("input"), False)
        question = ["AskUserQuestionToolUse: ", "asked: AskUserQuestionToolUse"]
        told = [*question, "result: Yes", *question, "result error: Nobody answered."]
        self.assertEqual(self.taken.story(), told)

    def test_dialogs_that_nobody_can_answer_are_answered(self) -> None:
        """Between turns, in a turn that is stopped, and one too many; open ones with the stop.
        What is not known is kept besides.
        """
        ask = {"type": "extension_ui_request", "id": "d", "method": "input", "title": "eh?"}
        no = {"type": "extension_ui_response", "id": "d", "cancelled": True}
        self.hear(ask)
        self.assertEqual(self.taken.sent, [no])
        self.begin()
        self.taken.sent.clear()
        for _ in range(OPEN):
            self.hear(ask)
        self.assertEqual(self.taken.sent, [])
        self.hear(ask, {**ask, "method": "sparkle"})
        self.assertEqual(self.taken.sent, [no, no])
        self.assertEqual([one.kind for one in self.unknown()], ["extension_ui_request.sparkle"])
        self.taken.take(self.pi.interrupt(self.taken.stamp()))
        self.hear(ask)
        answers = [one for one in self.taken.sent if one.get("cancelled")]
        self.assertEqual(len(answers), OPEN + 3)

    def test_an_open_dialog_ends_with_its_process(self) -> None:
        """Nobody hears an answer then."""
        self.begin()
        self.ask("input")
        sent = len(self.taken.sent)
        self.taken.take(self.pi.ended("it is gone", self.taken.stamp()))
        story = ["result error: Nobody answered.", "failed: it is gone"]
        self.assertEqual((self.taken.story()[-2:], len(self.taken.sent)), (story, sent))

    def unknown(self) -> list[Unknown]:
        """What it did not know."""
        return [one for one in self.taken.other if isinstance(one, Unknown)]

    def test_what_is_not_known_is_kept(self) -> None:
        """Events, members, roles and parts of answers."""
        self.begin()
        said = {"role": "assistant", "content": [{"type": "song"}], "mood": 1}
        for message in (
            {"type": "sparkle"},
            {"type": "turn_start", "glitter": 1},
            {"type": "message_end", "message": said},
            {"type": "message_end", "message": {"role": "ghost"}},
            {"type": "message_end", "message": {"role": "toolResult", "smell": 1}},
            {"type": "message_end", "message": {**said, "content": [], "stopReason": "bored"}},
            answer({"type": "text", "text": "x", "font": 1}),
        ):
            self.hear(message)
        kinds = ["sparkle", "turn_start.glitter", "assistant.mood", "content.song"]
        kinds += ["message_end.role", "toolResult.smell"]
        kinds += ["assistant.mood", "assistant.stopReason.bored", "content.text.font"]
        self.assertEqual([one.kind for one in self.unknown()], kinds)

    def test_an_answer_is_named_by_its_entry(self) -> None:
        """Its last words are where it can be forked; so is what Pi ended with.  What comes between
        does not count, and an answer without a name is told all the same.
        """
        self.begin()
        call = {"type": "toolCall", "id": "t", "name": "bash", "arguments": {"command": "ls"}}
        words = [{"type": "text", "text": one} for one in ("first", "last")]
        self.hear(answer(*words, call))
        self.assertEqual(self.taken.story(), [f"session {SESSION}"])
        self.hear({"type": "queue_update"}, gate("answer", "e1"), {"type": "turn_end"})
        self.assertEqual(self.anchors(), {"first": None, "last": "e1"})
        self.hear(answer({"type": "text", "text": "unnamed"}), {"type": "turn_end"})
        self.hear(gate("answer", "late"), gate("answer", "no name"))
        self.assertEqual(self.anchors(), {"unnamed": None})
        self.hear(gate("end", "e9"), {"type": "agent_settled", "aborted": False})
        end = self.taken.events[-1]
        assert isinstance(end, RunEnded)
        self.assertEqual(end.anchor, "e9")

    def anchors(self) -> dict[str, str | None]:
        """The entries of what was said since the last call."""
        events, self.taken.events = self.taken.events, []
        rows = [one for one in events if isinstance(one, RowProduced)]
        return {
            getattr(one.message, "content", ""): one.anchor
            for one in rows
            if type(one.message).__name__ == "AssistantMessage"
        }

    def test_a_turn_that_ended_with_no_entry_has_none_of_the_turn_before(self) -> None:
        """Nobody could say where a fork of it begins."""
        self.begin()
        self.hear(gate("end", "e1"), {"type": "agent_settled", "aborted": False})
        self.begin()
        self.hear({"type": "agent_settled", "aborted": False})
        ends = [one.anchor for one in self.taken.events if isinstance(one, RunEnded)]
        self.assertEqual(ends, ["e1", None])

    def test_a_fork_begins_behind_its_entry_before_any_turn(self) -> None:
        """Or not at all."""
        stamp = self.taken.stamp()
        for is_there in (True, False):
            fork = PiConversation(is_fork=True, fork_at="e1")
            asked = fork.open()
            self.assertEqual(len(asked), 2)
            for message in (GATE, STATE, gate("fork", "e2")):
                self.assertNotIn(Ready(adapts=True), fork.received(message, stamp))
            done = answered("garcon-fork", "prompt", disposition="handled")
            if is_there:
                self.assertIn(Ready(adapts=True), fork.received(gate("fork", "e1"), stamp))
                self.assertEqual(fork.received(done, stamp), [])
            else:
                refused = Refused("Pi does not go back to where the fork begins")
                self.assertEqual(fork.received(done, stamp), [refused])

    def test_another_session_in_the_same_process(self) -> None:
        """Is told of with its first answer, and has its settings said again."""
        self.begin()
        self.hear(answer({"type": "text", "text": "one"}), {"type": "agent_settled"})
        self.taken.events.clear()
        self.hear(gate("session", "another"))
        launch = a_launch("go", agent_id="pi", model="p/m", agent_session_id=SESSION)
        self.taken.take(self.pi.prompt(launch, self.taken.stamp()))
        self.assertEqual(self.taken.sent[-1]["type"], "set_model")
        self.hear(answered(self.last("set_model"), "set_model"))
        self.hear(answered(self.last("set_thinking_level"), "set_thinking_level"))
        self.hear(answered(self.last("prompt"), "prompt", disposition="started"))
        self.hear(answer({"type": "text", "text": "two"}))
        (started,) = (e for e in self.taken.events if isinstance(e, SessionStarted))
        self.assertEqual((started.agent_session_id, started.is_fork), ("another", False))

    def test_retries_of_a_summary_are_notices_too(self) -> None:
        """Whoever waits for a compaction sees why."""
        launch = a_launch("", agent_id="pi", model="p/m", is_compaction=True)
        self.taken.take(self.pi.prompt(launch, self.taken.stamp()))
        event = {"attempt": 1, "maxAttempts": 3, "delayMs": 9, "errorMessage": "busy"}
        self.hear({"type": "summarization_retry_scheduled", **event})
        self.assertIn("(busy); trying again (attempt 1 of 3)", self.taken.story()[0])

    def test_what_an_extension_shows_is_a_notice(self) -> None:
        """What it hides is not."""
        self.begin()
        for display in (True, False):
            said = {"role": "custom", "content": "note", "display": display}
            self.hear({"type": "message_end", "message": said})
        self.assertEqual(self.taken.story(), ["TranscriptNotice: note"])

    def test_a_compaction_takes_no_further_input(self) -> None:
        """And says so, as nothing else of the kind would."""
        launch = a_launch("", agent_id="pi", model="p/m", is_compaction=True)
        self.taken.take(self.pi.prompt(launch, self.taken.stamp()))
        self.assertEqual(self.pi.capture_steering(), SteerCapture(outcome="not-steerable"))

    def test_what_a_tool_used_counts(self) -> None:
        """A tool may ask models of its own."""
        self.begin()
        result = {"role": "toolResult", "usage": {"input": 3, "output": 2}}
        self.hear({"type": "message_end", "message": result}, {"type": "agent_settled"})
        end = self.taken.events[-1]
        assert isinstance(end, RunEnded) and end.usage is not None
        self.assertEqual((end.usage.input_tokens, end.usage.output_tokens), (3, 2))

    def test_a_gone_process(self) -> None:
        """Its turn fails, open calls with it."""
        self.begin()
        call = {"type": "toolCall", "id": "t", "name": "bash", "arguments": {"command": "ls"}}
        self.hear({"type": "message_end", "message": {"role": "assistant", "content": [call]}})
        self.taken.take(self.pi.ended("it is gone", self.taken.stamp()))
        story = ["BashToolUse: ls", "result error: The call did not end.", "failed: it is gone"]
        self.assertEqual(self.taken.story()[1:], story)


class Decided(SynchronousTestCase):
    def test_each_mode(self) -> None:
        """Reading is free, plans read only, edits pass inside the project alone."""

        def told(name: str, **given: Any) -> list[bool | None]:
            call = Call("q", "t", name, given)
            return [verdict(mode, "/srv/project", call) for mode in PERMISSION_MODES]

        self.assertEqual(
            list(PERMISSION_MODES),
            ["default", "acceptEdits", "manualBypass", "bypassPermissions", "plan"],
        )
        self.assertEqual(told("read", path="/etc/passwd"), [True] * 5)
        self.assertEqual(told("bash", command="ls"), [None, None, True, True, False])
        for path in ("a.txt", "/srv/project/sub/../a.txt"):
            self.assertEqual(told("edit", path=path), [None, True, True, True, False])
        for path in ("../a", "/srv/projects/a", "~/a", "@/etc/a", "/srv/project", ""):
            self.assertEqual(told("write", path=path), [None, None, True, True, False], path)
        self.assertEqual(told(""), [None, None, True, True, False])

    def test_keys_are_taken_as_they_are(self) -> None:
        """None of them is a variable or a command."""
        for value, told in (("sk", "sk"), ("a$B", "a$$B"), ("!ls", "$!ls"), ("!$x", "$!$$x")):
            self.assertEqual(literal(value), told)

    def test_usage(self) -> None:
        """Summed up over a turn's answers, and once."""
        spent = Spent(window=9)
        for _ in range(2):
            used = {"input": 3, "cacheRead": 2, "cacheWrite": 1, "output": 4}
            spent.take({**used, "cost": {"total": 0.5}})
        usage = Usage(input_tokens=12, output_tokens=8, cost_usd=1.0, context_window=9)
        self.assertEqual((spent.taken(), spent.taken()), (usage, None))


class Hostile(SynchronousTestCase):
    def test_nothing_it_says_breaks_a_conversation(self) -> None:
        """Thousands of messages made from the recording, whole and broken."""
        samples = [
            message
            for name in (RECORDING, FORK)
            for direction, message in recorded(name)
            if direction == "out"
        ]

        def a_fork() -> PiConversation:
            return PiConversation(is_fork=True, fork_at=FORK_AT)

        for make in (PiConversation, an_opened_one, a_fork):
            heard = attack(make, samples, INPUTS, seed=11)
            self.assertGreater(heard, INPUTS // 2)
