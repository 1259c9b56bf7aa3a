"""Which executor this gateway speaks for, and the session a request belongs to."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from garcon.contract import bridge
from garcon.link.interfaces import ICapturedLink


@define(eq=False)
class Relation:
    """The one executor that the shells behind this gateway were enrolled as.

    A link that comes back as another executor is not a restart: it would lead retained shells
    somewhere else, so their requests are refused until the worker itself is started anew.
    """

    _current: Callable[[], ICapturedLink | None]
    executor_id: str | None = field(default=None, init=False)

    def capture(self) -> ICapturedLink:
        """Return the session that is connected now, for one request and for good, or raise the
        bridge's error.
        """
        captured = self._current()
        if captured is None:
            raise bridge.unavailable()
        proven = captured.peer.executor_id
        if self.executor_id is None:
            self.executor_id = proven
        elif self.executor_id != proven:
            raise bridge.access_denied(
                "This worker is linked as another executor now; restart it to enrol its shells."
            )
        return captured
