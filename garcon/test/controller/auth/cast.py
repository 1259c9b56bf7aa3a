"""A door with accounts that cost little, and nobody signed in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from garcon.controller.auth.accounts import Accounts
from garcon.controller.auth.hashing import Hashing
from garcon.controller.auth.passwords import Cost
from garcon.test.controller.http.cast import PATH, DoorCase, Response
from garcon.testing.inline_threads import InlinePool, InlineReactor

DAY = 86_400.0


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
