"""The local runtime with a real agent process: the scripted one."""

from __future__ import annotations

import json
import os
import signal
from typing import Any, cast

from twisted.internet import reactor
from twisted.internet.defer import CancelledError, DeferredList
from twisted.internet.task import deferLater

from garcon.contract.messages import BashToolUse, ToolResult
from garcon.contract.runs import (
    PermissionAutoResolved,
    PermissionRequested,
    PermissionWithdrawn,
    RunEnded,
    SessionStarted,
)
from garcon.errors import GarconError
from garcon.testing.agent_runs import RecordingSink, a_launch, a_response
from garcon.testing.local_runtimes import RuntimeCase, runs


class Turns(RuntimeCase):
    async def test_ordinary_prompt_is_answered(self) -> None:
        """A turn names its session, says its text in one row, and finishes."""
        sink = await self.turn(self.a_runtime(), "hello\nyou")
        self.assertEqual(
            [type(event).__name__ for event in sink.events],
            ["SessionStarted", "RowProduced", "RunEnded"],
        )
        self.assertEqual(sink.texts, ["You said: hello\nyou"])
        self.assertEqual([end.outcome for end in sink.of(RunEnded)], ["finished"])

    async def test_second_turn_keeps_the_process(self) -> None:
        """A turn that resumes the kept session runs in the same process."""
        runtime = self.a_runtime()
        first = await self.turn(runtime, "run echo $PPID")
        second = await self.turn(runtime, "run echo $PPID", agent_session_id=first.session_id)
        self.assertEqual(first.results, second.results)
        self.assertEqual(second.of(SessionStarted), [])

    async def test_fresh_session_displaces_the_old_one(self) -> None:
        """A launch without an agent session gets a new process, and the old one ends first."""
        runtime = self.a_runtime()
        first = await self.turn(runtime, "run echo $PPID")
        second = await self.turn(runtime, "run echo $PPID")
        self.assertNotEqual(first.session_id, second.session_id)
        self.assertFalse(runs(int(first.results[0][0])))

    async def test_session_is_resumed_by_another_runtime(self) -> None:
        """After a restart the stored session id is loaded, and no other is named."""
        first = await self.turn(self.a_runtime(), "say one")
        second = await self.turn(self.a_runtime(), "say two", agent_session_id=first.session_id)
        self.assertEqual(second.texts, ["two"])
        self.assertEqual(second.of(SessionStarted), [])

    async def test_failure_is_the_turns(self) -> None:
        """`fail` ends the turn with the agent's words; what was said before stays."""
        sink = await self.turn(self.a_runtime(), "say before\nfail no luck")
        end = sink.of(RunEnded)[0]
        self.assertEqual(sink.texts, ["before"])
        self.assertEqual(end.outcome, "failed")
        assert end.error is not None
        self.assertEqual(end.error.message, "no luck")

    async def test_exit_fails_the_turn_and_the_next_one_works(self) -> None:
        """A process that ends in its turn fails it; the next turn starts another."""
        runtime = self.a_runtime()
        sink = await self.turn(runtime, "say here\nexit 3")
        end = sink.of(RunEnded)[0]
        assert end.error is not None
        self.assertIn("exited with status 3", end.error.message)
        after = await self.turn(runtime, "say again", agent_session_id=sink.session_id)
        self.assertEqual(after.texts, ["again"])

    async def test_many_rows_keep_their_order(self) -> None:
        """Five thousand rows arrive, each once, in order."""
        sink = await self.turn(self.a_runtime(), "emit 5000")
        self.assertEqual(sink.texts, [f"row {number}" for number in range(1, 5001)])

    async def test_long_line_arrives_whole(self) -> None:
        """A line of 8 MiB is taken, and what follows it comes after it."""
        command = "head -c 8388608 /dev/zero | tr '\\0' x"
        sink = await self.turn(self.a_runtime(), f"run {command}\nsay after")
        self.assertEqual([len(text) for text, _ in sink.results], [8 * 1024 * 1024])
        self.assertEqual(sink.texts, ["after"])

    async def test_text_beyond_ascii(self) -> None:
        """Text of any script passes both ways."""
        sink = await self.turn(self.a_runtime(), "say Käse 漢字 \U0001f9c0")
        self.assertEqual(sink.texts, ["Käse 漢字 \U0001f9c0"])


