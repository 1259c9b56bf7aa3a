"""Content coding of answers, by what the client offers (server.md F.8)."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from garcon.web.exchange import Outgoing

LEAST = 1_024
_LEVEL = 4

Encoder = Callable[[bytes], bytes]


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, _LEVEL, mtime=0)


def _deflate(body: bytes) -> bytes:
    return zlib.compress(body, _LEVEL)


ENCODERS: dict[str, Encoder] = {"gzip": _gzip, "deflate": _deflate}
"""What we can do, the preferred first.  Zstandard joins where the interpreter has it (3.14)."""

if find_spec("compression") is not None:
    ENCODERS = {
        "gzip": _gzip,
        "zstd": import_module("compression.zstd").compress,
        "deflate": _deflate,
    }


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
    """Whether an answer may be sent in another coding.  Ours are all JSON or text."""
    return (
        len(answer.body) >= LEAST
        and method != "HEAD"
        and not ranged
        and answer.status not in (101, 204, 304)
        and "no-transform" not in answer.headers.get("Cache-Control", "").lower()
        and "Content-Encoding" not in answer.headers
    )


def varied(answer: Outgoing) -> Outgoing:
    """Return the answer with the header that tells caches what it depends on."""
    return Outgoing(answer.status, answer.body, {**answer.headers, "Vary": "Accept-Encoding"})


def encoded(answer: Outgoing, coding: str, body: bytes) -> Outgoing:
    """Return the answer in its new coding: `body` is the encoded one, a strong tag becomes weak."""
    headers = {**answer.headers, "Vary": "Accept-Encoding", "Content-Encoding": coding}
    tag = headers.get("ETag")
    if tag is not None and not tag.startswith("W/"):
        headers["ETag"] = f"W/{tag}"
    return Outgoing(answer.status, body, headers)
