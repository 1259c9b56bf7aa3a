"""Files that are swapped under a read or a save, by another thread: what lies outside is neither
read nor written, and nobody is told that something was saved which was not.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from threading import Event, Thread

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract import files
from garcon.contract.files import FileTarget, SaveFile
from garcon.errors import GarconError
from garcon.runtime.files import listing, reading, saving, tree
from garcon.runtime.files.stopping import Stop

TRIES, FEWER = 10_000, 2_000
LONGEST = 100.0
"""Seconds for all tries of a test; it fails when they take longer."""
OUTSIDE, INSIDE = b"outside", b"inside"
STOP = Stop()


class RaceCase(SynchronousTestCase):
    """A project whose names are swapped as fast as that goes."""

    def setUp(self) -> None:
        self.top = os.path.realpath(self.mktemp())
        self.base = os.path.join(self.top, "base")
        self.outside = os.path.join(self.top, "outside")
        os.makedirs(os.path.join(self.base, "d"))
        os.makedirs(self.outside)
        for path in (self.inside("file"), self.inside("d/file")):
            self.put(path, INSIDE)
        self.put(os.path.join(self.outside, "file"), OUTSIDE)
        self.seen: Counter[str] = Counter()
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        self.addCleanup(sys.setswitchinterval, before)
        # Ten thousand times on a disk would be all that is measured.
        self.patch(os, "fsync", lambda fd: None)

    def inside(self, *names: str) -> str:
        return os.path.join(self.base, *names)

    def put(self, path: str, content: bytes) -> None:
        with open(path, "wb") as file:
            file.write(content)

    def meanwhile(self, swap: Callable[[], None]) -> None:
        """Go on swapping until the test ends."""
        end, begun = Event(), Event()
        failures: list[BaseException] = []

        def work() -> None:
            try:
                while not end.is_set():
                    swap()
                    begun.set()
            except BaseException as error:
                failures.append(error)
                begun.set()

        thread = Thread(target=work, daemon=True)
        thread.start()

        def stop() -> None:
            end.set()
            thread.join(10)
            self.assertFalse(thread.is_alive())
            self.assertEqual(failures, [])

        self.addCleanup(stop)
        self.assertTrue(begun.wait(10))

    def tries(self, attempt: Callable[[], str], times: int = TRIES, *, some: set[str]) -> None:
        """Try that often, and on until all of `some` came of it; count what comes by name."""
        until = time.monotonic() + LONGEST
        tried = 0
        while tried < times or not some <= set(self.seen):
            tried += 1
            try:
                self.seen[attempt()] += 1
            except GarconError as error:
                self.seen[error.code] += 1
            if time.monotonic() > until:
                self.fail(f"only {tried} tries in time: {self.seen}")

    def outside_is_untouched(self) -> None:
        self.assertEqual(os.listdir(self.outside), ["file"])
        with open(os.path.join(self.outside, "file"), "rb") as file:
            self.assertEqual(file.read(), OUTSIDE)

    def assert_only(self, may: set[str]) -> None:
        """Assert that nothing else was seen."""
        self.assertLessEqual(set(self.seen), may, self.seen)


class LinkTests(RaceCase):
    """A name that is a file (or a directory) now and a link to the outside then."""

    def swap_file(self) -> None:
        """Put the link in the file's place, and a file in the link's."""
        link, plain, name = self.inside("link"), self.inside("plain"), self.inside("file")
        os.symlink(os.path.join(self.outside, "file"), link)
        os.replace(link, name)
        self.put(plain, INSIDE)
        os.replace(plain, name)

    def swap_directory(self) -> None:
        """Likewise with a directory that has a file."""
        name, aside = self.inside("d"), self.inside("aside")
        os.rename(name, aside)
        os.symlink(self.outside, name)
        os.unlink(name)
        os.rename(aside, name)

    def read(self, path: str) -> str:
        data = reading.read(self.base, FileTarget(self.base, path), STOP).data
        self.assertIn(data, (INSIDE, b"", b"saved"))
        return "read"

    def save(self, path: str) -> str:
        save = SaveFile(self.base, path, b"saved", None, "overwrite")
        key = saving.key_of(self.base, save)
        saving.save_file(self.base, save, key, STOP)
        return "saved"

    def test_reading_a_file_that_becomes_a_link(self) -> None:
        """Ten thousand times nothing of the outside is read."""
        self.meanwhile(self.swap_file)
        some = {"read", files.OUTSIDE}
        self.tries(lambda: self.read("file"), some=some)
        self.assert_only(some | {files.CHANGED_DURING_READ})

    def test_reading_in_a_directory_that_becomes_a_link(self) -> None:
        """Nor when it is on the way; the directory that was found may be read on."""
        self.meanwhile(self.swap_directory)
        some = {"read", files.OUTSIDE}
        self.tries(lambda: self.read("d/file"), some=some)
        self.assert_only(some | {files.CHANGED_DURING_READ, files.NOT_FOUND})

    def test_saving_to_a_file_that_becomes_a_link(self) -> None:
        """Ten thousand times nothing outside is written."""
        self.meanwhile(self.swap_file)
        some = {files.OUTSIDE, files.REVISION_CONFLICT}
        self.tries(lambda: self.save("file"), some=some)
        self.outside_is_untouched()
        self.assert_only(some | {"saved"})

    def test_saving_in_a_directory_that_becomes_a_link(self) -> None:
        """Nor made: neither the file that is outside nor one that is not."""
        self.meanwhile(self.swap_directory)
        names = cycle(("file", "new"))
        some = {"saved", files.OUTSIDE}
        self.tries(lambda: self.save(f"d/{next(names)}"), some=some)
        self.outside_is_untouched()
        self.assert_only(
            some | {files.REVISION_CONFLICT, files.NOT_FOUND, files.CHANGED_DURING_READ}
        )

    def test_listing_a_directory_that_becomes_a_link(self) -> None:
        """Its names are never those of the outside."""
        self.put(os.path.join(self.outside, "secret"), OUTSIDE)
        self.meanwhile(self.swap_directory)

        def look() -> str:
            for entry in tree.tree(self.base, "d", "/", STOP).entries:
                self.assertNotEqual(entry.name, "secret")
            self.assertNotIn("d/secret", listing.project_files(self.base, "", STOP).relative_paths)
            return "shown"

        some = {"shown"}
        self.tries(look, FEWER, some=some)
        self.assert_only(some | {files.OUTSIDE, files.TREE_NOT_FOUND, files.CHANGED_DURING_READ})


class MovingTests(RaceCase):
    """Directories that are moved while a path leads through them."""

    def test_dots_in_a_directory_that_is_moved_out(self) -> None:
        """A way up leads where the way down came from, or nowhere: never to what is above by
        then.
        """
        os.makedirs(self.inside("a/b"))
        os.makedirs(os.path.join(self.outside, "deep"))
        self.put(self.inside("a/file"), INSIDE)
        self.put(os.path.join(self.outside, "deep/file"), OUTSIDE)
        away = os.path.join(self.outside, "deep/b")

        def swap() -> None:
            os.rename(self.inside("a/b"), away)
            os.rename(away, self.inside("a/b"))

        self.meanwhile(swap)

        def read() -> str:
            target = FileTarget(self.base, "a/b/../file")
            data = reading.read(self.base, target, STOP).data
            self.assertEqual(data, INSIDE)
            return "read"

        some = {"read"}
        self.tries(read, FEWER, some=some)
        self.assert_only(some | {files.OUTSIDE, files.CHANGED_DURING_READ, files.NOT_FOUND})

    def test_saves_during_renames_of_a_parent(self) -> None:
        """What is told as saved is in the file that the path led to."""
        os.makedirs(self.inside("p/q"))
        self.put(self.inside("p/q/file"), b"")

        def swap() -> None:
            os.rename(self.inside("p"), self.inside("moved"))
            os.rename(self.inside("moved"), self.inside("p"))

        self.meanwhile(swap)
        told: list[bytes] = [b""]

        def save() -> str:
            data = b"%d" % sum(self.seen.values())
            wanted = SaveFile(self.base, "p/q/file", data, None, "overwrite")
            key = saving.key_of(self.base, wanted)
            saving.save_file(self.base, wanted, key, STOP)
            told.append(data)
            return "saved"

        some = {"saved"}
        self.tries(save, FEWER, some=some)
        self.assert_only(some | {files.NOT_FOUND, files.REVISION_CONFLICT})
        self.assertGreater(len(told), 1)


class WriterTests(RaceCase):
    """Other programs that write the same file."""

    def test_what_is_read_is_one_state(self) -> None:
        """A writer that replaces the file never shows through as a mixture."""
        states = [bytes([letter]) * 50_000 for letter in b"ab"]
        self.put(self.inside("file"), states[0])

        def swap() -> None:
            for state in states:
                self.put(self.inside("next"), state)
                os.replace(self.inside("next"), self.inside("file"))

        self.meanwhile(swap)

        def read() -> str:
            data = reading.read(self.base, FileTarget(self.base, "file"), STOP).data
            self.assertIn(data, states)
            return "read"

        some = {"read"}
        self.tries(read, FEWER, some=some)
        self.assert_only(some | {files.CHANGED_DURING_READ})

    def test_deletion_under_a_read(self) -> None:
        """It is read whole or missing."""
        content = b"x" * 50_000

        def swap() -> None:
            self.put(self.inside("next"), content)
            os.rename(self.inside("next"), self.inside("file"))
            os.unlink(self.inside("file"))

        self.meanwhile(swap)

        def read() -> str:
            data = reading.read(self.base, FileTarget(self.base, "file"), STOP).data
            self.assertEqual(data, content)
            return "read"

        some = {"read", files.NOT_FOUND}
        self.tries(read, FEWER, some=some)
        self.assert_only(some | {files.CHANGED_DURING_READ})

    def test_a_replacing_writer_does_not_lose_what_was_told_as_saved(self) -> None:
        """When it puts another file in place during a save, that is a conflict: what is saved
        was in the file that was there.
        """
        path = self.inside("file")

        def swap() -> None:
            self.put(self.inside("next"), b"theirs")
            os.replace(self.inside("next"), path)

        self.meanwhile(swap)

        def save() -> str:
            wanted = SaveFile(self.base, "file", b"mine", None, "overwrite")
            key = saving.key_of(self.base, wanted)
            saving.save_file(self.base, wanted, key, STOP)
            return "saved"

        some = {files.REVISION_CONFLICT}
        self.tries(save, FEWER, some=some)
        self.assert_only(some | {"saved"})
