"""Claude Code's streaming JSON, as values and against a recording of it."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.catalogs import AgentSettings
from garcon.contract.messages import (
    AskUserQuestionToolUse,
    Compaction,
    GrepToolUse,
    Image,
    McpToolUse,
    ReadToolUse,
    TaskToolUse,
    TodoWriteToolUse,
    UnknownToolUse,
)
from garcon.contract.providers import ResolvedEndpoint
from garcon.contract.runs import (
    ForkPoint,
    PermissionAutoResolved,
    PermissionRequested,
    RowProduced,
    RunEnded,
    SessionStarted,
    Usage,
)
from garcon.runtime.agents.claude import invocation
from garcon.runtime.agents.claude_protocol import ALONE, ClaudeConversation
from garcon.runtime.agents.claude_rows import failure_text
from garcon.runtime.agents.claude_tools import answered, result_text, tool_use
from garcon.runtime.agents.conversation import Invocation, Ready, Refused, Version
from garcon.runtime.agents.stamps import Stamp
from garcon.test.runtime.agents.claude_cast import ClaudeCase
from garcon.test.runtime.agents.replay import NOW, Taken, recorded
from garcon.testing.agent_runs import a_launch, a_response

SESSION = "19ffdb62-27c9-4dae-8457-c329d714d9b1"


class Recording(SynchronousTestCase):
    def test_recorded_turns(self) -> None:
        """Plain, allowed, denied, failed, asked, interrupted twice, compacted: each ends once, as
        it did.
        """
        taken, conversation = Taken(), ClaudeConversation()
        turns: list[list[str]] = []
        known: str | None = None
        for direction, message in recorded("claude.jsonl"):
            if direction == "out":
                taken.take(conversation.received(message, taken.stamp()))
                continue
            kind = message["type"]
            if kind == "user":
                if known:
                    turns.append(taken.story())
                launch = a_launch(message["message"]["content"][0]["text"], agent_session_id=known)
                known = SESSION
                moment = Stamp(now=NOW, fresh_id=message["uuid"])
                taken.take(conversation.prompt(launch, moment))
            elif kind == "control_response":
                answer = message["response"]["response"]
                response = None
                if "answers" in str(answer):
                    tool = taken.asked.requested_tool
                    assert isinstance(tool, AskUserQuestionToolUse)
                    response = {
                        "outcome": "answered",
                        "answers": [
                            {
                                "questionId": tool.questions[0].id,
                                "selectedOptionIds": [tool.questions[0].options[1].id],
                            }
                        ],
                    }
                allow = answer["behavior"] == "allow"
                decision = a_response("run", taken.asked, allow=allow, response=response)
                taken.take(conversation.decide(decision, taken.stamp()))
            elif message["request"]["subtype"] == "initialize":
                taken.take(conversation.open())
            else:
                taken.take(conversation.interrupt(taken.stamp()))
            self.assertEqual(taken.sent[-1], message)
        turns.append(taken.story())
        self.assertEqual(taken.other[0], Ready(adapts=True))
        self.assertEqual(set(taken.other[1:]), {Version("2.1.197")})
        plain, allowed, denied, failed, asked, stopped_asking, stopped, compacted = turns
        self.assertEqual(
            plain,
            [f"session {SESSION}", "Thinking: hmm", "AssistantMessage: hello there", "finished"],
        )
        self.assertEqual(
            allowed,
            [
                "AssistantMessage: Running.",
                "BashToolUse: touch made",
                "asked: BashToolUse",
                "result: (Bash completed with no output)",
                "AssistantMessage: after",
                "finished",
            ],
        )
        self.assertEqual(
            denied[2:4],
            ["result error: The user denied this request.", "AssistantMessage: not then"],
        )
        self.assertEqual(failed, ["failed: API Error: 400 bad req"])
        self.assertEqual(asked[1], "asked: AskUserQuestionToolUse")
        self.assertIn("Blue", asked[2])
        self.assertEqual(stopped_asking[1:3], ["asked: BashToolUse", "withdrawn"])
        self.assertEqual(stopped_asking[-1], "interrupted")
        self.assertEqual(stopped, ["AssistantMessage: partial", "interrupted"])
        self.assertEqual(compacted[-1], "finished")
        self.assertEqual([row.split(":")[0] for row in compacted], ["Compaction", "finished"])


class Ends(ClaudeCase):
    def test_result_before_the_line_was_taken_up_is_another_turns(self) -> None:
        """The agent may run turns of its own; ours ends with the result after our line."""
        self.hear("system", subtype="session_state_changed", state="running")
        self.result()
        self.assertNotIn("finished", self.taken.story())
        self.take_up()
        self.result()
        self.assertEqual(self.taken.story(), ["finished"])

    def test_idle_after_a_result_ends_the_turn(self) -> None:
        """A line that never comes back (a local command) ends with the state idle."""
        self.hear("system", subtype="session_state_changed", state="idle")
        self.assertEqual(self.taken.story(), [])
        self.result()
        self.hear("system", subtype="session_state_changed", state="idle")
        self.assertEqual(self.taken.story()[-1], "finished")

    def test_coming_to_rest_before_the_line_was_read_is_no_end(self) -> None:
        """A turn of the agent's own ends when ours has been sent: by its result, which says so in
        this version, or by the state, which comes without work of ours before it.
        """
        self.take_up()
        self.result()
        for more in ({"origin": {"kind": "task-notification"}}, {}):
            self.hear("system", subtype="session_state_changed", state="running")
            self.prompt(agent_session_id="s")
            self.taken.story()
            self.result(**more)
            self.hear("system", subtype="session_state_changed", state="idle")
            self.assertEqual(self.taken.story(), [])
            self.hear("system", subtype="session_state_changed", state="running")
            self.take_up()
            self.result()
            self.assertEqual(self.taken.story(), ["finished"])

    def test_a_program_that_tells_nothing_ends_its_turn_with_its_result(self) -> None:
        """Neither the line comes back nor a state is told, in this turn and in the next one."""
        for _ in range(2):
            self.hear("system", subtype="init", session_id="s")
            self.result()
            self.assertEqual(self.taken.story()[-1], "finished")
            self.prompt(agent_session_id="s")

    def test_is_error_decides(self) -> None:
        """`subtype` says success for failures too."""
        self.take_up()
        self.result(is_error=True, result="API Error", api_error_status=500)
        self.assertEqual(self.taken.story()[-1], "failed: API Error (HTTP 500)")

    def test_failure_text(self) -> None:
        """The status is in the text once; without a text the errors are."""
        for result, text in (
            ({"result": "API Error: 400 x", "api_error_status": 400}, "API Error: 400 x"),
            ({"result": "bad key", "api_error_status": 401}, "bad key (HTTP 401)"),
            ({"errors": ["one", "two"]}, "one; two"),
            ({"subtype": "error_max_turns"}, "the agent failed: error_max_turns"),
        ):
            self.assertEqual(failure_text(result), text)

    def test_interrupted_however_it_ends(self) -> None:
        """After an interrupt a result, an error and an exit all mean stopped."""
        for finish in (
            lambda: self.result(is_error=True, subtype="error_during_execution"),
            lambda: self.result(),
            lambda: self.taken.take(self.conversation.ended("gone", self.taken.stamp())),
        ):
            self.begin()
            self.taken.take(self.conversation.interrupt(self.taken.stamp()))
            self.assertEqual(self.taken.sent[-1]["request"], {"subtype": "interrupt"})
            finish()
            self.assertEqual(self.taken.events[-1], RunEnded(outcome="interrupted"))

    def test_line_that_still_waits_is_taken_back(self) -> None:
        """Behind a turn of the agent's own it would run after the interrupt."""
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))
        take_back, _ = self.taken.sent
        self.assertEqual(
            take_back["request"],
            {"subtype": "cancel_async_message", "message_uuid": self.line_id},
        )
        answer = {"subtype": "success", "request_id": take_back["request_id"]}
        self.hear("control_response", response={**answer, "response": {"cancelled": False}})
        self.assertEqual(self.taken.story(), [])
        self.hear("control_response", response={**answer, "response": {"cancelled": True}})
        self.assertEqual(self.taken.story(), ["interrupted"])
        self.begin()
        self.take_up()
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))
        self.assertEqual([m["request"]["subtype"] for m in self.taken.sent], ["interrupt"])

    def test_exit_fails_the_turn_and_closes_its_calls(self) -> None:
        """A call without a result gets one."""
        block = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "x"}}
        self.hear("assistant", message={"content": [block]})
        self.taken.take(self.conversation.ended("the agent is gone", self.taken.stamp()))
        self.assertEqual(
            self.taken.story(),
            [
                "BashToolUse: x",
                "result error: The call did not end.",
                "failed: the agent is gone",
            ],
        )

    def test_session_id_is_told_when_it_is_new(self) -> None:
        """The id we resumed is not news; another one (after /clear) is."""
        self.begin(agent_session_id="s")
        self.hear("system", subtype="init", session_id="s")
        self.take_up()
        self.result(session_id="s2")
        self.assertEqual(self.taken.story(), ["session s2", "finished"])
        self.prompt(agent_session_id="s")
        self.assertEqual(self.taken.events, [SessionStarted(agent_session_id="s2")])

    def test_refused_start(self) -> None:
        """An error to the handshake refuses the session."""
        conversation, taken = ClaudeConversation(), Taken()
        taken.take(conversation.open())
        error = {"subtype": "error", "request_id": "initialize", "error": "no"}
        message = {"type": "control_response", "response": error}
        taken.take(conversation.received(message, taken.stamp()))
        self.assertEqual(taken.other, [Refused("the agent refused to start: no")])


