"""What waits for a socket: in turns, in order, and no more than it may be (server.md C.6)."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import (
    KIB,
    TERMINAL_SOCKET_BYTES,
    TERMINAL_SOCKET_MESSAGES,
    TERMINAL_WAITING_BYTES,
    TERMINAL_WAITING_MESSAGES,
)
from garcon.controller.terminals.delivery import (
    OUTPUT_ALL,
    OUTPUT_FIRST,
    OUTPUT_OWN,
    OUTPUT_OWN_BYTES,
    Delivery,
    Part,
)
from garcon.test.properties import given


def part(size: int = 1) -> Part:
    return Part(b"x" * size)


class Turns(SynchronousTestCase):
    """Who goes next."""

    @given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=60))
    def test_any_order(self, steps: list[tuple[str, bool]]) -> None:
        """Each terminal's messages keep their order, none is lost or comes twice, and none goes
        twice while another that waited already goes not at all.
        """
        delivery = Delivery()
        put: dict[str, list[bytes]] = {}
        out: list[bytes] = []
        for number, (name, takes) in enumerate(steps):
            text = f"{name}{number}".encode()
            put.setdefault(name, []).append(text)
            self.assertTrue(delivery.put(name, Part(text)))
            if takes:
                taken = delivery.next()
                assert taken is not None
                out.append(taken.text)
        waiting = len(delivery)
        rest = [one.text for one in iter(delivery.next, None)]
        self.assertEqual((len(rest), len(delivery), delivery.size), (waiting, 0, 0))
        for name, texts in put.items():
            self.assertEqual([text for text in out + rest if text[:1] == name.encode()], texts)
        for index in range(len(rest)):
            turns = Counter(text[:1] for text in rest[:index])
            left = {text[:1] for text in rest[index:]}
            most = max(turns.values(), default=0)
            self.assertTrue(all(turns[name] >= most - 1 for name in left), rest)

    def test_dropping(self) -> None:
        """Takes what waits of one terminal, and what it weighs."""
        delivery = Delivery()
        for name in ("a", "b", "a", None):
            delivery.put(name, part(10))
        delivery.drop("a")
        delivery.drop("a")
        self.assertEqual((len(delivery), delivery.size), (2, 20))
        delivery.clear()
        self.assertEqual((len(delivery), delivery.size, delivery.next()), (0, 0, None))


class Bounds(SynchronousTestCase):
    """At N and N+1."""

    def fill(self, delivery: Delivery, count: int, size: int = 1, name: str = "a") -> None:
        for number in range(count):
            self.assertTrue(delivery.put(name, part(size)), number)

    def test_messages_of_one_terminal(self) -> None:
        """256; one that leaves makes room."""
        delivery = Delivery()
        self.fill(delivery, TERMINAL_WAITING_MESSAGES)
        self.assertFalse(delivery.put("a", part()))
        self.assertIsNotNone(delivery.next())
        self.assertTrue(delivery.put("a", part()))

    def test_bytes_of_one_terminal(self) -> None:
        """Two mebibytes."""
        delivery = Delivery()
        self.fill(delivery, TERMINAL_WAITING_BYTES // (64 * KIB), 64 * KIB)
        self.assertFalse(delivery.put("a", part()))
        self.assertTrue(delivery.put("b", part()))

    def test_messages_of_the_socket(self) -> None:
        """256, of whatever terminals, or of none."""
        delivery = Delivery()
        for number in range(TERMINAL_SOCKET_MESSAGES):
            self.fill(delivery, 1, name=str(number))
        self.assertFalse(delivery.put("new", part()))
        self.assertFalse(delivery.put(None, part()))

    def test_bytes_of_the_socket(self) -> None:
        """Sixteen mebibytes."""
        delivery = Delivery()
        for number in range(TERMINAL_SOCKET_BYTES // TERMINAL_WAITING_BYTES):
            self.fill(delivery, 1, TERMINAL_WAITING_BYTES, str(number))
        self.assertEqual(delivery.size, TERMINAL_SOCKET_BYTES)
        self.assertFalse(delivery.put("new", part()))

    def test_room_for_output(self) -> None:
        """Of one terminal, of all, and for the first of another; less than the bounds, so that
        something is left for what cannot wait elsewhere.
        """
        delivery = Delivery()
        self.assertEqual(delivery.room("a"), OUTPUT_OWN)
        self.fill(delivery, OUTPUT_OWN - 1)
        self.assertEqual(delivery.room("a"), 1)
        self.fill(delivery, 1)
        self.assertEqual((delivery.room("a"), delivery.room("b")), (0, OUTPUT_OWN))
        for number in range(OUTPUT_ALL - OUTPUT_OWN):
            self.fill(delivery, 1, name=str(number))
        self.assertEqual((delivery.room("0"), delivery.room("b")), (0, 1))
        for number in range(OUTPUT_ALL, OUTPUT_FIRST):
            self.assertEqual(delivery.room("b"), 1)
            self.fill(delivery, 1, name=str(number))
        self.assertEqual(delivery.room("b"), 0)
        self.assertTrue(delivery.put("b", part()))
        self.assertLess(OUTPUT_FIRST, TERMINAL_SOCKET_MESSAGES)

    def test_room_in_bytes(self) -> None:
        """A terminal whose messages are large has fewer of them."""
        delivery = Delivery()
        self.fill(delivery, 1, OUTPUT_OWN_BYTES - 1)
        self.assertEqual(delivery.room("a"), OUTPUT_OWN - 1)
        self.fill(delivery, 1)
        self.assertEqual(delivery.room("a"), 0)
