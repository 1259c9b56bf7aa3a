"""Connection URLs: the address both lanes dial, with the executor's secret in its fragment (E.6).

Standard library only, because the command imports this.  No message made here ever contains a
secret, nor any other part of what was passed in.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from ipaddress import IPv6Address, ip_address

from garcon.contract.limits import URL_CHARACTERS
from garcon.errors import GarconError, validation

SECRET_BYTES = 32
TEMPLATE = "{executorId}"
"""What an advertised address may hold in place of the id that is not known yet."""

_SECRET = re.compile(r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)"
    r"(?P<query>\?[^#]*)?(?P<fragment>#.*)?",
    re.DOTALL,
)
_AUTHORITY = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]*))(?::(?P<port>[0-9]{1,5}))?"
)
_CHARACTERS = re.compile(r"[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]*")
_NUMERIC = re.compile(r"(?:[0-9]+|0[xX][0-9A-Fa-f]*)")
_REVEALED = re.compile(r"(?<![A-Za-z0-9])(secret(?:=|%3[Dd]))[^\s\"'<>&]+")
_PORTS = {"ws": 80, "http": 80, "wss": 443, "https": 443}


class Address:
    """Where to dial, without any secret.  `target` is the path and query, at least ``/``."""

    __slots__ = ("host", "port", "scheme", "target", "url")

    def __init__(self, scheme: str, host: str, port: int, target: str, url: str) -> None:
        self.scheme = scheme
        self.host = host  # without brackets
        self.port = port
        self.target = target
        self.url = url

    @property
    def is_tls(self) -> bool:
        return self.scheme in ("wss", "https")

    def __repr__(self) -> str:
        return f"<Address {self.url}>"


class ConnectionUrl:
    """An address and the secret that opens it."""

    __slots__ = ("address", "secret")

    def __init__(self, address: Address, secret: str) -> None:
        self.address = address
        self.secret = secret

    def format(self) -> str:
        """Return the whole URL, secret included: for an explicit reveal only."""
        return format_connection_url(self.address.url, self.secret)

    def __repr__(self) -> str:
        return f"<ConnectionUrl {self.address.url}>"


def parse_connection_url(text: str) -> ConnectionUrl:
    """Parse a whole connection URL, or raise ``VALIDATION_FAILED``."""
    if len(text) > URL_CHARACTERS:
        raise _too_long()
    base, mark, fragment = text.partition("#")
    name, equals, secret = fragment.partition("=")
    if not mark or name != "secret" or not equals:
        raise validation("A connection URL ends in #secret= and the executor's secret.")
    if not is_secret(secret):
        raise validation(
            "The connection URL's secret is not 32 random bytes in 43 base64url characters."
        )
    return ConnectionUrl(parse_address(base), secret)


def parse_address(text: str) -> Address:
    """Parse an address without a secret (as stored and dialled), or raise ``VALIDATION_FAILED``.

    Its length is checked as the whole URL's will be, with a secret.
    """
    if len(format_connection_url(text, "A" * 43)) > URL_CHARACTERS:
        raise _too_long()
    return _parse(text, ("wss", "ws"), "A connection URL")


def format_connection_url(address: str, secret: str) -> str:
    """Join a stored address and its secret."""
    return f"{address}#secret={secret}"


def expand(template: str, executor_id: str) -> str:
    """Put the id in place of every ``{executorId}``."""
    return template.replace(TEMPLATE, executor_id)


def require_tls_choice(address: Address, no_tls: bool) -> None:
    """Refuse an unencrypted outer connection that nobody asked for (decisions.md 9)."""
    if not address.is_tls and not no_tls:
        raise validation(
            "A ws: address needs the explicit choice of --no-tls true; otherwise use wss:."
        )


def require_dialling_choice(address: Address, no_tls: bool) -> None:
    """Check a dialling worker's options: ``ws:`` needs ``--no-tls``, ``wss:`` contradicts it."""
    if not address.is_tls and not no_tls:
        raise validation("A ws: connection URL needs --no-tls; otherwise use wss:.")
    if address.is_tls and no_tls:
        raise validation("--no-tls contradicts the wss: connection URL; leave one of them out.")


