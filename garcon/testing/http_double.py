"""A tiny loopback HTTP server that answers as it is told, good manners or not.

It is blocking and has a thread of its own, for tests of clients that block too.  Every request is
kept, in order, so that a test can ask what was sent.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from attrs import define, field, frozen

_PATIENCE = 10.0


@frozen
class Asked:
    """One request as it came.  Header names are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def answer(
    value: Any, status: int = 200, headers: dict[str, str] | None = None, *, chunked: bool = False
) -> bytes:
    """Return a JSON response as it goes over the wire."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    lines = [f"HTTP/1.1 {status} Whatever", "Content-Type: application/json"]
    lines += [f"{name}: {text}" for name, text in (headers or {}).items()]
    if chunked:
        lines.append("Transfer-Encoding: chunked")
        half = len(body) // 2
        pieces = [piece for piece in (body[:half], body[half:]) if piece]
        body = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"
    else:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def refusal(status: int, code: str, text: str = "no", **more: Any) -> bytes:
    """Return an error envelope (chats.md 1.2)."""
    after = more.pop("retry_after", None)
    retryable = more.pop("retryable", False)
    envelope = {"success": False, "error": text, "errorCode": code, "retryable": retryable}
    headers = {} if after is None else {"Retry-After": str(after)}
    return answer(envelope | more, status, headers)


@define(eq=False)
class HttpDouble:
    """Serve until the ``with`` block ends.

    `respond` returns the bytes of an answer; nothing at all closes the connection unanswered, as a
    peer that died would.  It runs on the server's thread, one request at a time.
    """

    respond: Callable[[Asked], bytes]
    asked: list[Asked] = field(factory=list)
    _listener: socket.socket = field(init=False)
    _thread: threading.Thread = field(init=False)
    _stopping: bool = field(default=False, init=False)

    def __enter__(self) -> HttpDouble:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def stop(self) -> None:
        """Stop listening; later connections are refused."""
        if self._stopping:
            return
        self._stopping = True
        # Wakes the accept, which a mere close would not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(_PATIENCE)
        self._listener.close()

    def _serve(self) -> None:
        while not self._stopping:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(_PATIENCE)
                try:
                    asked = _read(connection)
                    if asked is not None:
                        self.asked.append(asked)
                        connection.sendall(self.respond(asked))
                except OSError:
                    continue  # the client went away, as clients do


def _read(connection: socket.socket) -> Asked | None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65_536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    while len(body) < int(headers.get("content-length", "0")):
        piece = connection.recv(65_536)
        if not piece:
            return None
        body += piece
    return Asked(method, target, headers, body)
