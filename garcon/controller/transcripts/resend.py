"""Which inputs nobody has answered yet, and the prompt that carries them (chats.md 5.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import frozen

from garcon.contract.chats import ResendCandidate
from garcon.contract.messages import Image
from garcon.controller.transcripts.rows import Input, answers_input
from garcon.store.records import Row


@frozen
class Candidate:
    """One unanswered input."""

    ordinal: int
    content: str
    images: tuple[Image, ...] = ()

    def shown(self) -> ResendCandidate:
        names = [image.name or "attachment" for image in self.images]
        return ResendCandidate(ordinal=self.ordinal, content=self.content, attachment_names=names)


@frozen
class Prompt:
    """What an agent is given: texts joined by a blank line, attachments in the same order."""

    text: str
    images: tuple[Image, ...]


def candidate(ordinal: int, stored: Input) -> Candidate:
    return Candidate(ordinal, stored.content, tuple(stored.attached))


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
