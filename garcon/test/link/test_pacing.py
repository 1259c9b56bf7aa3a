"""How much leaves a lane in one turn of the reactor (control.md J.4).  How long a turn may be is
test_pace.py's.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import FRAGMENT, KIB, MIB
from garcon.contract.rpc import Lane
from garcon.link.fragments import WHOLE, Joiner
from garcon.link.liveness import Liveness
from garcon.link.noise import Cipher
from garcon.link.outbox import Outbox
from garcon.link.queue import Kind, SendBudget
from garcon.link.settings import LinkSettings

RECORD = FRAGMENT + 1
"""The plaintext of a full fragment."""
TAG = 16


class Turning(Clock):
    """A clock that can run one turn: what is due now, and not what that makes due."""

    def turn(self) -> None:
        """Do as a reactor does before it looks at its sockets again."""
        for call in [c for c in self.getDelayedCalls() if c.getTime() <= self.seconds()]:
            made: Any = call
            function, arguments, more = made.func, made.args, made.kw
            made.cancel()
            function(*arguments, **more)


@define(eq=False)
class Taking:
    """A socket that takes everything at once."""

    records: list[bytes] = field(factory=list)
    is_writable: bool = True
    buffered: int = 0

    def send(self, record: bytes, *, soon: bool = False) -> None:
        """See `IWire`."""
        self.records.append(record)

    def hold_reading(self, is_held: bool) -> None:
        """See `IWire`."""


def ciphers() -> tuple[Cipher, Cipher]:
    """Return both ends of an encrypted connection."""
    near, far = (Cipher(bytes(32), initiator=i, records=1 << 20) for i in (True, False))
    far.read_handshake(near.write_handshake())
    near.read_handshake(far.write_handshake())
    return near, far


class Turns(SynchronousTestCase):
    """A burst in each turn while more waits, however much the socket would take."""

    burst = LinkSettings().burst

    def setUp(self) -> None:
        self.clock = Turning()
        self.wire = Taking()
        near, self.far = ciphers()
        self.outbox = self.made(self.wire, near, SendBudget(), Lane.PRIMARY)

    def made(self, wire: Taking, cipher: Cipher, budget: SendBudget, lane: Lane) -> Outbox:
        return Outbox(
            lane,
            budget,
            wire,  # type: ignore[arg-type]  # as much of a wire as an outbox uses
            cipher,
            Liveness(5.0, 15.0, 0.0),
            self.clock,
            self.burst,
            lambda: self.fail("the key is used up"),
        )

    def left(self) -> int:
        """Return the plaintext bytes that left since the last time."""
        sent = sum(len(record) - TAG for record in self.wire.records)
        self.wire.records.clear()
        return sent

    def test_the_burst_is_a_few_fragments(self) -> None:
        """A turn is short, and still worth its costs."""
        self.assertEqual(self.burst, 128 * KIB)
        self.assertEqual(self.burst // FRAGMENT, 4)

    def test_a_large_message_leaves_a_burst_in_each_turn(self) -> None:
        """The record that completes the burst is the last of its turn, and every turn goes on."""
        self.assertTrue(self.outbox.send(b"x" * MIB, Kind.ORDINARY))
        turns = [self.left()]
        while self.clock.getDelayedCalls():
            self.assertEqual(len(self.clock.getDelayedCalls()), 1)
            self.clock.turn()
            turns.append(self.left())
        # The message ended with a burst, so the turn after it finds nothing.
        self.assertEqual(turns, [4 * RECORD] * 8 + [0])
        self.assertEqual(self.outbox.queued_bytes, 0)
        self.clock.turn()
        self.assertEqual(self.left(), 0)

    def test_flushing_again_in_the_same_turn_sends_no_more(self) -> None:
        """Neither what is sent meanwhile nor the socket's asking opens a second burst."""
        self.outbox.send(b"x" * MIB, Kind.ORDINARY)
        self.assertEqual(self.left(), 4 * RECORD)
        for _ in range(3):
            self.outbox.flush()
            self.outbox.send(b"{}", Kind.SMALL)
            self.outbox.pong()
        self.assertEqual(self.left(), 0)
        self.clock.turn()
        self.assertLess(self.left(), self.burst + RECORD)

    def test_just_the_burst(self) -> None:
        """What waits and is one byte less leaves without another turn; the burst asks for one."""
        for less, turns in ((1, 0), (0, 1)):
            self.wire.is_writable = False
            for size in [KIB] * 127 + [KIB - less]:
                self.outbox.send(b"x" * (size - len(WHOLE)), Kind.ORDINARY)
            self.wire.is_writable = True
            self.outbox.flush()
            self.assertEqual(self.left(), self.burst - less)
            self.assertEqual(len(self.clock.getDelayedCalls()), turns)
            self.assertEqual(self.outbox.queued_bytes, 0)
        self.clock.turn()
        self.assertEqual((self.left(), self.clock.getDelayedCalls()), (0, []))

    def test_many_small_messages(self) -> None:
        """They are paced as one large message is."""
        self.wire.is_writable = False
        text = b"x" * (KIB - len(WHOLE))
        for _ in range(300):
            self.assertTrue(self.outbox.send(text, Kind.ORDINARY))
        self.wire.is_writable = True
        self.outbox.flush()
        turns = [self.left()]
        while self.clock.getDelayedCalls():
            self.clock.turn()
            turns.append(self.left())
        self.assertEqual(turns, [self.burst, self.burst, 44 * KIB])

    def test_a_small_message_goes_between_the_bursts(self) -> None:
        """It waits for the next turn, and goes before the rest of the large one."""
        self.outbox.send(b"x" * MIB, Kind.ORDINARY)
        self.clock.turn()
        sealed = [self.far.open(record) for record in self.wire.records]
        self.assertEqual(len(sealed), 8)
        self.wire.records.clear()
        self.outbox.send(b'{"type":"pong"}', Kind.SMALL)
        self.clock.turn()
        plaintexts = [self.far.open(record) for record in self.wire.records]
        self.assertEqual(plaintexts[0], WHOLE + b'{"type":"pong"}')
        joiner = Joiner()
        for plaintext in sealed:
            self.assertIsNone(joiner.take(plaintext))
        self.assertEqual({len(p) for p in plaintexts[1:]}, {RECORD})

    def test_a_full_socket_ends_a_turn_early(self) -> None:
        """Nothing is sealed for a socket that does not ask, and no turn is wasted on it."""
        self.outbox.send(b"x" * MIB, Kind.ORDINARY)
        self.left()
        self.wire.is_writable = False
        self.clock.turn()
        self.assertEqual((self.left(), self.clock.getDelayedCalls()), (0, []))
        self.wire.is_writable = True
        self.outbox.flush()
        self.assertEqual(self.left(), 4 * RECORD)

    def test_each_lane_has_its_own(self) -> None:
        """A turn carries a burst of each lane at most."""
        other = Taking()
        budget = SendBudget()
        bulk = self.made(other, ciphers()[0], budget, Lane.BULK)
        bulk.send(b"x" * MIB, Kind.ORDINARY)
        self.clock.turn()
        self.outbox.send(b"x" * MIB, Kind.ORDINARY)
        for _ in range(8):
            self.assertEqual(len(self.wire.records), 4)
            self.assertEqual(len(other.records), 4)
            self.wire.records.clear()
            other.records.clear()
            self.clock.turn()
        self.assertEqual((bulk.queued_bytes, self.outbox.queued_bytes), (0, 0))

    def test_bulk_begins_a_large_message_in_the_next_turn(self) -> None:
        """One byte more than a burst waits for it, with what is sent behind it, and withdrawn by
        then it has not begun.
        """
        wire = Taking()
        outbox = self.made(wire, ciphers()[0], SendBudget(), Lane.BULK)
        outbox.send(b"x" * self.burst, Kind.ORDINARY)
        self.assertEqual(len(wire.records), 4)
        self.clock.turn()
        wire.records.clear()
        outbox.send(b"x" * (self.burst + 1), Kind.ORDINARY)
        outbox.send(b"{}", Kind.SMALL)
        self.assertEqual(wire.records, [])
        self.clock.turn()
        self.assertEqual([len(r) - TAG for r in wire.records], [len(WHOLE + b"{}"), *[RECORD] * 4])
        self.clock.turn()
        self.assertEqual(len(wire.records), 6)
        withdrawn = outbox.offer(b"x" * MIB, Kind.ORDINARY)
        assert withdrawn is not None
        self.assertFalse(outbox.withdraw(withdrawn, b"{}"))
        self.clock.turn()
        self.assertEqual(len(wire.records), 6)

    def test_a_closed_outbox_has_no_turn_left(self) -> None:
        """Its timer goes with it."""
        self.outbox.send(b"x" * MIB, Kind.ORDINARY)
        self.outbox.close(None)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_burst_below_one_record(self) -> None:
        """One record is the least that leaves."""
        self.burst = 1
        wire = Taking()
        outbox = self.made(wire, ciphers()[0], SendBudget(), Lane.PRIMARY)
        outbox.send(b"x" * MIB, Kind.ORDINARY)
        self.assertEqual(len(wire.records), 1)
        self.clock.turn()
        self.assertEqual(len(wire.records), 2)
        outbox.close(None)
