"""What an agent's program tells of itself: asked by one process at a time, whoever wants to know,
and remembered for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from attrs import define
from twisted.internet.interfaces import IReactorTime

from garcon.deferreds import Waiters

T = TypeVar("T")


@define(eq=False)
class Remembered(Generic[T]):
    """One answer.  `value` is what was told last, or what is assumed before."""

    _clock: IReactorTime
    value: T
    _of: object = None
    _until: float | None = None
    _asking: Waiters[None] | None = None

    async def get(self, of: object, ask: Callable[[], Awaitable[tuple[T, float]]]) -> T:
        """Return what is known of `of`, a program as it is now.  If that is nothing any more, `ask`
        finds it out, and for how many seconds it is good.

        Cancelling ends the question; whoever waits for it asks again.
        """
        while self._asking is not None:
            await self._asking.wait()
        if not self.is_good(of):
            self._asking = Waiters()
            try:
                self.take(of, *await ask())
            finally:
                asking, self._asking = self._asking, None
                asking.fire(None)
        return self.value

    def take(self, of: object, value: T, seconds: float) -> None:
        """Remember what was told, unasked perhaps."""
        self.value, self._of, self._until = value, of, self._clock.seconds() + seconds

    def is_good(self, of: object) -> bool:
        """Whether what is remembered is of that program, and not too old."""
        return self._until is not None and self._of == of and self._clock.seconds() < self._until
