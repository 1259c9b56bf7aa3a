"""What a shell is reached through, each as the same thing that blocks: what is typed goes in, what
the terminal shows comes out.
"""

from __future__ import annotations

import base64
import json
import os
import pty
import select
import subprocess
from collections.abc import Sequence
from typing import Any, Protocol
from uuid import uuid4

import msgspec
from msgspec import Struct

from garcon.testing.bench.keep_alive import Connection, post
from garcon.testing.websocket_client import CLOSE, PING, PONG, TEXT, WebSocketClient

_CHUNK = 262_144
DEFLATE = "permessage-deflate; client_max_window_bits"
"""What browsers offer."""


class Carrier(Protocol):
    """One shell, from its start until `close`."""

    def send(self, data: bytes) -> None:
        """Type something."""

    def receive(self, seconds: float) -> bytes:
        """Return what has come; nothing where nothing came within so many seconds."""

    def close(self) -> None:
        """End the shell."""


class BarePty:
    """The floor: a pseudo-terminal of this process's own."""

    def __init__(self, shell: str, environment: dict[str, str]) -> None:
        self._terminal, slave = pty.openpty()
        try:
            self._shell = subprocess.Popen(
                ["setsid", "--ctty", shell],
                env=environment,
                stdin=slave,
                stdout=slave,
                stderr=slave,
            )
        finally:
            os.close(slave)

    def send(self, data: bytes) -> None:
        """See `Carrier`."""
        os.write(self._terminal, data)

    def receive(self, seconds: float) -> bytes:
        """See `Carrier`."""
        return _read(self._terminal, seconds)

    def close(self) -> None:
        """See `Carrier`."""
        os.close(self._terminal)
        self._shell.kill()
        self._shell.wait(20)


class Ssh:
    """A terminal at the far end of an SSH connection."""

    def __init__(self, options: Sequence[str], shell: str) -> None:
        self._client = subprocess.Popen(
            ["ssh", "-tt", "-e", "none", *options, shell],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )

    def send(self, data: bytes) -> None:
        """See `Carrier`."""
        assert self._client.stdin is not None
        self._client.stdin.write(data)

    def receive(self, seconds: float) -> bytes:
        """See `Carrier`."""
        assert self._client.stdout is not None
        return _read(self._client.stdout.fileno(), seconds)

    def close(self) -> None:
        """See `Carrier`."""
        for pipe in (self._client.stdin, self._client.stdout):
            assert pipe is not None
            pipe.close()
        self._client.terminate()
        self._client.wait(20)


def _read(descriptor: int, seconds: float) -> bytes:
    if not select.select([descriptor], [], [], seconds)[0]:
        return b""
    data = os.read(descriptor, _CHUNK)
    assert data, "the shell is gone"
    return data


class _WebSocket:
    """A shell behind a WebSocket of text messages."""

    def __init__(self, url: str, deflate: str | None) -> None:
        self.socket = WebSocketClient.open(url, deflate=deflate)

    def _shown(self, message: bytes) -> bytes:
        raise NotImplementedError

    def receive(self, seconds: float) -> bytes:
        """See `Carrier`."""
        socket = self.socket
        select.select([socket.connection], [], [], seconds)
        shown = []
        for frame in socket.frames_now():
            if frame.opcode == TEXT:
                shown.append(self._shown(socket.inflated(frame)))
            elif frame.opcode == PING:
                socket.send_frame(PONG, frame.payload)
            assert frame.opcode != CLOSE, f"the socket was closed: {frame.payload!r}"
        return b"".join(shown)


class Terminado(_WebSocket):
    """Terminado's own protocol: a list with a word and its arguments."""

    def __init__(self, url: str) -> None:
        super().__init__(url, DEFLATE)
        self._decode = msgspec.json.Decoder(list[Any]).decode

    def send(self, data: bytes) -> None:
        """See `Carrier`."""
        self.socket.send(["stdin", data.decode()])

    def _shown(self, message: bytes) -> bytes:
        kind, *rest = self._decode(message)
        return rest[0].encode() if kind == "stdout" else b""

    def close(self) -> None:
        """See `Carrier`."""
        self.socket.close()


class _Chunk(Struct, rename="camel"):
    data: str = ""
    data_base64: str = ""

    def shown(self) -> bytes:
        return self.data.encode() or base64.b64decode(self.data_base64)


class _Heard(_Chunk, rename="camel"):
    """Any message of the socket's, as far as it shows something."""

    type: str = ""
    sequence: int = 0
    code: str = ""
    message: str = ""
    replay: list[_Chunk] = []
    chunks: list[_Chunk] = []


_SHOWN = {
    "terminal-attached",
    "terminal-output",
    "terminal-output-fragment",
    "terminal-replay-batch",
}


class Garcon(_WebSocket):
    """A terminal of an executor's, attached through the controller's browser socket."""

    def __init__(self, url: str, executor_id: str, deflate: str | None = None) -> None:
        self._url = url
        self._decode = msgspec.json.Decoder(_Heard).decode
        created = self._ask(
            "POST",
            201,
            {"executorId": executor_id, "requestedInitialWorkingDirectory": None},
        )
        self._id = created["terminal"]["terminalId"]
        self._names = {"terminalId": self._id, "attachmentId": str(uuid4())}
        super().__init__(url, deflate)
        self.socket.send(
            {
                **self._names,
                "type": "terminal-attach",
                "clientId": "bench",
                "afterSequence": 0,
                "intent": "takeover",
            }
        )

    def _ask(self, method: str, status: int, body: dict[str, Any]) -> dict[str, Any]:
        request = post("/api/v1/terminals", {"requestId": str(uuid4()), **body}, method)
        connection = Connection(self._url)
        answer: dict[str, Any] = json.loads(connection.ask(request, status))
        connection.close()
        return answer

    def send(self, data: bytes) -> None:
        """See `Carrier`."""
        self.socket.send({**self._names, "type": "terminal-input", "data": data.decode()})

    def _shown(self, message: bytes) -> bytes:
        heard = self._decode(message)
        assert heard.type != "terminal-error", f"{heard.code}: {heard.message}"
        if heard.type not in _SHOWN:
            return b""
        parts = [heard, *heard.replay, *heard.chunks]
        return b"".join([part.shown() for part in parts])

    def close(self) -> None:
        """See `Carrier`."""
        self.socket.close()
        self._ask("DELETE", 200, {"terminalId": self._id})
