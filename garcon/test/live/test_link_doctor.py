"""`garcon executor doctor` against real processes: a link that comes up, goes down, and why."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.fleet import Finished, Fleet, Service, eventually, free_port

INBOUND = ("--direction", "executor-connects", "--no-tls", "true")


class DoctorTests(SynchronousTestCase):
    """One controller, and whatever may be wrong with its workers."""

    def setUp(self) -> None:
        self.fleet = Fleet()
        self.addCleanup(self.fleet.close)
        self.controller = self.fleet.controller()

    def doctor(self, executor_id: str, status: int, *more: str, at: Service | None = None) -> str:
        done = self.command(executor_id, *more, at=at)
        self.assertEqual(done.status, status, str(done))
        self.assertNotIn("secret=", done.out)
        return done.out

    def command(self, executor_id: str, *more: str, at: Service | None = None) -> Finished:
        words = ("executor", "doctor", executor_id, *more)
        return self.fleet.garcon(at or self.controller, *words, check=False)

    def told(self, executor_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.command(executor_id, "--json").json
        return found

    def test_a_worker_that_comes_and_goes(self) -> None:
        """Nobody yet, ready with its figures, and gone: each is said, with its exit status."""
        executor_id = self.fleet.executor(self.controller, "--label", "one", *INBOUND)
        self.assertIn("No worker has come", self.doctor(executor_id, 3))
        url = self.fleet.garcon(self.controller, "executor", "connection", executor_id).out.strip()
        worker = self.fleet.worker("--no-tls", url=url)
        self.fleet.await_executor(self.controller, executor_id)
        said = self.doctor(executor_id, 0)
        for line in ("status: ready", "encryption: ok", "version: ok", "grants: ok"):
            self.assertIn(line, said)
        eventually(
            "bulk is ready", lambda: self.told(executor_id)["diagnostics"]["link"]["bulk"]["phase"]
        )
        link = self.told(executor_id)["diagnostics"]["link"]
        self.assertEqual(link["dialledBy"], "worker")
        # The lanes were asked for a sign of life by the question itself.
        self.assertLess(link["primary"]["roundTripMs"], 2_000)
        self.assertLess(link["primary"]["silentSeconds"], 1)
        self.assertEqual((link["primary"]["attempts"], link["primary"]["sessions"]), (1, 1))
        worker.stop()
        eventually("it is seen", lambda: not self.told(executor_id)["ready"])
        said = self.doctor(executor_id, 3)
        self.assertIn("session: failed", said)

    def test_a_worker_with_another_secret(self) -> None:
        """The phase is encryption, and the advice how to get the right secret."""
        executor_id = self.fleet.executor(self.controller, "--label", "one", *INBOUND)
        other = self.fleet.executor(self.controller, "--label", "two", *INBOUND)
        url = self.fleet.garcon(self.controller, "executor", "connection", other).out.strip()
        self.fleet.worker("--no-tls", url=url.replace(other, executor_id))
        eventually(
            "the handshake fails",
            lambda: self.told(executor_id)["diagnostics"]["link"]["primary"]["lastError"],
        )
        said = self.doctor(executor_id, 3)
        self.assertIn("encryption: failed", said)
        self.assertIn(f"garcon executor connection {executor_id}", said)

    def test_a_linked_worker_that_comes_back_with_another_secret(self) -> None:
        """Its stop is the last that is known of it; that something has come with a wrong secret
        since is said beside it.
        """
        executor_id = self.fleet.executor(self.controller, "--label", "one", *INBOUND)
        other = self.fleet.executor(self.controller, "--label", "two", *INBOUND)
        right, wrong = (
            self.fleet.garcon(self.controller, "executor", "connection", one).out.strip()
            for one in (executor_id, other)
        )
        worker = self.fleet.worker("--no-tls", url=right)
        self.fleet.await_executor(self.controller, executor_id)
        self.assertNotIn("wrong secret", self.doctor(executor_id, 0))
        worker.stop()
        self.fleet.worker("--no-tls", url=wrong.replace(other, executor_id))
        eventually(
            "it is counted",
            lambda: self.told(executor_id)["diagnostics"]["link"]["wrongSecrets"],
        )
        said = self.doctor(executor_id, 3)
        self.assertIn("session: failed", said)
        self.assertRegex(said, r"with a wrong secret (once|\d+ times), last")
        self.assertIn(f"garcon executor connection {executor_id}", said)

    def test_an_address_where_nobody_listens(self) -> None:
        """The controller dials: TCP fails, and the next attempt has its time."""
        secret = "A" * 43
        made = self.fleet.garcon(
            self.controller,
            *("executor", "create", "--label", "one", "--direction", "controller-connects"),
            *("--no-tls", "true", "--connection-url", "-", "--json"),
            stdin=f"ws://127.0.0.1:{free_port()}/executor#secret={secret}",
        )
        executor_id = made.json["id"]
        eventually(
            "the dial fails",
            lambda: self.told(executor_id)["diagnostics"]["link"]["primary"]["lastError"],
        )
        said = self.doctor(executor_id, 3)
        self.assertIn("name resolution: ok\nTCP: failed", said)
        self.assertIn("next attempt: waiting", said)
        self.assertIn("--listen", said)
        self.assertNotIn("127.0.0.1", said)
        self.fleet.garcon(self.controller, "executor", "disable", executor_id)
        self.assertIn("the executor is disabled", self.doctor(executor_id, 3))

    def test_who_may_ask(self) -> None:
        """An executor's own commands need the management grant."""
        executor_id = self.fleet.executor(self.controller, "--label", "one", *INBOUND)
        url = self.fleet.garcon(self.controller, "executor", "connection", executor_id).out.strip()
        worker = self.fleet.worker("--no-tls", url=url)
        self.fleet.await_executor(self.controller, executor_id)
        done = self.command(executor_id, at=worker)
        self.assertEqual(done.status, 3, str(done))
        self.assertIn("CLI_ACCESS_DENIED", done.err)
        self.fleet.garcon(
            self.controller,
            *("executor", "update", executor_id, "--allow-executor-management", "true"),
        )
        self.assertIn("may manage executors", self.doctor(executor_id, 0, at=worker))

    def test_local_and_unknown(self) -> None:
        """Local has no link; an id that nobody has is a wrong argument or not found."""
        self.assertIn("Local is the controller itself", self.doctor("local", 0))
        done = self.command("ffffffff-ffff-4fff-8fff-ffffffffffff")
        self.assertEqual(done.status, 2, str(done))
        self.assertIn("EXECUTOR_NOT_FOUND", done.err)
