"""How Pi is found and started, and what is read of its models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import structs
from twisted.internet import reactor
from twisted.internet.defer import CancelledError
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from garcon.contract.providers import Capabilities, ResolvedEndpoint
from garcon.errors import GarconError
from garcon.runtime.agents.pi import GATE_FILE, PiAgent, has_session
from garcon.runtime.agents.pi_endpoint import VARIABLE, variables
from garcon.runtime.agents.pi_models import read
from garcon.test.runtime.agents.direct_shell import FakeCredentials
from garcon.testing.agent_runs import a_launch

ENDPOINT = ResolvedEndpoint(
    protocol="openai-compatible",
    base_url="https://models.example/v1/",
    api_key="sk-1",
    headers={"X-Team": "$t"},
    revision=1,
)


class Found(TestCase):
    timeout = 60

    def setUp(self) -> None:
        self.root = Path(self.mktemp()).absolute()
        (self.root / "bin").mkdir(parents=True)
        self.program = self.root / "cli.js"
        self.program.write_text("#!/bin/sh\nexit 1\n")
        self.program.chmod(0o755)
        for name in ("pi", "other"):
            (self.root / "bin" / name).symlink_to(self.program)
        self.path = {"PATH": f"{self.root}/bin"}

    def command(self, **variables: str) -> list[str] | None:
        """What would be started."""
        return PiAgent(reactor, {**self.path, **variables})._command()

    async def test_by_path_and_by_variables(self) -> None:
        """The named one goes before the path's, and a named Node runs the program behind it."""
        pi, other = str(self.root / "bin/pi"), str(self.root / "bin/other")
        self.assertEqual(self.command(), [pi])
        self.assertEqual(self.command(PI_BINARY="other"), [other])
        self.assertEqual(self.command(PI_BINARY="x", GARCON_PI_BINARY=other), [other])
        self.assertEqual(self.command(GARCON_PI_NODE="/n"), ["/n", str(self.program)])
        self.assertIsNone(self.command(GARCON_PI_BINARY="none"))
        self.assertIsNone(await PiAgent(reactor, {"PATH": "/nowhere"}).entry())

    async def test_one_that_does_not_run(self) -> None:
        """What it says is the reason, such as that its Node is too old."""
        self.program.write_text("#!/bin/sh\necho too old >&2\nexit 1\n")
        agent = PiAgent(reactor, self.path)
        for _ in range(2):
            with self.assertRaises(GarconError) as caught:
                await agent.entry()
            self.assertIn("too old", caught.exception.text)

    async def test_a_question_that_is_given_up(self) -> None:
        """Whoever else waited asks again, and is told."""
        asked = self.root / "asked"
        state, models = (
            json.dumps({"type": "response", "id": name, "data": data})
            for name, data in (
                ("state", {}),
                ("models", {"models": [{"provider": "a", "id": "m"}]}),
            )
        )
        self.program.write_text(
            f"#!/bin/sh\n[ -e {asked} ] || {{ : > {asked}; exec cat > /dev/null; }}\n"
            f"echo '{state}'\necho '{models}'\nexec cat > /dev/null\n"
        )
        agent = PiAgent(reactor, {"PATH": f"{self.root}/bin:/usr/bin:/bin"})
        first, second = agent.entry(), agent.entry()
        while not asked.exists():
            await deferLater(reactor, 0.01)
        first.cancel()
        await self.assertFailure(first, CancelledError)
        entry = await second
        assert entry is not None
        self.assertEqual(entry.default_model, "a/m")

    async def invoked(self, resume: str | None = None, **changes: Any) -> Any:
        """How a launch is started."""
        agent = PiAgent(reactor, self.path, FakeCredentials(ENDPOINT))
        return await agent._invoke(a_launch("hi", **changes), resume, False)

    async def test_another_process_where_it_must_be(self) -> None:
        """For another directory, endpoint or model of one; not for a model of Pi's own."""
        routed = {"model": "end:m", "api_provider_id": "p", "model_endpoint_id": "end"}
        first = await self.invoked(model="a/b")
        self.assertEqual((await self.invoked("s", model="a/c")).key, first.key)
        keys = [first.key]
        for changes in (
            {"project_path": "/x"},
            routed,
            {**routed, "model": "end:n"},
            {**routed, "thinking_mode": "low"},
        ):
            key = (await self.invoked(**changes)).key
            self.assertNotIn(key, keys)
            keys.append(key)

    async def test_command_line(self) -> None:
        """The extension is always there, and a session is never begun anew instead of resumed."""
        fresh, resumed = await self.invoked(), await self.invoked("s")
        for one in (fresh, resumed):
            self.assertIn(GATE_FILE, one.command)
            self.assertTrue(Path(GATE_FILE).is_file())
        self.assertEqual(list(resumed.command)[-2:], ["--session", "s"])
        self.assertEqual(fresh.command[-2], "--session-id")

    async def test_a_program_that_is_gone(self) -> None:
        """It is named."""
        agent = PiAgent(reactor, {**self.path, "GARCON_PI_BINARY": "none"})
        with self.assertRaises(GarconError) as caught:
            await agent._invoke(a_launch("hi"), None, False)
        self.assertIn("'none' was not found", caught.exception.text)

    def test_sessions(self) -> None:
        """Found where Pi keeps them, in whatever directory; a name is no pattern."""
        home = {"HOME": str(self.root)}
        kept = self.root / ".pi/agent/sessions/--x--"
        kept.mkdir(parents=True)
        (kept / "2026_s1.jsonl").write_text("")
        self.assertTrue(has_session("s1", home))
        for name in ("s2", "s?", "*"):
            self.assertFalse(has_session(name, home), name)
        self.assertFalse(has_session("s1", {**home, "PI_CODING_AGENT_DIR": "/none"}))
        flat = {"PI_CODING_AGENT_SESSION_DIR": str(kept)}
        self.assertTrue(has_session("s1", {**home, **flat}))


class Told(TestCase):
    def provider(self, endpoint: ResolvedEndpoint = ENDPOINT) -> Any:
        """What the extension is told."""
        return json.loads(variables(endpoint, "m", thinks=False)[VARIABLE])

    def test_endpoint(self) -> None:
        """Each protocol by Pi's name of it."""
        told = self.provider()
        self.assertEqual((told["api"], told["apiKey"]), ("openai-completions", "sk-1"))
        self.assertEqual(told["baseUrl"], "https://models.example/v1")
        self.assertEqual(told["headers"], {"X-Team": "$$t"})
        only = Capabilities(chat_completions=False, responses=True)
        responses = self.provider(structs.replace(ENDPOINT, capabilities=only))
        self.assertEqual(responses["api"], "openai-responses")
        changed = structs.replace(ENDPOINT, protocol="anthropic-messages", api_key=None)
        messages = self.provider(changed)
        self.assertEqual(messages["baseUrl"], "https://models.example")
        self.assertEqual((messages["api"], messages["apiKey"]), ("anthropic-messages", "none"))

    def test_models(self) -> None:
        """Pi's own choice first; what has no name is none."""
        state = {"model": {"provider": "b", "id": "x/y"}}
        models = read(
            state,
            {
                "models": [
                    {"provider": "a", "id": "m", "name": "M", "input": ["text"]},
                    {"provider": "b", "id": "x/y", "input": ["text", "image"]},
                    {"id": "nobody's"},
                    7,
                ]
            },
        )
        told = [(one.value, one.label, one.supports_images) for one in models]
        self.assertEqual(told, [("b/x/y", "x/y (b)", True), ("a/m", "M (a)", False)])
