"""The real Codex from process to process: what it resumes, forks and remembers, and what its end
leaves."""

from __future__ import annotations

import os
import signal
from typing import Any, cast

from twisted.internet import reactor
from twisted.internet.task import deferLater

from garcon.contract.messages import (
    Compaction,
    Image,
    UserMessage,
)
from garcon.contract.runs import (
    ForkPoint,
    HistoryMessage,
    NativeSession,
    PermissionWithdrawn,
    RunEnded,
    SessionPoint,
    SessionStarted,
)
from garcon.runtime.agents.codex_client import CodexClient
from garcon.runtime.agents.codex_program import program_behind
from garcon.test.live.codex_cases import (
    PIXEL,
    CodexCase,
    escalated,
    running,
    running_in,
    runs_command,
)
from garcon.testing.agent_runs import RecordingSink, a_launch
from garcon.testing.leaks.footing import children
from garcon.testing.local_runtimes import runs
from garcon.testing.models.script import (
    Call,
    Hold,
    Text,
    said,
)

ROUNDS = int(os.environ.get("GARCON_LEAK_ROUNDS", "6"))


class Sessions(CodexCase):
    async def test_resumed_in_another_process(self) -> None:
        """Also after the whole service was restarted."""
        self.script.push("one", "two")
        first = await self.whole("turn 1")
        await self.codex.stop()
        self.codex = self.a_runtime()
        second = await self.whole("turn 2", agent_session_id=first.session_id)
        self.assertEqual(second.texts, ["two"])
        self.assertEqual(second.of(SessionStarted), [])
        for text in ("turn 1", "one"):
            self.assertIn(text, str(self.asked["input"]))

    async def test_unknown_session_fails_the_launch(self) -> None:
        """A session that is not there is told as the launch's failure."""
        gone = "00000000-0000-4000-8000-000000000000"
        launch = a_launch(
            "hi", agent_id="codex", project_path=str(self.project), agent_session_id=gone
        )
        error = await self.refused(self.codex, launch)
        self.assertIn(f"no rollout found for thread id {gone}", error.text)

    async def test_forked_after_a_turn(self) -> None:
        """The fork knows the turns up to there, and nothing changes in the other session."""
        self.script.push("one", "two", "three", "four")
        first = await self.whole("turn 1")
        session, anchor = first.session_id, first.of(RunEnded)[0].anchor
        await self.whole("turn 2", agent_session_id=session)
        forked = await self.whole(
            "turn 3", chat_id="1700000000000002", fork_from=ForkPoint(session, anchor)
        )
        self.assertNotEqual(forked.session_id, session)
        self.assertTrue(forked.of(SessionStarted)[0].is_fork)
        self.assertIn("turn 1", str(self.asked["input"]))
        self.assertNotIn("turn 2", str(self.asked["input"]))
        await self.whole("turn 4", agent_session_id=session)
        self.assertIn("turn 2", str(self.asked["input"]))
        self.assertNotIn("turn 3", str(self.asked["input"]))

    async def test_compacted_by_request(self) -> None:
        """A turn without an input; the session goes on with its summary."""
        self.script.side = said("In short: one.")
        self.script.push("one", "two")
        first = await self.whole("turn 1")
        session = first.session_id
        compacted = await self.whole("", agent_session_id=session, is_compaction=True)
        (row,) = compacted.rows(Compaction)
        self.assertEqual(row.trigger, "manual")
        self.assertEqual(compacted.of(RunEnded)[0].outcome, "finished")
        await self.whole("turn 2", agent_session_id=session)
        self.assertIn("In short: one.", str(self.asked["input"]))

    async def test_what_it_remembers(self) -> None:
        """All of it, in order, from a process of its own; twice the same.  What it was told of the
        chat before its session is none of it.
        """
        self.script.push(said("I will.", runs_command("echo done")), "All done.", "two")
        earlier = [HistoryMessage("user", "turn 0"), HistoryMessage("assistant", "zero")]
        first = await self.whole("turn 1", images=[Image(data=PIXEL)], history=earlier)
        self.assertIn("turn 0", str(self.script.asked[0].body["input"]))
        await self.whole("turn 2", agent_session_id=first.session_id)
        remembered = await self.remembered(first.session_id)
        self.assertEqual(remembered, await self.remembered(first.session_id))
        shown = [(type(row).__name__, getattr(row, "content", None)) for row in remembered]
        self.assertEqual(
            [kind for kind, _ in shown],
            [
                *("UserMessage", "AssistantMessage", "BashToolUse", "ToolResult"),
                *("AssistantMessage", "UserMessage", "AssistantMessage"),
            ],
        )
        asked = remembered[0]
        assert isinstance(asked, UserMessage)
        self.assertEqual(asked.content, "turn 1")
        self.assertEqual(len(asked.images or []), 1)
        self.assertEqual(shown[-1][1], "two")

    async def test_reverted_elsewhere(self) -> None:
        """What was taken back is not read, not gone on with, and no point to fork at; a fork there
        is told what was said.
        """
        self.script.push("one", "two", "three", "four")
        session = (await self.whole("turn 1")).session_id
        reverted = (await self.whole("turn 2", agent_session_id=session)).of(RunEnded)[0].anchor
        await self.codex.stop()
        client = CodexClient(cast(Any, reactor))
        self.addCleanup(client.close)
        program = program_behind(self.environment["GARCON_CODEX_CLI"])
        await client.open([program, "app-server"], self.environment, "/")
        await client.call("thread/resume", {"threadId": session})
        await client.call("thread/revert", {"threadId": session, "beforeTurnId": reverted})
        await client.close()
        self.codex = self.a_runtime()
        assert reverted is not None
        await self.must_have_moved_on(session, reverted, True)
        rows = [getattr(row, "content", None) for row in await self.remembered(session)]
        self.assertEqual(rows, ["turn 1", "one"])
        await self.whole("turn 3", agent_session_id=session)
        self.assertIn("turn 1", str(self.asked["input"]))
        self.assertNotIn("turn 2", str(self.asked["input"]))
        point = ForkPoint(session, reverted)
        told = [HistoryMessage("user", "turn 2"), HistoryMessage("assistant", "two")]
        other = {"chat_id": "1700000000000002", "fork_from": point, "history": told}
        fork = await self.whole("turn 4", **other)
        self.assertFalse(fork.of(SessionStarted)[0].is_fork)
        self.assertIn("turn 2", str(self.asked["input"]))

    async def test_gone_on_with_elsewhere(self) -> None:
        """Noticed, and so is a revert; turns of the chat itself, of whatever end, are not."""
        self.script.side = said("In short: one.")
        self.script.push("one", said(Text("half "), Hold("never")))
        session = (await self.whole("turn 1")).session_id
        run_id, stopped = await self.go("turn 2", agent_session_id=session)
        await self.eventually(lambda: len(self.script.asked) == 2, "the model's request")
        await self.codex.abort(run_id)
        first = await stopped.ended()
        await self.must_have_moved_on(session, first.anchor, False)
        compacted = await self.whole("", agent_session_id=session, is_compaction=True)
        await self.must_have_moved_on(session, compacted.of(RunEnded)[0].anchor, False)
        await self.must_have_moved_on(session, first.anchor, True)
        await self.must_have_moved_on("01a22ff3-0000-7000-8000-000000000000", first.anchor, False)

    async def must_have_moved_on(self, session_id: str, anchor: str | None, wanted: bool) -> None:
        """Ask, and judge the answer."""
        assert anchor is not None
        session = NativeSession("codex", session_id, str(self.project))
        self.assertIs(await self.codex.has_moved_on(SessionPoint(session, anchor)), wanted)

    async def test_a_command_that_ends_between_turns(self) -> None:
        """What it printed is told with the next turn."""
        call = runs_command("sleep 1; echo from-behind", yield_time_ms=250)
        self.script.push(said(call), "It runs.", "Next.")
        first = await self.whole("run it")
        self.assertEqual(first.results, [("The command still runs in the background.", False)])
        (slot,) = self.codex._sessions._slots.values()
        memory = cast(Any, slot.session)._member.conversation._memory
        await self.eventually(lambda: bool(memory.ended), "the end of the command")
        second = await self.whole("and?", agent_session_id=first.session_id)
        self.assertEqual(second.results, [("from-behind\n", False)])


