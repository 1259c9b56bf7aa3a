"""What keeps a run from being admitted at the last moment (chats.md 2.3, 3.5)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.controller.chats.lanes import WAITING
from garcon.store.interfaces import IStore
from garcon.store.records import Row
from garcon.test.controller.chats.cast import CHAT, OTHER, ChatsTestCase
from garcon.test.controller.chats.test_run import BUSY, NO_QUEUE
from garcon.testing.memory_store import MemoryStore


class MeanwhileStore(MemoryStore):
    """Something happens whenever it is asked for a message."""

    meanwhile: Callable[[], object] | None = None

    def find_message(self, view_id: str, client_message_id: str) -> Deferred[Row | None]:
        if self.meanwhile is not None:
            self.meanwhile()
        return super().find_message(view_id, client_message_id)


class LastMomentTests(ChatsTestCase):
    """What goes wrong between a run's checks and its admission."""

    def make_store(self) -> IStore:
        self.between = MeanwhileStore()
        return self.between

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.before = self.kinds()

    def test_a_bug_before_scheduling_leaves_no_command_behind(self) -> None:
        """It is a 500 that can be tried again, and then it is a new command."""
        self.between.meanwhile = lambda: 1 // 0
        body = self.run_body(self.view)
        answer = self.asked(operations.RUN_CHAT, body)
        self.assertEqual(answer.failure, (500, "INTERNAL_ERROR", True))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual((self.phase(), self.kinds()), (None, self.before))
        self.between.meanwhile = None
        self.assertEqual(self.asked(operations.RUN_CHAT, body).body["status"], "accepted")

    def test_an_executor_that_goes_takes_no_turn_with_it(self) -> None:
        """The chat is not left with a turn that nobody runs."""
        self.between.meanwhile = self.executors.runtimes.clear
        answer = self.run_chat(self.view)
        self.assertEqual(answer.failure, (404, "EXECUTOR_NOT_FOUND", False))
        self.assertEqual((self.phase(), self.kinds()), (None, self.before))

    def test_too_many_waiting_commands_are_busy_too(self) -> None:
        """With the control, like every busy run; 64 may wait."""
        self.memory.held = True
        waiting = [
            self.ask(operations.RUN_CHAT, self.run_body(self.view)) for _ in range(1 + WAITING)
        ]
        answer = self.run_chat(self.view)
        self.assertEqual(answer.failure, BUSY)
        self.assertEqual(answer.body["control"]["queue"], NO_QUEUE)
        self.memory.release()
        for d in waiting:
            self.successResultOf(d)

    def test_an_answers_member_is_refused_in_every_command(self) -> None:
        """`parentChat`, whatever its value (decisions.md 27)."""
        body = self.run_body(self.view, parentChat=None)
        control = {"serverInstanceId": "i", "chatId": CHAT, "runId": "r"}
        occurrence = {"permissionOccurrenceId": "o"}
        decision = {**body, **occurrence, "allow": True, "alwaysAllow": False}
        decision["control"] = control | occurrence
        for operation, given in (
            (operations.START_CHAT, self.start_body(chatId=OTHER, parentChat={})),
            (operations.RUN_CHAT, body),
            (operations.STOP_CHAT, body),
            (operations.PERMISSION_DECISION, decision),
        ):
            answer = self.asked(operation, given)
            self.assertEqual(answer.failure, (400, "VALIDATION_FAILED", False), operation.route)
        self.assertEqual((self.phase(), self.kinds()), (None, self.before))
