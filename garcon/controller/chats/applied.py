"""Which queue commands a chat has taken, kept with its queue: they are known as such for longer
than the command ledger remembers them (chats.md 2.3).
"""

from __future__ import annotations

from collections import OrderedDict

from attrs import define, field, frozen

from garcon.controller.chats.ledger import conflict

KEPT = 1_000
"""Commands of one chat that are remembered; the oldest go first."""


@frozen
class Applied:
    """One command that had its effect, and what its answer named."""

    command_type: str
    fingerprint: bytes
    entry_id: str
    accepted_at: str


@define(eq=False)
class AppliedCommands:
    """The queue commands that one chat has taken, by request id."""

    _commands: OrderedDict[str, Applied] = field(factory=OrderedDict)

    def add(self, request_id: str, command: Applied) -> None:
        """A command had its effect."""
        self._commands[request_id] = command
        while len(self._commands) > KEPT:
            self._commands.popitem(last=False)

    def find(self, command_type: str, request_id: str, fingerprint: bytes) -> Applied | None:
        """Return the same command, None for one that is not known; another one under its id is a
        conflict.
        """
        known = self._commands.get(request_id)
        if known is None:
            return None
        if (known.command_type, known.fingerprint) != (command_type, fingerprint):
            raise conflict("The request id was used for another command.")
        return known
