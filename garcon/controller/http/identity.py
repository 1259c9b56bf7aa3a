"""Who sends a direct HTTP request: the bearer of this process's capability, a signed-in user, or
anyone where accounts are off.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable

from garcon.controller.principals import LOCAL_PRINCIPAL, Principal
from garcon.errors import GarconError

_PREFIX = "Bearer "


def _unauthorized(text: str) -> GarconError:
    return GarconError("VALIDATION_FAILED", text, status=401)


class Identities:
    """Turn an ``Authorization`` header into a principal (server.md B.4).

    `holder` says whose a user token is.
    """

    def __init__(
        self,
        capability: str,
        *,
        disable_auth: bool = False,
        holder: Callable[[str], Principal | None] = lambda token: None,
    ) -> None:
        self._capability = capability.encode()
        self._holder = holder
        self.disable_auth = disable_auth

    def principal(self, authorization: str | None) -> Principal:
        """Return who asks; raises the contract's 401."""
        if self.disable_auth:
            return LOCAL_PRINCIPAL
        if authorization is None or not authorization.startswith(_PREFIX):
            raise _unauthorized("This needs a bearer token.")
        token = authorization[len(_PREFIX) :]
        if hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self._capability):
            return LOCAL_PRINCIPAL
        user = self._holder(token)
        if user is None:
            raise _unauthorized("The bearer token is not valid.")
        return user

    def user_token(self, token: str) -> Principal | None:
        """Return whose a user token is; None for every other, this process's capability among
        them: what a socket of the browser is opened with (A.1).  With accounts off no token is
        looked at.
        """
        return LOCAL_PRINCIPAL if self.disable_auth else self._holder(token)
