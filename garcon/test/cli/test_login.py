"""`login` and `logout` against a pretend controller."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli.main import run
from garcon.local.roots import ConfigRoot
from garcon.local.tokens import SavedToken, read_token, save_token, token_path
from garcon.testing.fake_controller import STARTED, FakeController, FakeMachine
from garcon.testing.http_double import answer, refusal

TOKEN = "garcon_user_new"
STATUS = {"needsSetup": False, "isAuthenticated": False, "authDisabled": False}
USER = {"id": "ann", "username": "ann"}


class LoginCase(SynchronousTestCase):
    """A machine with a controller that has an account."""

    def setUp(self) -> None:
        self.root = ConfigRoot(os.path.abspath(self.mktemp()))
        os.mkdir(self.root.path, 0o700)
        self.controller = FakeController()
        self.controller.double.__enter__()
        self.addCleanup(self.controller.double.stop)
        self.controller.publish(self.root)
        self.origin = self.controller.double.url
        self.controller.on("GET /auth/status", answer(STATUS))
        self.controller.on("GET /auth/user", answer({"user": USER}))
        said = {"success": True, "user": USER, "token": TOKEN}
        self.controller.on("POST /auth/login", answer(said))
        self.controller.on("POST /auth/logout", answer({"success": True, "message": "bye"}))
        self.machine = FakeMachine({"GARCON_CONFIG_DIR": self.root.path}, password="password 1")

    def garcon(self, *words: str) -> int:
        """Run a command line."""
        self.machine.out.truncate(0)
        self.machine.out.seek(0)
        return run(list(words), self.machine.system())

    def saved(self) -> SavedToken | None:
        """Return what is kept for the controller."""
        return read_token(self.root.tokens, self.origin)

    def sent(self) -> Any:
        """Return the one login's body."""
        (asked,) = self.controller.asked("POST /auth/login")
        return asked.json


class LoginTests(LoginCase):
    """garcon login."""

    def test_it_asks_for_the_password_of_the_account(self) -> None:
        """The controller says whose it is, the terminal asks, the token is kept."""
        self.assertEqual(self.garcon("login"), 0, self.machine.stderr())
        self.assertEqual(self.machine.stdout(), "logged in as ann\n")
        self.assertEqual(self.machine.prompts, ['Password of ann for Garcon workspace "default": '])
        self.assertEqual(self.sent(), {"username": "ann", "password": "password 1"})
        saved = self.saved()
        assert saved is not None
        self.assertEqual((saved.username, saved.token), ("ann", TOKEN))

    def test_the_token_is_private_and_named_by_the_origin(self) -> None:
        """0600 in a folder of 0700; the name is the origin, percent-encoded."""
        self.garcon("login")
        path = Path(token_path(self.root.tokens, self.origin))
        self.assertEqual(path.parent, Path(self.root.path) / "tokens")
        self.assertEqual(path.name, self.origin.replace("://", "%3A%2F%2F").replace(":", "%3A"))
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(path.parent.stat().st_mode), 0o700)

    def test_the_password_from_standard_input(self) -> None:
        """One line, with or without its end; nothing is asked."""
        for stdin in (b"password 2\n", b"password 2", b"password 2\r\n"):
            self.controller.double.asked.clear()
            self.machine.stdin = stdin
            self.assertEqual(self.garcon("login", "--stdin", "--username", "bob"), 0)
            self.assertEqual(self.sent(), {"username": "bob", "password": "password 2"})
        self.assertEqual(self.machine.prompts, [])

    def test_what_is_no_password(self) -> None:
        """Nothing, two lines, no UTF-8, more than 4096 bytes: exit 2, and nothing is sent."""
        for stdin in (b"", b"\n", b"one\ntwo\n", b"\xff", b"p" * 4_097):
            self.machine.stdin = stdin
            self.assertEqual(self.garcon("login", "--stdin"), 2, stdin[:20])
        self.assertEqual(self.controller.double.asked, [])
        self.machine.stdin = b"p" * 4_096
        self.assertEqual(self.garcon("login", "--stdin"), 0)

    def test_no_terminal_and_no_answer(self) -> None:
        """Exit 2; --stdin is named."""
        self.machine.password = None
        self.assertEqual(self.garcon("login"), 2)
        self.assertIn("use --stdin", self.machine.stderr())
        self.machine.password = ""
        self.assertEqual(self.garcon("login"), 2)

    def test_the_password_is_no_argument(self) -> None:
        """Other users of the machine could see it."""
        self.assertEqual(self.garcon("login", "--password", "x"), 2)
        self.assertEqual(self.garcon("login", "x"), 2)

    def test_json_shows_no_token(self) -> None:
        """The envelope of every command, and the name."""
        self.garcon("login", "--json")
        said = json.loads(self.machine.stdout())
        self.assertEqual(
            said,
            {
                "schemaVersion": 1,
                "command": "login",
                "workspace": "default",
                "serverInstanceId": self.controller.server_instance_id,
                "username": "ann",
            },
        )
        self.assertNotIn(TOKEN, self.machine.stdout() + self.machine.stderr())

    def test_a_wrong_password(self) -> None:
        """Exit 3, the server's words, and nothing is kept."""
        self.controller.on("POST /auth/login", refusal(401, "VALIDATION_FAILED", "wrong"))
        self.assertEqual(self.garcon("login"), 3)
        self.assertEqual(
            self.machine.stderr(), "authentication: wrong (HTTP 401, VALIDATION_FAILED)\n"
        )
        self.assertIsNone(self.saved())

    def test_too_many_attempts(self) -> None:
        """Exit 3, and when to come again."""
        self.controller.on("POST /auth/login", refusal(429, "RATE_LIMITED", "no", retry_after=5))
        self.assertEqual(self.garcon("login"), 3)
        self.assertIn("try again in 5 s", self.machine.stderr())

    def test_an_answer_without_a_token(self) -> None:
        """Or with one that fits no header: exit 3."""
        for token in (None, "", "a b", "a\nb", 7, "x" * 4_097):
            self.controller.on("POST /auth/login", answer({"success": True, "token": token}))
            self.assertEqual(self.garcon("login"), 3)
            self.assertIsNone(self.saved())

    def test_accounts_are_off_or_not_set_up(self) -> None:
        """Exit 3, and what to do."""
        for more, text in (
            ({"authDisabled": True}, "no login"),
            ({"needsSetup": True}, "register"),
        ):
            self.controller.on("GET /auth/status", answer(STATUS | more))
            for words in (("login",), ("login", "--username", "ann")):
                self.assertEqual(self.garcon(*words), 3)
                self.assertIn(text, self.machine.stderr())
        self.assertEqual(self.machine.prompts, [])
        self.assertEqual(self.controller.asked("POST /auth/login"), [])

    def test_a_workers_shell(self) -> None:
        """It has no accounts: exit 2."""
        os.unlink(self.root.controller_descriptor)
        os.mkdir(self.root.executor_dir)
        self.controller.publish(self.root, "executor")
        for command in ("login", "logout"):
            self.assertEqual(self.garcon(command), 2)
            self.assertIn("--runtime controller", self.machine.stderr())

    def test_beside_a_worker(self) -> None:
        """The controller is meant, though the worker of this machine is newer."""
        worker = FakeController()
        worker.double.__enter__()
        self.addCleanup(worker.double.stop)
        os.mkdir(self.root.executor_dir)
        worker.publish(self.root, "executor", STARTED + 1)
        for command in ("login", "logout"):
            self.assertEqual(self.garcon(command), 0)
        self.assertEqual(self.machine.stderr(), "")
        self.assertEqual(worker.double.asked, [])

    def test_an_earlier_token_is_given_back(self) -> None:
        """After the new one is kept; if that fails it ends by itself."""
        for reply in (answer({}), refusal(503, "SERVER_SHUTTING_DOWN")):
            save_token(self.root.tokens, SavedToken(self.origin, "ann", "old"))
            self.controller.on("POST /auth/logout", reply)
            self.assertEqual(self.garcon("login"), 0)
            self.assertEqual(
                self.controller.asked("POST /auth/logout")[-1].headers["authorization"],
                "Bearer old",
            )
            saved = self.saved()
            assert saved is not None
            self.assertEqual(saved.token, TOKEN)

    def test_a_token_that_cannot_be_kept_is_given_back(self) -> None:
        """Exit 3, and nobody holds it any more."""
        Path(self.root.tokens).write_text("in the way")
        self.assertEqual(self.garcon("login"), 3)
        self.assertIn("cannot keep the token", self.machine.stderr())
        (asked,) = self.controller.asked("POST /auth/logout")
        self.assertEqual(asked.headers["authorization"], f"Bearer {TOKEN}")


