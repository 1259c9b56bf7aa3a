"""Authorization leases (control.md E.7)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.executors.authority import Authority, Ending
from garcon.errors import CallError


class LeaseTests(SynchronousTestCase):
    """A lease belongs to one executor and generation, and ends once."""

    def test_same_generation_same_lease(self) -> None:
        """As long as nothing ends it."""
        authority = Authority("x")
        self.assertIs(authority.lease("g1", False), authority.lease("g1", False))

    def test_a_new_generation_ends_the_old_lease(self) -> None:
        """It never follows a replacement."""
        authority = Authority("x")
        old = authority.lease("g1", False)
        authority.lease("g2", False)
        self.assertIs(old.ended, Ending.SESSION_LOST)

    def test_ended_leases_never_come_back(self) -> None:
        """A later one is another, and the old one still refuses."""
        authority = Authority("x")
        old = authority.lease("g1", False)
        authority.end(Ending.REVOKED)
        new = authority.lease("g1", False)
        self.assertIsNot(old, new)
        new.require()
        self.assertEqual(self.assertRaises(CallError, old.require).code, "CLI_ACCESS_DENIED")

    def test_first_ending_stays(self) -> None:
        """And watchers hear of it once."""
        lease = Authority("x").lease("g1", False)
        heard: list[Ending] = []
        lease.watch(heard.append)
        lease.end(Ending.STOPPING)
        lease.end(Ending.REVOKED)
        self.assertEqual(heard, [Ending.STOPPING])
        self.assertIs(lease.ended, Ending.STOPPING)

    def test_who_watches_too_late_hears_at_once(self) -> None:
        """No wait under an ended lease goes on."""
        lease = Authority("x").lease("g1", False)
        lease.end(Ending.REVOKED)
        heard: list[Ending] = []
        lease.watch(heard.append)
        self.assertEqual(heard, [Ending.REVOKED])

    def test_forgotten_watchers_hear_nothing(self) -> None:
        """A wait that is over leaves nothing behind."""
        lease = Authority("x").lease("g1", False)
        heard: list[Ending] = []
        lease.watch(heard.append)
        lease.unwatch(heard.append)
        lease.end(Ending.REVOKED)
        self.assertEqual(heard, [])

    def test_what_each_ending_says(self) -> None:
        """Revoked is denied; a lost session and a stopping controller are unavailable."""
        self.assertEqual(Ending.REVOKED.error().code, "CLI_ACCESS_DENIED")
        self.assertEqual(Ending.SESSION_LOST.error().code, "CLI_CONTROLLER_UNAVAILABLE")
        self.assertEqual(Ending.STOPPING.error().code, "CLI_CONTROLLER_UNAVAILABLE")