class Deciding(ClaudeCase):
    def test_modes(self) -> None:
        """Which requests each mode answers, and how."""
        for mode, tool, behavior in (
            ("default", "Bash", None),
            ("acceptEdits", "Bash", None),
            ("plan", "Bash", "deny"),
            ("plan", "ExitPlanMode", None),
            ("bypassPermissions", "Bash", "allow"),
            ("bypassPermissions", "AskUserQuestion", None),
            ("manualBypass", "Bash", "allow"),
            ("manualBypass", "AskUserQuestion", None),
        ):
            self.begin(mode)
            self.ask(tool)
            asked = [e for e in self.taken.events if isinstance(e, PermissionRequested)]
            shown = [e for e in self.taken.events if isinstance(e, PermissionAutoResolved)]
            self.assertEqual(bool(asked), behavior is None, (mode, tool))
            self.assertEqual(bool(shown), (mode, tool) == ("manualBypass", "Bash"), (mode, tool))
            if behavior is not None:
                self.assertEqual(self.answer()["behavior"], behavior)

    def test_accepted_plan_asks_from_then_on(self) -> None:
        """Once the agent left plan mode its requests go to the user; the next turn restores the
        mode.
        """
        self.begin("plan")
        self.hear("system", subtype="status", permissionMode="default")
        self.ask()
        self.assertEqual(
            len([e for e in self.taken.events if isinstance(e, PermissionRequested)]), 1
        )
        self.take_up()
        self.result()
        self.prompt("plan")
        self.assertEqual(
            self.taken.sent[-1]["request"], {"subtype": "set_permission_mode", "mode": "plan"}
        )

    def test_allow_has_the_input(self) -> None:
        """Without the input the agent calls the answer malformed."""
        self.ask(permission_suggestions=[{"type": "addRules"}])
        self.assertEqual(self.decide(), {"behavior": "allow", "updatedInput": {"command": "x"}})

    def test_always_allow_hands_back_the_suggestions(self) -> None:
        """What the agent suggests is what lasts, and a mode it brings is left alone."""
        suggestions = [{"type": "addRules"}, {"type": "setMode", "mode": "acceptEdits"}]
        self.ask(permission_suggestions=suggestions)
        self.assertEqual(self.decide(always_allow=True)["updatedPermissions"], suggestions)
        self.hear("system", subtype="status", permissionMode="acceptEdits")
        self.take_up()
        self.result()
        self.taken.sent.clear()
        self.prompt()
        self.assertEqual([m["type"] for m in self.taken.sent], ["user"])

    def test_skipped_question_is_denied_with_its_reason(self) -> None:
        """The agent learns that the user did not answer."""
        self.ask("AskUserQuestion", {"questions": []})
        said = self.decide(response={"outcome": "skipped", "reason": "later"})
        self.assertEqual(said["behavior"], "deny")
        self.assertIn("later", said["message"])

    def test_withdrawn_request_takes_no_answer(self) -> None:
        """The agent took it back: it is withdrawn, once, and a decision finds nothing."""
        self.ask()
        asked = self.taken.asked
        self.hear("control_cancel_request", request_id="q")
        self.hear("control_cancel_request", request_id="q")
        self.assertEqual(self.taken.story(), ["asked: BashToolUse", "withdrawn"])
        answer = a_response("run", asked)
        self.assertIsNone(self.conversation.decide(answer, self.taken.stamp()))

    def test_a_request_that_is_sent_again_while_it_is_open(self) -> None:
        """The user is asked once."""
        self.ask()
        self.ask()
        self.assertEqual(len(self.taken.events), 1)
        self.decide()
        self.ask()
        self.assertEqual(self.taken.story(), ["asked: BashToolUse"] * 2)

    def test_unknown_requests_are_answered(self) -> None:
        """A request nobody answers would block the turn for ever."""
        self.hear("control_request", request_id="h", request={"subtype": "hook_callback"})
        self.assertEqual(self.taken.sent[-1]["response"]["subtype"], "error")


