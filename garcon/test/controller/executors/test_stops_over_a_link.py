"""Stops of turns that run on a worker, over a whole link (chats.md 5.6; control.md J.10)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.contract.limits import MIB, PRODUCER_WINDOW_FRAMES
from garcon.controller.chats.service import Chats
from garcon.controller.handlers import Answer
from garcon.controller.principals import LOCAL_PRINCIPAL
from garcon.test.controller.bridge.test_over_a_link import OverALink
from garcon.test.controller.chats.cast import CHAT, SETTINGS, said
from garcon.test.controller.executors.cast import INSTANCE
from garcon.testing.memory_store import MemoryStore

MOMENT = 2.0
"""Seconds in which all of it passes the link; a stop waits for the end of its run for ten."""


class StopTests(OverALink):
    """A chat whose turn runs on the worker, and whose agent takes its time to end."""

    def setUp(self) -> None:
        super().setUp()
        self.store = MemoryStore()
        self.successResultOf(self.store.open())
        self.chats = Chats(self.store, self.executors, INSTANCE, self.clock, "/projects")
        self.successResultOf(self.chats.load())
        self.chats.register(self.handlers)
        body = {
            "clientRequestId": "start",
            "clientMessageId": "m-start",
            "chatId": CHAT,
            "agentId": "scripted",
            "executorId": self.executor_id,
            "projectPath": "/projects/p",
            "model": "scripted",
            "agentSettings": SETTINGS,
            "command": "hello",
        }
        started = self.chat(operations.START_CHAT, body)
        self.settle(MOMENT)
        self.assertEqual(said(self.successResultOf(started)).status, 202)
        self.runtime.holds_aborts = True

    def chat(self, operation: operations.Operation, body: dict[str, Any]) -> Deferred[Answer]:
        return self.handlers.run(operation, LOCAL_PRINCIPAL, body=body)

    def stop(self) -> Deferred[Answer]:
        d = self.chat(operations.STOP_CHAT, {"clientRequestId": "stop", "chatId": CHAT})
        self.settle(0.5)
        self.assertEqual(len(self.runtime.aborted), 1)
        self.assertNoResult(d)
        return d

    def assertStopped(self, d: Deferred[Answer]) -> None:
        self.settle(MOMENT)
        self.assertEqual(said(self.successResultOf(d)).body["outcome"], "interrupt-requested")

    def test_rows_ahead_of_the_end_do_not_hold_it_back(self) -> None:
        """More of them than a worker sends before it hears that they were taken."""
        d = self.stop()
        for n in range(PRODUCER_WINDOW_FRAMES + 50):
            self.runtime.last.say(f"{n}")
        self.runtime.last.interrupted()
        self.assertStopped(d)

    def test_a_long_row_ahead_of_the_end_does_not_hold_it_back(self) -> None:
        """One as large as all that a worker sends before it hears that it was taken."""
        d = self.stop()
        self.runtime.last.say("x" * (5 * MIB))
        self.runtime.last.interrupted()
        self.assertStopped(d)

    def test_rows_from_before_it_was_taken_do_not_hold_it_back(self) -> None:
        """They came when the stop might still have failed."""
        self.runtime.say_nothing = True
        d = self.stop()
        for n in range(PRODUCER_WINDOW_FRAMES + 50):
            self.runtime.last.say(f"{n}")
        self.settle(MOMENT)
        self.runtime.unanswered[0].callback(True)
        self.runtime.last.interrupted()
        self.assertStopped(d)