class Permissions(RuntimeCase):
    async def test_allowed_command_runs(self) -> None:
        """The request shows the tool; once allowed, it runs, and no second answer is taken."""
        runtime = self.a_runtime()
        launch, sink = await self.begin(runtime, "ask touch made && echo done")
        asked = await sink.asked()
        assert isinstance(asked.requested_tool, BashToolUse)
        self.assertEqual(asked.requested_tool.command, "touch made && echo done")
        answer = a_response(launch.run_id, asked)
        self.assertEqual(await runtime.respond(answer), "confirmed")
        self.assertEqual(await runtime.respond(answer), "not-delivered")
        await sink.ended()
        self.assertEqual(sink.results, [("done\n", False)])
        self.assertTrue((self.project / "made").exists())
        self.assertEqual(sink.of(PermissionWithdrawn), [])

    async def test_denied_command_does_not_run(self) -> None:
        """A denial is the tool's result, and the turn goes on."""
        runtime = self.a_runtime()
        launch, sink = await self.begin(runtime, "ask touch made\nsay so be it")
        await runtime.respond(a_response(launch.run_id, await sink.asked(), allow=False))
        await sink.ended()
        self.assertEqual(sink.results, [("Permission was denied.", True)])
        self.assertEqual(sink.texts, ["so be it"])
        self.assertFalse((self.project / "made").exists())

    async def test_modes_decide_by_themselves(self) -> None:
        """`plan` rejects, the bypasses allow, and only `manualBypass` shows that it did."""
        for mode, runs_it, shown in (
            ("plan", False, 0),
            ("bypassPermissions", True, 0),
            ("manualBypass", True, 1),
        ):
            sink = await self.turn(self.a_runtime(), "ask echo yes", permission_mode=mode)
            self.assertEqual(sink.of(PermissionRequested), [], mode)
            self.assertEqual(sink.results[0][1], not runs_it, mode)
            self.assertEqual(len(sink.of(PermissionAutoResolved)), shown, mode)

    async def test_stop_withdraws_what_is_open(self) -> None:
        """A request that is open when the run is stopped is withdrawn before the end."""
        runtime = self.a_runtime()
        launch, sink = await self.begin(runtime, "ask touch made")
        asked = await sink.asked()
        await runtime.abort(launch.run_id)
        await sink.ended()
        withdrawn, end = sink.events[-2:]
        self.assertEqual(
            withdrawn,
            PermissionWithdrawn(
                permission_occurrence_id=asked.permission_occurrence_id, reason="aborted"
            ),
        )
        assert isinstance(end, RunEnded)
        self.assertEqual(end.outcome, "interrupted")
        answer = a_response(launch.run_id, asked)
        self.assertEqual(await runtime.respond(answer), "not-delivered")


