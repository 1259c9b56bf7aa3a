"""The real Claude Code between two roles, against a pretend model server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from garcon.test.live.agent_fleets import AgentFleetCase
from garcon.testing.claude_code import CLAUDE_CODE, scripted_environment
from garcon.testing.fleet import Service

TURNS = [
    ["I will leave a file.", {"tool": "Bash", "args": {"command": "touch was-here"}}],
    "The file is there.",
    "I remember.",
]


class ClaudeTests(AgentFleetCase):
    """A tool call, a permission asked and answered, and a second turn in the same session."""

    agent, agent_id, model = CLAUDE_CODE, "claude", "sonnet"

    def variables(self, program: str, home: Path, port: int) -> Mapping[str, str]:
        return {**scripted_environment(home, port), "CLAUDE_BINARY": program}

    def run_turns(self, service: Service) -> None:
        """Start, answer the question, wait, and resume, all beside one service."""
        self.control("turns", TURNS)
        chat = self.leave_a_file(service, "The file is there.")
        done = self.fleet.garcon(service, "resume", chat, "Do you remember?")
        self.assertIn("I remember.", done.out)
        self.assertEqual(
            self.said(service, chat), ["I will leave a file.", "The file is there.", "I remember."]
        )

    def test_on_local(self) -> None:
        """On the controller's own machine."""
        self.run_turns(self.fleet.controller(environment=self.environment))

    def test_on_a_worker(self) -> None:
        """On a worker, from its own shell, through the gateway."""
        self.run_turns(self.a_worker())
