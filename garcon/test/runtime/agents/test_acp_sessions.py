"""How sessions of the Agent Client Protocol are opened, set, compacted and counted, and what of an
agent's words is not known.
"""

from __future__ import annotations

from typing import Any, ClassVar

from garcon.contract.messages import Compaction, TodoWriteToolUse
from garcon.contract.runs import (
    ForkPoint,
    HistoryMessage,
    PermissionWithdrawn,
    RowProduced,
    RunEnded,
    SessionStarted,
    Usage,
)
from garcon.runtime.agents.acp_opening import SETTLE_ROUNDS, SETTLED
from garcon.runtime.agents.acp_protocol import COMPACTED, AcpConversation, AcpWays
from garcon.runtime.agents.conversation import Ready, Refused, Unknown, Version
from garcon.test.runtime.agents.replay import Taken
from garcon.test.runtime.agents.test_acp_protocol import PROMPT, AcpCase

FORKS: dict[str, Any] = {"sessionCapabilities": {"fork": {}}}
POINT = ForkPoint(agent_session_id="parent")
EARLIER = [HistoryMessage(role="user", content="earlier words")]


class Opening(AcpCase):
    def methods(self) -> list[str]:
        return [sent["method"] for sent in self.taken.sent if "method" in sent]

    def test_session_is_taken_up_as_the_agent_can(self) -> None:
        """By loading it, else by resuming it, else not at all."""
        resumes: dict[str, Any] = {"sessionCapabilities": {"resume": {}}}
        for capabilities, method in (
            ({"loadSession": True, **resumes}, "session/load"),
            (resumes, "session/resume"),
            ({"sessionCapabilities": {"resume": None}}, "session/new"),
            ({"loadSession": "yes"}, "session/new"),
        ):
            self.taken = Taken()
            self.converse({}, resume="old", capabilities=capabilities)
            if method == "session/load":
                self.assertEqual(self.methods().pop(), SETTLED)
                self.answer({})
            self.assertIn(method, self.methods())
            opened = Refused("the agent named no session") if method == "session/new" else Ready()
            self.assertEqual(self.taken.other, [opened])

    def test_history_that_comes_late(self) -> None:
        """Gemini goes on to tell it after its answer; it is nobody's row all the same."""
        for rounds in (0, 1, 3, SETTLE_ROUNDS - 1, SETTLE_ROUNDS, SETTLE_ROUNDS + 1):
            self.taken = Taken()
            self.converse({}, resume="s", capabilities={"loadSession": True})
            said = 0
            while Ready() not in self.taken.other:
                if said < rounds:
                    said += 1
                    self.say("history")
                self.refuse("no such method")
            self.assertEqual(said, min(rounds, SETTLE_ROUNDS))
            self.prompt(agent_session_id="s")
            self.answer({"stopReason": "end_turn"})
            self.assertEqual(self.taken.story(), ["finished"])

    def test_history_that_comes_late_to_a_turn_that_waits(self) -> None:
        """Is not said in that turn, and names nothing; nor may anything be asked before it."""
        self.converse({}, resume="s", capabilities={"loadSession": True})
        self.prompt(agent_session_id="s")
        self.say("history")
        self.update("tool_call", toolCallId="t", status="completed")
        self.ask()
        self.assertEqual(self.outcome(), {"outcome": "cancelled"})
        self.refuse("no such method")
        self.refuse("no such method")
        self.assertEqual(self.methods()[-1], PROMPT)
        self.say("an answer")
        self.answer({"stopReason": "end_turn"})
        self.assertEqual(self.taken.story(), ["AssistantMessage: an answer", "finished"])

    def test_fork(self) -> None:
        """A whole session is forked where the agent can; what was said there is not told again."""
        self.converse({"sessionId": "forked"}, capabilities=FORKS, fork_from=POINT)
        self.assertEqual(self.taken.sent[-1]["method"], "session/fork")
        self.assertEqual(self.taken.sent[-1]["params"]["sessionId"], "parent")
        self.begin_fork()
        self.assertEqual(len(self.taken.sent[-1]["params"]["prompt"]), 1)
        self.update("agent_message_chunk", session="forked", content={"type": "text", "text": "a"})
        (started,) = (e for e in self.taken.events if isinstance(e, SessionStarted))
        self.assertEqual(started, SessionStarted(agent_session_id="forked", is_fork=True))

    def begin_fork(self) -> None:
        self.prompt(agent_session_id=None, fork_from=POINT, history=EARLIER)

    def test_fork_that_cannot_be_made(self) -> None:
        """Is a session of its own, which is told what was said."""
        for capabilities, point in ((None, POINT), (FORKS, ForkPoint("parent", anchor="there"))):
            self.taken = Taken()
            self.converse(capabilities=capabilities, fork_from=point)
            self.assertEqual(self.methods()[-1], "session/new")
        self.begin_opening(POINT)
        self.present(agentCapabilities=FORKS)
        self.refuse("no such session")
        self.assertEqual(self.methods()[-1], "session/new")
        self.answer({"sessionId": "s"})
        self.begin_fork()
        self.assertIn("earlier words", self.taken.sent[-1]["params"]["prompt"][0]["text"])
        self.answer({"stopReason": "end_turn"})
        (started,) = (e for e in self.taken.events if isinstance(e, SessionStarted))
        self.assertFalse(started.is_fork)

    def test_who_must_sign_in_is_told_how(self) -> None:
        """With the ways that the agent names."""
        self.begin_opening()
        self.present(authMethods=[{"id": "x", "name": "Log in with X"}, {"id": "key"}, 3])
        error = {"code": -32000, "message": "Authentication required"}
        self.hear({"jsonrpc": "2.0", "id": self.last_id(), "error": error})
        (refused,) = self.taken.other
        assert isinstance(refused, Refused)
        self.assertIn("Authentication required. Sign in by starting", refused.text)
        self.assertIn("(Log in with X, key)", refused.text)

    def begin_opening(self, fork_from: ForkPoint | None = None) -> None:
        self.taken = Taken()
        self.conversation = AcpConversation("/p", None, AcpWays(model="scripted"), fork_from)
        self.taken.take(self.conversation.open())

    def test_turn_that_waits_for_the_session(self) -> None:
        """It begins with the session, and can be stopped before."""
        self.begin_opening()
        self.prompt("stopped", agent_session_id=None)
        self.assertEqual(self.methods(), ["initialize"])
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))
        self.assertEqual(self.taken.story(), ["interrupted"])
        self.prompt("waits", agent_session_id=None)
        self.present()
        self.assertEqual(self.methods(), ["initialize", "session/new"])
        self.answer({"sessionId": "s"})
        self.assertEqual(self.methods(), ["initialize", "session/new", PROMPT])
        self.assertEqual(self.taken.sent[-1]["params"]["prompt"][0]["text"], "waits")
        self.answer({"stopReason": "end_turn"})
        self.assertEqual(self.taken.story(), ["session s", "finished"])

    def test_turn_of_a_session_that_never_opens(self) -> None:
        """Ends with the process."""
        self.begin_opening()
        self.prompt(agent_session_id=None)
        self.taken.take(self.conversation.ended("gone", self.taken.stamp()))
        self.assertEqual(self.taken.story(), ["failed: gone"])

    def test_version(self) -> None:
        """What the agent calls its release."""
        self.begin_opening()
        self.present(agentInfo={"name": "x", "version": "1.2.3"})
        self.assertEqual(self.taken.other, [Version("1.2.3")])