class Ends(RuntimeCase):
    async def test_stop_while_it_sleeps(self) -> None:
        """A stopped run ends as interrupted, keeps what was said, and frees its chat."""
        runtime = self.a_runtime()
        launch, sink = await self.begin(runtime, "say first\nsleep 60\nsay never")
        await sink.until(lambda: sink.texts == ["first"], "first words")
        self.assertEqual(await runtime.running(), (launch.run_id,))
        self.assertTrue(await runtime.abort(launch.run_id))
        await sink.ended(5.0)
        self.assertEqual([end.outcome for end in sink.of(RunEnded)], ["interrupted"])
        self.assertFalse(await runtime.abort(launch.run_id))
        self.assertEqual(await runtime.running(), ())
        after = await self.turn(runtime, "say on", agent_session_id=sink.session_id)
        self.assertEqual(after.texts, ["on"])

    async def test_stop_ends_the_command(self) -> None:
        """A command that runs is gone after a stop, and its call has a result."""
        runtime = self.a_runtime()
        launch, sink = await self.begin(runtime, "run echo $$ > pid; exec sleep 300")
        pid = await self.pid_in("pid")
        await runtime.abort(launch.run_id)
        await sink.ended(5.0)
        await self.eventually(lambda: not runs(pid), "the end of the command")
        self.assertEqual(len(sink.rows(ToolResult)), 1)

    async def test_what_outlives_a_stopped_command(self) -> None:
        """It ends with the agent's session, although nothing leads to it any more: it was noted
        before the agent was asked to stop.
        """
        runtime = self.a_runtime()
        command = "env -i setsid sh -c 'echo $$ > pid; exec sleep 300' & exec sleep 300"
        launch, sink = await self.begin(runtime, f"run {command}")
        pid = await self.pid_in("pid")
        await runtime.abort(launch.run_id)
        await sink.ended(5.0)
        self.assertTrue(runs(pid))
        await runtime.stop()
        self.assertFalse(runs(pid))

    async def test_closing_ends_what_was_left_behind(self) -> None:
        """A daemon that a command left, in a session of its own, ends with the agent's session."""
        runtime = self.a_runtime()
        await self.turn(
            runtime, "run setsid sh -c 'echo $$ > pid; exec sleep 300' >/dev/null 2>&1 &"
        )
        pid = await self.pid_in("pid")
        self.assertTrue(runs(pid))
        await runtime.stop()
        self.assertFalse(runs(pid))

    async def test_agent_killed_from_outside(self) -> None:
        """A killed agent fails its turn at once, and its command does not outlive it."""
        runtime = self.a_runtime()
        _, sink = await self.begin(runtime, "run echo $PPID > agent; echo $$ > pid; exec sleep 300")
        pid = await self.pid_in("pid")
        os.kill(await self.pid_in("agent"), signal.SIGKILL)
        end = await sink.ended(5.0)
        assert end.error is not None
        self.assertIn("signal 9", end.error.message)
        await self.eventually(lambda: not runs(pid), "the end of the command")

    async def test_idle_session_is_closed(self) -> None:
        """A session nobody used for long has no process."""
        runtime = self.a_runtime(idle_time=0.1)
        sink = await self.turn(runtime, "run echo $PPID")
        agent = int(sink.results[0][0])
        await self.eventually(lambda: not runs(agent), "the end of the idle agent")

    async def test_runtime_stop_ends_everything(self) -> None:
        """`stop` interrupts what runs, ends every process, and refuses what comes after."""
        runtime = self.a_runtime()
        _, sink = await self.begin(runtime, "run echo $PPID > agent; echo $$ > pid; sleep 300")
        pids = [await self.pid_in("agent"), await self.pid_in("pid")]
        await runtime.stop()
        self.assertEqual([end.outcome for end in sink.of(RunEnded)], ["interrupted"])
        self.assertEqual([pid for pid in pids if runs(pid)], [])
        error = await self.refused(runtime, a_launch("late"))
        self.assertEqual(error.code, "SERVER_SHUTTING_DOWN")


class Launches(RuntimeCase):
    def a_slow_agent(self) -> dict[str, str]:
        """An environment in which `claude` starts, says nothing, and tells its process id."""
        program = self.project / "claude"
        program.write_text("#!/bin/sh\necho $$ > pid\nexec sleep 300\n")
        program.chmod(0o755)
        return {"CLAUDE_BINARY": str(program)}

    async def test_second_launch_of_a_chat_is_busy(self) -> None:
        """Of two launches of one chat at once, one runs and the other is told to come again."""
        runtime = self.a_runtime()
        sinks = [RecordingSink(reactor), RecordingSink(reactor)]
        results = await DeferredList(
            [
                runtime.launch(a_launch("hi", project_path=str(self.project)), sink)
                for sink in sinks
            ],
            consumeErrors=True,
        )
        self.assertEqual([good for good, _ in results], [True, False])
        error = cast(Any, results[1][1]).value
        self.assertEqual((error.code, error.status, error.retryable), ("SESSION_BUSY", 409, True))
        await sinks[0].ended()
        self.assertEqual(sinks[1].events, [])

    async def test_stop_cancels_a_launch(self) -> None:
        """A stop while the agent starts fails the launch, and no process is left."""
        runtime = self.a_runtime(self.a_slow_agent())
        launch = a_launch("hi", agent_id="claude", project_path=str(self.project))
        sink = RecordingSink(reactor)
        d = runtime.launch(launch, sink)
        pid = await self.pid_in("pid")
        self.assertTrue(await runtime.abort(launch.run_id))
        error = cast(GarconError, await self.assertFailure(d, GarconError))
        self.assertEqual(error.code, "RUN_INTERRUPTED")
        self.assertFalse(runs(pid))
        self.assertEqual(sink.events, [])
        self.assertEqual(await runtime.running(), ())

    async def test_cancelled_launch_leaves_nothing(self) -> None:
        """Cancelling the launch ends the process that was starting; a launch of the chat that comes
        at once begins after that.
        """
        runtime = self.a_runtime(self.a_slow_agent())
        launch = a_launch("hi", agent_id="claude", project_path=str(self.project))
        d = runtime.launch(launch, RecordingSink(reactor))
        pid = await self.pid_in("pid")
        d.cancel()
        await self.assertFailure(d, CancelledError)
        sink = RecordingSink(reactor)
        await runtime.launch(a_launch("hi", project_path=str(self.project)), sink)
        self.assertFalse(runs(pid))
        await sink.ended()

    async def test_program_that_ends_at_once_fails_the_launch(self) -> None:
        """The launch fails with what the program wrote to standard error."""
        program = self.project / "claude"
        program.write_text("#!/bin/sh\necho cannot work here >&2\nexit 7\n")
        program.chmod(0o755)
        runtime = self.a_runtime({"CLAUDE_BINARY": str(program)})
        launch = a_launch("hi", agent_id="claude", project_path=str(self.project))
        error = await self.refused(runtime, launch)
        self.assertEqual((error.code, error.status), ("INTERNAL_ERROR", 500))
        self.assertIn("exited with status 7", error.text)
        self.assertIn("cannot work here", error.text)
        again = runtime.launch(
            a_launch("hi", project_path=str(self.project)), sink := RecordingSink(reactor)
        )
        await again
        await sink.ended()

    async def test_directory_that_is_gone_fails_the_launch(self) -> None:
        """A project directory that cannot be entered fails the launch."""
        launch = a_launch("hi", project_path=str(self.project / "gone"))
        error = await self.refused(self.a_runtime(), launch)
        self.assertIn("gone", error.text)

    async def test_session_limit(self) -> None:
        """At the limit an idle session makes room; a running one does not."""
        runtime = self.a_runtime(sessions=2)
        await self.turn(runtime, "say idle", chat_id="1700000000000011")
        _, first = await self.begin(runtime, "sleep 60", chat_id="1700000000000012")
        _, second = await self.begin(runtime, "sleep 60", chat_id="1700000000000013")
        launch = a_launch("hi", chat_id="1700000000000014", project_path=str(self.project))
        error = await self.refused(runtime, launch)
        self.assertEqual((error.code, error.status), ("INTERNAL_ERROR", 500))
        self.assertEqual(first.of(RunEnded) + second.of(RunEnded), [])

    async def test_launch_answers_before_the_first_event(self) -> None:
        """No event comes before the launch has been answered."""
        runtime = self.a_runtime()
        sink = RecordingSink(reactor)
        d = runtime.launch(a_launch("say hi", project_path=str(self.project)), sink)
        seen: list[int] = []
        d.addCallback(lambda _: seen.append(len(sink.events)))
        await d
        await sink.ended()
        self.assertEqual(seen, [0])


