"""The cast of an agent's own program between two roles: a pretend model server that is told what
its model says, a controller, a worker, and the turn that leaves a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.request import Request, urlopen

from garcon.test.live.fleets import FleetTestCase, program_of
from garcon.testing.fleet import Service
from garcon.testing.npm_agents import NpmAgent


class AgentFleetCase(FleetTestCase):
    """`environment` is that of the role which has the agent; its commands find `garcon`."""

    agent: ClassVar[NpmAgent]
    agent_id: ClassVar[str]
    model: ClassVar[str]

    def setUp(self) -> None:
        program = program_of(self.agent)
        super().setUp()
        script = self.fleet.root / "model.json"
        script.write_text(json.dumps({"fallback": "ok"}))
        self.models = self.fleet.model_server(script)
        self.environment = {
            **self.variables(program, self.fleet.root / self.agent_id, self.models.port),
            "PATH": f"{self.commands()}:{os.environ['PATH']}",
        }

    def variables(self, program: str, home: Path, port: int) -> Mapping[str, str]:
        """Return what an environment says of the agent."""
        raise NotImplementedError

    def control(self, path: str, body: Any = None) -> Any:
        """Ask the model server's own routes."""
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"{self.models.url}/_script/{path}", data), timeout=20) as answer:
            return json.load(answer)

    def bodies(self) -> list[dict[str, Any]]:
        """What the model was asked."""
        found: list[dict[str, Any]] = self.control("bodies")
        return found

    def a_worker(self) -> Service:
        """Start a controller without the agent, and return a worker with it."""
        controller = self.fleet.controller()
        executor_id = self.fleet.executor(
            controller,
            *("--label", "workshop", "--direction", "executor-connects", "--no-tls", "true"),
        )
        url = self.fleet.garcon(controller, "executor", "connection", executor_id).out.strip()
        worker = self.fleet.worker("--no-tls", url=url, environment=self.environment)
        self.fleet.await_executor(controller, executor_id)
        return worker

    def begin(self, service: Service, prompt: str) -> tuple[str, str]:
        """Begin a chat, in the mode that asks, and return it with its turn."""
        project = self.fleet.project(self.agent_id)
        return self.fleet.garcon(
            service,
            *("start-async", "--agent", self.agent_id, "--model", self.model),
            *("--permissions", "default", "--cwd", str(project), prompt),
        ).handle()

    def go_on(self, service: Service, chat: str, prompt: str) -> str:
        """Begin the chat's next turn and return it."""
        done = self.fleet.garcon(service, "resume-async", chat, prompt)
        return done.out.partition("turn id: ")[2].split()[0]

    def allow(self, service: Service, chat: str, turn: str) -> str:
        """Allow what the turn asks for, and return its answer."""
        self.request(service, chat)
        self.decide(service, chat, "allow")
        return self.fleet.garcon(service, "wait", chat, "--turn", turn).out

    def leave_a_file(self, service: Service, answer: str) -> str:
        """Run the turn whose command ``touch was-here`` is asked about and allowed, and return its
        chat.
        """
        made = self.fleet.project(self.agent_id) / "was-here"
        chat, turn = self.begin(service, "Leave a file.")
        asked = self.request(service, chat)
        self.assertEqual(asked["message"]["requestedTool"]["command"], "touch was-here")
        self.assertFalse(made.exists())
        self.assertIn(answer, self.allow(service, chat, turn))
        self.assertTrue(made.exists())
        return chat
