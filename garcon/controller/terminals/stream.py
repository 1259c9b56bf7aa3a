"""What goes to one socket about its terminals (server.md C.6).

Two mechanisms keep a slow client from costing much, and they meet here.  While the socket takes
what it is given, everything goes out at once.  While it does not, a little output waits here, in
turns; more of it is refused, and as the executor is told only of what has left (`ITerminals.taken`)
it holds the program, and then goes on without this client, which is detached with
``terminal-backpressure``.  So only what nobody can hold back, as the answers to a client's own
mistakes, ever meets the bounds of the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from attrs import define, field
from msgspec import UNSET
from twisted.logger import Logger

from garcon.contract.terminals import BACKPRESSURE, ErrorMessage
from garcon.controller.principals import Principal
from garcon.controller.terminals.delivery import Delivery, Part
from garcon.controller.terminals.subscription import Subscription, Worded
from garcon.controller.terminals.wording import Id, worded

OVERFLOW, OVERFLOW_REASON = 1013, "TERMINAL_STREAM_BACKPRESSURE"
SEND_FAILED, SEND_FAILED_REASON = 1011, "TERMINAL_STREAM_SEND_FAILED"


class ITerminalClient(Protocol):
    """The socket, as its terminals need it."""

    @property
    def principal(self) -> Principal:
        """Whose it is."""

    @property
    def expires_at(self) -> float | None:
        """When that ends for terminals, in seconds since the epoch."""

    @property
    def is_clear(self) -> bool:
        """Whether it is open and what is sent now goes out at once."""

    def say(self, text: bytes) -> None:
        """Send a message."""

    def close(self, code: int, reason: str) -> None:
        """End the socket, and its talk of terminals with it."""


@define(eq=False)
class Stream:
    """Sends, or lets wait.  `sent` is told how far a subscription's output has left, `give_up` ends
    the subscription to a terminal that has overflowed and returns the client's own id of it.
    """

    _log: ClassVar[Logger] = Logger()

    _client: ITerminalClient
    _sent: Callable[[Subscription, int], None]
    _give_up: Callable[[str], Id]
    _delivery: Delivery = field(factory=Delivery)
    _is_sending: bool = False

    def room(self, terminal_id: str) -> int:
        """How many more messages of output a terminal may have waiting."""
        return self._delivery.room(terminal_id)

    def tell(self, subscription: Subscription, said: Sequence[Worded]) -> None:
        """Send messages of a subscription."""
        for text, through in said:
            if not self._put(subscription.terminal_id, Part(text, subscription, through)):
                return
        self.send()

    def complain(
        self, code: str, text: str, terminal_id: Id = UNSET, attachment_id: Id = UNSET
    ) -> None:
        """Send a failure, of a terminal or of none."""
        message = ErrorMessage(
            code=code, message=text, terminal_id=terminal_id, attachment_id=attachment_id
        )
        line = terminal_id if isinstance(terminal_id, str) else None
        if self._put(line, Part(worded(message))):
            self.send()

    def overflow(self, terminal_id: str, text: str) -> None:
        """Give up a terminal of which too much waits, and say so."""
        self.drop(terminal_id)
        message = ErrorMessage(
            code=BACKPRESSURE,
            message=text,
            terminal_id=terminal_id,
            attachment_id=self._give_up(terminal_id),
        )
        if self._delivery.put(terminal_id, Part(worded(message))):
            self.send()
        else:
            self._client.close(OVERFLOW, OVERFLOW_REASON)

    def drop(self, terminal_id: str) -> None:
        """Send nothing of what waits of a terminal."""
        self._delivery.drop(terminal_id)

    def clear(self) -> None:
        """Send nothing of what waits."""
        self._delivery.clear()

    def send(self) -> None:
        """Send what the socket takes now."""
        if self._is_sending:
            return
        self._is_sending = True
        client, delivery = self._client, self._delivery
        left: dict[Subscription, int] = {}
        try:
            while client.is_clear and (part := delivery.next()) is not None:
                client.say(part.text)
                if part.source is not None and part.through:
                    left[part.source] = part.through
        except Exception:
            self._log.failure("a message of a terminal could not be sent")
            client.close(SEND_FAILED, SEND_FAILED_REASON)
        finally:
            self._is_sending = False
        for subscription, through in left.items():
            self._sent(subscription, through)

    def _put(self, terminal_id: str | None, part: Part) -> bool:
        if self._delivery.put(terminal_id, part):
            return True
        if terminal_id is None:
            self._client.close(OVERFLOW, OVERFLOW_REASON)
        else:
            self.overflow(terminal_id, "Too much waits for this connection.")
        return False
