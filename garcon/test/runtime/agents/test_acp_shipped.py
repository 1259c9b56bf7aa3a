"""What the shipped agents of the Agent Client Protocol declare, and how they are found."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet import reactor
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase, TestCase

from garcon.contract.catalogs import AgentEntry, Protocol
from garcon.contract.limits import LAUNCH_WAIT
from garcon.contract.providers import ResolvedEndpoint
from garcon.runtime.agents import acp_models
from garcon.runtime.agents.acp import PATIENCE, AcpAgent
from garcon.runtime.agents.acp_shipped import GEMINI, SHIPPED
from garcon.runtime.agents.anthropic_variables import ANTHROPIC, NO_KEY
from garcon.runtime.agents.opencode_variables import OPENCODE_ENDPOINT
from garcon.test.runtime.agents.direct_shell import FakeCredentials
from garcon.testing.agent_runs import a_launch

IDS = ["opencode", "gemini", "claude-code-acp"]


def an_endpoint(**changes: Any) -> ResolvedEndpoint:
    """Return one with a key."""
    usual: dict[str, Any] = {
        "protocol": "openai-compatible",
        "base_url": "http://host/v1/",
        "api_key": 'k"ey',
        "headers": {"X-Team": "t"},
        "revision": 1,
    }
    return ResolvedEndpoint(**(usual | changes))


class Entries(TestCase):
    def setUp(self) -> None:
        self.bin = Path(self.mktemp()).absolute()
        self.bin.mkdir(parents=True)

    async def entries(self, credentials: Any = None) -> list[AgentEntry]:
        """What each says of itself that is there."""
        environment = {"PATH": f"{self.bin}:/usr/bin:/bin"}
        agents = [AcpAgent(reactor, one, environment, credentials) for one in SHIPPED]
        return [entry for agent in agents if (entry := await agent.entry(environment)) is not None]

    def install(self) -> None:
        """Put programs there that do nothing."""
        for name in IDS:
            (self.bin / name).write_text("#!/bin/sh\n")
            os.chmod(self.bin / name, 0o755)

    async def test_absent_where_not_installed(self) -> None:
        """Each by its own program."""
        self.assertEqual(await self.entries(), [])
        self.install()
        (self.bin / "gemini").unlink()
        self.assertEqual([one.id for one in await self.entries()], ["opencode", "claude-code-acp"])

    async def test_a_program_of_ones_own_is_missed(self) -> None:
        """Whoever has named it is told why it is not there: once, and again when it is gone again;
        a path among its own variables is where it is looked for.
        """
        told: list[Any] = []
        observer: Any = told.append
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        manifest = evolve(GEMINI, command=["mine"], environment={"PATH": str(self.bin)})
        agent = AcpAgent(reactor, evolve(manifest, is_wanted=True), {"PATH": "/bin"})
        shipped = AcpAgent(reactor, manifest, {"PATH": "/bin"})
        program = self.bin / "mine"
        for is_there, warnings in ((False, 1), (False, 1), (True, 1), (False, 2)):
            if is_there:
                program.write_text("#!/bin/sh\n")
                program.chmod(0o755)
            else:
                program.unlink(missing_ok=True)
            for one in (agent, shipped):
                self.assertEqual(await one.entry({"PATH": "/bin"}) is not None, is_there)
            said = [
                formatEvent(event)
                for event in told
                if event["log_namespace"].endswith("acp.AcpAgent")
            ]
            self.assertEqual(len(said), warnings)
        self.assertIn(
            f"there is no program mine that can be run (looked for in {self.bin})", said[0]
        )

    async def test_capabilities(self) -> None:
        """As they were seen."""
        self.install()
        found = {one.id: one for one in await self.entries(FakeCredentials(an_endpoint()))}
        self.assertEqual(list(found), IDS)
        self.assertEqual([one.supports_compact for one in found.values()], [True, False, False])
        self.assertEqual(
            [one.native_fork for one in found.values()], ["session", "none", "session"]
        )
        self.assertEqual(
            [one.supported_protocols for one in found.values()],
            [["openai-compatible", "anthropic-messages"], [], ["anthropic-messages"]],
        )
        self.assertEqual(
            [one.accepts_api_provider_endpoints for one in found.values()], [True, False, True]
        )
        self.assertEqual([len(one.supported_thinking_modes) for one in found.values()], [4, 1, 1])
        for one in found.values():
            self.assertTrue(one.supports_images and one.models[0].supports_images)
            self.assertFalse(one.supports_steering)
            self.assertEqual(one.default_model, one.models[0].value)

    async def test_no_endpoints_without_credentials(self) -> None:
        """Nobody could look one up."""
        self.install()
        for one in await self.entries():
            self.assertEqual(
                (one.accepts_api_provider_endpoints, one.supported_protocols), (False, [])
            )


class Waiting(SynchronousTestCase):
    """A session that may not be loaded yet, and a program that is slow to start."""

    def test_a_turn_begins_before_a_launch_is_given_up(self) -> None:
        """Whether the program has read anything or not: some are busy with their start for longer
        than a launch may take, models included.
        """
        agent = AcpAgent(reactor, GEMINI, {"PATH": "/bin"})
        session: Any = agent.open(a_launch("hi"), {})
        self.assertEqual(session._most, PATIENCE)
        self.assertLess(PATIENCE + acp_models.PATIENCE, LAUNCH_WAIT)

    def command(self, resume: str | None, seconds: int) -> Sequence[str]:
        """What a process is started as."""
        asked = []

        def wait(session_id: str, environment: Mapping[str, str]) -> int:
            asked.append((session_id, environment))
            return seconds

        manifest = evolve(GEMINI, wait_before_load=wait, environment={"B": "2"})
        agent = AcpAgent(reactor, manifest, {"PATH": "/bin"})
        command = agent._command(resume, {"A": "1"})
        self.assertEqual(asked, [] if resume is None else [("s", {"A": "1", "B": "2"})])
        return command

    def test_the_program_begins_later(self) -> None:
        """So that a turn can wait for it, and be stopped meanwhile."""
        own = list(GEMINI.command)
        self.assertEqual(list(self.command(None, 7)), own)
        self.assertEqual(list(self.command("s", 0)), own)
        later = list(self.command("s", 7))
        self.assertEqual(later[-len(own) - 1 :], ["7", *own])
        waits = later[: -len(own) - 1]
        done = subprocess.run([*waits, "0", "echo", "a  b", "$c"], capture_output=True, check=True)
        self.assertEqual(done.stdout, b"a  b $c\n")


class OpencodesEndpoint(SynchronousTestCase):
    def provider(self, **changes: Any) -> dict[str, Any]:
        """Return the provider that is configured."""
        variables = OPENCODE_ENDPOINT.filled(an_endpoint(**changes), "m/1")
        config = json.loads(variables["OPENCODE_CONFIG_CONTENT"])
        self.assertEqual((config["model"], config["small_model"]), ("garcon/m/1", "garcon/m/1"))
        provider: dict[str, Any] = config["provider"]["garcon"]
        self.assertEqual(list(provider["models"]), ["m/1"])
        return provider

    def test_options(self) -> None:
        """Address, key and headers; no key where there is none."""
        options = self.provider()["options"]
        self.assertEqual(
            options,
            {"baseURL": "http://host/v1", "apiKey": 'k"ey', "headers": {"X-Team": "t"}},
        )
        self.assertNotIn("apiKey", self.provider(api_key=None)["options"])

    def test_protocols(self) -> None:
        """Each has its package, and Anthropic's its own notion of an address."""
        protocols: list[tuple[Protocol, str]] = [
            ("openai-compatible", "@ai-sdk/openai-compatible"),
            ("anthropic-messages", "@ai-sdk/anthropic"),
        ]
        for protocol, package in protocols:
            self.assertEqual(self.provider(protocol=protocol)["npm"], package)
        for base in ("http://host", "http://host/v1", "http://host/v1/"):
            provider = self.provider(protocol="anthropic-messages", base_url=base)
            self.assertEqual(provider["options"]["baseURL"], "http://host/v1")


class AnthropicsEndpoint(SynchronousTestCase):
    """Of Claude Code, by itself and by the adapter."""

    def filled(self, **changes: Any) -> dict[str, str]:
        return ANTHROPIC.filled(an_endpoint(protocol="anthropic-messages", **changes), "m")

    def test_variables(self) -> None:
        """The address without its version, the headers one a line, and one model for all."""
        variables = self.filled(headers={"X-Team": "t", "X-Other": "o"})
        self.assertEqual(variables["ANTHROPIC_BASE_URL"], "http://host")
        self.assertEqual(variables["ANTHROPIC_CUSTOM_HEADERS"], "X-Team: t\nX-Other: o")
        self.assertEqual(variables["ANTHROPIC_DEFAULT_OPUS_MODEL"], "m")

    def test_an_account_of_the_user_is_not_used(self) -> None:
        """Also where the endpoint has no key."""
        variables = self.filled(api_key=None)
        self.assertEqual(variables["ANTHROPIC_API_KEY"], NO_KEY)
        self.assertEqual(variables["CLAUDE_CODE_OAUTH_TOKEN"], "")
