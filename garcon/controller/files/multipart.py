"""Forms with files, as browsers send them (RFC 7578); pure.

A part's content is a view of the whole body, so nothing is copied before it is wanted.
"""

from __future__ import annotations

import re

from attrs import field, frozen

from garcon.contract.limits import KIB
from garcon.errors import GarconError, validation

HEADERS, PARTS = 8 * KIB, 100
"""Of one part, and of a form."""

_BOUNDARY = re.compile(r';\s*boundary=(?:"([^"]{1,70})"|([^\s;",]{1,70}))', re.I)
_PARAMETER = re.compile(r';\s*([\w*-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;]*))')
_ESCAPED = re.compile(r'\\(["\\])')
_AFTER = re.compile(rb"[ \t]*\r\n")


@frozen
class Part:
    """One field of a form.  `filename` is None for what is no file."""

    name: str
    filename: str | None
    content_type: str
    content: memoryview = field(repr=False)


def boundary_of(content_type: str) -> bytes:
    """Return what parts a form, or raise for a request that is none."""
    media = content_type.partition(";")[0].strip().lower()
    found = _BOUNDARY.search(content_type)
    if media != "multipart/form-data" or found is None:
        raise validation("The request must be a form with files (multipart/form-data).")
    return (found[1] or found[2]).encode("latin-1")


def parse(content_type: str, body: bytes) -> list[Part]:
    """Return the parts of a form, in order."""
    mark = b"--" + boundary_of(content_type)
    parts: list[Part] = []
    view = memoryview(body)
    at = _begin(body, mark)
    while not body.startswith(b"--", at):
        if len(parts) == PARTS:
            raise validation(f"A form has at most {PARTS} parts.")
        after = _AFTER.match(body, at)
        if after is None:
            raise _malformed()  # only where the body begins with something like it
        # With the line break before it, as a part may have no headers.
        start = after.end()
        end_of_headers = body.find(b"\r\n\r\n", start - 2, start + HEADERS)
        if end_of_headers < 0:
            raise _malformed()
        begin = end_of_headers + 4
        at = _behind_next(body, mark, begin - 2)
        content = view[begin : max(begin, at - len(mark) - 2)]
        parts.append(_part(body[start:end_of_headers], content))
    return parts


def _begin(body: bytes, mark: bytes) -> int:
    return len(mark) if body.startswith(mark) else _behind_next(body, mark, 0)


def _behind_next(body: bytes, mark: bytes, start: int) -> int:
    """Return where the next mark ends that is alone in its line."""
    while (found := body.find(b"\r\n" + mark, start)) >= 0:
        end = found + 2 + len(mark)
        if body.startswith(b"--", end) or _AFTER.match(body, end):
            return end
        start = end
    raise _malformed()


def _part(head: bytes, content: memoryview) -> Part:
    try:
        lines = head.decode().split("\r\n")
    except UnicodeDecodeError:
        raise _malformed() from None
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    disposition = headers.get("content-disposition", "")
    kind = disposition.partition(";")[0].strip().lower()
    given = {
        name.lower(): _ESCAPED.sub(r"\1", quoted) if quoted else plain
        for name, quoted, plain in _PARAMETER.findall(disposition)
    }
    if kind != "form-data" or "name" not in given:
        raise _malformed()
    return Part(given["name"], given.get("filename"), headers.get("content-type", ""), content)


def _malformed() -> GarconError:
    return validation("The form is malformed.")
