"""README's *Two machines*, as it is typed there, with a private certificate authority."""

from __future__ import annotations

import shlex
import signal
import stat
import subprocess
from pathlib import Path

from garcon.test.live.fleets import SCRIPTED, FleetTestCase
from garcon.testing.certificates import make_authority
from garcon.testing.fleet import Service, free_port


class TwoMachinesTests(FleetTestCase):
    """What a reader types on the controller's machine and on the worker's."""

    def shell(self, config: Path, line: str) -> str:
        """Type one line in a shell of a machine; return its output once it has succeeded."""
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.fleet.root,
            env=self.fleet.environment({"GARCON_CONFIG_DIR": str(config)}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def background(self, name: str, config: Path, line: str) -> Service:
        """Type one line that stays, and wait for its ready line."""
        service = self.fleet.start(
            name, config, ["sh", "-c", line], {"GARCON_CONFIG_DIR": str(config)}
        )
        return self.fleet.await_ready(service)

    def test_two_machines(self) -> None:
        """The worker links over verified TLS and a start typed on it succeeds there."""
        authority = make_authority(self.fleet.root / "certificates")
        certificate, key = map(str, authority.issue("localhost"))
        first, second = self.fleet.root / "controller", self.fleet.root / "worker"
        port = free_port()
        projects = shlex.quote(str(self.fleet.projects))
        common = f"--project-base-dir {projects} --enable-scripted-agent"
        controller = self.background(
            "controller",
            first,
            f"exec garcon controller --port {port} --bind-address 0.0.0.0"
            f" --tls-cert {certificate} --tls-private-key {key}"
            f" --public-url https://localhost:{port} {common}",
        )
        made = self.shell(
            first,
            "garcon executor create --label workshop --direction executor-connects"
            " --allow-controller-cli true --json | python -c"
            " 'import json, sys; print(json.load(sys.stdin)[\"id\"])'",
        )
        executor_id = made.strip()
        shown = self.shell(first, f"garcon executor connection {executor_id} --output workshop.url")
        file = self.fleet.root / "workshop.url"
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
        url = file.read_text().strip()
        self.assertTrue(url.startswith(f"wss://localhost:{port}/executor/{executor_id}#"))
        secret = url.rpartition("=")[2]
        self.assertNotIn(secret, shown)
        worker = self.background(
            "worker",
            second,
            f'GARCON_CONTROLLER_URL="$(cat workshop.url)" SSL_CERT_FILE={authority.certificate}'
            f" exec twistd -n garcon-worker {common}",
        )
        project = shlex.quote(str(self.fleet.project("project")))
        start = f"garcon start {shlex.join(SCRIPTED)} --cwd {project}"
        self.shell(second, "until garcon list agents >agents 2>&1; do sleep 0.2; done; cat agents")
        out = self.shell(second, f"{start} 'run pwd > where\nsay done there'")
        self.assertIn("done there", out)
        self.assertEqual((self.fleet.projects / "project" / "where").read_text().strip(), project)
        listed = self.shell(first, "garcon executor list")
        self.assertRegex(listed, f"{executor_id}.*ready")
        chat = out.split("chat id: ")[1].split()[0]
        self.assertIn(executor_id, self.shell(first, f"garcon status {chat} --json"))
        self.assertNotIn(secret, self.fleet.logs())
        # twistd stops its services, then ends by the signal that it was told to stop with.
        self.assertEqual((worker.stop(), controller.stop()), (-signal.SIGTERM, 0))
        self.assertFalse((second / "executor" / "runtime.json").exists())
        self.assertFalse((first / "runtime.json").exists())
        self.assertEqual(self.fleet.left_over(), [])
