"""Lists, pages, snapshots, receipts, names (chats.md 3.1, 3.21 to 3.23, 3.37, 4.1, 4.9, 4.10)."""

from __future__ import annotations

import os
from typing import Any

import msgspec
from msgspec import structs
from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.contract.chats import History
from garcon.contract.limits import TITLE_BYTES
from garcon.contract.messages import ErrorMessage
from garcon.contract.runs import RowProduced
from garcon.errors import GarconError
from garcon.store.interfaces import IStore
from garcon.store.records import PutChat, Row
from garcon.test.controller.chats.cast import CHAT, INSTANCE, OTHER, WORKER, ChatsTestCase, Said
from garcon.testing.fake_runtime import AT
from garcon.testing.foreign_rules import page_relations
from garcon.testing.memory_store import MemoryStore

FENCED = {"kind": "degraded", "errorCode": "LEDGER_FENCED", "retryable": False}


class ListTests(ChatsTestCase):
    """The chat list."""

    def test_an_empty_list(self) -> None:
        """Counts, and remembers no selection."""
        body = self.asked(operations.LIST_CHATS).body
        self.assertEqual(body, {"sessions": [], "total": 0, "lastSelectedChatId": None})

    def test_groups_have_their_order(self) -> None:
        """Pinned, orphans by age, normal, archived; stored positions inside the others."""
        ids = [f"176700000000000{n}" for n in range(8)]
        for n, chat_id in enumerate(ids):
            self.clock.advance(0 if n == 5 else 1)
            self.started(chatId=chat_id)
        groups: list[Any] = ["archived", "normal", "normal", "pinned", "orphan", "orphan", "pinned"]
        stored = {one.record.chat_id: one.record for one in self.successResultOf(self.store.load())}
        for chat_id, group in zip(ids, groups, strict=False):
            record = structs.replace(stored[chat_id], order_group=group)
            self.successResultOf(self.store.write([PutChat(record)]))
        self.restart()
        expected = [ids[n] for n in (6, 3, 4, 5, 7, 2, 1, 0)]
        self.assertEqual([chat["id"] for chat in self.listed()], expected)

    def test_a_local_project_that_is_gone_hides_its_chat(self) -> None:
        """For at most a minute it may still be listed; a worker's path is not judged here."""
        os.makedirs(f"{self.base}/q")
        self.started(projectPath=f"{self.base}/q")
        self.started(chatId=OTHER, projectPath=f"{self.base}/q", executorId=WORKER)
        self.assertEqual(len(self.listed()), 2)
        os.rmdir(f"{self.base}/q")
        self.clock.advance(61)
        body = self.asked(operations.LIST_CHATS).body
        self.assertEqual(([one["id"] for one in body["sessions"]], body["total"]), ([OTHER], 1))
        self.assertEqual(self.snapshot().status, 200)

    def test_previews_follow_the_conversation(self) -> None:
        """First and last text; rows without text and errors move nothing they should not."""
        self.started(command="first line\nmore")
        [entry] = self.listed()
        self.assertEqual(entry["preview"], {"lastMessage": "hi", "firstMessage": "first line"})
        self.assertEqual(entry["activity"]["lastActivityAt"], AT)
        self.run_chat(self.messages().body["transcriptViewId"], command="again\nand")
        error = ErrorMessage(timestamp="2030-01-01T00:00:00.000Z", content="oh")
        self.local.last.emit(RowProduced(message=error))
        [entry] = self.listed()
        self.assertEqual(entry["preview"]["lastMessage"], "again")
        self.assertNotEqual(entry["activity"]["lastActivityAt"], error.timestamp)
        self.restart()
        self.assertEqual(self.listed()[0]["preview"], entry["preview"])
        self.assertEqual(self.listed()[0]["activity"], entry["activity"])

    def test_an_input_without_text_keeps_the_preview(self) -> None:
        """It moves the time only; so does a blank reply."""
        view = self.started()
        self.run_chat(view, command="", images=[{"data": "data:image/png;base64,AAAA"}])
        self.local.last.say("  ")
        [entry] = self.listed()
        self.assertEqual(entry["preview"]["lastMessage"], "hi")
        self.restart()
        self.assertEqual(self.listed()[0]["preview"], entry["preview"])

    def test_reading_changes_nothing(self) -> None:
        """Neither markers nor titles, tags or modes."""
        self.started(tags=["a"])
        before = self.listed()
        self.snapshot()
        self.messages()
        self.assertEqual(self.listed(), before)
        self.assertTrue(before[0]["isUnread"])


