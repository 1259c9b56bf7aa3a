"""Set-up and login over the door, and whose the account is, to the letter of server.md B.1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from garcon.controller.auth.hashing import WAITING
from garcon.controller.auth.tokens import hash_of
from garcon.controller.principals import Principal
from garcon.test.controller.auth.cast import AccountsCase
from garcon.test.controller.http.cast import PATH, Response

TCHAR = set("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


class StatusTests(AccountsCase):
    """GET /auth/status."""

    def test_before_and_after_set_up(self) -> None:
        """It needs no token, and looks at none."""
        for needs_setup in (True, False):
            for token in ("", f"Bearer {self.capability}"):
                response = self.ask("GET", f"{PATH}/auth/status", {"Authorization": token})
                self.assertEqual(response.status, 200)
                self.assertEqual(
                    response.json,
                    {"needsSetup": needs_setup, "isAuthenticated": False, "authDisabled": False},
                )
                self.assertEqual(response.headers["cache-control"], "no-store")
            if needs_setup:
                self.set_up()

    def test_a_file_that_cannot_be_used_is_not_taken_for_none(self) -> None:
        """It is 500, for set-up as well: a stranger must not become the owner by an accident."""
        self.set_up()
        self.file.write_bytes(b"{")
        for response in (
            self.ask("GET", f"{PATH}/auth/status"),
            self.post("register", {"username": "eve", "password": "password 2"}),
            self.log_in(),
        ):
            self.assert_error(response, 500, "INTERNAL_ERROR", True)
            self.assertNotIn(str(self.folder), response.body.decode())


class RegisterTests(AccountsCase):
    """POST /auth/register."""

    def test_set_up(self) -> None:
        """The user, whose id is the name, and a token that is good."""
        response = self.post("register", {"username": " ann ", "password": "password 1"})
        token = response.json["token"]
        self.assertEqual(
            response.json,
            {"success": True, "user": {"id": "ann", "username": "ann"}, "token": token},
        )
        self.assertEqual(response.headers["cache-control"], "no-store")
        self.assertEqual(self.as_user(token).status, 200)
        self.assertEqual(
            self.calls[0].principal,
            Principal("authenticated", "ann", "ann", expires_at_ms=(1_700_000_000 + 86_400) * 1000),
        )

    def test_the_token_fits_a_subprotocol(self) -> None:
        """Every character is one of an RFC 7230 token, and it cannot be guessed."""
        token = self.set_up()
        self.assertLessEqual(set(token), TCHAR)
        self.assertGreaterEqual(len(token), 43)

    def test_there_is_one_account(self) -> None:
        """A second one is 409, also by the same name."""
        self.set_up()
        for name in ("ann", "bob"):
            response = self.post("register", {"username": name, "password": "password 2"})
            self.assert_error(response, 409, "VALIDATION_FAILED", False)
        self.assertEqual(self.log_in().status, 200)

    def test_lengths(self) -> None:
        """Names of 1 to 64 characters after trimming, passwords of 8 to 128; one beyond is 400."""
        for name, password in (
            ("a" * 65, "p" * 8),
            ("   ", "p" * 8),
            ("\ufeff", "p" * 8),
            ("🔑" * 33, "p" * 8),
            ("a", "p" * 7),
            ("a", "p" * 129),
            ("a", "🔑" * 65),
        ):
            response = self.post("register", {"username": name, "password": password})
            self.assert_error(response, 400, "VALIDATION_FAILED", False)
        self.assertFalse(self.file.exists())
        for name, password in (("a", "p" * 8), (" " + "🔑" * 32, "p" * 128), ("b", "🔑" * 64)):
            self.assertEqual(
                self.post("register", {"username": name, "password": password}).status, 200
            )
            self.assertEqual(self.log_in(name.strip(), password).status, 200)
            self.file.unlink()

    def test_both_are_needed(self) -> None:
        """Missing, empty or of another type: 400, before their lengths are looked at."""
        for body in (
            {},
            {"username": "ann"},
            {"password": "password 1"},
            {"username": "", "password": "password 1"},
            {"username": "ann", "password": ""},
            {"username": 1, "password": "password 1"},
            {"username": "ann", "password": None},
            b"[]",
            b"{",
        ):
            for route in ("register", "login"):
                self.reactor.advance(60)
                self.assert_error(self.post(route, body), 400, "VALIDATION_FAILED", False)

    def test_two_at_once_make_one_account(self) -> None:
        """Whoever hashes first has it; the other is told."""
        self.pool.held = True
        body = json.dumps({"username": "ann", "password": "password 1"}).encode()
        ends = [
            self.begin("POST", f"{PATH}/auth/register", {"Authorization": ""}, body)[1]
            for _ in range(2)
        ]
        self.pool.run_next()
        self.pool.run_next()
        statuses = [Response(transport.value()).status for transport in ends]
        self.assertEqual(statuses, [200, 409])

    def test_a_file_that_is_there_is_not_written_over(self) -> None:
        """One that came between the question and the answer wins."""
        self.pool.held = True
        body = json.dumps({"username": "eve", "password": "password 2"}).encode()
        _, transport = self.begin("POST", f"{PATH}/auth/register", {"Authorization": ""}, body)
        content = {
            "username": "ann",
            "passwordHash": f"$scrypt$ln=1,r=1,p=1${'A' * 22}${'A' * 43}",
            "createdAt": "",
            "tokens": [],
        }
        self.file.write_text(json.dumps(content))
        self.file.chmod(0o600)
        self.pool.run_next()
        self.assertEqual(Response(transport.value()).status, 409)
        self.assertEqual(json.loads(self.file.read_text()), content)


class LoginTests(AccountsCase):
    """POST /auth/login."""

    def test_a_login_is_a_further_token(self) -> None:
        """The earlier ones stay good."""
        first = self.set_up()
        response = self.log_in()
        second = response.json["token"]
        self.assertEqual(
            response.json,
            {"success": True, "user": {"id": "ann", "username": "ann"}, "token": second},
        )
        self.assertNotEqual(first, second)
        for token in (first, second):
            self.assertEqual(self.as_user(token).status, 200)

    def test_one_text_for_a_wrong_name_and_a_wrong_password(self) -> None:
        """And where there is no account at all; names are compared exactly as sent."""
        answers = [self.log_in()]
        self.set_up()
        for name, password in (
            ("bob", "password 1"),
            ("ann", "password 2"),
            ("ann ", "password 1"),
            ("Ann", "password 1"),
            ("ann", "p"),
            ("ann", "p" * 1_000),
        ):
            answers.append(self.log_in(name, password))
        for answer in answers:
            self.assert_error(answer, 401, "VALIDATION_FAILED", False)
            self.assertEqual(answer.body, answers[0].body)
            self.assertEqual(answer.headers["www-authenticate"], "Bearer")

    def test_a_missing_user_costs_the_same(self) -> None:
        """One hash of the same cost each time, whatever is known of the name."""
        self.pool.held = True
        self.begin_login()
        self.assertEqual(len(self.pool), 1)
        self.pool.run_next()
        self.pool.held = False
        self.set_up()
        self.pool.held = True
        for name in ("ann", "bob"):
            self.begin_login(name)
            self.assertEqual(len(self.pool), 1)
            self.pool.run_next()

    def test_passwords_are_hashed_beside_the_reactor(self) -> None:
        """Others are served meanwhile."""
        self.set_up()
        self.pool.held = True
        transport = self.begin_login()
        self.assertEqual(self.ask("GET", f"{PATH}/executors").status, 200)
        self.assertEqual(transport.value(), b"")
        self.pool.run_next()
        self.assertEqual(Response(transport.value()).status, 200)

    def test_as_many_hashes_as_may_wait_and_one_more(self) -> None:
        """Then it is 503, with a time; and as soon as one is done there is room again."""
        self.pool.held = True
        for number in range(WAITING):
            self.peer = f"192.0.2.{number}"
            self.begin_login()
        self.assertEqual(len(self.pool), WAITING)
        self.peer = "192.0.2.200"
        response = self.log_in()
        self.assert_error(response, 503, "INTERNAL_ERROR", True)
        self.assertEqual(response.headers["retry-after"], "1")
        self.pool.run_next()
        self.assertEqual(self.begin_login().value(), b"")

    def begin_login(self, username: str = "ann") -> Any:
        """Begin a login and return its connection's transport."""
        body = json.dumps({"username": username, "password": "password 1"}).encode()
        return self.begin("POST", f"{PATH}/auth/login", {"Authorization": ""}, body)[1]

    def test_the_account_is_replaced_meanwhile(self) -> None:
        """The password that was right for the old one is not for the new one."""
        self.set_up()
        self.pool.held = True
        transport = self.begin_login()
        self.file.unlink()
        self.pool.run_next()
        self.assertEqual(Response(transport.value()).status, 401)

    def test_a_login_that_cannot_be_saved_gives_no_token(self) -> None:
        """It is 503, and nothing has changed."""
        first = self.set_up()
        before = self.file.read_bytes()
        self.folder.rename(f"{self.folder}-gone")
        response = self.log_in()
        Path(f"{self.folder}-gone").rename(self.folder)
        # Without the folder there is no account either.
        self.assertEqual(response.status, 401)
        self.accounts._file._write = self.cannot_write
        self.assert_error(self.log_in(), 503, "INTERNAL_ERROR", True)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.assertEqual(self.file.read_bytes(), before)
        self.assertEqual(self.as_user(first).status, 200)

    def cannot_write(self, *args: Any, **more: Any) -> None:
        """Be a full disk."""
        raise OSError(28, "No space left on device")

    def test_nothing_of_a_login_is_logged_or_kept(self) -> None:
        """Neither password nor token lies in the file."""
        token = self.set_up()
        content = self.file.read_text()
        self.assertNotIn(token, content)
        self.assertNotIn("password 1", content)
        self.assertIn(hash_of(token), content)


class UserTests(AccountsCase):
    """GET /auth/user."""

    def test_the_user(self) -> None:
        """By a token, and by the capability, which shows whose the account is."""
        token = self.set_up()
        for credential in (token, self.capability):
            response = self.as_user(credential, path="/auth/user")
            self.assertEqual(response.json, {"user": {"id": "ann", "username": "ann"}})
        self.assertEqual(self.as_user("x", path="/auth/user").status, 401)

    def test_no_account(self) -> None:
        """404, which only the capability can see."""
        response = self.as_user(self.capability, path="/auth/user")
        self.assert_error(response, 404, "VALIDATION_FAILED", False)
