"""A worker as a real process: how it starts, refuses to, fails and ends."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from garcon.local.descriptors import Descriptor, proof, read
from garcon.local.listener import new_secret
from garcon.test.live.fleets import FleetTestCase
from garcon.testing.certificates import make_authority
from garcon.testing.fleet import Service, eventually, free_port

CHALLENGE = "c" * 43
PLAIN_LISTENER = ("--listen", "0", "--no-tls")


def ask(
    descriptor: Descriptor, path: str, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Ask a gateway; return status and body."""
    request = urllib.request.Request(descriptor.base_url + path, headers=dict(headers or {}))
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


class WorkerTestCase(FleetTestCase):
    """Workers without a controller."""

    def dialling(self, secret: str) -> tuple[Service, str]:
        """Start a worker whose controller is not there."""
        url = f"ws://127.0.0.1:{free_port()}/executor/x#secret={secret}"
        return self.fleet.worker("--no-tls", url=url), url

    def descriptor(self, worker: Service) -> Descriptor:
        """Return what a worker has published."""
        return read(worker.config / "executor" / "runtime.json", "executor")

    def refused(self, *argv: str, environment: Mapping[str, str] | None = None) -> str:
        """Run a worker that must not start; return the one line it says."""
        done = subprocess.run(
            [sys.executable, "-m", "garcon.cli.main", "worker", *argv],
            env=self.fleet.environment(environment),
            cwd=self.fleet.root,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        self.assertEqual((done.returncode, done.stdout), (1, ""), done)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("[worker] Failed to start worker: "), done.stderr)
        return done.stderr


