"""Content coding of answers, by what the client offers (server.md F.8)."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable

from attrs import evolve

from garcon.web.exchange import Outgoing

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    # The same module for older interpreters.
    from backports import zstd

LEAST = 1_024
_LEVEL = 4

Encoder = Callable[[bytes], bytes]


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, _LEVEL, mtime=0)


def _deflate(body: bytes) -> bytes:
    return zlib.compress(body, _LEVEL)


def _zstd(body: bytes) -> bytes:
    return zstd.compress(body)


ENCODERS: dict[str, Encoder] = {"gzip": _gzip, "zstd": _zstd, "deflate": _deflate}
"""What we can do, the preferred first."""

_INCOMPRESSIBLE = frozenset(
    {
        "application/octet-stream",
        "application/pdf",
        "application/wasm",
        "application/zip",
        "application/x-zip-compressed",
        "application/gzip",
        "application/x-gzip",
        "application/x-bzip",
        "application/x-bzip2",
        "application/x-7z-compressed",
        "application/vnd.rar",
        "application/x-rar-compressed",
        "text/event-stream",
    }
)
_INCOMPRESSIBLE_KINDS = ("image/", "audio/", "video/", "font/")


def choose(accept: str | None) -> str | None:
    """Return the coding the client likes best; a tie goes to ours, ``q=0`` excludes."""
    if not accept:
        return None
    offered: dict[str, float] = {}
    for part in accept.split(","):
        name, _, rest = part.partition(";")
        offered[name.strip().lower()] = _quality(rest)
    best, quality = None, 0.0
    for name in ENCODERS:
        value = offered.get(name, offered.get("*", 0.0))
        if value > quality:
            best, quality = name, value
    return best


def _quality(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return max(0.0, min(1.0, float(value.strip())))
            except ValueError:
                return 0.0
    return 1.0


def is_eligible(method: str, answer: Outgoing, ranged: bool) -> bool:
    """Whether an answer may be sent in another coding."""
    headers = answer.headers
    return (
        len(answer.body) >= LEAST
        and method != "HEAD"
        and not ranged
        and answer.status not in (101, 204, 304)
        and "no-transform" not in headers.get("Cache-Control", "").lower()
        and "Content-Encoding" not in headers
        and is_compressible(headers.get("Content-Type", ""))
    )


def is_compressible(content_type: str) -> bool:
    """Whether bodies of this type become smaller at all."""
    media = content_type.partition(";")[0].strip().lower()
    if media == "image/svg+xml":
        return True
    return media not in _INCOMPRESSIBLE and not media.startswith(_INCOMPRESSIBLE_KINDS)


def varied(answer: Outgoing) -> Outgoing:
    """Return the answer with the header that tells caches what it depends on."""
    return evolve(answer, headers=_varying(answer))


def encoded(answer: Outgoing, coding: str, body: bytes) -> Outgoing:
    """Return the answer in its new coding: `body` is the encoded one, a strong tag becomes weak."""
    headers = _varying(answer)
    headers["Content-Encoding"] = coding
    tag = headers.get("ETag")
    if tag is not None and not tag.startswith("W/"):
        headers["ETag"] = f"W/{tag}"
    return Outgoing(answer.status, body, headers)


def _varying(answer: Outgoing) -> dict[str, str]:
    already = answer.headers.get("Vary")
    vary = "Accept-Encoding" if already is None else f"{already}, Accept-Encoding"
    return {**answer.headers, "Vary": vary}
