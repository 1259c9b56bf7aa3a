"""A gateway under readers that do not read, uploads that trickle and headers that never end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from garcon.contract import limits
from garcon.contract.operations import LIST_CHATS
from garcon.controller.handlers import Call, Encoded
from garcon.test.live.authority.cast import Workshop

ANSWER = b'"' + b"x" * (2 * 1024 * 1024) + b'"'


class FloodTests(Workshop):
    """One gateway process, and more clients than it takes."""

    async def setUp(self) -> None:  # type: ignore[override]
        await super().setUp()
        descriptor = self.worker.descriptor()
        url = urlsplit(descriptor["baseUrl"])
        self.address = ("127.0.0.1", url.port or 0)
        self.capability = descriptor["localCapability"]
        self.open = ExitStack()
        self.addCleanup(self.open.close)

    def connect(self) -> socket.socket:
        return self.open.enter_context(socket.create_connection(self.address, timeout=10))

    def head(self, method: str, path: str, *more: str) -> bytes:
        lines = [
            f"{method} /api/v1{path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.address[1]}",
            f"Authorization: Bearer {self.capability}",
            f"X-Garcon-Server-Instance: {self.controller.instance_id}",
            *more,
        ]
        return "\r\n".join([*lines, "", ""]).encode()

    async def apart(self, work: Callable[[], Any]) -> Any:
        """Do blocking work beside the reactor, which runs the controller."""
        d: Deferred[Any] = deferToThread(work)
        return await d

    def sockets(self) -> int:
        """How many sockets the worker has open: the gateway's, its listener and its link's."""
        directory = f"/proc/{self.worker.process.pid}/fd"
        found = 0
        for name in os.listdir(directory):
            try:
                found += os.readlink(f"{directory}/{name}").startswith("socket:")
            except OSError:
                continue  # it was closed in between
        return found

    async def show_use(self) -> None:
        """Commands of the worker are served: discovery, a read of the controller, a control."""
        await self.command(self.worker, "list", "agents")
        stop = await self.command(self.worker, "stop", "1700000000000001", check=False)
        self.assertIn("SESSION_NOT_FOUND", stop.err)

    async def test_a_hundred_slow_readers(self) -> None:
        """They ask for large answers and take nothing: never more than thirty-two are connected,
        and after their first second whoever wants something takes their places.
        """
        before = self.sockets()
        self.controller.handlers._handlers[LIST_CHATS.route.key] = large
        request = self.head("GET", "/chats")

        def begin() -> int:
            most = 0
            for _ in range(100):
                try:
                    self.connect().sendall(request)
                except OSError:
                    continue  # it was closed at once: there was no place
                most = max(most, self.sockets() - before)
            return most

        most = await self.apart(begin)
        self.assertGreater(most, 8)
        self.assertLessEqual(most, limits.GATEWAY_CONNECTIONS)
        for _ in range(20):
            done = await self.command(self.worker, "list", "agents", check=False)
            if done.status == 0:
                break
        await self.show_use()
        self.assertLessEqual(self.sockets() - before, limits.GATEWAY_CONNECTIONS)

    async def test_uploads_that_trickle(self) -> None:
        """Twelve of them hold bulk's share, without a slot of the controller's; the next is told to
        come later and closed unread; controls have places of their own.
        """
        request = self.head(
            "POST", "/chats/start", "Content-Type: application/json", "Content-Length: 100000"
        )

        def begin() -> bytes:
            for _ in range(limits.GATEWAY_RESPONSES_BULK):
                self.connect().sendall(request + b"{")
            extra = self.connect()
            extra.sendall(request + b"{")
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += extra.recv(65_536)
            return answer

        answer = await self.apart(begin)
        self.assertTrue(answer.startswith(b"HTTP/1.1 503 "), answer)
        self.assertIn(b"Retry-After: 1\r\n", answer)
        self.assertIn(b"Connection: close\r\n", answer)
        self.assertIn(b"CLI_SERVICE_BUSY", answer)
        self.assertFalse(any(self.controller.dispatcher.pools.used.values()))
        stop = await self.command(self.worker, "stop", "1700000000000001", check=False)
        self.assertIn("SESSION_NOT_FOUND", stop.err)
        self.open.close()
        await self.show_use()

    async def test_headers_without_end(self) -> None:
        """Each is refused once it has sent 32 KiB, and the next command is served."""
        line = b"X-Flood: " + b"x" * 1_000 + b"\r\n"

        def flood() -> list[bytes]:
            answers = []
            for _ in range(2 * limits.GATEWAY_CONNECTIONS):
                with socket.create_connection(self.address, timeout=10) as connection:
                    connection.sendall(self.head("GET", "/chats")[:-2])
                    try:
                        for _ in range(200):
                            connection.sendall(line)
                    except OSError:
                        pass  # it was closed; the answer may be there all the same
                    try:
                        answers.append(connection.recv(64))
                    except OSError:
                        answers.append(b"")
            return answers

        answers = await self.apart(flood)
        refused = [one for one in answers if one.startswith(b"HTTP/1.1 413 ")]
        self.assertTrue(all(one in (b"", *refused) for one in answers), answers)
        self.assertTrue(refused)
        await self.show_use()


def large(call: Call[Any, Any]) -> Encoded:
    """Answer with two MiB."""
    return Encoded(ANSWER)
