"""How much is under way at once, and who waits how long."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract import files
from garcon.contract.files import FileTarget
from garcon.errors import GarconError
from garcon.runtime.files import failures
from garcon.runtime.files.locks import Locks
from garcon.runtime.files.service import LOOKS, OPERATION_TIME, WAITING
from garcon.runtime.files.stopping import Stop, Stopped
from garcon.runtime.files.workshop import Workshop
from garcon.test.runtime.files.cast import FilesCase


class HeldThreads:
    """Threads whose work is done when the test says so."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[], Any], Deferred[Any]]] = []

    def __call__(self, work: Callable[[], Any]) -> Deferred[Any]:
        d: Deferred[Any] = Deferred()
        self.work.append((work, d))
        return d

    def __len__(self) -> int:
        return len(self.work)

    def do(self, index: int = 0) -> None:
        """Do one piece of work and hand over what came of it."""
        work, d = self.work.pop(index)
        try:
            result = work()
        except Exception as error:
            d.errback(error)
        else:
            d.callback(result)

    def all(self) -> None:
        """Do everything, and what comes of it."""
        while self.work:
            self.do()


class WorkshopTests(SynchronousTestCase):
    """Two at once, three waiting."""

    def setUp(self) -> None:
        self.threads = HeldThreads()
        self.clock = Clock()
        self.shop = Workshop(self.threads, self.clock, 2, 3)
        self.over: list[str] = []

    def do(self, name: str = "x", seconds: float = 10.0) -> Deferred[str]:
        """Do something that takes no time once it runs."""

        def work(stop: Stop) -> str:
            stop.check()
            return name

        return self.shop.do(work, seconds, over=lambda: self.over.append(name))

    def code(self, d: Deferred[Any]) -> str:
        error = self.failureResultOf(d, GarconError).value
        assert isinstance(error, GarconError)
        return error.code

    def test_so_many_at_once_and_the_others_in_order(self) -> None:
        """The next begins when one has ended."""
        given = [self.do(name) for name in "abcde"]
        self.assertEqual((len(self.threads), self.shop.waiting), (2, 3))
        self.threads.do()
        self.assertEqual(self.successResultOf(given[0]), "a")
        self.assertEqual((len(self.threads), self.shop.waiting), (2, 2))
        self.threads.all()
        self.assertEqual([self.successResultOf(d) for d in given[1:]], ["b", "c", "d", "e"])
        self.assertEqual(self.over, list("abcde"))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_one_more_than_may_wait_is_refused(self) -> None:
        """At once, and may come again."""
        given = [self.do() for _ in range(5)]
        error = self.failureResultOf(self.do("f"), GarconError).value
        assert isinstance(error, GarconError)
        self.assertEqual((error.code, error.status, error.retryable), (files.BUSY, 503, True))
        self.assertEqual(self.over, ["f"])
        self.threads.all()
        for d in given:
            self.successResultOf(d)

    def test_what_was_not_begun_in_time_is_refused(self) -> None:
        """Nothing of it happens later."""
        begun = [self.do(name, 60.0) for name in "ab"]
        late = self.do("c")
        self.clock.advance(10)
        self.assertEqual(self.code(late), files.BUSY)
        self.assertEqual((self.over, self.shop.waiting), (["c"], 0))
        self.threads.all()
        self.assertEqual([self.successResultOf(d) for d in begun], ["a", "b"])
        self.assertEqual(self.over, ["c", "a", "b"])

    def test_what_does_not_end_in_time_keeps_its_place(self) -> None:
        """Its caller hears that; it is told to stop, and only its end makes room."""
        hung = [self.do(name) for name in "ab"]
        waiting = self.do("c", 60.0)
        self.clock.advance(10)
        for d in hung:
            self.assertEqual(self.code(d), files.TIMEOUT)
        self.assertEqual((self.over, len(self.threads), self.shop.waiting), ([], 2, 1))
        self.threads.do()
        self.assertEqual((self.over, self.shop.waiting), (["a"], 0))
        self.threads.all()
        self.assertEqual(self.successResultOf(waiting), "c")

    def test_the_caller_says_what_overdue_means(self) -> None:
        """For what changes something it is not known."""
        d = self.shop.do(lambda _: None, 10.0, failures.save_unknown)
        self.clock.advance(10)
        self.assertEqual(self.code(d), files.SAVE_OUTCOME_UNKNOWN)
        self.threads.all()

    def test_cancelled_while_it_waits(self) -> None:
        """It never begins."""
        self.do("a")
        self.do("b")
        d = self.do("c")
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.assertEqual((self.over, self.shop.waiting), (["c"], 0))
        self.threads.all()
        self.assertEqual(self.over, ["c", "a", "b"])

    def test_cancelled_while_it_runs(self) -> None:
        """It is told to stop, and keeps its place until it does."""
        d = self.do("a")
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.assertEqual((self.over, self.shop.running), ([], 1))
        self.threads.all()
        self.assertEqual((self.over, self.shop.running), (["a"], 0))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_failure_that_nobody_waits_for_is_logged(self) -> None:
        """Unless it is the stopping itself."""
        d = self.shop.do(lambda _: 1 // 0, 10.0)
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.threads.all()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_stopping_refuses_and_waits(self) -> None:
        """What waits, and what comes; what runs ends first."""
        running, other, waiting = self.do("a"), self.do("b"), self.do("c")
        stopped = self.shop.stop()
        self.assertEqual(self.code(waiting), "SERVER_SHUTTING_DOWN")
        self.assertEqual(self.code(self.do("d")), "SERVER_SHUTTING_DOWN")
        self.assertNoResult(stopped)
        self.threads.all()
        self.successResultOf(stopped)
        self.assertEqual([self.successResultOf(running), self.successResultOf(other)], ["a", "b"])
        self.assertEqual(self.over, ["c", "d", "a", "b"])

    def test_work_looks_whether_it_is_still_wanted(self) -> None:
        """A stop that is set ends it."""
        with self.assertRaises(Stopped):
            Stop(is_set=True).check()


class LockTests(SynchronousTestCase):
    """One at a time of each key, in the order of asking."""

    def test_in_order(self) -> None:
        """Other keys do not wait."""
        locks = Locks(5)
        first, second, other = locks.acquire(1), locks.acquire(1), locks.acquire(2)
        self.successResultOf(first)
        self.successResultOf(other)
        self.assertNoResult(second)
        third = locks.acquire(1)
        locks.release(1)
        self.successResultOf(second)
        self.assertNoResult(third)
        locks.release(1)
        self.successResultOf(third)
        locks.release(1)
        locks.release(2)
        self.assertEqual(len(locks), 0)

    def test_as_many_as_may_wait(self) -> None:
        """Over all keys; one more is refused, and a cancelled one makes room."""
        locks = Locks(2)
        for key in (1, 2):
            self.successResultOf(locks.acquire(key))
        waiting = [locks.acquire(1), locks.acquire(2)]
        self.failureResultOf(locks.acquire(1), GarconError)
        waiting[0].cancel()
        self.failureResultOf(waiting[0], CancelledError)
        again = locks.acquire(1)
        locks.release(1)
        self.successResultOf(again)


class ServiceTests(FilesCase):
    """The files of this machine with threads that take their time."""

    def setUp(self) -> None:
        self.threads = HeldThreads()
        super().setUp()
        self.write("file", "old")

    def in_thread(self, work: Callable[[], Any]) -> Deferred[Any]:
        return self.threads(work)

    def save(self, path: str, data: bytes) -> Deferred[Any]:
        return self.files.save(self.saving(path, data))

    def test_eight_contents_at_once_and_nine(self) -> None:
        """The ninth waits; looking at names does not wait for contents."""
        reads = [self.files.read(self.target("file")) for _ in range(9)]
        self.assertEqual(len(self.threads), files.CONTENT_OPERATIONS)
        look = self.files.revision(self.target("file"))
        self.threads.do(files.CONTENT_OPERATIONS)
        self.successResultOf(look)
        self.threads.all()
        for d in reads:
            self.assertEqual(self.successResultOf(d).data, b"old")

    def test_as_many_as_may_wait_and_one_more(self) -> None:
        """Of contents, and of looks."""
        kinds: tuple[tuple[int, Callable[[], Deferred[Any]]], ...] = (
            (files.CONTENT_OPERATIONS, lambda: self.files.read(self.target("file"))),
            (LOOKS, lambda: self.files.revision(self.target("file"))),
        )
        for at_once, ask in kinds:
            given = [ask() for _ in range(at_once + WAITING)]
            self.failure(ask(), files.BUSY)
            self.threads.all()
            for d in given:
                self.successResultOf(d)

    def test_savers_of_one_file_come_one_after_the_other(self) -> None:
        """By whatever name they know it; other files are saved meanwhile."""
        os.link(os.path.join(self.project, "file"), os.path.join(self.project, "other-name"))
        self.write("second", "old")
        saves = [self.save(name, name.encode()) for name in ("file", "other-name", "second")]
        for _ in saves:
            self.threads.do()  # what is meant
        self.assertEqual(len(self.threads), 2)
        self.threads.do(1)
        self.assertEqual(self.content("second"), b"second")
        self.assertEqual(len(self.threads), 1)
        self.threads.do()
        self.assertEqual(self.content("file"), b"file")
        self.threads.do()
        self.assertEqual(self.content("file"), b"other-name")
        for d in saves:
            self.successResultOf(d)

    def test_two_make_the_same_file(self) -> None:
        """One does; for the other that is a conflict."""
        saves = [self.save("new", data) for data in (b"first", b"second")]
        self.threads.all()
        self.successResultOf(saves[0])
        self.failure(saves[1], files.REVISION_CONFLICT)
        self.assertEqual(self.content("new"), b"first")

    def test_two_savers_with_one_revision(self) -> None:
        """The first is taken, the second has not seen what it wrote."""
        look = self.files.revision(self.target("file"))
        self.threads.all()
        expected = self.successResultOf(look)
        saves = [
            self.files.save(self.saving("file", data, expected, "reject"))
            for data in (b"first, longer", b"second")
        ]
        self.threads.all()
        self.successResultOf(saves[0])
        self.failure(saves[1], files.REVISION_CONFLICT)
        self.assertEqual(self.content("file"), b"first, longer")

    def test_a_save_that_hangs_has_an_unknown_outcome(self) -> None:
        """And keeps its file locked until it ends: the next saver has no time left."""
        hung = self.save("file", b"hung")
        self.threads.do()
        next_one = self.save("file", b"next")
        self.threads.do(1)
        self.clock.advance(OPERATION_TIME)
        error = self.failure(hung, files.SAVE_OUTCOME_UNKNOWN)
        self.assertEqual((error.status, error.retryable), (503, False))
        self.failure(next_one, files.BUSY)
        self.assertEqual(len(self.threads), 1)
        self.threads.do()
        self.assertEqual(self.content("file"), b"old")
        after = self.save("file", b"after")
        self.threads.all()
        self.successResultOf(after)
        self.assertEqual(self.content("file"), b"after")

    def test_a_cancelled_save_frees_its_file(self) -> None:
        """Wherever it has come to."""
        for steps in range(2):
            d = self.save("file", b"x")
            for _ in range(steps):
                self.threads.do()
            d.cancel()
            self.failureResultOf(d, CancelledError)
            self.threads.all()
        after = self.save("file", b"after")
        self.threads.all()
        self.successResultOf(after)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_directory_that_hangs_has_an_unknown_outcome(self) -> None:
        """Likewise."""
        d = self.files.create_directory(None, "new")
        self.clock.advance(OPERATION_TIME)
        self.failure(d, files.DIRECTORY_OUTCOME_UNKNOWN)
        self.threads.all()

    def test_a_read_that_hangs_is_overdue(self) -> None:
        """It changes nothing, and may be tried again."""
        d = self.files.read(FileTarget(self.project, "file"))
        self.clock.advance(OPERATION_TIME)
        error = self.failure(d, files.TIMEOUT)
        self.assertEqual((error.status, error.retryable), (504, True))
        self.threads.all()

    def test_the_end_waits_a_little(self) -> None:
        """And goes on without what hangs."""
        d = self.files.read(self.target("file"))
        stopped = self.files.stop()
        self.assertNoResult(stopped)
        self.clock.advance(3)
        self.successResultOf(stopped)
        self.threads.all()
        self.successResultOf(d)
