"""A TCP relay between two real processes, with faults that a test switches on.

It runs in threads of its own, so that blocking tests can use it.  Bytes pass unchanged.
"""

from __future__ import annotations

import socket
import threading
from types import TracebackType


class Relay:
    """Listens on a loopback port and forwards every connection to one target port."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._answers = threading.Event()
        self._answers.set()
        self._hold_after: int | None = None
        self._refusing = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def hold_answers_after(self, size: int) -> None:
        """Once so many more bytes have come for the target, keep back whatever it sends.

        A request of that size thus arrives whole and its answer does not.
        """
        with self._lock:
            self._hold_after = size

    def cut(self) -> None:
        """Break every connection and refuse new ones; what was held is lost."""
        with self._lock:
            self._refusing, self._hold_after = True, None
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            for sock in pair:
                _end(sock)
        self._answers.set()

    def mend(self) -> None:
        """Take new connections again."""
        with self._lock:
            self._refusing = False

    def close(self) -> None:
        """Break everything and listen no more."""
        self.cut()
        _end(self._listener)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target), timeout=5)
                far.settimeout(None)
            except OSError:
                _end(near)
                continue
            with self._lock:
                if self._refusing:
                    _end(near)
                    _end(far)
                    continue
                self._pairs.add((near, far))
            for source, sink, answers in ((near, far, False), (far, near, True)):
                threading.Thread(
                    target=self._forward, args=(source, sink, answers), daemon=True
                ).start()

    def _count(self, size: int) -> None:
        with self._lock:
            if self._hold_after is not None:
                self._hold_after -= size
                if self._hold_after <= 0:
                    self._hold_after = None
                    self._answers.clear()

    def _forward(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        try:
            while data := source.recv(65_536):
                if answers:
                    self._answers.wait()
                else:
                    self._count(len(data))
                sink.sendall(data)
        except OSError:
            pass  # a cut, or either end went away: both ends are told below
        _end(source)
        _end(sink)


def _end(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it was not connected any more
    sock.close()