class LogoutTests(LoginCase):
    """garcon logout."""

    def setUp(self) -> None:
        super().setUp()
        save_token(self.root.tokens, SavedToken(self.origin, "ann", "old"))

    def test_the_token_is_given_back_and_forgotten(self) -> None:
        """With the token itself as the credential."""
        self.assertEqual(self.garcon("logout"), 0, self.machine.stderr())
        self.assertEqual(self.machine.stdout(), "logged out ann\n")
        (asked,) = self.controller.asked("POST /auth/logout")
        self.assertEqual(asked.headers["authorization"], "Bearer old")
        self.assertIsNone(self.saved())

    def test_a_token_that_has_expired_is_forgotten(self) -> None:
        """That it is refused is no failure."""
        self.controller.on("POST /auth/logout", refusal(401, "VALIDATION_FAILED"))
        self.assertEqual(self.garcon("logout"), 0)
        self.assertIsNone(self.saved())

    def test_a_token_that_could_not_be_given_back_is_kept(self) -> None:
        """Exit 3: it is still good, and logout can be repeated."""
        self.controller.on("POST /auth/logout", refusal(503, "INTERNAL_ERROR", retryable=True))
        self.assertEqual(self.garcon("logout"), 3)
        self.assertIsNotNone(self.saved())

    def test_without_a_token(self) -> None:
        """There is nothing to do, and nothing is asked."""
        self.garcon("logout")
        self.assertEqual(self.garcon("logout", "--json"), 0)
        said = json.loads(self.machine.stdout())
        self.assertEqual((said["command"], said["username"]), ("logout", None))
        self.assertEqual(len(self.controller.asked("POST /auth/logout")), 1)

    def test_another_controllers_token_is_left_alone(self) -> None:
        """Each origin has its own."""
        other = "http://127.0.0.1:1"
        save_token(self.root.tokens, SavedToken(other, "ann", "other"))
        self.garcon("logout")
        self.assertIsNotNone(read_token(self.root.tokens, other))

    def test_a_file_that_cannot_be_trusted(self) -> None:
        """Open to others, or not ours: exit 3, and nothing is sent."""
        path = Path(token_path(self.root.tokens, self.origin))
        good = path.read_text()
        for content, mode in ((good, 0o644), ("{}", 0o600), (good.replace("old", "a b"), 0o600)):
            path.write_text(content)
            path.chmod(mode)
            self.assertEqual(self.garcon("logout"), 3)
        self.assertEqual(self.controller.asked("POST /auth/logout"), [])