class Rows(ClaudeCase):
    def test_what_is_no_row(self) -> None:
        """Errors that the result repeats, empty answers, and what the agent tells of its work."""
        text = [{"type": "text", "text": "x"}]
        self.hear("assistant", error="server_error", message={"content": text})
        empty = [{"type": "text", "text": "(no content)"}]
        self.hear("assistant", message={"model": "<synthetic>", "content": empty})
        self.hear("user", message={"content": [{"type": "text", "text": "[interrupted]"}]})
        self.hear("stream_event", event={})
        self.assertEqual(self.taken.story(), [])
        self.assertEqual(self.taken.other, [Ready(adapts=True)])

    def test_what_a_subagent_does(self) -> None:
        """Its calls and their results are rows; its words are nobody's answer, and what it was told
        stands in the call that began it.
        """
        call = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "x"}}
        content = [{"type": "text", "text": "let me see"}, call]
        self.hear("assistant", parent_tool_use_id="a", uuid="u", message={"content": content})
        told = [{"type": "text", "text": "look around"}]
        self.hear("user", parent_tool_use_id="a", message={"content": told})
        result = [{"type": "tool_result", "tool_use_id": "t", "content": "seen"}]
        self.hear("user", parent_tool_use_id="a", message={"content": result})
        self.assertEqual(
            self.taken.story(), ["Thinking: let me see", "BashToolUse: x", "result: seen"]
        )

    def test_a_request_that_is_sent_again_is_told(self) -> None:
        """With what was wrong, and when."""
        about = {"attempt": 1, "max_retries": 10, "retry_delay_ms": 622.5}
        self.hear("system", subtype="api_retry", error_status=429, error="rate_limit", **about)
        self.hear("system", subtype="api_retry", error_status=None, error="unknown")
        self.assertEqual(
            self.taken.story(),
            [
                "TranscriptNotice: The model could not be reached (HTTP 429, rate limit); trying"
                " again in 0.6 s (attempt 1 of 10).",
                "TranscriptNotice: The model could not be reached (no answer); trying again.",
            ],
        )

    def test_what_it_says_between_turns(self) -> None:
        """Is told with the next turn, cut where it is long, and once."""
        self.take_up()
        self.result()
        for text in ("the build is done", "x" * ALONE):
            self.hear("assistant", message={"content": [{"type": "text", "text": text}]})
        self.result()
        self.taken.story()
        self.prompt(agent_session_id="s")
        (notice,) = self.taken.story()
        self.assertIn("TranscriptNotice: Since the last turn the agent said this", notice)
        self.assertIn("\n\nthe build is done\n\nxxx", notice)
        self.assertLess(len(notice), ALONE + 200)
        self.take_up()
        self.result()
        self.taken.story()
        self.prompt(agent_session_id="s")
        self.assertEqual(self.taken.story(), [])

    def test_where_a_fork_could_begin(self) -> None:
        """After each of its messages, and after the last entry of the turn, whatever that is."""
        self.take_up()
        for name, block in (
            ("u1", {"type": "text", "text": "one"}),
            ("u2", {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "x"}}),
        ):
            self.hear("assistant", uuid=name, message={"content": [block]})
        result = [{"type": "tool_result", "tool_use_id": "t", "content": "done"}]
        self.hear("user", uuid="u3", message={"content": result})
        self.result()
        rows = [event for event in self.taken.events if isinstance(event, RowProduced)]
        self.assertEqual([row.anchor for row in rows], ["u1", None, None])
        end = self.taken.events[-1]
        assert isinstance(end, RunEnded)
        self.assertEqual(end.anchor, "u3")

    def test_what_a_turn_used(self) -> None:
        """Tokens are told by result, costs as a total of the process."""
        used = {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 5}
        for total, cost in ((0.5, 0.5), (0.75, 0.25)):
            self.take_up()
            models = {"m": {"contextWindow": 200_000}}
            self.result(usage=used, total_cost_usd=total, modelUsage=models)
            end = self.taken.events[-1]
            assert isinstance(end, RunEnded)
            self.assertEqual(
                end.usage,
                Usage(input_tokens=7, output_tokens=5, cost_usd=cost, context_window=200_000),
            )
            self.prompt(agent_session_id="s")

    def test_compaction_takes_the_summary_that_follows(self) -> None:
        """The boundary has the numbers, the next line the text."""
        about = {"trigger": "auto", "pre_tokens": 15, "post_tokens": 7}
        self.hear("system", subtype="compact_boundary", compact_metadata=about)
        self.hear("user", message={"content": "all of it"})
        self.hear("user", message={"content": "not this"})
        (event,) = self.taken.events
        assert isinstance(event, RowProduced)
        row = Compaction(
            timestamp=NOW, trigger="auto", summary="all of it", pre_tokens=15, post_tokens=7
        )
        self.assertEqual(event.message, row)

    def test_a_compaction_is_a_command(self) -> None:
        """With what is to be kept; one that came to nothing fails its turn, though the result does
        not say so.
        """
        for prompt, text in (("keep names", "/compact keep names"), ("", "/compact")):
            self.begin()
            self.take_up()
            self.result()
            launch = a_launch(prompt, is_compaction=True, agent_session_id="s")
            self.taken.take(self.conversation.prompt(launch, self.taken.stamp()))
            self.assertEqual(self.taken.sent[-1]["message"]["content"][0]["text"], text)
        self.hear("system", subtype="status", compact_result="failed", compact_error="too long")
        self.hear("system", subtype="session_state_changed", state="running")
        self.result(result="Compaction failed")
        self.hear("system", subtype="session_state_changed", state="idle")
        self.assertEqual(self.taken.story()[-1], "failed: too long")

    def test_image_goes_before_the_text(self) -> None:
        """A picture is a base64 block."""
        launch = a_launch("look", images=[Image(data="data:image/png;base64,AAA")])
        self.take_up()
        self.result()
        self.taken.take(self.conversation.prompt(launch, self.taken.stamp()))
        picture, text = self.taken.sent[-1]["message"]["content"]
        self.assertEqual(
            picture["source"], {"type": "base64", "media_type": "image/png", "data": "AAA"}
        )
        self.assertEqual(text["text"], "look")
        self.begin()
        self.take_up()
        self.result()
        alone_launch = a_launch("", images=launch.images)
        self.taken.take(self.conversation.prompt(alone_launch, self.taken.stamp()))
        (alone,) = self.taken.sent[-1]["message"]["content"]
        self.assertEqual(alone["type"], "image")


