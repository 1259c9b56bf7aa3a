"""Base URLs of endpoints: brought into one form, and compared by origin (control.md B.3, B.6)."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from garcon.contract.limits import URL_CHARACTERS
from garcon.errors import GarconError, validation

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_VISIBLE = re.compile(r"[!-~]+")
_PORTS = {"http": 80, "https": 443}

Origin = tuple[str, str, int]
"""Scheme, host and port."""


def base_url(text: str) -> str:
    """Return an endpoint's base URL in its one form; ``VALIDATION_FAILED`` for what is none.

    No message shows the URL: somebody may have typed a secret into it.
    """
    url = text.strip()
    if not url:
        raise validation("endpoint.baseUrl is required")
    scheme = _SCHEME.match(url)
    if scheme is None:
        url = f"https://{url}"
    elif scheme[1].lower() not in _PORTS:
        raise validation("endpoint.baseUrl must be an http: or https: address")
    if len(url) > URL_CHARACTERS:
        raise validation(f"endpoint.baseUrl has more than {URL_CHARACTERS} characters")
    if _VISIBLE.fullmatch(url) is None:
        raise validation("endpoint.baseUrl may hold only visible ASCII characters")
    if "?" in url or "#" in url:
        raise validation("endpoint.baseUrl may have neither a query nor a fragment")
    origin_of(url)
    head, _, rest = url.partition("://")
    return f"{head.lower()}://{rest.rstrip('/')}"


def origin_of(url: str) -> Origin:
    """Return where a URL leads; ``VALIDATION_FAILED`` when it names no host or holds a login."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _unusable() from None
    if not host or parts.scheme not in _PORTS or port == 0 or "\\" in parts.netloc:
        raise _unusable()
    if "@" in parts.netloc:
        raise validation("endpoint.baseUrl may hold no user name or password")
    return parts.scheme, host.rstrip("."), port or _PORTS[parts.scheme]


def _unusable() -> GarconError:
    return validation("endpoint.baseUrl is no usable address")
