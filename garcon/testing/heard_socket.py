"""A browser's socket with a thread that hears it: what the judges of sockets have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from garcon.testing.websocket_client import WAIT, WebSocketClient

M = TypeVar("M")


class HeardSocket(Generic[M]):
    """One socket from its opening to `close`.

    Each message is judged as it comes and then kept, as what `judge` makes of it.  The first one
    that it raises for is the last that is heard, and fails whoever asks next.
    """

    def __init__(self, connection: WebSocketClient, judge: Callable[[bytes], M]) -> None:
        self.connection = connection
        self.messages: list[M] = []
        self._judge = judge
        self._changed = threading.Condition()
        self._wrong: Exception | None = None
        self._is_over = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        try:
            while True:
                try:
                    text = self.connection.message(3_600)
                except (OSError, ConnectionError):
                    return
                with self._changed:
                    self.messages.append(self._judge(text))
                    self._changed.notify_all()
        except Exception as error:
            self._wrong = error
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

    @property
    def is_over(self) -> bool:
        """Whether the connection has ended."""
        return self._is_over

    def check(self) -> None:
        """Fail if anything was wrong so far."""
        if self._wrong is not None:
            raise AssertionError(
                f"the socket heard what it may not: {self._wrong}"
            ) from self._wrong

    def close(self) -> None:
        """Stop listening; fail if anything was wrong."""
        try:
            self.connection.send_frame(8, b"\x03\xe8")
        except OSError:
            pass  # nobody is there any more
        self._thread.join(WAIT)
        self.connection.close()
        self.check()
