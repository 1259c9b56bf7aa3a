"""Which ``Origin`` a door takes requests from: the fence against foreign web pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from garcon.web.hosts import host_name, is_loopback_name

_ORIGIN = re.compile(r"(https?)://([^/@?#\s,]+)", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}


class AllowedOrigins:
    """The pages that may ask: those of this machine, those that this very address served, the
    public URL's, and those of configured names.

    A request without an origin is no page's, and allowed.
    """

    def __init__(self, names: Iterable[str] = (), public_url: str | None = None) -> None:
        self._names = frozenset(name.strip("[]").removesuffix(".").lower() for name in names)
        self._public = None if public_url is None else _parsed_url(public_url)

    def allows(self, origin: str | None, host: str | None) -> bool:
        """Whether a request with these ``Origin`` and ``Host`` headers may go on.  `host` must be
        one that the door answers to.
        """
        if origin is None:
            return True
        found = _ORIGIN.fullmatch(origin)
        name = host_name(found[2]) if found is not None else None
        if found is None or name is None:
            return False
        scheme, port = found[1].lower(), _port(found[2])
        if is_loopback_name(name) or name in self._names:
            return True
        if (scheme, name, port or _PORTS[scheme]) == self._public:
            return True
        # A proxy before us may speak TLS where we do not, so the scheme is not compared.
        return host is not None and name == host_name(host) and _same_port(port, _port(host))


def _port(authority: str) -> int | None:
    digits = authority.rpartition(":")[2] if ":" in authority.rpartition("]")[2] else ""
    return int(digits) if digits else None


def _same_port(one: int | None, other: int | None) -> bool:
    return one == other or {one, other} <= {None, *_PORTS.values()}


def _parsed_url(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").removesuffix("."), parts.port or _PORTS[scheme]
