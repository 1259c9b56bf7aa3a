"""The queue's routes (chats.md 2.3, 3.14 to 3.19a)."""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.contract.events import ControlUpdated
from garcon.contract.limits import LEDGER_TERMINAL
from garcon.test.controller.chats.cast import CHAT, INSTANCE, OTHER
from garcon.test.controller.chats.queue_cast import QueueTestCase


class BusyQueueCase(QueueTestCase):
    """A turn runs, so what is queued waits."""

    def setUp(self) -> None:
        super().setUp()
        self.run_chat(self.view, command="long")
        self.told.clear()


class ReadTests(QueueTestCase):
    """GET (3.14)."""

    def test_initial_control(self) -> None:
        """Of a chat that nobody queued anything for."""
        answer = self.asked(operations.READ_QUEUE, query={"chatId": CHAT})
        self.assertEqual(set(answer.body), {"success", "chatId", "control"})
        self.assertEqual((answer.status, answer.body["chatId"]), (200, CHAT))
        control = answer.body["control"]
        self.assertEqual((control["serverInstanceId"], control["version"]), (INSTANCE, 0))

    def test_no_chat(self) -> None:
        """400 without an id, 404 for any text that names none."""
        self.assertEqual(
            self.asked(operations.READ_QUEUE).failure, (400, "VALIDATION_FAILED", False)
        )
        answer = self.asked(operations.READ_QUEUE, query={"chatId": "nobody"})
        self.assertEqual(answer.failure, (404, "SESSION_NOT_FOUND", False))


