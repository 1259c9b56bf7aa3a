"""A local runtime for tests, on the real reactor, ended with its test."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.trial.unittest import SkipTest, TestCase

from garcon.contract.runs import Launch
from garcon.errors import GarconError
from garcon.runtime.executor import LocalRuntime, agents_for
from garcon.testing.agent_runs import RecordingSink, a_launch
from garcon.testing.claude_code import install, scripted_environment
from garcon.testing.models.anthropic import AnthropicMessages
from garcon.testing.models.script import Script
from garcon.testing.models.server import port_of, serve
from garcon.testing.npm_agents import NotInstalled


class RuntimeCase(TestCase):
    """Makes runtimes whose project base is the test's own directory.  `environment` is the
    service's.
    """

    timeout = 90

    def setUp(self) -> None:
        self.project = Path(self.mktemp()).resolve()
        self.project.mkdir(parents=True)
        self.environment: dict[str, str] = {"PATH": os.environ.get("PATH", os.defpath)}

    def a_runtime(self, environment: Mapping[str, str] | None = None, **more: Any) -> LocalRuntime:
        """Start a runtime with the shipped agents and the scripted one."""
        variables = {**self.environment, **(environment or {})}
        runtime = LocalRuntime(
            reactor,
            "instance",
            str(self.project),
            variables,
            "controller",
            str(self.project / "config"),
            agents_for(reactor, variables, str(self.project), True, sys.executable),
            **more,
        )
        self.addCleanup(runtime.stop)
        return runtime

    async def begin(
        self, runtime: LocalRuntime, prompt: str, **changes: Any
    ) -> tuple[Launch, RecordingSink]:
        """Launch a run and return it with what it says."""
        launch = a_launch(prompt, **({"project_path": str(self.project)} | changes))
        sink = RecordingSink(reactor)
        await runtime.launch(launch, sink)
        return launch, sink

    async def turn(self, runtime: LocalRuntime, prompt: str, **changes: Any) -> RecordingSink:
        """Run a whole turn."""
        _, sink = await self.begin(runtime, prompt, **changes)
        await sink.ended(60.0)
        return sink

    async def refused(self, runtime: LocalRuntime, launch: Launch) -> GarconError:
        """Launch what will be refused, and return the refusal."""
        sink = RecordingSink(reactor)
        try:
            await runtime.launch(launch, sink)
        except GarconError as refusal:
            self.assertEqual(sink.events, [])
            return refusal
        self.fail("the launch was not refused")

    async def pid_in(self, name: str) -> int:
        """Wait for a file of the project that a command wrote its process id into."""
        path = self.project / name
        await self.eventually(lambda: path.exists() and path.read_text().strip() != "", name)
        return int(path.read_text())

    async def eventually(self, holds: Any, what: str, seconds: float = 10.0) -> None:
        """Wait until a condition on the machine holds."""
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                self.fail(f"this did not come about: {what}")
            await deferLater(reactor, 0.02)


class ClaudeRuntimeCase(RuntimeCase):
    """A runtime case with the real Claude Code and a pretend model server, which plays `script`.

    Skipped where Claude Code cannot be had, unless it must be there.
    """

    timeout = 320
    _missing: ClassVar[str] = ""

    def setUp(self) -> None:
        super().setUp()
        try:
            if ClaudeRuntimeCase._missing:
                raise NotInstalled(ClaudeRuntimeCase._missing)
            program = install()
        except NotInstalled as error:
            ClaudeRuntimeCase._missing = str(error)
            if os.environ.get("GARCON_REQUIRE_AGENTS") == "1":
                raise
            raise SkipTest(f"Claude Code cannot be had here: {error}") from None
        self.script = Script()
        listening = self.successResultOf(serve(reactor, self.script, [AnthropicMessages()]))
        self.addCleanup(listening.stopListening)
        self.environment |= scripted_environment(self.project / "home", port_of(listening))
        self.environment["CLAUDE_BINARY"] = program


def runs(pid: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state != b"Z"
