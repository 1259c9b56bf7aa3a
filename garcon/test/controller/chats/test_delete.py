"""Deleting a chat (chats.md 3.2, 5.6.6; server.md A.11.9)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail

from garcon.contract import operations
from garcon.contract.events import ProcessingUpdated, RunFinished, SessionDeleted, SessionStopped
from garcon.errors import GarconError
from garcon.store.interfaces import NotStored
from garcon.store.records import RemoveChat
from garcon.test.controller.chats.cast import CHAT, OTHER, ChatsTestCase, Said

BUSY = (409, "SESSION_BUSY", True)
GONE = (404, "SESSION_NOT_FOUND", False)


class DeleteCase(ChatsTestCase):
    """Two chats, the first of which is idle."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.started(chatId=OTHER)
        self.told.clear()

    def delete(self, **more: Any) -> Deferred[Said]:
        """Delete the first chat."""
        return self.ask(operations.DELETE_CHAT, {"chatId": CHAT} | more)

    def deleted(self) -> Said:
        """Delete the first chat, which is done at once."""
        answer: Said = self.successResultOf(self.delete())
        self.assertEqual((answer.status, answer.body), (200, {"success": True}))
        return answer

    def assert_gone(self) -> None:
        """Assert that the first chat is nowhere, and the other where it was."""
        self.assertEqual([entry["id"] for entry in self.listed()], [OTHER])
        self.assertEqual(self.messages().failure, GONE)
        self.assertEqual(self.snapshot().failure, GONE)
        [kept] = self.successResultOf(self.store.load())
        self.assertEqual(kept.record.chat_id, OTHER)


class IdleTests(DeleteCase):
    """A chat in which nothing runs."""

    def test_nothing_is_left_of_it(self) -> None:
        """Neither in memory nor in the store, and not after a restart; one event says so."""
        self.deleted()
        self.assertEqual(self.told, [SessionDeleted(chat_id=CHAT)])
        self.assert_gone()
        self.restart()
        self.assert_gone()

    def test_a_second_deletion_is_404(self) -> None:
        """It is not idempotent."""
        self.deleted()
        self.assertEqual(self.successResultOf(self.delete()).failure, GONE)

    def test_the_id_comes_from_the_body_or_else_the_query(self) -> None:
        """The body is preferred; without either, or with no chat id, it is malformed."""
        for body, query in (
            ({}, {}),
            ({"chatId": ""}, {}),
            ({"chatId": "17"}, {}),
            ({"chatId": "17"}, {"chatId": CHAT}),
            ({"chatId": 17}, {"chatId": CHAT}),
        ):
            answer = self.asked(operations.DELETE_CHAT, body, query)
            self.assertEqual(answer.failure, (400, "VALIDATION_FAILED", False), (body, query))
        unknown = self.asked(operations.DELETE_CHAT, {"chatId": CHAT[:-1] + "9"}, {"chatId": CHAT})
        self.assertEqual(unknown.failure, GONE)
        self.assertEqual(self.asked(operations.DELETE_CHAT, None, {"chatId": CHAT}).status, 200)

    def test_its_settled_receipt_stays_as_it_was(self) -> None:
        """A public receipt never changes."""
        turn = self.run_chat(self.view).body["turnId"]
        self.local.last.finish()
        self.deleted()
        self.assertEqual(self.receipt(turn).body["state"], "completed")

    def test_its_start_again_is_a_duplicate_without_a_chat(self) -> None:
        """And makes no chat."""
        body = self.start_body(chatId="1767000000000003")
        first = self.asked(operations.START_CHAT, body)
        self.local.last.finish()
        self.successResultOf(self.delete(chatId=body["chatId"]))
        again = self.asked(operations.START_CHAT, body)
        self.assertEqual(
            (again.status, again.body["status"], again.body["chat"], again.body["turnId"]),
            (202, "duplicate", None, first.body["turnId"]),
        )
        self.assertEqual(len(self.listed()), 2)

    def test_a_store_that_refuses_keeps_the_chat(self) -> None:
        """Whole, and fit for another turn."""
        self.memory.refusals = 1
        answer = self.successResultOf(self.delete())
        self.assertEqual(answer.failure, (500, "INTERNAL_ERROR", True))
        self.assertEqual(self.told, [])
        self.assertEqual(len(self.listed()), 2)
        self.assertEqual(self.run_chat(self.view).status, 202)
        self.local.last.finish()
        name = {"chatId": CHAT, "title": "a name"}
        self.assertEqual(self.asked(operations.SESSION_NAME, name).status, 200)
        self.deleted()

    def test_what_is_written_meanwhile_does_not_bring_it_back(self) -> None:
        """Marks and moves that come while its removal is on its way are refused or left out."""
        self.memory.held = True
        d = self.delete()
        read = self.ask(operations.MARK_READ, {"entries": [{"chatId": CHAT}]})
        pin = self.ask(operations.PIN, {"chatId": CHAT, "pinned": True})
        name = self.ask(operations.SESSION_NAME, {"chatId": CHAT, "title": "a name"})
        run = self.ask(operations.RUN_CHAT, self.run_body(self.view))
        self.memory.release()
        self.assertEqual(self.successResultOf(d).status, 200)
        self.assertEqual(self.successResultOf(read).body["results"], [])
        for refused in (pin, name, run):
            self.assertEqual(self.successResultOf(refused).failure, GONE)
        self.assert_gone()
        self.restart()
        self.assert_gone()

    def test_a_chat_may_be_started_under_its_id_again(self) -> None:
        """It is a new one, of which nothing is old."""
        self.asked(operations.SESSION_NAME, {"chatId": CHAT, "title": "old"})
        self.deleted()
        view = self.started(command="new")
        self.assertNotEqual(view, self.view)
        self.assertEqual(self.listed()[0]["title"], "new")
        self.assertEqual([text for _, _, text in self.kinds()], ["new", "hi"])


