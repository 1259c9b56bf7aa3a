"""One socket: what it is sent, how it ends, and that it ends alone (server.md A.2, A.3, A.12)."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from garcon.contract.events import (
    ExecutorsChanged,
    ProcessingUpdated,
    SessionDeleted,
    TitleUpdated,
)
from garcon.contract.limits import MIB
from garcon.controller.principals import LOCAL_PRINCIPAL, Principal
from garcon.controller.ws.deflate import Deflate
from garcon.controller.ws.hub import Sockets
from garcon.controller.ws.interfaces import ITerminalDoor, ITerminalTalk
from garcon.controller.ws.outbox import TRANSPORT_FULL
from garcon.controller.ws.socket import Socket, SocketLimits
from garcon.test.controller.ws.cast import FakeAnswers, FakeWire, new_socket


class SocketTests(SynchronousTestCase):
    """One open socket."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.socket = new_socket(self.clock, limits=SocketLimits(idle=960.0))
        self.wire = FakeWire(self.socket)
        self.socket.opened(self.wire, FakeAnswers())

    def test_whose_rights_end_is_known(self) -> None:
        """The instant of its token, none where there is no token."""
        user = Principal("authenticated", "ann", "ann", expires_at_ms=1_500)
        self.assertEqual(new_socket(self.clock, principal=user).expires_at, 1.5)
        self.assertEqual(new_socket(self.clock, principal=LOCAL_PRINCIPAL).expires_at, None)

    def test_a_silent_client_is_pinged_and_then_closed(self) -> None:
        """After 960 seconds without any frame, not before."""
        for _ in range(95):
            self.clock.advance(10)
        self.assertEqual((self.wire.pings, self.wire.aborts), (31, 0))
        self.clock.advance(9.9)
        self.assertEqual(self.wire.aborts, 0)
        self.clock.advance(0.1)
        self.assertEqual(self.wire.aborts, 1)

    def test_any_frame_keeps_it_open(self) -> None:
        """Also the answer to a ping."""
        for _ in range(200):
            self.clock.advance(10)
            self.socket.heard()
        self.assertEqual((self.wire.pings, self.wire.aborts), (0, 0))

    def test_a_client_that_takes_nothing_is_not_pinged(self) -> None:
        """Pings would only wait with the rest; but once it takes something it gets the last."""
        self.socket.wire_full()
        self.clock.advance(31)
        self.clock.advance(31)
        self.assertEqual(self.wire.pings, 0)
        self.socket.wire_empty()
        self.assertEqual(self.wire.pings, 1)
        self.socket.wire_empty()
        self.assertEqual(self.wire.pings, 1)

    def test_nothing_is_left_behind_by_its_end(self) -> None:
        """No timer, and no frame for a wire that is gone."""
        self.socket.closed()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.socket.received(b'{"type":"ws-ping","clientRequestId":"a"}')
        self.socket.wire_empty()
        self.assertEqual(self.wire.frames, [])

    def test_terminals_are_let_go_before_chats(self) -> None:
        """Whatever ends the socket."""
        for end in ("closed", "abort"):
            answers = FakeAnswers()
            door = RecordingDoor(answers)
            socket = new_socket(self.clock)
            socket.opened(FakeWire(socket), answers, door)
            socket.received(b'{"type":"terminal-detach"}')
            socket.received(
                b'{"type":"chat-subscribe","clientRequestId":"r","chatId":"1","afterOrdinal":0,'
                b'"transcriptViewId":"v"}'
            )
            self.assertEqual(len(answers.pages), 1)
            getattr(socket, end)()
            socket.closed()
            self.assertEqual((door.ends, answers.cancelled), ([0], 1), end)

    def test_after_a_close_nothing_more_is_said(self) -> None:
        """The goodbye is the last word, and it is said once."""
        self.socket.close(1013, "hard-capacity")
        self.socket.close(1013, "again")
        self.socket.received(b'{"type":"ws-ping","clientRequestId":"a"}')
        self.assertEqual(self.wire.closes, [(1013, "hard-capacity")])
        self.assertEqual(self.wire.frames, [])


@implementer(ITerminalDoor, ITerminalTalk)
class RecordingDoor:
    """Knows how many pages had been given up whenever a talk of terminals ended."""

    def __init__(self, answers: FakeAnswers) -> None:
        self.ends: list[int] = []
        self._answers = answers

    def meet(self, client: Any) -> ITerminalTalk:
        return self

    def received(self, payload: bytes) -> None:
        """It says nothing."""

    def room(self) -> None:
        """Nothing waits."""

    def end(self) -> None:
        self.ends.append(self._answers.cancelled)