class CreateTests(BusyQueueCase):
    """POST entries (3.15)."""

    def test_appends_at_the_tail(self) -> None:
        """202, with the entry's id and the control of now."""
        first = self.create("one")
        self.assertEqual((first.status, first.body["commandType"]), (202, "queue-entry-create"))
        self.assertEqual(first.body["status"], "accepted")
        self.assertNotIn("turnId", first.body)
        second = self.create("two")
        entries = second.body["control"]["queue"]["entries"]
        self.assertEqual([entry["content"] for entry in entries], ["one", "two"])
        self.assertEqual(entries[1]["id"], second.body["entryId"])
        self.assertEqual(self.control(), second.body["control"])

    def test_content_is_kept_as_it_is(self) -> None:
        """Untrimmed; a blank one is refused."""
        self.queued("  two \n")
        self.assertEqual(self.waiting(), ["  two \n"])
        self.assertEqual(self.create(" \n").failure, (400, "VALIDATION_FAILED", False))

    def test_every_change_is_told(self) -> None:
        """With the control it has made."""
        self.queued("one")
        (event,) = [event for event in self.told if isinstance(event, ControlUpdated)]
        self.assertEqual((event.chat_id, event.control.version), (CHAT, 1))
        self.assertEqual(event.control.queue.entries[0].content, "one")

    def test_another_view(self) -> None:
        """409, without an effect."""
        answer = self.create(transcriptViewId="other")
        self.assertEqual(answer.failure, (409, "STALE_TRANSCRIPT_VIEW", False))
        self.assertNotIn("control", answer.body)
        self.assertEqual(self.control()["version"], 0)

    def test_an_unknown_chat(self) -> None:
        """404."""
        answer = self.create(chatId=OTHER)
        self.assertEqual(answer.failure, (404, "SESSION_NOT_FOUND", False))

    def test_the_same_command_again(self) -> None:
        """A duplicate: the same entry, the same time, the control of now."""
        body = {"clientRequestId": "r", "clientMessageId": "q", "content": "one"}
        first = self.create(**body)
        self.time += 10
        self.queued("two")
        again = self.create(**body)
        self.assertEqual((again.status, again.body["status"]), (202, "duplicate"))
        for member in ("entryId", "acceptedAt", "clientRequestId"):
            self.assertEqual(again.body[member], first.body[member])
        self.assertEqual(self.waiting(), ["one", "two"])
        self.assertEqual(again.body["control"], self.control())

    def test_the_same_command_with_other_content(self) -> None:
        """Each of the fields that are compared."""
        body: dict[str, Any] = {"clientRequestId": "r", "clientMessageId": "q", "content": "one"}
        self.create(**body)
        for other in (
            {"content": "two"},
            {"clientMessageId": "other"},
            {"excludedResendOrdinals": [1]},
        ):
            answer = self.create(**(body | other))
            self.assertEqual(answer.failure, (409, "IDEMPOTENCY_CONFLICT", False))
        answer = self.delete("e", clientRequestId="r")
        self.assertEqual(answer.failure, (409, "IDEMPOTENCY_CONFLICT", False))

    def test_the_same_message_while_it_is_queued(self) -> None:
        """Same content: the same entry, as a duplicate; other content: a conflict."""
        first = self.create("one", clientMessageId="q")
        again = self.create("one", clientMessageId="q", clientRequestId="other")
        self.assertEqual((again.status, again.body["status"]), (202, "duplicate"))
        self.assertEqual(again.body["entryId"], first.body["entryId"])
        third = self.create("one", clientMessageId="q", clientRequestId="other")
        self.assertEqual(third.body, again.body)
        other = self.create("two", clientMessageId="q")
        self.assertEqual(other.failure, (409, "IDEMPOTENCY_CONFLICT", False))
        self.assertEqual((self.waiting(), self.control()["version"]), (["one"], 1))

    def test_the_id_of_a_message_in_the_transcript(self) -> None:
        """With other content it would never go out."""
        answer = self.create("other", clientMessageId="m-start")
        self.assertEqual(answer.failure, (409, "IDEMPOTENCY_CONFLICT", False))

    def test_a_full_queue(self) -> None:
        """The refusal shows the queue, and can be tried again as the same command."""
        ids = [self.queued(f"{n}") for n in range(100)]
        body = {"clientRequestId": "r", "clientMessageId": "q", "content": "more"}
        answer = self.create(**body)
        self.assertEqual(answer.failure, (409, "QUEUE_FULL", True))
        self.assertEqual(len(answer.body["control"]["queue"]["entries"]), 100)
        self.delete(ids[0])
        self.assertEqual(self.create(**body).body["status"], "accepted")

    def test_known_for_longer_than_the_ledger_remembers(self) -> None:
        """A thousand commands of another chat have ended since (2.3)."""
        body = {"clientRequestId": "r", "clientMessageId": "q", "content": "one"}
        first = self.create(**body)
        self.start(chatId=OTHER)
        for _ in range(LEDGER_TERMINAL + 1):
            self.successResultOf(self.stop(chatId=OTHER))
        again = self.create(**body)
        self.assertEqual((again.status, again.body["status"]), (202, "duplicate"))
        self.assertEqual(again.body["entryId"], first.body["entryId"])
        other = self.create(**(body | {"content": "two"}))
        self.assertEqual(other.failure, (409, "IDEMPOTENCY_CONFLICT", False))

    def test_while_the_controller_stops(self) -> None:
        """503."""
        self.successResultOf(self.chats.shut_down())
        self.assertEqual(self.create().failure, (503, "SERVER_SHUTTING_DOWN", True))


