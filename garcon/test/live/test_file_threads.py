"""The threads that file operations have for themselves."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

import garcon
from garcon.contract.files import FileTarget, SaveFile
from garcon.deferreds import returns_deferred
from garcon.runtime.files.service import LocalFiles
from garcon.runtime.files.workshop import Threads

HANGING = """
from threading import Event
from twisted.internet import reactor
from garcon.runtime.files.service import LocalFiles

hung = Event()
files = LocalFiles(reactor, "/", "/")
d = files._contents.do(lambda stop: (reactor.callFromThread(hung.set), Event().wait()), 60.0)
d.addErrback(lambda _: None)

def look():
    if hung.is_set():
        files.stop().addBoth(lambda _: (print("stopped", flush=True), reactor.stop()))
    else:
        reactor.callLater(0.01, look)

reactor.callWhenRunning(look)
reactor.run()
"""


class ThreadTests(TestCase):
    """With a real reactor."""

    timeout = 60

    @returns_deferred
    async def test_operations_run_beside_the_reactor(self) -> None:
        """On threads of their own, which end with their owner."""
        base = os.path.realpath(self.mktemp())
        os.makedirs(base)
        files = LocalFiles(reactor, base, base)
        saved = await files.save(SaveFile(base, "file", b"content", None, "overwrite"))
        read = await files.read(FileTarget(base, "file"))
        self.assertEqual((read.data, read.revision), (b"content", saved.revision))
        self.assertTrue(self.threads())
        await files.stop()
        self.assertEqual(self.threads(), [])

    @returns_deferred
    async def test_no_more_threads_than_there_may_be(self) -> None:
        """However much is asked at once."""
        threads = Threads(reactor, 3)
        seen: list[int] = []
        release = threading.Event()

        def work() -> None:
            seen.append(threading.get_ident())
            release.wait(30)

        running: list[Any] = [threads.run(work) for _ in range(10)]
        while len(seen) < 3:
            await deferLater(reactor, 0.01)
        self.assertEqual(len(self.threads()), 3)
        release.set()
        for d in running:
            await d
        self.assertEqual((len(seen), len(set(seen)) <= 3), (10, True))
        threads.stop()
        self.assertEqual(self.threads(), [])

    def test_a_thread_that_hangs_does_not_keep_the_process(self) -> None:
        """Its owner gives up after a few seconds, and the process ends."""
        done = subprocess.run(
            [sys.executable, "-c", HANGING],
            env={"PYTHONPATH": str(Path(garcon.__file__).parents[1])},
            capture_output=True,
            timeout=40,
            check=False,
        )
        self.assertEqual((done.returncode, done.stdout), (0, b"stopped\n"), done.stderr)

    def threads(self) -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one.name.startswith("PoolThread-files")]
