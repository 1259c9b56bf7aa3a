"""Which ``Host`` a door answers to: the fence against DNS rebinding (decisions.md 2)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/@?#\s]+)(?::[0-9]{1,5})?", re.IGNORECASE)

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def host_name(value: str | None) -> str | None:
    """Return the name in a ``Host`` value, lower-case, without port, brackets or final dot; None
    where there is none.
    """
    if value is None:
        return None
    found = _HOST.fullmatch(value)
    if found is None:
        return None
    return found.group(1).strip("[]").removesuffix(".").lower() or None


class AllowedHosts:
    """The names a door may be called by; the port is not compared."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = LOOPBACK_NAMES | {
            name.strip("[]").removesuffix(".").lower() for name in names
        }

    def allows(self, host: str | None, local: str = "") -> bool:
        """Whether a request with this ``Host`` header is for us; one without is not.

        The address that the connection itself reached (`local`) is one of our names.
        """
        name = host_name(host)
        if name is None:
            return False
        reached = local.lower().removeprefix("::ffff:")
        return name in self._names or name == reached or is_loopback_name(name)


def is_loopback_name(name: str) -> bool:
    """Whether a host's name, as `host_name` returns it, means this machine."""
    if name in LOOPBACK_NAMES:
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
