"""The local runtime with the real Claude Code, against a pretend model server."""

from __future__ import annotations

from typing import Any

from garcon.contract.messages import AskUserQuestionToolUse, BashToolUse, Thinking, ToolResult
from garcon.contract.runs import (
    PermissionAutoResolved,
    PermissionRequested,
    PermissionWithdrawn,
    RunEnded,
)
from garcon.runtime.executor import LocalRuntime
from garcon.testing.agent_runs import RecordingSink, a_launch, a_response
from garcon.testing.local_runtimes import ClaudeRuntimeCase, runs
from garcon.testing.models.script import Call, Fail, Hold, Text, Think, Turn, said


class ClaudeCase(ClaudeRuntimeCase):
    def setUp(self) -> None:
        super().setUp()
        self.claude: LocalRuntime = self.a_runtime()

    async def go(self, prompt: str, **changes: Any) -> tuple[str, RecordingSink]:
        """Begin a turn of Claude and return its run id and what it says."""
        usual = {"agent_id": "claude", "model": "sonnet"}
        launch, sink = await self.begin(self.claude, prompt, **(usual | changes))
        return launch.run_id, sink


class Turns(ClaudeCase):
    async def test_entry_shows_what_is_installed(self) -> None:
        """The catalog has Claude with its models and its one setting."""
        (entry,) = await self.claude.catalog("claude")
        self.assertEqual(
            [model.value for model in entry.models], ["opus", "sonnet", "haiku", "fable"]
        )
        self.assertEqual(entry.settings[0]["key"], "claudeThinkingMode")

    async def test_tool_call_allowed(self) -> None:
        """A turn with a command that needs permission: asked, allowed, run, answered."""
        self.script.push(
            said(Think("I wonder"), "I will.", Call("Bash", {"command": "touch made"})), "All done."
        )
        run_id, sink = await self.go("make it")
        asked = await sink.asked()
        assert isinstance(asked.requested_tool, BashToolUse)
        self.assertEqual(asked.requested_tool.command, "touch made")
        self.assertEqual(sink.rows(BashToolUse)[0].tool_id, asked.requested_tool.tool_id)
        self.assertEqual(await self.claude.respond(a_response(run_id, asked)), "confirmed")
        await sink.ended()
        self.assertEqual([end.outcome for end in sink.of(RunEnded)], ["finished"])
        self.assertEqual(sink.texts, ["I will.", "All done."])
        self.assertEqual([row.content for row in sink.rows(Thinking)], ["I wonder"])
        self.assertEqual([row.is_error for row in sink.rows(ToolResult)], [False])
        self.assertTrue((self.project / "made").exists())

    async def test_tool_call_denied(self) -> None:
        """A denial is the tool's result, and the model goes on."""
        self.script.push(said(Call("Bash", {"command": "touch made"})), "Then not.")
        run_id, sink = await self.go("make it")
        await self.claude.respond(a_response(run_id, await sink.asked(), allow=False))
        await sink.ended()
        self.assertEqual(sink.texts, ["Then not."])
        self.assertEqual([row.is_error for row in sink.rows(ToolResult)], [True])
        self.assertFalse((self.project / "made").exists())

    async def test_second_turn_and_resume_after_a_restart(self) -> None:
        """The next turn has the history, in the same process and in one of another runtime."""
        self.script.push("one", "two", "three")
        _, first = await self.go("turn 1")
        await first.ended()
        _, second = await self.go("turn 2", agent_session_id=first.session_id)
        await second.ended()
        await self.claude.stop()
        self.claude = self.a_runtime()
        _, third = await self.go("turn 3", agent_session_id=first.session_id)
        await third.ended()
        self.assertEqual([s.texts for s in (first, second, third)], [["one"], ["two"], ["three"]])
        said_before = str(self.script.asked[-1].body["messages"])
        for text in ("turn 1", "one", "turn 2", "two"):
            self.assertIn(text, said_before)

    async def test_other_settings_keep_the_session(self) -> None:
        """A turn with another model and effort goes on in the same agent session."""
        self.script.push("one", "two")
        _, first = await self.go("turn 1")
        await first.ended()
        _, second = await self.go(
            "turn 2", agent_session_id=first.session_id, model="opus", thinking_mode="high"
        )
        await second.ended()
        asked = self.script.asked[-1].body
        self.assertIn("opus", asked["model"])
        self.assertEqual(asked["output_config"]["effort"], "high")
        self.assertIn("turn 1", str(asked["messages"]))

    async def test_model_errors_fail_the_turn(self) -> None:
        """A refused and a broken model request fail the turn, and the error has the status."""
        sessions = None
        for status in (400, 500):
            self.script.push(
                *[Turn((Fail(status, message="no luck"),))] * (1 if status == 400 else 2)
            )
            _, sink = await self.go("go", agent_session_id=sessions)
            end = await sink.ended(60.0)
            self.assertEqual(end.outcome, "failed")
            assert end.error is not None
            self.assertIn(str(status), end.error.message)
            self.assertEqual(sink.texts, [])
            sessions = sink.session_id if sessions is None else sessions

    async def test_unknown_session_fails_the_launch(self) -> None:
        """A session that is not there is told as the launch's failure."""
        gone = "00000000-0000-4000-8000-000000000000"
        launch = a_launch(
            "hi",
            agent_id="claude",
            model="sonnet",
            project_path=str(self.project),
            agent_session_id=gone,
        )
        error = await self.refused(self.claude, launch)
        self.assertIn(gone, error.text)


