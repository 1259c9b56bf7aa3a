"""What the account routes exchange (server.md B.1)."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Credentials(Struct, frozen=True):
    """Body of set-up and login; what is missing counts as empty.  Never shows the password."""

    username: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"<Credentials {self.username}>"


class User(Struct, frozen=True):
    """The signed-in user; `id` equals `username`."""

    id: str
    username: str


class AuthStatus(Struct, frozen=True, rename="camel"):
    """Whether accounts are on, and whether the one account is still to be made."""

    needs_setup: bool
    is_authenticated: bool
    auth_disabled: bool


class SignedIn(Struct, frozen=True):
    """A new user token; it is shown here and nowhere else."""

    success: Literal[True]
    user: User
    token: str

    def __repr__(self) -> str:
        return f"<SignedIn {self.user.username}>"


class CurrentUser(Struct, frozen=True):
    """Answer of ``GET /auth/user``."""

    user: User


class SignedOut(Struct, frozen=True):
    """Answer of a logout."""

    success: Literal[True]
    message: str