class PageTests(ChatsTestCase):
    """`GET /chats/messages`."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()

    def refused(self, **query: Any) -> None:
        self.assertEqual(self.messages(**query).failure, (400, "VALIDATION_FAILED", False), query)

    def test_the_newest_page(self) -> None:
        """Complete, with its bounds."""
        body = self.messages().body
        self.assertEqual(body["historyState"], {"kind": "complete"})
        self.assertEqual(
            (body["limit"], body["lastOrdinal"], body["pageNewestOrdinal"]), (20, 4, 4)
        )
        self.assertEqual((body["pageOldestOrdinal"], body["hasMore"]), (1, False))
        msgspec.convert(body, History)

    def test_the_queries_rules(self) -> None:
        """400 for what breaks them; a limit beyond 200 is clamped."""
        for query in (
            {"limit": 0},
            {"limit": "x"},
            {"beforeOrdinal": 2},
            {"beforeOrdinal": 0, "transcriptViewId": self.view},
            {"purpose": "other"},
            {"purpose": "activation", "beforeOrdinal": 2, "transcriptViewId": self.view},
        ):
            self.refused(**query)
        self.assertEqual(self.messages(chat_id=" ").status, 400)
        self.assertEqual(self.messages(limit=200).body["limit"], 200)
        self.assertEqual(self.messages(limit=201).body["limit"], 200)
        self.assertEqual(self.messages(purpose="activation").body, self.messages().body)

    def test_every_page_keeps_its_relations(self) -> None:
        """Whatever its limit and cursor, as clients of others look at it (4.9); beyond the end is
        the end.
        """
        for n in range(3):
            self.run_chat(self.view, command=f"input {n}")
            self.local.last.say(f"reply {n}")
            self.local.last.finish()
        last = self.messages().body["lastOrdinal"]
        self.assertEqual(last, 13)
        for limit in range(1, last + 2):
            page_relations(self.messages(limit=limit).body, limit)
            for before in range(1, last + 3):
                body = self.messages(
                    limit=limit, beforeOrdinal=before, transcriptViewId=self.view
                ).body
                page_relations(body, limit)
                self.assertEqual(body["pageNewestOrdinal"], min(before, last + 1) - 1)

    def test_a_page_of_hidden_rows(self) -> None:
        """It has no message, and goes on (5.3.2, 8.8)."""
        body = self.messages(limit=1).body
        self.assertEqual((body["messages"], body["pageOldestOrdinal"]), ([], 0))
        self.assertEqual((body["hasMore"], body["nextBeforeOrdinal"]), (True, 4))

    def test_concurrent_reads_during_a_turn(self) -> None:
        """The same view, and one copy of the input in each (5.3.5)."""
        self.run_chat(self.view, command="once")
        seen = []
        for word in ("a", "b", "c"):
            self.local.last.say(word)
            body = self.messages().body
            seen.append(body["transcriptViewId"])
            texts = [one["message"]["content"] for one in body["messages"]]
            self.assertEqual(texts.count("once"), 1)
        self.assertEqual(set(seen), {self.view})

    def test_other_views_and_chats(self) -> None:
        """A stale view is 409, an unknown chat 404."""
        self.assertEqual(
            self.messages(transcriptViewId="old").failure, (409, "STALE_TRANSCRIPT_VIEW", False)
        )
        self.assertEqual(self.messages("x").failure, (404, "SESSION_NOT_FOUND", False))

    def test_walking_back_meets_every_message_once(self) -> None:
        """Following the cursor until there is no more (4.7, 5.3.3)."""
        for n in range(7):
            self.run_chat(self.view, command=f"input {n}")
            self.local.last.say(f"reply {n}")
            self.local.last.finish()
        met: list[int] = []
        query: dict[str, Any] = {"limit": 3}
        while True:
            body = self.messages(**query).body
            met = [one["ordinal"] for one in body["messages"]] + met
            if not body["hasMore"]:
                break
            query |= {"beforeOrdinal": body["nextBeforeOrdinal"], "transcriptViewId": self.view}
        self.assertEqual(met, [ordinal for ordinal, _, _ in self.kinds()])

    def test_a_damaged_row_fences_its_chat_only(self) -> None:
        """Messages are degraded, the one other state there is (8.7), the snapshot says unavailable,
        a run is refused; others go on (5.17).
        """
        other = self.started(chatId=OTHER)
        self.memory.damage(self.view, 2)
        body = self.messages().body
        self.assertEqual(body, {"historyState": FENCED, "chatId": CHAT, "messages": []})
        transcript = self.snapshot().body["transcript"]
        self.assertEqual(
            (transcript["availability"], transcript["errorCode"], transcript["retryable"]),
            ("unavailable", "LEDGER_FENCED", False),
        )
        self.assertEqual(self.run_chat(self.view).failure, (422, "TRANSCRIPT_UNAVAILABLE", False))
        self.assertIsNone(self.phase())
        self.assertEqual(self.run_chat(other, chatId=OTHER).status, 202)
        self.assertEqual(len(self.listed()), 2)


class SnapshotTests(ChatsTestCase):
    """`GET /chats/snapshot`."""

    def test_the_limit(self) -> None:
        """0 to 200, digits only, 10 by default, never clamped."""
        self.started()
        for limit in (201, -1, "x", ""):
            answer = self.snapshot(limit=limit)
            self.assertEqual(answer.failure, (400, "VALIDATION_FAILED", False))
        self.assertEqual(self.snapshot(limit=200).body["messageLimit"], 200)
        self.assertEqual(self.snapshot().body["messageLimit"], 10)
        nothing = self.snapshot(limit=0).body
        self.assertEqual(nothing["transcript"], {"availability": "not-requested"})

    def test_what_it_observes(self) -> None:
        """The chat with its executor and epoch, idle, with the initial control."""
        self.started(tags=["b", "a"])
        body = self.snapshot().body
        chat = body["chat"]
        self.assertEqual(
            (chat["id"], chat["executorId"], chat["agentId"]), (CHAT, "local", "scripted")
        )
        self.assertEqual((chat["carryOverRevision"], chat["tags"]), ("carry-v1:0", ["a", "b"]))
        self.assertEqual(chat["agentOwnershipEpoch"], self.listed()[0]["agentOwnershipEpoch"])
        self.assertIsNone(body["processingPhase"])
        control = body["control"]
        self.assertEqual(
            (control["serverInstanceId"], control["version"], control["updatedAt"]),
            (INSTANCE, 0, None),
        )
        self.assertEqual(body["transcript"]["lastOrdinal"], 4)
        self.assertRegex(body["observedAt"], r"^2026-01-02T03:04:05\.\d{3}Z$")

    def test_without_a_known_view_the_feed_is_pending(self) -> None:
        """Its view is named by the ownership epoch; the transcript is unavailable."""
        self.started()
        record = structs.replace(
            self.successResultOf(self.store.load())[0].record, chat_id=OTHER, project_path="/"
        )
        self.successResultOf(self.store.write([PutChat(record)]))
        self.restart()
        body = self.snapshot(OTHER).body
        self.assertEqual(body["transcript"]["availability"], "unavailable")
        epoch = body["chat"]["agentOwnershipEpoch"]
        self.assertEqual(body["transientFeed"]["transcriptViewId"], f"pending:{epoch}")
        self.assertEqual(self.messages(OTHER).body["historyState"], FENCED)

    def test_unknown_and_malformed_ids(self) -> None:
        """404 and 400."""
        self.assertEqual(self.snapshot(OTHER).failure, (404, "SESSION_NOT_FOUND", False))
        self.assertEqual(self.snapshot("x").failure, (400, "VALIDATION_FAILED", False))

    def test_is_never_cached(self) -> None:
        """Whatever it answers."""
        for chat_id in (CHAT, "x"):
            self.assertEqual(self.snapshot(chat_id).headers["Cache-Control"], "no-store")


class SlowStore(MemoryStore):
    """Its reads wait for `read`, while writes go on."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = False
        self.reads: list[tuple[Deferred[list[Row]], str, int, int, int | None]] = []

    def read_rows(
        self, view_id: str, first: int, last: int, most_bytes: int | None = None
    ) -> Deferred[list[Row]]:
        if not self.is_slow:
            return super().read_rows(view_id, first, last, most_bytes)
        self.reads.append((Deferred(), view_id, first, last, most_bytes))
        return self.reads[-1][0]

    def read(self) -> None:
        """Let the reads go on."""
        self.is_slow = False
        for done, view_id, first, last, most_bytes in self.reads:
            super().read_rows(view_id, first, last, most_bytes).chainDeferred(done)