class Stops(ClaudeCase):
    async def test_stop_in_mid_stream(self) -> None:
        """A stop ends the turn as interrupted and hangs up on the model; the next turn works."""
        self.script.push(said(Text("half a "), Hold("never"), Text("sentence")), "again")
        run_id, sink = await self.go("talk")
        await self.eventually(lambda: bool(self.script.asked), "the model's request")
        await self.claude.abort(run_id)
        await sink.ended(5.0)
        self.assertEqual([end.outcome for end in sink.of(RunEnded)], ["interrupted"])
        await self.eventually(
            lambda: self.script.asked[0].outcome == "client hung up", "the model's hang-up"
        )
        _, after = await self.go("go on", agent_session_id=sink.session_id)
        await after.ended()
        self.assertEqual(after.texts, ["again"])

    async def test_stop_while_a_question_is_open(self) -> None:
        """The question is withdrawn, then the run ends."""
        self.script.push(said(Call("Bash", {"command": "touch made"})), "never")
        run_id, sink = await self.go("make it")
        await sink.asked()
        await self.claude.abort(run_id)
        await sink.ended(5.0)
        self.assertEqual(len(sink.of(PermissionWithdrawn)), 1)
        self.assertEqual((await sink.ended()).outcome, "interrupted")
        self.assertIs(sink.events[-1], sink.of(RunEnded)[0])

    async def test_stop_ends_the_command(self) -> None:
        """A command that runs is gone after a stop."""
        command = "echo $$ > pid; exec sleep 300"
        self.script.push(said(Call("Bash", {"command": command})), "never")
        run_id, sink = await self.go("run it", permission_mode="manualBypass")
        pid = await self.pid_in("pid")
        self.assertEqual(len(sink.of(PermissionAutoResolved)), 1)
        await self.claude.abort(run_id)
        await sink.ended(5.0)
        await self.eventually(lambda: not runs(pid), "the end of the command")


class Modes(ClaudeCase):
    async def test_plan_denies_and_asks_before_it_ends(self) -> None:
        """In plan mode a write is denied without a question; leaving the mode is asked."""
        self.script.push(
            said(Call("Bash", {"command": "touch made"})),
            said(Call("ExitPlanMode", {"plan": "1. make it"})),
            "A plan.",
        )
        run_id, sink = await self.go("plan it", permission_mode="plan")
        asked = await sink.asked()
        self.assertEqual(type(asked.requested_tool).__name__, "ExitPlanModeToolUse")
        self.assertFalse((self.project / "made").exists())
        await self.claude.respond(a_response(run_id, asked, allow=False))
        await sink.ended()
        self.assertEqual(len(sink.of(PermissionRequested)), 1)

    async def test_question_to_the_user(self) -> None:
        """A question goes to the user in every mode, and the model gets the answer in words."""
        question = {
            "question": "Which colour?",
            "header": "Colour",
            "multiSelect": False,
            "options": [
                {"label": "Red", "description": "r"},
                {"label": "Blue", "description": "b"},
            ],
        }
        self.script.push(said(Call("AskUserQuestion", {"questions": [question]})), "Blue, then.")
        run_id, sink = await self.go("ask me", permission_mode="manualBypass")
        asked = await sink.asked()
        tool = asked.requested_tool
        assert isinstance(tool, AskUserQuestionToolUse)
        answer = {
            "type": "ask-user-question-response",
            "outcome": "answered",
            "answers": [
                {
                    "questionId": tool.questions[0].id,
                    "selectedOptionIds": [tool.questions[0].options[1].id],
                }
            ],
        }
        await self.claude.respond(a_response(run_id, asked, response=answer))
        await sink.ended()
        self.assertIn("Blue", str(self.script.asked[-1].body["messages"][-1]))

    async def test_always_allow_lasts(self) -> None:
        """A command that is always allowed is not asked for again."""
        call = Call("Bash", {"command": "touch made"})
        self.script.push(said(call), said(call), "Twice.")
        run_id, sink = await self.go("make it twice")
        await self.claude.respond(a_response(run_id, await sink.asked(), always_allow=True))
        await sink.ended()
        self.assertEqual(sink.texts, ["Twice."])
        self.assertEqual(len(sink.of(PermissionRequested)), 1)
