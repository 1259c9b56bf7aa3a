"""The files of an executor keep one set of promises, on this machine and behind a link."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from garcon.contract import files, rpc
from garcon.contract.files import (
    CALL_TIME,
    CONTENT_BYTES,
    CONTENT_OPERATIONS,
    FileTarget,
    IdentifiedFile,
    ListedDirectory,
    SaveFile,
)
from garcon.contract.limits import QUEUE_BULK_BYTES
from garcon.contract.rpc import Continuity, Lane
from garcon.controller.executors.remote_files import SAVING, Room
from garcon.errors import GarconError
from garcon.runtime.files.service import OPERATION_TIME, WAITING, LocalFiles
from garcon.runtime.interfaces import IFileHost, IFiles
from garcon.test.controller.bridge.test_over_a_link import OverALink
from garcon.test.controller.executors.test_over_cuts import FaultyNetwork
from garcon.testing.fake_runtime import FakeRuntime
from garcon.worker.serving.files import QUEUED, FileServing

EVERY_BYTE = bytes(range(256))


class Threads:
    """Runs what blocks at once, or when the test says so."""

    def __init__(self) -> None:
        self.is_held = False
        self.held: list[tuple[Callable[[], Any], Deferred[Any]]] = []
        self.done = 0

    def __call__(self, work: Callable[[], Any]) -> Deferred[Any]:
        if self.is_held:
            d: Deferred[Any] = Deferred()
            self.held.append((work, d))
            return d
        self.done += 1
        return maybeDeferred(work)

    def release(self) -> None:
        """Do what was held."""
        self.is_held = False
        while self.held:
            work, d = self.held.pop(0)
            self.done += 1
            maybeDeferred(work).chainDeferred(d)


@implementer(IFileHost)
class Host(FakeRuntime):
    """An executor with files."""

    files: IFiles


class Base:
    """A project base on this machine, with an executor's files in it."""

    def __init__(self, top: str, clock: Clock) -> None:
        self.path = os.path.join(os.path.realpath(top), "base")
        self.project = os.path.join(self.path, "project")
        os.makedirs(self.project)
        self.threads = Threads()
        self.files = LocalFiles(clock, self.path, self.path, in_thread=self.threads)

    def write(self, path: str, content: bytes = b"old") -> None:
        full = os.path.join(self.project, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(content)

    def content(self, path: str = "file") -> bytes:
        with open(os.path.join(self.project, path), "rb") as file:
            return file.read()

    def target(self, path: str = "file") -> FileTarget:
        return FileTarget(self.project, path)

    def saving(self, data: bytes = b"new", path: str = "file", **more: Any) -> SaveFile:
        given = {"expected_revision": None, "conflict_resolution": "overwrite"} | more
        return SaveFile(self.project, path, data, **given)


class FilesPromises:
    """What `IFiles` promises, to be kept by whoever implements it.

    `there` is the machine the files are on, `of` fires a Deferred's result or raises its failure.
    """

    there: Base
    files: IFiles
    of: Callable[[Any], Any]
    settle_files: Callable[[], None]
    failureResultOf: Any
    assertEqual: Any
    assertNoResult: Any
    successResultOf: Any

    def refuses(self, d: Deferred[Any], code: str, status: int, *, retryable: bool = False) -> None:
        """Check how something fails."""
        self.settle_files()
        error = self.failureResultOf(d, GarconError).value
        self.assertEqual((error.code, error.status, error.retryable), (code, status, retryable))

    def test_the_interface(self) -> None:
        """Is implemented."""
        verifyObject(IFiles, self.files)

    def test_what_there_is(self) -> None:
        """Trees, directories and projects."""
        self.there.write("a/file")
        tree = self.of(self.files.tree("project"))
        self.assertEqual(tree.directory.path, self.there.project)
        self.assertEqual([(e.name, e.type) for e in tree.entries], [("a", "directory")])
        self.assertEqual(self.of(self.files.tree(None)).directory.path, self.there.path)
        browsed = self.of(self.files.browse(None))
        self.assertEqual(browsed.directories, [ListedDirectory("project", self.there.project)])
        listed = self.of(self.files.project_files("project"))
        self.assertEqual(listed.relative_paths, ["a/file"])

    def test_which_file_and_at_which_revision(self) -> None:
        """None where there is none."""
        self.there.write("a/file")
        self.assertEqual(
            self.of(self.files.identity(self.there.target("./a/file"))),
            IdentifiedFile(self.there.project, "a/file"),
        )
        revision = self.of(self.files.revision(self.there.target("a/file")))
        read = self.of(self.files.read(self.there.target("a/file")))
        self.assertEqual(read.revision, revision)
        self.assertEqual(self.of(self.files.revision(self.there.target("missing"))), None)

    def test_every_byte(self) -> None:
        """Is read as it is, and saved as it is."""
        self.there.write("file", EVERY_BYTE)
        self.assertEqual(self.of(self.files.read(self.there.target())).data, EVERY_BYTE)
        saved = self.of(self.files.save(self.there.saving(EVERY_BYTE * 2)))
        self.assertEqual(self.there.content(), EVERY_BYTE * 2)
        self.assertEqual(saved.revision, self.of(self.files.revision(self.there.target())))

    def test_conflicts(self) -> None:
        """A revision that is not the one expected."""
        self.there.write("file", b"theirs")
        save = self.there.saving(expected_revision="v1:x", conflict_resolution="reject")
        self.refuses(self.files.save(save), files.REVISION_CONFLICT, 409)
        self.assertEqual(self.there.content(), b"theirs")

    def test_directories(self) -> None:
        """Are made once."""
        made = self.of(self.files.create_directory("project", "new"))
        self.assertEqual(made, ListedDirectory("new", f"{self.there.project}/new"))
        self.refuses(self.files.create_directory("project", "new"), files.EXISTS, 409)

    def test_refusals(self) -> None:
        """With the code, the status and whether it may go better later."""
        self.refuses(self.files.read(self.there.target("missing")), files.NOT_FOUND, 404)
        self.refuses(self.files.read(self.there.target("/etc/passwd")), files.OUTSIDE, 403)
        self.refuses(self.files.tree("missing"), files.TREE_NOT_FOUND, 404)
        self.refuses(self.files.project_files("/"), files.OUTSIDE, 403)
        self.refuses(self.files.identity(self.there.target("..")), "VALIDATION_FAILED", 400)

    def test_four_mebibytes_and_one_byte_more(self) -> None:
        """Both ways."""
        largest = b"\x00" * CONTENT_BYTES
        self.there.write("file", largest)
        self.assertEqual(self.of(self.files.read(self.there.target())).data, largest)
        self.of(self.files.save(self.there.saving(b"\x01" * CONTENT_BYTES)))
        self.refuses(self.files.save(self.there.saving(largest + b"x")), files.TOO_LARGE, 413)
        self.assertEqual(self.there.content(), b"\x01" * CONTENT_BYTES)
        self.there.write("file", largest + b"x")
        self.refuses(self.files.read(self.there.target()), files.TOO_LARGE, 413)

    def test_eight_at_once_the_others_in_turn(self) -> None:
        """Of contents."""
        self.there.write("file")
        self.there.threads.is_held = True
        reads = [self.files.read(self.there.target()) for _ in range(CONTENT_OPERATIONS + 1)]
        self.settle_files()
        self.assertEqual(len(self.there.threads.held), CONTENT_OPERATIONS)
        self.there.threads.release()
        for d in reads:
            self.assertEqual(self.of(d).data, b"old")

    def test_a_file_system_that_hangs(self) -> None:
        """A read is overdue; a save and a new directory are of unknown outcome."""
        self.there.write("file")
        self.there.threads.is_held = True
        read = self.files.read(self.there.target())
        made = self.files.create_directory(None, "new")
        self.hang()
        self.refuses(read, files.TIMEOUT, 504, retryable=True)
        self.refuses(made, files.DIRECTORY_OUTCOME_UNKNOWN, 503)
        self.there.threads.release()

    def hang(self) -> None:
        """Let the time of an operation pass."""
        raise NotImplementedError


class LocalFilesTests(FilesPromises, SynchronousTestCase):
    """On this machine."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.there = Base(self.mktemp(), self.clock)
        self.files = self.there.files

    def of(self, d: Deferred[Any]) -> Any:
        return self.successResultOf(d)

    def settle_files(self) -> None:
        """Everything happens at once."""

    def hang(self) -> None:
        self.clock.advance(OPERATION_TIME)


class OverTheLink(OverALink):
    """A worker with files, linked and ready, over a network with faults."""

    def setUp(self) -> None:
        self.clock = Clock()
        super().setUp()
        self.files: IFiles = self.executors.runtime(self.executor_id).files  # type: ignore[attr-defined]

    def make_worker(self, process: str = "worker-runtime") -> Any:
        if not isinstance(self.network, FaultyNetwork):
            self.network = FaultyNetwork()
            self.there = Base(self.mktemp(), self.clock)
        host = Host()
        host.files = self.there.files
        self.runtime = host
        return super().make_worker(process)

    @property
    def faults(self) -> FaultyNetwork:
        assert isinstance(self.network, FaultyNetwork)
        return self.network

    def of(self, d: Deferred[Any]) -> Any:
        self.settle_files()
        return self.successResultOf(d)

    def settle_files(self) -> None:
        self.settle(0.4)

    def code(self, d: Deferred[Any]) -> str:
        error = self.failureResultOf(d, GarconError).value
        assert isinstance(error, GarconError)
        return error.code


class RemoteFilesTests(FilesPromises, OverTheLink):
    """Behind a link."""

    def hang(self) -> None:
        self.settle_files()
        self.clock.pump([OPERATION_TIME / 20] * 20)


class LostTests(OverTheLink):
    """What becomes of a save when its confirmation does not come."""

    def setUp(self) -> None:
        super().setUp()
        self.there.write("file")

    def lose(self) -> None:
        """Cut the link, and keep it down."""
        self.faults.is_down = True
        self.faults.cut()

    def back(self, seconds: float = 10.0) -> None:
        """Let it come back."""
        self.faults.is_down = False
        self.clock.pump([0.5] * int(seconds * 2))

    def begun(self) -> Deferred[Any]:
        """Begin a save whose thread takes its time."""
        self.there.threads.is_held = True
        d = self.files.save(self.there.saving())
        self.settle_files()
        self.assertEqual(len(self.there.threads.held), 1)
        return d

    def test_a_cut_that_is_mended_in_time(self) -> None:
        """The worker goes on; its answer comes with the next session, and nothing is done twice."""
        d = self.begun()
        self.lose()
        self.clock.pump([0.1] * 10)
        self.there.threads.release()
        self.assertEqual(self.there.content(), b"new")
        self.there.write("file", b"changed since")
        self.assertNoResult(d)
        self.back()
        self.successResultOf(d)
        self.assertEqual(self.there.content(), b"changed since")

    def test_no_confirmation_in_time(self) -> None:
        """Nobody knows, and nothing is sent again: not when the link is back, nor later."""
        d = self.begun()
        self.lose()
        self.clock.pump([1.0] * int(CALL_TIME))
        self.assertEqual(self.code(d), files.SAVE_OUTCOME_UNKNOWN)
        self.there.threads.release()
        done = self.there.threads.done
        self.back(60.0)
        self.assertEqual(self.there.threads.done, done)

    def test_a_worker_that_was_restarted(self) -> None:
        """Cannot tell; the save is not given to the new process."""
        d = self.begun()
        self.lose()
        self.worker.close("over")
        self.faults.is_down = False
        self.worker = self.make_worker("another-runtime")
        self.clock.pump([0.5] * 20)
        self.assertEqual(self.code(d), files.SAVE_OUTCOME_UNKNOWN)
        self.assertEqual(len(self.there.threads.held), 1)
        self.there.threads.held.clear()
        self.clock.pump([1.0] * 60)
        self.assertEqual((self.there.content(), self.there.threads.held), (b"old", []))

    def test_a_save_that_never_left(self) -> None:
        """Is known not to have happened, and may be tried again."""
        self.lose()
        d = self.files.save(self.there.saving())
        self.clock.pump([1.0] * 25)
        error = self.failureResultOf(d, GarconError).value
        assert isinstance(error, GarconError)
        self.assertEqual((error.code, error.retryable), ("EXECUTOR_UNAVAILABLE", True))
        self.back(60.0)
        self.assertEqual(self.there.content(), b"old")

    def test_a_read_may_be_asked_again(self) -> None:
        """Whatever became of it."""
        self.there.threads.is_held = True
        d = self.files.read(self.there.target())
        self.settle_files()
        self.lose()
        self.clock.pump([1.0] * int(CALL_TIME))
        error = self.failureResultOf(d, GarconError).value
        assert isinstance(error, GarconError)
        self.assertEqual((error.status, error.retryable), (504, True))
        self.there.threads.release()

    def test_cut_at_every_record(self) -> None:
        """What is told as saved is saved, what is told as refused is not, and no save happens
        twice.
        """
        told = set()
        for record in range(40):
            self.there.write("file")
            done = self.there.threads.done
            data = b"%d" % record
            self.faults.cut_after = record
            d = self.files.save(self.there.saving(data))
            self.clock.pump([0.5] * 80)
            results: list[Any] = []
            d.addBoth(results.append)
            self.faults.cut_after = None
            self.clock.pump([0.5] * 80)
            now = self.there.content()
            # Each save looks what is meant, and then writes.
            self.assertLessEqual(self.there.threads.done - done, 2)
            (result,) = results
            if hasattr(result, "value"):
                told.add(result.value.code)
                if result.value.code != files.SAVE_OUTCOME_UNKNOWN:
                    self.assertEqual(now, b"old")
            else:
                told.add("saved")
                self.assertEqual(now, data)
        self.assertIn("saved", told)


class LargeTests(OverTheLink):
    """Many large contents over a link that takes its time."""

    def fill(self, names: str) -> None:
        for name in names:
            self.there.write(name, name.encode() * CONTENT_BYTES)

    def slow(self, is_slow: bool) -> None:
        """Let the worker's sockets take nothing more, or go on."""
        for wire in self.faults.wires[::2]:
            wire.set_writable(not is_slow)

    def test_eight_reads_wait_for_room_and_none_is_refused(self) -> None:
        """No more is queued than bulk may hold."""
        self.fill("abcdefgh")
        self.slow(True)
        reads = [self.files.read(self.there.target(name)) for name in "abcdefgh"]
        self.settle_files()
        bulk = self.worker._bulk
        assert bulk is not None
        self.assertLess(CONTENT_BYTES, bulk.queued_bytes)
        self.assertLessEqual(bulk.queued_bytes, QUEUED)
        self.slow(False)
        self.clock.pump([0.05] * 40)
        for name, d in zip("abcdefgh", reads, strict=True):
            self.assertEqual(self.successResultOf(d).data[:1], name.encode())

    def test_eight_saves_wait_for_room_and_none_is_refused(self) -> None:
        """As many bytes as may be on their way, the others after them."""
        self.fill("abcdefgh")
        self.there.threads.is_held = True
        saves = [
            self.files.save(self.there.saving(b"n" * CONTENT_BYTES, name)) for name in "abcdefgh"
        ]
        self.settle_files()
        self.assertEqual(len(self.there.threads.held), SAVING // CONTENT_BYTES)
        self.there.threads.release()
        self.clock.pump([0.05] * 40)
        for name, d in zip("abcdefgh", saves, strict=True):
            self.successResultOf(d)
            self.assertEqual(self.there.content(name), b"n" * CONTENT_BYTES)

    def test_the_bounds_fit_the_queue(self) -> None:
        """As JSON, with something left for others."""
        self.assertLess(SAVING * 4 // 3, QUEUE_BULK_BYTES)
        self.assertLess(QUEUED + CONTENT_BYTES * 4 // 3, QUEUE_BULK_BYTES)

    def test_cancelled_while_it_waits_for_room(self) -> None:
        """The next one has its place."""
        self.there.threads.is_held = True
        saves = [self.files.save(self.there.saving(b"n" * CONTENT_BYTES, n)) for n in "abcde"]
        self.settle_files()
        saves[3].cancel()
        saves[3].addErrback(lambda _: None)
        self.there.threads.release()
        self.clock.pump([0.05] * 40)
        for d in (*saves[:3], saves[4]):
            self.successResultOf(d)
        self.assertFalse(os.path.exists(os.path.join(self.there.project, "d")))


class RoomTests(SynchronousTestCase):
    """Bytes that are given out."""

    def test_in_the_order_of_asking(self) -> None:
        """A small one does not overtake a large one."""
        room = Room(10)
        self.successResultOf(room.take(6))
        large, small = room.take(8), room.take(1)
        self.assertNoResult(large)
        self.assertNoResult(small)
        room.give(6)
        self.successResultOf(large)
        self.successResultOf(small)

    def test_a_place_that_is_given_up(self) -> None:
        """Is the next one's."""
        room = Room(10)
        self.successResultOf(room.take(10))
        first, second = room.take(10), room.take(10)
        first.cancel()
        self.failureResultOf(first)
        room.give(10)
        self.successResultOf(second)


class TableTests(SynchronousTestCase):
    """Lanes and classes of the methods (control.md J.9)."""

    def test_every_file_method(self) -> None:
        """What is small on primary, the rest on bulk; all outlive sessions and have thirty
        seconds.
        """
        methods = {name: m for name, m in rpc.METHODS.items() if name.startswith("files.")}
        small = {"files.identity", "files.revision"}
        self.assertEqual(
            set(methods),
            small
            | {f"files.{name}" for name in ("tree", "browse", "list", "read", "save")}
            | {"files.createDirectory"},
        )
        for name, method in methods.items():
            self.assertEqual(method.lane, Lane.PRIMARY if name in small else Lane.BULK)
            self.assertEqual(method.continuity, Continuity.JOURNALED)
            self.assertEqual(method.deadline, CALL_TIME)
        serving: Any = FileServing(Clock(), None)  # type: ignore[arg-type]
        self.assertEqual(set(serving.handlers()), set(methods))
        self.assertLess(OPERATION_TIME, CALL_TIME)
        self.assertGreater(WAITING, 0)
