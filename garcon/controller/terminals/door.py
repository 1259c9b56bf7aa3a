"""Who talks about terminals on the browser sockets."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.terminals.stream import ITerminalClient
from garcon.controller.terminals.talk import TerminalTalk
from garcon.controller.ws.interfaces import ITerminalDoor


@implementer(ITerminalDoor)
@define(eq=False)
class TerminalDoor:
    """See `ITerminalDoor`.

    `now` is the time of day, in seconds since the epoch; `is_signed_in` says whether a login
    (`Principal.session`) still is one.
    """

    _executors: IExecutors
    _clock: IReactorTime
    _now: Callable[[], float]
    _is_signed_in: Callable[[str], bool]
    _talks: set[TerminalTalk] = field(factory=set)

    def meet(self, client: ITerminalClient) -> TerminalTalk:
        """See `ITerminalDoor`."""
        talk = TerminalTalk(client, self._executors, self._clock, self._now, self._talks.discard)
        self._talks.add(talk)
        if talk.session is not None and not self._is_signed_in(talk.session):
            # It was signed out while the socket had nothing to say of terminals.
            talk.expire()
        return talk

    def signed_out(self, session: str) -> None:
        """A login was revoked: its sockets have no more rights on terminals."""
        for talk in list(self._talks):
            if talk.session == session:
                talk.expire()
