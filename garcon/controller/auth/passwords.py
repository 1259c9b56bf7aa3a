"""Passwords as they are kept: salted scrypt, with its parameters beside it (decisions.md 1).

Each call takes about a fifth of a second of one core and 32 MiB: never on the reactor's thread.
"""

from __future__ import annotations

import base64
import hmac
import re

from attrs import field, frozen
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

SALT = 16
_LENGTH = 32
_FORM = re.compile(
    r"\$scrypt\$ln=([0-9]{1,2}),r=([0-9]{1,2}),p=([0-9]{1,2})"
    r"\$([A-Za-z0-9+/]{22})\$([A-Za-z0-9+/]{43})"
)


@frozen
class Cost:
    """The parameters of scrypt: memory is 128 bytes times r times two to the power of `log_n`."""

    log_n: int
    r: int
    p: int

    def derive(self, password: str, salt: bytes) -> bytes:
        """Hash a password; this is what takes the time."""
        scrypt = Scrypt(salt=salt, length=_LENGTH, n=1 << self.log_n, r=self.r, p=self.p)
        return scrypt.derive(password.encode())


COST = Cost(15, 8, 3)
_MOST = Cost(17, 8, 8)


@frozen
class PasswordHash:
    """One stored hash.  Its text is ``$scrypt$ln=L,r=R,p=P$SALT$HASH``, both in base64."""

    cost: Cost
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str, salt: bytes, cost: Cost = COST) -> PasswordHash:
        """Hash a password for keeping; `salt` is `SALT` random bytes."""
        return cls(cost, salt, cost.derive(password, salt))

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        """Read a stored hash; `ValueError` for what is not one of ours, or costs too much."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise ValueError("it is no scrypt hash of ours")
        log_n, r, p = (int(number) for number in found.group(1, 2, 3))
        if not (1 <= log_n <= _MOST.log_n and 1 <= r <= _MOST.r and 1 <= p <= _MOST.p):
            raise ValueError("its parameters are out of bounds")
        return cls(Cost(log_n, r, p), _decode(found[4]), _decode(found[5]))

    def __str__(self) -> str:
        cost = self.cost
        parameters = f"ln={cost.log_n},r={cost.r},p={cost.p}"
        return f"$scrypt${parameters}${_encode(self.salt)}${_encode(self.digest)}"

    def fits(self, password: str) -> bool:
        """Whether this is the password, compared in constant time."""
        return hmac.compare_digest(self.cost.derive(password, self.salt), self.digest)


def nobody(cost: Cost) -> PasswordHash:
    """Return what stands in where there is no account, so that its absence costs the same time.

    No password fits it: one whose digest is all zeros would have to be found first.
    """
    return PasswordHash(cost, bytes(SALT), bytes(_LENGTH))


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4))