class Environment(RuntimeCase):
    async def test_child_has_nothing_of_ours(self) -> None:
        """Secrets, workspace and foreign marks stay out; root, role and users' own stay in."""
        runtime = self.a_runtime(
            {
                "GARCON_CONTROLLER_URL": "wss://host/executor/x#secret=hidden",
                "GARCON_WORKSPACE": "w",
                "GARCON_WORKSPACE_DIR": "/w",
                "CLAUDECODE": "1",
                "CLAUDE_CODE_SESSION_ID": "s",
                "HTTPS_PROXY": "http://proxy",
            }
        )
        code = "import json,os;print(json.dumps(dict(os.environ)))"
        sink = await self.turn(runtime, f'run python3 -c "{code}"')
        variables = json.loads(sink.results[0][0])
        self.assertNotIn("hidden", json.dumps(variables))
        self.assertEqual(
            [name for name in variables if name.startswith(("GARCON_WORKSPACE", "CLAUDE"))], []
        )
        self.assertNotIn("GARCON_CONTROLLER_URL", variables)
        self.assertEqual(variables["GARCON_RUNTIME"], "controller")
        self.assertEqual(variables["GARCON_CONFIG_DIR"], str(self.project / "config"))
        self.assertEqual(variables["HTTPS_PROXY"], "http://proxy")

    async def test_agent_leads_a_session_of_its_own(self) -> None:
        """A signal to the service's process group does not reach the agent."""
        sink = await self.turn(self.a_runtime(), "run ps -o sid= -p $PPID; echo $PPID")
        session, agent = sink.results[0][0].split()
        self.assertEqual(session, agent)

    async def test_late_output_is_dropped(self) -> None:
        """What an agent says after its run ended reaches nobody."""
        runtime = self.a_runtime()
        launch, sink = await self.begin(runtime, "emit 100000")
        await sink.until(lambda: len(sink.texts) > 10, "first rows")
        await runtime.abort(launch.run_id)
        await sink.ended()
        count = len(sink.events)
        await deferLater(reactor, 0.3)
        self.assertEqual(len(sink.events), count)
        self.assertIsInstance(sink.events[-1], RunEnded)
