"""One saver at a time of each file."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from twisted.internet.defer import Deferred, fail, succeed

from garcon.runtime.files import failures


class Locks:
    """Locks by key, in the order of asking.  At most `most_waiting` wait, over all keys."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._held: dict[Hashable, deque[Deferred[None]]] = {}
        self._waiting = 0

    def __len__(self) -> int:
        return len(self._held)

    def acquire(self, key: Hashable) -> Deferred[None]:
        """Fire once the key is ours; ``FILE_OPERATIONS_BUSY`` where too many wait.  Cancelling
        gives the place up.
        """
        queue = self._held.get(key)
        if queue is None:
            self._held[key] = deque()
            return succeed(None)
        if self._waiting >= self._most_waiting:
            return fail(failures.busy())

        def leave(d: Deferred[None]) -> None:
            self._waiting -= 1
            queue.remove(d)

        d: Deferred[None] = Deferred(leave)
        queue.append(d)
        self._waiting += 1
        return d

    def release(self, key: Hashable) -> None:
        """Give a key to whoever waits for it longest."""
        queue = self._held[key]
        if not queue:
            del self._held[key]
            return
        self._waiting -= 1
        queue.popleft().callback(None)
