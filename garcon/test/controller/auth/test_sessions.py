"""How often one may try, how long a token is good, how it ends, and where it is kept."""

from __future__ import annotations

import json
import os
import stat
from typing import Any

from twisted.logger import ILogObserver, LogEvent, eventAsText, globalLogPublisher
from zope.interface import provider

from garcon.controller.auth.tokens import hash_of
from garcon.controller.http.identity import Identities
from garcon.controller.principals import LOCAL_PRINCIPAL
from garcon.errors import GarconError, StartupError
from garcon.test.controller.auth.cast import DAY, AccountsCase
from garcon.test.controller.http.cast import PATH


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
        ended: list[str] = []
        self.accounts.signed_out.append(ended.append)
        self.assertTrue(self.accounts.is_signed_in(hash_of(token)))
        self.file.unlink()
        self.assertTrue(self.ask("GET", f"{PATH}/auth/status").json["needsSetup"])
        self.assertEqual(self.as_user(token).status, 401)
        self.assertEqual(ended, [hash_of(token)])
        self.assertFalse(self.accounts.is_signed_in(hash_of(token)))

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


class LogoutTests(AccountsCase):
    """POST /auth/logout."""

    def test_it_revokes_this_token_only(self) -> None:
        """At once, and in the file."""
        first, second = self.set_up(), self.log_in().json["token"]
        ended: list[str] = []
        self.accounts.signed_out.append(ended.append)
        response = self.as_user(first, "POST", "/auth/logout")
        self.assertEqual(ended, [hash_of(first)])
        sessions = map(hash_of, (first, second))
        self.assertEqual([self.accounts.is_signed_in(one) for one in sessions], [False, True])
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
            with self.assertRaises(StartupError) as caught:
                self.compose().load()
            self.assertIn("auth.json", caught.exception.text)
            self.assertEqual(caught.exception.text.count("put it right"), 1)
        self.file.rename(self.folder / "other")
        self.file.symlink_to("other")
        with self.assertRaisesRegex(StartupError, "auth.json"):
            self.compose().load()

    def test_a_file_that_is_damaged_meanwhile_is_told_of_once(self) -> None:
        """However often somebody asks, who need not be known; and again when it was whole."""
        told: list[str] = []

        @provider(ILogObserver)
        def keep(event: LogEvent) -> None:
            told.append(eventAsText(event, includeTimestamp=False))

        globalLogPublisher.addObserver(keep)
        self.addCleanup(globalLogPublisher.removeObserver, keep)
        self.set_up()
        good = self.file.read_bytes()
        for round_ in (1, 2):
            self.file.write_bytes(b"{")
            for _ in range(5):
                response = self.ask("GET", f"{PATH}/auth/status", {"Authorization": ""})
                self.assert_error(response, 500, "INTERNAL_ERROR", True)
                self.assertNotIn(b"auth.json", response.body)
            self.assertEqual(len([text for text in told if "is damaged" in text]), round_)
            self.file.write_bytes(good)
            self.assertEqual(self.log_in().status, 200)


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
