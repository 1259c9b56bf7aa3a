"""A part of an answer, when that is what was asked for (server.md F.8)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from garcon.web.exchange import Incoming, Outgoing

_RANGE = re.compile(r"bytes=[ \t]*(?:([0-9]{1,18})-([0-9]{1,18})?|-([0-9]{1,18}))[ \t]*", re.I)


def is_wanted(incoming: Incoming, answer: Outgoing) -> bool:
    """Whether a part is asked for, of an answer that has parts."""
    if incoming.method != "GET" or answer.status != 200:
        return False
    wanted = incoming.header(b"range")
    return wanted is not None and _is_current(incoming.header(b"if-range"), answer.headers)


def part_of(answer: Outgoing, wanted: str) -> Outgoing:
    """Return the part of a whole answer that a ``Range`` names: 206, or 416 where there is none.

    Anything but one range of bytes is ignored, as if it had not been asked for.
    """
    found = _RANGE.fullmatch(wanted.strip())
    if found is None:
        return answer
    size = len(answer.body)
    first, last, suffix = found.groups()
    if suffix is not None:
        begin, end = max(0, size - int(suffix)), size
    else:
        begin, end = int(first), size if last is None else int(last) + 1
        if last is not None and end <= begin:
            return answer
    if begin >= size:
        return Outgoing(416, b"", {"Content-Range": f"bytes */{size}", "Accept-Ranges": "bytes"})
    end = min(end, size)
    headers = {
        **answer.headers,
        "Content-Range": f"bytes {begin}-{end - 1}/{size}",
        "Accept-Ranges": "bytes",
    }
    return Outgoing(206, answer.body[begin:end], headers)


def _is_current(condition: str | None, headers: Mapping[str, str]) -> bool:
    """Whether the rest of what the client has still fits: by a strong tag, as nothing here has a
    date.
    """
    return condition is None or (
        not condition.startswith("W/") and condition.strip() == headers.get("ETag")
    )
