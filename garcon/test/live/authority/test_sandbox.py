"""From where a worker's commands can be used: the rows of the support matrix (docs/authority).

No sandbox is weakened for it: what may use the machine's loopback network reaches the gateway with
what it inherits, and what may not is told so.  A worker's terminal is in `test_public_worker`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from garcon.test.live.fleets import FleetTestCase, claude_code, codex
from garcon.testing.claude_code import scripted_environment
from garcon.testing.fleet import Service

COMMAND = "garcon start --agent scripted --model scripted 'say from inside'"
SCRIPT = {
    "turns": [
        ["I will start a chat.", {"tool": "Bash", "args": {"command": COMMAND}}],
        "It has answered.",
    ],
    "fallback": "ok",
}
KEPT = "this command is kept from the network"
LOOPBACK_UP = """
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    # SIOCSIFFLAGS, IFF_UP | IFF_RUNNING
    fcntl.ioctl(sock, 0x8914, struct.pack("16sh14x", b"lo", 0x41))
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Sandboxes(FleetTestCase):
    """A pair, and commands beside the worker with less than its account may do."""

    def setUp(self) -> None:
        super().setUp()
        self.controller, self.worker, self.executor_id = self.fleet.pair()
        self.project = self.fleet.project("project")

    def run_inside(
        self, sandbox: Sequence[str], program: Sequence[str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in a sandbox, with what a child of the worker inherits."""
        inherited = {
            "GARCON_CONFIG_DIR": str(self.worker.config),
            "GARCON_RUNTIME": "executor",
            "CODEX_HOME": str(self.fleet.root / "home"),
        }
        return subprocess.run(
            [*sandbox, *program],
            env=self.fleet.environment(inherited),
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def refused(self, sandbox: Sequence[str], *words: str) -> None:
        """A program runs in there, but a command does not reach the gateway, and says why."""
        program = self.run_inside(sandbox, [sys.executable, "-c", "print('it runs')"])
        self.assertEqual((program.returncode, program.stdout), (0, "it runs\n"), program)
        done = self.run_inside(sandbox, ["garcon", "list", "agents"])
        self.assertEqual((done.returncode, done.stdout), (3, ""), done)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertNotIn(self.worker.descriptor()["localCapability"], done.stderr)

    def test_codex_workspace_write(self) -> None:
        """Codex's own sandbox with its workspace-write policy, which has no network."""
        self.in_codex_s("workspace-write")

    def test_codex_read_only(self) -> None:
        """With its read-only policy, which has none either."""
        self.in_codex_s("read-only")

    def in_codex_s(self, mode: str) -> None:
        """A command is refused there."""
        policy = ("-c", f'sandbox_mode="{mode}"')
        self.refused([codex(), "sandbox", *policy, "--"], KEPT)

    def test_a_network_namespace(self) -> None:
        """One without any network, and one with a loopback interface of its own; in the machine's
        network the same environment reaches the gateway.
        """
        done = self.run_inside([], ["garcon", "list", "agents"])
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("scripted", done.stdout)
        isolated = ["unshare", "--map-root-user", "--net"]
        self.refused(isolated, KEPT)
        up = [*isolated, sys.executable, "-c", LOOPBACK_UP]
        self.refused(up, "seems to have crashed", "a network of its own")


class ClaudeCode(FleetTestCase):
    """The shell tool of the real Claude Code, on a worker."""

    def start_worker(self, controller: Service) -> tuple[Service, str]:
        script = self.fleet.root / "model.json"
        script.write_text(json.dumps(SCRIPT))
        server = self.fleet.model_server(script)
        environment = {
            **scripted_environment(self.fleet.root / "claude", server.port),
            "CLAUDE_BINARY": claude_code(),
        }
        executor_id = self.fleet.executor(
            controller,
            *("--label", "worker", "--direction", "executor-connects", "--no-tls", "true"),
        )
        url = self.fleet.garcon(controller, "executor", "connection", executor_id).out.strip()
        worker = self.fleet.worker("--no-tls", url=url, environment=environment)
        self.fleet.await_executor(controller, executor_id)
        return worker, executor_id

    def test_a_command_that_its_user_allowed(self) -> None:
        """It finds the gateway by what the tool inherits, and runs on the tool's own executor."""
        controller = self.fleet.controller()
        worker, executor_id = self.start_worker(controller)
        words = ("--agent", "claude", "--model", "sonnet", "--permissions", "default")
        cwd = ("--cwd", str(self.fleet.project("claude")))
        done = self.fleet.garcon(worker, "start-async", *words, *cwd, "Start a chat.")
        outer, turn = done.handle()
        self.decide(worker, outer, "allow")
        done = self.fleet.garcon(worker, "wait", outer, "--turn", turn)
        self.assertIn("It has answered.", done.out)
        listed = self.fleet.garcon(controller, "chats", "--json").json["chats"]
        inner = next(chat for chat in listed if chat["id"] != outer)
        self.assertEqual(self.said(controller, inner["id"]), ["from inside"])
        chat = self.snapshot(controller, inner["id"])["chat"]
        self.assertEqual(chat["executorId"], executor_id)
