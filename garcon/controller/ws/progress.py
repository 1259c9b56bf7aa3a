"""How far a reload is, told to the socket that asked for it (server.md A.7).

Its client gives up after thirty seconds without a word, so there is one every few seconds whether
rows came or not.  An older client may not know the message at all and is spared it while the reload
is short (H.5).
"""

from __future__ import annotations

from typing import Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from garcon.contract.events import Answer, ReloadProgress
from garcon.controller.ws.interfaces import ReloadPhase
from garcon.controller.ws.requests import Reload

EVERY = 5.0


class IListener(Protocol):
    """The socket, as far as progress is told to it."""

    @property
    def is_newer(self) -> bool:
        """Whether it surely knows the message."""

    def answer(self, answer: Answer) -> None:
        """Send it."""


class ReloadProgressTeller:
    """Tells one reload's progress.  Ends by `end`."""

    def __init__(self, listener: IListener, clock: IReactorTime, request: Reload) -> None:
        self._listener = listener
        self._clock = clock
        self._request = request
        self._phase: ReloadPhase | None = None
        self._rows = 0
        self._beat: IDelayedCall | None = clock.callLater(EVERY, self._due)

    def told(self, phase: ReloadPhase, rows: int) -> None:
        """Take what the reload says of itself."""
        begins = phase != self._phase
        self._phase, self._rows = phase, rows
        if begins and self._listener.is_newer and self._beat is not None:
            self._tell()

    def end(self) -> None:
        """There is nothing more to tell."""
        beat, self._beat = self._beat, None
        if beat is not None:
            beat.cancel()

    def _due(self) -> None:
        self._beat = self._clock.callLater(EVERY, self._due)
        self._tell()

    def _tell(self) -> None:
        if self._phase is None:
            return
        self._listener.answer(
            ReloadProgress(
                client_request_id=self._request.request_id,
                chat_id=self._request.chat_id,
                phase=self._phase,
                rows=self._rows,
            )
        )
