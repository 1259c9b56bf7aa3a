"""Ways to the controller's socket: found and proven anew each time, because a controller that was
restarted is another process, perhaps at another port.
"""

from __future__ import annotations

import json
import socket
import threading

from garcon.cli.discovery import Endpoint, prove
from garcon.cli.failures import AUTHENTICATION, OPERATIONAL, CommandFailure, TransportFailure
from garcon.cli.websocket import ProtocolError, UpgradeRefused, WebSocket
from garcon.errors import GarconError
from garcon.local.descriptors import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from garcon.cli.system import System

PATH = "/ws"
STEP_TIME = 5.0
"""How long each step of the way may take; all of them are on this machine."""
_READ = 64 * 1024


class OpenSocket:
    """A socket that was upgraded.  Nothing it does waits."""

    def __init__(self, connection: socket.socket, protocol: WebSocket, first: list[str]) -> None:
        self.connection = connection
        self._protocol = protocol
        self._first = first

    def fileno(self) -> int:
        """Return what to poll."""
        return self.connection.fileno()

    @property
    def unsent(self) -> int:
        """How many bytes wait to be written."""
        return len(self._protocol.outgoing)

    @property
    def closed(self) -> str | None:
        """How the controller has ended the conversation, None until then."""
        return self._protocol.closed

    def send(self, message: dict[str, Any]) -> None:
        """Send a message, now or when there is room."""
        self._protocol.send(json.dumps(message, separators=(",", ":")))

    def write(self) -> None:
        """Write what there is room for; raises `OSError`."""
        outgoing = self._protocol.outgoing
        try:
            del outgoing[: self.connection.send(outgoing)]
        except BlockingIOError:
            return

    def texts(self) -> list[str]:
        """Return the messages that came with the upgrade's answer, the first time it is asked."""
        found, self._first = self._first, []
        return found

    def read(self) -> list[str]:
        """Return the messages that have come; raises `ProtocolError` and `OSError` at an end."""
        try:
            data = self.connection.recv(_READ)
        except BlockingIOError:
            return []
        if not data:
            raise ProtocolError("the controller closed the connection")
        return self._protocol.feed(data)

    def close(self) -> None:
        """End it, with a goodbye if there is room for one."""
        try:
            self._protocol.close()
            self.write()
        except OSError:
            pass
        self.connection.close()


class Door:
    """Where sockets come from.  The token is shown to nobody who has not proven himself."""

    def __init__(self, endpoint: Endpoint, path: str, token: str | None, system: System) -> None:
        self._endpoint = endpoint
        self._path = path
        self._token = token
        self._system = system

    def open(self) -> OpenSocket:
        """Return a socket of the endpoint, which has been proven.

        Raises `TransportFailure`, and `CommandFailure` where trying again is useless.
        """
        endpoint = self._endpoint
        family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.settimeout(STEP_TIME)
            connection.connect((endpoint.host, endpoint.port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            protocol = WebSocket(self._system.random)
            protocol.upgrade(PATH, endpoint.authority, self._token)
            connection.sendall(protocol.outgoing)
            protocol.outgoing.clear()
            texts: list[str] = []
            deadline = self._system.clock() + STEP_TIME
            while not protocol.is_open:
                connection.settimeout(max(deadline - self._system.clock(), 0.001))
                data = connection.recv(_READ)
                if not data:
                    raise ProtocolError("the connection closed before the socket was open")
                texts += protocol.feed(data)
            connection.setblocking(False)
            return OpenSocket(connection, protocol, texts)
        except UpgradeRefused as e:
            connection.close()
            if e.status == 401:
                raise _no_login() from None
            raise TransportFailure(str(e), True) from None
        except TimeoutError:
            connection.close()
            raise TransportFailure(f"no answer within {STEP_TIME:g} s", True) from None
        except (OSError, ProtocolError) as e:
            connection.close()
            text = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
            raise TransportFailure(f"cannot reach Garcon: {text}", True) from None
        except BaseException:
            connection.close()
            raise

    def reopen(self) -> OpenSocket:
        """Return a socket of whatever controller serves this config root now, once it has proven
        that it does.  Raises as `open` does, and `GarconError` for all that may pass.
        """
        try:
            self._endpoint = Endpoint(read(self._path, "controller"), self._path)
        except FileNotFoundError:
            raise TransportFailure("no controller runs", False) from None
        except OSError as e:
            text = f"cannot read {self._path}: {e.strerror or e}"
            raise TransportFailure(text, False) from None
        prove(self._endpoint, self._system, STEP_TIME)
        return self.open()


def _no_login() -> CommandFailure:
    return CommandFailure(
        AUTHENTICATION, "the controller does not take the login; run `garcon login`", OPERATIONAL
    )


class Opening:
    """One `reopen` on its way in a thread, so that nobody waits for it; `done` is called there when
    `result` is set.
    """

    def __init__(self, door: Door, done: Callable[[], None]) -> None:
        self.result: OpenSocket | GarconError | None = None
        self._door = door
        self._done = done
        # One that hangs dies with the process.
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            result: OpenSocket | GarconError = self._door.reopen()
        except GarconError as error:
            result = error
        except Exception as error:
            result = GarconError("", f"cannot reach Garcon: {error}")
        self.result = result
        self._done()
