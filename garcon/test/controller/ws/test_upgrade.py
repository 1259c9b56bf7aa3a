"""What the headers of an upgrade say (server.md A.1)."""

from __future__ import annotations

import base64

from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.ws.slots import Slots
from garcon.controller.ws.upgrade import Offer, is_handshake, read_offer

KEY = base64.b64encode(bytes(16)).decode()


class Credentials(SynchronousTestCase):
    """Where the token is taken from."""

    def test_the_bearer_comes_first(self) -> None:
        """A bearer header is used, right or wrong, whatever the subprotocols offer."""
        self.assertEqual(read_offer("Bearer a", "garcon-auth.b").token, "a")

    def test_a_bearer_begins_exactly_so(self) -> None:
        """Another case, another scheme or no blank is no bearer: the subprotocol counts."""
        for header in ("bearer a", "Bearer", "Basic a", "BEARER a", " Bearer a", "Bearer\ta", ""):
            self.assertEqual(read_offer(header, "garcon-auth.b").token, "b", header)

    def test_a_bearer_is_the_whole_rest(self) -> None:
        """A second blank belongs to the token, which makes it a wrong one."""
        self.assertEqual(read_offer("Bearer  a", None).token, " a")

    def test_an_empty_bearer_is_no_token(self) -> None:
        """And the subprotocol does not stand in for it."""
        self.assertEqual(read_offer("Bearer ", "garcon-auth.b").token, None)

    def test_the_first_token_offered_is_used(self) -> None:
        """Of several entries the first one counts, an empty one as none at all."""
        self.assertEqual(read_offer(None, "garcon-auth.a, garcon-auth.b").token, "a")
        self.assertEqual(read_offer(None, "garcon-auth., garcon-auth.b").token, None)
        self.assertEqual(read_offer(None, "Garcon-Auth.a").token, None)

    def test_a_token_stays_out_of_sight(self) -> None:
        """What is logged of an offer does not show it."""
        self.assertNotIn("secret", repr(read_offer("Bearer secret", None)))


class Subprotocols(SynchronousTestCase):
    """Which protocol is selected."""

    def test_only_the_application_protocol_is_selected(self) -> None:
        """Wherever it stands in the list; never a token, never the newer one."""
        for offered in (
            "garcon-v1",
            "garcon-v1,garcon-auth.x",
            "garcon-auth.x , garcon-v1",
            "garcon-v2, garcon-v1",
            ",, garcon-v1 ,",
        ):
            self.assertEqual(read_offer(None, offered).selected, "garcon-v1", offered)

    def test_without_it_nothing_is_selected(self) -> None:
        """No offer, other names, another case."""
        for offered in (None, "", ",", "garcon-auth.x", "GARCON-V1", "garcon-v2", "garcon-v10"):
            self.assertEqual(read_offer(None, offered).selected, None, offered)

    def test_newer_clients_offer_both(self) -> None:
        """What is newer goes to those only (decisions.md 14)."""
        self.assertEqual(read_offer(None, "garcon-v1, garcon-v2"), Offer(None, "garcon-v1", True))
        self.assertEqual(read_offer(None, "garcon-v1"), Offer(None, "garcon-v1", False))


class Handshakes(SynchronousTestCase):
    """What begins a WebSocket."""

    def setUp(self) -> None:
        self.headers: dict[bytes, str] = {
            b"upgrade": "websocket",
            b"connection": "keep-alive, Upgrade",
            b"sec-websocket-version": "13",
            b"sec-websocket-key": KEY,
        }

    def test_one_that_is_in_order(self) -> None:
        """Names are compared without their case."""
        self.assertTrue(is_handshake("GET", self.headers.get))
        self.headers[b"upgrade"] = "WebSocket"
        self.assertTrue(is_handshake("GET", self.headers.get))

    def test_every_part_is_needed(self) -> None:
        """One that lacks anything, or has it wrong, is none."""
        for name in list(self.headers):
            for value in ("", "x", "12"):
                headers: dict[bytes, str] = {**self.headers, name: value}
                self.assertFalse(is_handshake("GET", headers.get), f"{name!r} {value}")
        self.assertFalse(is_handshake("POST", self.headers.get))
        for size in (15, 17):
            self.headers[b"sec-websocket-key"] = base64.b64encode(bytes(size)).decode()
            self.assertFalse(is_handshake("GET", self.headers.get))


class Places(SynchronousTestCase):
    """How many sockets there may be, and which of them are (server.md A.3)."""

    def test_at_most_so_many(self) -> None:
        """The one after the last is refused until a place is free again."""
        slots = Slots(2)
        first, second = slots.reserve(), slots.reserve()
        assert first is not None and second is not None
        self.assertEqual(slots.reserve(), None)
        self.assertEqual(slots.confirm(first), None)
        self.assertEqual(slots.reserve(), None)
        slots.release(first)
        self.assertNotIn(slots.reserve(), (None, first, second))

    def test_a_place_is_confirmed_once(self) -> None:
        """Again is a duplicate; one that was given back, or never taken, is unknown."""
        slots = Slots(2)
        number = slots.reserve()
        assert number is not None
        self.assertEqual(slots.confirm(number), None)
        self.assertEqual(slots.confirm(number), "duplicate-connection")
        slots.release(number)
        self.assertEqual(slots.confirm(number), "unknown-reservation")
        self.assertEqual(slots.confirm(99), "unknown-reservation")

    def test_fewer_places_than_were_reserved(self) -> None:
        """Should there be fewer by the time one opens, it is one too many."""
        slots = Slots(2)
        number, _ = slots.reserve(), slots.reserve()
        assert number is not None
        slots.limit = 1
        self.assertEqual(slots.confirm(number), "hard-capacity")

    def test_giving_back_twice_frees_one_place(self) -> None:
        """An end that is told twice is one."""
        slots = Slots(1)
        number = slots.reserve()
        assert number is not None
        slots.release(number)
        slots.release(number)
        self.assertEqual(len(slots), 0)
        self.assertNotEqual(slots.reserve(), None)
        self.assertEqual(slots.reserve(), None)
