"""User tokens as the controller knows them: by their hashes alone (decisions.md 1)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from attrs import field, frozen
from msgspec import Struct

MOST = 256
"""Live tokens that are kept; one more pushes the oldest out."""

PREFIX = "garcon_user_"
"""With the 43 base64url characters after it, every character is one of an RFC 7230 token: a user
token also travels in a WebSocket subprotocol.  The prefix lets scanners for leaked secrets see it.
"""


class StoredToken(Struct, frozen=True, rename="camel"):
    """One token that was given out; times are milliseconds since the epoch."""

    hash: str
    issued_at_ms: int
    expires_at_ms: int


def hash_of(token: str) -> str:
    """Return what is kept of a token.  It is random and long, so a plain hash is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def live(tokens: Iterable[StoredToken], now_ms: int) -> list[StoredToken]:
    """Return the tokens that have not expired."""
    return [token for token in tokens if token.expires_at_ms > now_ms]


def with_new(
    tokens: Iterable[StoredToken], new: StoredToken, now_ms: int
) -> tuple[StoredToken, ...]:
    """Return the live tokens and a new one, at most `MOST`: those given out first have to go."""
    kept = sorted(live(tokens, now_ms), key=lambda token: token.issued_at_ms)
    return (*kept[max(0, len(kept) - MOST + 1) :], new)


@frozen
class TokenTable:
    """The tokens of one moment, for the look-up that every request makes."""

    by_hash: dict[str, StoredToken] = field(repr=False, factory=dict)

    @classmethod
    def of(cls, tokens: Iterable[StoredToken]) -> TokenTable:
        """Index tokens by their hash."""
        return cls({token.hash: token for token in tokens})

    def find(self, hashed: str, now_ms: int) -> StoredToken | None:
        """Return a token that is still good."""
        token = self.by_hash.get(hashed)
        return token if token is not None and token.expires_at_ms > now_ms else None