class OneInstantTests(ChatsTestCase):
    """What changes while rows are read."""

    def make_store(self) -> IStore:
        self.slow = SlowStore()
        return self.slow

    def test_a_snapshot_is_of_one_instant(self) -> None:
        """It shows no idle chat without the rows of its last turn, and no request beyond them."""
        self.start()
        self.local.last.ask("one")
        self.slow.is_slow = True
        d = self.ask(operations.SNAPSHOT, query={"chatId": CHAT})
        self.local.last.ask("two")
        self.local.last.say("late")
        self.local.last.finish()
        self.slow.read()
        body = self.successResultOf(d).body
        self.assertEqual(body["processingPhase"], "running")
        self.assertEqual(body["transcript"]["lastOrdinal"], 2)
        [row] = body["transientFeed"]["rows"]
        self.assertEqual(row["transcript"]["afterOrdinal"], 2)

    def test_a_chat_whose_launch_fails_meanwhile_is_unknown(self) -> None:
        """Its rows are gone, and that is no failure of the store."""
        self.local.holds_launches = True
        start = self.ask(operations.START_CHAT, self.start_body())
        self.slow.is_slow = True
        reads = [
            self.ask(operation, query={"chatId": CHAT})
            for operation in (operations.SNAPSHOT, operations.MESSAGES)
        ]
        self.local.last.launched.errback(GarconError("AGENT_FAILED", "no", status=500))
        self.assertEqual(self.successResultOf(start).status, 500)
        self.slow.read()
        for d in reads:
            self.assertEqual(self.successResultOf(d).failure, (404, "SESSION_NOT_FOUND", False))


