"""Terminals of this machine, with real shells (server.md C)."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import shutil
from pathlib import Path
from typing import Any, ClassVar

from twisted.internet import reactor as _reactor
from twisted.internet.task import LoopingCall, deferLater
from twisted.trial.unittest import SkipTest, TestCase

from garcon.contract.limits import MIB, TERMINAL_INPUT
from garcon.contract.terminals import (
    BACKPRESSURE,
    INTERNAL,
    UNAVAILABLE,
    TerminalChanged,
    TerminalDetached,
    TerminalInfo,
    TerminalSize,
    TerminalTermination,
)
from garcon.errors import GarconError
from garcon.runtime.environment import child_environment
from garcon.runtime.executor import LocalRuntime
from garcon.test.live.shells import Shells
from garcon.testing.local_runtimes import runs

reactor: Any = _reactor


class LocalShells(Shells, TestCase):
    """On this machine, whose account has no start-up files of a shell."""

    timeout = 120
    shell_name: ClassVar[str] = "/bin/bash"

    def setUp(self) -> None:
        self.base = Path(self.mktemp()).resolve()
        self.base.mkdir(parents=True)
        self.runtime = self.make()

    def make(self, **variables: str) -> LocalRuntime:
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.base),
            "SHELL": self.shell_name,
            **variables,
        }
        runtime = LocalRuntime(
            reactor, "i", str(self.base), environment, "executor", str(self.base / "config"), []
        )
        self.addCleanup(runtime.stop)
        self.terminals = runtime.terminals
        return runtime


class Environments(LocalShells):
    """What a shell finds."""

    async def test_variables(self) -> None:
        """The terminal's own, the role's, the controller's address empty, the users'; of ours no
        other, and no other agent's.
        """
        self.make(
            GARCON_WORKSPACE="w",
            GARCON_TERMINAL_SHELL="/bin/sh",
            CLAUDECODE="1",
            CLAUDE_CODE_ENTRYPOINT="x",
            HTTPS_PROXY="http://proxy",
            COLUMNS="7",
            LINES="7",
        )
        _, screen = await self.shell()
        await self.enter(screen, "echo; env; echo fi''nished", "finished")
        found = dict(
            line.split("=", 1) for line in screen.text.splitlines() if re.match(r"^\w+=", line)
        )
        # The owner, its present life, and this very terminal.
        self.assertRegex(
            found.pop("GARCON_AGENT_TREE"), r"^[0-9a-f]{16}\.[0-9a-f]{16}\.[0-9a-f]{32}$"
        )
        self.assertEqual(
            {k: v for k, v in found.items() if k.startswith("GARCON_")},
            {
                "GARCON_CONFIG_DIR": str(self.base / "config"),
                "GARCON_RUNTIME": "executor",
                "GARCON_CONTROLLER_URL": "",
            },
        )
        expected = {
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "FORCE_COLOR": "3",
            "HTTPS_PROXY": "http://proxy",
            "HOME": str(self.base),
        }
        self.assertEqual({name: found.get(name) for name in expected}, expected)
        for name in ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "COLUMNS", "LINES"):
            self.assertTrue(name not in found, name)
        variables = child_environment({"A": "b"}, "executor", "/c")
        self.assertTrue("GARCON_CONTROLLER_URL" not in variables)

    async def test_the_shell_that_is_set(self) -> None:
        """GARCON_TERMINAL_SHELL before SHELL, and one that is not there is a failure."""
        self.make(GARCON_TERMINAL_SHELL="/bin/sh")
        _, screen = await self.shell()
        await self.enter(screen, "echo by $0", "by /bin/sh")
        self.make(GARCON_TERMINAL_SHELL="/bin/nothing")
        try:
            await self.create()
        except GarconError as error:
            self.assertEqual((error.code, error.status), (INTERNAL, 500))
        else:
            self.fail("a shell that is not there was started")

    async def test_where_it_begins(self) -> None:
        """In the directory that was wished."""
        (self.base / "漢 字").mkdir()
        info, screen = await self.shell(directory="漢 字")
        await self.enter(screen, "pwd", "漢 字")
        self.assertEqual(info.initial_working_directory, str(self.base / "漢 字"))


class Use(LocalShells):
    """What people do with it."""

    async def test_sizes(self) -> None:
        """80 by 24 at first; then as wished, told to whatever runs."""
        _, screen = await self.shell()
        await self.enter(screen, "stty size", "24 80")
        await self.terminals.resize(screen.attachment_id, TerminalSize(cols=132, rows=50))
        await self.enter(screen, "stty size", "50 132")

    async def test_programs_that_own_the_screen(self) -> None:
        """Draw it anew for a new size."""
        program = shutil.which("vim") or shutil.which("vi")
        pager = shutil.which("less")
        if pager is None and program is None:
            raise SkipTest("neither vim nor less is installed")
        (self.base / "text").write_text("".join(f"line {n}\n" for n in range(200)))
        _, screen = await self.shell()
        for command in filter(None, (pager, program)):
            screen.text = ""
            await self.terminals.resize(screen.attachment_id, TerminalSize(cols=80, rows=10))
            await self.enter(screen, f"{command} text", "line 8")
            self.assertTrue("line 30" not in screen.text)
            await self.terminals.resize(screen.attachment_id, TerminalSize(cols=80, rows=40))
            # The signal may come while it draws; then it looks at the next key.
            await self.terminals.input(screen.attachment_id, "\x0c")
            await self.seen(screen, "line 30")
            quit_keys = "q" if command == pager else "\x1b:q!\r"
            screen.text = ""
            await self.terminals.input(screen.attachment_id, quit_keys)
            # What is typed before that, such a program throws away.
            await self.seen(screen, "% ")

    async def test_characters_written_byte_by_byte(self) -> None:
        """Are whole when they come, whatever the pauses."""
        _, screen = await self.shell()
        text = "漢字🙂é"
        for byte in text.encode():
            await self.enter(screen, f"printf '\\{byte:o}'; sleep 0.02", "")
        await self.enter(screen, "echo; echo do''ne", "done")
        # Between them stand the prompts, of which none breaks a character.
        self.assertTrue("\ufffd" in screen.text or text in screen.text)
        (self.base / "write").write_text(
            "import os, time\n"
            f"for byte in {text.encode()!r}:\n"
            "    os.write(1, bytes([byte])); time.sleep(0.02)\n"
        )
        screen.text = ""
        await self.enter(screen, "python3 write; echo do''ne", "done")
        self.assertIn(text, screen.text)
        self.assertTrue("\ufffd" not in screen.text)

    async def test_a_ten_megabyte_paste(self) -> None:
        """Arrives whole and in order."""
        _, screen = await self.shell()
        await self.enter(screen, "stty raw; echo go; head -c 10000000 | sha256sum; stty -raw", "go")
        text = "".join(f"{n:07}\n" for n in range(1_250_000))
        pieces = [
            text[start : start + TERMINAL_INPUT] for start in range(0, len(text), TERMINAL_INPUT)
        ]
        calls = [self.terminals.input(screen.attachment_id, piece) for piece in pieces]
        for d in calls:
            await d
        await self.seen(screen, hashlib.sha256(text.encode()).hexdigest(), 60)

    async def test_an_interrupt_during_a_flood(self) -> None:
        """Is heard."""
        _, screen = await self.shell()
        screen.keeps = False
        await self.terminals.input(screen.attachment_id, "yes\n")
        await self.eventually(lambda: screen.size > 4 * MIB, "a flood")
        screen.keeps = True
        await self.terminals.input(screen.attachment_id, "\x03")
        await self.enter(screen, "echo af''ter", "after")

    async def test_the_exit(self) -> None:
        """Comes after everything, with its code, and the terminal can still be read."""
        info, screen = await self.shell()
        await self.terminals.input(screen.attachment_id, "seq 1 20000; exit 5\n")
        await self.eventually(lambda: screen.others, "the exit")
        self.assertIn("\n20000\r\n", screen.text)
        (changed,) = screen.others
        assert isinstance(changed, TerminalChanged)
        self.assertEqual(changed.terminal.exit_code, 5)
        again = await self.attach(info)
        await self.seen(again, "\n20000\r\n")

    async def test_terminating_with_jobs(self) -> None:
        """Nothing of them is left."""
        info, screen = await self.shell()
        await self.enter(screen, "sleep 1004 & nohup sleep 1005 & echo pid''s $(jobs -p)", "pids ")
        await self.eventually(lambda: re.search(r"pids \d+ \d+", screen.text), "both")
        found = re.search(r"pids (\d+) (\d+)", screen.text)
        assert found is not None
        pids = [int(pid) for pid in found.groups()]
        self.assertTrue(all(map(runs, pids)))
        await self.terminals.terminate(
            TerminalTermination(principal_key="p", session_id=info.session_id, request_id="r")
        )
        self.assertTrue(not any(map(runs, pids)))

    async def test_stopping_the_executor(self) -> None:
        """Ends every shell, and lets go of everybody first."""
        pids = []
        for _ in range(3):
            _, screen = await self.shell()
            await self.enter(screen, "echo i''d $$ .", " .")
            found = re.search(r"id (\d+) \.", screen.text)
            assert found is not None
            pids.append(int(found[1]))
        await self.runtime.stop()
        self.assertTrue(not any(map(runs, pids)))
        end = screen.others[-1]
        assert isinstance(end, TerminalDetached)
        self.assertEqual(end.code, UNAVAILABLE)


class Floods(LocalShells):
    """`yes`, and nobody who reads it."""

    async def test_a_reader_that_has_stopped(self) -> None:
        """Costs what is kept and no more; the program goes on, and so does this process."""
        info, screen = await self.shell()
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1

        ticking = LoopingCall(turn)
        ticking.clock = reactor
        ticking.start(0.01)
        self.addCleanup(ticking.stop)
        screen.keeps, screen.has_stopped = False, True
        await self.enter(screen, "yes", "")
        await self.eventually(lambda: screen.others, "the end of the attachment")
        end = screen.others[-1]
        assert isinstance(end, TerminalDetached)
        self.assertEqual(end.code, BACKPRESSURE)
        before, begun = self.memory(), (await self.latest(info), turns)
        await deferLater(reactor, 5)
        self.assertLess(self.memory() - before, 16 * MIB)
        self.assertLess(begun[0], await self.latest(info))
        self.assertLess(begun[1] + 50, turns)
        again = await self.attach(info, screen.last)
        await self.terminals.input(again.attachment_id, "\x03")
        await self.enter(again, "echo af''ter", "after")

    async def test_nobody_is_attached(self) -> None:
        """The same."""
        info, screen = await self.shell()
        await self.terminals.input(screen.attachment_id, "yes\n")
        await self.eventually(lambda: screen.size > MIB, "a flood")
        self.terminals.detach(screen.attachment_id)
        before, begun = self.memory(), await self.latest(info)
        await deferLater(reactor, 3)
        self.assertLess(self.memory() - before, 16 * MIB)
        self.assertLess(begun, await self.latest(info))

    async def latest(self, info: TerminalInfo) -> int:
        listed = await self.terminals.list("p")
        (found,) = [t for t in listed.terminals if t.session_id == info.session_id]
        return found.latest_output_sequence

    def memory(self) -> int:
        """Return the most that this process has used so far, in bytes."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
