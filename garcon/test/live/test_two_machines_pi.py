"""The real Pi on a worker, against a pretend model server."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.request import Request, urlopen

from garcon.test.live.codex_cases import running
from garcon.test.live.fleets import FleetTestCase, program_of
from garcon.testing.fleet import eventually
from garcon.testing.pi_coding_agent import MODEL, PI, found_by, scripted_environment


def bash(command: str) -> dict[str, Any]:
    """Return a call of Pi's shell."""
    return {"tool": "bash", "args": {"command": command}}


class PiTests(FleetTestCase):
    """Over the link: a permission, what is remembered, the command's own gateway, and a stop."""

    def setUp(self) -> None:
        program = program_of(PI)
        super().setUp()
        script = self.fleet.root / "model.json"
        script.write_text(json.dumps({"fallback": "ok"}))
        self.models = self.fleet.model_server(script)
        self.environment = {
            **scripted_environment(self.fleet.root / "pi", self.models.port),
            **found_by(program),
            "PATH": f"{self.commands()}:{os.environ['PATH']}",
        }

    def control(self, path: str, body: Any = None) -> Any:
        """Ask the model server's own routes."""
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"{self.models.url}/_script/{path}", data), timeout=20) as answer:
            return json.load(answer)

    def test_on_a_worker(self) -> None:
        """A command waits for the answer, a second turn remembers, a tool's `garcon` finds its
        gateway, and a stop ends a command.
        """
        command = f"sleep 305.{os.getpid()}"
        turns = [[bash("touch was-here")], "It is there.", "I remember."]
        turns += [[bash("garcon list agents; echo exit $?")], "So.", [bash(command)]]
        self.control("turns", turns)
        controller = self.fleet.controller()
        executor_id = self.fleet.executor(
            controller,
            *("--label", "workshop", "--direction", "executor-connects", "--no-tls", "true"),
        )
        url = self.fleet.garcon(controller, "executor", "connection", executor_id).out.strip()
        worker = self.fleet.worker("--no-tls", url=url, environment=self.environment)
        self.fleet.await_executor(controller, executor_id)
        project = self.fleet.project("pi")
        chat, turn = self.fleet.garcon(
            worker,
            *("start-async", "--agent", "pi", "--model", MODEL),
            *("--permissions", "default", "--cwd", str(project), "Leave a file."),
        ).handle()
        asked = self.request(worker, chat)
        self.assertEqual(asked["message"]["requestedTool"]["command"], "touch was-here")
        self.assertFalse((project / "was-here").exists())
        self.decide(worker, chat, "allow")
        done = self.fleet.garcon(worker, "wait", chat, "--turn", turn)
        self.assertIn("It is there.", done.out)
        self.assertTrue((project / "was-here").exists())
        self.assertIn("I remember.", self.fleet.garcon(worker, "resume", chat, "And?").out)
        self.assertIn("Leave a file.", json.dumps(self.control("bodies")[-1]))
        begun = self.fleet.garcon(worker, "resume-async", chat, "Look.").out
        turn = begun.partition("turn id: ")[2].split()[0]
        self.request(worker, chat)
        self.decide(worker, chat, "allow")
        self.fleet.garcon(worker, "wait", chat, "--turn", turn)
        told = json.dumps(self.control("bodies")[-1])
        self.assertIn("exit 0", told)
        self.assertIn("scripted/m1", told)
        self.fleet.garcon(worker, "resume-async", chat, "Run it.")
        self.request(worker, chat)
        self.decide(worker, chat, "allow")
        eventually("the command", lambda: running(command))
        self.fleet.garcon(worker, "stop", chat)
        eventually("the end of the command", lambda: not running(command))
