"""The judge of what a controller says of terminals: every message has exactly its fields, written
down here from the contract and read by nothing of ours (server.md C.1, C.4).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from garcon.testing.fleet import expect

LARGEST = 65_536
"""Bytes of a message."""
FRAGMENT = 49_152

_CODES = frozenset(
    {
        "terminal-not-found",
        "terminal-limit",
        "terminal-validation",
        "terminal-takeover-required",
        "terminal-not-attached",
        "terminal-process-exited",
        "terminal-replay-sequence",
        "terminal-backpressure",
        "terminal-auth-expired",
        "terminal-internal",
        "terminal-unsupported",
        "terminal-unavailable",
        "terminal-outcome-unknown",
        "terminal-runtime-changed",
    }
)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value.encode()) <= 256


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_positive(value: Any) -> bool:
    return _is_count(value) and value > 0


def _is_base64(value: Any) -> bool:
    if not isinstance(value, str) or len(value) % 4:
        return False
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error:
        return False
    return True


def _is_title(value: Any) -> bool:
    return value is None or (isinstance(value, str) and 0 < len(value) <= 120)


def _is_terminal(value: Any) -> bool:
    return isinstance(value, dict) and _fits(value, _TERMINAL)


def _are(shape: dict[str, Callable[[Any], bool]]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(_fits(one, shape) for one in value)


def _fits(value: Any, shape: dict[str, Callable[[Any], bool]]) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == set(shape)
        and all(fits(value[name]) for name, fits in shape.items())
    )


_TERMINAL: dict[str, Callable[[Any], bool]] = {
    "terminalId": _is_name,
    "displaySequence": _is_positive,
    "title": _is_title,
    "initialWorkingDirectory": lambda value: isinstance(value, str) and value.startswith("/"),
    "processStatus": lambda value: value in ("running", "exited"),
    "attachmentStatus": lambda value: value in ("attached", "detached"),
    "createdAt": _is_name,
    "exitCode": lambda value: value is None or isinstance(value, int),
    "latestOutputSequence": _is_count,
}

_SHAPES: dict[str, dict[str, Callable[[Any], bool]]] = {
    "terminal-attached": {
        "terminal": _is_terminal,
        "replay": _are({"sequence": _is_positive, "data": _is_text}),
    },
    "terminal-output": {"terminalId": _is_name, "sequence": _is_positive, "data": _is_text},
    "terminal-replay-batch": {
        "terminalId": _is_name,
        "chunks": _are({"sequence": _is_positive, "dataBase64": _is_base64}),
    },
    "terminal-output-fragment": {
        "terminalId": _is_name,
        "sequence": _is_positive,
        "fragmentIndex": _is_count,
        "fragmentCount": _is_positive,
        "dataBase64": lambda value: _is_base64(value) and len(value) <= FRAGMENT,
    },
    "terminal-status": {"terminal": _is_terminal},
    "terminal-taken-over": {"terminalId": _is_name, "replacementClientId": _is_name},
    "terminal-terminated": {"terminalId": _is_name},
    "terminal-replay-truncated": {"terminalId": _is_name, "firstSequence": _is_positive},
    "terminal-error": {"code": lambda value: value in _CODES, "message": _is_text},
}


def is_terminal(value: Any) -> bool:
    """Whether something is a terminal as the routes and the socket show it."""
    return _is_terminal(value)


def checked(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of terminals that is as the contract says; anything else is a failure."""
    kind = message.get("type")
    expect(kind in _SHAPES, f"a message of no known type: {message}")
    fields = {name: value for name, value in message.items() if name != "type"}
    if "attachmentId" in fields:
        expect(_is_name(fields.pop("attachmentId")), f"an id that is none: {message}")
    if kind == "terminal-error" and "terminalId" in fields:
        expect(_is_name(fields.pop("terminalId")), f"a name that is none: {message}")
    expect(_fits(fields, _SHAPES[str(kind)]), f"not as the contract says: {message}")
    if kind == "terminal-output-fragment":
        expect(message["fragmentIndex"] < message["fragmentCount"], "a fragment too many")
    return message
