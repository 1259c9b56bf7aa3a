"""The smallest HTTP client that serves the command: one request, one answer, one connection.

It speaks plain HTTP/1.1 to loopback, follows nothing, and bounds everything.  `http.client` would
cost each command 30 ms.  `ResponseParser` is the protocol as values; `exchange` is the socket.
"""

from __future__ import annotations

from errno import EACCES, EADDRNOTAVAIL, EAFNOSUPPORT, ENETDOWN, ENETUNREACH, EPERM

from garcon.cli.failures import NoNetwork, TransportFailure

try:
    # The socket module itself costs 7 ms for what is not needed here.
    import _socket as sockets
except ImportError:
    import socket as sockets  # type: ignore[no-redef]  # the same names, on other interpreters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST_HEAD = 64 * 1024
LARGEST_BODY = 64 * 1024 * 1024
_READ = 256 * 1024
_NO_NETWORK = frozenset({EPERM, EACCES, EAFNOSUPPORT, ENETDOWN, ENETUNREACH, EADDRNOTAVAIL})
"""How a system says that a process has no loopback network, or may not use it."""


class ProtocolError(Exception):
    """The peer does not speak the HTTP that is expected of it."""


class Answer:
    """A whole response.  Header names are in lower case."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class ResponseParser:
    """Turn the bytes of one response into an `Answer`; `answer` is None until it is complete."""

    def __init__(self, largest_body: int = LARGEST_BODY) -> None:
        self.answer: Answer | None = None
        self._largest = largest_body
        self._buffer = bytearray()
        self._body = bytearray()
        self._status = 0
        self._headers: dict[str, str] = {}
        self._step: Callable[[], bool] = self._head
        self._left = 0

    def feed(self, data: bytes) -> None:
        """Take bytes as they came.  Raises `ProtocolError`."""
        self._buffer += data
        while self.answer is None and self._step():
            pass

    def ended(self) -> None:
        """The peer closed.  Raises `ProtocolError` when the response is not complete by that."""
        if self.answer is None and self._step == self._until_close:
            self._finish()
        if self.answer is None:
            raise ProtocolError("the connection closed before the answer was complete")

    def _head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end > LARGEST_HEAD or (end < 0 and len(self._buffer) > LARGEST_HEAD):
            raise ProtocolError("the answer's header is too large")
        if end < 0:
            return False
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        self._status = _status(lines[0])
        self._headers = _headers(lines[1:])
        if 100 <= self._status < 200:
            return True
        self._step = self._choose_body()
        if self._status in (204, 304):
            self._finish()
        return True

    def _choose_body(self) -> Callable[[], bool]:
        coding = self._headers.get("transfer-encoding")
        length = self._headers.get("content-length")
        if self._headers.get("content-encoding", "identity").lower() != "identity":
            raise ProtocolError("the answer is compressed, which nobody asked for")
        if coding is not None:
            if length is not None or coding.lower() != "chunked":
                raise ProtocolError("the answer's length is ambiguous")
            return self._chunk_size
        if length is None:
            return self._until_close
        if not (length.isascii() and length.isdigit()) or len(length) > 18:
            raise ProtocolError("the answer's length is malformed")
        self._left = int(length)
        self._admit(self._left)
        return self._counted

    def _admit(self, more: int) -> None:
        if len(self._body) + more > self._largest:
            raise ProtocolError(f"the answer is larger than {self._largest} bytes")

    def _take(self) -> None:
        piece = self._buffer[: self._left]
        del self._buffer[: len(piece)]
        self._body += piece
        self._left -= len(piece)

    def _counted(self) -> bool:
        self._take()
        if self._left == 0:
            self._finish()
        return False

    def _until_close(self) -> bool:
        self._admit(len(self._buffer))
        self._body += self._buffer
        self._buffer.clear()
        return False

    def _line(self) -> str | None:
        end = self._buffer.find(b"\r\n")
        if end > 4_096 or (end < 0 and len(self._buffer) > 4_096):
            raise ProtocolError("the answer's chunks are malformed")
        if end < 0:
            return None
        line = self._buffer[:end].decode("latin-1")
        del self._buffer[: end + 2]
        return line

    def _chunk_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        digits = line.partition(";")[0].strip()
        if not 0 < len(digits) <= 12 or any(c not in "0123456789abcdefABCDEF" for c in digits):
            raise ProtocolError("the answer's chunks are malformed")
        self._left = int(digits, 16)
        self._admit(self._left)
        self._step = self._chunk if self._left else self._trailer
        return True

    def _chunk(self) -> bool:
        self._take()
        if self._left or len(self._buffer) < 2:
            return False
        if self._buffer[:2] != b"\r\n":
            raise ProtocolError("the answer's chunks are malformed")
        del self._buffer[:2]
        self._step = self._chunk_size
        return True

    def _trailer(self) -> bool:
        line = self._line()
        if line is None:
            return False
        if not line:
            self._finish()
        return True

    def _finish(self) -> None:
        self.answer = Answer(self._status, self._headers, bytes(self._body))


def _status(line: str) -> int:
    version, _, rest = line.partition(" ")
    code = rest[:3]
    well_formed = code.isascii() and code.isdigit() and len(code) == 3 and rest[3:4] in ("", " ")
    if version not in ("HTTP/1.1", "HTTP/1.0") or not well_formed:
        raise ProtocolError("the answer is not HTTP/1.1")
    return int(code)


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise ProtocolError("the answer's header is malformed")
        name, value = name.lower(), value.strip()
        if name in headers and name in ("content-length", "transfer-encoding"):
            raise ProtocolError("the answer's length is ambiguous")
        headers[name] = value
    return headers


def request_bytes(
    method: str, target: str, host: str, headers: list[tuple[str, str]], body: bytes | None
) -> bytes:
    """Return one request; every header value must be printable ASCII."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    if not all(line.isascii() and line.isprintable() for line in lines):
        raise ValueError("a request header holds a character that cannot be sent")
    head = "\r\n".join([*lines, "Connection: close", "", ""])
    return head.encode("ascii") + (body or b"")


