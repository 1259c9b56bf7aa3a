"""One agent's process: what it says, how it ends, and what it leaves."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall, deferLater
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from garcon.deferreds import Waiters
from garcon.errors import GarconError
from garcon.runtime.agents.flow import LINES_AT_ONCE
from garcon.runtime.agents.long_lines import LARGE_LINE
from garcon.runtime.agents.process import STDERR_TAIL, AgentProcess, Exit
from garcon.runtime.cgroups import Cgroups
from garcon.runtime.session_limits import SessionLimits
from garcon.testing.local_runtimes import runs
from garcon.testing.refused_signals import refuse_signals


class Processes(TestCase):
    timeout = 60

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir(parents=True)
        self.messages: list[dict[str, Any]] = []
        self.exits: list[Exit] = []
        self.changed: Waiters[None] = Waiters()

    def start(
        self, script: str, limits: SessionLimits | None = None, **variables: str
    ) -> AgentProcess:
        """Run a shell script as an agent."""

        def received(message: dict[str, Any]) -> None:
            self.messages.append(message)
            self.changed.fire(None)

        def ended(exit: Exit) -> None:
            self.exits.append(exit)
            self.changed.fire(None)

        process = AgentProcess(reactor, received, ended, limits=limits)
        environment = {"PATH": os.environ.get("PATH", os.defpath), **variables}
        process.start(["sh", "-c", script], environment, str(self.directory))
        self.addCleanup(process.end, "TERM", at_once=True)
        return process

    async def until(self, count: int, exits: int = 0) -> None:
        """Wait for so many messages and ends."""
        while len(self.messages) < count or len(self.exits) < exits:
            d: Deferred[None] = self.changed.wait()
            await d.addTimeout(20, reactor)

    async def test_messages_and_their_order(self) -> None:
        """Lines of every length come in order, also a last one without its end; junk does not."""
        size = LARGE_LINE + 1
        self.start(
            f"""echo '{{"n": 1}}'; echo junk; echo '[2]'
            printf '{{"n": 3, "x": "'; head -c {size} /dev/zero | tr '\\0' x; echo '"}}'
            printf '{{"n": 4}}\\n{{"n": 5}}'"""
        )
        await self.until(4, exits=1)
        self.assertEqual([message["n"] for message in self.messages], [1, 3, 4, 5])
        self.assertEqual(len(self.messages[1]["x"]), size)
        self.assertEqual(self.exits, [Exit(status=0, signal=None)])

    async def test_many_lines_at_once_leave_others_their_turn(self) -> None:
        """All come, in order, and the end after them; the reactor goes on in between."""
        count = 20 * LINES_AT_ONCE + 1
        counts: list[int] = []
        turns = LoopingCall.withCount(counts.append)
        turns.clock = reactor
        turns.start(0)
        self.addCleanup(turns.stop)
        began = len(counts)
        self.start(f"seq -f '{{\"n\": %.0f}}' {count}; echo; echo junk")
        await self.until(count, exits=1)
        self.assertEqual([message["n"] for message in self.messages], list(range(1, count + 1)))
        self.assertGreater(len(counts) - began, 20)

    async def test_what_is_sent(self) -> None:
        """A message is one line, echoed back whole by a program that copies."""
        process = self.start("exec cat")
        process.send({"text": "a\nb ä 漢"})
        await self.until(1)
        self.assertEqual(self.messages, [{"text": "a\nb ä 漢"}])
        await process.end("TERM")
        self.assertEqual(self.exits, [Exit(status=0, signal=None)])
        process.send({"late": 1})

    async def test_standard_error_is_kept_apart_and_bounded(self) -> None:
        """The end of it is kept, however much there was."""
        process = self.start("head -c 1000000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit 3")
        await self.until(0, exits=1)
        tail = process.stderr_tail()
        self.assertTrue(tail.endswith("xend"))
        self.assertLessEqual(len(tail), STDERR_TAIL)
        self.assertEqual(str(self.exits[0]), "exited with status 3")
        self.assertEqual(self.messages, [])

    async def test_exit_is_told_although_an_orphan_holds_the_pipe(self) -> None:
        """The end comes after a short grace, once, and the orphan ends with the process."""
        process = self.start('sleep 300 & echo "{\\"pid\\": $!}"; exit 0')
        await self.until(1, exits=1)
        pid = self.messages[0]["pid"]
        self.assertTrue(runs(pid))
        await process.end("TERM")
        self.assertFalse(runs(pid))
        self.assertEqual(len(self.exits), 1)

    async def test_one_that_will_not_end(self) -> None:
        """It is asked, and then not asked; what it started in sessions of their own goes too."""
        process = self.start(
            'trap \'\' TERM INT; setsid sleep 301 & echo "{\\"pid\\": $!}"; '
            "while :; do sleep 0.1; done"
        )
        await self.until(1)
        ending = process.end("TERM")
        process.hurry()
        await ending
        self.assertFalse(runs(self.messages[0]["pid"]))
        self.assertFalse(runs(process.pid))
        self.assertEqual(str(self.exits[0]), "ended by signal 9")

    async def test_one_that_became_another_users(self) -> None:
        """It takes no signal of ours: its group and what it started are ended all the same, and it
        finds its input at its end.
        """
        groups = Cgroups(str(self.directory), memory=0, processes=0)
        process = self.start(
            'setsid sleep 303 & echo "{\\"pid\\": $!}"; while read line; do :; done; exit 7',
            SessionLimits(groups=groups),
        )
        await self.until(1)
        [group] = self.directory.glob("garcon-agent-*")
        refuse_signals(self, process.pid)
        await process.end("TERM", at_once=True)
        self.assertEqual((group / "cgroup.kill").read_text(), "1")
        self.assertFalse(runs(self.messages[0]["pid"]))
        await self.until(1, exits=1)
        self.assertEqual(self.exits, [Exit(status=7, signal=None)])

    async def test_what_hung_on_one_that_was_killed(self) -> None:
        """It is ended although it took its mark away and leads a session of its own: it was noted
        while it hung on the agent.
        """
        process = self.start(
            'setsid env -i sh -c \'sleep 302; true\' & echo "{\\"pid\\": $!}"; sleep 300'
        )
        await self.until(1)
        pid = self.messages[0]["pid"]
        while not any(one.pid == pid for one in process.descendants):
            await deferLater(reactor, 0.02)
        noted = {one.pid for one in process.descendants}
        os.kill(process.pid, signal.SIGKILL)
        await self.until(1, exits=1)
        await process.end("TERM", at_once=True)
        self.assertEqual([pid for pid in noted if runs(pid)], [])

    async def test_an_end_while_a_long_line_is_decoded(self) -> None:
        """Does not wait for it, and nobody hears of it any more."""
        program = (
            "import sys; print('{\"a\": [' + '{},' * 3000000 + '0]}'); print('x', file=sys.stderr)"
        )
        process = self.start(f"{shlex.quote(sys.executable)} -c {shlex.quote(program)}; sleep 300")
        while not process.stderr_tail():
            await deferLater(reactor, 0.005)
        await process.end("TERM", at_once=True)
        self.assertEqual(len(self.exits), 1)
        heard = len(self.messages)
        process.send({"late": 1})
        await deferToThread(lambda: None)
        self.assertEqual(len(self.messages), heard)

    async def test_environment_is_exactly_what_is_given(self) -> None:
        """Nothing is inherited, and the interpreter in between adds nothing."""
        self.start("env | sed 's/=.*//' | sort | sed 's/.*/{\"name\": \"&\"}/'", ONE="1")
        await self.until(0, exits=1)
        names = {message["name"] for message in self.messages}
        self.assertEqual(
            names - {"PWD", "SHLVL", "_", "OLDPWD"}, {"PATH", "ONE", "GARCON_AGENT_TREE"}
        )

    async def test_files_and_signals_are_its_own(self) -> None:
        """It has three pipes and nothing that is open here, and ends by a signal as others do."""
        ours = os.open(os.devnull, os.O_RDONLY)
        self.addCleanup(os.close, ours)
        os.set_inheritable(ours, True)
        process = self.start("echo '{}'; sleep 300")
        await self.until(1)
        place = Path(f"/proc/{process.pid}")
        self.assertEqual(set(os.listdir(place / "fd")), {"0", "1", "2"})
        status = (place / "status").read_text()
        ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM):
            self.assertFalse(ignored & 1 << (number - 1), number)

    def test_missing_program(self) -> None:
        """A program that is not on the path is told before anything is started."""
        process = AgentProcess(reactor, self.messages.append, self.exits.append)
        error = self.assertRaises(
            GarconError, process.start, ["no-such-program"], {"PATH": "/usr/bin"}, "/"
        )
        self.assertIn("no-such-program", error.text)

    async def test_directory_and_program_that_cannot_be_used(self) -> None:
        """What fails after the fork is told on standard error."""
        process = AgentProcess(reactor, self.messages.append, self.exits.append)
        process.start(["sh", "-c", "true"], {"PATH": os.defpath}, str(self.directory / "gone"))
        self.addCleanup(process.end, "TERM", at_once=True)
        await process.end("TERM")
        self.assertIn("gone", process.stderr_tail())
