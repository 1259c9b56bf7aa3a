"""One open browser socket: who it is, what it is sent, and when it ends.

The shell around it (`protocol.py`) knows WebSockets; the parts inside know nothing of networks.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
from attrs import frozen
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from garcon.contract.events import Answer
from garcon.contract.limits import MIB
from garcon.controller.principals import Principal
from garcon.controller.ws.conversation import Conversation
from garcon.controller.ws.deflate import Compressor, Deflate
from garcon.controller.ws.interfaces import IAnswers, ITerminalDoor, ITerminalTalk
from garcon.controller.ws.liveness import Due, Liveness
from garcon.controller.ws.messages import Broadcast, Message
from garcon.controller.ws.outbox import Outbox
from garcon.deferreds import Waiters

_encode = msgspec.json.Encoder().encode


@frozen
class SocketLimits:
    """The bounds of browser sockets (server.md A.2, F.1).  Bytes and seconds."""

    sockets: int = 128
    message: int = 16 * MIB
    unsent: int = 2 * MIB
    idle: float = 960.0


class IWire(Protocol):
    """The WebSocket below."""

    def put(self, frame: bytes) -> None:
        """Hand over a whole frame; it says when it has enough."""

    def ping(self) -> None:
        """Send a ping."""

    def hold_reading(self, is_held: bool) -> None:
        """Read no further, or go on."""

    def close(self, code: int, reason: str) -> None:
        """Say goodbye and close."""

    def abort(self) -> None:
        """Close at once, with whatever is unsent."""


class Socket:
    """A client's socket, from its upgrade to its end.

    `principal` is who opened it; its rights on terminals end at `expires_at`, while everything else
    goes on (server.md C.7).
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        compressor: Compressor,
        limits: SocketLimits,
        principal: Principal,
        *,
        is_newer: bool = False,
        deflate: Deflate | None = None,
    ) -> None:
        self.principal = principal
        self.is_newer = is_newer
        self.deflate = deflate
        self._clock = clock
        self._compressor = compressor
        self._outbox = Outbox(limits.unsent)
        self._liveness = Liveness(limits.idle, clock.seconds())
        self._wire: IWire | None = None
        self._conversation: Conversation | None = None
        self._terminal_door: ITerminalDoor | None = None
        self._terminals: ITerminalTalk | None = None
        self._timer: IDelayedCall | None = None
        self._room: Waiters[None] = Waiters()
        self._is_ending = False
        self._owes_ping = False

    @property
    def expires_at(self) -> float | None:
        """When the credential of this socket expires, in seconds since the epoch, if it does."""
        expires = self.principal.expires_at_ms
        return None if expires is None else expires / 1000

    @property
    def is_open(self) -> bool:
        """Whether something can be sent."""
        return self._wire is not None and not self._is_ending

    @property
    def is_clear(self) -> bool:
        """Whether what is sent now goes out at once."""
        return self.is_open and self._outbox.is_empty

    @property
    def unsent(self) -> int:
        """Bytes that wait for the client."""
        return self._outbox.unsent

    # From the hub

    def opened(
        self, wire: IWire, answers: IAnswers, terminals: ITerminalDoor | None = None
    ) -> None:
        """The upgrade is done."""
        self._wire = wire
        self._terminal_door = terminals
        self._conversation = Conversation(self, answers, self._clock)
        self._watch(0.0)

    def tell(self, broadcast: Broadcast) -> None:
        """Send what everybody is told, in the form for this client."""
        message = broadcast.form(self.is_newer)
        if message is not None:
            self.send(message)

    def close(self, code: int, reason: str) -> None:
        """End it with a code (server.md A.3)."""
        if self._wire is not None and not self._is_ending:
            self._is_ending = True
            self._end_terminals()
            self._wire.close(code, reason)

    # To the client

    def answer(self, answer: Answer) -> None:
        """Send an answer to this socket alone."""
        self.send(Message(_encode(answer), self._compressor))

    def send(self, message: Message) -> None:
        """Send a message.  A socket that takes too little is closed instead, alone."""
        if not self.is_open:
            return
        if self._outbox.put(message.frame(self.deflate)):
            self._flush()
        else:
            self._log.warn(
                "a browser socket was closed: {size} bytes wait for its client",
                size=self._outbox.unsent,
            )
            self.abort()

    def say(self, text: bytes) -> None:
        """Send a message of terminals, which wait for `is_clear` elsewhere."""
        self.send(Message(text, self._compressor))

    def room(self) -> Deferred[None]:
        """Fire once nothing waits to be sent."""
        return succeed(None) if self._outbox.is_empty else self._room.wait()

    def hold_reading(self, is_held: bool) -> None:
        """Read no further, or go on."""
        if self._wire is not None:
            self._wire.hold_reading(is_held)

    def abort(self) -> None:
        """Close at once, with whatever is unsent."""
        self._is_ending = True
        self._end_terminals()
        if self._wire is not None:
            self._wire.abort()

    # From the wire

    def heard(self) -> None:
        """Anything came."""
        self._liveness.heard(self._clock.seconds())

    def received(self, payload: bytes) -> None:
        """A whole message came."""
        if self._conversation is not None and not self._is_ending:
            self._conversation.received(payload)

    def terminal_received(self, payload: bytes) -> None:
        """Let the terminals have a message; the first one begins their talk."""
        if self._terminals is None and self._terminal_door is not None:
            self._terminals = self._terminal_door.meet(self)
        if self._terminals is not None:
            self._terminals.received(payload)

    def wire_full(self) -> None:
        """The wire has enough for now."""
        self._outbox.hold()

    def wire_empty(self) -> None:
        """The wire has sent what it had."""
        self._outbox.release()
        if self._owes_ping and self._wire is not None:
            self._owes_ping = False
            self._wire.ping()
        self._flush()
        if self._outbox.is_empty:
            self._room.fire(None)
        # After the chats, which else would wait for a flood of output to end.
        if self._terminals is not None and self._outbox.is_empty:
            self._terminals.room()

    def closed(self) -> None:
        """The wire is gone."""
        self._wire = None
        self._outbox.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._end_terminals()
        if self._conversation is not None:
            self._conversation.end()

    def _end_terminals(self) -> None:
        terminals, self._terminals, self._terminal_door = self._terminals, None, None
        if terminals is not None:
            terminals.end()

    def _flush(self) -> None:
        wire = self._wire
        while wire is not None and self.is_open and (frame := self._outbox.next()) is not None:
            wire.put(frame)

    # Silence

    def _watch(self, after: float) -> None:
        self._timer = self._clock.callLater(after, self._due)

    def _due(self) -> None:
        self._timer = None
        if self._wire is None:
            return
        due, after = self._liveness.due(self._clock.seconds())
        if due is Due.CLOSE:
            self.abort()
            return
        if due is Due.PING:
            # One that is behind with its reading gets it with the next that it takes.
            self._owes_ping = not self._outbox.is_empty
            if not self._owes_ping:
                self._wire.ping()
        self._watch(after)
