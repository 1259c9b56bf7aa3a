"""The real Claude Code between two roles, against a pretend model server."""

from __future__ import annotations

import json

from garcon.test.live.fleets import FleetTestCase, claude_code
from garcon.testing.claude_code import scripted_environment
from garcon.testing.fleet import Service

SCRIPT = {
    "turns": [
        ["I will leave a file.", {"tool": "Bash", "args": {"command": "touch was-here"}}],
        "The file is there.",
        "I remember.",
    ],
    "fallback": "ok",
}


class ClaudeTests(FleetTestCase):
    """A tool call, a permission asked and answered, and a second turn in the same session."""

    def setUp(self) -> None:
        claude = claude_code()
        super().setUp()
        script = self.fleet.root / "model.json"
        script.write_text(json.dumps(SCRIPT))
        server = self.fleet.model_server(script)
        self.environment = {
            **scripted_environment(self.fleet.root / "claude", server.port),
            "CLAUDE_BINARY": claude,
        }

    def run_turns(self, service: Service, *executor: str) -> None:
        """Start, answer the question, wait, and resume, all beside one service."""
        project = self.fleet.project("claude")
        done = self.fleet.garcon(
            service,
            *("start-async", "--agent", "claude", "--model", "sonnet", *executor),
            *("--permissions", "default", "--cwd", str(project), "Leave a file."),
        )
        chat, turn = done.handle()
        self.assertEqual(
            self.request(service, chat)["message"]["requestedTool"]["type"], "bash-tool-use"
        )
        self.assertFalse((project / "was-here").exists())
        self.decide(service, chat, "allow")
        done = self.fleet.garcon(service, "wait", chat, "--turn", turn)
        self.assertIn("The file is there.", done.out)
        self.assertTrue((project / "was-here").exists())
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
        controller = self.fleet.controller()
        executor_id = self.fleet.executor(
            controller,
            *("--label", "workshop", "--direction", "executor-connects", "--no-tls", "true"),
        )
        url = self.fleet.garcon(controller, "executor", "connection", executor_id).out.strip()
        worker = self.fleet.worker("--no-tls", url=url, environment=self.environment)
        self.fleet.await_executor(controller, executor_id)
        self.run_turns(worker)
