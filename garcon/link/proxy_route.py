"""Which HTTP proxy leads to an address, if any, as the environment says it (pure).

``HTTPS_PROXY`` is for ``wss:`` addresses, ``ALL_PROXY`` for what that leaves open, ``NO_PROXY``
names what is reached directly.  Each may be written in lower case, which wins.  This machine itself
is never reached through a proxy.  Composition roots read the environment once and hand the routes
to whoever dials.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import unquote_to_bytes, urlsplit

from attrs import field, frozen

from garcon.errors import StartupError

_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})")
_SEPARATORS = re.compile(r"[\s,]+")


@frozen
class Proxy:
    """One proxy.  `authorization` is the value of its header, secret included."""

    host: str
    port: int
    is_tls: bool = False
    authorization: bytes | None = field(default=None, repr=False)


@frozen
class _Exception:
    """One entry of ``NO_PROXY``: a name with all below it, an address, a network; a port or any."""

    name: str | None = None
    below_only: bool = False
    network: IPv4Network | IPv6Network | None = None
    port: int | None = None

    def covers(self, host: str, address: IPv4Address | IPv6Address | None, port: int) -> bool:
        if self.port is not None and self.port != port:
            return False
        if self.network is not None:
            return address is not None and address in self.network
        if self.name is None:
            return True
        if address is not None:
            return False
        return host.endswith("." + self.name) or (host == self.name and not self.below_only)


@frozen
class ProxyRoutes:
    """Every route; by default all are direct."""

    https: Proxy | None = None
    every: Proxy | None = None
    exceptions: tuple[_Exception, ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> ProxyRoutes:
        """Read the six variables.  Raises `StartupError`, which shows no value, for a proxy that
        cannot be used.
        """
        _, listed = _variable(environment, "NO_PROXY")
        exceptions = tuple(
            found for entry in _SEPARATORS.split(listed) if (found := _exception(entry))
        )
        if any(e.name is None and e.network is None and e.port is None for e in exceptions):
            return cls(exceptions=exceptions)
        return cls(
            _proxy(*_variable(environment, "HTTPS_PROXY")),
            _proxy(*_variable(environment, "ALL_PROXY")),
            exceptions,
        )

    def to(self, host: str, port: int, *, is_tls: bool) -> Proxy | None:
        """Return the proxy that leads to `host`, or None where it is reached directly."""
        proxy = (self.https if is_tls else None) or self.every
        if proxy is None:
            return None
        name = host.lower().rstrip(".")
        address = _address(name)
        if name == "localhost" or name.endswith(".localhost"):
            return None
        if address is not None and address.is_loopback:
            return None
        if any(e.covers(name, address, port) for e in self.exceptions):
            return None
        return proxy


def _variable(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return the name under which a variable is set, and its value."""
    for spelling in (name.lower(), name):
        value = environment.get(spelling, "").strip()
        if value:
            return spelling, value
    return name, ""


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _proxy(name: str, text: str) -> Proxy | None:
    """Parse a proxy's URL; no message shows any part of it but its scheme."""
    if not text:
        return None
    scheme, mark, _ = text.partition("://")
    if not mark:
        text = f"http://{text}"
    elif scheme.lower().startswith("socks"):
        raise StartupError(
            f"{name} names a SOCKS proxy, which cannot be used here; name an HTTP proxy instead,"
            " or list what is reached directly in NO_PROXY (* for everything)"
        )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise _unusable(name) from None
    host = parts.hostname or ""
    if parts.scheme not in _PORTS or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise _unusable(name)
    if port == 0 or (_address(host) is None and _NAME.fullmatch(host) is None):
        raise _unusable(name)
    return Proxy(
        host,
        port or _PORTS[parts.scheme],
        parts.scheme == "https",
        _authorization(name, parts.username, parts.password),
    )


def _authorization(name: str, user: str | None, password: str | None) -> bytes | None:
    """Return what basic authentication sends (RFC 7617)."""
    if user is None and password is None:
        return None
    plain = unquote_to_bytes(user or ""), unquote_to_bytes(password or "")
    if b":" in plain[0] or any(byte < 32 or byte == 127 for byte in b"".join(plain)):
        raise StartupError(f"{name} holds a user name or password that no proxy can be told")
    return b"Basic " + b64encode(b":".join(plain))


def _unusable(name: str) -> StartupError:
    return StartupError(
        f"{name} is no proxy address: it must be http://[user:password@]host[:port], or https://"
    )


def _exception(text: str) -> _Exception | None:
    """Parse one entry; None for what is none, as every other program takes it."""
    text = text.lower().rstrip(".")
    if not text:
        return None
    if text == "*":
        return _Exception()
    if "/" in text:
        try:
            return _Exception(network=ip_network(text, strict=False))
        except ValueError:
            return None
    text, port = _with_port(text)
    address = _address(text)
    if address is not None:
        return _Exception(network=ip_network(address), port=port)
    below_only = text.startswith((".", "*."))
    name = text.removeprefix("*").removeprefix(".").rstrip(".")
    if text == "*":
        return _Exception(port=port)
    if _NAME.fullmatch(name) is None:
        return None
    return _Exception(name, below_only, port=port)


def _with_port(text: str) -> tuple[str, int | None]:
    """Part an entry and its port; a bare IPv6 address has none."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not port.isascii():
        return text, None
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        return text, None
    return host, int(port)
