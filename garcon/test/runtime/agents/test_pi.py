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

from garcon.contract.agents import AgentAuth
from garcon.contract.providers import Capabilities, ResolvedEndpoint
from garcon.contract.runs import ForkPoint
from garcon.errors import GarconError
from garcon.runtime.agents.pi import FORK_AT, GATE_FILE, MODES, Beginning, PiAgent, beginning
from garcon.runtime.agents.pi_auth import UNKNOWN, read_status
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
        self.assertIsNone(await PiAgent(reactor, {"PATH": "/nowhere"}).entry({}))

    async def test_one_that_does_not_run(self) -> None:
        """What it says is the reason, such as that its Node is too old."""
        self.program.write_text("#!/bin/sh\necho too old >&2\nexit 1\n")
        agent = PiAgent(reactor, self.path)
        for _ in range(2):
            with self.assertRaises(GarconError) as caught:
                await agent.entry(self.path)
            self.assertIn("too old", caught.exception.text)

    def answers(self, before: str = "") -> PiAgent:
        """Let the program tell one model."""
        state, models = (
            json.dumps({"type": "response", "id": name, "data": data})
            for name, data in (
                ("state", {}),
                ("models", {"models": [{"provider": "a", "id": "m"}]}),
            )
        )
        self.program.write_text(
            f"#!/bin/sh\n{before}\necho '{state}'\necho '{models}'\nexec cat > /dev/null\n"
        )
        return PiAgent(reactor, {"PATH": f"{self.root}/bin:/usr/bin:/bin"})

    async def test_a_question_that_is_given_up(self) -> None:
        """Whoever else waited asks again, and is told."""
        asked = self.root / "asked"
        agent = self.answers(f"[ -e {asked} ] || {{ : > {asked}; exec cat > /dev/null; }}")
        first, second = agent.entry(self.path), agent.entry(self.path)
        while not asked.exists():
            await deferLater(reactor, 0.01)
        first.cancel()
        await self.assertFailure(first, CancelledError)
        entry = await second
        assert entry is not None
        self.assertEqual(entry.default_model, "a/m")

    async def test_only_what_the_contract_has_of_it_is_offered(self) -> None:
        """No plans and no pictures of its own (control.md A.6); it moves with its session."""
        entry = await self.answers().entry(self.path)
        assert entry is not None
        self.assertEqual(entry.supported_permission_modes, MODES)
        self.assertNotIn("plan", MODES)
        self.assertEqual((len(MODES), entry.supports_images, entry.generation), (4, False, None))
        self.assertTrue(entry.supports_update_project_path)
        self.assertTrue(entry.requires_native_path_for_project_path_update)
        self.assertTrue(entry.requires_strict_model_discovery)

    async def test_its_account_is_asked_of_it(self) -> None:
        """Each time anew, in the environment of its processes; where it says nothing, that is
        told.
        """
        agent = self.answers('[ "$KEY" ] || exit 1')
        environment = {"PATH": "/usr/bin:/bin"}
        told = await agent.auth(environment | {"KEY": "1"})
        self.assertEqual(told, AgentAuth(True, False, "a", "agent"))
        self.assertEqual(await agent.auth(environment), UNKNOWN)
        self.program.unlink()
        self.assertEqual(await agent.auth(environment), UNKNOWN)

    async def invoked(self, resume: str | None = None, **changes: Any) -> Any:
        """How a launch is started."""
        agent = PiAgent(reactor, self.path, FakeCredentials(ENDPOINT))
        launch = a_launch("hi", **changes)
        return await agent._invoke(launch, beginning(launch, resume, {"HOME": str(self.root)}))

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
            await agent._invoke(a_launch("hi"), Beginning(()))
        self.assertIn("'none' was not found", caught.exception.text)

    def keep(self, session: str, directory: str) -> str:
        """Have a session with an entry, and return its file."""
        kept = self.root / ".pi/agent/sessions/--x--"
        kept.mkdir(parents=True, exist_ok=True)
        path = kept / f"2026_{session}.jsonl"
        header = {"type": "session", "version": 3, "id": session, "cwd": directory}
        entry = {"type": "message", "id": "e1", "parentId": None}
        path.write_text(f"{json.dumps(header)}\n{json.dumps(entry)}\n")
        return str(path)

    def begun(self, resume: str | None = None, point: ForkPoint | None = None) -> Beginning:
        """How a session is begun in a directory."""
        launch = a_launch("hi", project_path="/srv/project", fork_from=point)
        return beginning(launch, resume, {"HOME": str(self.root)})

    def test_a_session_is_taken_up_where_it_was_begun(self) -> None:
        """In another directory it is copied; one that is not there is for Pi to refuse."""
        self.keep("here", "/srv/project")
        there = self.keep("there", "/srv/elsewhere")
        self.assertEqual(self.begun("here"), Beginning(("--session", "here")))
        self.assertEqual(self.begun("gone"), Beginning(("--session", "gone")))
        moved = self.begun("there")
        self.assertEqual((moved.options[0], moved.options[2:]), ("--session-id", ("--fork", there)))
        self.assertEqual((moved.is_fork, moved.fork_at), (True, None))

    async def test_a_fork_begins_behind_an_entry(self) -> None:
        """Which our extension is told of; one that cannot be made is a session of its own."""
        source = self.keep("here", "/srv/project")
        for anchor in ("e1", None):
            fork = self.begun(point=ForkPoint("here", anchor))
            self.assertEqual(fork.options[2:], ("--fork", source))
            self.assertEqual((fork.is_fork, fork.fork_at), (True, anchor))
            agent = PiAgent(reactor, self.path)
            invocation = await agent._invoke(a_launch("hi"), fork)
            self.assertEqual(invocation.environment.get(FORK_AT), anchor)
        for point in (ForkPoint("here", "gone"), ForkPoint("gone")):
            lost = self.begun(point=point)
            self.assertEqual((lost.options[0], lost.options[2:]), ("--session-id", ()))
            self.assertEqual((lost.is_fork, lost.fork_at), (False, None))


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

    def test_account(self) -> None:
        """Named by the providers that it has a login or a key for; the one in use first."""

        def told(*providers: str, used: str = "") -> AgentAuth:
            listed = {"models": [{"provider": name, "id": "m"} for name in providers] + [7, {}]}
            return read_status({"model": {"provider": used, "id": "m"}}, listed)

        self.assertEqual(told("a", "b", "a", used="b"), AgentAuth(True, False, "b, a", "agent"))
        self.assertEqual(told(*"abcde").label, "a, b, c and 2 more")
        self.assertEqual(told(), AgentAuth(False, False, "Not signed in", "agent"))
        self.assertEqual(read_status({}, {}), told())
