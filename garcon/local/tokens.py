"""User tokens that `garcon login` keeps, each in a private file named by its controller's origin
(decisions.md 6).

Standard library only: the command reads them.
"""

from __future__ import annotations

import json
import os

from garcon.errors import StartupError
from garcon.local.files import private_directory, read_private, remove_if_there, write_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from garcon.local.files import Path

_LARGEST = 16 * 1024
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


class SavedToken:
    """What a login left: the token, and whose it is."""

    __slots__ = ("origin", "token", "username")

    def __init__(self, origin: str, username: str, token: str) -> None:
        self.origin = origin
        self.username = username
        self.token = token


def is_token(text: object) -> bool:
    """Whether this can be a user token: RFC 7230 token characters, so that it fits everywhere."""
    return isinstance(text, str) and 0 < len(text) <= 4_096 and _TOKEN.issuperset(text)


def token_path(folder: Path, origin: str) -> str:
    """Return the file of an origin such as ``http://127.0.0.1:8080``: its name, percent-encoded."""
    name = "".join(chr(byte) if chr(byte) in _PLAIN else f"%{byte:02X}" for byte in origin.encode())
    return os.path.join(os.fspath(folder), name)


def save_token(folder: Path, saved: SavedToken) -> None:
    """Keep a token, in place of an earlier one for the same origin; raises `OSError`."""
    private_directory(folder)
    fields = {
        "version": 1,
        "origin": saved.origin,
        "username": saved.username,
        "token": saved.token,
    }
    content = json.dumps(fields, indent=2).encode() + b"\n"
    write_private(token_path(folder, saved.origin), content)


def read_token(folder: Path, origin: str) -> SavedToken | None:
    """Return the token for an origin, None where there is none; raises `StartupError` for a file
    that cannot be trusted.
    """
    path = token_path(folder, origin)
    try:
        content = read_private(path, _LARGEST)
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or fields.get("version") != 1:
        raise StartupError(f"{path} is no token file of ours")
    username, token = fields.get("username"), fields.get("token")
    if fields.get("origin") != origin or not isinstance(username, str) or not is_token(token):
        raise StartupError(f"{path} is no token file of ours")
    return SavedToken(origin, username, str(token))


def remove_token(folder: Path, origin: str) -> bool:
    """Forget the token for an origin; return whether there was one."""
    return remove_if_there(token_path(folder, origin))
