"""A compromised worker is contained as ``docs/authority.rst`` says, with real processes."""

from __future__ import annotations

import secrets

from garcon.test.live.fleets import FleetTestCase
from garcon.testing.fleet import Service, eventually


class ContainmentTests(FleetTestCase):
    """Grant, service, executor, secret: one after the other."""

    def contained(self, controller: Service, worker: Service, executor_id: str) -> None:
        """Take the grants back, stop the worker and disable its executor."""
        busy, _ = self.start(worker, "sleep 60", wait=False).handle()
        self.fleet.garcon(
            controller,
            *("executor", "update", executor_id, "--allow-controller-cli", "false"),
            *("--allow-executor-management", "false"),
        )
        denied = self.fleet.garcon(worker, "chats", check=False)
        self.assert_refused(denied, 3, "CLI_ACCESS_DENIED")
        self.assertEqual(self.snapshot(controller, busy)["processingPhase"], "running")
        refused = self.fleet.garcon(controller, "executor", "disable", executor_id, check=False)
        self.assert_refused(refused, 3, "EXECUTOR_IN_USE")
        self.fleet.garcon(controller, "stop", busy)
        self.assertEqual(worker.stop(), 0)
        self.fleet.garcon(controller, "executor", "disable", executor_id)

    def replaced(self, controller: Service, executor_id: str, direction: str, url: str) -> None:
        """Give the controller another URL, by standard input, and let the executor connect."""
        self.fleet.garcon(
            controller,
            *("executor", "update", executor_id, "--direction", direction),
            *("--no-tls", "true", "--connection-url", "-"),
            stdin=f"{url}\n",
        )
        self.fleet.garcon(controller, "executor", "enable", executor_id)

    def strangers(self, controller: Service, executor_id: str) -> int:
        """Return how often something has dialled that did not know the secret."""
        asked = ("executor", "doctor", executor_id, "--json")
        link = self.fleet.garcon(controller, *asked, check=False).json["diagnostics"]["link"]
        return 0 if link["wrongSecrets"] is None else int(link["wrongSecrets"]["count"])

    def test_a_worker_that_dials(self) -> None:
        """The old secret opens nothing any more; with the new one its chats are there again."""
        controller, worker, executor_id = self.fleet.pair()
        old = self.fleet.garcon(controller, "executor", "connection", executor_id).out.strip()
        chat, _ = self.start(worker, "say before").handle()
        self.contained(controller, worker, executor_id)
        new = f"{old.partition('#')[0]}#secret={secrets.token_urlsafe(32)}"
        self.replaced(controller, executor_id, "executor-connects", new)

        stale = self.fleet.worker("--no-tls", url=old, name="stale-worker")
        eventually("a refused worker", lambda: self.strangers(controller, executor_id))
        self.assertEqual(self.executor_snapshot(controller, executor_id)["availability"], "offline")
        stale.stop()
        self.fleet.worker("--no-tls", url=new, name="clean-worker")
        self.fleet.await_executor(controller, executor_id)
        done = self.fleet.garcon(controller, "resume", chat, "say after")
        self.assertIn("after", done.out)

    def test_a_worker_that_listens(self) -> None:
        """It makes a new secret when its file is gone; the controller is told by hand."""
        controller = self.fleet.controller()
        listen = ("--listen", "0", "--bind-address", "127.0.0.1", "--no-tls")
        worker = self.fleet.worker(*listen)
        old = self.fleet.garcon(worker, "executor", "connection-url").out.strip()
        made = self.fleet.garcon(
            controller,
            *("executor", "create", "--label", "w", "--direction", "controller-connects"),
            *("--allow-controller-cli", "true", "--no-tls", "true", "--connection-url", "-"),
            "--json",
            stdin=f"{old}\n",
        )
        executor_id: str = made.json["id"]
        self.fleet.await_executor(controller, executor_id)
        chat, _ = self.start(worker, "say before").handle()
        self.contained(controller, worker, executor_id)
        (worker.config / "executor" / "executor-secret.json").unlink()
        again = self.fleet.worker(*listen)
        new = self.fleet.garcon(again, "executor", "connection-url").out.strip()
        self.assertNotEqual(new.partition("#")[2], old.partition("#")[2])
        self.replaced(controller, executor_id, "controller-connects", new)
        self.fleet.await_executor(controller, executor_id)
        done = self.fleet.garcon(controller, "resume", chat, "say after")
        self.assertIn("after", done.out)