class Tools(SynchronousTestCase):
    def test_tools_have_their_rows(self) -> None:
        """Each tool its row; one that lacks what the row needs stays as it came."""
        for name, given, row in (
            ("Read", {"file_path": "/a", "offset": 3}, ReadToolUse),
            ("Read", {}, UnknownToolUse),
            ("Grep", {"pattern": "x"}, GrepToolUse),
            ("Task", {"description": "d"}, TaskToolUse),
            ("Agent", {"description": "d"}, TaskToolUse),
            ("TodoWrite", {"todos": [{"content": "c", "status": "odd"}]}, TodoWriteToolUse),
            ("mcp__server__a__tool", {}, McpToolUse),
            ("SomethingNew", {"a": 1}, UnknownToolUse),
        ):
            self.assertEqual(type(tool_use(name, "t", given, NOW)), row, name)
        mcp = tool_use("mcp__server__a__tool", "t", {}, NOW)
        assert isinstance(mcp, McpToolUse)
        self.assertEqual((mcp.server, mcp.tool), ("server", "a__tool"))

    def test_answers_use_the_agents_words(self) -> None:
        """Options become their labels, several are joined, and free text stays."""
        given = {
            "questions": [
                {"question": "A?", "options": [{"label": "x"}, {"label": "y"}]},
                {"question": "B?", "options": [{"label": "z"}]},
                {"question": "C?", "options": []},
            ]
        }
        response = {
            "answers": [
                {"questionId": "question-1", "selectedOptionIds": ["option-1", "option-2"]},
                {"questionId": "question-2", "selectedOptionIds": ["my own"]},
            ]
        }
        self.assertEqual(answered(given, response)["answers"], {"A?": "x, y", "B?": "my own"})

    def test_result_text(self) -> None:
        """Blocks of text are joined, others are named."""
        blocks = [{"type": "text", "text": "a"}, {"type": "image"}]
        self.assertEqual(result_text(blocks), "a\n[image]")
        self.assertEqual(result_text("plain"), "plain")
        self.assertEqual(result_text(None), "")


