"""How work in a thread learns that nobody waits for it any more."""

from __future__ import annotations

from attrs import define


class Stopped(Exception):
    """The work was given up; nothing has been changed by it."""


@define(eq=False)
class Stop:
    """Set by the reactor's thread, looked at by the other: at every entry of something long, and
    right before the first change.
    """

    is_set: bool = False

    def check(self) -> None:
        """Raise `Stopped` once it is set."""
        if self.is_set:
            raise Stopped
