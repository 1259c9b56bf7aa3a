"""Leases are kernel locks: what a file says or is left behind never decides."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.errors import StartupError
from garcon.local.leases import Lease, LeaseHeld


class LeaseTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = os.path.join(self.mktemp(), "new", ".lock")

    def hold(self, path: str, role: str = "") -> Lease:
        lease = Lease.acquire(path, role=role)
        self.addCleanup(lease.release)
        return lease

    def test_excludes_a_second_holder(self) -> None:
        """While a lease is held another is refused, and the text says who holds it."""
        self.hold(self.path, "controller")
        error = self.assertRaises(LeaseHeld, Lease.acquire, self.path, role="controller")
        self.assertIn(f"pid {os.getpid()} (controller)", error.text)
        self.assertIn(os.path.dirname(self.path), error.text)
        self.assertEqual("WORKSPACE_IN_USE", error.code)

    def test_releasing_frees_it(self) -> None:
        """After release the next one gets it; the file may stay."""
        lease = self.hold(self.path)
        lease.release()
        lease.release()
        self.hold(self.path)

    def test_a_stale_file_never_blocks(self) -> None:
        """A file of a process that crashed is only a file."""
        os.makedirs(os.path.dirname(self.path))
        Path(self.path).write_text("pid 1 (controller)\n")
        self.hold(self.path)
        self.assertEqual(f"pid {os.getpid()}\n", Path(self.path).read_text())

    def test_a_removed_file_does_not_share_the_lease(self) -> None:
        """Who removes the file of a held lease takes nothing: the new file is a new lease."""
        first = self.hold(self.path)
        os.unlink(self.path)
        second = self.hold(self.path)
        first.release()
        self.assertRaises(LeaseHeld, Lease.acquire, self.path)
        second.release()

    def test_waiting_has_an_end(self) -> None:
        """A waiting start gives up after its time."""
        self.hold(self.path)
        self.assertRaises(LeaseHeld, Lease.acquire, self.path, 0.1)

    def test_links_are_refused(self) -> None:
        """A symbolic link in the place of the file is an error, not a lock of something else."""
        os.makedirs(os.path.dirname(self.path))
        os.symlink("/dev/null", self.path)
        error = self.assertRaises(StartupError, Lease.acquire, self.path)
        self.assertIn("symbolic link", error.text)

    def test_an_impossible_place_is_one_line(self) -> None:
        """A path that cannot be made is told in one line."""
        error = self.assertRaises(StartupError, Lease.acquire, "/dev/null/x/.lock")
        self.assertNotIn("\n", error.text)
