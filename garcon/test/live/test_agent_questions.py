"""Short questions to programs, with real processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from garcon.contract.agents import AgentAuth
from garcon.errors import GarconError
from garcon.runtime.agents.question import OUTPUT, ask_program
from garcon.runtime.environment import AGENT_TREE
from garcon.testing.local_runtimes import ClaudeRuntimeCase, RuntimeCase, runs
from garcon.testing.refused_signals import refuse_signals

SLEEPER = "import os, time; open({path!r}, 'w').write(str(os.getpid())); time.sleep(90)"
"""A program that says who it is, and stays."""


class QuestionTests(TestCase):
    """What comes of one question."""

    timeout = 60

    def ask(self, source: str, seconds: float = 30.0, **variables: str) -> Deferred[bytes | None]:
        """Ask a Python program."""
        command = [sys.executable, "-I", "-S", "-c", source]
        return ask_program(reactor, command, variables, seconds)

    async def test_what_it_prints_is_the_answer(self) -> None:
        """Whatever its exit status; it gets just the environment that was given and no input."""
        source = "import os, sys; print(os.environ['A'], repr(sys.stdin.read())); sys.exit(3)"
        self.assertEqual(await self.ask(source, A="b"), b"b ''\n")

    async def test_a_program_that_is_not_there(self) -> None:
        """Says nothing."""
        self.assertIsNone(await ask_program(reactor, ["no-such-program"], {"PATH": "/bin"}, 1.0))

    async def test_too_much_output(self) -> None:
        """So many bytes are taken, and the program is ended."""
        for size in (OUTPUT, OUTPUT + 1):
            answer = await self.ask(f"print('x' * {size}, end='', flush=True)")
            self.assertEqual(len(answer or b""), OUTPUT)
        endless = await self.ask("while True: print('x' * 1000)")
        self.assertEqual(len(endless or b""), OUTPUT)

    async def test_what_it_has_started(self) -> None:
        """Ends with it, also in a session of its own, and nobody waits for it although it holds the
        pipe.
        """
        for last in ("", "; sleep 300"):
            script = f"echo answer; setsid sleep 300 & echo $! > $FILE{last}"
            path = Path(self.mktemp()).resolve()
            variables = {"PATH": os.defpath, "FILE": str(path)}
            answer = await ask_program(reactor, ["sh", "-c", script], variables, 4.0)
            self.assertEqual(answer, None if last else b"answer\n")
            self.assertFalse(runs(int(path.read_text())))

    async def assert_gone(self, path: Path) -> None:
        """Assert that the process which wrote its id there has ended."""
        for _ in range(200):
            if not runs(int(path.read_text())):
                return
            await deferLater(reactor, 0.02)
        self.fail("it still runs")

    async def test_time_is_over(self) -> None:
        """Then there is no answer, and no program."""
        path = Path(self.mktemp()).resolve()
        source = SLEEPER.format(path=str(path))
        self.assertIsNone(await self.ask(source, 4.0))
        await self.assert_gone(path)

    async def test_a_program_that_became_another_users(self) -> None:
        """Takes no signal of ours; what it has started ends all the same."""
        path, child = (Path(self.mktemp()).resolve() for _ in range(2))
        script = f"sleep 300 & echo $! > {child}; echo $$ > {path}; read x; wait"
        asking = ask_program(reactor, ["sh", "-c", script], {"PATH": os.defpath}, 4.0)
        while not path.exists() or not path.read_text():
            await deferLater(reactor, 0.02)
        refuse_signals(self, int(path.read_text()))
        self.assertIsNone(await asking)
        self.assertFalse(runs(int(child.read_text())))
        await self.assert_gone(path)

    async def test_nobody_waits_any_more(self) -> None:
        """The program is ended."""
        path = Path(self.mktemp()).resolve()
        source = SLEEPER.format(path=str(path))
        asking = self.ask(source)
        while not path.exists() or not path.read_text():
            await deferLater(reactor, 0.02)
        asking.cancel()
        await self.assertFailure(asking, CancelledError)
        await self.assert_gone(path)

    async def test_cancelled_again_while_it_is_ended(self) -> None:
        """It ends all the same."""
        path = Path(self.mktemp()).resolve()
        asking = self.ask(SLEEPER.format(path=str(path)))
        while not path.exists() or not path.read_text():
            await deferLater(reactor, 0.02)
        asking.cancel()
        asking.cancel()
        await self.assertFailure(asking, CancelledError)
        await self.assert_gone(path)


class AccountTests(RuntimeCase):
    """What the runtime says of its agents' accounts."""

    def program(self, source: str) -> str:
        """Write a program that stands for Claude Code."""
        path = self.project / "claude"
        path.write_text(f"#!{sys.executable} -IS\n{source}\n")
        path.chmod(0o755)
        return str(path)

    async def test_an_agent_is_asked_for_its_account(self) -> None:
        """One without an account needs none."""
        source = "import sys; assert sys.argv[1:] == ['auth', 'status', '--json']"
        self.environment["CLAUDE_BINARY"] = self.program(
            f"{source}; print('{{\"loggedIn\": true}}')"
        )
        runtime = self.a_runtime()
        found = await runtime.auth(None)
        self.assertEqual(
            dict(found),
            {
                "claude": AgentAuth(True, False, "Signed in", "agent"),
                "scripted": AgentAuth(True, False, "", "none"),
            },
        )
        self.assertEqual(set(await runtime.auth("scripted")), {"scripted"})

    async def test_a_program_that_fails_is_not_signed_in(self) -> None:
        """And nothing else suffers."""
        self.environment["CLAUDE_BINARY"] = self.program("raise SystemExit('no')")
        found = await self.a_runtime().auth(None)
        self.assertEqual(
            {name: status.authenticated for name, status in found.items()},
            {"claude": False, "scripted": True},
        )


