"""The local runtime with the real Codex, against a pretend model server: turns, their modes and how
they fail."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from pathlib import Path

from garcon.contract.catalogs import PermissionMode
from garcon.contract.messages import (
    ApplyPatchToolUse,
    AskUserQuestionToolUse,
    BashToolUse,
    Image,
    Thinking,
    ToolResult,
    TranscriptNotice,
)
from garcon.contract.runs import (
    PermissionAutoResolved,
    PermissionRequested,
    RunEnded,
    SessionStarted,
)
from garcon.contract.steering import Steer, Steered
from garcon.test.live.codex_cases import (
    PIXEL,
    CodexCase,
    escalated,
    runs_command,
)
from garcon.testing.agent_runs import RecordingSink, a_response
from garcon.testing.codex_cli import MODEL, VERSION
from garcon.testing.models.script import (
    Call,
    Cut,
    Fail,
    FreeCall,
    Hold,
    Text,
    Think,
    Turn,
    said,
)


class Turns(CodexCase):
    async def test_entry_shows_what_is_installed(self) -> None:
        """Its models as it tells them, and what it can do."""
        (entry,) = await self.codex.catalog("codex")
        self.assertIn(MODEL, [model.value for model in entry.models])
        self.assertEqual(entry.default_model, entry.models[0].value)
        self.assertTrue(entry.supports_steering and entry.supports_compact)
        self.assertEqual(entry.native_fork, "message")
        (auth,) = (await self.codex.auth("codex")).values()
        self.assertTrue(auth.authenticated)

    async def test_the_program_is_started_without_its_wrapper(self) -> None:
        """There is no Node between us and it."""
        await self.whole("hi")
        command = Path(f"/proc/{self.agent_pid()}/cmdline").read_bytes().split(b"\0")
        self.assertTrue(command[0].endswith(b"/bin/codex"), command)
        self.assertEqual(command[1], b"app-server")

    async def test_turns_of_one_session(self) -> None:
        """The second has what was said in the first; the version is told with the end."""
        self.script.push(said(Think("I wonder"), "one"), "two")
        first = await self.whole("turn 1")
        self.assertEqual(first.texts, ["one"])
        self.assertEqual([row.content for row in first.rows(Thinking)], ["I wonder"])
        pid = self.agent_pid()
        second = await self.whole("turn 2", agent_session_id=first.session_id)
        self.assertEqual(second.texts, ["two"])
        self.assertEqual(second.of(SessionStarted), [])
        self.assertEqual(self.agent_pid(), pid)
        self.assertIn("turn 1", str(self.asked["input"]))
        end = second.of(RunEnded)[0]
        self.assertEqual(end.agent_version, VERSION)
        assert end.usage is not None
        self.assertEqual((end.usage.input_tokens, end.usage.output_tokens), (10, 5))

    async def test_tool_call_in_the_sandbox(self) -> None:
        """A command that only touches the project is not asked about."""
        self.script.push(said("I will.", runs_command("echo done | tee made")), "All done.")
        sink = await self.whole("make it")
        self.assertEqual(sink.texts, ["I will.", "All done."])
        self.assertEqual(sink.rows(BashToolUse)[0].command, "echo done | tee made")
        self.assertEqual(sink.results, [("done\n", False)])
        self.assertEqual((self.project / "made").read_text(), "done\n")

    async def test_tool_call_allowed(self) -> None:
        """Asked with its reason, allowed, run, answered."""
        self.script.push(said(escalated("touch made")), "All done.")
        run_id, sink = await self.go("make it")
        asked = await sink.asked()
        assert isinstance(asked.requested_tool, BashToolUse)
        self.assertEqual(asked.requested_tool.command, "touch made")
        self.assertEqual(asked.requested_tool.description, "it has to be so")
        self.assertEqual(sink.rows(BashToolUse)[0].tool_id, asked.requested_tool.tool_id)
        self.assertEqual(await self.codex.respond(a_response(run_id, asked)), "confirmed")
        await sink.ended()
        self.assertEqual(sink.texts, ["All done."])
        self.assertTrue((self.project / "made").exists())

    async def test_tool_call_denied(self) -> None:
        """A denial is the tool's result, and the model goes on."""
        self.script.push(said(escalated("touch made")), "Then not.")
        run_id, sink = await self.go("make it")
        await self.codex.respond(a_response(run_id, await sink.asked(), allow=False))
        await sink.ended()
        self.assertEqual(sink.texts, ["Then not."])
        self.assertEqual([row.is_error for row in sink.rows(ToolResult)], [True])
        self.assertFalse((self.project / "made").exists())

    async def test_patches(self) -> None:
        """Shown as patches; in a mode that allows edits they are not asked about."""
        patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch"
        self.script.push(said(FreeCall("apply_patch", patch)), "Patched.")
        sink = await self.whole("patch it", permission_mode="acceptEdits")
        (row,) = sink.rows(ApplyPatchToolUse)
        self.assertEqual(row.file_path, str(self.project / "new.txt"))
        self.assertEqual((self.project / "new.txt").read_text(), "hello\n")
        self.assertEqual(sink.of(PermissionRequested), [])

    async def test_a_patch_outside_of_the_project(self) -> None:
        """Is asked about, with the change, and made when it is allowed; or not.  Who accepts edits
        has not accepted that.
        """
        outside = Path(tempfile.mkdtemp(dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, outside)
        modes: list[PermissionMode] = ["default", "acceptEdits"]
        for mode, allow in itertools.product(modes, (True, False)):
            path = outside / f"made-{mode}-{allow}"
            patch = f"*** Begin Patch\n*** Add File: {path}\n+hello\n*** End Patch"
            self.script.push(said(FreeCall("apply_patch", patch)), "So be it.")
            run_id, sink = await self.go("patch it", permission_mode=mode)
            tool = (await sink.asked()).requested_tool
            assert isinstance(tool, ApplyPatchToolUse)
            self.assertEqual((tool.file_path, "hello" in str(tool.patch)), (str(path), True))
            self.assertFalse(path.exists())
            await self.codex.respond(a_response(run_id, await sink.asked(), allow=allow))
            await sink.ended()
            self.assertEqual((path.exists(), sink.texts), (allow, ["So be it."]))

    async def test_two_chats_at_once(self) -> None:
        """Each has a process of its own."""
        self.script.push(said(Hold("go"), "one"), said(Hold("go"), "two"))
        _, first = await self.go("a", chat_id="1700000000000001")
        await self.eventually(lambda: len(self.script.asked) == 1, "the first request")
        _, second = await self.go("b", chat_id="1700000000000002")
        await self.eventually(lambda: len(self.script.asked) == 2, "both requests")
        self.script.release("go")
        await first.ended()
        await second.ended()
        self.assertEqual((first.texts, second.texts), (["one"], ["two"]))

    async def test_any_text(self) -> None:
        """Of the prompt, of the model, and of a command."""
        text = "Grüße, 世界 🌍 \u202e"
        self.script.push(said(text, runs_command(f"echo '{text}'")), "x")
        sink = await self.whole(text)
        self.assertEqual(sink.texts[0], text)
        asked = json.dumps(self.script.asked[0].body, ensure_ascii=False)
        self.assertIn(text, asked)
        self.assertIn(text, sink.results[0][0])

    async def test_large_output(self) -> None:
        """Two million characters come whole, and of a command's output what Codex keeps of it."""
        large = "x" * 2_000_000
        self.script.push(said(Text(large, chunks=50), runs_command("seq 1 200000")), "x")
        sink = await self.whole("talk")
        self.assertEqual(sink.texts[0], large)
        text, is_error = sink.results[0]
        self.assertGreater(len(text), 10_000)
        self.assertFalse(is_error)

    async def test_pictures(self) -> None:
        """They go to the model ahead of the prompt."""
        await self.whole("look", images=[Image(data=PIXEL)])
        self.assertIn("data:image/png", str(self.asked["input"]))


class Settings(CodexCase):
    async def test_model_and_effort_change_from_turn_to_turn(self) -> None:
        """In the same process; no effort is what the model does by itself."""
        first = await self.whole("turn 1", thinking_mode="max")
        self.assertEqual(self.asked["reasoning"]["effort"], "xhigh")  # the most this model takes
        pid, session = self.agent_pid(), first.session_id
        await self.whole("turn 2", agent_session_id=session, model="gpt-5.4", thinking_mode="low")
        self.assertEqual(
            (self.asked["model"], self.asked["reasoning"]["effort"]), ("gpt-5.4", "low")
        )
        await self.whole("turn 3", agent_session_id=session)
        self.assertEqual(self.asked["model"], MODEL)
        self.assertNotEqual((self.asked.get("reasoning") or {}).get("effort"), "low")
        self.assertEqual(self.agent_pid(), pid)

    async def test_modes_change_from_turn_to_turn(self) -> None:
        """Read-only, then everything, then the project again."""
        outside = Path(tempfile.mkdtemp(dir="/var/tmp")) / "made"
        self.addCleanup(shutil.rmtree, outside.parent)
        call = said(runs_command(f"touch made; touch {outside}"))
        self.script.push(call, "x", call, "x", call, "x")
        first = await self.whole("try", permission_mode="plan")
        # Codex shows no command that its sandbox stops at once; only the model hears of it.
        self.assertIn("Read-only file system", str(self.asked["input"][-1]))
        self.assertFalse((self.project / "made").exists())
        session = first.session_id
        await self.whole("try", agent_session_id=session, permission_mode="bypassPermissions")
        self.assertTrue((self.project / "made").exists() and outside.exists())
        outside.unlink()
        (self.project / "made").unlink()
        await self.whole("try", agent_session_id=session)
        self.assertTrue((self.project / "made").exists())
        self.assertFalse(outside.exists())

    async def test_plan_denies_what_it_asks(self) -> None:
        """Without a question to the user."""
        self.script.push(said(escalated("touch made")), "A plan.")
        sink = await self.whole("plan it", permission_mode="plan")
        self.assertEqual(sink.of(PermissionRequested), [])
        self.assertEqual(sink.texts, ["A plan."])
        self.assertFalse((self.project / "made").exists())

    async def test_manual_bypass_shows_what_it_allows(self) -> None:
        """As a request that is resolved."""
        self.script.push(said(escalated("touch made")), "Done.")
        sink = await self.whole("make it", permission_mode="manualBypass")
        self.assertEqual([one.allowed for one in sink.of(PermissionAutoResolved)], [True])
        self.assertTrue((self.project / "made").exists())

    async def test_always_allow_lasts(self) -> None:
        """A command that is always allowed is not asked for again."""
        self.script.push(said(escalated("touch made")), said(escalated("touch made")), "Twice.")
        run_id, sink = await self.go("make it twice")
        await self.codex.respond(a_response(run_id, await sink.asked(), always_allow=True))
        await sink.ended()
        self.assertEqual(sink.texts, ["Twice."])
        self.assertEqual(len(sink.of(PermissionRequested)), 1)

    async def test_question_to_the_user(self) -> None:
        """In plan mode Codex may ask, and the model gets the answer in words."""
        question = {
            "id": "colour",
            "header": "Colour",
            "question": "Which colour?",
            "options": [
                {"label": "Red", "description": "r"},
                {"label": "Blue", "description": "b"},
            ],
        }
        self.script.push(said(Call("request_user_input", {"questions": [question]})), "Blue, then.")
        run_id, sink = await self.go("ask me", permission_mode="plan")
        asked = await sink.asked()
        tool = asked.requested_tool
        assert isinstance(tool, AskUserQuestionToolUse)
        chosen = tool.questions[0]
        answer = {
            "type": "ask-user-question-response",
            "outcome": "answered",
            "answers": [
                {"questionId": chosen.id, "selectedOptionIds": [chosen.options[1].id]},
            ],
        }
        await self.codex.respond(a_response(run_id, asked, response=answer))
        await sink.ended()
        self.assertEqual(sink.texts, ["Blue, then."])
        self.assertIn("Blue", str(self.asked["input"][-1]))
        self.assertEqual(sink.results, [("Which colour?: Blue", False)])


class Steering(CodexCase):
    async def steer(self, run_id: str, content: str) -> Steered:
        """Capture and steer."""
        capture = await self.codex.capture_steering(run_id)
        assert capture.target is not None, capture
        steer = Steer(target=capture.target, client_message_id="m-1", content=content)
        return await self.codex.steer(steer)

    async def test_while_it_talks(self) -> None:
        """What it says is cut short, and the model is asked anew, in the same turn."""
        self.script.push(said(Text("part one "), Hold("never")), "steered answer")
        run_id, sink = await self.go("talk")
        await self.eventually(lambda: bool(self.script.asked), "the model's request")
        self.assertEqual(await self.steer(run_id, "rather this"), Steered(outcome="delivered"))
        await sink.ended()
        self.assertEqual(sink.texts[-1], "steered answer")
        self.assertEqual(len(sink.of(RunEnded)), 1)
        self.assertIn("rather this", str(self.asked["input"][-1]))

    async def test_while_a_command_runs(self) -> None:
        """It waits for the command's end, and reaches the model with its result."""
        self.script.push(said(runs_command("while [ ! -e go ]; do sleep 0.05; done")), "both")
        run_id, sink = await self.go("run")
        await sink.row(BashToolUse)
        self.assertEqual(await self.steer(run_id, "and this"), Steered(outcome="delivered"))
        (self.project / "go").touch()
        await sink.ended()
        self.assertEqual(sink.texts, ["both"])
        self.assertIn("and this", str(self.asked["input"]))
        over = await self.codex.capture_steering(run_id)
        self.assertEqual(over.outcome, "turn-unavailable")


class Failures(CodexCase):
    async def fails(self, *answers: Turn) -> RecordingSink:
        """Run a turn whose model fails that way."""
        self.script.turns.clear()
        self.script.fallback = answers[-1]
        self.script.push(*answers)
        sink = await self.whole("go", agent_session_id=self.session)
        self.assertEqual(sink.of(RunEnded)[0].outcome, "failed")
        self.assertEqual(sink.texts, [])
        self.session = self.session or sink.session_id
        return sink

    session: str | None = None

    async def test_models_that_refuse(self) -> None:
        """The status is in the failure's text; the session goes on after each."""
        for status in (400, 401, 429, 500):
            failed = Turn((Fail(status, message=f"no luck {status}"),))
            end = (await self.fails(failed)).of(RunEnded)[0]
            assert end.error is not None
            self.assertEqual(end.error.code, "AGENT_FAILED")
            self.assertIn(str(status), end.error.message)
        self.script.fallback = said("well again")
        after = await self.whole("go on", agent_session_id=self.session)
        self.assertEqual(after.texts, ["well again"])

    async def test_connections_that_break(self) -> None:
        """It is tried again, and each time is told."""
        sink = await self.fails(Turn((Cut(),)))
        self.assertIn("Reconnecting", sink.rows(TranscriptNotice)[0].content)

    async def test_one_that_breaks_once(self) -> None:
        """The turn goes on."""
        self.script.push(Turn((Cut(),)), "at last")
        sink = await self.whole("go")
        self.assertEqual(sink.texts, ["at last"])
        self.assertEqual(sink.of(RunEnded)[0].outcome, "finished")