class Choosing(AcpCase):
    MODELS: ClassVar[dict[str, Any]] = {
        "availableModels": [{"modelId": "a", "name": "A"}, {"modelId": "b"}]
    }

    def sent(self) -> list[tuple[str, Any]]:
        """Methods and values that were asked since the session was opened."""
        return [
            (sent["method"], sent["params"].get("value", sent["params"].get("modelId")))
            for sent in self.taken.sent[2:]
        ]

    def test_listed_models_are_learned(self) -> None:
        """By whichever list."""
        self.converse({"sessionId": "s", "models": self.MODELS})
        self.assertEqual(self.learned, ["a", "b"])
        grouped = [{"options": [{"value": "x"}]}, {"value": "y"}]
        option = {"id": "m", "category": "model", "currentValue": "x", "options": grouped}
        self.converse({"sessionId": "s", "models": self.MODELS, "configOptions": [option]})
        self.assertEqual(self.learned, ["x", "y"])

    def test_model_that_is_not_offered(self) -> None:
        """Fails its turn: another one in its place would be a surprise."""
        models = {**self.MODELS, "currentModelId": "unlisted"}
        self.converse({"sessionId": "s", "models": models})
        self.prompt(model="c")
        (end,) = self.taken.events
        assert isinstance(end, RunEnded) and end.error is not None
        self.assertEqual(end.error.code, "MODEL_UNAVAILABLE")
        self.assertEqual(self.sent(), [])
        self.prompt(model="unlisted")
        self.assertEqual(self.sent(), [(PROMPT, None)])

    def test_model_where_none_can_be_chosen(self) -> None:
        """Is the agent's own, by whatever name; another one fails its turn."""
        for model, ending in (
            ("scripted", None),
            ("default", None),
            ("large", "MODEL_UNAVAILABLE"),
        ):
            self.taken = Taken()
            self.converse()
            self.prompt(model=model)
            if ending is None:
                self.assertEqual(self.sent(), [(PROMPT, None)])
                continue
            (end,) = self.taken.events
            assert isinstance(end, RunEnded) and end.error is not None
            self.assertEqual((end.error.code, self.sent()), (ending, []))

    def test_back_to_the_agents_own_choice(self) -> None:
        """What it had when the session was opened."""
        models = {**self.MODELS, "currentModelId": "a"}
        self.converse({"sessionId": "s", "models": models})
        for model in ("b", "default"):
            self.prompt(model=model)
            self.answer({})
            self.answer({"stopReason": "end_turn"})
        self.assertEqual(
            self.sent(),
            [
                ("session/set_model", "b"),
                (PROMPT, None),
                ("session/set_model", "a"),
                (PROMPT, None),
            ],
        )

    def test_model_of_an_endpoint(self) -> None:
        """Stands in what the process was started with, and in no list."""
        self.converse({"sessionId": "s", "models": self.MODELS})
        self.prompt(model="e:m", api_provider_id="p", model_endpoint_id="e")
        self.assertEqual(self.sent(), [(PROMPT, None)])

    def options(self, *efforts: str) -> list[dict[str, Any]]:
        def option(category: str, *values: str) -> dict[str, Any]:
            told = [{"value": value} for value in values]
            return {
                "id": category,
                "category": category,
                "currentValue": values[0],
                "options": told,
            }

        return [
            option("model", "a", "b"),
            *([option("thought_level", *efforts)] if efforts else []),
        ]

    def test_effort_of_the_model_that_was_chosen(self) -> None:
        """Which efforts there are is known when the model is."""
        self.converse({"sessionId": "s", "configOptions": self.options()})
        self.prompt(model="b", thinking_mode="high")
        self.answer({"configOptions": self.options("low", "high")})
        self.assertEqual(self.sent()[-1], ("session/set_config_option", "high"))
        self.answer({"configOptions": self.options("low", "high")})
        self.assertEqual(self.sent()[-1], (PROMPT, None))

    def test_answer_to_a_turn_that_is_over(self) -> None:
        """Begins nothing in the next one."""
        self.converse({"sessionId": "s", "models": self.MODELS})
        self.prompt(model="b")
        late = self.last_id()
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))
        self.assertEqual(self.taken.story(), ["interrupted"])
        self.prompt(model="b")
        count = len(self.taken.sent)
        self.hear({"jsonrpc": "2.0", "id": late, "result": {}})
        self.hear({"jsonrpc": "2.0", "id": late, "error": {"message": "late"}})
        self.assertEqual((len(self.taken.sent), self.taken.story()), (count, []))


