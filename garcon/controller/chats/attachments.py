"""Attachments of an input: what may be sent, and whether an agent can take it (chats.md 4.17)."""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from garcon.contract.catalogs import AgentEntry
from garcon.contract.limits import MIB
from garcon.contract.messages import Image
from garcon.errors import GarconError, validation

MOST = 5
BYTES, VIDEO_BYTES, TOTAL_BYTES = 10 * MIB, 25 * MIB, 25 * MIB
NAME_BYTES = 1024

_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]*)*?;base64,")
_ALIASES = {"video/matroska": "video/x-matroska", "video/x-m4v": "video/mp4"}
_BY_EXTENSION = {
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
    "svg": "image/svg+xml",
    "md": "text/markdown",
    "markdown": "text/markdown",
    "txt": "text/plain",
    "pdf": "application/pdf",
    "mp4": "video/mp4",
    "m4v": "video/mp4",
    "mov": "video/quicktime",
    "webm": "video/webm",
    "mkv": "video/x-matroska",
}
_ALLOWED = frozenset(_BY_EXTENSION.values())
_UNSAID = frozenset({"", "application/octet-stream"})


@frozen
class Attachment:
    """One attachment that passed: its image as stored, its type and its decoded size."""

    image: Image
    mime_type: str
    size: int


def read(images: Sequence[dict[str, Any]] | None) -> list[Attachment]:
    """Check the attachments of an input: 400 for what is malformed, 413 for what is too large."""
    given = images or ()
    if len(given) > MOST:
        raise validation(f"at most {MOST} attachments are taken")
    attachments = [_read(number, one) for number, one in enumerate(given, 1)]
    if sum(one.size for one in attachments) > TOTAL_BYTES:
        raise _too_large("The attachments together are")
    return attachments


def must_be_supported(
    attachments: Sequence[Attachment], entry: AgentEntry, *, images: bool
) -> None:
    """Raise ``UNSUPPORTED_AGENT`` (422) unless the agent takes these; `images` is whether it takes
    pictures.
    """
    for attachment in attachments:
        if attachment.mime_type.startswith("image/"):
            fits = images
        else:
            fits = attachment.mime_type in entry.file_attachment_mime_types
        if not fits:
            raise GarconError(
                "UNSUPPORTED_AGENT",
                f"The agent {entry.id} takes no attachment of type {attachment.mime_type}.",
                status=422,
            )


def _read(number: int, given: dict[str, Any]) -> Attachment:
    data, name, said = given.get("data"), given.get("name"), given.get("mimeType")
    if not isinstance(data, str) or not isinstance(name, str | None):
        raise validation(f"attachment {number} is malformed")
    if not isinstance(said, str | None):
        raise validation(f"attachment {number} is malformed")
    head = _DATA_URL.match(data)
    if head is None:
        raise validation(f"attachment {number} is not a base64 data URL")
    name = (name or "").strip() or f"attachment-{number}"
    if len(name.encode()) > NAME_BYTES:
        raise validation(f"the name of attachment {number} is too long")
    mime_type = type_of(number, head[1], said or "", name)
    limit = VIDEO_BYTES if mime_type.startswith("video/") else BYTES
    size = _size(number, data, head.end(), limit)
    return Attachment(Image(data, name, mime_type), mime_type, size)


def type_of(number: int, in_url: str, said: str, name: str) -> str:
    """Return the type of an attachment: what its URL or its sender says, else by its name.

    Raises for one that is not taken; `number` is what the attachment is called then.
    """
    first, second = _canonical(in_url), _canonical(said)
    if first not in _UNSAID and second not in _UNSAID and first != second:
        raise validation(f"attachment {number} has two different types")
    by_name = _BY_EXTENSION.get(name.rpartition(".")[2].lower(), "") if "." in name else ""
    mime_type = next((one for one in (first, second, by_name) if one not in _UNSAID), "")
    if mime_type not in _ALLOWED:
        raise validation(f"attachment {number} has a type that is not taken")
    return mime_type


def _canonical(mime_type: str) -> str:
    lower = mime_type.strip().lower()
    return _ALIASES.get(lower, lower)


def _size(number: int, data: str, start: int, limit: int) -> int:
    length = len(data) - start
    padding = 2 if data.endswith("==") else 1 if data.endswith("=") else 0
    if length // 4 * 3 - padding > limit:
        raise _too_large(f"Attachment {number} is")
    try:
        decoded = binascii.a2b_base64(data[start:], strict_mode=True)
    except (binascii.Error, ValueError):
        raise validation(f"attachment {number} is not valid base64") from None
    if not decoded:
        raise validation(f"attachment {number} is empty")
    return len(decoded)


def _too_large(what: str) -> GarconError:
    return validation(f"{what} too large.", status=413)
