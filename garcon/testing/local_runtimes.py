"""A local runtime for tests, on the real reactor, ended with its test."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.trial.unittest import SkipTest, TestCase

from garcon.contract.runs import Launch
from garcon.errors import GarconError
from garcon.runtime.executor import LocalRuntime
from garcon.runtime.interfaces import ICredentials
from garcon.runtime.shipped import agents_for
from garcon.testing import acp_agents, claude_code, codex_cli, pi_coding_agent
from garcon.testing.acp_agents import CLAUDE_CODE_ACP, GEMINI, OPENCODE
from garcon.testing.agent_runs import RecordingSink, a_launch
from garcon.testing.claude_code import CLAUDE_CODE
from garcon.testing.codex_cli import CODEX
from garcon.testing.models.anthropic import AnthropicMessages
from garcon.testing.models.gemini import Gemini
from garcon.testing.models.openai_chat import ChatCompletions
from garcon.testing.models.openai_responses import Responses
from garcon.testing.models.script import Script
from garcon.testing.models.server import Wire, port_of, serve
from garcon.testing.npm_agents import NotInstalled, NpmAgent
from garcon.testing.pi_coding_agent import PI


class RuntimeCase(TestCase):
    """Makes runtimes whose project base is the test's own directory.  `environment` is the
    service's.
    """

    timeout = 90
    profiles: ICredentials | None = None
    """Of the runtimes that are made from now on."""

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
            agents_for(
                reactor,
                variables,
                str(self.project),
                True,
                sys.executable,
                credentials=self.profiles,
            ),
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


class NpmRuntimeCase(RuntimeCase):
    """A runtime case with a real agent and a pretend model server, which plays `script`.

    Skipped where the agent cannot be had, unless it must be there.
    """

    timeout = 320
    agent: ClassVar[NpmAgent]
    wire: ClassVar[Callable[[], Wire]]
    _missing: ClassVar[dict[str, str]] = {}

    def setUp(self) -> None:
        super().setUp()
        name = self.agent.title
        try:
            if name in self._missing:
                raise NotInstalled(self._missing[name])
            program = self.agent.install()
        except NotInstalled as error:
            self._missing[name] = str(error)
            if os.environ.get("GARCON_REQUIRE_AGENTS") == "1":
                raise
            raise SkipTest(f"{name} cannot be had here: {error}") from None
        self.script = Script()
        self.port = self.a_model_server(self.script)
        self.environment |= self.variables(program, self.project / "home", self.port)

    def a_model_server(self, script: Script, wire: Callable[[], Wire] | None = None) -> int:
        """Start a pretend model server, by default of the agent's own wire, and return its port."""
        speaks = wire or type(self).wire
        listening = self.successResultOf(serve(reactor, script, [speaks()]))

        def is_left() -> bool:
            return all(getattr(one, "server", None) is not listening for one in both.getReaders())

        async def stop() -> None:
            stopping = listening.stopListening()
            if stopping is not None:
                await stopping
            await self.eventually(is_left, "the agents have closed their connections")

        both: Any = reactor
        self.addCleanup(stop)
        return port_of(listening)

    def variables(self, program: str, home: Path, port: int) -> dict[str, str]:
        """Return what the service's environment says of the agent."""
        raise NotImplementedError


class ClaudeRuntimeCase(NpmRuntimeCase):
    """With the real Claude Code."""

    agent = CLAUDE_CODE
    wire = AnthropicMessages

    def variables(self, program: str, home: Path, port: int) -> dict[str, str]:
        return {**claude_code.scripted_environment(home, port), "CLAUDE_BINARY": program}


class CodexRuntimeCase(NpmRuntimeCase):
    """With the real Codex."""

    agent = CODEX
    wire = Responses

    def variables(self, program: str, home: Path, port: int) -> dict[str, str]:
        return {**codex_cli.scripted_environment(home, port), "GARCON_CODEX_CLI": program}


class PiRuntimeCase(NpmRuntimeCase):
    """With the real Pi."""

    agent = PI
    wire = ChatCompletions

    def variables(self, program: str, home: Path, port: int) -> dict[str, str]:
        return {
            **pi_coding_agent.scripted_environment(home, port),
            **pi_coding_agent.found_by(program),
        }


class OnPathCase(NpmRuntimeCase):
    """With an agent that is found on the path."""

    timeout = 400

    def variables(self, program: str, home: Path, port: int) -> dict[str, str]:
        return {
            **self.scripted_environment(home, port),
            "PATH": f"{os.path.dirname(program)}{os.pathsep}{self.environment['PATH']}",
        }

    def scripted_environment(self, home: Path, port: int) -> dict[str, str]:
        """Return the variables with which the agent talks to the pretend model server alone."""
        raise NotImplementedError


class OpencodeRuntimeCase(OnPathCase):
    """With the real OpenCode."""

    agent = OPENCODE
    wire = ChatCompletions

    def scripted_environment(self, home: Path, port: int) -> dict[str, str]:
        return acp_agents.opencode_environment(home, port)


class GeminiRuntimeCase(OnPathCase):
    """With the real Gemini CLI."""

    agent = GEMINI
    wire = Gemini

    def scripted_environment(self, home: Path, port: int) -> dict[str, str]:
        return acp_agents.gemini_environment(home, port)


class ClaudeCodeAcpRuntimeCase(OnPathCase):
    """With the real adapter of Claude Code."""

    agent = CLAUDE_CODE_ACP
    wire = AnthropicMessages

    def scripted_environment(self, home: Path, port: int) -> dict[str, str]:
        return claude_code.scripted_environment(home, port)


def runs(pid: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state != b"Z"