class Turns(AcpCase):
    def test_compaction(self) -> None:
        """The agent's own command; its last words are the summary."""
        for words, summary in (("In short.", "In short."), ("", COMPACTED)):
            self.taken = Taken()
            self.converse(compact="/compact")
            self.prompt("keep the names", is_compaction=True)
            (part,) = self.taken.sent[-1]["params"]["prompt"]
            self.assertEqual(part["text"], "/compact keep the names")
            self.say(words)
            self.answer({"stopReason": "end_turn"})
            (row,) = (e.message for e in self.taken.events if isinstance(e, RowProduced))
            assert isinstance(row, Compaction)
            self.assertEqual((row.summary, row.trigger), (summary, "manual"))

    def test_plan(self) -> None:
        """Comes whole each time."""
        self.converse()
        self.prompt()
        entries = [
            {"content": "a", "status": "completed"},
            {"content": "b", "status": "in_progress", "priority": "high"},
            {"content": "c", "status": "odd"},
            3,
        ]
        self.update("plan", entries=entries)
        use = next(e.message for e in self.taken.events if isinstance(e, RowProduced))
        assert isinstance(use, TodoWriteToolUse) and isinstance(use.todos, list)
        self.assertEqual(
            [(todo.content, todo.status) for todo in use.todos],
            [("a", "completed"), ("b", "in_progress"), ("c", "pending")],
        )

    def usage(self, result: dict[str, Any]) -> Usage | None:
        self.prompt()
        self.answer({"stopReason": "end_turn", **result})
        end = self.taken.events[-1]
        assert isinstance(end, RunEnded)
        return end.usage

    def test_usage(self) -> None:
        """As the protocol tells it and as Gemini does; money is that of the turn alone."""
        self.converse()
        self.assertIsNone(self.usage({}))
        counts = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
        self.assertEqual(self.usage({"usage": counts}), Usage(input_tokens=10, output_tokens=5))
        quota = {"token_count": {"input_tokens": 20, "output_tokens": 10}}
        self.assertEqual(
            self.usage({"_meta": {"quota": quota}}), Usage(input_tokens=20, output_tokens=10)
        )
        for amount, cost in ((0.5, 0.5), (0.75, 0.25)):
            self.update(
                "usage_update", used=1, size=1000, cost={"amount": amount, "currency": "USD"}
            )
            self.assertEqual(self.usage({}), Usage(cost_usd=cost, context_window=1000))
        odd = {"inputTokens": -1, "outputTokens": True}
        self.assertEqual(self.usage({"usage": odd}), Usage(cost_usd=0.0, context_window=1000))

    def test_request_that_is_taken_back(self) -> None:
        """Its question is void, and answered all the same."""
        self.converse()
        self.prompt()
        self.ask()
        cancel = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 77}}
        self.hear(cancel)
        self.assertEqual(self.outcome(), {"outcome": "cancelled"})
        self.assertEqual(
            len([e for e in self.taken.events if isinstance(e, PermissionWithdrawn)]), 1
        )
        self.hear(cancel)
        self.assertEqual(
            len([e for e in self.taken.events if isinstance(e, PermissionWithdrawn)]), 1
        )

    def test_command_is_shown_when_it_is_known(self) -> None:
        """A call that is announced without its command has no row yet."""
        self.converse()
        self.prompt()
        self.update(
            "tool_call", toolCallId="t", kind="execute", title="bash", rawInput={"cwd": "/"}
        )
        self.assertEqual([e for e in self.taken.events if isinstance(e, RowProduced)], [])
        self.update("tool_call_update", toolCallId="t", rawInput={"command": "ls", "cwd": "/"})
        self.assertEqual(self.taken.story()[-1], "BashToolUse: ls")