class ChangeTests(BusyQueueCase):
    """PUT and DELETE entries, and moves (3.16 to 3.18)."""

    def setUp(self) -> None:
        super().setUp()
        self.one, self.two = self.queued("one"), self.queued("two")

    def test_replace(self) -> None:
        """200; its revision and time have changed."""
        self.time += 5
        answer = self.replace(self.one, "other")
        self.assertEqual((answer.status, answer.body["commandType"]), (200, "queue-entry-replace"))
        self.assertEqual(answer.body["entryId"], self.one)
        entry = answer.body["control"]["queue"]["entries"][0]
        self.assertEqual((entry["content"], entry["revision"]), ("other", 2))
        self.assertGreater(entry["updatedAt"], entry["createdAt"])

    def test_rejections_show_the_queue(self) -> None:
        """And repeat themselves with the queue of then."""
        answer = self.replace(self.one, "x", revision=2, clientRequestId="r")
        self.assertEqual(answer.failure, (409, "QUEUE_ENTRY_REVISION_CONFLICT", False))
        self.assertEqual(answer.body["control"], self.control())
        self.replace(self.one, "other")
        again = self.replace(self.one, "x", revision=2, clientRequestId="r")
        self.assertEqual(again.failure, (409, "QUEUE_ENTRY_REVISION_CONFLICT", False))
        self.assertEqual(again.body["control"], self.control())
        self.assertEqual(self.waiting(), ["other", "two"])
        unknown = self.replace("nobody", "x")
        self.assertEqual(unknown.failure, (404, "QUEUE_ENTRY_NOT_FOUND", False))
        self.assertEqual(unknown.body["control"], self.control())

    def test_delete(self) -> None:
        """200, once."""
        answer = self.delete(self.one, clientRequestId="r")
        self.assertEqual((answer.status, answer.body["commandType"]), (200, "queue-entry-delete"))
        self.assertEqual(self.waiting(), ["two"])
        again = self.delete(self.one, clientRequestId="r")
        self.assertEqual((again.status, again.body["status"]), (200, "duplicate"))
        self.assertEqual(self.delete(self.one).failure, (404, "QUEUE_ENTRY_NOT_FOUND", False))

    def test_a_sent_entry(self) -> None:
        """409, also for edits and moves."""
        self.local.last.finish()
        already = (409, "QUEUE_ENTRY_ALREADY_SENT", False)
        self.assertEqual(self.delete(self.one).failure, already)
        self.assertEqual(self.replace(self.one, "x").failure, already)
        self.assertEqual(self.move(self.one, "after", self.two).failure, already)

    def test_move(self) -> None:
        """200; the order's revision grows, the entries' do not."""
        answer = self.move(self.two, "before", self.one, clientRequestId="r")
        self.assertEqual((answer.status, answer.body["commandType"]), (200, "queue-entry-move"))
        queue = answer.body["control"]["queue"]
        self.assertEqual([entry["id"] for entry in queue["entries"]], [self.two, self.one])
        self.assertEqual(queue["reorderRevision"], 1)
        self.assertEqual([entry["revision"] for entry in queue["entries"]], [1, 1])
        again = self.move(self.two, "before", self.one, clientRequestId="r")
        self.assertEqual(again.body["status"], "duplicate")
        stale = self.move(self.one, "before", self.two)
        self.assertEqual(stale.failure, (409, "QUEUE_ENTRY_REORDER_CONFLICT", False))

    def test_a_move_to_a_message_that_was_sent_meanwhile(self) -> None:
        """It is first of what remains, and the same move again is a duplicate (5.5.7)."""
        three = self.queued("three")
        self.local.last.finish()
        self.assertEqual(self.waiting(), ["two", "three"])
        answer = self.move(three, "after", self.one, clientRequestId="r")
        self.assertEqual((answer.status, self.waiting()), (200, ["three", "two"]))
        again = self.move(three, "after", self.one, clientRequestId="r")
        self.assertEqual((again.status, again.body["status"]), (200, "duplicate"))
        self.assertEqual(self.control()["queue"]["reorderRevision"], 1)

    def test_fields(self) -> None:
        """400 for what is malformed."""
        refused = (400, "VALIDATION_FAILED", False)
        for answer in (
            self.replace("", "x"),
            self.replace("e" * 129, "x"),
            self.replace(self.one, " "),
            self.replace(self.one, "x", revision=0),
            self.move(self.one, "beside", self.two),
            self.move(self.one, "before", self.one),
            self.move(self.one, "before", self.two, expectedReorderRevision=-1),
            self.move(self.one, "before", self.two, expectedSourceRevision=0),
            self.move(self.one, "before", self.two, expectedTargetRevision=0),
            self.delete(self.one, chatId="1"),
            self.delete(self.one, clientRequestId=" "),
        ):
            self.assertEqual(answer.failure, refused)
            self.assertNotIn("control", answer.body)
        self.assertEqual(self.replace("e" * 128, "x").code, "QUEUE_ENTRY_NOT_FOUND")
        self.assertEqual(self.control()["version"], 2)


