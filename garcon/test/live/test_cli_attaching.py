"""The loop that lends a terminal, turn by turn: a real PTY and a real socket, whose other ends are
the test's.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import signal
import socket
import termios
import time
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli import attaching
from garcon.cli.attaching import Attaching
from garcon.cli.attachment import Attachment
from garcon.cli.door import OpenSocket
from garcon.cli.failures import CommandFailure, TransportFailure
from garcon.cli.keyboard import Keyboard, detach_key
from garcon.cli.system import System
from garcon.cli.terminal import LocalTerminal
from garcon.cli.websocket import WebSocket

ID = "local/7c9e6679-7425-40de-944b-e07fc1f90ae7/16fd2706-8baf-433b-82eb-8c7fada847da"
MUCH = "x" * 60_000


class Entrance:
    """A way to sockets whose other ends are the test's.  What lies in `ways` happens in turn; with
    nothing there, nobody is at home.
    """

    def __init__(self) -> None:
        self.ways: list[Any] = []
        self.opened = 0

    def open(self) -> OpenSocket:
        self.opened += 1
        if not self.ways:
            raise TransportFailure("nobody is at home", False)
        way = self.ways.pop(0)
        if isinstance(way, Exception):
            raise way
        protocol = WebSocket(os.urandom)
        protocol.is_open = True
        way.setblocking(False)
        return OpenSocket(way, protocol, [])

    reopen = open


class Peer:
    """The controller's end of one socket."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self._data = b""

    def say(self, kind: str, **fields: Any) -> bool:
        """Send a message; return whether all of it was taken."""
        text = json.dumps({"type": f"terminal-{kind}", "terminalId": ID, **fields}).encode()
        head = b"\x81" + (
            bytes((len(text),)) if len(text) < 126 else b"\x7e" + len(text).to_bytes(2, "big")
        )
        try:
            return self.ours.send(head + text) == len(head + text)
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Say goodbye, and nothing else."""
        self.ours.send(b"\x88\x06\x03\xf5full")

    def attached(self, latest: int = 0, status: str = "running", code: int | None = None) -> None:
        """Say that the terminal is theirs."""
        terminal = {
            "terminalId": ID,
            "processStatus": status,
            "exitCode": code,
            "latestOutputSequence": latest,
        }
        self.say("attached", terminal=terminal, replay=[])

    def heard(self) -> list[dict[str, Any]]:
        """Return the messages that have come."""
        try:
            while data := self.ours.recv(1 << 20):
                self._data += data
        except BlockingIOError:
            pass
        found = []
        while len(self._data) >= 2:
            size, at = self._data[1] & 0x7F, 2
            if size > 125:
                at = 4 if size == 126 else 10
                size = int.from_bytes(self._data[2:at], "big")
            if len(self._data) < at + 4 + size:
                break
            mask, payload = self._data[at : at + 4], self._data[at + 4 : at + 4 + size]
            opcode, self._data = self._data[0] & 15, self._data[at + 4 + size :]
            if opcode == 1:
                text = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
                found.append(json.loads(text))
        return found


class AttachingCase(SynchronousTestCase):
    """One terminal that is lent, and time that passes when the test says so."""

    def setUp(self) -> None:
        self.master, self.slave = pty.openpty()
        self.addCleanup(os.close, self.slave)
        self.addCleanup(os.close, self.master)
        os.set_blocking(self.master, False)
        self.before = self.state()
        self.now = 1_000.0
        self.system = System(
            environ={},
            stdin=io.BytesIO(),
            stdout=io.BytesIO(),
            stderr=io.BytesIO(),
            clock=lambda: self.now,
            random=lambda length: b"\x80" * length,
        )
        output = os.dup(self.slave)
        self.addCleanup(os.close, output)
        self.terminal = LocalTerminal(self.slave, output)
        self.addCleanup(self.terminal.__exit__, None, None, None)
        self.entrance = Entrance()
        self.keyboard = Keyboard(detach_key(None))
        self.attachment = Attachment(ID, "c", False, iter("123456789").__next__)
        entrance: Any = self.entrance
        self.attaching = Attaching(
            self.system, self.terminal, self.attachment, entrance, self.keyboard
        )

    def state(self) -> tuple[list[Any], int]:
        return termios.tcgetattr(self.slave), fcntl.fcntl(self.slave, fcntl.F_GETFL)

    def peer(self) -> Peer:
        """Return the other end of the socket that is opened next."""
        peer = Peer()
        self.addCleanup(peer.ours.close)
        self.addCleanup(peer.theirs.close)
        self.entrance.ways.append(peer.theirs)
        return peer

    def turn(self, times: int = 1) -> None:
        """Let the loop turn without waiting."""
        for _ in range(times):
            self.terminal.wake()
            self.attaching._turn()

    def until(self, holds: Callable[[], Any]) -> Any:
        """Turn until something holds, and say what it was."""
        deadline = time.monotonic() + 20
        while not (found := holds()):
            if time.monotonic() > deadline:
                raise AssertionError("it did not come about")
            self.turn()
        return found

    def begin(self) -> Peer:
        """Be attached."""
        peer = self.peer()
        self.attaching._use(self.attaching._door.open())
        self.turn()
        (asked,) = peer.heard()
        self.assertEqual(asked["type"], "terminal-attach")
        peer.attached()
        self.until(lambda: self.terminal.is_entered)
        self.turn()
        self.assertEqual([one["type"] for one in peer.heard()], ["terminal-resize"])
        return peer

    def cut(self, peer: Peer) -> None:
        """Break the connection."""
        peer.ours.close()
        self.until(lambda: self.attaching._socket is None)

    def printed(self) -> str:
        """Return what the window shows since the last look."""
        data = b""
        try:
            while piece := os.read(self.master, 65_536):
                data += piece
                self.turn()
        except BlockingIOError:
            pass
        return data.decode()

    def end(self) -> Any:
        """Return how it ended; None while it goes on."""
        return self.attaching._end


class BoundTests(AttachingCase):
    """What waits is bounded, by not reading the other side."""

    def test_a_window_that_takes_nothing(self) -> None:
        """No more than `SCREEN_BYTES` and one read wait for it; the rest waits in the socket."""
        peer = self.begin()
        sequence = 0
        while peer.say("output", sequence=sequence + 1, data=MUCH):
            sequence += 1
            self.turn(3)
        waiting = len(self.attaching._screen)
        self.assertGreater(waiting, attaching.SCREEN_BYTES)
        self.assertLess(waiting, attaching.SCREEN_BYTES + 4 * 65_536)
        self.turn(20)
        self.assertEqual(len(self.attaching._screen), waiting)
        # It goes on as soon as the window does, with everything.
        shown = 0
        while self.attaching._screen:
            shown += len(self.printed())
            self.turn(3)
        self.assertGreaterEqual(shown, sequence * len(MUCH))

    def test_a_window_that_takes_nothing_can_be_left(self) -> None:
        """The key is heard, and nothing of the output is waited for."""
        peer = self.begin()
        while peer.say("output", sequence=self.attachment.last + 1, data=MUCH):
            self.turn(3)
        os.write(self.master, b"\x1d")
        ended = self.until(self.end)
        self.assertEqual((ended.text, ended.status), ("detached", 0))
        self.terminal.leave(b"last words")
        self.assertEqual(self.state(), self.before)

    def test_a_controller_that_takes_nothing(self) -> None:
        """Keys wait in the window when `SOCKET_BYTES` wait for it; none is lost."""
        peer = self.begin()
        typed = 0
        try:
            while True:
                typed += os.write(self.master, b"k" * 1_024)
                self.turn(2)
        except BlockingIOError:
            pass
        link = self.attaching._socket
        assert link is not None
        self.assertGreater(link.unsent, attaching.SOCKET_BYTES)
        self.assertLess(link.unsent, attaching.SOCKET_BYTES + 65_536)
        arrived = 0
        for _ in range(1_000):
            self.turn()
            arrived += sum(len(one["data"]) for one in peer.heard())
        self.assertEqual(arrived, typed)


class AwayTests(AttachingCase):
    """The connection is gone."""

    def test_it_is_tried_again(self) -> None:
        """From where the output was, more and more slowly; then keys are sent again."""
        peer = self.begin()
        peer.say("output", sequence=1, data="a")
        self.until(lambda: self.attachment.last == 1)
        self.cut(peer)
        self.assertIn("[garcon: not connected", self.printed())
        os.write(self.master, b"lost")
        self.assertIn("\a", self.until(self.printed))
        for delay in (0.25, 0.5, 1.0, 2.0, 2.0):
            before = self.entrance.opened
            self.now += delay - 0.01
            self.turn(3)
            self.assertEqual(self.entrance.opened, before)
            self.now += 0.02
            self.turn()
            self.until(lambda: self.attaching._opening is None)
            self.assertEqual(self.entrance.opened, before + 1)
        again = self.peer()
        self.now += 2.1
        (asked,) = self.until(again.heard)
        self.assertEqual((asked["afterSequence"], asked["intent"]), (1, "restore"))
        again.attached(latest=1)
        self.assertIn("connected again", self.until(self.printed))
        os.write(self.master, b"kept")
        typed = self.until(lambda: [one for one in again.heard() if "data" in one])
        self.assertEqual(typed[0]["data"], "kept")

    def test_for_how_long(self) -> None:
        """`PATIENCE`, counted from the loss, and not a moment longer."""
        self.cut(self.begin())
        self.now += attaching.PATIENCE - 0.01
        self.turn(3)
        self.assertEqual(self.end(), None)
        self.now += 0.01
        ended = self.until(self.end)
        self.assertEqual((ended.phase, ended.status), ("transport recovery", 3))

    def test_attached_again_it_counts_anew(self) -> None:
        """A second loss has the whole time."""
        self.cut(self.begin())
        again = self.peer()
        self.now += 100
        self.until(again.heard)
        again.attached()
        self.until(lambda: self.attachment.is_attached)
        self.cut(again)
        self.now += attaching.PATIENCE - 1
        self.turn(3)
        self.assertEqual(self.end(), None)

    def test_an_executor_that_is_away(self) -> None:
        """The socket is kept, and the terminal asked for again on it."""
        peer = self.begin()
        peer.say("error", code="terminal-unavailable", message="it is offline")
        self.assertIn("it is offline", self.until(self.printed))
        self.now += 0.3
        (asked,) = self.until(peer.heard)
        self.assertEqual(asked["type"], "terminal-attach")
        self.assertEqual(self.entrance.opened, 1)

    def test_no_answer(self) -> None:
        """After `ANSWER_TIME` the socket is given up."""
        peer = self.begin()
        peer.say("error", code="terminal-unavailable", message="it is offline")
        self.until(lambda: not self.attachment.is_attached)
        self.now += 0.3
        self.until(peer.heard)
        self.now += attaching.ANSWER_TIME - 0.01
        self.turn(3)
        self.assertNotEqual(self.attaching._socket, None)
        self.now += 0.01
        self.turn(3)
        self.assertEqual(self.attaching._socket, None)

    def test_no_answer_at_first(self) -> None:
        """Nothing has begun that could go on."""
        self.peer()
        self.attaching._use(self.attaching._door.open())
        self.now += attaching.ANSWER_TIME
        self.assertEqual(self.until(self.end).status, 3)
        self.assertEqual(self.state(), self.before)

    def test_what_is_final(self) -> None:
        """A login that is not taken is not tried again."""
        self.cut(self.begin())
        self.entrance.ways.append(CommandFailure("authentication", "no", 3))
        self.now += 1
        self.assertEqual(self.until(self.end).phase, "authentication")

    def test_what_it_is_left_by(self) -> None:
        """The detach key and Ctrl-C."""
        self.cut(self.begin())
        os.write(self.master, b"\x03")
        self.assertEqual(self.until(self.end).status, 0)

    def test_falling_behind(self) -> None:
        """It is attached again at once, on the same socket."""
        peer = self.begin()
        peer.say("error", code="terminal-backpressure", message="too slow")
        (asked,) = self.until(peer.heard)
        self.assertEqual((asked["type"], asked["attachmentId"]), ("terminal-attach", "2"))

    def test_a_peer_that_speaks_nonsense(self) -> None:
        """It is as good as gone."""
        peer = self.begin()
        peer.say("output", sequence="x", data="a")
        self.until(lambda: self.attaching._socket is None)
        self.assertIn("malformed", self.until(self.printed))

    def test_a_goodbye(self) -> None:
        """What was said before it counts, also when both come at once."""
        peer = self.begin()
        peer.say("output", sequence=1, data="last")
        peer.close()
        self.until(lambda: self.attaching._socket is None)
        printed = ""
        while "closed with 1013 full" not in printed:
            printed += self.until(self.printed)
        self.assertIn("last", printed)
        self.assertEqual(self.attachment.last, 1)
        again = self.peer()
        self.now += 1
        self.until(again.heard)
        again.say("error", code="terminal-auth-expired", message="over")
        again.close()
        self.assertEqual(self.until(self.end).phase, "authentication")


class LeavingTests(AttachingCase):
    """Ways out within the process; those by signals are test_cli_terminal's."""

    def test_a_fault_of_ours(self) -> None:
        """Gives the window back and is not hidden."""
        peer = self.peer()
        peer.attached()

        def fail(data: bytes) -> tuple[str, bool]:
            raise ZeroDivisionError

        self.patch(self.keyboard, "read", fail)
        handlers = [signal.getsignal(number) for number in range(1, 32)]
        os.write(self.master, b"k")
        self.assertRaises(ZeroDivisionError, self.attaching.run)
        self.assertEqual(self.state(), self.before)
        self.assertEqual([signal.getsignal(number) for number in range(1, 32)], handlers)

    def test_the_last_output_is_waited_for(self) -> None:
        """For `LAST_OUTPUT_TIME` at most, where nobody reads it."""
        self.patch(attaching, "LAST_OUTPUT_TIME", 0)
        peer = self.begin()
        peer.say("output", sequence=1, data=MUCH)
        self.until(lambda: self.attachment.last == 1)
        peer.say("status", terminal={"terminalId": ID, "processStatus": "exited", "exitCode": 0})
        self.until(self.end)
        self.attaching._say_goodbye()
        self.assertGreater(len(self.attaching._screen), 0)

    def test_an_ignored_signal_stays_ignored(self) -> None:
        """As nohup wants it."""
        former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGHUP, former)
        self.terminal.enter()
        self.assertEqual(signal.getsignal(signal.SIGHUP), signal.SIG_IGN)
        self.terminal.leave()
        self.assertEqual(signal.getsignal(signal.SIGHUP), signal.SIG_IGN)

    def test_it_is_left_once(self) -> None:
        """Leaving again changes nothing that somebody else has set meanwhile."""
        self.terminal.enter()
        self.terminal.leave()
        changed = termios.tcgetattr(self.slave)
        changed[3] &= ~termios.ECHO
        termios.tcsetattr(self.slave, termios.TCSANOW, changed)
        self.terminal.leave()
        self.assertEqual(termios.tcgetattr(self.slave), changed)
