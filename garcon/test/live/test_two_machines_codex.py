"""The real Codex between two roles, against a pretend model server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from garcon.test.live.codex_cases import running
from garcon.test.live.fleets import FleetTestCase, program_of
from garcon.testing.codex_cli import CODEX, MODEL, scripted_environment
from garcon.testing.fleet import Service, eventually


def shell(command: str, **more: Any) -> dict[str, Any]:
    """Return a call of Codex's shell."""
    return {"tool": "exec_command", "args": {"cmd": command, "yield_time_ms": 60_000, **more}}


def escalated(command: str) -> dict[str, Any]:
    """Return one that needs permission."""
    why = {"sandbox_permissions": "require_escalated", "justification": "it has to be so"}
    return shell(command, **why)


TURNS: list[Any] = [
    ["I will leave a file.", escalated("touch was-here")],
    "The file is there.",
    [shell("garcon list agents; echo exit $?")],
    "I could not ask Garcon.",
    [escalated("garcon list agents; echo exit $?")],
    "I have asked Garcon.",
    "I remember.",
    "There too.",
]


class CodexTests(FleetTestCase):
    """Turns with calls and a permission, and `garcon` as Codex's own commands may use it."""

    def setUp(self) -> None:
        program = program_of(CODEX)
        super().setUp()
        self.models = self.fleet.model_server(self.script())
        self.environment = {
            **scripted_environment(self.fleet.root / "codex", self.models.port),
            "GARCON_CODEX_CLI": program,
            "PATH": f"{self.commands()}:{os.environ['PATH']}",
        }

    def script(self) -> Path:
        """Write what the model says."""
        path = self.fleet.root / "model.json"
        path.write_text(json.dumps({"fallback": "ok"}))
        return path

    def a_worker(self) -> tuple[Service, Service]:
        """Start a controller without Codex, and a worker with it."""
        controller = self.fleet.controller()
        executor_id = self.fleet.executor(
            controller,
            *("--label", "workshop", "--direction", "executor-connects", "--no-tls", "true"),
        )
        url = self.fleet.garcon(controller, "executor", "connection", executor_id).out.strip()
        worker = self.fleet.worker("--no-tls", url=url, environment=self.environment)
        self.fleet.await_executor(controller, executor_id)
        return controller, worker

    def run_turns(self, service: Service) -> None:
        """Start, answer questions, wait, and resume, all beside one service."""
        self.control("turns", TURNS)
        project = self.fleet.project("codex")
        done = self.fleet.garcon(
            service,
            *("start-async", "--agent", "codex", "--model", MODEL),
            *("--permissions", "default", "--cwd", str(project), "Leave a file."),
        )
        chat, turn = done.handle()
        self.assertEqual(
            self.request(service, chat)["message"]["requestedTool"]["command"], "touch was-here"
        )
        self.assertFalse((project / "was-here").exists())
        self.decide(service, chat, "allow")
        done = self.fleet.garcon(service, "wait", chat, "--turn", turn)
        self.assertIn("The file is there.", done.out)
        self.assertTrue((project / "was-here").exists())
        self.in_the_sandbox(service, chat)
        self.outside_of_it(service, chat)
        done = self.fleet.garcon(service, "resume", chat, "Do you remember?")
        self.assertIn("I remember.", done.out)
        self.forked(service, chat)

    def in_the_sandbox(self, service: Service, chat: str) -> None:
        """A command without network says that it has none, and what to do."""
        done = self.fleet.garcon(service, "resume", chat, "Ask Garcon.")
        self.assertIn("I could not ask Garcon.", done.out)
        result = self.results(service, chat)[-1]
        self.assertIn("this command is kept from the network", result)
        self.assertIn("have it run with network access", result)
        self.assertNotIn("crashed", result)
        self.assertIn("exit 3", result)

    def outside_of_it(self, service: Service, chat: str) -> None:
        """One that may leave the sandbox finds the endpoint of its own machine."""
        done = self.fleet.garcon(service, "resume-async", chat, "Ask again, outside.")
        turn = done.out.partition("turn id: ")[2].strip()
        self.request(service, chat)
        self.decide(service, chat, "allow")
        self.fleet.garcon(service, "wait", chat, "--turn", turn)
        result = self.results(service, chat)[-1]
        self.assertIn("codex", result)
        self.assertIn("exit 0", result)

    def forked(self, service: Service, chat: str) -> None:
        """A fork of the chat is one of Codex's thread: nothing has to be told again."""
        done = self.fleet.garcon(service, "fork", chat, "And in another chat?")
        self.assertIn("There too.", done.out)
        asked = json.dumps(self.bodies()[-1]["input"])
        self.assertIn("Leave a file.", asked)
        self.assertIn("touch was-here", asked)
        self.assertNotIn("Below is the conversation of this chat so far", asked)

    def bodies(self) -> list[dict[str, Any]]:
        """What the model was asked."""
        found: list[dict[str, Any]] = self.control("bodies")
        return found

    def control(self, path: str, body: Any = None) -> Any:
        """Ask the model server's own routes."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.models.url}/_script/{path}", data)
        with urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def results(self, service: Service, chat: str) -> list[str]:
        """What the chat's calls gave."""
        rows = self.rows(service, chat)
        return [row["content"]["text"] for row in rows if row["type"] == "tool-result"]

    def test_on_local(self) -> None:
        """On the controller's own machine."""
        self.run_turns(self.fleet.controller(environment=self.environment))

    def test_on_a_worker(self) -> None:
        """On a worker, from its own shell, through the gateway."""
        _, worker = self.a_worker()
        self.run_turns(worker)

    def test_input_and_a_stop_over_the_link(self) -> None:
        """Input joins a turn that runs on the worker, and a stop ends what it runs there."""
        command = f"sleep 303.{os.getpid()}"
        self.control("turns", [[{"text": "part "}, {"hold": "never"}], [shell(command)]])
        _, worker = self.a_worker()
        project = self.fleet.project("codex")
        chat, turn = self.fleet.garcon(
            worker,
            *("start-async", "--agent", "codex", "--model", MODEL),
            *("--permissions", "default", "--cwd", str(project), "Talk."),
        ).handle()
        eventually("the model's request", lambda: len(self.bodies()) == 1)
        done = self.fleet.garcon(worker, "resume-async", chat, "--allow-steer", "Run it.")
        self.assertIn("delivery: steer", done.out)
        eventually("the command", lambda: running(command))
        self.fleet.garcon(worker, "stop", chat)
        eventually("the end of the command", lambda: not running(command))
        self.fleet.garcon(worker, "wait", chat, "--turn", turn, check=False)
        self.assertIn("Run it.", json.dumps(self.bodies()[1]["input"]))
        kinds = [row["type"] for row in self.rows(worker, chat)]
        self.assertEqual(kinds.count("user-message"), 2)
        self.assertIn("bash-tool-use", kinds)