class LifeCycle(WorkerTestCase):
    """From the ready line to the exit status."""

    def test_before_its_controller(self) -> None:
        """It serves its gateway at once, proves itself, and says that there is no controller."""
        worker, _ = self.dialling(new_secret())
        descriptor = self.descriptor(worker)
        self.assertEqual(worker.url, descriptor.base_url)
        self.assertEqual(descriptor.pid, worker.process.pid)
        status, body = ask(descriptor, f"/api/v1/runtime?challenge={CHALLENGE}")
        self.assertEqual(status, 200)
        self.assertEqual(
            body["proof"], proof(descriptor.local_capability, descriptor.instance_id, CHALLENGE)
        )
        bearer = {
            "Authorization": f"Bearer {descriptor.local_capability}",
            "X-Garcon-Server-Instance": "controller-1",
        }
        for path in ("/api/v1/cli/context", "/api/v1/chats"):
            status, body = ask(descriptor, path, bearer)
            self.assertEqual(
                (status, body["errorCode"], body["retryable"]),
                (503, "CLI_CONTROLLER_UNAVAILABLE", True),
            )
        self.assertEqual(ask(descriptor, "/api/v1/chats")[0], 403)

    def test_an_orderly_end(self) -> None:
        """SIGTERM ends it with status 0; the descriptor is gone, the listener's files stay."""
        worker = self.fleet.worker(*PLAIN_LISTENER)
        folder = worker.config / "executor"
        self.assertEqual(stat.S_IMODE((folder / "runtime.json").stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE((folder / "executor-secret.json").stat().st_mode), 0o600)
        self.assertEqual(worker.stop(), 0)
        self.assertFalse((folder / "runtime.json").exists())
        self.assertTrue((folder / "executor-secret.json").exists())
        self.assertTrue((folder / "listener.json").exists())

    def test_a_replaced_descriptor_stays(self) -> None:
        """A worker removes its own descriptor only."""
        worker = self.fleet.worker(*PLAIN_LISTENER)
        path = worker.config / "executor" / "runtime.json"
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "instanceId": "somebody-else"}))
        self.assertEqual(worker.stop(), 0)
        self.assertEqual(json.loads(path.read_text())["instanceId"], "somebody-else")

    def test_killed_and_started_again(self) -> None:
        """A crash leaves files that hold nothing up; the next start replaces them."""
        worker = self.fleet.worker(*PLAIN_LISTENER)
        before = self.descriptor(worker)
        secret = (worker.config / "executor" / "executor-secret.json").read_text()
        worker.kill()
        self.assertEqual(self.descriptor(worker).instance_id, before.instance_id)
        again = self.fleet.worker(*PLAIN_LISTENER)
        after = self.descriptor(again)
        self.assertNotEqual(after.instance_id, before.instance_id)
        self.assertNotEqual(after.local_capability, before.local_capability)
        self.assertEqual((again.config / "executor" / "executor-secret.json").read_text(), secret)

    def test_a_stale_descriptor_is_cleared_whatever_it_is(self) -> None:
        """Also a damaged or foreign one; a start that cannot clear it fails."""
        folder = self.fleet.root / "worker" / "executor"
        folder.mkdir(parents=True)
        (folder / "runtime.json").write_text("{")
        worker = self.fleet.worker(*PLAIN_LISTENER)
        self.assertEqual(self.descriptor(worker).pid, worker.process.pid)
        worker.stop()
        (folder / "runtime.json").mkdir()
        said = self.refused("--config-dir", str(worker.config), *PLAIN_LISTENER)
        self.assertIn("runtime.json", said)

    def test_existing_folders_keep_their_mode(self) -> None:
        """Only what is made is private."""
        folder = self.fleet.root / "worker" / "executor"
        folder.mkdir(parents=True, mode=0o755)
        folder.chmod(0o755)
        self.fleet.worker(*PLAIN_LISTENER)
        self.assertEqual(stat.S_IMODE(folder.stat().st_mode), 0o755)

    def test_one_worker_for_each_root(self) -> None:
        """A second worker on the same root is refused; the first one's descriptor stays."""
        worker = self.fleet.worker(*PLAIN_LISTENER)
        before = self.descriptor(worker)
        said = self.refused("--config-dir", str(worker.config), *PLAIN_LISTENER)
        self.assertIn(str(worker.process.pid), said)
        self.assertEqual(self.descriptor(worker).instance_id, before.instance_id)
        other = self.fleet.worker(*PLAIN_LISTENER, name="worker-2")
        self.assertNotEqual(self.descriptor(other).base_url, before.base_url)


class Refusals(WorkerTestCase):
    """What a worker does not start with."""

    def test_options(self) -> None:
        """Contradictions are one line; nothing is made in the config root."""
        root = self.fleet.root / "refused"
        secret = new_secret()
        url = {"GARCON_CONTROLLER_URL": f"wss://controller.example/executor/x#secret={secret}"}
        for argv, environment in (
            ((), None),
            (PLAIN_LISTENER, url),
            (("--no-tls",), url),
            (("--listen", "0"), None),
            ((), {"GARCON_CONTROLLER_URL": f"ws://127.0.0.1:1/x#secret={secret}"}),
            ((), {"GARCON_CONTROLLER_URL": "wss://controller.example/#secret=short"}),
        ):
            said = self.refused("--config-dir", str(root), *argv, environment=environment)
            self.assertNotIn(secret, said)
            self.assertNotIn("short", said)
        self.assertFalse(root.exists())

    def test_certificates(self) -> None:
        """Unreadable, wrong and mismatched files end the start before anything listens."""
        authority = make_authority(self.fleet.root / "certificates")
        certificate, key = map(str, authority.issue("one.example"))
        _, other_key = map(str, authority.issue("two.example"))
        root = str(self.fleet.root / "refused")
        for pair, says in (
            ((certificate, other_key), "does not belong"),
            ((certificate, "/nonexistent/key.pem"), "cannot read"),
            (("/nonexistent/certificate.pem", key), "cannot read"),
            ((key, key), "no certificate"),
            ((certificate, certificate), "no private key"),
        ):
            said = self.refused(
                *("--config-dir", root, "--listen", "0"),
                *("--tls-cert", pair[0], "--tls-private-key", pair[1]),
            )
            self.assertIn(says, said)
        self.assertFalse(Path(root, "executor", "runtime.json").exists())

    def test_a_taken_port(self) -> None:
        """One line and status 1; neither descriptor nor lease is left."""
        root = str(self.fleet.root / "refused")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            said = self.refused("--config-dir", root, "--listen", port, "--no-tls")
            self.assertIn(port, said)
        self.assertFalse(Path(root, "executor", "runtime.json").exists())

    def test_an_insecure_secret(self) -> None:
        """A secret that others may read is not used."""
        worker = self.fleet.worker(*PLAIN_LISTENER)
        worker.stop()
        secret = worker.config / "executor" / "executor-secret.json"
        secret.chmod(0o644)
        said = self.refused("--config-dir", str(worker.config), *PLAIN_LISTENER)
        self.assertIn("executor-secret.json", said)


