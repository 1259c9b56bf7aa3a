"""Why a connection ends, in the words both sides may show (control.md J.3)."""

from __future__ import annotations

from enum import StrEnum

from garcon.link.handshake import Refusal


class Cause(StrEnum):
    """Close causes of a lane, and how an attempt can fail before there is one."""

    LIVENESS_TIMEOUT = "liveness-timeout"
    SOCKET_CLOSED = "socket-closed"
    SOCKET_ERROR = "socket-error"
    PROTOCOL_ERROR = "protocol-error"
    RECORD_LIMIT = "record-limit"
    SESSION_RETIRED = "session-retired"
    LOCAL_CLOSE = "local-close"

    NAME_UNKNOWN = "name-unknown"
    PROXY_FAILED = "proxy-failed"
    CONNECT_FAILED = "connect-failed"
    CONNECT_TIMEOUT = "connect-timeout"
    TLS_FAILED = "tls-failed"
    UPGRADE_REFUSED = "upgrade-refused"
    HANDSHAKE_TIMEOUT = "handshake-timeout"
    HANDSHAKE_FAILED = "handshake-failed"


class Stage(StrEnum):
    """How far a connection has come: what it waits for, or waited for when it failed."""

    NAME = "name"
    TCP = "tcp"
    PROXY = "proxy"
    TLS = "tls"
    UPGRADE = "upgrade"
    NOISE = "noise"
    HELLO = "hello"
    SESSION = "session"


_LONGEST = 200
_KNOWN = {*Cause, *Refusal}


def safe_notice(kind: str, text: str) -> tuple[str, str]:
    """Return what may be shown and logged of a peer's closing notice: a known kind and a short
    printable text.
    """
    if kind not in _KNOWN:
        return Cause.SOCKET_CLOSED, "the other side closed the connection"
    if kind == Cause.LOCAL_CLOSE:
        return Cause.SOCKET_CLOSED, "the other side ended the link"
    shown = "".join(c for c in text[:_LONGEST] if c.isprintable())
    return kind, shown or "the other side closed the connection"
