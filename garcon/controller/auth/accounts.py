"""The one account: set-up, login, logout, and whose a token is (server.md B.1, decisions.md 1)."""

from __future__ import annotations

import hmac
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from attrs import evolve
from twisted.internet.defer import DeferredLock
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from zope.interface import implementer

from garcon.contract import operations
from garcon.contract.accounts import (
    AuthStatus,
    Credentials,
    CurrentUser,
    SignedIn,
    SignedOut,
    User,
)
from garcon.controller.auth.account import Account, AccountFile, AccountUnreadable
from garcon.controller.auth.attempts import Attempts
from garcon.controller.auth.hashing import Hashing
from garcon.controller.auth.passwords import COST, SALT, Cost, PasswordHash, nobody
from garcon.controller.auth.tokens import PREFIX, StoredToken, TokenTable, hash_of, live, with_new
from garcon.controller.handlers import Call, Handlers
from garcon.controller.http.policy import ISignIns
from garcon.controller.principals import Principal
from garcon.controller.transcripts.times import iso
from garcon.errors import GarconError, validation
from garcon.local.descriptors import base64url

T = TypeVar("T")

USERNAME_MOST = 64
PASSWORD_LEAST, PASSWORD_MOST = 8, 128
_BLANK = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What clients trim."""
_WRONG = "The username or the password is wrong."
_DISABLED = "Accounts are switched off on this controller."


@implementer(ISignIns)
class Accounts:
    """The handlers of the account routes, and the tokens that are good.

    `lifetime_ms` is how long a token lives, `wall_clock` tells seconds since the epoch.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        config_dir: str,
        lifetime_ms: int,
        *,
        disabled: bool = False,
        hashing: Hashing | None = None,
        file: AccountFile | None = None,
        cost: Cost = COST,
        wall_clock: Callable[[], float] = time.time,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._reactor = reactor
        self._file = AccountFile(config_dir) if file is None else file
        self._lifetime_ms = lifetime_ms
        self._disabled = disabled
        self._hashing = Hashing(reactor) if hashing is None else hashing
        self._cost = cost
        self._wall_clock = wall_clock
        self._random = random
        self._tokens = TokenTable()
        self._revoked: set[str] = set()
        """Tokens that were given back, until the file knows it too."""
        self._username: str | None = None
        self._complaint = ""
        """What was last said of a file that cannot be used."""
        self.signed_out: list[Callable[[str], None]] = []
        """Are told of each session that is none any more (`Principal.session`)."""
        self._changing = DeferredLock()
        self._attempts = {
            operations.AUTH_REGISTER.route.key: Attempts(),
            operations.AUTH_LOGIN.route.key: Attempts(),
        }

    # Life

    def load(self) -> None:
        """Read the account; raises `AccountUnreadable`.  Where accounts are off nothing is read."""
        if not self._disabled:
            self._adopt(self._file.read()[0])

    def start(self) -> None:
        """Take work."""
        self._hashing.start()

    def stop(self) -> None:
        """Wait for the last piece of work."""
        self._hashing.stop()

    @property
    def has_account(self) -> bool:
        """Whether there is one, as far as was seen."""
        return self._username is not None

    def register(self, handlers: Handlers) -> None:
        """Serve the account routes through `handlers`."""
        handlers.register(operations.AUTH_STATUS, self.status)
        handlers.register(operations.AUTH_REGISTER, self.set_up)
        handlers.register(operations.AUTH_LOGIN, self.log_in)
        handlers.register(operations.AUTH_USER, self.user)
        handlers.register(operations.AUTH_LOGOUT, self.log_out)

    # Before a body is read

    def admit(self, key: str, address: str) -> None:
        """Let an attempt to sign in or set up begin, by the operation's registry key; other
        operations pass.  Raises 403 where accounts are off, then 429 after too many.
        """
        attempts = self._attempts.get(key)
        if attempts is None:
            return
        if self._disabled:
            raise validation(_DISABLED, status=403)
        wait = attempts.take(address, self._reactor.seconds())
        if wait is not None:
            raise GarconError(
                "RATE_LIMITED",
                "Too many attempts; try again later.",
                status=429,
                retryable=True,
                retry_after=max(1, math.ceil(wait)),
            )

    # Whose a token is

    def holder(self, token: str) -> Principal | None:
        """Return whose a user token is, None for one that is not good: a look-up, no hashing of
        passwords.
        """
        if self._username is None or not token.startswith(PREFIX):
            return None
        session = hash_of(token)
        found = self._tokens.find(session, self._now_ms())
        if found is None:
            return None
        name = self._username
        return Principal(
            "authenticated", name, name, expires_at_ms=found.expires_at_ms, session=session
        )

    def is_signed_in(self, session: str) -> bool:
        """Return whether the token of a session (`Principal.session`) is still good."""
        return self._username is not None and (
            self._tokens.find(session, self._now_ms()) is not None
        )

    # Handlers

    def status(self, call: Call[Any, None]) -> AuthStatus:
        """Say whether there is an account; tokens are not looked at."""
        if self._disabled:
            return AuthStatus(needs_setup=False, is_authenticated=True, auth_disabled=True)
        has_none = self._account() is None
        return AuthStatus(needs_setup=has_none, is_authenticated=False, auth_disabled=False)

    async def set_up(self, call: Call[Any, Credentials]) -> SignedIn:
        """Make the one account and sign its owner in."""
        self._require_enabled()
        username, password = _stated(call.body)
        username = username.strip(_BLANK)
        if not 1 <= _length(username) <= USERNAME_MOST:
            raise validation(f"The username must have 1 to {USERNAME_MOST} characters.")
        if not PASSWORD_LEAST <= _length(password) <= PASSWORD_MOST:
            raise validation(
                f"The password must have {PASSWORD_LEAST} to {PASSWORD_MOST} characters."
            )
        self._require_no_account()
        salt = self._random(SALT)
        hashed = await self._hashing.run(lambda: PasswordHash.of(password, salt, self._cost))

        async def make() -> SignedIn:
            self._require_no_account()
            created_at = iso(self._wall_clock())
            return await self._issue(Account(username, hashed, created_at, ()))

        answer = await self._alone(make)
        self._log.info("the account was set up")
        return answer

    async def log_in(self, call: Call[Any, Credentials]) -> SignedIn:
        """Give out a token for the right name and password.  Everything else takes as long and
        says the same.
        """
        self._require_enabled()
        username, password = _stated(call.body)
        known = self._account()
        hashed = nobody(self._cost) if known is None else known.password
        fits = await self._hashing.run(lambda: hashed.fits(password))
        is_named = known is not None and hmac.compare_digest(
            known.username.encode(), username.encode()
        )
        if not (fits and is_named):
            raise validation(_WRONG, status=401)

        async def sign_in() -> SignedIn:
            account = self._account()
            if account is None or (account.username, account.password) != (username, hashed):
                # It was replaced while the password was checked.
                raise validation(_WRONG, status=401)
            return await self._issue(account)

        return await self._alone(sign_in)

    def user(self, call: Call[Any, None]) -> CurrentUser:
        """Say who is signed in; the machine's own caller learns whose the account is."""
        if self._disabled or call.principal.kind == "authenticated":
            name = call.principal.username
        else:
            account = self._account()
            if account is None:
                raise validation("There is no account yet.", status=404)
            name = account.username
        return CurrentUser(User(name, name))

    async def log_out(self, call: Call[Any, None]) -> SignedOut:
        """Revoke the caller's own token: at once in this process, then for good."""
        session = call.principal.session
        if session is not None:
            self._revoked.add(session)
            self._keep([t for t in self._tokens.by_hash.values() if t.hash != session])
            await self._alone(self._save_revoked)
        return SignedOut(True, "Signed out.")

    # Inside

    def _require_enabled(self) -> None:
        if self._disabled:
            raise validation(_DISABLED, status=403)

    def _require_no_account(self) -> None:
        if self._account() is not None:
            raise validation("There is an account already.", status=409)

    def _account(self) -> Account | None:
        """Return the account as its file has it; what the file no longer has is not good any
        more.
        """
        try:
            account, is_new = self._file.read()
        except AccountUnreadable as error:
            # Its text names a path, and whoever asks need not be known: it is said once, however
            # often somebody asks.
            if error.text != self._complaint:
                self._complaint = error.text
                self._log.error("{reason}", reason=error.text)
            self._adopt(None)
            raise GarconError(
                "INTERNAL_ERROR",
                "The account's file cannot be used; the controller's log says why.",
                status=500,
                retryable=True,
            ) from None
        if is_new:
            self._complaint = ""
            self._adopt(account)
        return account

    def _adopt(self, account: Account | None) -> None:
        self._username = None if account is None else account.username
        self._keep(() if account is None else self._good(account))

    def _keep(self, tokens: Iterable[StoredToken]) -> None:
        """Let these tokens be good and no others, and tell of those that were."""
        before = self._tokens.by_hash
        self._tokens = TokenTable.of(tokens)
        for session in before.keys() - self._tokens.by_hash.keys():
            for told in self.signed_out:
                told(session)

    def _good(self, account: Account) -> list[StoredToken]:
        return [token for token in account.tokens if token.hash not in self._revoked]

    async def _issue(self, account: Account) -> SignedIn:
        token = PREFIX + base64url(self._random(32))
        now = self._now_ms()
        stored = StoredToken(hash_of(token), now, now + self._lifetime_ms)
        await self._save(account, with_new(self._good(account), stored, now))
        return SignedIn(True, User(account.username, account.username), token)

    async def _save_revoked(self) -> None:
        account = self._account()
        if account is not None:
            await self._save(account, live(self._good(account), self._now_ms()))

    async def _save(self, account: Account, tokens: Sequence[StoredToken]) -> None:
        """Save the account with these tokens, of which none is a revoked one."""
        revoked = set(self._revoked)
        account = evolve(account, tokens=tuple(tokens))
        try:
            await deferToThreadPool(
                self._reactor, self._reactor.getThreadPool(), self._file.write, account
            )
        except OSError:
            self._log.failure("the account's file could not be written")
            raise GarconError(
                "INTERNAL_ERROR",
                "The account could not be saved.",
                status=503,
                retryable=True,
            ) from None
        self._revoked -= revoked
        self._account()

    async def _alone(self, change: Callable[[], Awaitable[T]]) -> T:
        """Make one change after the other."""
        await self._changing.acquire()
        try:
            return await change()
        finally:
            self._changing.release()

    def _now_ms(self) -> int:
        return int(self._wall_clock() * 1_000)


def _stated(body: Credentials) -> tuple[str, str]:
    if not body.username or not body.password:
        raise validation("A username and a password are needed.")
    return body.username, body.password


def _length(text: str) -> int:
    """Return the length as the contract counts it: in UTF-16 code units (server.md 0)."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
