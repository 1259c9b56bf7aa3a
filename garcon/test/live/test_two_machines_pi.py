"""The real Pi on a worker, against a pretend model server."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from garcon.test.live.agent_fleets import AgentFleetCase
from garcon.test.live.codex_cases import running
from garcon.testing.fleet import eventually
from garcon.testing.pi_coding_agent import MODEL, PI, found_by, scripted_environment


def bash(command: str) -> dict[str, Any]:
    """Return a call of Pi's shell."""
    return {"tool": "bash", "args": {"command": command}}


class PiTests(AgentFleetCase):
    """Over the link: a permission, what is remembered, the command's own gateway, and a stop."""

    agent, agent_id, model = PI, "pi", MODEL

    def variables(self, program: str, home: Path, port: int) -> Mapping[str, str]:
        return {**scripted_environment(home, port), **found_by(program)}

    def test_on_a_worker(self) -> None:
        """A command waits for the answer, a second turn remembers, a tool's `garcon` finds its
        gateway, and a stop ends a command.
        """
        command = f"sleep 305.{os.getpid()}"
        turns = [[bash("touch was-here")], "It is there.", "I remember."]
        turns += [[bash("garcon list agents; echo exit $?")], "So.", [bash(command)]]
        self.control("turns", turns)
        worker = self.a_worker()
        chat = self.leave_a_file(worker, "It is there.")
        self.assertIn("I remember.", self.fleet.garcon(worker, "resume", chat, "And?").out)
        self.assertIn("Leave a file.", json.dumps(self.bodies()[-1]))
        self.allow(worker, chat, self.go_on(worker, chat, "Look."))
        told = json.dumps(self.bodies()[-1])
        self.assertIn("exit 0", told)
        self.assertIn("scripted/m1", told)
        self.go_on(worker, chat, "Run it.")
        self.request(worker, chat)
        self.decide(worker, chat, "allow")
        eventually("the command", lambda: running(command))
        self.fleet.garcon(worker, "stop", chat)
        eventually("the end of the command", lambda: not running(command))
