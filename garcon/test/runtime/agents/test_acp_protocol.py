"""The client's side of the Agent Client Protocol, as values."""

from __future__ import annotations

from typing import Any, ClassVar

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.messages import (
    AssistantMessage,
    BashToolUse,
    EditToolUse,
    Image,
    ReadToolUse,
    ToolResult,
    UnknownToolUse,
)
from garcon.contract.runs import (
    ForkPoint,
    PermissionAutoResolved,
    PermissionRequested,
    RowProduced,
    RunEnded,
)
from garcon.runtime.agents.acp_protocol import FORGOTTEN, AcpConversation, AcpWays
from garcon.runtime.agents.conversation import Ready, Refused
from garcon.test.runtime.agents.replay import Taken
from garcon.testing.agent_runs import a_launch, a_response

PROMPT = "session/prompt"


class AcpCase(SynchronousTestCase):
    """A conversation that is open, with an agent that lists what the test says."""

    def setUp(self) -> None:
        self.taken = Taken()

    def converse(
        self,
        session: dict[str, Any] | None = None,
        *,
        resume: str | None = None,
        modes: dict[str, str] | None = None,
        capabilities: dict[str, Any] | None = None,
        compact: str | None = None,
        fork_from: ForkPoint | None = None,
    ) -> AcpConversation:
        """Open a conversation and take the handshake."""
        ways = AcpWays(modes=modes or {}, compact=compact, model="scripted")
        self.learned: list[str] = []
        self.conversation = AcpConversation(
            "/p",
            resume,
            ways,
            fork_from,
            lambda models: self.learned.extend(model.value for model in models),
        )
        self.taken.take(self.conversation.open())
        self.present(agentCapabilities=capabilities or {})
        self.answer({"sessionId": "s"} if session is None else session)
        return self.conversation

    def present(self, **itself: Any) -> None:
        """Let the agent say what it is."""
        self.answer({"protocolVersion": 1, **itself})

    def prompt(self, text: str = "hi", **changes: Any) -> None:
        """Begin a turn."""
        launch = a_launch(text, **({"agent_session_id": "s"} | changes))
        self.taken.take(self.conversation.prompt(launch, self.taken.stamp()))

    def hear(self, message: dict[str, Any]) -> None:
        """Let the agent say something."""
        self.taken.take(self.conversation.received(message, self.taken.stamp()))

    def answer(self, result: dict[str, Any]) -> None:
        """Answer our last request."""
        self.hear({"jsonrpc": "2.0", "id": self.last_id(), "result": result})

    def refuse(self, message: str, **more: Any) -> None:
        """Answer our last request with an error."""
        error = {"code": -32603, "message": message, **more}
        self.hear({"jsonrpc": "2.0", "id": self.last_id(), "error": error})

    def last_id(self) -> int:
        return int([m for m in self.taken.sent if "method" in m and "id" in m][-1]["id"])

    def update(self, update_kind: str, /, session: str = "s", **update: Any) -> None:
        """Let the agent send an update."""
        params = {"sessionId": session, "update": {"sessionUpdate": update_kind, **update}}
        self.hear({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def say(self, text: str, **more: Any) -> None:
        """Let the agent say a piece of a message."""
        self.update("agent_message_chunk", content={"type": "text", "text": text}, **more)

    def ask(self, kind: str = "execute", *option_kinds: str, **call: Any) -> None:
        """Let the agent ask for permission."""
        kinds = option_kinds or ("allow_always", "allow_once", "reject_once")
        self.hear(
            {
                "jsonrpc": "2.0",
                "id": 77,
                "method": "session/request_permission",
                "params": {
                    "sessionId": "s",
                    "toolCall": {"toolCallId": "t", "kind": kind, "title": "x", **call},
                    "options": [{"optionId": f"o-{k}", "kind": k, "name": k} for k in kinds],
                },
            }
        )

    def outcome(self) -> Any:
        """What we answered last to a permission request."""
        return [m["result"]["outcome"] for m in self.taken.sent if m.get("id") == 77][-1]


class Opening(AcpCase):
    def test_session_is_loaded_where_the_agent_can(self) -> None:
        """A stored session is loaded; its replayed history is nobody's row."""
        self.conversation = AcpConversation("/p", "old", AcpWays())
        self.taken.take(self.conversation.open())
        self.present(agentCapabilities={"loadSession": True})
        self.assertEqual(self.taken.sent[-1]["method"], "session/load")
        self.assertEqual(self.taken.sent[-1]["params"]["sessionId"], "old")
        self.say("history", session="old")
        self.answer({})
        self.assertEqual(self.taken.other, [])
        self.refuse("no such method")
        self.assertEqual(self.taken.other, [Ready()])
        self.prompt(agent_session_id="old", model="default")
        self.assertEqual(self.taken.events, [])

    def test_session_is_new_where_the_agent_cannot_load(self) -> None:
        """Without that capability a new session is opened, and named to the chat; that it knows
        nothing of the earlier one is told, once.
        """
        self.converse(resume="old")
        self.assertEqual(self.taken.sent[-1]["method"], "session/new")
        self.prompt(agent_session_id="old")
        self.assertEqual(self.taken.story(), [])
        self.say("a")
        self.say("b")
        told = f"TranscriptNotice: {FORGOTTEN}"
        self.assertEqual(self.taken.story(), ["session s", told])
        self.answer({"stopReason": "end_turn"})
        self.prompt()
        self.say("c")
        self.answer({"stopReason": "end_turn"})
        story = ["AssistantMessage: ab", "finished", "AssistantMessage: c", "finished"]
        self.assertEqual(self.taken.story(), story)

    def test_session_that_heard_nothing_is_not_named(self) -> None:
        """An agent that ended before keeps nothing to be taken up again; any word of it names the
        session, once.
        """
        for finish, story in (
            (lambda: self.taken.take(self.conversation.ended("gone", self.taken.stamp())), []),
            (lambda: self.answer({"stopReason": "end_turn"}), ["session s"]),
            (lambda: self.refuse("no"), ["session s"]),
            (lambda: self.update("plan", entries=[]), ["session s"]),
            (lambda: self.update("tool_call", toolCallId="t"), ["session s"]),
            (lambda: self.update("usage_update", used=1, size=2), []),
        ):
            self.taken = Taken()
            self.converse()
            self.prompt(agent_session_id=None)
            finish()
            self.assertEqual([e for e in self.taken.story() if e.startswith("session")], story)

    def test_refusals_are_told(self) -> None:
        """An agent that will not start, load or name a session says why."""
        for answers in ([], [{"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}]):
            self.taken = Taken()
            self.conversation = AcpConversation("/p", "old", AcpWays())
            self.taken.take(self.conversation.open())
            for answer in answers:
                self.answer(answer)
            self.refuse("no such thing", data={"details": "really"})
            (refused,) = self.taken.other
            assert isinstance(refused, Refused)
            self.assertIn("no such thing: really", refused.text)
        self.taken = Taken()
        self.converse({})
        self.assertEqual(self.taken.other, [Refused("the agent named no session")])


class Choosing(AcpCase):
    MODES: ClassVar[dict[str, Any]] = {
        "availableModes": [{"id": "ask"}, {"id": "edit"}],
        "currentModeId": "ask",
    }

    def methods(self) -> list[str]:
        return [m["method"] for m in self.taken.sent[2:] if "method" in m]

    def test_mode_comes_before_the_prompt(self) -> None:
        """The agent's own mode is set first, and the prompt waits for the answer."""
        modes = {"default": "ask", "acceptEdits": "edit"}
        self.converse({"sessionId": "s", "modes": self.MODES}, modes=modes)
        self.prompt(permission_mode="acceptEdits")
        self.assertEqual(self.methods(), ["session/set_mode"])
        self.assertEqual(self.taken.sent[-1]["params"], {"sessionId": "s", "modeId": "edit"})
        self.answer({})
        self.assertEqual(self.methods(), ["session/set_mode", PROMPT])
        self.answer({"stopReason": "end_turn"})
        self.prompt(permission_mode="acceptEdits")
        self.assertEqual(self.methods()[2:], [PROMPT])

    def test_failed_mode_fails_the_turn(self) -> None:
        """A mode that cannot be set is never passed over; the next turn tries again."""
        modes = {"default": "ask", "acceptEdits": "edit"}
        self.converse({"sessionId": "s", "modes": self.MODES}, modes=modes)
        self.prompt(permission_mode="acceptEdits")
        self.refuse("no mode")
        self.assertEqual(self.taken.story(), ["failed: no mode"])
        self.prompt(permission_mode="acceptEdits")
        self.assertEqual(self.methods(), ["session/set_mode", "session/set_mode"])

    def test_no_mode_outlives_the_chats(self) -> None:
        """A turn in a mode that the agent has no name for goes back to the one that it began in,
        before its prompt.
        """
        for modes in ({}, {"default": "nowhere"}):
            for chosen in ("bypassPermissions", "plan"):
                self.taken = Taken()
                self.converse(
                    {"sessionId": "s", "modes": self.MODES}, modes={chosen: "edit", **modes}
                )
                self.prompt(permission_mode=chosen)
                self.answer({})
                self.answer({"stopReason": "end_turn"})
                self.prompt(permission_mode="default")
                self.assertEqual(self.taken.sent[-1]["method"], "session/set_mode")
                self.assertEqual(self.taken.sent[-1]["params"]["modeId"], "ask")
                self.answer({})
                self.assertEqual(self.methods()[2:], ["session/set_mode", PROMPT])

    def test_a_mode_that_the_agent_went_to_itself_is_left(self) -> None:
        """By the next turn, without any names of ours too."""
        self.converse({"sessionId": "s", "modes": self.MODES})
        self.prompt()
        self.update("current_mode_update", currentModeId="edit")
        self.answer({"stopReason": "end_turn"})
        self.prompt()
        self.assertEqual(self.taken.sent[-1]["params"], {"sessionId": "s", "modeId": "ask"})

    def test_unlisted_values_are_not_asked_for(self) -> None:
        """Agents accept any word, so only listed ones are sent."""
        self.converse({"sessionId": "s", "modes": self.MODES}, modes={"plan": "nowhere"})
        self.prompt(permission_mode="plan")
        self.assertEqual(self.methods(), [PROMPT])

    def test_configuration_options_go_first(self) -> None:
        """Mode, model and effort are chosen by the options of their categories."""
        options = [
            {
                "id": f"the-{category}",
                "category": category,
                "currentValue": "a",
                "options": [{"value": "a"}, {"value": value}],
            }
            for category, value in (("model", "m"), ("mode", "plan"), ("thought_level", "high"))
        ]
        self.converse({"sessionId": "s", "configOptions": options}, modes={"plan": "plan"})
        self.prompt(permission_mode="plan", model="m", thinking_mode="high")
        for _ in range(3):
            self.answer({"configOptions": options})
        chosen = [m["params"] for m in self.taken.sent[2:-1]]
        self.assertEqual(
            [(c["configId"], c["value"]) for c in chosen],
            [("the-mode", "plan"), ("the-model", "m"), ("the-thought_level", "high")],
        )
        self.assertEqual(self.taken.sent[-1]["method"], PROMPT)


class Rows(AcpCase):
    def setUp(self) -> None:
        super().setUp()
        self.converse(capabilities={"promptCapabilities": {"image": True}})
        self.prompt()

    def rows(self) -> list[Any]:
        return [e.message for e in self.taken.events if isinstance(e, RowProduced)]

    def test_pieces_of_a_message_are_one_row(self) -> None:
        """Pieces are joined until a tool call, another kind, another id, or the end."""
        self.say("a")
        self.say("b")
        self.update("tool_call", toolCallId="t", kind="execute", rawInput={"command": "ls"})
        self.say("c", messageId="1")
        self.say("d", messageId="2")
        self.update("agent_thought_chunk", content={"type": "text", "text": "e"})
        self.say("f")
        self.answer({"stopReason": "end_turn"})
        self.assertEqual(
            self.taken.story(),
            [
                "AssistantMessage: ab",
                "BashToolUse: ls",
                "AssistantMessage: c",
                "AssistantMessage: d",
                "Thinking: e",
                "AssistantMessage: f",
                "result error: The call did not end.",
                "finished",
            ],
        )

    def test_unfinished_text_of_a_bad_turn_is_dropped(self) -> None:
        """No partial row is left after a failed, cut or stopped turn."""
        self.say("half")
        self.refuse("Internal error")
        self.prompt()
        self.say("half")
        self.answer({"stopReason": "max_tokens"})
        self.prompt()
        self.say("half")
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))
        self.answer({"stopReason": "cancelled"})
        self.assertEqual(
            self.taken.story(),
            [
                "failed: Internal error",
                "failed: the agent stopped early: max_tokens",
                "interrupted",
            ],
        )

    def test_a_call_that_is_over_is_let_go(self) -> None:
        """Its output can be large, and the session lives on; a late word of it changes nothing."""
        self.converse()
        self.prompt()
        output = [{"type": "content", "content": {"type": "text", "text": "much"}}]
        self.update("tool_call", toolCallId="t", kind="execute", rawInput={"command": "ls"})
        self.update("tool_call_update", toolCallId="t", status="completed", content=output)
        self.assertEqual(self.taken.story(), ["BashToolUse: ls", "result: much"])
        (call,) = self.conversation._rows._tools.values()
        self.assertEqual((call.input, call.content, call.output), ({}, [], None))
        self.update("tool_call_update", toolCallId="t", status="failed", content=output)
        self.assertEqual((self.taken.story(), call.content), ([], []))
        self.answer({"stopReason": "end_turn"})
        self.assertEqual(self.conversation._rows._tools, {})

    def test_call_is_put_together_from_all_that_is_said(self) -> None:
        """Missing members keep their value, and an update may come first."""
        self.update("tool_call_update", toolCallId="t", title="Edit a", kind="edit")
        self.update("tool_call", toolCallId="t", locations=[{"path": "/p/a"}])
        diff = {"type": "diff", "path": "/p/a", "oldText": "x", "newText": "y"}
        self.update("tool_call_update", toolCallId="t", status="completed", content=[diff])
        use, result = self.rows()
        self.assertEqual(
            (type(use), use.file_path, use.old_string, use.new_string),
            (EditToolUse, "/p/a", "x", "y"),
        )
        self.assertEqual((result.is_error, result.content), (False, {"text": "/p/a\ny"}))
        self.update("tool_call_update", toolCallId="t", status="completed")
        self.assertEqual(len(self.rows()), 2)

    def test_kinds_have_their_rows(self) -> None:
        """A kind that lacks what its row needs is shown as it came."""
        for number, (kind, given, row) in enumerate(
            [
                ("execute", {"command": "ls"}, BashToolUse),
                ("read", {"path": "/a"}, ReadToolUse),
                ("read", {"x": 1}, UnknownToolUse),
                ("fetch", {"x": 1}, UnknownToolUse),
                ("other", {"x": 1}, UnknownToolUse),
            ]
        ):
            self.update("tool_call", toolCallId=str(number), kind=kind, rawInput=given)
            self.assertEqual(type(self.rows()[-1]), row)

    def test_other_sessions_and_late_updates_are_nothing(self) -> None:
        """Only this session's updates during its turn are rows."""
        self.say("x", session="other")
        self.answer({"stopReason": "end_turn"})
        self.say("late")
        self.assertEqual(self.taken.story(), ["finished"])

    def test_images_go_where_they_are_taken(self) -> None:
        """A picture is a content block before the text."""
        self.answer({"stopReason": "end_turn"})
        self.prompt("look", images=[Image(data="data:image/png;base64,AAA")])
        self.assertEqual(
            self.taken.sent[-1]["params"]["prompt"],
            [
                {"type": "image", "mimeType": "image/png", "data": "AAA"},
                {"type": "text", "text": "look"},
            ],
        )

    def test_unknown_requests_are_answered(self) -> None:
        """A request nobody answers would block the agent for ever."""
        self.hear({"jsonrpc": "2.0", "id": "x", "method": "fs/read_text_file", "params": {}})
        self.assertEqual(self.taken.sent[-1]["error"]["code"], -32601)
        self.assertEqual(self.taken.sent[-1]["id"], "x")


class Deciding(AcpCase):
    def begin(self, mode: str) -> None:
        """Begin a turn in a permission mode."""
        self.taken = Taken()
        self.converse()
        self.prompt(permission_mode=mode)

    def test_modes(self) -> None:
        """Which requests each mode answers, and how."""
        for mode, kind, answer in (
            ("default", "execute", None),
            ("default", "edit", None),
            ("acceptEdits", "edit", "o-allow_once"),
            ("acceptEdits", "delete", "o-allow_once"),
            ("acceptEdits", "execute", None),
            ("plan", "execute", "o-reject_once"),
            ("plan", "switch_mode", None),
            ("bypassPermissions", "execute", "o-allow_once"),
            ("manualBypass", "execute", "o-allow_once"),
        ):
            self.begin(mode)
            self.ask(kind, locations=[{"path": "/p/a"}])
            asked = [e for e in self.taken.events if isinstance(e, PermissionRequested)]
            resolved = [e for e in self.taken.events if isinstance(e, PermissionAutoResolved)]
            self.assertEqual(bool(asked), answer is None, (mode, kind))
            self.assertEqual(bool(resolved), mode == "manualBypass", (mode, kind))
            if answer is not None:
                self.assertEqual(self.outcome(), {"outcome": "selected", "optionId": answer})

    def decide(self, **decision: Any) -> Any:
        answer = a_response("run", self.taken.asked, **decision)
        self.taken.take(self.conversation.decide(answer, self.taken.stamp()))
        return self.outcome()

    def asked_count(self) -> int:
        return len([e for e in self.taken.events if isinstance(e, PermissionRequested)])

    def test_an_accepted_plan_is_carried_out(self) -> None:
        """Once the user lets the agent leave plan mode, what it asks in that turn is the user's to
        decide; the next turn is in plan mode again.
        """
        self.begin("plan")
        self.ask("switch_mode")
        self.decide()
        self.update("current_mode_update", currentModeId="default")
        for kind in ("edit", "execute"):
            answers, asked = len(self.taken.sent), self.asked_count()
            self.ask(kind)
            self.assertEqual((len(self.taken.sent), self.asked_count()), (answers, asked + 1))
            self.decide()
        self.answer({"stopReason": "end_turn"})
        self.prompt(permission_mode="plan")
        self.ask("edit")
        self.assertEqual(self.outcome()["optionId"], "o-reject_once")

    def test_a_plan_that_is_not_accepted(self) -> None:
        """Leaves all else denied."""
        self.begin("plan")
        self.ask("switch_mode")
        self.decide(allow=False)
        self.ask("edit")
        self.assertEqual((self.outcome()["optionId"], self.asked_count()), ("o-reject_once", 1))

    def test_options_are_chosen_by_kind(self) -> None:
        """The order and the ids are the agent's own; without a fitting kind the answer is
        cancelled.
        """
        for decision, kinds, option in (
            ({}, (), "o-allow_once"),
            ({"always_allow": True}, (), "o-allow_always"),
            ({"always_allow": True}, ("allow_once",), "o-allow_once"),
            ({}, ("allow_always",), "o-allow_always"),
            ({"allow": False}, (), "o-reject_once"),
            ({"allow": False}, ("reject_always",), "o-reject_always"),
            ({"allow": False}, ("allow_once",), None),
        ):
            self.begin("default")
            self.ask("execute", *kinds)
            wanted = {"outcome": "selected", "optionId": option}
            self.assertEqual(
                self.decide(**decision), wanted if option else {"outcome": "cancelled"}
            )

    def test_answer_is_taken_once(self) -> None:
        """A second decision finds no request."""
        self.begin("default")
        self.ask()
        self.decide()
        again = a_response("run", self.taken.asked)
        self.assertIsNone(self.conversation.decide(again, self.taken.stamp()))

    def test_interrupt_answers_what_is_open(self) -> None:
        """Some agents hang for ever on a question that is left open."""
        self.begin("default")
        self.ask()
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))
        self.assertEqual([m.get("method") for m in self.taken.sent[-2:]], ["session/cancel", None])
        self.assertEqual(self.outcome(), {"outcome": "cancelled"})
        self.ask()
        self.assertEqual(len([m for m in self.taken.sent if m.get("id") == 77]), 2)

    def test_while_cancelling_every_answer_is_a_stop(self) -> None:
        """`cancelled`, `end_turn` and an error all mean stopped."""
        for finish in (
            lambda: self.answer({"stopReason": "cancelled"}),
            lambda: self.answer({"stopReason": "end_turn"}),
            lambda: self.refuse("broken"),
            lambda: self.taken.take(self.conversation.ended("gone", self.taken.stamp())),
        ):
            self.begin("default")
            self.taken.take(self.conversation.interrupt(self.taken.stamp()))
            finish()
            self.assertEqual(self.taken.events[-1], RunEnded(outcome="interrupted"))

    def test_exit_fails_the_turn_once(self) -> None:
        """A turn ends once; without one an exit says nothing."""
        self.begin("default")
        self.taken.take(self.conversation.ended("the agent is gone", self.taken.stamp()))
        self.assertEqual(self.taken.story()[-1], "failed: the agent is gone")
        self.taken.take(self.conversation.ended("again", self.taken.stamp()))
        self.assertEqual(self.taken.story(), [])


class Tolerance(AcpCase):
    def test_malformed_messages_do_no_harm(self) -> None:
        """Members of the wrong type are taken as missing."""
        self.converse()
        self.prompt()
        messages: list[dict[str, Any]] = [
            {},
            {"id": 99, "result": {}},
            {"id": [], "result": None},
            {"method": "session/update", "params": []},
            {"method": "session/update", "params": {"sessionId": "s", "update": 3}},
            {"method": 3, "id": 4},
        ]
        for message in messages:
            self.hear(message)
        self.update("tool_call", toolCallId=None, kind=7, content={}, rawInput=[], locations=[3])
        self.update("agent_message_chunk", content="text")
        self.answer({"stopReason": "end_turn"})
        self.assertEqual(self.taken.story()[-1], "finished")
        self.assertEqual(
            [e for e in self.taken.events if isinstance(e, AssistantMessage | ToolResult)], []
        )
