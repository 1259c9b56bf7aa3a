"""A steer that was admitted, on its way to the agent, and everybody who asked for it.

The same message sent again under another request joins it, and is not delivered a second time
(chats.md 2.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field
from twisted.internet.defer import Deferred

from garcon.contract.steering import Steered, SteerTarget
from garcon.controller.chats.ledger import Record
from garcon.controller.chats.steer_source import Source
from garcon.controller.chats.steered import SteeredInput

if TYPE_CHECKING:
    from garcon.controller.chats.chat import Chat
    from garcon.controller.chats.turns import Turn


@define(eq=False)
class Asker:
    """One request for a delivery."""

    record: Record
    source: Source
    settled: Deferred[None] = field(factory=Deferred)
    """Fires for whoever asked; they may have given it up."""


@define(eq=False)
class Delivery:
    """An admitted steer.  In its chat's `steers` until its fate is known; owned by `Steering`."""

    chat: Chat
    turn: Turn
    target: SteerTarget
    input: SteeredInput
    askers: list[Asker]
    resolved: Deferred[str]
    """Its text with the files that it mentions."""
    has_begun: bool = False

    @property
    def is_promised(self) -> bool:
        """Whether somebody was told already that it may have arrived: its row has to be there."""
        return any(asker.record.is_terminal for asker in self.askers)

    def is_wanted(self, outcome: Steered) -> bool:
        """Whether it belongs into the transcript."""
        return self.is_promised or any(asker.source.is_kept(outcome) for asker in self.askers)
