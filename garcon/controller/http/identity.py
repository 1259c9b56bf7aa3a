"""Who sends a direct HTTP request: the bearer of this process's capability, or anyone where
accounts are off.
"""

from __future__ import annotations

import hmac

from garcon.controller.principals import LOCAL_PRINCIPAL, Principal
from garcon.errors import GarconError

_PREFIX = "Bearer "


def _unauthorized(text: str) -> GarconError:
    return GarconError("VALIDATION_FAILED", text, status=401)


class Identities:
    """Turn an ``Authorization`` header into a principal (server.md B.4)."""

    def __init__(self, capability: str, *, disable_auth: bool = False) -> None:
        self._capability = capability.encode()
        self.disable_auth = disable_auth

    def principal(self, authorization: str | None) -> Principal:
        """Return who asks; raises the contract's 401."""
        if self.disable_auth:
            return LOCAL_PRINCIPAL
        if authorization is None or not authorization.startswith(_PREFIX):
            raise _unauthorized("This needs a bearer token.")
        token = authorization[len(_PREFIX) :].encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(token, self._capability):
            raise _unauthorized("The bearer token is not valid.")
        return LOCAL_PRINCIPAL