class Stops(CodexCase):
    async def test_stop_in_mid_stream(self) -> None:
        """A stop ends the turn as interrupted and hangs up on the model; the next turn works."""
        self.script.push(said(Text("half a "), Hold("never"), Text("sentence")), "again")
        run_id, sink = await self.go("talk")
        await self.eventually(lambda: bool(self.script.asked), "the model's request")
        await self.codex.abort(run_id)
        await sink.ended(5.0)
        self.assertEqual(sink.of(RunEnded)[0].outcome, "interrupted")
        await self.eventually(
            lambda: self.script.asked[0].outcome == "client hung up", "the model's hang-up"
        )
        pid = self.agent_pid()
        after = await self.whole("go on", agent_session_id=sink.session_id)
        self.assertEqual(after.texts, ["again"])
        self.assertEqual(self.agent_pid(), pid)

    async def test_stop_ends_the_command(self) -> None:
        """In the sandbox and outside; Codex goes on, its command does not."""
        session = None
        for mode in ("default", "bypassPermissions"):
            command = f"sleep 300.{os.getpid()}{len(mode)}"
            self.script.push(said(runs_command(command)))
            run_id, sink = await self.go("run", permission_mode=mode, agent_session_id=session)
            await self.eventually(lambda c=command: bool(running(c)), "the command")
            await self.codex.abort(run_id)
            await sink.ended(5.0)
            self.assertEqual(sink.of(RunEnded)[0].outcome, "interrupted")
            await self.eventually(lambda c=command: not running(c), "the end of the command")
            self.assertTrue(runs(self.agent_pid()))
            session = session or sink.session_id

    async def test_stop_while_a_question_is_open(self) -> None:
        """The question is withdrawn, then the run ends."""
        self.script.push(said(escalated("touch made")), "never")
        run_id, sink = await self.go("make it")
        await sink.asked()
        await self.codex.abort(run_id)
        await sink.ended(5.0)
        self.assertEqual(len(sink.of(PermissionWithdrawn)), 1)
        self.assertEqual(sink.of(RunEnded)[0].outcome, "interrupted")
        self.assertFalse((self.project / "made").exists())

    async def test_stop_during_the_start(self) -> None:
        """Nothing is left of a launch that is cancelled, whenever that is."""
        for moment in (0.0, 0.05, 0.2):
            launch = a_launch("hi", agent_id="codex", project_path=str(self.project))
            sink = RecordingSink(reactor)
            d = self.codex.launch(launch, sink)
            await deferLater(cast(Any, reactor), moment)
            d.addErrback(lambda _: None)
            d.cancel()
            await d
            await self.codex.stop()
            self.assertEqual(running_in(self.project / "home"), [])
            self.codex = self.a_runtime()

    async def test_what_outlived_its_turn_ends_with_the_session(self) -> None:
        """A command that was left running, and what left its session and its parent."""
        mark = f"301.{os.getpid()}"
        script = f"setsid sleep {mark}1 & sleep {mark}2 & sleep {mark}3"
        self.script.push(
            said(Call("exec_command", {"cmd": script, "yield_time_ms": 300})), "It runs."
        )
        sink = await self.whole("run it", permission_mode="bypassPermissions")
        self.assertIn("The command still runs in the background.", sink.results[0][0])
        commands = [f"sleep {mark}{n}" for n in (1, 2, 3)]
        self.assertEqual([len(running(command)) for command in commands], [1, 1, 1])
        await self.codex.stop()
        self.assertEqual([running(command) for command in commands], [[], [], []])

    async def test_killed_from_outside(self) -> None:
        """The turn fails, what it ran is gone, and the next turn goes on in a new process."""
        command = f"sleep 302.{os.getpid()}"
        self.script.push(said(runs_command(command)), "again")
        _, sink = await self.go("run", permission_mode="bypassPermissions")
        await self.eventually(lambda: bool(running(command)), "the command")
        os.kill(self.agent_pid(), signal.SIGKILL)
        end = await sink.ended()
        assert end.error is not None
        self.assertEqual((end.outcome, end.error.code), ("failed", "AGENT_EXITED"))
        await self.eventually(lambda: not running(command), "the end of the command")
        after = await self.whole("go on", agent_session_id=sink.session_id)
        self.assertEqual(after.texts, ["again"])

    async def test_starts_and_ends_leave_nothing(self) -> None:
        """Processes and descriptors are what they were, after turns that ended, were stopped and
        whose agent was killed.
        """
        command = f"sleep 304.{os.getpid()}"
        await self.play(command, 3)
        before = self.held()
        await self.play(command, ROUNDS)
        await self.eventually(lambda: self.held() == before, f"{before}, and not {self.held()}")

    async def play(self, command: str, rounds: int) -> None:
        """Play rounds of each kind in turn, and end what is still there."""
        for number in range(rounds):
            self.script.push("hello" if number % 3 == 0 else said(runs_command(command)))
            run_id, sink = await self.go("go", permission_mode="bypassPermissions")
            if number % 3:
                await self.eventually(lambda: bool(running(command)), "the command")
                pid = self.agent_pid()
                if number % 3 == 1:
                    await self.codex.abort(run_id)
                else:
                    os.kill(pid, signal.SIGKILL)
            await sink.ended()
            await self.codex.stop()
            self.assertEqual(running(command), [])
            self.codex = self.a_runtime()

    def held(self) -> tuple[int, int]:
        """How many children and descriptors this process has."""
        return len(children(os.getpid())), len(os.listdir("/proc/self/fd"))
