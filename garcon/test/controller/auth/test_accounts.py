"""Set-up, login and logout over the door, to the letter of server.md B.1."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from garcon.controller.auth.accounts import Accounts
from garcon.controller.auth.hashing import WAITING, Hashing
from garcon.controller.auth.passwords import Cost
from garcon.controller.auth.tokens import hash_of
from garcon.controller.http.identity import Identities
from garcon.controller.principals import LOCAL_PRINCIPAL, Principal
from garcon.errors import GarconError, StartupError
from garcon.test.controller.http.cast import PATH, DoorCase, Response
from garcon.testing.inline_threads import InlinePool, InlineReactor

DAY = 86_400.0
TCHAR = set("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


class AccountsCase(DoorCase):
    """A door with accounts, and nobody signed in."""

    held = False

    def make_accounts(self) -> Accounts:
        """Keep hold of the folder and of the pool that hashes."""
        self.folder = Path(self.mktemp())
        self.folder.mkdir()
        self.file = self.folder / "auth.json"
        return self.compose()

    def compose(self) -> Accounts:
        """Make accounts over the folder, as a process's start does."""
        self.pool = InlinePool(held=self.held)
        return Accounts(
            self.reactor,
            str(self.folder),
            int(DAY * 1_000),
            disabled=self.disable_auth,
            hashing=Hashing(InlineReactor(), self.pool),
            cost=Cost(1, 1, 1),
            wall_clock=self.wall_clock,
        )

    def post(self, route: str, body: Any, **headers: str) -> Response:
        """Send an account command without a token."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask("POST", f"{PATH}/auth/{route}", {"Authorization": "", **headers}, content)

    def set_up(self, username: str = "ann", password: str = "password 1") -> str:
        """Make the account; return its first token."""
        response = self.post("register", {"username": username, "password": password})
        self.assertEqual(response.status, 200, response.body)
        token: str = response.json["token"]
        return token

    def log_in(self, username: str = "ann", password: str = "password 1") -> Response:
        """Try to log in."""
        return self.post("login", {"username": username, "password": password})

    def as_user(self, token: str, method: str = "GET", path: str = "/executors") -> Response:
        """Ask something as the holder of a token."""
        return self.ask(method, f"{PATH}{path}", {"Authorization": f"Bearer {token}"})


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


class RateTests(AccountsCase):
    """Ten calls in sixty seconds, of an address and for each of the two routes."""

    def test_the_eleventh_is_refused(self) -> None:
        """Refused ones count, whatever they were refused for; in sixty seconds there is room."""
        for route in ("register", "login"):
            for number in range(10):
                body = b"{" if number % 2 else {"username": "ann", "password": "short"}
                self.assertIn(self.post(route, body).status, (400, 401))
            response = self.post(route, {"username": "ann", "password": "password 1"})
            self.assert_error(response, 429, "RATE_LIMITED", True)
            self.assertEqual(response.headers["retry-after"], "60")
            self.assertEqual(response.headers["cache-control"], "no-store")
        self.reactor.advance(59)
        self.assertEqual(self.log_in().status, 429)
        self.reactor.advance(1)
        self.assertEqual(self.log_in().status, 401)

    def test_it_is_counted_before_the_body_is_read(self) -> None:
        """A refused call uploads nothing and hashes nothing."""
        for _ in range(10):
            self.log_in()
        self.pool.held = True
        headers = {"Authorization": "", "Content-Length": "60", "Content-Type": "application/json"}
        response = self.ask("POST", f"{PATH}/auth/login", headers)
        self.assertEqual(response.status, 429)
        self.assertEqual(len(self.pool), 0)

    def test_addresses_do_not_share(self) -> None:
        """Nor does one that is only claimed."""
        for _ in range(10):
            self.log_in()
        self.assertEqual(self.post("login", {}, **{"X-Forwarded-For": "192.0.2.1"}).status, 429)
        self.peer = "192.0.2.1"
        self.assertEqual(self.log_in().status, 401)

    def test_behind_a_trusted_proxy_the_forwarded_address_counts(self) -> None:
        """The one that the proxy saw, not what its client wrote before it."""
        self.peer = "10.0.0.1"
        for number in range(11):
            forwarded = {"X-Forwarded-For": f"203.0.113.{number}, 192.0.2.1"}
            status = self.post("login", {}, **forwarded).status
            self.assertEqual(status, 400 if number < 10 else 429)
        self.assertEqual(self.post("login", {}, **{"X-Forwarded-For": "192.0.2.2"}).status, 400)

    def test_what_a_stranger_may_send(self) -> None:
        """16 KiB of body; one more is 413, and no header makes it more."""
        body = b'{"username":"a","password":"' + b"p" * (16 * 1024 - 30) + b'"}'
        self.assertEqual(len(body), 16 * 1024)
        self.assertEqual(self.post("login", body).status, 401)
        self.assertEqual(self.post("login", body + b" ").status, 413)


class TokenTests(AccountsCase):
    """What a token opens, and until when."""

    def test_it_ends_at_its_deadline(self) -> None:
        """A second before it is good, at the deadline it is 401; another login makes a new one."""
        token = self.set_up()
        self.reactor.advance(DAY - 1)
        self.assertEqual(self.as_user(token).status, 200)
        self.reactor.advance(1)
        self.assert_error(self.as_user(token), 401, "VALIDATION_FAILED", False)
        self.assertEqual(self.as_user(self.log_in().json["token"]).status, 200)

    def test_it_survives_a_restart(self) -> None:
        """A new process reads it from the file."""
        token = self.set_up()
        self.accounts = self.compose()
        self.accounts.load()
        principal = self.accounts.holder(token)
        assert principal is not None
        self.assertEqual((principal.kind, principal.key), ("authenticated", "ann"))

    def test_every_other_text_is_refused(self) -> None:
        """Also the hash that is kept, and what is nearly right."""
        token = self.set_up()
        for other in (token[:-1], token + "x", token.upper(), hash_of(token), "", "garcon_user_"):
            self.assertEqual(self.as_user(other).status, 401, other)

    def test_a_removed_file_ends_all_tokens(self) -> None:
        """At the next use of the account routes: that is how a forgotten password is reset."""
        token = self.set_up()
        self.file.unlink()
        self.assertTrue(self.ask("GET", f"{PATH}/auth/status").json["needsSetup"])
        self.assertEqual(self.as_user(token).status, 401)

    def test_a_socket_takes_user_tokens_only(self) -> None:
        """The capability of this process is none (A.1 step 3)."""
        token = self.set_up()
        principal = self.identities.user_token(token)
        assert principal is not None
        self.assertEqual(principal.key, "ann")
        self.assertIsNotNone(principal.expires_at_ms)
        self.assertIsNone(self.identities.user_token(self.capability))
        self.assertIsNone(self.identities.user_token(""))
        switched_off = Identities(self.capability, disable_auth=True)
        self.assertEqual(switched_off.user_token(""), LOCAL_PRINCIPAL)


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


class LogoutTests(AccountsCase):
    """POST /auth/logout."""

    def test_it_revokes_this_token_only(self) -> None:
        """At once, and in the file."""
        first, second = self.set_up(), self.log_in().json["token"]
        response = self.as_user(first, "POST", "/auth/logout")
        self.assertEqual(response.status, 200)
        self.assertEqual(list(response.json), ["success", "message"])
        self.assertEqual(response.json["success"], True)
        self.assertEqual(self.as_user(first).status, 401)
        self.assertEqual(self.as_user(first, "POST", "/auth/logout").status, 401)
        self.assertEqual(self.as_user(second).status, 200)
        self.accounts = self.compose()
        self.accounts.load()
        self.assertIsNone(self.accounts.holder(first))
        self.assertIsNotNone(self.accounts.holder(second))

    def test_the_capability_has_nothing_to_revoke(self) -> None:
        """It is a success all the same, and no token ends."""
        token = self.set_up()
        self.assertEqual(self.as_user(self.capability, "POST", "/auth/logout").status, 200)
        self.assertEqual(self.as_user(token).status, 200)

    def test_a_logout_that_cannot_be_saved(self) -> None:
        """It is 503, the token is revoked in this process, and for good with the next change."""
        first = self.set_up()
        write, self.accounts._file._write = self.accounts._file._write, self.cannot_write
        self.assertEqual(self.as_user(first, "POST", "/auth/logout").status, 503)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.assertEqual(self.as_user(first).status, 401)
        self.accounts._file._write = write
        self.log_in()
        self.accounts = self.compose()
        self.accounts.load()
        self.assertIsNone(self.accounts.holder(first))

    def cannot_write(self, *args: Any, **more: Any) -> None:
        """Be a full disk."""
        raise OSError(28, "No space left on device")


class FileTests(AccountsCase):
    """auth.json itself."""

    def test_it_is_private(self) -> None:
        """0600, and alone in its folder."""
        self.set_up()
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)
        self.assertEqual(os.listdir(self.folder), ["auth.json"])

    def test_what_it_holds(self) -> None:
        """The name, the password's hash, when it was made, the tokens' hashes."""
        token = self.set_up()
        content = json.loads(self.file.read_text())
        self.assertEqual(content["username"], "ann")
        self.assertTrue(content["passwordHash"].startswith("$scrypt$"))
        self.assertEqual(content["createdAt"], "2023-11-14T22:13:20.000Z")
        self.assertEqual([entry["hash"] for entry in content["tokens"]], [hash_of(token)])

    def test_a_file_without_an_account_is_none(self) -> None:
        """It may hold something else; set-up takes its place."""
        self.file.write_text('{"jwtSecret": "x"}')
        self.file.chmod(0o600)
        self.accounts.load()
        self.set_up()
        self.assertEqual(self.log_in().status, 200)

    def test_a_controller_does_not_start_over_a_file_it_cannot_use(self) -> None:
        """Damaged, open to others, a link, or with another program's password."""
        self.set_up()
        good = self.file.read_text()
        for content, mode in (
            ("{", 0o600),
            ("[]", 0o600),
            (good, 0o640),
            (good.replace("$scrypt$", "$2b$12$"), 0o600),
            (good.replace('"tokens": [', '"tokens": [7, '), 0o600),
        ):
            self.file.write_text(content)
            self.file.chmod(mode)
            with self.assertRaisesRegex(StartupError, "auth.json"):
                self.compose().load()
        self.file.rename(self.folder / "other")
        self.file.symlink_to("other")
        with self.assertRaisesRegex(StartupError, "auth.json"):
            self.compose().load()


