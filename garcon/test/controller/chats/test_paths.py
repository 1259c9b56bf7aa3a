"""What is known of project directories, and how long a list waits for it (chats.md 3.1)."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.chats.paths import FRESH, KEPT, LOOK_TIME, PAUSE, ProjectPaths, look
from garcon.deferreds import Tasks


class PathCase(SynchronousTestCase):
    """Directories that are looked at when the test says so."""

    def setUp(self) -> None:
        self.clock, self.tasks = Clock(), Tasks()
        self.addCleanup(self.tasks.stopService)
        self.looks: list[tuple[list[str], Deferred[dict[str, bool]]]] = []
        self.paths = ProjectPaths(self.look, self.clock, self.tasks)

    def look(self, paths: list[str]) -> Deferred[dict[str, bool]]:
        """Begin to look."""
        self.looks.append((sorted(paths), Deferred()))
        return self.looks[-1][1]

    def seen(self, **verdicts: bool) -> None:
        """What goes on has been looked at."""
        self.looks[-1][1].callback(verdicts)

    def refresh(self, *paths: str) -> Deferred[bool]:
        """Ask for these paths."""
        return Deferred.fromCoroutine(self.paths.refresh(lambda: paths))

    def known(self, **verdicts: bool) -> None:
        """Have these paths looked at, and a while pass."""
        d = self.refresh(*verdicts)
        self.seen(**verdicts)
        self.successResultOf(d)
        self.clock.advance(PAUSE)

    def listed(self, *paths: str) -> list[bool]:
        """Return which of Local's paths are listed."""
        return [self.paths.is_listed("local", path) for path in paths]


class RefreshTests(PathCase):
    """When directories are looked at, and who waits for it."""

    def test_what_nobody_has_looked_at_is_waited_for(self) -> None:
        """All of it at once."""
        d = self.refresh("b", "a", "b")
        self.assertNoResult(d)
        self.assertEqual([paths for paths, _ in self.looks], [["a", "b"]])
        self.seen(a=True, b=False)
        self.successResultOf(d)
        self.assertEqual(self.listed("a", "b"), [True, False])

    def test_what_is_known_is_not_looked_at_again(self) -> None:
        """For a minute; then once more, and meanwhile the old answer holds."""
        self.known(a=False)
        self.clock.advance(FRESH - PAUSE)
        self.successResultOf(self.refresh("a"))
        self.assertEqual(len(self.looks), 1)
        self.clock.advance(PAUSE)
        self.successResultOf(self.refresh("a"))
        self.assertEqual(len(self.looks), 2)
        self.assertEqual(self.listed("a"), [False])
        self.seen(a=True)
        self.assertEqual(self.listed("a"), [True])

    def test_what_is_too_old_is_waited_for(self) -> None:
        """After a quarter of an hour."""
        self.known(a=True)
        self.clock.advance(KEPT)
        d = self.refresh("a")
        self.assertNoResult(d)
        self.seen(a=False)
        self.successResultOf(d)
        self.assertEqual(self.listed("a"), [False])

    def test_a_look_that_takes_long(self) -> None:
        """One list waits for five seconds and shows the chat; no other waits for the same again."""
        d = self.refresh("a")
        self.clock.advance(LOOK_TIME)
        self.successResultOf(d)
        self.assertEqual(self.listed("a"), [True])
        self.clock.advance(PAUSE)
        self.successResultOf(self.refresh("a", "b"))
        self.assertEqual(len(self.looks), 1)
        self.seen(a=False)
        self.assertEqual(self.listed("a"), [False])
        self.clock.advance(PAUSE)
        d = self.refresh("a", "b")
        self.assertNoResult(d)
        self.assertEqual(self.looks[-1][0], ["b"])

    def test_one_look_at_a_time(self) -> None:
        """Who comes meanwhile waits for the one that goes on."""
        first = self.refresh("a")
        self.clock.advance(PAUSE)
        second = self.refresh("a")
        self.assertEqual(len(self.looks), 1)
        self.seen(a=True)
        self.successResultOf(first)
        self.successResultOf(second)

    def test_once_in_a_second(self) -> None:
        """Many lists at once ask once; what is not known yet is shown."""
        self.known(a=True)
        self.successResultOf(self.refresh("a"))
        self.successResultOf(self.refresh("a", "b"))
        self.assertEqual(len(self.looks), 1)
        self.assertEqual(self.listed("b"), [True])

    def test_a_look_that_fails(self) -> None:
        """It is tried again, and nobody waits for ever."""
        d = self.refresh("a")
        self.looks[-1][1].errback(OSError("no"))
        self.successResultOf(d)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.clock.advance(PAUSE)
        self.refresh("a")
        self.assertEqual(len(self.looks), 2)

    def test_the_end_of_the_process(self) -> None:
        """Whoever waits is let go."""
        d = self.refresh("a")
        self.successResultOf(self.tasks.stopService())
        self.successResultOf(d)

    def test_paths_that_no_chat_has_are_forgotten(self) -> None:
        """What is known grows with the chats alone."""
        for number in range(5):
            self.known(**{f"p{number}": False})
        self.assertEqual(len(self.paths._known), 1)

    def test_workers_paths_are_not_judged(self) -> None:
        """They are no business of this machine."""
        self.known(a=False)
        self.assertTrue(self.paths.is_listed("11111111-1111-4111-8111-111111111111", "a"))


class LookTests(SynchronousTestCase):
    """What is seen of a directory."""

    def test_only_directories_inside_the_base(self) -> None:
        """Links are followed, in the paths and in the base; a common beginning is not inside."""
        root = os.path.realpath(self.mktemp())
        for name in ("base/p", "base-not"):
            os.makedirs(f"{root}/{name}")
        with open(f"{root}/base/file", "w"):
            pass
        os.symlink("p", f"{root}/base/in")
        os.symlink("../base-not", f"{root}/base/out")
        os.symlink("base", f"{root}/alias")
        expected: dict[str, Any] = {
            "base": True,
            "base/p": True,
            "base/in": True,
            "alias/p": True,
            "base/out": False,
            "base/file": False,
            "base/gone": False,
            "base-not": False,
            "": False,
        }
        paths = {f"{root}/{name}" if name else "": good for name, good in expected.items()}
        for base in (f"{root}/base", f"{root}/alias"):
            self.assertEqual(look(base, paths), paths)
        self.assertEqual(look("/", ["/", root]), {"/": True, root: True})