class CommandLines(SynchronousTestCase):
    def line(self, resume: str | None = None, **changes: Any) -> list[str]:
        launch = a_launch("hi", agent_id="claude", model="opus", **changes)
        return list(invocation("claude", launch, resume).command)

    def test_new_session_has_an_id_of_ours(self) -> None:
        """The id is chosen, so that it is known whatever happens."""
        line = self.line()
        self.assertEqual(line[line.index("--session-id") - 1 :][0], "default")
        self.assertNotIn("--resume", line)
        self.assertNotIn("--effort", line)

    def test_known_session_is_resumed(self) -> None:
        """An id that exists may not be chosen again."""
        self.assertEqual(self.line("old")[-2:], ["--resume", "old"])

    def test_modes_and_efforts(self) -> None:
        """`manualBypass` runs as default, `ultra` as the highest effort there is."""
        line = self.line(permission_mode="manualBypass", thinking_mode="ultra")
        self.assertEqual(line[line.index("--permission-mode") + 1], "default")
        self.assertEqual(line[line.index("--effort") + 1], "max")
        self.assertIn("bypassPermissions", self.line(permission_mode="bypassPermissions"))

    def test_what_needs_another_process(self) -> None:
        """Another directory, way of thinking or endpoint, and a bypass that it was not started
        with; another model, effort or mode it can be told of.
        """
        usual = invocation("claude", a_launch("a", model="opus"), "s")

        def other(endpoint: ResolvedEndpoint | None = None, **changes: Any) -> Invocation:
            launch = a_launch("b", **({"model": "opus"} | changes))
            return invocation("claude", launch, "s", endpoint)

        for same in (other(), other(model="haiku"), other(permission_mode="plan")):
            self.assertEqual(same.key, usual.key)
        self.assertEqual(other().settings, usual.settings)
        self.assertNotEqual(other(thinking_mode="high").settings, usual.settings)
        settings = AgentSettings("scripted", 1, {"claudeThinkingMode": "on"})
        for different in (
            other(project_path="/p"),
            other(permission_mode="bypassPermissions"),
            other(agent_settings=settings),
            other(an_endpoint()),
        ):
            self.assertNotEqual(different.key, usual.key)

    def test_a_fork(self) -> None:
        """Of a session as a whole or up to an entry; where that cannot be done, a fresh one."""
        point = ForkPoint("parent", "entry")
        launch = a_launch("hi", fork_from=point)
        forked = list(invocation("claude", launch, None, forks=True).command)
        at = forked.index("--resume")
        self.assertEqual(forked[at : at + 3], ["--resume", "parent", "--fork-session"])
        self.assertEqual(forked[-2:], ["--resume-session-at", "entry"])
        self.assertIn("--session-id", forked)
        whole = invocation("claude", a_launch("hi", fork_from=ForkPoint("p")), None, forks=True)
        self.assertNotIn("--resume-session-at", whole.command)
        fresh = invocation("claude", launch, None)
        self.assertNotIn("--resume", fresh.command)

    def test_an_endpoint(self) -> None:
        """Its address, key and headers are in this child's environment only, and no account of the
        user's goes there; the model has its own name, for side requests too.
        """
        launch = a_launch("hi", model="e:glm", api_provider_id="p", model_endpoint_id="e")
        made = invocation("claude", launch, None, an_endpoint())
        self.assertEqual(made.command[made.command.index("--model") + 1], "glm")
        for name, value in (
            ("ANTHROPIC_BASE_URL", "https://models.example/anthropic"),
            ("ANTHROPIC_API_KEY", "a-secret-key"),
            ("ANTHROPIC_CUSTOM_HEADERS", "X-Team: a-secret-team"),
            ("ANTHROPIC_AUTH_TOKEN", ""),
            ("ANTHROPIC_SMALL_FAST_MODEL", "glm"),
        ):
            self.assertEqual(made.environment[name], value)
        self.assertNotIn("a-secret", f"{made!r} {made.command}")
        self.assertEqual(made.secrets.out_of("a-secret-key a-secret-team"), "[secret] [secret]")
        self.assertNotIn("ANTHROPIC_API_KEY", invocation("claude", launch, None).environment)


def an_endpoint(**changes: Any) -> ResolvedEndpoint:
    """Return an endpoint with secrets."""
    usual: dict[str, Any] = {
        "protocol": "anthropic-messages",
        "base_url": "https://models.example/anthropic/v1/",
        "api_key": "a-secret-key",
        "headers": {"X-Team": "a-secret-team"},
        "revision": 1,
    }
    return ResolvedEndpoint(**(usual | changes))
