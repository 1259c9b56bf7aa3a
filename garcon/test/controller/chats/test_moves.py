"""Pinning, archiving and reordering (chats.md 3.25, 3.26, 5.14; control.md K9)."""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.contract.events import ListRefreshRequested
from garcon.contract.operations import Operation
from garcon.store.records import OrderGroup, PutChat
from garcon.test.controller.chats.cast import ChatsTestCase, Said

IDS = ["1767000000000001", "1767000000000002", "1767000000000003", "1767000000000004"]
A, B, C, D = IDS
UNKNOWN = "1767000000000009"
GONE = (404, "SESSION_NOT_FOUND", False)
INVALID = (400, "VALIDATION_FAILED", False)


class MoveCase(ChatsTestCase):
    """Four chats in the order A, B, C, D; the newest is at the top."""

    def setUp(self) -> None:
        super().setUp()
        for chat_id in reversed(IDS):
            self.started(chatId=chat_id)
        self.told.clear()
        self.writes = self.memory.writes

    def order(self) -> str:
        """Return the list as letters, a group's after its sign."""
        signs = {"pinned": "^", "orphan": "?", "normal": "", "archived": "_"}
        return "".join(
            signs[entry["orderGroup"]] + "ABCD"[IDS.index(entry["id"])] for entry in self.listed()
        )

    def assert_order(self, wanted: str) -> None:
        """Assert the order, now and after a restart."""
        self.assertEqual(self.order(), wanted)
        told = list(self.told)
        self.restart()
        self.assertEqual(self.order(), wanted)
        self.told[:] = told

    def move(self, operation: Operation, chat_id: str, **more: Any) -> dict[str, Any]:
        """Ask for a move that is made."""
        answer = self.asked(operation, {"chatId": chat_id} | more)
        self.assertEqual(answer.status, 200, answer.body)
        body: dict[str, Any] = answer.body
        return body

    def pin(self, chat_id: str) -> dict[str, Any]:
        """Toggle a pin."""
        return self.move(operations.TOGGLE_PIN, chat_id)

    def archive(self, chat_id: str) -> dict[str, Any]:
        """Toggle whether a chat is archived."""
        return self.move(operations.TOGGLE_ARCHIVE, chat_id)

    def reorder(self, chat_id: str, placement: dict[str, Any]) -> Said:
        """Reorder a chat."""
        return self.asked(operations.REORDER_CHAT, {"chatId": chat_id, "placement": placement})

    def to(self, chat_id: str, boundary: str) -> dict[str, Any]:
        """Move a chat to an end of its group."""
        body: dict[str, Any] = self.reorder(
            chat_id, {"kind": "boundary", "boundary": boundary}
        ).body
        return body

    def beside(self, chat_id: str, position: str, reference: str) -> Said:
        """Move a chat next to another."""
        return self.reorder(
            chat_id,
            {"kind": "relative", "referenceChatId": reference, "position": position},
        )

    def refreshes(self, *reasons: str) -> list[Any]:
        """Return the invalidations of the first chat for these reasons."""
        return [ListRefreshRequested(chat_id=A, reason=reason) for reason in reasons]  # type: ignore[arg-type]

    def set_group(self, chat_id: str, group: OrderGroup, created_at: str | None = None) -> None:
        """Put a chat into a group as no route can; takes effect with a restart."""
        for stored in self.successResultOf(self.store.load()):
            if stored.record.chat_id == chat_id:
                fields: dict[str, Any] = {"order_group": group}
                if created_at is not None:
                    fields["created_at"] = created_at
                record = type(stored.record)(
                    **{
                        name: getattr(stored.record, name)
                        for name in stored.record.__struct_fields__
                    }
                    | fields
                )
                self.successResultOf(self.store.write([PutChat(record)]))
        self.restart()