def is_secret(text: object) -> bool:
    """Whether `text` is a canonical secret; a password never is one."""
    return isinstance(text, str) and _SECRET.fullmatch(text) is not None


def new_secret(random: bytes) -> str:
    """Return the secret made of 32 random bytes."""
    if len(random) != SECRET_BYTES:
        raise ValueError(f"a secret is made of {SECRET_BYTES} random bytes")
    return urlsafe_b64encode(random).rstrip(b"=").decode("ascii")


def secret_bytes(secret: str) -> bytes:
    """Return the 32 bytes of a canonical secret: the link's pre-shared key."""
    if not is_secret(secret):
        raise ValueError("not a canonical secret")
    return urlsafe_b64decode(secret + "=")


def parse_public_base(text: str) -> str:
    """Return a public base URL with its path ending in ``/``, or raise ``VALIDATION_FAILED``."""
    if len(text) > URL_CHARACTERS:
        raise validation(f"The public URL is longer than {URL_CHARACTERS} characters.")
    if "#" in text or "?" in text:
        raise validation("The public URL takes no query and no fragment.")
    address = _parse(text, ("https", "http"), "The public URL")
    if address.host.lower().rstrip(".") == "example.com":
        raise validation(
            "The public URL is still the example's; use the address clients really use."
        )
    return address.url if address.url.endswith("/") else address.url + "/"


def inbound_address(public_base: str, executor_id: str) -> str:
    """Return what a worker dials below a public base: same path prefix, ``https`` as ``wss``."""
    scheme, _, rest = parse_public_base(public_base).partition("://")
    return f"{'wss' if scheme == 'https' else 'ws'}://{rest}executor/{executor_id}"


def redact(text: str) -> str:
    """Return `text` without the value of any ``secret=`` in it, for messages and logs."""
    return _REVEALED.sub(r"\1[redacted]", text)


def _parse(text: str, schemes: tuple[str, str], what: str) -> Address:
    found = _URL.fullmatch(text)
    if found is None or found["scheme"].lower() not in schemes:
        raise validation(f"{what} starts with {schemes[0]}:// or {schemes[1]}://.")
    if found["fragment"] is not None:
        raise validation(f"{what} takes no such fragment.")
    if "@" in found["authority"]:
        raise validation(f"{what} takes no user name or password.")
    authority = _AUTHORITY.fullmatch(found["authority"])
    port = None if authority is None or authority["port"] is None else int(authority["port"])
    if authority is None or (port is not None and not 0 < port < 65_536):
        raise validation(f"{what} needs a host, and a port from 1 to 65535 if any.")
    rest = found["path"] + (found["query"] or "")
    if _CHARACTERS.fullmatch(rest) is None:
        raise validation(f"{what} holds a character that must be percent-encoded.")
    scheme = found["scheme"].lower()
    host = _host(authority["host"], what)
    target = rest if rest.startswith("/") else "/" + rest
    return Address(scheme, host, port or _PORTS[scheme], target, scheme + text[len(scheme) :])


def _host(host: str, what: str) -> str:
    """Check a host: a bracketed IPv6 address, a dotted IPv4 one, or a name."""
    name = host.removesuffix(".")
    literal = host.startswith("[") or _NUMERIC.fullmatch(name.rpartition(".")[2]) is not None
    if not literal:
        if ".." in host or not name:
            raise validation(f"{what} has a malformed host.")
        return host
    try:
        address = ip_address(host.strip("[]") if host.startswith("[") else name)
    except ValueError:
        raise validation(f"{what} has a malformed address as its host.") from None
    if host.startswith("[") != isinstance(address, IPv6Address):
        raise validation(f"{what} has a malformed address as its host.")
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    if address.is_unspecified or (mapped is not None and mapped.is_unspecified):
        raise validation(f"{what} names every interface (0.0.0.0 or [::]); use an address to dial.")
    return str(address)


def _too_long() -> GarconError:
    return validation(f"The connection URL is longer than {URL_CHARACTERS} characters.")
