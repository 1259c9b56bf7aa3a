"""`garcon demo`: a controller and a worker at work in a temporary folder, each step with its time.

Everything runs as real processes on loopback: a controller that speaks TLS under a throw-away
authority, a worker that dials it, and the command as a person would type it on either side.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

from garcon.contract.version import VERSION
from garcon.testing.certificates import make_authority
from garcon.testing.claude_code import install, scripted_environment
from garcon.testing.fleet import Finished, Fleet, Service, eventually, expect
from garcon.testing.npm_agents import NotInstalled

WORKER_PROMPT = "say I am on the worker.\nask uname -s\nsay Done, with your permission."
CONTROLLER_PROMPT = "say I am on the controller."
MODEL_SCRIPT = {
    "turns": [
        ["I will leave a file.", {"tool": "Bash", "args": {"command": "touch was-here"}}],
        "Done, with your permission.",
        "I am on the controller.",
    ],
    "fallback": "ok",
}
"""What the pretend model server answers Claude Code, turn by turn."""


@define
class Show:
    """Prints each step with the time since the start and, where it took any, its own."""

    _began: float = field(factory=time.monotonic)
    _last: float = field(factory=time.monotonic)

    def step(self, text: str) -> None:
        """Say that something is done."""
        now = time.monotonic()
        print(f"{now - self._began:6.2f} s  (+{now - self._last:.2f})  {text}", flush=True)
        self._last = now

    def typed(self, where: str, arguments: tuple[str, ...]) -> None:
        """Show a command as a person would type it."""
        print(f"\n    {where}$ garcon {shlex.join(arguments)}", flush=True)

    def printed(self, text: str) -> None:
        """Show what a command printed."""
        for line in text.splitlines():
            print(f"    {line}", flush=True)

    def heading(self, text: str) -> None:
        """Begin a part."""
        print(f"\n{text}\n{'-' * len(text)}", flush=True)


@define(eq=False)
class Demo:
    """The two services, and what is typed beside them."""

    show: Show
    fleet: Fleet
    agent: str
    model: str
    environment: Mapping[str, str] = field(factory=dict)

    def type(self, service: Service, *arguments: str) -> Finished:
        """Run a command as if typed in a shell beside a service, and show both."""
        self.show.typed(service.name, arguments)
        done = self.fleet.garcon(service, *arguments)
        self.show.printed(done.out)
        return done

    def start_services(self) -> tuple[Service, Service]:
        """Bring up a controller and a worker that dials it over TLS."""
        authority = make_authority(self.fleet.root / "certificates")
        certificate, key = authority.issue("localhost")
        self.show.step("made a throw-away certificate authority and a certificate for localhost")
        controller = self.fleet.controller(
            *("--tls-cert", str(certificate), "--tls-private-key", str(key)),
            environment=self.environment,
        )
        self.show.step(f"the controller is ready: {controller.url}")
        made = self.type(
            controller,
            *("executor", "create", "--label", "workshop", "--direction", "executor-connects"),
            *("--advertise-url", f"wss://localhost:{controller.port}/executor/{{executorId}}"),
            *("--allow-controller-cli", "true", "--json"),
        )
        executor_id: str = made.json["id"]
        self.show.step("the worker's account may now use the command: that is command execution")
        url = self.fleet.garcon(controller, "executor", "connection", executor_id).out.strip()
        worker = self.fleet.worker(
            url=url, environment={**self.environment, "SSL_CERT_FILE": str(authority.certificate)}
        )
        self.type(controller, "executor", "wait", executor_id, "--ready")
        self.show.step("the worker has dialled in over TLS, and both proved the shared secret")
        return controller, worker

    def started(self, service: Service, project: Path, prompt: str) -> tuple[str, str]:
        """Start a chat beside a service without waiting; return its chat and turn."""
        done = self.type(
            service,
            *("start-async", "--agent", self.agent, "--model", self.model),
            *("--permissions", "default", "--cwd", str(project), prompt),
        )
        return done.handle()

    def permission(self, service: Service, chat: str) -> None:
        """Wait for the agent's question and allow it, from the same shell."""

        def asked() -> Any:
            snapshot = self.fleet.garcon(service, "status", chat, "--json").json
            rows = snapshot["transientFeed"]["rows"]
            return (snapshot["control"]["serverInstanceId"], rows[0]) if rows else None

        instance, row = eventually("a permission request", asked)
        tool = row["message"]["requestedTool"]
        self.show.step(f"the agent asks before it runs: {tool.get('command', tool['type'])}")
        self.type(
            service,
            *("permission-decision", chat, row["permissionOccurrenceId"], "allow"),
            *("--run", row["runId"], "--server-instance", instance),
        )

    def run(self) -> None:
        """Show everything, in order."""
        self.show.heading("Two services")
        controller, worker = self.start_services()
        project = self.fleet.project("demo")

        self.show.heading("A turn from the worker's side, through its gateway")
        prompt = WORKER_PROMPT if self.agent == "scripted" else "Leave a file here."
        chat, turn = self.started(worker, project, prompt)
        self.show.step("accepted: durable on the controller, running on the worker")
        self.permission(worker, chat)
        self.type(worker, "wait", chat, "--turn", turn)
        self.show.step("the answer came back to the worker's shell")

        self.show.heading("A turn from the controller's side")
        prompt = CONTROLLER_PROMPT if self.agent == "scripted" else "Where are you?"
        self.type(
            controller,
            *("start", "--agent", self.agent, "--model", self.model, "--cwd", str(project)),
            prompt,
        )
        self.show.step("the same command, on the controller's own machine")

        self.show.heading("Clean up")
        for service in (worker, controller):
            status = service.stop()
            self.show.step(f"the {service.name} ended with status {status}")
            expect(status == 0, service.output.text())
        left = self.fleet.left_over()
        expect(not left, f"processes are left: {left}")


def _claude(fleet: Fleet, show: Show) -> dict[str, str]:
    """Find Claude Code and start the pretend model server; return what makes the one use the other.

    Without one of the user's own it is the pinned one, which npm installs into a cache.
    """
    binary = os.environ.get("CLAUDE_BINARY") or shutil.which("claude") or install()
    show.step(f"Claude Code is {binary}")
    script = fleet.root / "model.json"
    script.write_text(json.dumps(MODEL_SCRIPT))
    server = fleet.model_server(script)
    return {
        **scripted_environment(fleet.root / "claude", server.port),
        "CLAUDE_BINARY": binary,
    }


def main(arguments: list[str]) -> int:
    """Run the demo; 0 when every step worked."""
    parser = argparse.ArgumentParser(
        prog="garcon demo", description="Show a controller and a worker at work, then clean up."
    )
    parser.add_argument(
        "--agent",
        choices=("scripted", "claude"),
        default="scripted",
        help="claude drives the real Claude Code against a pretend model server",
    )
    agent: str = parser.parse_args(arguments).agent
    print(f"Garcon {VERSION}: one controller, one worker, one turn from each side")
    show = Show()
    try:
        with Fleet() as fleet:
            environment: dict[str, str] = {}
            if agent == "claude":
                environment = _claude(fleet, show)
                show.step(f"a pretend model server is ready: {environment['ANTHROPIC_BASE_URL']}")
            model = "scripted" if agent == "scripted" else "sonnet"
            Demo(show, fleet, agent, model, environment).run()
    except NotInstalled as error:
        print(f"garcon demo: no Claude Code: {error}", file=sys.stderr)
        return 2
    except AssertionError as error:
        print(f"garcon demo: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return 1
    show.step("nothing is left: both turns were shown")
    return 0
