"""Shells behind real pseudo-terminals: size, bytes, exit, and what is left of them."""

from __future__ import annotations

import hashlib
import os
import select
import time
from collections.abc import Sequence
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from garcon.contract.limits import MIB
from garcon.contract.terminals import TerminalSize
from garcon.deferreds import Waiters
from garcon.runtime.terminals.pty import PtyProcess
from garcon.testing.local_runtimes import runs
from garcon.testing.refused_signals import refuse_signals

SIZE = TerminalSize(cols=101, rows=33)


def terminals_open() -> int:
    """Return how many descriptors of terminals this process has."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith(("/dev/ptmx", "/dev/pts/"))
        except FileNotFoundError:
            pass  # A thread's, and closed again.
    return count


class PtyCase(TestCase):
    """Starts commands, and hears them."""

    timeout = 60

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir(parents=True)
        self.output = b""
        self.parts: list[bytes] = []
        self.codes: list[int] = []
        self.wanted = 0
        self.changed: Waiters[None] = Waiters()

    # PtyOwner

    def output_received(self, data: bytes) -> None:
        assert not self.codes, "output after the exit"
        self.parts.append(data)
        self.output += data
        self.changed.fire(None)

    def input_wanted(self) -> None:
        self.wanted += 1
        self.changed.fire(None)

    def process_exited(self, code: int) -> None:
        self.codes.append(code)
        self.changed.fire(None)

    # -- the test's side

    def start(self, command: Sequence[str], **variables: str) -> PtyProcess:
        """Run a command."""
        process = PtyProcess(reactor, self)
        environment = {"PATH": os.environ.get("PATH", os.defpath), **variables}
        process.start(command, environment, str(self.directory), SIZE)
        self.addCleanup(process.end)
        return process

    def script(self, text: str) -> PtyProcess:
        """Run a shell script."""
        return self.start(["/bin/sh", "-c", text])

    async def until(self, text: bytes) -> None:
        """Wait for some output."""
        while text not in self.output:
            d: Deferred[None] = self.changed.wait()
            await d.addTimeout(20, reactor)

    async def exit(self) -> int:
        """Wait for the exit."""
        while not self.codes:
            d: Deferred[None] = self.changed.wait()
            await d.addTimeout(20, reactor)
        return self.codes[0]

    async def gone(self, *pids: int) -> None:
        """Wait until processes have ended."""
        deadline = time.monotonic() + 20
        while any(map(runs, pids)):
            self.assertLess(time.monotonic(), deadline, "they do not end")
            await deferLater(reactor, 0.02)

    async def pid(self, name: str) -> int:
        """Return what the command calls itself."""
        await self.until(name.encode() + b" ")
        while b"\n" not in self.output.split(name.encode() + b" ", 1)[1]:
            await self.changed.wait()
        return int(self.output.split(name.encode() + b" ", 1)[1].split(b"\r\n", 1)[0])


class Windows(PtyCase):
    """How large it is."""

    async def test_it_is_set_before_the_command_runs(self) -> None:
        """The first thing that a command does may be to ask."""
        self.start(["/bin/stty", "size"])
        self.assertEqual(await self.exit(), 0)
        self.assertEqual(self.output, b"33 101\r\n")

    async def test_later_changes(self) -> None:
        """Are told to the command, and the largest that a terminal can have is the largest."""
        process = self.script("trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done")
        await self.until(b"ready")
        process.resize(TerminalSize(cols=40, rows=12))
        await self.until(b"12 40")
        process.resize(TerminalSize(cols=2**53 - 1, rows=1))
        await self.until(b"1 65535")


class Bytes(PtyCase):
    """Both ways."""

    async def test_a_real_terminal(self) -> None:
        """Is what the command sees, as all three of its descriptors, and as its own."""
        self.script("tty <&0; tty <&1; tty <&2; ps -o sid= -p $$ | tr -d ' '; echo $$")
        self.assertEqual(await self.exit(), 0)
        lines = self.output.split()
        self.assertEqual(len(set(lines[:3])), 1)
        self.assertTrue(lines[0].startswith(b"/dev/pts/"))
        self.assertEqual(lines[3], lines[4])

    async def test_the_kernels_line_editing(self) -> None:
        """Takes away a whole character, of however many bytes."""
        process = self.script('echo ready; read line; echo "<$line>"')
        await self.until(b"ready")
        process.write("a漢\x7fb\n".encode())
        await self.exit()
        self.assertIn(b"<ab>\r\n", self.output)

    async def test_a_look(self) -> None:
        """Finds what is there without a turn of the reactor, and nothing where nothing is."""
        process = self.script("echo ready; exec cat >/dev/null")
        await self.until(b"ready\r\n")
        self.parts.clear()
        process.look()
        self.assertEqual(self.parts, [])
        process.write(b"x")
        select.select([process._terminal.fileno()], [], [], 20)
        process.look()
        self.assertEqual(self.parts, [b"x"])
        process.hold(True)
        process.write(b"y")
        select.select([process._terminal.fileno()], [], [], 20)
        process.look()
        self.assertEqual(self.parts, [b"x"])
        process.hold(False)
        await self.until(b"xy")
        await process.end()
        process.look()

    async def test_no_other_descriptor(self) -> None:
        """Of ours is open in it."""
        with open(self.directory / "ours", "wb") as file:
            os.set_inheritable(file.fileno(), True)
            self.start(["/bin/ls", "/proc/self/fd"])
            self.assertEqual(await self.exit(), 0)
        self.assertEqual(sorted(map(int, self.output.split()))[:3], [0, 1, 2])
        # The fourth is the folder that it reads.
        self.assertEqual(len(self.output.split()), 4)

    async def test_exactly_this_environment(self) -> None:
        """And nothing of ours."""
        os.environ["GARCON_TEST_SECRET"] = "secret"
        self.addCleanup(os.environ.pop, "GARCON_TEST_SECRET")
        self.start(["/usr/bin/env"], ONE="1")
        self.assertEqual(await self.exit(), 0)
        names = {line.split(b"=", 1)[0] for line in self.output.splitlines()}
        self.assertEqual(names, {b"PATH", b"ONE"})

    async def test_a_variable_that_is_no_text(self) -> None:
        """Is passed on as it is."""
        self.start(["/usr/bin/env"], ODD=os.fsdecode(b"\xff\xfe"))
        self.assertEqual(await self.exit(), 0)
        self.assertIn(b"ODD=\xff\xfe\r\n", self.output)

    async def test_large_output_comes_in_slices(self) -> None:
        """Whole, and with far fewer turns than the kernel's pieces."""
        self.script("stty -opost; head -c 8388608 /dev/zero | tr '\\0' x")
        self.assertEqual(await self.exit(), 0)
        self.assertEqual(len(self.output), 8 * MIB)
        self.assertLess(len(self.parts), 8 * MIB // 4096)

    async def test_large_input_arrives_whole(self) -> None:
        """Whatever the command reads at a time; it is told when more may be written."""
        process = self.script("stty raw -echo; echo ready; head -c 3000000 | sha256sum; echo end")
        await self.until(b"ready")
        text = b"".join(b"%07d\n" % n for n in range(375_000))
        for start in range(0, len(text), 50_000):
            while not process.is_writable:
                await self.changed.wait()
            process.write(text[start : start + 50_000])
        await self.until(b"end")
        self.assertIn(hashlib.sha256(text).hexdigest().encode(), self.output)
        self.assertGreater(self.wanted, 0)

    async def test_signals_are_typed(self) -> None:
        """^C ends what runs in front, and the shell goes on."""
        process = self.start(["/bin/sh"], PS1="% ")
        await self.until(b"% ")
        process.write(b"sh -c 'echo beg''un; exec sleep 1000'\n")
        await self.until(b"begun\r\n")
        process.write(b"\x03")
        process.write(b"echo aft'er'\n")
        await self.until(b"after\r\n")

    async def test_held_output(self) -> None:
        """Waits in the terminal, and the command with it; let go on, nothing of it is missing."""
        process = self.script("stty -opost; echo ready; head -c 2000000 /dev/zero; echo end")
        await self.until(b"ready")
        process.hold(True)
        before = len(self.output)
        self.assertLess(before, 2_000_000)
        for _ in range(100):
            await deferLater(reactor, 0)
        self.assertEqual(len(self.output), before)
        process.hold(False)
        self.assertEqual(await self.exit(), 0)
        self.assertEqual(len(self.output), len(b"ready\n") + 2_000_000 + len(b"end\n"))

    async def test_held_output_and_the_exit(self) -> None:
        """What was written before it comes first, though nobody wanted it."""
        process = self.script("echo begin; read x; echo last words; exit 4")
        await self.until(b"begin")
        process.hold(True)
        process.write(b"\n")
        self.assertEqual(await self.exit(), 4)
        self.assertIn(b"last words\r\n", self.output)


class Exits(PtyCase):
    """How it ends by itself."""

    async def test_the_status(self) -> None:
        """Is told once, after everything that was written."""
        self.script("head -c 100000 /dev/zero | tr '\\0' x; exit 3")
        self.assertEqual(await self.exit(), 3)
        self.assertEqual(self.output.count(b"x"), 100_000)
        for _ in range(100):
            await deferLater(reactor, 0)
        self.assertEqual(self.codes, [3])

    async def test_a_signal(self) -> None:
        """Counts from 128, as in every shell."""
        self.script("kill -KILL $$")
        self.assertEqual(await self.exit(), 137)

    async def test_a_grandchild_that_keeps_the_terminal(self) -> None:
        """Has a moment for its output, and then the terminal is taken away, and with the group of
        the shell it is killed.
        """
        self.script("sh -c 'trap \"\" HUP; echo child $$; exec sleep 1000' & sleep 0.3")
        pid = await self.pid("child")
        self.assertEqual(await self.exit(), 0)
        await self.gone(pid)

    async def test_its_last_words(self) -> None:
        """Within that moment are heard."""
        self.script("trap '' HUP; (sleep 0.3; echo late) & exit 0")
        self.assertEqual(await self.exit(), 0)
        self.assertIn(b"late", self.output)

    async def test_nothing_is_left_open(self) -> None:
        """After many terminals no descriptor is."""
        self.script("exit 0")
        await self.exit()
        before = terminals_open()
        for _ in range(20):
            self.codes.clear()
            self.output = b""
            self.script("echo x; exit 0")
            await self.exit()
        self.assertEqual(terminals_open(), before)


class Ends(PtyCase):
    """How it is ended."""

    async def test_an_interactive_shell_with_jobs(self) -> None:
        """All of them go, in front and behind, each in a group of its own, and stopped ones too."""
        bash = self.start(["/bin/bash", "--norc", "-i"], PS1="% ")
        await self.until(b"% ")
        bash.write(b"sleep 1001 & echo o''ne $!\n")
        one = await self.pid("one")
        bash.write(b"nohup sleep 1002 >/dev/null & echo t''wo $!\n")
        two = await self.pid("two")
        bash.write(b"sleep 1003 & kill -STOP $!; echo thr''ee $!\n")
        three = await self.pid("three")
        await bash.end()
        await self.gone(bash.pid, one, two, three)
        self.assertEqual(await self.exit(), 129)

    async def test_one_that_minds_nothing(self) -> None:
        """Is killed."""
        process = self.script("trap '' HUP TERM INT; echo ready; while :; do sleep 0.1; done")
        await self.until(b"ready")
        await process.end()
        self.assertEqual(await self.exit(), 137)
        await self.gone(process.pid)

    async def test_one_that_reads_nothing(self) -> None:
        """Does not keep its terminal open for what waits to be written."""
        process = self.script("stty raw -echo; echo ready; exec sleep 1000")
        await self.until(b"ready")
        while process.is_writable:
            process.write(b"x" * 50_000)
        before = terminals_open()
        await process.end()
        await self.gone(process.pid)
        self.assertEqual(terminals_open(), before - 1)

    async def test_one_that_became_another_users(self) -> None:
        """Takes no signal of ours, but its terminal is taken away, which the kernel tells it."""
        process = self.script("echo ready; exec sleep 1000")
        await self.until(b"ready")
        before = terminals_open()
        refuse_signals(self, process.pid)
        await process.end()
        self.assertEqual(terminals_open(), before - 1)
        self.assertEqual(await self.exit(), 129)

    async def test_one_whose_output_is_held(self) -> None:
        """Ends as any other."""
        process = self.script("yes")
        await self.until(b"y")
        process.hold(True)
        await process.end()
        await self.gone(process.pid)
        await self.exit()

    async def test_a_session_of_its_own(self) -> None:
        """Is how something outlives its terminal."""
        process = self.script("setsid -f sh -c 'echo other $$; exec sleep 1000'; sleep 1000")
        other = await self.pid("other")
        self.addCleanup(os.kill, other, 9)
        await process.end()
        await self.gone(process.pid)
        self.assertTrue(runs(other))

    async def test_one_that_has_ended(self) -> None:
        """Is no trouble, also twice."""
        process = self.script("exit 0")
        await self.exit()
        await process.end()
        await process.end()
        self.assertEqual(self.codes, [0])

    async def test_writing_to_one_that_has_ended(self) -> None:
        """Neither."""
        process = self.script("exit 0")
        await self.exit()
        process.write(b"x")
        process.resize(SIZE)
        process.hold(True)
        process.hold(False)
