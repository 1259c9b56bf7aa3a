"""Browsers that take little or nothing of a terminal that has much to say (server.md C.6)."""

from __future__ import annotations

import re
import time
from pathlib import Path

from garcon.contract.limits import KIB, MIB
from garcon.test.live.terminal_clients import OpenCase
from garcon.testing.websocket_client import PING, PONG


class SlowClients(OpenCase):
    """A browser that takes nothing while its terminal has much to say."""

    def resident(self) -> int:
        """Bytes of memory that the controller has."""
        status = Path(f"/proc/{self.controller.process.pid}/status").read_text()
        found = re.search(r"^VmRSS:\s*(\d+) kB$", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) * KIB

    def test_a_flood_that_nobody_reads(self) -> None:
        """Costs little memory, ends that attachment, and holds up nobody else; the browser can
        attach again.
        """
        name, other = self.new(), self.new()
        flooded = self.browser(receive_buffer=4 * KIB, deflate=None)
        flooded.open(name)
        reader = self.browser()
        reader.open(other)
        before = self.resident()
        flooded.type(name, "yes\n")
        deadline = time.monotonic() + 4
        number = 0
        while time.monotonic() < deadline:
            number += 1
            reader.enter(other, f"echo re''ply {number}", f"reply {number}")
            reader.ping()
            self.assertEqual(self.terminals("GET").status, 200)
        self.assertLess(self.resident() - before, 48 * MIB)
        error = flooded.heard("error")
        self.assertEqual((error["code"], error["terminalId"]), ("terminal-backpressure", name))
        flooded.attach(name)
        flooded.heard("replay-truncated")
        flooded.heard("attached")
        flooded.type(name, "\x03")
        flooded.enter(name, "echo do''ne", "done")

    def test_chats_go_before_a_flood(self) -> None:
        """A client that reads slowly still gets its answers soon: no more than a little output is
        ever ahead of them.
        """
        name = self.new()
        browser = self.browser(receive_buffer=4 * KIB, deflate=None)
        browser.open(name)
        browser.type(name, "yes\n")
        browser.shows(name, "y\r\n" * 1_000)
        for _ in range(20):
            begin = browser.socket.received
            browser.ping()
            self.assertLess(browser.socket.received - begin, 4 * MIB)
        browser.type(name, "\x03")
        browser.enter(name, "echo do''ne", "done")

    def test_pings_of_a_client_that_is_behind(self) -> None:
        """Are answered, the last of them at least, so that it is not taken for dead."""
        name = self.new()
        browser = self.browser(receive_buffer=4 * KIB, deflate=None)
        browser.open(name)
        browser.type(name, "yes\n")
        browser.shows(name, "y\r\n" * 1_000)
        for number in range(5):
            browser.socket.send_frame(PING, b"%d" % number)
        while True:
            frame = browser.socket.frame()
            if (frame.opcode, frame.payload) == (PONG, b"4"):
                break
