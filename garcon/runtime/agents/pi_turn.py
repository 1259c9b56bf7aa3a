"""One turn of Pi, from its launch to its end: what was asked of Pi, and how far that is."""

from __future__ import annotations

from attrs import define, field

from garcon.contract.runs import Launch
from garcon.runtime.agents.pi_wire import Message
from garcon.runtime.agents.pi_work import Work


@define(eq=False)
class Turn:
    """See above.  Commands are named by their ids, empty where none is waited for."""

    launch: Launch
    steps: list[tuple[str, Message]]
    """The commands that are still to be sent; the last one begins the work."""
    work: Work
    sent: str = ""
    """The command whose response is waited for."""
    runs: bool = False
    """Pi has taken the prompt."""
    settled: bool = False
    stopping: bool = False
    abort: str = ""
    """The abort that was sent and not answered."""
    clearing: str = ""
    aborted: bool = False
    steers: dict[str, str] = field(factory=dict)
    """Messages that Pi has not answered yet, by their commands."""

    @property
    def can_be_stopped(self) -> bool:
        """Whether an abort would stop it: a prompt that is not taken yet would begin behind one."""
        return self.runs or (self.launch.is_compaction and not self.steps)

    @property
    def takes_input(self) -> bool:
        """Whether further input joins it."""
        return self.runs and not self.settled and not self.stopping

    @property
    def is_over(self) -> bool:
        """Whether Pi is at rest, and has answered all that its end depends on."""
        return self.settled and not (self.sent or self.abort or self.clearing)
