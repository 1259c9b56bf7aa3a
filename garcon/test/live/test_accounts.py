"""The account of a running controller: over HTTP, from a shell, and across a crash."""

from __future__ import annotations

import signal
import stat
from typing import Any

from garcon.test.live.test_controller import API, Answer, ControllerCase, ask
from garcon.testing.fleet import Service, free_port

CREDENTIALS = {"username": "ann", "password": "correct horse"}


class AccountTests(ControllerCase):
    """A controller with accounts on."""

    def setUp(self) -> None:
        super().setUp()
        self.port = free_port()
        self.controller = self.start(port=self.port)

    def auth(self, what: str, body: Any = None, token: str | None = None) -> Answer:
        """Use an account route."""
        method = "GET" if what in ("status", "user") else "POST"
        return ask(self.controller.url, method, f"{API}/auth/{what}", body, token)

    def status_of(self, token: str) -> int:
        """Ask something as the holder of a token."""
        return ask(self.controller.url, "GET", f"{API}/executors", token=token).status

    def test_an_account_from_set_up_to_logout(self) -> None:
        """Made once, over HTTP; a shell logs in and out; tokens outlive a crash, logouts too."""
        self.assertTrue(self.auth("status").json["needsSetup"])
        first = self.auth("register", CREDENTIALS).json["token"]
        self.assertEqual(self.auth("register", CREDENTIALS).status, 409)
        self.assertFalse(self.auth("status").json["needsSetup"])
        self.assertEqual(self.status_of(first), 200)
        file = self.controller.config / "auth.json"
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)

        done = self.fleet.garcon(self.controller, "login", "--stdin", stdin="correct horse\n")
        self.assertEqual(done.out, "logged in as ann\n")
        (path,) = (self.controller.config / "tokens").iterdir()
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        wrong = self.fleet.garcon(
            self.controller, "login", "--stdin", stdin="wrong horse\n", check=False
        )
        self.assertEqual(wrong.status, 3)

        self.controller.process.send_signal(signal.SIGKILL)
        self.controller.process.wait(10)
        self.controller = self.restart()
        self.assertEqual(self.status_of(first), 200)
        self.assertEqual(self.auth("logout", token=first).json["success"], True)
        self.assertEqual(self.status_of(first), 401)
        done = self.fleet.garcon(self.controller, "logout")
        self.assertEqual(done.out, "logged out ann\n")
        self.assertFalse(path.exists())
        self.assertNotIn("correct horse", self.fleet.logs())
        self.assertNotIn(first, self.fleet.logs())

    def restart(self) -> Service:
        """Start a controller over the same folders and port."""
        return self.start(port=self.port)

    def test_the_eleventh_attempt_in_a_minute(self) -> None:
        """429, with a time, over real hashes; others are served as before."""
        token = self.auth("register", CREDENTIALS).json["token"]
        for _ in range(10):
            self.assertEqual(self.auth("login", {**CREDENTIALS, "password": "wrong"}).status, 401)
        answer = self.auth("login", CREDENTIALS)
        self.assertEqual((answer.status, answer.json["errorCode"]), (429, "RATE_LIMITED"))
        self.assertTrue(0 < int(answer.headers["retry-after"]) <= 60)
        self.assertEqual(self.status_of(token), 200)