class DisabledTests(AccountsCase):
    """Accounts switched off (B.5)."""

    disable_auth = True

    def test_everyone_is_in(self) -> None:
        """The status says so, and there is no set-up."""
        response = self.ask("GET", f"{PATH}/auth/status", {"Authorization": ""})
        self.assertEqual(
            response.json, {"needsSetup": False, "isAuthenticated": True, "authDisabled": True}
        )
        response = self.ask("GET", f"{PATH}/auth/user", {"Authorization": "Bearer x"})
        self.assertEqual(response.json, {"user": {"id": "local", "username": "local"}})
        response = self.ask("POST", f"{PATH}/auth/logout", {"Authorization": ""})
        self.assertEqual(response.status, 200)

    def test_set_up_and_login_are_403(self) -> None:
        """First of all checks, so also for what else would be wrong, and however often."""
        for body in (b"{", {}, {"username": "ann", "password": "password 1"}):
            for _ in range(11):
                for route in ("register", "login"):
                    self.assert_error(self.post(route, body), 403, "VALIDATION_FAILED", False)

    def test_a_damaged_file_is_nobodys_business(self) -> None:
        """Nothing of it is read."""
        self.file.write_bytes(b"{")
        self.compose().load()
        self.assertEqual(self.ask("GET", f"{PATH}/auth/status").status, 200)


class AdmissionTests(AccountsCase):
    """The door asks before every operation."""

    def test_other_operations_pass(self) -> None:
        """However often they are called."""
        for _ in range(20):
            self.accounts.admit("GET /auth/status", "192.0.2.1")
        for _ in range(10):
            self.accounts.admit("POST /auth/login", "192.0.2.1")
        with self.assertRaises(GarconError):
            self.accounts.admit("POST /auth/login", "192.0.2.1")