class ToggleTests(MoveCase):
    """`POST /chats/pin` and `POST /chats/archive`."""

    def test_a_pinned_chat_is_at_the_top_of_the_pinned(self) -> None:
        """The newest pin first; pinning again puts it back to the top of the normal ones."""
        self.assertEqual(self.pin(C), {"success": True, "isPinned": True})
        self.pin(D)
        self.assert_order("^D^CAB")
        self.assertEqual(self.pin(C), {"success": True, "isPinned": False})
        self.assert_order("^DCAB")

    def test_pins_go_to_the_bottom_where_that_is_set(self) -> None:
        """`pinnedInsertPosition` is asked at each pin."""
        self.pin(C)
        self.chats.pins_at = lambda: "bottom"
        self.pin(B)
        self.assertEqual(self.order(), "^C^BAD")
        self.chats.pins_at = lambda: "top"
        self.pin(A)
        self.assert_order("^A^C^BD")

    def test_an_archived_chat_is_at_the_top_of_the_archived(self) -> None:
        """The newest first; archiving again puts it back to the top of the normal ones."""
        self.assertEqual(self.archive(A), {"success": True, "isArchived": True})
        self.archive(B)
        self.assert_order("CD_B_A")
        self.assertEqual(self.archive(A), {"success": True, "isArchived": False})
        self.assert_order("ACD_B")

    def test_a_pin_takes_a_chat_out_of_the_archive_and_back(self) -> None:
        """It is in one group at a time."""
        self.archive(A)
        self.assertEqual(self.pin(A)["isPinned"], True)
        self.assert_order("^ABCD")
        self.assertEqual(self.archive(A)["isArchived"], True)
        self.assert_order("BCD_A")

    def test_the_id_comes_from_the_body_or_else_the_query(self) -> None:
        """Missing is malformed, unknown is unknown, whatever it looks like."""
        for operation in (operations.TOGGLE_PIN, operations.TOGGLE_ARCHIVE):
            self.assertEqual(self.asked(operation, {}).failure, INVALID)
            self.assertEqual(self.asked(operation, {"chatId": " "}).failure, INVALID)
            self.assertEqual(self.asked(operation, {"chatId": 1}, {"chatId": A}).failure, INVALID)
            for unknown in (UNKNOWN, "what"):
                self.assertEqual(self.asked(operation, {"chatId": unknown}).failure, GONE)
        self.assertEqual(self.asked(operations.TOGGLE_PIN, None, {"chatId": A}).status, 200)
        self.assertEqual(
            self.asked(operations.TOGGLE_PIN, {"chatId": B}, {"chatId": A}).status, 200
        )
        self.assertEqual(self.order(), "^B^ACD")

    def test_every_toggle_is_told(self) -> None:
        """Once, with its reason."""
        self.pin(A)
        self.archive(A)
        self.archive(A)
        self.assertEqual(
            self.told, self.refreshes("pinned-toggled", "archive-toggled", "archive-toggled")
        )

    def test_no_agent_is_called(self) -> None:
        """Moving chats is no business of theirs."""
        runs, asked = len(self.local.runs), self.local.catalogs
        self.pin(A)
        self.archive(B)
        self.to(D, "top")
        self.assertEqual((len(self.local.runs), self.local.catalogs), (runs, asked))

    def test_pinned_ids(self) -> None:
        """In their order, for the settings."""
        self.pin(A)
        self.pin(C)
        self.assertEqual(self.chats.pinned_ids(), [C, A])
        self.asked(operations.DELETE_CHAT, {"chatId": C})
        self.assertEqual(self.chats.pinned_ids(), [A])


class DesiredStateTests(MoveCase):
    """`PUT /chats/pin` and `PUT /chats/archive`."""

    def test_pin(self) -> None:
        """Repeating converges, and tells of a change only where there is one."""
        answer = {"success": True, "chatId": A, "pinned": True}
        for changed in (True, False):
            body = self.move(operations.PIN, A, pinned=True)
            self.assertEqual(body, answer | {"changed": changed})
        self.assertEqual(self.told, self.refreshes("pinned-toggled"))
        self.assert_order("^ABCD")
        for changed in (True, False):
            body = self.move(operations.PIN, A, pinned=False)
            self.assertEqual(body, answer | {"pinned": False, "changed": changed})
        self.assert_order("ABCD")

    def test_archive(self) -> None:
        """The same of the archive."""
        answer = {"success": True, "chatId": A, "archived": True}
        for changed in (True, False):
            body = self.move(operations.ARCHIVE, A, archived=True)
            self.assertEqual(body, answer | {"changed": changed})
        self.assertEqual(self.told, self.refreshes("archive-toggled"))
        self.assert_order("BCD_A")
        for changed in (True, False):
            body = self.move(operations.ARCHIVE, A, archived=False)
            self.assertEqual(body, answer | {"archived": False, "changed": changed})
        self.assert_order("ABCD")

    def test_not_to_be_in_one_group_says_nothing_of_the_other(self) -> None:
        """An archived chat is not pinned already, and stays archived."""
        self.archive(A)
        self.assertFalse(self.move(operations.PIN, A, pinned=False)["changed"])
        self.assertEqual(self.order(), "BCD_A")
        self.pin(A)
        self.assertFalse(self.move(operations.ARCHIVE, A, archived=False)["changed"])
        self.assertEqual(self.order(), "^ABCD")

    def test_malformed_and_unknown(self) -> None:
        """The wanted state has to be said, as a truth value."""
        for operation, name in ((operations.PIN, "pinned"), (operations.ARCHIVE, "archived")):
            for body in (
                {"chatId": A},
                {name: True},
                {"chatId": A, name: "yes"},
                {"chatId": "", name: True},
            ):
                self.assertEqual(self.asked(operation, body).failure, INVALID, body)
            self.assertEqual(self.asked(operation, {"chatId": UNKNOWN, name: True}).failure, GONE)