class PauseTests(BusyQueueCase):
    """POST pause, resume and clear (3.19a)."""

    def test_nothing_to_pause(self) -> None:
        """No change, no version, nothing told."""
        answer = self.asked(operations.PAUSE_QUEUE, {"chatId": CHAT})
        self.assertEqual((answer.status, set(answer.body)), (200, {"success", "chatId", "control"}))
        self.assertEqual(answer.body["control"]["version"], 0)
        self.assertEqual(self.told, [])

    def test_pause_resume(self) -> None:
        """Each pause has its own identity; an old one resumes nothing (5.5.5)."""
        self.queued("one")
        first = self.pause()
        self.assertEqual(self.pause(), first)
        self.assertEqual(self.pause_kind(), "manual")
        self.assertEqual(self.resume(first).status, 200)
        second = self.pause()
        self.assertNotEqual(second, first)
        stale = self.resume(first)
        self.assertEqual(stale.failure, (409, "QUEUE_PAUSE_CHANGED", False))
        self.assertEqual(stale.body["control"], self.control())
        self.assertEqual(self.pause_kind(), "manual")

    def test_resuming_what_is_not_paused(self) -> None:
        """No change."""
        before = self.control()
        self.assertEqual(self.resume("anything").body["control"], before)

    def test_resume_needs_an_id(self) -> None:
        """400."""
        for body in ({"chatId": CHAT}, {"chatId": CHAT, "pauseId": " "}):
            answer = self.asked(operations.RESUME_QUEUE, body)
            self.assertEqual(answer.failure, (400, "VALIDATION_FAILED", False))

    def test_clear(self) -> None:
        """Entries and pause are gone, and the version has grown, even of an empty queue."""
        self.queued("one")
        self.pause()
        control = self.clear().body["control"]
        self.assertEqual((control["queue"]["entries"], control["queue"]["pause"]), ([], None))
        self.assertEqual(self.clear().body["control"]["version"], control["version"] + 1)

    def test_neither_aborts_the_turn(self) -> None:
        """The running turn does not notice."""
        self.queued("one")
        self.resume(self.pause())
        self.clear()
        self.assertEqual((self.local.aborted, self.phase()), ([], "running"))

    def test_unknown_chats(self) -> None:
        """404, each."""
        for operation in (operations.PAUSE_QUEUE, operations.CLEAR_QUEUE, operations.RESUME_QUEUE):
            answer = self.asked(operation, {"chatId": OTHER, "pauseId": "p"})
            self.assertEqual(answer.failure, (404, "SESSION_NOT_FOUND", False))


class AdmissionTests(QueueTestCase):
    """Direct runs stand back (5.1.3, 5.20)."""

    def assertHeldBack(self) -> None:
        before = self.kinds()
        self.told.clear()
        answer = self.run_chat(self.view)
        self.assertEqual(answer.failure, (409, "SESSION_BUSY", True))
        self.assertIn("pending control state", answer.body["error"])
        self.assertEqual(answer.body["control"], self.control())
        self.assertEqual((self.kinds(), self.told), (before, []))

    def test_while_entries_wait(self) -> None:
        """Also on an idle chat whose executor is away; nothing of the run is ever seen."""
        self.executors.states["local"] = "offline"
        self.queued("one")
        self.executors.states["local"] = "ready"
        self.assertHeldBack()

    def test_while_paused(self) -> None:
        """Until the queue is cleared."""
        self.run_chat(self.view)
        self.queued("one")
        self.pause()
        self.local.last.finish()
        self.assertHeldBack()
        self.clear()
        self.assertEqual(self.run_chat(self.view).status, 202)

    def test_a_running_turn_is_another_matter(self) -> None:
        """Its text does not speak of a queue."""
        self.run_chat(self.view)
        answer = self.run_chat(self.view)
        self.assertEqual(answer.failure, (409, "SESSION_BUSY", True))
        self.assertNotIn("pending control state", answer.body["error"])


class RestartTests(QueueTestCase):
    """Queues live in the process (5.5.8)."""

    def test_a_restart_forgets_them(self) -> None:
        """The initial control under the new instance; queued content never enters the
        transcript.
        """
        self.run_chat(self.view)
        self.queued("one")
        self.pause()
        self.restart()
        control = self.control()
        self.assertEqual(
            (control["serverInstanceId"], control["version"], control["updatedAt"]),
            ("instance-2", 0, None),
        )
        self.assertEqual(control["queue"]["entries"], [])
        self.assertNotIn("one", [text for _, _, text in self.kinds()])
