"""A change of a chat's record that is part of a commit of rows: made in memory at the moment it is
written, and no sooner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from garcon.controller.chats.chat import Chat
from garcon.store.records import PutChat


@define(eq=False)
class Becoming:
    """Attributes that a chat takes on with a commit.  What others change meanwhile stays theirs:
    read marks and places in the list do not wait for a chat's lane.
    """

    _chat: Chat
    _becomes: Mapping[str, Any]
    _before: dict[str, Any] = field(factory=dict)

    @property
    def is_change(self) -> bool:
        """Whether there is anything that it takes on."""
        return bool(self._becomes)

    def made(self) -> PutChat:
        """Change the chat in memory and return the change of the store (a `Late` one)."""
        self._before = {name: getattr(self._chat.record, name) for name in self._becomes}
        self._chat.set(**self._becomes)
        return PutChat(self._chat.record)

    def undo(self) -> None:
        """Take it back, if it was made: the commit failed."""
        if self._before:
            self._chat.set(**self._before)
