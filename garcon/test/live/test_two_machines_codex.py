"""The real Codex between two roles, against a pretend model server."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from garcon.test.live.agent_fleets import AgentFleetCase
from garcon.test.live.codex_cases import running
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


class CodexTests(AgentFleetCase):
    """Turns with calls and a permission, and `garcon` as Codex's own commands may use it."""

    agent, agent_id, model = CODEX, "codex", MODEL

    def variables(self, program: str, home: Path, port: int) -> Mapping[str, str]:
        return {**scripted_environment(home, port), "GARCON_CODEX_CLI": program}

    def run_turns(self, service: Service) -> None:
        """Start, answer questions, wait, and resume, all beside one service."""
        self.control("turns", TURNS)
        chat = self.leave_a_file(service, "The file is there.")
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
        self.allow(service, chat, self.go_on(service, chat, "Ask again, outside."))
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

    def results(self, service: Service, chat: str) -> list[str]:
        """What the chat's calls gave."""
        rows = self.rows(service, chat)
        return [row["content"]["text"] for row in rows if row["type"] == "tool-result"]

    def test_on_local(self) -> None:
        """On the controller's own machine."""
        self.run_turns(self.fleet.controller(environment=self.environment))

    def test_on_a_worker(self) -> None:
        """On a worker, from its own shell, through the gateway."""
        self.run_turns(self.a_worker())

    def test_input_and_a_stop_over_the_link(self) -> None:
        """Input joins a turn that runs on the worker, and a stop ends what it runs there."""
        command = f"sleep 303.{os.getpid()}"
        self.control("turns", [[{"text": "part "}, {"hold": "never"}], [shell(command)]])
        worker = self.a_worker()
        chat, turn = self.begin(worker, "Talk.")
        eventually("the model's request", lambda: len(self.bodies()) == 1)
        done = self.fleet.garcon(worker, "resume-async", chat, "--allow-steer", "Run it.")
        self.assertIn("delivery: steer", done.out)
        eventually("the command", lambda: running(command))
        # Codex tells of a command only after it has begun, and never of one stopped before that.
        eventually("its row", lambda: "bash-tool-use" in self.kinds(worker, chat))
        self.fleet.garcon(worker, "stop", chat)
        eventually("the end of the command", lambda: not running(command))
        self.fleet.garcon(worker, "wait", chat, "--turn", turn, check=False)
        self.assertIn("Run it.", json.dumps(self.bodies()[1]["input"]))
        self.assertEqual(self.kinds(worker, chat).count("user-message"), 2)

    def kinds(self, service: Service, chat: str) -> list[str]:
        """What the chat's rows are."""
        return [row["type"] for row in self.rows(service, chat)]
