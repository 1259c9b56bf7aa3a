"""What an agent may use, with real processes: at the limit and one more."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.trial.unittest import SynchronousTestCase, TestCase

from garcon.contract.runs import RunEnded, RunFailure
from garcon.deferreds import Waiters
from garcon.errors import GarconError, StartupError
from garcon.runtime.agents.process import AgentProcess, Exit
from garcon.runtime.cgroups import Cgroups
from garcon.runtime.session_limits import LINE, SessionLimits
from garcon.testing.agent_runs import RecordingSink
from garcon.testing.local_runtimes import RuntimeCase, runs


class ProcessLimits(TestCase):
    """One process, whose owner hears of what it passes."""

    timeout = 120

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir(parents=True)
        self.messages: list[dict[str, Any]] = []
        self.exits: list[Exit] = []
        self.failures: list[RunFailure] = []
        self.changed: Waiters[None] = Waiters()

    def start(self, script: str, limits: SessionLimits) -> AgentProcess:
        def note(into: list[Any]) -> Any:
            def take(one: Any) -> None:
                into.append(one)
                self.changed.fire(None)

            return take

        process = AgentProcess(
            reactor, note(self.messages), note(self.exits), note(self.failures), limits
        )
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        process.start(["sh", "-c", script], environment, str(self.directory))
        self.addCleanup(process.end, "TERM", at_once=True)
        return process

    async def until(self, holds: Any) -> None:
        while not holds():
            d: Deferred[None] = self.changed.wait()
            await d.addTimeout(60, reactor)

    async def test_output_of_a_turn(self) -> None:
        """So many bytes are taken, line ends included; the next one is too much, once."""
        line = '{"n": 1}\n'
        limits = SessionLimits(output=2 * len(line))
        process = self.start("while read -r x; do echo '{\"n\": 1}'; done", limits)
        for _ in range(2):
            process.send({})
        await self.until(lambda: len(self.messages) == 2)
        process.turn_begins()
        for _ in range(2):
            process.send({})
        await self.until(lambda: len(self.messages) == 4)
        self.assertEqual(self.failures, [])
        for _ in range(3):
            process.send({})
        await self.until(lambda: self.failures)
        await process.end("TERM", at_once=True)
        self.assertEqual([failure.code for failure in self.failures], ["AGENT_OUTPUT_LIMIT"])
        self.assertEqual(len(self.messages), 4)

    async def test_no_limit_of_output(self) -> None:
        """None is none."""
        self.start("yes $(seq 400) | head -c 3000000", SessionLimits(output=None))
        await self.until(lambda: self.exits)
        self.assertEqual(self.failures, [])

    async def test_length_of_a_line(self) -> None:
        """64 MiB are taken whole, decoded beside the reactor's thread; one byte more is too
        much.
        """
        filling = LINE - len('{"x": ""}')
        script = (
            """printf '{"x": "'; head -c %d /dev/zero | tr '\\0' x; printf '"}\\n'; sleep 600"""
        )
        self.start(script % filling, SessionLimits())
        await self.until(lambda: self.messages)
        self.assertEqual(len(self.messages[0]["x"]), filling)
        self.messages.clear()
        self.start(script % (filling + 1), SessionLimits())
        await self.until(lambda: self.failures)
        self.assertEqual([failure.code for failure in self.failures], ["AGENT_LINE_LIMIT"])
        self.assertEqual(self.messages, [])

    async def test_the_child_joins_its_group(self) -> None:
        """Before the agent's program is there, so that nothing it starts is outside; when all has
        ended, whatever is in the group is killed and the group removed.
        """
        groups = Cgroups(str(self.directory), memory=1_000, processes=0)
        process = self.start("echo '{}'; sleep 600", SessionLimits(groups=groups))
        await self.until(lambda: self.messages)
        (path,) = self.directory.glob("garcon-agent-*")
        self.assertEqual((path / "cgroup.procs").read_text(), "0")
        self.assertIsNone(process.passed_limit())
        (path / "memory.events").write_text("oom_kill 1\n")
        failure = process.passed_limit()
        assert failure is not None
        self.assertEqual(failure.code, "AGENT_MEMORY_LIMIT")
        (path / "memory.events").write_text("oom_kill 0\n")
        (path / "pids.events").write_text("max 1\n")
        failure = process.passed_limit()
        assert failure is not None
        self.assertEqual(failure.code, "AGENT_PROCESS_LIMIT")
        await process.end("TERM", at_once=True)
        self.assertEqual((path / "cgroup.kill").read_text(), "1")

    async def test_processes_that_are_counted(self) -> None:
        """So many are seen without harm, itself and those in sessions of their own included; one
        more is too many, and none of them is left.
        """
        limits = SessionLimits(processes=4)
        script = "while read -r x; do setsid sleep 300 & echo '{}'; done; wait"
        process = self.start(script, limits)
        for _ in range(3):
            process.send({})
        while len(process.descendants) < 3:
            await deferLater(reactor, 0.02)
        self.assertEqual(self.failures, [])
        process.send({})
        await self.until(lambda: self.failures)
        self.assertEqual([failure.code for failure in self.failures], ["AGENT_PROCESS_LIMIT"])
        known = process.descendants
        await process.end("TERM", at_once=True)
        self.assertEqual([one.pid for one in known if runs(one.pid)], [])

    async def test_threads_count_as_processes(self) -> None:
        """As they do for the kernel; the first of these two was looked at before the second."""
        program = (
            "import threading; [threading.Thread(target=threading.Event().wait).start()"
            " for _ in range(4)]"
        )
        command = f"exec {shlex.quote(sys.executable)} -ISc {shlex.quote(program)}"
        self.start(command, SessionLimits(processes=5))
        self.start(command, SessionLimits(processes=4))
        await self.until(lambda: self.failures)
        self.assertEqual([failure.code for failure in self.failures], ["AGENT_PROCESS_LIMIT"])

    async def test_output_that_was_closed(self) -> None:
        """What was written before comes; then nothing can, and whoever waits is told."""
        process = self.start("echo '{}'; exec 1>&-; sleep 300", SessionLimits())
        await self.until(lambda: self.failures)
        self.assertEqual(self.messages, [{}])
        self.assertEqual([failure.code for failure in self.failures], ["AGENT_FAILED"])
        self.assertIn("closed its output", self.failures[0].message)
        await process.end("TERM", at_once=True)

    async def test_output_that_is_closed_on_the_way_out(self) -> None:
        """An end is an end."""
        self.start("exec 1>&-; exit 3", SessionLimits())
        await self.until(lambda: self.exits)
        self.assertEqual((self.exits[0].status, self.failures), (3, []))

    def test_a_system_that_starts_no_more(self) -> None:
        """Is a launch that failed, and leaves no group behind."""
        groups = Cgroups(str(self.directory), memory=0, processes=0)
        process = AgentProcess(reactor, self.messages.append, self.exits.append, limits=None)
        limited = AgentProcess(
            reactor,
            self.messages.append,
            self.exits.append,
            limits=SessionLimits(groups=groups),
        )
        for one in (process, limited):
            # More than the kernel takes as one argument.
            error = self.assertRaises(
                GarconError, one.start, ["sh", "x" * 200_000], {"PATH": os.defpath}, "/"
            )
            self.assertIn("Argument list too long", error.text)
        self.assertEqual(list(self.directory.glob("garcon-agent-*")), [])

    def test_no_group_to_be_had(self) -> None:
        """Then nothing is started."""
        groups = Cgroups(str(self.directory / "gone"), memory=1, processes=1)
        error = self.assertRaises(GarconError, self.start, "true", SessionLimits(groups=groups))
        self.assertIn("control group", error.text)


class ChosenLimits(SynchronousTestCase):
    """What a service's options come to, where groups can be made and where they cannot."""

    def chosen(self, memory: int, processes: int, possible: Sequence[str]) -> SessionLimits:
        """Choose on a system whose groups count these."""

        def prepare(memory: int, processes: int) -> Cgroups:
            wanted = [name for name, one in (("memory", memory), ("pids", processes)) if one]
            if not set(wanted) <= set(possible):
                raise StartupError("no such group")
            return Cgroups("/", memory, processes)

        options = {
            "agent-output-limit": 0,
            "agent-time-limit": 0,
            "agent-memory-limit": memory,
            "agent-process-limit": processes,
        }
        return SessionLimits.chosen(options, prepare)

    def test_by_the_kernel(self) -> None:
        """Where it can."""
        chosen = self.chosen(5, 7, ["memory", "pids"])
        self.assertEqual((chosen.groups, chosen.processes), (Cgroups("/", 5, 7), None))
        self.assertEqual(self.chosen(0, 0, []), SessionLimits(output=None))

    def test_processes_by_counting(self) -> None:
        """Where the kernel does not."""
        for memory, possible, groups in (
            (0, [], None),
            (5, ["memory"], Cgroups("/", 5, 0)),
        ):
            chosen = self.chosen(memory, 7, possible)
            self.assertEqual((chosen.groups, chosen.processes), (groups, 7))

    def test_memory_is_the_kernel_s(self) -> None:
        """Without it the service does not start."""
        for processes, possible in ((0, []), (7, []), (7, ["pids"])):
            self.assertRaises(StartupError, self.chosen, 5, processes, possible)


