"""What happens on this controller, told to whoever follows it: synchronously, in the order in which
it happened.
"""

from __future__ import annotations

from collections.abc import Callable

from garcon.contract.events import Event

Reader = Callable[[Event], None]
"""Must not raise and must not block."""


class Publisher:
    """Passes events on.  The browser sockets are its readers; what publishes knows none of them."""

    def __init__(self) -> None:
        self._readers: list[Reader] = []

    def subscribe(self, reader: Reader) -> Callable[[], None]:
        """Tell `reader` of everything from now on; call what is returned to end that."""
        self._readers.append(reader)
        return lambda: self._readers.remove(reader)

    def publish(self, event: Event) -> None:
        """Tell every reader."""
        for reader in list(self._readers):
            reader(event)