class RunningTests(DeleteCase):
    """A chat whose turn runs."""

    def setUp(self) -> None:
        super().setUp()
        self.turn = self.run_chat(self.view, command="long").body["turnId"]
        self.told.clear()

    def test_the_turn_is_aborted_and_its_receipt_says_why(self) -> None:
        """Aborted once; the receipt is interrupted, chat-deleted, and stays readable."""
        self.local.last.say("half")
        self.deleted()
        self.assertEqual(self.local.aborted, [self.turn])
        receipt = self.receipt(self.turn).body
        self.assertEqual((receipt["state"], receipt["reason"]), ("interrupted", "chat-deleted"))
        self.assertEqual(receipt["output"]["assistantMessages"], ["half"])
        self.assert_gone()
        self.restart()
        self.assert_gone()

    def test_events(self) -> None:
        """Stopping, stopped with its intent, idle, the run's end, deleted; then nothing (5.19)."""
        self.deleted()
        self.local.last.say("late")
        told = [event for event in self.told if not hasattr(event, "messages")]
        self.assertEqual(
            told,
            [
                ProcessingUpdated(chat_id=CHAT, phase="stopping"),
                SessionStopped(chat_id=CHAT, outcome="interrupt-requested", intent="chat-deletion"),
                ProcessingUpdated(chat_id=CHAT, phase=None),
                RunFinished(chat_id=CHAT, turn_id=self.turn, client_request_id="request-3"),
                SessionDeleted(chat_id=CHAT),
            ],
        )

    def test_a_turn_that_cannot_be_stopped_keeps_its_chat(self) -> None:
        """Busy, and the turn goes on; its own end is no interruption."""
        self.local.abort_error = GarconError("INTERNAL_ERROR", "no", status=500)
        self.assertEqual(self.successResultOf(self.delete()).failure, BUSY)
        self.assertEqual(self.phase(), "running")
        stopped = [event for event in self.told if isinstance(event, SessionStopped)]
        self.assertEqual(
            stopped, [SessionStopped(chat_id=CHAT, outcome="failed", intent="chat-deletion")]
        )
        self.local.last.say("on")
        self.local.last.finish()
        self.assertEqual(self.receipt(self.turn).body["state"], "completed")
        self.assertEqual(self.kinds()[-1][2], "on")
        self.local.abort_error = None
        self.assertEqual(self.run_chat(self.view).status, 202)

    def test_a_later_stop_is_the_users(self) -> None:
        """A deletion that failed is not what ended the turn."""
        self.local.abort_error = GarconError("INTERNAL_ERROR", "no", status=500)
        self.successResultOf(self.delete())
        self.local.abort_error = None
        self.successResultOf(self.stop())
        self.assertEqual(self.receipt(self.turn).body["reason"], "user-stop")

    def test_a_turn_whose_end_is_being_kept(self) -> None:
        """It has ended by itself: nothing is aborted, and the receipt says completed."""
        self.memory.held = True
        self.local.last.finish()
        d = self.delete()
        self.assertNoResult(d)
        self.memory.release()
        self.assertEqual(self.successResultOf(d).status, 200)
        self.assertEqual(self.local.aborted, [])
        self.assertEqual(self.receipt(self.turn).body["state"], "completed")
        self.assert_gone()

    def test_what_runs_behind_a_link_that_is_down_keeps_its_chat(self) -> None:
        """Its stop waits for the link; the chat can be deleted once it was delivered."""
        chat = "1767000000000003"
        self.started(chatId=chat, executorId="11111111-1111-4111-8111-111111111111")
        body = self.run_body(self.messages(chat).body["transcriptViewId"], chatId=chat)
        turn = self.asked(operations.RUN_CHAT, body).body["turnId"]
        worker = next(iter(set(self.executors.runtimes) - {"local"}))
        self.worker.say_nothing = True
        self.executors.states[worker] = "reconnecting"
        self.chats.availability_changed(worker)
        self.assertEqual(self.successResultOf(self.delete(chatId=chat)).failure, BUSY)
        self.assertEqual(self.phase(chat), "stopping")
        self.executors.states[worker] = "ready"
        self.chats.availability_changed(worker)
        self.worker.last.interrupted()
        self.worker.unanswered.pop().callback(True)
        self.assertEqual(self.receipt(turn, chat).body["reason"], "user-stop")
        self.assertEqual(self.successResultOf(self.delete(chatId=chat)).status, 200)

    def test_a_decision_on_its_way_is_lost_with_the_chat(self) -> None:
        """Its row is not written, and nothing is retried for it."""
        self.local.last.ask("occurrence")
        delivery: Deferred[Any] = Deferred()
        self.local.deliveries.append(delivery)
        control = {
            "serverInstanceId": "instance-1",
            "chatId": CHAT,
            "runId": self.turn,
            "permissionOccurrenceId": "occurrence",
        }
        decision = {
            "clientRequestId": self.request_id(),
            "chatId": CHAT,
            "permissionOccurrenceId": "occurrence",
            "allow": True,
            "alwaysAllow": False,
            "control": control,
        }
        d = self.ask(operations.PERMISSION_DECISION, decision)
        self.deleted()
        delivery.callback("confirmed")
        self.assertEqual(self.successResultOf(d).status, 200)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assert_gone()