class TurnLimits(RuntimeCase):
    """The scripted agent, held to limits by its runtime."""

    def failure_of(self, sink: RecordingSink) -> RunFailure:
        (end,) = sink.of(RunEnded)
        self.assertEqual(end.outcome, "failed")
        assert end.error is not None
        return end.error

    async def test_a_turn_that_writes_too_much(self) -> None:
        """Fails with a code of its own, its agent and its tools are gone, and the chat goes on."""
        runtime = self.a_runtime(limits=SessionLimits(output=100_000))
        sink = await self.turn(
            runtime, "run setsid sleep 300 >/dev/null 2>&1 & echo $! > tool\nemit 2000\nsleep 300"
        )
        failure = self.failure_of(sink)
        self.assertEqual(failure.code, "AGENT_OUTPUT_LIMIT")
        self.assertIn("100000 bytes", failure.message)
        pid = await self.pid_in("tool")
        await self.eventually(lambda: not runs(pid), "the tool is gone")
        after = await self.turn(runtime, "say again", agent_session_id=sink.session_id)
        self.assertEqual(after.texts, ["again"])

    async def test_a_turn_with_too_many_processes(self) -> None:
        """Fails with a code of its own, also where no group of the kernel's counts them; all of
        them are gone, and the chat goes on.
        """
        runtime = self.a_runtime(limits=SessionLimits(processes=12))
        sleep = "setsid sleep 300 >/dev/null 2>&1 & echo $! > tool"
        sink = await self.turn(runtime, "\n".join([*[f"run {sleep}"] * 12, "sleep 300"]))
        self.assertEqual(self.failure_of(sink).code, "AGENT_PROCESS_LIMIT")
        pid = await self.pid_in("tool")
        await self.eventually(lambda: not runs(pid), "the tool is gone")
        after = await self.turn(runtime, "say again", agent_session_id=sink.session_id)
        self.assertEqual(after.texts, ["again"])

    async def test_each_turn_has_all_of_it(self) -> None:
        """What the turns before it wrote does not count."""
        runtime = self.a_runtime(limits=SessionLimits(output=100_000))
        first = await self.turn(runtime, "emit 200")
        for _ in range(4):
            sink = await self.turn(runtime, "emit 200", agent_session_id=first.session_id)
            self.assertEqual(sink.of(RunEnded)[0].outcome, "finished")
        self.assertEqual(len(sink.texts), 200)

    async def test_a_turn_that_takes_too_long(self) -> None:
        """Is stopped, and fails with a code of its own; its session goes on."""
        runtime = self.a_runtime(limits=SessionLimits(seconds=5.0))
        sink = await self.turn(runtime, "run echo $PPID\nsleep 300")
        failure = self.failure_of(sink)
        self.assertEqual(failure.code, "AGENT_TIME_LIMIT")
        self.assertIn("5 seconds", failure.message)
        again = await self.turn(runtime, "run echo $PPID", agent_session_id=sink.session_id)
        self.assertEqual(again.of(RunEnded)[0].outcome, "finished")
        self.assertEqual(again.results, sink.results)

    async def test_a_start_that_writes_too_much(self) -> None:
        """Is refused with what it was."""
        runtime = self.a_runtime(limits=SessionLimits(output=10))
        _, sink = await self.begin_or_none(runtime)
        self.assertIsNone(sink)

    async def begin_or_none(self, runtime: Any) -> tuple[Any, Any]:
        try:
            return await self.begin(runtime, "say x")
        except GarconError as refusal:
            self.assertIn("more than 10 bytes", refusal.text)
            return None, None
