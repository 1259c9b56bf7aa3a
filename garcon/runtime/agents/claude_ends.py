"""When a turn of Claude Code is over.

With the first result after its line and all further input were taken up (lines come back then), or,
where its line never was, with the state ``idle`` after a result: the agent's own commands do not
take lines up.  The agent may also run turns of its own, for what went on in the background, which a
line waits behind: their results say so, and their rest is not the turn's.  A program that stands in
for Claude Code need not tell of lines and states: then a result is the end.
"""

from __future__ import annotations

from attrs import define

from garcon.runtime.agents.claude_lines import Message, as_object


@define
class Ends:
    """What is known of the turn that runs, in one process."""

    line_id: str = ""
    taken_up: bool = False
    result: Message | None = None
    tells: bool = False
    """Whether it says which line it takes up, or what it does."""
    _tells_running: bool = False
    """Whether it says that it begins to work as well."""
    _is_running: bool = False
    """It has said so since the turn began."""

    def begin(self, line_id: str) -> None:
        """A turn begins, with this line."""
        self.line_id = line_id
        self.taken_up = self._is_running = False
        self.result = None

    def heard(self, message: Message) -> None:
        """Take what any message tells of lines and states."""
        state = message.get("state") if message.get("subtype") == "session_state_changed" else None
        if message.get("isReplay"):
            self.taken_up = self.taken_up or message.get("uuid") == self.line_id
        elif state is None:
            return
        self.tells = True
        if state == "running":
            self._is_running = self._tells_running = True

    def resulted(self, result: Message, *, waits: bool, is_stopped: bool) -> bool:
        """Take a result; whether the turn is over with it.  `waits`: further input was not taken up
        yet.
        """
        if as_object(result.get("origin")).get("kind") and not is_stopped:
            return False
        self.result = result
        return (self.taken_up and not waits) or is_stopped or not self.tells

    def came_to_rest(self, *, may_go_on: bool) -> bool:
        """Take the state ``idle``; whether the turn is over.  `may_go_on`: the agent may not have
        known of further input.
        """
        # It may have come to rest before it read the turn's line.
        has_worked = self._is_running or not self._tells_running
        return self.result is not None and has_worked and not may_go_on
