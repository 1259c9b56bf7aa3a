"""What happens on this controller, told to whoever follows it: synchronously, in the order in which
it happened.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from garcon.contract.events import Event, RunFailed

Reader = Callable[[Event], None]
"""Must not raise and must not block."""

TOLD_ONCE = 30.0
"""Seconds within which a turn that fails again has failed already (server.md A.11.6)."""
_FAILURES = 1_024


class Publisher:
    """Passes events on.  The browser sockets are its readers; what publishes knows none of them."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._readers: list[Reader] = []
        self._seconds = seconds
        self._failed: OrderedDict[tuple[str, str], float] = OrderedDict()

    def subscribe(self, reader: Reader) -> Callable[[], None]:
        """Tell `reader` of everything from now on; call what is returned to end that."""
        self._readers.append(reader)
        return lambda: self._readers.remove(reader)

    def publish(self, event: Event) -> None:
        """Tell every reader."""
        if isinstance(event, RunFailed) and self._has_failed(event):
            return
        for reader in list(self._readers):
            reader(event)

    def _has_failed(self, event: RunFailed) -> bool:
        """Whether this very failure was told of just now; remember it where not."""
        now, turn = self._seconds(), (event.chat_id, event.turn_id)
        while self._failed:
            oldest = next(iter(self._failed))
            if len(self._failed) <= _FAILURES and now - self._failed[oldest] < TOLD_ONCE:
                break
            del self._failed[oldest]
        if turn in self._failed:
            return True
        self._failed[turn] = now
        return False
