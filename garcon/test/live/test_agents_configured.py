"""Agents by configuration alone, with real services: the scripted one under another name."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet import reactor
from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

import garcon
from garcon.contract.providers import ResolvedEndpoint
from garcon.runtime.agents.acp import AcpAgent, scripted_manifest
from garcon.runtime.agents.endpoint_variables import EndpointVariables
from garcon.runtime.executor import LocalRuntime
from garcon.runtime.interfaces import ICredentials
from garcon.test.live.fleets import FleetTestCase
from garcon.testing.fleet import Service
from garcon.testing.local_runtimes import RuntimeCase

AGENT = """
[agents.mine]
command = [{python}, "-P", "-m", "garcon.testing.scripted_agent"]
label = "My agent"
models = ["scripted"]

[agents.mine.environment]
PYTHONPATH = {path}
MY_OWN = "from the file"

[agents.absent]
command = ["no-such-program"]
"""


class ConfiguredAgentTests(FleetTestCase):
    def write(self, config: Path, text: str | None = None) -> None:
        config.mkdir(exist_ok=True)
        whole = AGENT.format(
            python=json.dumps(sys.executable),
            path=json.dumps(str(Path(garcon.__file__).parents[1])),
        )
        (config / "agents.toml").write_text(whole if text is None else text)

    def turn(self, service: Service, *options: str) -> str:
        done = self.fleet.garcon(
            service,
            *("start", "--agent", "acp-mine", "--model", "scripted", *options),
            *(
                "--cwd",
                str(self.fleet.project("project")),
                "run echo $MY_OWN $GARCON_RUNTIME\nsay done",
            ),
        )
        chat, _ = done.handle()
        results = [row for row in self.rows(service, chat) if row["type"] == "tool-result"]
        text: str = results[0]["content"]["text"].strip()
        return text

    def test_on_the_controller_and_on_a_worker(self) -> None:
        """Each machine has those of its own file; one whose program is missing is not there."""
        self.write(self.fleet.root / "controller")
        self.write(self.fleet.root / "worker")
        controller, _, executor_id = self.fleet.pair()
        self.assertEqual(self.turn(controller), "from the file controller")
        self.assertEqual(self.turn(controller, "--executor", executor_id), "from the file executor")
        agents = self.fleet.garcon(controller, "list", "agents", "--json").json
        names = json.dumps(agents)
        self.assertIn("acp-mine", names)
        self.assertNotIn("acp-absent", names)
        self.assertNotIn("from the file", names)

    def test_a_wrong_file(self) -> None:
        """Neither role starts, and says in one line where the mistake is."""
        for folder, start in (
            ("controller", lambda: self.fleet.controller(wait=False)),
            ("worker", lambda: self.fleet.worker("--listen", "0", "--no-tls", wait=False)),
        ):
            config = self.fleet.root / folder
            self.write(config, "[agents.mine]\ncommand = ['x']\nenvironment = {A_KEY = ['hidden']}")
            service = start()
            self.assertEqual(service.process.wait(20), 1)
            lines = [line for line in service.output.text().splitlines() if "Failed" in line]
            self.assertEqual(len(lines), 1, service.output.text())
            self.assertIn(f"{config}/agents.toml: agents.mine.environment.A_KEY", lines[0])
            self.assertNotIn("hidden", service.output.text())


@implementer(ICredentials)
class OneEndpoint:
    """Knows one endpoint, with a key."""

    def resolve(self, profile_id: str, endpoint_id: str) -> Deferred[ResolvedEndpoint]:
        endpoint = ResolvedEndpoint(
            protocol="openai-compatible",
            base_url="http://host/v1",
            api_key="hidden-key",
            revision=1,
        )
        return succeed(endpoint)


class EndpointTests(RuntimeCase):
    """A profile's endpoint, passed as the file says."""

    async def test_it_is_in_the_agent_s_variables(self) -> None:
        """Address, key and model; what the agent says of the key is taken out, and another model
        gets a process of its own.
        """
        shipped = scripted_manifest(sys.executable, {})
        manifest = evolve(
            shipped,
            id="acp-mine",
            endpoint=EndpointVariables(
                ("openai-compatible",), {"AT": "{url}", "KEY": "<{key}>", "MODEL": "{model}"}
            ),
        )
        variables = self.environment
        runtime = LocalRuntime(
            reactor,
            "instance",
            str(self.project),
            variables,
            "controller",
            str(self.project / "config"),
            [AcpAgent(reactor, manifest, variables, OneEndpoint())],
        )
        self.addCleanup(runtime.stop)
        wanted: dict[str, Any] = {
            "agent_id": "acp-mine",
            "api_provider_id": "p",
            "model_endpoint_id": "e",
            "model_protocol": "openai-compatible",
        }
        ask = "run echo $AT $KEY $MODEL; printenv KEY | wc -c; echo $PPID >> pids"
        sink = await self.turn(runtime, ask, model="e:small", **wanted)
        told = sink.results[0][0].split()
        self.assertEqual(told, ["http://host/v1", "<[secret]>", "small", "13"])
        more = {**wanted, "agent_session_id": sink.session_id}
        await self.turn(runtime, ask, model="e:small", **more)
        await self.turn(runtime, ask, model="e:large", **more)
        pids = (self.project / "pids").read_text().split()
        self.assertEqual((pids[0], len(set(pids))), (pids[1], 2))