class StopTests(RuntimeCase):
    """What the stop of a runtime finds of its questions."""

    def setUp(self) -> None:
        super().setUp()
        path = self.project / "claude"
        path.write_text(f"#!/bin/sh\necho $$ > {self.project}/asked\nexec sleep 300\n")
        path.chmod(0o755)
        self.environment["CLAUDE_BINARY"] = str(path)

    async def test_a_question_is_ended(self) -> None:
        """Its program is gone when the runtime has stopped, and nothing is asked any more."""
        runtime = self.a_runtime()
        asking = runtime.auth("claude")
        pid = await self.pid_in("asked")
        stopping = runtime.stop()
        await self.assertFailure(asking, CancelledError)
        await stopping
        self.assertFalse(runs(pid))
        refusal = self.failureResultOf(runtime.catalog(None), GarconError).value
        self.assertEqual(refusal.code, "SERVER_SHUTTING_DOWN")

    async def test_a_question_that_was_given_up_is_ended(self) -> None:
        """Although whoever asked waits no longer."""
        runtime = self.a_runtime()
        asking = runtime.auth("claude")
        pid = await self.pid_in("asked")
        asking.cancel()
        asking.cancel()
        await self.assertFailure(asking, CancelledError)
        await runtime.stop()
        self.assertFalse(runs(pid))


class EnvironmentTests(RuntimeCase):
    """What programs are told that are asked for their models."""

    async def test_as_every_child_s(self) -> None:
        """With the executor's mark, so that they are found after a crash, and without what another
        agent has set for its own tools (decisions.md 4).
        """
        programs = self.project / "bin"
        programs.mkdir()
        for name in ("codex", "pi", "opencode"):
            program = programs / name
            program.write_text('#!/bin/sh\nenv > "$0.env"\n')
            program.chmod(0o755)
        self.environment |= {"CLAUDECODE": "1", "CLAUDE_CODE_SSE_PORT": "1", "KEY": "k"}
        self.environment["PATH"] = f"{programs}{os.pathsep}{self.environment['PATH']}"
        runtime = self.a_runtime()
        await runtime.catalog(None)
        for name in ("codex", "pi", "opencode"):
            told = (programs / f"{name}.env").read_text().splitlines()
            names = {line.partition("=")[0] for line in told}
            self.assertIn("KEY=k", told)
            self.assertEqual({one for one in names if one.startswith("CLAUDE")}, set(), name)
            (mark,) = (line for line in told if line.startswith(AGENT_TREE))
            # The owner, its generation, and the program's own.
            self.assertEqual(mark.count("."), 2, name)
        self.flushLoggedErrors(GarconError)


class ClaudeAccountTests(ClaudeRuntimeCase):
    """The real Claude Code's answer."""

    async def test_claude_code_says_whether_it_is_signed_in(self) -> None:
        """By the key in its environment, or not at all."""
        runtime: Any = self.a_runtime()
        self.assertEqual(
            (await runtime.auth("claude"))["claude"],
            AgentAuth(True, False, "ANTHROPIC_API_KEY", "agent"),
        )
        without = {**self.environment, "HOME": os.path.join(self.project, "empty")}
        del without["ANTHROPIC_API_KEY"], without["CLAUDE_CONFIG_DIR"]
        os.makedirs(without["HOME"])
        self.environment = without
        self.assertFalse((await self.a_runtime().auth("claude"))["claude"].authenticated)
