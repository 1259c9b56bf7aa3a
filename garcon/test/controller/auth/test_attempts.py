"""How often an address may try to sign in."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.auth.attempts import Attempts


class AttemptTests(SynchronousTestCase):
    """Ten in any sixty seconds."""

    def setUp(self) -> None:
        self.attempts = Attempts()

    def take(self, times: int, now: float, address: str = "a") -> list[bool]:
        """Try so often; return which were let through."""
        return [self.attempts.take(address, now) is None for _ in range(times)]

    def test_the_tenth_is_taken_and_the_eleventh_is_not(self) -> None:
        """And it is told when the next one would be."""
        self.assertEqual(self.take(10, 5.0), [True] * 10)
        self.assertEqual(self.attempts.take("a", 15.0), 50.0)

    def test_the_window_slides(self) -> None:
        """A place is free sixty seconds after the call that took it, not before."""
        self.take(9, 0.0)
        self.take(1, 30.0)
        self.assertEqual(self.take(1, 59.9), [False])
        self.assertEqual(self.take(10, 60.0), [True] * 9 + [False])
        self.assertEqual(self.take(2, 90.0), [True, False])

    def test_a_refused_call_takes_no_place(self) -> None:
        """Whoever hammers on is let in again in time."""
        self.take(10, 0.0)
        for second in range(1, 60):
            self.assertEqual(self.take(1, float(second)), [False])
        self.assertEqual(self.take(1, 60.0), [True])

    def test_addresses_do_not_share(self) -> None:
        """Each has its own ten."""
        self.take(11, 0.0)
        self.assertEqual(self.take(10, 0.0, "b"), [True] * 10)

    def test_a_network_of_one_client_is_one_address(self) -> None:
        """64 bits of IPv6 in whatever form; the next network is another one, as is each address of
        IPv4.
        """
        for n in range(10):
            self.assertEqual(self.take(1, 0.0, f"2001:db8:0:7:{n:x}::{n:x}"), [True])
        for address in ("2001:db8:0:7::", "2001:DB8:0:7:ffff:ffff:ffff:ffff"):
            self.assertEqual(self.take(1, 0.0, address), [False])
        for address in (
            "2001:db8:0:8::",
            "2001:db8:0:6::1",
            "10.0.0.1",
            "10.0.0.2",
            "::ffff:1.2.3.4",
        ):
            self.assertEqual(self.take(10, 0.0, address), [True] * 10)

    def test_as_many_addresses_as_fit_and_one_more(self) -> None:
        """The one that was quiet for longest is forgotten."""
        self.attempts = Attempts(calls=1, addresses=3)
        for second, name in enumerate("abc"):
            self.take(1, float(second), name)
        self.assertEqual(len(self.attempts), 3)
        self.assertEqual(self.take(1, 4.0, "a"), [False])
        self.take(1, 5.0, "d")
        self.assertEqual(len(self.attempts), 3)
        self.assertEqual(self.take(1, 6.0, "b"), [False])
        self.assertEqual(self.take(1, 6.0, "a"), [True])

    def test_quiet_addresses_are_forgotten(self) -> None:
        """After a window without a call nothing is kept of one."""
        for name in "abc":
            self.take(1, 0.0, name)
        self.take(1, 60.0, "d")
        self.assertEqual(len(self.attempts), 1)