class ReorderTests(MoveCase):
    """`POST /chats/reorder`."""

    def test_boundaries(self) -> None:
        """To the top, to the bottom, of the chat's own group."""
        self.assertEqual(
            self.to(C, "top"),
            {"success": True, "chatId": C, "orderGroup": "normal", "changed": True},
        )
        self.assert_order("CABD")
        self.assertTrue(self.to(A, "bottom")["changed"])
        self.assert_order("CBDA")

    def test_beside_another(self) -> None:
        """Before it and after it, over any distance."""
        for chat_id, position, reference, wanted in (
            (D, "before", A, "DABC"),
            (D, "after", A, "ADBC"),
            (A, "after", C, "DBCA"),
            (C, "before", B, "DCBA"),
            (A, "before", D, "ADCB"),
        ):
            body = self.beside(chat_id, position, reference).body
            self.assertEqual((body["orderGroup"], body["changed"]), ("normal", True))
            self.assertEqual(self.order(), wanted)
        self.assert_order("ADCB")

    def test_a_chat_that_is_there_already(self) -> None:
        """Nothing changes, nothing is written, nobody is told."""
        self.assertFalse(self.to(A, "top")["changed"])
        self.assertFalse(self.to(D, "bottom")["changed"])
        self.assertFalse(self.beside(B, "after", A).body["changed"])
        self.assertFalse(self.beside(B, "before", C).body["changed"])
        self.assertEqual((self.order(), self.told, self.memory.writes), ("ABCD", [], self.writes))

    def test_one_invalidation_when_something_changed(self) -> None:
        """And it names the chat that was moved."""
        self.to(A, "bottom")
        self.assertEqual(self.told, self.refreshes("chats-reordered"))

    def test_groups_are_not_crossed(self) -> None:
        """A chat is moved among its like."""
        self.pin(A)
        self.archive(B)
        for chat_id, reference in ((A, C), (C, A), (B, C), (B, A)):
            answer = self.beside(chat_id, "before", reference)
            self.assertEqual(answer.failure, (400, "ORDER_CROSS_GROUP", False))
        self.assertEqual(self.order(), "^ACD_B")
        self.assertEqual(self.to(A, "top")["orderGroup"], "pinned")
        self.assertEqual(self.to(B, "bottom")["orderGroup"], "archived")

    def test_unknown_chats(self) -> None:
        """The one to move and the one to move it to."""
        self.assertEqual(self.beside(UNKNOWN, "before", A).failure, GONE)
        self.assertEqual(self.beside(A, "before", UNKNOWN).failure, GONE)

    def test_every_key_is_known_and_needed(self) -> None:
        """Anywhere in the body; and no chat has a place beside itself."""
        top = {"kind": "boundary", "boundary": "top"}
        beside = {"kind": "relative", "referenceChatId": B, "position": "before"}
        for body in (
            {"chatId": A},
            {"placement": top},
            {"chatId": A, "placement": top, "more": 1},
            {"chatId": A, "placement": top | {"more": 1}},
            {"chatId": A, "placement": beside | {"boundary": "top"}},
            {"chatId": A, "placement": {"kind": "boundary"}},
            {"chatId": A, "placement": {"kind": "boundary", "boundary": "middle"}},
            {"chatId": A, "placement": {"kind": "somewhere"}},
            {"chatId": A, "placement": beside | {"position": "under"}},
            {"chatId": A, "placement": beside | {"referenceChatId": A}},
            {"chatId": A, "placement": beside | {"referenceChatId": " "}},
            {"chatId": A, "placement": "top"},
            {"chatId": "", "placement": top},
        ):
            answer = self.asked(operations.REORDER_CHAT, body)
            self.assertEqual(answer.failure, INVALID, body)
        self.assertEqual(self.order(), "ABCD")

    def test_an_orphan_is_adopted_at_the_end_first(self) -> None:
        """It joins the normal ones, and then it moves, in one step."""
        self.set_group(A, "orphan")
        self.assertEqual(self.order(), "?ABCD")
        self.told.clear()
        self.assertEqual(self.to(A, "bottom")["orderGroup"], "normal")
        self.assertEqual(self.told, self.refreshes("chats-reordered"))
        self.assert_order("BCDA")
        self.set_group(A, "orphan")
        self.assertTrue(self.to(A, "top")["changed"])
        self.assert_order("ABCD")

    def test_an_orphan_beside_others(self) -> None:
        """Either may be one."""
        self.set_group(A, "orphan")
        self.assertTrue(self.beside(A, "before", C).body["changed"])
        self.assert_order("BACD")
        self.set_group(A, "orphan")
        self.assertTrue(self.beside(B, "after", A).body["changed"])
        self.assert_order("CDAB")

    def test_an_orphan_that_may_not_go_there_is_left_alone(self) -> None:
        """A refusal adopts nobody."""
        self.pin(B)
        self.set_group(A, "orphan")
        self.assertEqual(self.beside(A, "before", B).code, "ORDER_CROSS_GROUP")
        self.assert_order("^B?ACD")


