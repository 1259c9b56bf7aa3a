"""Killed at any moment, the controller's memory holds every accepted input once, and no
transcript has a gap.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Timer

from twisted.trial.unittest import SynchronousTestCase

import garcon
from garcon.contract.ids import is_uuid4
from garcon.store.records import StoredChat
from garcon.store.sqlite import SqliteStore
from garcon.testing.inline_threads import InlinePool, InlineReactor

ROUNDS = 4
READY_TIME = 20.0


class CrashTests(SynchronousTestCase):
    """A writer that is killed again and again, over one file."""

    def setUp(self) -> None:
        self.base = Path(os.path.realpath(self.mktemp()))
        self.base.mkdir(parents=True)
        self.path = self.base / "garcon.sqlite"
        self.accepted: list[tuple[str, str]] = []

    def test_every_accepted_input_is_there_once(self) -> None:
        """After each SIGKILL, at a random point of the writing."""
        seed = time.time_ns()
        moments = random.Random(seed)
        for number in range(ROUNDS):
            self.write_and_kill(number, moments.uniform(0.02, 0.4))
            self.assertHolds(seed)

    def write_and_kill(self, number: int, seconds: float) -> None:
        """Let a writer accept inputs for some time, then kill it."""
        root = str(Path(garcon.__file__).parents[1])
        child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "garcon.testing.crash_writer",
                str(self.path),
                str(self.base),
                str(number),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PYTHONPATH": root, "PATH": os.environ.get("PATH", "")},
        )
        assert child.stdout is not None and child.stderr is not None
        late = Timer(READY_TIME, child.kill)
        late.start()
        lines = [child.stdout.readline()]
        late.cancel()
        time.sleep(seconds)
        child.kill()
        rest, errors = child.communicate()
        self.assertEqual((child.returncode, errors), (-signal.SIGKILL, b""))
        lines += rest.splitlines(keepends=True)
        for line in lines:
            if line.endswith(b"\n"):
                chat_id, message = line.decode().split()
                self.accepted.append((chat_id, message))

    def assertHolds(self, seed: int) -> None:
        """Read everything back: reading fails by itself on a gap or a damaged row."""
        self.assertTrue(self.accepted)
        store = SqliteStore(str(self.path), InlineReactor(), InlinePool())
        self.successResultOf(store.open())
        try:
            chats = {one.record.chat_id: one for one in self.successResultOf(store.load())}
            kept = [pair for chat in chats.values() for pair in self.inputs(store, chat)]
        finally:
            self.successResultOf(store.close())
        self.assertEqual(len(kept), len(set(kept)), f"an input is there twice (seed {seed})")
        missing = set(self.accepted) - set(kept)
        self.assertEqual(missing, set(), f"accepted inputs are gone (seed {seed})")

    def inputs(self, store: SqliteStore, chat: StoredChat) -> list[tuple[str, str]]:
        """Return the inputs of a chat, after a look at all of its rows."""
        view_id = chat.view_id
        assert view_id is not None and is_uuid4(view_id) and not chat.damaged
        rows = self.successResultOf(store.read_rows(view_id, 1, chat.last_ordinal or 0))
        return [
            (chat.record.chat_id, row.client_message_id or "")
            for row in rows
            if row.kind == "user-input"
        ]