class Secrets(WorkerTestCase):
    """Where the connection secret is not."""

    def test_not_in_arguments_output_or_environment(self) -> None:
        """Neither the secret nor the capability is in what a dialling worker shows or keeps."""
        secret = new_secret()
        worker, url = self.dialling(secret)
        descriptor = self.descriptor(worker)
        eventually("a failed attempt is reported", lambda: "connect-failed" in worker.output.text())
        pid = worker.process.pid
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
        output = worker.output.text()
        for hidden in (secret, descriptor.local_capability, url.partition("#")[0]):
            self.assertNotIn(hidden.encode(), arguments)
            self.assertNotIn(hidden, output)
        for path in (worker.config).rglob("*"):
            if path.is_file():
                self.assertNotIn(secret.encode(), path.read_bytes())

    def test_a_listener_says_nothing_secret(self) -> None:
        """Its output names the address only; the command reveals the rest on request."""
        worker = self.fleet.worker(*PLAIN_LISTENER)
        kept = json.loads((worker.config / "executor" / "executor-secret.json").read_text())
        address = json.loads((worker.config / "executor" / "listener.json").read_text())["url"]
        output = eventually(
            "the address", lambda: worker.output.text() if address in worker.output.text() else ""
        )
        self.assertNotIn(kept["secret"], output)
        worker.stop()
        revealed = self.fleet.garcon(worker, "executor", "connection-url").out.strip()
        self.assertEqual(revealed, f"{address}#secret={kept['secret']}")


class UnderTwistd(WorkerTestCase):
    """The same service as a twistd plugin."""

    def twistd(self, *argv: str, environment: Mapping[str, str] | None = None) -> Service:
        """Start ``twistd -n garcon-worker`` in a folder of its own."""
        config = self.fleet.root / "worker"
        return self.fleet.start(
            "worker",
            config,
            [
                str(Path(sys.executable).with_name("twistd")),
                *("-n", "--pidfile=", "garcon-worker", "--config-dir", str(config)),
                *argv,
            ],
            environment,
        )

    def test_it_serves_and_ends(self) -> None:
        """It publishes its descriptor, and takes it back on SIGTERM."""
        worker = self.fleet.await_ready(self.twistd(*PLAIN_LISTENER))
        self.assertEqual(self.descriptor(worker).base_url, worker.url)
        worker.process.send_signal(signal.SIGTERM)
        self.assertIn(worker.process.wait(15), (0, 143, -signal.SIGTERM))
        self.assertFalse((worker.config / "executor" / "runtime.json").exists())

    def test_it_refuses_with_one_line(self) -> None:
        """A wrong combination is one line on standard error and status 1."""
        worker = self.twistd("--no-tls")
        self.assertEqual(worker.process.wait(30), 1)
        line = eventually("the reason", worker.output.text)
        self.assertIn("Failed to start worker", line)
        self.assertNotIn("Traceback", line)
