"""What a pipe delivers, as messages: in order, so many in one turn of the reactor, and none while
whoever takes them has no room.  What cannot be taken yet stays in the pipe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure

from garcon.contract.limits import UNKNOWN_RAW
from garcon.runtime.agents.lines import Lines, decode
from garcon.runtime.agents.long_lines import LARGE_LINE, decode_in_steps

LINES_AT_ONCE = 256
"""Taken in one turn of the reactor."""
PUZZLED = 2 * UNKNOWN_RAW
"""Bytes that are told of a line which is no message."""


class MessageFlow:
    """Owned by the process that the pipe belongs to.

    `take` hears each message, `puzzled` the beginning of a line that is none, `went_on` that there
    is none to be delivered now after some had to wait, and `pipe` returns what can be paused, if it
    is there.  A line has at most `largest` bytes.
    """

    def __init__(
        self,
        reactor: Any,
        largest: int,
        take: Callable[[dict[str, Any]], None],
        puzzled: Callable[[str], None],
        went_on: Callable[[], None],
        pipe: Callable[[], IPushProducer | None],
    ) -> None:
        self._reactor = reactor
        self._clock = cast(IReactorTime, reactor)
        self._take = take
        self._puzzled = puzzled
        self._went_on = went_on
        self._pipe = pipe
        self._lines = Lines(largest, LARGE_LINE)
        self._waiting: deque[bytes | list[bytes]] = deque()
        self._is_busy = self._is_held = self._is_paused = False
        self.is_over = False
        """Whether nothing is delivered any more."""

    @property
    def is_waiting(self) -> bool:
        """Whether it goes on by itself later: `went_on` tells of it."""
        return self._is_busy or self._is_held

    @property
    def is_empty(self) -> bool:
        """Whether everything that came has been delivered."""
        return not self._waiting and not self._is_busy

    def feed(self, data: bytes) -> None:
        """Take what the pipe delivers; raises `LineTooLong`, after which nothing can be taken."""
        if not self.is_over:
            self._waiting.extend(self._lines.feed(data))
            self._drain()

    def finish(self) -> None:
        """The pipe has ended: what came after the last line end is a line too."""
        rest = self._lines.rest()
        if rest and not self.is_over:
            self._waiting.append(rest)
            self._drain()

    def hold(self) -> None:
        """Deliver nothing more until `let_go`."""
        self._is_held = True

    def let_go(self) -> None:
        """Go on after `hold`, in a moment."""
        if self._is_held:
            self._is_held = False
            self._clock.callLater(0, self._go_on)

    def drop(self) -> None:
        """Forget what has not been delivered, and deliver nothing any more."""
        self.is_over = True
        self._lines.rest()
        self._waiting.clear()
        self._is_busy = self._is_held = False

    def _drain(self) -> None:
        for _ in range(LINES_AT_ONCE):
            if self._is_busy or self._is_held or not self._waiting:
                break
            line = self._waiting.popleft()
            if isinstance(line, list):
                self._decode_apart(line)
            elif line:
                self._deliver(decode(line), line)
        if self._is_held:
            self._pause()
        elif self._waiting and not self._is_busy:
            self._rest()
            self._clock.callLater(0, self._rested)

    def _decode_apart(self, line: list[bytes]) -> None:
        def decoded(message: Any) -> None:
            self._deliver(None if isinstance(message, Failure) else message, line[0])
            self._rested()

        self._rest()
        # Not cancelled by anyone: it ends by itself.
        pool = self._reactor.getThreadPool()
        d: Deferred[Any] = deferToThreadPool(self._reactor, pool, decode_in_steps, line)
        d.addBoth(decoded)

    def _deliver(self, message: dict[str, Any] | None, line: bytes) -> None:
        if self.is_over:
            return
        if message is not None:
            self._take(message)
        elif line.strip():
            self._puzzled(line[:PUZZLED].decode("utf-8", "replace"))

    def _rest(self) -> None:
        self._is_busy = True
        self._pause()

    def _rested(self) -> None:
        self._is_busy = False
        self._go_on()

    def _go_on(self) -> None:
        if self.is_over or self._is_busy:
            return
        self._drain()
        if self.is_waiting:
            return
        pipe = self._pipe()
        if self._is_paused and pipe is not None:
            self._is_paused = False
            pipe.resumeProducing()
        self._went_on()

    def _pause(self) -> None:
        pipe = self._pipe()
        if pipe is not None and not self._is_paused:
            self._is_paused = True
            pipe.pauseProducing()
