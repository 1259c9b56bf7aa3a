"""What the chats ask of whoever keeps the preambles, and how a preamble goes to an agent
(control.md D.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import evolve

from garcon.contract.runs import HistoryMessage
from garcon.controller.preambles.matching import SEPARATOR, Place
from garcon.controller.transcripts.resend import Prompt
from garcon.errors import GarconError
from garcon.store.records import ChatRecord


class KeepsPreambles(Protocol):
    """See `PreambleService`."""

    def selected(
        self, ids: Sequence[str] | None, place: Place, agent_id: str, tags: Sequence[str]
    ) -> list[str]: ...

    def text(self, record: ChatRecord) -> str | None: ...


class NoPreambles:
    """A workspace without any."""

    def selected(
        self, ids: Sequence[str] | None, place: Place, agent_id: str, tags: Sequence[str]
    ) -> list[str]:
        if ids:
            raise GarconError(
                "PREAMBLE_NOT_FOUND",
                "A preamble of the selection does not exist.",
                status=404,
                details=", ".join(f"{one}: missing" for one in ids[:10]),
            )
        return []

    def text(self, record: ChatRecord) -> str | None:
        return None


def ahead(
    text: str | None, prompt: Prompt, history: list[HistoryMessage]
) -> tuple[Prompt, list[HistoryMessage]]:
    """Put a preamble before everything that an agent is told."""
    if text is None:
        return prompt, history
    if not history:
        return evolve(prompt, text=_joined(text, prompt.text)), history
    first = history[0]
    if first.role != "user":
        return prompt, [HistoryMessage("user", text), *history]
    told = HistoryMessage("user", _joined(text, first.content), first.images)
    return prompt, [told, *history[1:]]


def _joined(text: str, following: str) -> str:
    return text + SEPARATOR + following if following else text
