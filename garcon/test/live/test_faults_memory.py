"""What a process holds after it was used badly: no more memory or descriptors than before."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from garcon.test.live.fleets import FleetTestCase
from garcon.testing.fleet import Service, eventually

MIB = 2**20
ROOM = 64
"""MiB that an allocator may keep of what was freed."""
EXACT = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""Lets glibc return large blocks at once, so that what is still resident is still in use."""


def resident(service: Service) -> int:
    """MiB of memory that a process has now."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    found = re.search(r"^VmRSS:\s*(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) // 1024


def descriptors(service: Service) -> int:
    """How many descriptors a process has open."""
    return len(os.listdir(f"/proc/{service.process.pid}/fd"))


class OutputTests(FleetTestCase):
    """What an agent says is kept by the store, not by the processes it passed."""

    def test_large_outputs_are_not_kept_by_idle_sessions(self) -> None:
        """Several sessions stay open after turns of 15 MB each, on either side."""
        controller = self.fleet.controller(environment=EXACT)
        executor_id = self.fleet.executor(
            controller,
            *("--label", "worker", "--direction", "executor-connects", "--no-tls", "true"),
        )
        url = self.fleet.garcon(controller, "executor", "connection", executor_id).out.strip()
        worker = self.fleet.worker("--no-tls", url=url, environment=EXACT)
        self.fleet.await_executor(controller, executor_id)
        before = {service: resident(service) for service in (controller, worker)}
        for service in before:
            for _ in range(5):
                self.start(service, "run head -c 15000000 /dev/zero | tr '\\0' x\nsay over")
        eventually(
            "the memory of before",
            lambda: all(resident(service) <= kept + ROOM for service, kept in before.items()),
            seconds=5,
        )


class MemoryTests(FleetTestCase):
    """Large bodies leave with the requests that brought them."""

    def setUp(self) -> None:
        super().setUp()
        self.controller = self.fleet.controller(environment=EXACT)
        parts = urlsplit(self.controller.descriptor()["baseUrl"])
        self.place = (parts.hostname or "", parts.port or 0)
        self.host = f"Host: {parts.netloc}\r\n"

    def assert_as_before(self, memory: int, open_files: int) -> None:
        """Assert that the controller holds what it held."""
        eventually(
            "the descriptors of before",
            lambda: descriptors(self.controller) <= open_files,
        )
        eventually(
            "the memory of before", lambda: resident(self.controller) <= memory + ROOM, seconds=5
        )

    def test_refused_bodies_are_not_kept(self) -> None:
        """A failure keeps its frames in a cycle; what was parsed for them goes all the same."""
        body = json.dumps(
            {
                "clientRequestId": str(uuid4()),
                "clientMessageId": str(uuid4()),
                "chatId": "no chat id",
                "agentId": "scripted",
                "projectPath": "/",
                "model": "scripted",
                "agentSettings": {"ownerId": "scripted", "schemaVersion": 1, "values": {}},
                "command": "x" * 20 * MIB,
            }
        )
        before = resident(self.controller), descriptors(self.controller)
        for _ in range(10):
            connection = http.client.HTTPConnection(*self.place, timeout=20)
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/api/v1/chats/start", body, headers)
            self.assertEqual(connection.getresponse().status, 400)
            connection.close()
        self.assert_as_before(*before)

    def test_senders_that_leave_in_mid_upload(self) -> None:
        """Their half bodies go with them."""
        head = f"POST /api/v1/chats/start HTTP/1.1\r\n{self.host}"
        head += f"Content-Type: application/json\r\nContent-Length: {21 * MIB}\r\n\r\n"
        before = resident(self.controller), descriptors(self.controller)
        for _ in range(10):
            with socket.create_connection(self.place, timeout=20) as sock:
                sock.sendall(head.encode() + bytes(20 * MIB))
        self.assert_as_before(*before)

    def test_readers_that_leave_in_mid_answer(self) -> None:
        """An answer that nobody takes any more goes with its connection."""
        prompt = "\n".join(["say " + "y" * 200_000] * 10)
        body = self.fleet.garcon(
            self.controller,
            *("start", "--agent", "scripted", "--model", "scripted"),
            *("--cwd", str(self.fleet.project("project")), "-"),
            stdin=prompt,
        )
        chat, _ = body.handle()
        request = f"GET /api/v1/chats/messages?chatId={chat}&limit=200 HTTP/1.1\r\n{self.host}\r\n"
        before = resident(self.controller), descriptors(self.controller)
        for _ in range(6):
            readers = []
            for _ in range(12):
                sock = socket.socket()
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                sock.connect(self.place)
                sock.sendall(request.encode())
                readers.append(sock)
            for sock in readers:
                self.assertTrue(sock.recv(15).startswith(b"HTTP/1.1 200"))
                sock.close()
            time.sleep(0.1)
        self.assert_as_before(*before)