class QueueTests(DeleteCase):
    """A chat in which something waits."""

    def test_nothing_that_waits_is_sent(self) -> None:
        """The turn's end does not drain the queue of a chat that is being deleted."""
        self.run_chat(self.view, command="long")
        self.queue("next")
        runs = len(self.local.runs)
        self.deleted()
        self.assertEqual(len(self.local.runs), runs)
        self.assert_gone()

    def test_draining_goes_on_where_the_deletion_failed(self) -> None:
        """The chat is kept, and so is what waits in it."""
        self.run_chat(self.view, command="long")
        self.queue("next")
        write = self.memory.write
        self.patch(self.memory, "write", lambda changes: self.but_not_removals(write, changes))
        self.assertEqual(self.successResultOf(self.delete()).status, 500)
        self.assertEqual(self.local.last.launch.prompt, "long\n\nnext")
        self.assertEqual(self.phase(), "running")

    def but_not_removals(self, write: Any, changes: Any) -> Deferred[None]:
        """Write what does not remove a chat."""
        if isinstance(changes[0], RemoveChat):
            return fail(NotStored("it was told to refuse"))
        done: Deferred[None] = write(changes)
        return done

    def queue(self, content: str) -> None:
        """Queue a message."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": f"m-{self.requests}",
            "chatId": CHAT,
            "transcriptViewId": self.view,
            "content": content,
        }
        self.assertEqual(self.asked(operations.CREATE_ENTRY, body).status, 202)
