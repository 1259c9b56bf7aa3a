"""What a socket has not sent yet: frames in order, counted against a limit (server.md A.2, A.12).

The transport is given whole frames until it says that it has enough, and no more before it is
empty; the rest waits here.  Frames that many sockets wait for are the same bytes, so a slow reader
costs little more than a list of them.  A socket is over its limit when something is to be sent
while more than the limit waits: one message may always be larger than that.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field

from garcon.contract.limits import KIB

TRANSPORT_FULL = 64 * KIB
"""Above this much unsent data Twisted's transports ask their producer to pause."""


@define(eq=False)
class Outbox:
    """One socket's unsent frames."""

    limit: int
    _waiting: deque[bytes] = field(factory=deque)
    _size: int = 0
    _is_held: bool = False

    @property
    def unsent(self) -> int:
        """Bytes that are known not to have left: what waits here, and what a transport that has
        enough holds at least.
        """
        return self._size + (TRANSPORT_FULL if self._is_held else 0)

    @property
    def is_empty(self) -> bool:
        """Whether more would go out at once."""
        return not self._is_held and not self._waiting

    def put(self, frame: bytes) -> bool:
        """Queue a frame; or refuse it, because the socket is over its limit."""
        if self.unsent > self.limit:
            return False
        self._waiting.append(frame)
        self._size += len(frame)
        return True

    def next(self) -> bytes | None:
        """Return the next frame for the transport, if it takes any."""
        if self._is_held or not self._waiting:
            return None
        frame = self._waiting.popleft()
        self._size -= len(frame)
        return frame

    def hold(self) -> None:
        """The transport has enough."""
        self._is_held = True

    def release(self) -> None:
        """The transport has sent what it had."""
        self._is_held = False

    def clear(self) -> None:
        """Nothing of it will be sent."""
        self._waiting.clear()
        self._size = 0
