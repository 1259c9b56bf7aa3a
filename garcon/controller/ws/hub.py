"""All open browser sockets: counted, told of everything, and dropped at the end."""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from garcon.contract.events import Event
from garcon.controller.principals import Principal
from garcon.controller.ws.deflate import Compressor, Deflate
from garcon.controller.ws.interfaces import IAnswers, ITerminalDoor
from garcon.controller.ws.messages import Broadcast
from garcon.controller.ws.slots import Slots
from garcon.controller.ws.socket import IWire, Socket, SocketLimits
from garcon.deferreds import Waiters

TRY_AGAIN_LATER = 1013


class Sockets:
    """The browser sockets of one controller.  `answers` is who knows the chats, `terminals` who
    knows those; where nobody does, messages about them are not answered.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        answers: IAnswers,
        limits: SocketLimits | None = None,
        terminals: ITerminalDoor | None = None,
    ) -> None:
        self.limits = limits or SocketLimits()
        self._clock = clock
        self._answers = answers
        self._terminals = terminals
        self._slots = Slots(self.limits.sockets)
        self._compressor = Compressor()
        self._open: dict[Socket, None] = {}
        self._gone: Waiters[None] = Waiters()
        self._is_over = False

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    @property
    def is_full(self) -> bool:
        """Whether every place is taken."""
        return len(self._slots) >= self.limits.sockets

    def publish(self, event: Event) -> None:
        """Tell every open socket, in one order.  Never raises: what happened has happened, whether
        it can be told or not.
        """
        if not self._open:
            return
        broadcast = Broadcast(event, self._compressor)
        try:
            for socket in list(self._open):
                socket.tell(broadcast)
        except Exception:
            self._log.failure("an event could not be told to the browser sockets")

    # One socket, from its upgrade to its end

    def reserve(self) -> int | None:
        """Take a place, if there is one."""
        return None if self._is_over else self._slots.reserve()

    def release(self, number: int) -> None:
        """Give a place back."""
        self._slots.release(number)

    def made(self, principal: Principal, *, is_newer: bool, deflate: Deflate | None) -> Socket:
        """Make the socket of an upgrade that is under way."""
        return Socket(
            *(self._clock, self._compressor, self.limits, principal),
            is_newer=is_newer,
            deflate=deflate,
        )

    def opened(self, number: int, socket: Socket, wire: IWire) -> None:
        """A socket is open: from now on it is told of everything."""
        refusal = self._slots.confirm(number)
        self._open[socket] = None
        socket.opened(wire, self._answers, self._terminals)
        if refusal is not None:
            socket.close(TRY_AGAIN_LATER, refusal)

    def gone(self, number: int, socket: Socket) -> None:
        """A socket has ended, or never opened."""
        self._slots.release(number)
        self._open.pop(socket, None)
        if not self._open:
            self._gone.fire(None)

    def drop(self) -> Deferred[None]:
        """Take no more and drop all at once (server.md A.3); fires when the last is gone."""
        self._is_over = True
        gone = self._gone.wait() if self._open else succeed(None)
        for socket in list(self._open):
            socket.abort()
        return gone
