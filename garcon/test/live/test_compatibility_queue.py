"""Queues as clients of others see them (chats.md 3.14 to 3.19a, 5.5)."""

from __future__ import annotations

from garcon.test.live.foreign import CONFLICT, GONE, INVALID, STALE
from garcon.test.live.foreign_queue import (
    ENTRIES,
    NOT_FOUND,
    REORDER,
    REVISION,
    SENT,
    QueueCase,
)
from garcon.testing.fleet import eventually
from garcon.testing.foreign_client import command, message

UNKNOWN = "1700000000000000"


class QueueTests(QueueCase):
    """What waits is sent one by one."""

    def test_an_idle_chat_sends_at_once(self) -> None:
        """The answer still shows the entry; the turn is its own, and has no receipt (5.5.1,
        5.5.2, 3.21).
        """
        chat_id = self.chat()
        self.providers[0].model.push("reply")
        heard = len(self.socket.messages)
        body = message(chatId=chat_id, transcriptViewId=self.client.view(chat_id), content="queued")
        reply = self.client.ask("POST", ENTRIES, body)
        self.assertEqual((reply.status, reply.json["commandType"]), (202, "queue-entry-create"))
        self.assertNotIn("turnId", reply.json)
        [entry] = reply.json["control"]["queue"]["entries"]
        self.assertEqual((entry["id"], entry["content"]), (reply.json["entryId"], "queued"))
        self.assertEqual(entry["revision"], 1)
        ended = self.socket.wait_for(
            "the end", lambda one: one["type"] == "agent-run-finished", after=heard
        )
        self.assertNotEqual(ended["clientRequestId"], body["clientRequestId"])
        self.assertEqual(
            self.client.refused(
                "GET", "/chats/turn-receipt", chatId=chat_id, turnId=ended["turnId"]
            ),
            (404, "TURN_RECEIPT_NOT_FOUND", False),
        )
        user = self.client.history(chat_id)["messages"][-2]["message"]
        self.assertEqual(user["metadata"], {"clientMessageId": body["clientMessageId"]})
        queue = self.client.queue(chat_id)
        [sent] = queue["recentlyDispatched"]
        self.assertEqual((sent["entryId"], sent["revision"]), (entry["id"], 1))
        self.assertEqual((queue["entries"], queue["pause"]), ([], None))
        again = self.client.ask("POST", ENTRIES, body)
        self.assertEqual((again.status, again.json["status"]), (202, "duplicate"))
        self.assertEqual(again.json["entryId"], entry["id"])
        self.assertEqual(self.users(chat_id), ["hello", "queued"])

    def test_entries_go_in_their_order_each_as_its_own_turn(self) -> None:
        """Also behind a direct turn that fails, whose failure is told before the next input; every
        change of the control is one version more (5.5.3, 5.5.4; chats.md 4.6, 5.19).
        """
        model = self.providers[1].model
        model.push([{"hold": "go"}, {"stream_error": "x", "message": "broken"}], "r1", "r2")
        turn = self.begin("first", self.providers[1])
        chat_id = turn["chatId"]
        model.await_request(1)
        for text in ("a", "b"):
            self.client.enqueue(chat_id, text)
        self.assertEqual(self.contents(chat_id), ["a", "b"])
        self.assertEqual(self.users(chat_id), ["first"])
        model.release("go")
        self.await_idle(chat_id)
        self.assertEqual(self.users(chat_id), ["first", "a", "b"])
        self.assertEqual([one["last_user"] for one in model.asked()], ["first", "a", "b"])
        order = [
            one["type"] if "messages" not in one else row["message"]["content"]
            for one in self.socket.of(chat_id, "chat-messages", "agent-run-failed")
            for row in one.get("messages", [{}])
        ]
        self.assertLess(order.index("agent-run-failed"), order.index("a"))
        versions = [
            one["control"]["version"]
            for one in self.socket.of(chat_id, "chat-execution-control-updated")
        ]
        self.assertEqual(versions, list(range(1, len(versions) + 1)))
        self.assertEqual(self.client.control(chat_id)["version"], versions[-1])
        ended = self.socket.of(chat_id, "agent-run-finished", "agent-run-failed")
        self.assertEqual(len({one["turnId"] for one in ended}), 3)

    def test_entries_are_edited_deleted_and_moved(self) -> None:
        """Each by what its client saw of it; an order that is the same is no new one (3.16 to
        3.18, 5.5.6).
        """
        turn, chat_id = self.held_with("a", "b", "c")
        found = self.entries(chat_id)
        edit = command(chatId=chat_id, entryId=found["a"]["id"], content="A", expectedRevision=1)
        edited = self.client.ask("PUT", ENTRIES, edit)
        self.assertEqual((edited.status, edited.json["commandType"]), (200, "queue-entry-replace"))
        self.assertEqual(edited.json["control"]["queue"]["entries"][0]["revision"], 2)
        stale = command(chatId=chat_id, entryId=found["a"]["id"], content="B", expectedRevision=1)
        reply = self.client.ask("PUT", ENTRIES, stale)
        self.assertEqual((reply.status, reply.json["errorCode"]), REVISION[:2])
        self.assertEqual(reply.json["control"], self.client.control(chat_id))
        self.assertEqual(self.client.refused("PUT", ENTRIES, stale), REVISION)
        self.assertEqual(
            self.client.do("PUT", ENTRIES, edit)["status"], "duplicate", "the first edit again"
        )
        before = self.client.control(chat_id)
        move = self.move(chat_id, "c", "before", "A")
        moved = self.client.do("PUT", f"{ENTRIES}/move", move)
        self.assertEqual(moved["commandType"], "queue-entry-move")
        self.assertEqual(self.contents(chat_id), ["c", "A", "b"])
        self.assertEqual(moved["control"]["queue"]["reorderRevision"], 1)
        same = self.client.do("PUT", f"{ENTRIES}/move", self.move(chat_id, "c", "before", "A"))
        self.assertEqual(same["control"]["queue"]["reorderRevision"], 1)
        self.assertEqual(same["control"]["version"], before["version"] + 2)
        for change, refusal in (
            ({"expectedReorderRevision": 0}, REORDER),
            ({"expectedSourceRevision": 9}, REVISION),
            ({"expectedTargetRevision": 9}, REVISION),
            ({"targetEntryId": "nobody"}, REORDER),
            ({"entryId": "nobody"}, NOT_FOUND),
            ({"placement": "beside"}, INVALID),
            ({"expectedSourceRevision": 0}, INVALID),
            ({"targetEntryId": self.entries(chat_id)["b"]["id"]}, INVALID),
        ):
            body = self.move(chat_id, "b", "after", "A") | change
            self.assertEqual(self.client.refused("PUT", f"{ENTRIES}/move", body), refusal, change)
        drop = command(chatId=chat_id, entryId=found["b"]["id"])
        dropped = self.client.ask("DELETE", ENTRIES, drop)
        self.assertEqual((dropped.status, dropped.json["status"]), (200, "accepted"))
        self.assertEqual(self.contents(chat_id), ["c", "A"])
        self.assertEqual(self.client.do("DELETE", ENTRIES, drop)["status"], "duplicate")
        gone = command(chatId=chat_id, entryId=found["b"]["id"])
        self.assertEqual(self.client.refused("DELETE", ENTRIES, gone), NOT_FOUND)
        self.providers[0].model.release("go")
        self.await_idle(chat_id)
        self.assertEqual(self.users(chat_id), ["first", "c", "A"])
        late = command(chatId=chat_id, entryId=found["c"]["id"], content="x", expectedRevision=1)
        self.assertEqual(self.client.refused("PUT", ENTRIES, late), SENT)
        self.ended(turn)

    def test_a_target_that_was_sent_leaves_the_head(self) -> None:
        """And the same move again is a duplicate (5.5.7)."""
        self.providers[0].model.push([{"text": "part"}, {"hold": "go"}], [{"hold": "second"}, "x"])
        turn = self.begin("first")
        chat_id = turn["chatId"]
        self.providers[0].model.await_request(1)
        for text in ("a", "b", "c"):
            self.client.enqueue(chat_id, text)
        move = self.move(chat_id, "c", "after", "a")
        self.providers[0].model.release("go")
        self.await_text(chat_id, "a")
        self.assertEqual(self.contents(chat_id), ["b", "c"])
        moved = self.client.do("PUT", f"{ENTRIES}/move", move)
        self.assertEqual(moved["status"], "accepted")
        self.assertEqual(self.contents(chat_id), ["c", "b"])
        self.assertEqual(self.client.do("PUT", f"{ENTRIES}/move", move)["status"], "duplicate")
        self.assertEqual(self.contents(chat_id), ["c", "b"])
        self.providers[0].model.release("second")
        self.await_idle(chat_id)

    def test_an_input_is_queued_once(self) -> None:
        """By its message's name while it waits; another text by that name is a conflict (3.15)."""
        _, chat_id = self.held_with()
        view = self.client.view(chat_id)
        body = message(chatId=chat_id, transcriptViewId=view, content="a")
        first = self.client.do("POST", ENTRIES, body)
        again = self.client.do("POST", ENTRIES, body | command())
        self.assertEqual((again["status"], again["entryId"]), ("duplicate", first["entryId"]))
        self.assertEqual(
            self.client.refused("POST", ENTRIES, body | command() | {"content": "b"}), CONFLICT
        )
        self.assertEqual(self.client.refused("POST", ENTRIES, body | {"content": "b"}), CONFLICT)
        for change, refusal in (
            ({"transcriptViewId": "other"}, STALE),
            ({"content": "\n"}, INVALID),
            ({"chatId": UNKNOWN}, GONE),
        ):
            self.assertEqual(
                self.client.refused("POST", ENTRIES, body | message() | change), refusal
            )
        self.assertEqual(self.contents(chat_id), ["a"])
        self.assertEqual(self.client.refused("GET", "/chats/queue", chatId=UNKNOWN), GONE)

    def test_a_queued_input_can_leave_out_what_was_not_answered(self) -> None:
        """As a run can (3.15, 5.2.4)."""
        turn, chat_id = self.held_with()
        self.client.stop(chat_id)
        self.ended(turn)
        [candidate] = self.client.history(chat_id)["resendCandidates"]
        self.client.enqueue(chat_id, "a", excludedResendOrdinals=[candidate["ordinal"]])
        self.await_idle(chat_id)
        self.assertEqual(self.providers[0].model.told(), [("user", "a")])

    def test_pauses_have_names(self) -> None:
        """There is one only where something waits; the old name does not end a new one; nothing is
        sent and nothing runs meanwhile (3.19a, 5.5.5, 5.1.3, 5.20).
        """
        turn, chat_id = self.held_with()
        idle = self.client.do("POST", "/chats/queue/pause", {"chatId": chat_id})["control"]
        self.assertEqual((idle["queue"]["pause"], idle["version"]), (None, 0))
        self.client.enqueue(chat_id, "a")
        self.client.enqueue(chat_id, "b")
        paused = self.client.do("POST", "/chats/queue/pause", {"chatId": chat_id})["control"]
        pause = paused["queue"]["pause"]
        self.assertEqual(pause["kind"], "manual")
        again = self.client.do("POST", "/chats/queue/pause", {"chatId": chat_id})["control"]
        self.assertEqual(again, paused)
        self.providers[0].model.release("go")
        self.assertEqual(self.ended(turn)[0], "completed")
        self.assertEqual(self.contents(chat_id), ["a", "b"])
        run = message(chatId=chat_id, transcriptViewId=self.client.view(chat_id), command="x")
        refused = self.client.ask("POST", "/chats/run", run)
        self.assertEqual((refused.status, refused.json["errorCode"]), (409, "SESSION_BUSY"))
        self.assertIn("pending control state", refused.json["error"])
        self.assertEqual(refused.json["control"], paused)
        edit = self.entries(chat_id)["a"]["id"]
        body = command(chatId=chat_id, entryId=edit, content="A", expectedRevision=1)
        self.assertEqual(self.client.do("PUT", ENTRIES, body)["control"]["queue"]["pause"], pause)
        wrong = {"chatId": chat_id, "pauseId": "other"}
        reply = self.client.ask("POST", "/chats/queue/resume", wrong)
        self.assertEqual((reply.status, reply.json["errorCode"]), (409, "QUEUE_PAUSE_CHANGED"))
        self.assertIn("control", reply.json)
        self.client.do("POST", "/chats/queue/resume", {"chatId": chat_id, "pauseId": pause["id"]})
        self.await_idle(chat_id)
        self.assertEqual(self.users(chat_id), ["first", "A", "b"])
        none = self.client.do("POST", "/chats/queue/resume", wrong)["control"]
        self.assertIsNone(none["queue"]["pause"])
        before = self.client.control(chat_id)["version"]
        for _ in range(2):
            self.client.do("POST", "/chats/queue/clear", {"chatId": chat_id})
        self.assertEqual(self.client.control(chat_id)["version"], before + 2)
        for path in ("pause", "clear", "resume"):
            body = {"chatId": UNKNOWN, "pauseId": "x"}
            self.assertEqual(self.client.refused("POST", f"/chats/queue/{path}", body), GONE)
        self.assertEqual(
            self.client.refused("POST", "/chats/queue/resume", {"chatId": chat_id}), INVALID
        )

    def test_the_last_entry_takes_its_pause_along(self) -> None:
        """When it is deleted, and all entries when the queue is cleared (3.17, 3.19a)."""
        _, chat_id = self.held_with("a", "b")
        self.client.do("POST", "/chats/queue/pause", {"chatId": chat_id})
        for text, is_paused in (("a", True), ("b", False)):
            body = command(chatId=chat_id, entryId=self.entries(chat_id)[text]["id"])
            control = self.client.do("DELETE", ENTRIES, body)["control"]
            self.assertEqual(control["queue"]["pause"] is not None, is_paused)
        self.client.enqueue(chat_id, "c")
        self.client.do("POST", "/chats/queue/pause", {"chatId": chat_id})
        queue = self.client.do("POST", "/chats/queue/clear", {"chatId": chat_id})["control"][
            "queue"
        ]
        self.assertEqual((queue["entries"], queue["pause"]), ([], None))

    def test_a_queued_turn_that_fails_pauses_what_is_behind_it(self) -> None:
        """It is not put back, its failure names it, and where nothing is behind it nothing is
        paused (5.5.4).
        """
        model = self.providers[2].model
        model.push([{"hold": "go"}, "x"], {"error": 400, "message": "bad"}, "r2")
        turn = self.begin("first", self.providers[2])
        chat_id = turn["chatId"]
        model.await_request(1)
        failing = self.client.enqueue(chat_id, "a")["entryId"]
        self.client.enqueue(chat_id, "b")
        model.release("go")
        pause = eventually("the pause", lambda: self.client.queue(chat_id)["pause"])
        self.assertEqual((pause["kind"], pause["entryId"]), ("queued-turn-failed", failing))
        self.assertEqual(self.contents(chat_id), ["b"])
        self.assertEqual(self.users(chat_id), ["first", "a"])
        self.client.do("POST", "/chats/queue/resume", {"chatId": chat_id, "pauseId": pause["id"]})
        self.await_idle(chat_id)
        model.push({"error": 400})
        self.client.enqueue(chat_id, "alone")
        eventually("both failures", lambda: len(self.socket.of(chat_id, "agent-run-failed")) == 2)
        self.await_idle(chat_id)
        self.assertIsNone(self.client.queue(chat_id)["pause"])