class DurabilityTests(MoveCase):
    """What a move costs, and what becomes of it."""

    def test_a_move_writes_the_chat_that_moves(self) -> None:
        """Even after many: the whole group only when there is no number left between two."""
        written: list[int] = []
        write = self.memory.write

        def counted(changes: Any) -> Any:
            written.append(len(changes))
            return write(changes)

        self.patch(self.memory, "write", counted)
        for _ in range(40):
            self.beside(C, "before", B)
            self.beside(B, "before", C)
        self.assertEqual(len(written), 80)
        numbered_anew = [count for count in written if count > 1]
        self.assertTrue(0 < len(numbered_anew) < 8, written)
        self.assertLessEqual(max(written), 4)
        self.assert_order("ABCD")

    def test_a_chat_is_answered_when_its_move_is_durable(self) -> None:
        """Not before, and others wait for it."""
        self.memory.held = True
        first = self.ask(operations.TOGGLE_PIN, {"chatId": A})
        second = self.ask(operations.PIN, {"chatId": A, "pinned": True})
        self.assertNoResult(first)
        self.assertNoResult(second)
        self.memory.release()
        self.assertTrue(self.successResultOf(first).body["isPinned"])
        self.assertFalse(self.successResultOf(second).body["changed"])

    def test_a_store_that_refuses(self) -> None:
        """The chat is where it was, and nobody was told otherwise."""
        for operation, body in (
            (operations.TOGGLE_PIN, {}),
            (operations.ARCHIVE, {"archived": True}),
            (operations.REORDER_CHAT, {"placement": {"kind": "boundary", "boundary": "bottom"}}),
        ):
            self.memory.refusals = 1
            answer = self.asked(operation, {"chatId": A} | body)
            self.assertEqual(answer.failure, (500, "INTERNAL_ERROR", True))
            self.assertEqual((self.order(), self.told), ("ABCD", []))
        self.to(A, "bottom")
        self.assert_order("BCDA")

    def test_moves_do_not_wait_for_what_goes_on_in_a_chat(self) -> None:
        """A chat that is being started or stopped can be pinned."""
        self.local.holds_launches = True
        new = self.ask(operations.START_CHAT, self.start_body(chatId=UNKNOWN))
        self.assertNoResult(new)
        self.assertTrue(self.pin(UNKNOWN)["isPinned"])
        self.local.last.begin()
        self.assertEqual(self.successResultOf(new).body["chat"]["orderGroup"], "pinned")

    def test_new_chats_are_at_the_top_of_the_normal(self) -> None:
        """Wherever the others were moved."""
        self.to(D, "top")
        self.pin(A)
        self.asked(operations.DELETE_CHAT, {"chatId": B})
        self.started(chatId=B)
        self.assert_order("^ABDC")

    def test_a_process_that_stops_takes_no_moves(self) -> None:
        """As it takes no other work."""
        self.successResultOf(self.chats.shut_down())
        answer = self.asked(operations.TOGGLE_PIN, {"chatId": A})
        self.assertEqual(answer.failure, (503, "SERVER_SHUTTING_DOWN", True))