class ReceiptRouteTests(ChatsTestCase):
    """`GET /chats/turn-receipt`."""

    def test_both_ids_are_required(self) -> None:
        """400 without, 404 for an unknown turn."""
        for query in ({}, {"chatId": CHAT}, {"chatId": CHAT, "turnId": " "}):
            self.assertEqual(self.asked(operations.TURN_RECEIPT, query=query).status, 400)
        self.assertEqual(self.receipt("x").failure, (404, "TURN_RECEIPT_NOT_FOUND", False))

    def test_is_lost_on_restart(self) -> None:
        """Like everything in memory."""
        turn = self.start().body["turnId"]
        self.restart()
        self.assertEqual(self.receipt(turn).status, 404)

    def test_settles_only_when_the_rows_are_durable(self) -> None:
        """And the chat becomes idle in the same moment."""
        turn = self.start().body["turnId"]
        self.memory.held = True
        self.local.last.say("done")
        self.local.last.finish()
        self.assertEqual((self.receipt(turn).body["state"], self.phase()), ("pending", "running"))
        self.memory.release()
        self.assertEqual((self.receipt(turn).body["state"], self.phase()), ("completed", None))


class NameTests(ChatsTestCase):
    """`PUT /app/session-name`."""

    def setUp(self) -> None:
        super().setUp()
        self.started()

    def name(self, title: str, chat_id: str = CHAT) -> Said:
        return self.asked(operations.SESSION_NAME, {"chatId": chat_id, "title": title})

    def test_names_a_chat(self) -> None:
        """Trimmed, durable, and only once changed."""
        answer = self.name("  Nice name ")
        self.assertEqual(answer.body, {"success": True, "title": "Nice name", "changed": True})
        self.assertEqual(self.name("Nice name").body["changed"], False)
        self.restart()
        self.assertEqual(self.listed()[0]["title"], "Nice name")

    def test_a_title_is_the_first_line(self) -> None:
        """Of the name; a chat without any text is a new session."""
        self.name("one\ntwo")
        self.assertEqual(self.listed()[0]["title"], "one")
        png = {"data": "data:image/png;base64,AAAA"}
        self.started(chatId=OTHER, command="", images=[png])
        self.assertEqual(self.listed()[0]["title"], "New Session")

    def test_four_kibibytes(self) -> None:
        """One byte more is refused, and so is nothing."""
        self.assertEqual(self.name("x" * TITLE_BYTES).status, 200)
        for title in ("x" * (TITLE_BYTES + 1), "  "):
            self.assertEqual(self.name(title).failure, (400, "VALIDATION_FAILED", False))

    def test_an_unknown_chat(self) -> None:
        """404, in whatever form its id is."""
        self.assertEqual(self.name("x", "nobody").failure, (404, "SESSION_NOT_FOUND", False))

    def test_a_store_that_refuses(self) -> None:
        """The old name stays."""
        self.memory.refusals = 1
        self.assertEqual(self.name("x").status, 500)
        self.assertEqual(self.listed()[0]["title"], "hello")

    def test_a_name_and_an_agents_session_do_not_overwrite_each_other(self) -> None:
        """Both change the record while the other is being written."""
        view = self.messages().body["transcriptViewId"]
        self.run_chat(view)
        self.memory.held = True
        d = self.ask(operations.SESSION_NAME, {"chatId": CHAT, "title": "named"})
        self.local.last.session("new-session")
        self.memory.release()
        self.successResultOf(d)
        [stored] = self.successResultOf(self.store.load())
        self.assertEqual(
            (stored.record.name, stored.record.agent_session_id), ("named", "new-session")
        )
