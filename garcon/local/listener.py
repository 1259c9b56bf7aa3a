"""What a listening worker leaves for `garcon executor connection-url`: its secret and its bound
address.

The secret and the address lie in two private files, so that what only says where is never what
opens (control.md E.10, decisions.md 8).
"""

from __future__ import annotations

import json
import os

from garcon.errors import StartupError
from garcon.local.descriptors import base64url
from garcon.local.files import read_private, write_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from garcon.local.files import Path

_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_LAST = frozenset("AEIMQUYcgkosw048")
_LARGEST = 64 * 1024


class NoListener(StartupError):
    """No worker ever listened on this config root, so there is nothing to reveal."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "NO_LISTENER")


def is_secret(text: object) -> bool:
    """Whether `text` is a canonical secret: 32 bytes as 43 base64url characters (control.md
    E.6).
    """
    return (
        isinstance(text, str)
        and len(text) == 43
        and _ALPHABET.issuperset(text)
        and text[-1] in _LAST
    )


def new_secret() -> str:
    """Return a fresh secret."""
    return base64url(os.urandom(32))


def read_secret(path: Path) -> str:
    """Return the listener's secret; `NoListener` when none was ever made, `StartupError` when the
    file is broken.
    """
    try:
        content = read_private(path, _LARGEST)
    except FileNotFoundError:
        raise NoListener(
            f"no worker has listened here yet ({os.fspath(path)} does not exist)"
        ) from None
    fields = _object(content, path)
    secret = fields.get("secret")
    if fields.get("version") != 1 or not isinstance(secret, str) or not is_secret(secret):
        raise StartupError(f"{os.fspath(path)} holds no valid secret")
    return secret


def ensure_secret(path: Path) -> str:
    """Return the listener's secret, made now if this is the first listen."""
    try:
        return read_secret(path)
    except NoListener:
        secret = new_secret()
        content = json.dumps({"version": 1, "secret": secret}, indent=2).encode() + b"\n"
        write_private(path, content, replace=False)
        return secret


def write_listener(path: Path, url: str, *, tls: bool) -> None:
    """Remember where the worker listens: the bound ``ws:`` or ``wss:`` URL, without a secret."""
    fields = {"version": 1, "url": url, "tls": tls}
    write_private(path, json.dumps(fields, indent=2).encode() + b"\n")


def read_listener(path: Path) -> str:
    """Return the bound URL of the last listen; `NoListener` when there was none."""
    try:
        content = read_private(path, _LARGEST)
    except FileNotFoundError:
        raise NoListener(
            f"no worker has listened here yet ({os.fspath(path)} does not exist)"
        ) from None
    fields = _object(content, path)
    url = fields.get("url")
    if (
        fields.get("version") != 1
        or not isinstance(url, str)
        or not isinstance(fields.get("tls"), bool)
    ):
        raise StartupError(f"{os.fspath(path)} does not say where the worker listens")
    return url


def _object(content: bytes, path: Path) -> dict[str, object]:
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise StartupError(f"{os.fspath(path)} is not valid JSON")
    return fields