class HubTests(SynchronousTestCase):
    """Several sockets of one controller."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.limits = SocketLimits(sockets=3, unsent=2 * MIB)
        self.sockets = Sockets(self.clock, FakeAnswers(), self.limits)
        self.wires: list[FakeWire] = []
        self.numbers: dict[Socket, int] = {}

    def open(self, *, is_newer: bool = False, deflate: Deflate | None = None) -> FakeWire:
        """Open one more."""
        number = self.sockets.reserve()
        assert number is not None
        socket = self.sockets.made(LOCAL_PRINCIPAL, is_newer=is_newer, deflate=deflate)
        wire = FakeWire(socket)
        self.numbers[socket] = number
        self.sockets.opened(number, socket, wire)
        return wire

    def end(self, wire: FakeWire) -> None:
        """Tell that one is gone."""
        wire.socket.closed()
        self.sockets.gone(self.numbers[wire.socket], wire.socket)

    def test_everybody_is_told_the_same_in_the_same_order(self) -> None:
        """Those that opened by then."""
        first = self.open()
        self.sockets.publish(SessionDeleted(chat_id="1"))
        second = self.open(deflate=Deflate())
        for n in range(3):
            self.sockets.publish(TitleUpdated(chat_id=str(n), title="é"))
        told = [{"type": "chat-title-updated", "chatId": str(n), "title": "é"} for n in range(3)]
        self.assertEqual(first.said(), [{"type": "chat-session-deleted", "chatId": "1"}, *told])
        self.assertEqual(second.said(), told)

    def test_an_event_is_encoded_once_for_all(self) -> None:
        """Sockets that agreed on the same are given the very same bytes."""
        wires = [self.open(deflate=Deflate()) for _ in range(3)]
        self.sockets.publish(TitleUpdated(chat_id="1", title="x" * 1_000))
        frames = [wire.frames[0] for wire in wires]
        self.assertTrue(all(frame is frames[0] for frame in frames))

    def test_what_cannot_be_told_does_no_harm(self) -> None:
        """Whoever publishes it goes on, and so do the sockets; the log has it."""
        wire = self.open()
        self.sockets.publish(TitleUpdated(chat_id="1", title="\ud800"))
        self.assertEqual(len(self.flushLoggedErrors(UnicodeEncodeError)), 1)
        self.sockets.publish(TitleUpdated(chat_id="1", title="x"))
        self.assertEqual([one["title"] for one in wire.said()], ["x"])

    def test_older_clients_are_told_what_they_know(self) -> None:
        """A chat that waits for its executor runs (decisions.md 14)."""
        older, newer = self.open(), self.open(is_newer=True)
        self.sockets.publish(ProcessingUpdated(chat_id="1", phase="reconnecting"))
        self.assertEqual(older.said()[0]["phase"], "running")
        self.assertEqual(newer.said()[0]["phase"], "reconnecting")

    def test_older_clients_are_not_told_of_what_they_do_not_know(self) -> None:
        """A type that is new goes to newer ones only (decisions.md 14)."""
        older, newer = self.open(), self.open(is_newer=True)
        self.sockets.publish(ExecutorsChanged(executors=[]))
        self.assertEqual(older.said(), [])
        self.assertEqual(newer.said(), [{"type": "executors-changed", "executors": []}])

    def test_a_client_that_does_not_read_is_closed_alone(self) -> None:
        """When something is to be sent while more than its limit waits; the others have all."""
        stuck, good = self.open(), self.open()
        stuck.is_stuck = True
        event = TitleUpdated(chat_id="1", title="x" * 1_000)
        size = len(json.dumps({"type": "chat-title-updated", "chatId": "1", "title": ""}))
        while stuck.socket.unsent <= self.limits.unsent:
            self.sockets.publish(event)
        self.assertEqual(stuck.aborts, 0)
        self.assertLess(stuck.socket.unsent, self.limits.unsent + 1_000 + size)
        self.sockets.publish(event)
        self.assertEqual(stuck.aborts, 1)
        self.assertEqual(good.aborts, 0)
        given = len(good.frames)
        self.assertGreater(sum(len(frame) for frame in good.frames), self.limits.unsent)
        self.end(stuck)
        self.sockets.publish(event)
        self.assertEqual(len(good.frames), given + 1)
        self.assertEqual((stuck.socket.unsent, len(self.sockets)), (TRANSPORT_FULL, 1))

    def test_waiting_frames_are_the_same_bytes_for_all_who_wait(self) -> None:
        """Slow readers cost a list each, not a copy."""
        wires = [self.open(deflate=Deflate()) for _ in range(2)]
        for wire in wires:
            wire.socket.wire_full()
        self.sockets.publish(TitleUpdated(chat_id="1", title="x" * 1_000))
        self.assertEqual([wire.frames for wire in wires], [[], []])
        for wire in wires:
            wire.drain()
        self.assertIs(wires[0].frames[0], wires[1].frames[0])

    def test_what_waited_goes_out_in_order(self) -> None:
        """As the wire takes it."""
        wire = self.open()
        wire.is_stuck = True
        for n in range(200):
            self.sockets.publish(TitleUpdated(chat_id=str(n), title="x" * 1_000))
        self.assertLess(len(wire.frames), 80)
        wire.is_stuck = False
        wire.drain()
        self.assertEqual([one["chatId"] for one in wire.said()], [str(n) for n in range(200)])

    def test_there_are_at_most_so_many(self) -> None:
        """Those that are still opening count; one that ends makes room."""
        wires = [self.open() for _ in range(3)]
        self.assertTrue(self.sockets.is_full)
        self.assertEqual(self.sockets.reserve(), None)
        self.end(wires[0])
        self.assertFalse(self.sockets.is_full)
        self.assertIsNot(self.sockets.reserve(), None)
        self.assertTrue(self.sockets.is_full)

    def test_a_place_that_cannot_be_confirmed_closes_the_socket(self) -> None:
        """With the code and the reason of the contract."""
        socket = self.sockets.made(LOCAL_PRINCIPAL, is_newer=False, deflate=None)
        wire = FakeWire(socket)
        self.sockets.opened(99, socket, wire)
        self.assertEqual(wire.closes, [(1013, "unknown-reservation")])

    def test_the_end_drops_all_at_once(self) -> None:
        """And takes no more; it is over when the last is gone."""
        wires = [self.open(), self.open()]
        d = self.sockets.drop()
        self.assertEqual([wire.aborts for wire in wires], [1, 1])
        self.assertEqual(self.sockets.reserve(), None)
        self.end(wires[0])
        self.assertNoResult(d)
        self.end(wires[1])
        self.successResultOf(d)

    def test_the_end_of_none_is_at_once(self) -> None:
        """There is nothing to wait for."""
        self.successResultOf(self.sockets.drop())
