"""Which inputs nobody has answered yet, and the prompt that carries them (chats.md 5.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from attrs import frozen
from msgspec import Struct

from garcon.contract.chats import ResendCandidate
from garcon.contract.limits import MIB
from garcon.contract.messages import Image
from garcon.controller.transcripts.rows import Input, answers_input
from garcon.store.interfaces import Damaged
from garcon.store.records import Row

UNNAMED = "attachment"
TOLD_BYTES = 15 * MIB
"""Of what is unanswered a socket is told the newest that fit here, though the contract wants all
(server.md A.6.5): a message of a socket has 16 MiB at most, and one of them is for the rows.
"""


@frozen
class Candidate:
    """One unanswered input."""

    ordinal: int
    content: str
    images: tuple[Image, ...] = ()


@frozen
class Prompt:
    """What an agent is given: texts joined by a blank line, attachments in the same order."""

    text: str
    images: tuple[Image, ...]


def candidate(ordinal: int, stored: Input) -> Candidate:
    return Candidate(ordinal, stored.content, tuple(stored.attached))


class _Named(Struct):
    name: str | None = None


class _Seen(Struct):
    """What is shown of an input: its attachments' names, never what is in them."""

    content: str
    images: list[_Named] = []


_decode = msgspec.json.Decoder(_Seen).decode
_encode = msgspec.json.Encoder().encode


def shown_candidate(view_id: str, row: Row) -> ResendCandidate:
    """Return an unanswered input as its readers see it, read from its row; raises `Damaged`."""
    try:
        seen = _decode(row.payload)
    except msgspec.DecodeError as error:
        raise Damaged(view_id, f"row {row.ordinal} is illegible") from error
    return ResendCandidate(
        ordinal=row.ordinal,
        content=seen.content,
        attachment_names=[image.name or UNNAMED for image in seen.images],
    )


def newest(candidates: list[ResendCandidate], most_bytes: int) -> list[ResendCandidate]:
    """Return the newest candidates that so many bytes of JSON hold."""
    size = len(b"[")
    for count, one in enumerate(reversed(candidates)):
        size += len(_encode(one)) + 1
        if size > most_bytes:
            return candidates[len(candidates) - count :]
    return candidates


def after(ordinals: Sequence[int], rows: Iterable[Row]) -> list[int]:
    """Return the unanswered ordinals once `rows` have followed."""
    left = list(ordinals)
    for row in rows:
        if row.kind == "user-input":
            left.append(row.ordinal)
        elif answers_input(row):
            left.clear()
    return left


def counted_back(rows: Sequence[Row]) -> tuple[list[int], bool]:
    """Count back through `rows`: the unanswered ordinals, and whether an answer was met."""
    found: list[int] = []
    for row in reversed(rows):
        if answers_input(row):
            return found[::-1], True
        if row.kind == "user-input":
            found.append(row.ordinal)
    return found[::-1], False


def compose(candidates: Sequence[Candidate], content: str, images: Sequence[Image]) -> Prompt:
    """Put unanswered input before the new one, oldest first; an input without text adds its
    attachments only.
    """
    texts = [one.content for one in candidates] + [content]
    earlier = [image for one in candidates for image in one.images]
    return Prompt("\n\n".join(text for text in texts if text), (*earlier, *images))
