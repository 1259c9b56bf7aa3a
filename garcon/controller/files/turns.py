"""How many may do something at once, and how many wait for their turn."""

from __future__ import annotations

from collections import deque

from twisted.internet.defer import Deferred, fail, succeed

from garcon.runtime.files import failures


class Turns:
    """`at_once` have their turn, at most `most_waiting` wait, in the order of asking."""

    def __init__(self, at_once: int, most_waiting: int) -> None:
        self._left = at_once
        self._at_once = at_once
        self._most_waiting = most_waiting
        self._waiting: deque[Deferred[None]] = deque()

    @property
    def is_idle(self) -> bool:
        return self._left == self._at_once

    def begin(self) -> Deferred[None]:
        """Fire when it is our turn; ``FILE_OPERATIONS_BUSY`` where too many wait.  Cancelling
        gives the place up.
        """
        if self._left:
            self._left -= 1
            return succeed(None)
        if len(self._waiting) >= self._most_waiting:
            return fail(failures.busy())
        d: Deferred[None] = Deferred(self._waiting.remove)
        self._waiting.append(d)
        return d

    def end(self) -> None:
        """Let the next have its turn."""
        if self._waiting:
            self._waiting.popleft().callback(None)
        else:
            self._left += 1
