"""What a request for the browser socket brings with it: a credential, and what its client speaks
(server.md A.1).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from attrs import field, frozen

OLDER, NEWER = "garcon-v1", "garcon-v2"
"""The application protocol, which is the only one ever selected, and the one that a client offers
beside it to be sent what older clients do not know (decisions.md 14).
"""
_BEARER = "Bearer "
_TOKEN = "garcon-auth."
_KEY_BYTES = 16


@frozen
class Offer:
    """What a client offers.  `selected` is what the answer names, None for nothing."""

    token: str | None = field(repr=False)
    selected: str | None
    is_newer: bool


def read_offer(authorization: str | None, protocols: str | None) -> Offer:
    """Read the two headers.

    A bearer, even a wrong one, is the only credential that counts; a subprotocol is for those who
    cannot send one.
    """
    offered = [entry for part in (protocols or "").split(",") if (entry := part.strip())]
    if authorization is not None and authorization.startswith(_BEARER):
        token = authorization.removeprefix(_BEARER)
    else:
        token = next((e.removeprefix(_TOKEN) for e in offered if e.startswith(_TOKEN)), "")
    return Offer(token or None, OLDER if OLDER in offered else None, NEWER in offered)


def is_handshake(method: str, header: Callable[[bytes], str | None]) -> bool:
    """Whether a request begins a WebSocket (RFC 6455, 4.2.1)."""
    words = [word.strip().lower() for word in (header(b"connection") or "").split(",")]
    return (
        method == "GET"
        and is_upgrade(header)
        and "upgrade" in words
        and (header(b"sec-websocket-version") or "").strip() == "13"
        and _is_key((header(b"sec-websocket-key") or "").strip())
    )


def is_upgrade(header: Callable[[bytes], str | None]) -> bool:
    """Whether a request wants to become a WebSocket at all."""
    return "websocket" in [word.strip().lower() for word in (header(b"upgrade") or "").split(",")]


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False