class UnknownWords(AcpCase):
    def kinds(self) -> list[str]:
        return [one.kind for one in self.taken.other if isinstance(one, Unknown)]

    def test_each_place(self) -> None:
        """Kinds of updates, members of known messages, methods: each is named, and none stops the
        turn.
        """
        self.converse({"sessionId": "s", "sparkle": 1}, capabilities={})
        self.prompt()
        self.update("sparkle")
        self.update("plan", entries=[], sparkle=1)
        self.hear({"jsonrpc": "2.0", "method": "session/sparkle", "params": {}})
        self.hear({"jsonrpc": "2.0", "id": 5, "method": "session/ask", "params": {}})
        self.assertEqual(self.taken.sent[-1]["error"]["code"], -32601)
        self.answer({"stopReason": "end_turn", "sparkle": 1})
        self.assertEqual(
            self.kinds(),
            [
                "opened answer.sparkle",
                "session/update.sparkle",
                "plan.sparkle",
                "session/sparkle",
                "session/ask",
                "prompt answer.sparkle",
            ],
        )
        self.assertEqual(self.taken.story()[-1], "finished")

    def test_what_we_do_not_offer_is_known(self) -> None:
        """Files and terminals of the client are refused, and no news."""
        self.converse()
        for method in ("fs/read_text_file", "fs/write_text_file", "terminal/create"):
            self.hear({"jsonrpc": "2.0", "id": 5, "method": method, "params": {}})
            self.assertEqual(self.taken.sent[-1]["error"]["code"], -32601)
        self.assertEqual(self.kinds(), [])