def exchange(
    host: str,
    port: int,
    request: bytes,
    seconds: float,
    clock: Callable[[], float],
    largest_body: int = LARGEST_BODY,
) -> Answer:
    """Send a request and return its answer, within `seconds` in all.

    Raises `TransportFailure`; its `sent` is False only when not one byte went out.
    """
    deadline = clock() + seconds
    family = sockets.AF_INET6 if ":" in host else sockets.AF_INET
    address = "127.0.0.1" if host == "localhost" else host
    sock = _connected(family, (address, port), seconds)
    sent = False
    try:
        sock.settimeout(max(deadline - clock(), 0.001))
        sent = True
        _send(sock, request)
        return _receive(sock, ResponseParser(largest_body), deadline, clock)
    except TimeoutError:
        raise TransportFailure(f"no answer within {seconds:g} s", sent) from None
    except OSError as e:
        raise TransportFailure(f"cannot reach Garcon: {e.strerror or e}", sent) from None
    except ProtocolError as e:
        raise TransportFailure(str(e), sent) from None
    finally:
        sock.close()


def _connected(family: int, address: tuple[str, int], seconds: float) -> sockets.socket:
    """Return a socket to the endpoint.

    Nobody is refused leave to connect to loopback but by a sandbox, some of which refuse the socket
    itself, and some have no loopback that leads anywhere.
    """
    try:
        sock = sockets.socket(family, sockets.SOCK_STREAM)
        try:
            sock.settimeout(seconds)
            sock.connect(address)
        except BaseException:
            sock.close()
            raise
    except TimeoutError:
        raise TransportFailure(f"no answer within {seconds:g} s", False) from None
    except OSError as e:
        if e.errno in _NO_NETWORK:
            raise NoNetwork from None
        raise TransportFailure(f"cannot reach Garcon: {e.strerror or e}", False) from None
    return sock


def _send(sock: sockets.socket, request: bytes) -> None:
    try:
        sock.sendall(request)
    except (BrokenPipeError, ConnectionResetError):
        # Refused before it was read whole: the reason may already lie in our buffer.
        pass


def _receive(
    sock: sockets.socket, parser: ResponseParser, deadline: float, clock: Callable[[], float]
) -> Answer:
    while parser.answer is None:
        left = deadline - clock()
        if left <= 0:
            raise TimeoutError
        sock.settimeout(left)
        data = sock.recv(_READ)
        if data:
            parser.feed(data)
        else:
            parser.ended()
    return parser.answer
