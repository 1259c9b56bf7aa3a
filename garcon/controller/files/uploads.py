"""Files that a browser hands over to attach them to an input: judged, and given back as data URLs
(server.md D.4).  Nothing is kept.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence

import msgspec

from garcon.contract.files import UPLOAD_FIELDS, UploadedFile
from garcon.controller.chats import attachments
from garcon.controller.chats.attachments import BYTES, MOST, NAME_BYTES, TOTAL_BYTES, VIDEO_BYTES
from garcon.controller.files.multipart import Part, parse
from garcon.controller.handlers import Form
from garcon.errors import validation


def answer(form: Form) -> bytes:
    """Return the JSON that answers a form.  Blocks for as long as coding 25 MiB takes."""
    given = msgspec.json.encode([_uploaded(part, kind) for part, kind in judged(form)])
    return b'{"attachments":' + given + b',"images":' + given + b"}"


def judged(form: Form) -> Sequence[tuple[Part, str]]:
    """Return the files of a form with their types, or raise."""
    parts = parse(form.content_type, form.body)
    # A field that was left empty is sent as a file without a name and without content.
    files = [
        part
        for field in UPLOAD_FIELDS
        for part in parts
        if part.name == field and part.filename is not None and (part.filename or part.content)
    ]
    if not 1 <= len(files) <= MOST:
        raise validation(f"Between one and {MOST} files are taken, as attachments or images.")
    found = []
    for number, part in enumerate(files, 1):
        if len((part.filename or "").encode()) > NAME_BYTES:
            raise validation(f"The name of attachment {number} is too long.")
        said = part.content_type.partition(";")[0]
        found.append((part, attachments.type_of(number, "", said, part.filename or "")))
    _must_fit(found)
    return found


def _must_fit(found: Sequence[tuple[Part, str]]) -> None:
    for number, (part, kind) in enumerate(found, 1):
        size = part.content.nbytes
        if not size:
            raise validation(f"Attachment {number} is empty.")
        if size > (VIDEO_BYTES if kind.startswith("video/") else BYTES):
            raise validation(f"Attachment {number} is too large.", status=413)
    if sum(part.content.nbytes for part, _ in found) > TOTAL_BYTES:
        raise validation("The attachments together are too large.", status=413)


def _uploaded(part: Part, kind: str) -> UploadedFile:
    coded = binascii.b2a_base64(part.content, newline=False).decode("ascii")
    return UploadedFile(
        part.filename or "attachment", f"data:{kind};base64,{coded}", part.content.nbytes, kind
    )
