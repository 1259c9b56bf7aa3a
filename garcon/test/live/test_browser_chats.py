"""Chats as browser sockets see them, over a controller and a worker (server.md A.5 to A.11; I)."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec

from garcon.contract import operations
from garcon.contract.events import (
    ChatMessages,
    ClearRun,
    ControlUpdated,
    ExecutorsChanged,
    ListRefreshRequested,
    ProcessingUpdated,
    Remove,
    RunFinished,
    SessionDeleted,
    SessionStopped,
    TransientFeedMutation,
    Upsert,
)
from garcon.test.live.strict import StrictTestCase
from garcon.testing.fleet import eventually
from garcon.testing.strict_client import StrictClient
from garcon.testing.strict_socket import StrictSocket

STALE = ("STALE_TRANSCRIPT_VIEW", False)


class BrowserCase(StrictTestCase):
    """A pair, a strict client and a strict socket; `socket` is an older client's."""

    def open(self, **more: Any) -> StrictSocket:
        """Open another socket."""
        socket = StrictSocket(self.controller.url, **more)
        self.addCleanup(socket.close)
        return socket

    def start_turn(self, executor: str, command: str) -> tuple[str, Any]:
        """Start a chat; returns its id and its turn's while that runs."""
        accepted = self.direct.start(self.direct.start_body(executor, self.project, command))
        return accepted.chat_id, accepted.turn_id

    def chat(self, command: str = "say hi", executor: str = "local") -> tuple[str, str]:
        """Start a chat whose turn has ended; returns its id and its view."""
        chat_id, view, receipt = self.begun(self.direct, executor, command)
        self.socket.turn_ended(chat_id, receipt.turn_id)
        return chat_id, view

    def kinds(self, socket: StrictSocket, chat_id: str) -> list[Any]:
        """What a socket heard of a chat."""
        return [one for one in socket.messages if getattr(one, "chat_id", None) == chat_id]


class TurnTests(BrowserCase):
    """Turns, as they happen."""

    def test_every_socket_sees_the_same_turn(self) -> None:
        """Input, phase, reply, idle, end, in that order, and the same on both; on either
        executor.
        """
        other = self.open(is_newer=True)
        for executor in ("local", self.executor_id):
            chat_id, turn_id = self.start_turn(executor, "say hi")
            ended = self.socket.turn_ended(chat_id, turn_id)
            other.turn_ended(chat_id, turn_id)
            self.assertIsInstance(ended, RunFinished)
            one, two = self.kinds(self.socket, chat_id), self.kinds(other, chat_id)
            for sequence in (one, two):
                del sequence[sequence.index(ended) + 1 :]
            self.assertEqual(one, two)
            texts = [
                json.loads(bytes(row.message)).get("content")
                for event in one
                if isinstance(event, ChatMessages)
                for row in event.messages
            ]
            self.assertEqual(texts, ["say hi", "hi"])
            phases = [event.phase for event in one if isinstance(event, ProcessingUpdated)]
            self.assertEqual(phases, ["running", None])
            self.assertEqual(one[-2:], [ProcessingUpdated(chat_id=chat_id, phase=None), ended])
            refreshed = [event for event in one if isinstance(event, ListRefreshRequested)]
            self.assertEqual([event.reason for event in refreshed], ["chat-added"])
            receipt = self.direct.receipt(chat_id, turn_id)
            self.assertEqual(receipt.client_request_id, ended.client_request_id)

    def test_the_receipt_is_terminal_only_after_the_end_was_told(self) -> None:
        """Whoever reads it has been told, or is being told (server.md A.11.3)."""
        for _ in range(5):
            chat_id, turn_id = self.start_turn("local", "say hi")
            self.direct.settled(chat_id, turn_id)
            self.socket.ping()
            heard = self.socket.heard(RunFinished, chat_id)
            self.assertEqual([event.turn_id for event in heard], [turn_id])

    def test_questions_come_and_go(self) -> None:
        """With their rows; what is left at the end goes at once (server.md A.10)."""
        chat_id, turn_id = self.start_turn("local", "ask true\nask false")
        first = self.live(chat_id, 1)
        self.allow(first)
        self.live(chat_id, 2)
        self.direct.stop({"clientRequestId": self.direct.request_id(), "chatId": chat_id})
        self.socket.turn_ended(chat_id, turn_id)
        told = [event.mutation for event in self.socket.heard(TransientFeedMutation, chat_id)]
        kinds = [type(mutation) for mutation in told]
        self.assertEqual(kinds, [Upsert, Remove, Upsert, ClearRun])
        mutations = self.socket.heard(TransientFeedMutation, chat_id)
        self.assertEqual([one.transient_revision for one in mutations], [1, 2, 3, 4])

    def live(self, chat_id: str, count: int) -> Any:
        """Wait for a question and return its row."""

        def find(messages: list[Any]) -> Any:
            rows = [
                one.mutation.row
                for one in messages
                if isinstance(one, TransientFeedMutation)
                and one.chat_id == chat_id
                and isinstance(one.mutation, Upsert)
            ]
            return rows[count - 1] if len(rows) >= count else None

        return self.socket.wait_for("a question", find)

    def allow(self, row: Any) -> None:
        """Allow what is asked, with the controls that the socket was told of."""
        told = self.socket.heard(TransientFeedMutation)[-1]
        self.direct.decide(
            {
                "clientRequestId": self.direct.request_id(),
                "chatId": told.chat_id,
                "permissionOccurrenceId": row.permission_occurrence_id,
                "allow": True,
                "alwaysAllow": False,
                "control": {
                    "serverInstanceId": told.server_instance_id,
                    "chatId": told.chat_id,
                    "runId": row.run_id,
                    "permissionOccurrenceId": row.permission_occurrence_id,
                },
            }
        )

    def test_a_stop_is_told_before_what_came_of_it(self) -> None:
        """And a second one after it (server.md A.11.4)."""
        chat_id, turn_id = self.start_turn("local", "sleep 60")
        for _ in range(2):
            self.direct.stop({"clientRequestId": self.direct.request_id(), "chatId": chat_id})
        self.socket.ping()
        heard = self.kinds(self.socket, chat_id)
        events = [e for e in heard if isinstance(e, SessionStopped | ProcessingUpdated)]
        shown = [
            event.outcome if isinstance(event, SessionStopped) else event.phase for event in events
        ]
        self.assertEqual(
            shown, ["running", "stopping", "interrupt-requested", None, None, "already-idle"]
        )
        self.assertEqual(self.socket.turn_ended(chat_id, turn_id).turn_id, turn_id)

    def test_a_deleted_chat_is_silent(self) -> None:
        """Its deletion is the last that is told of it."""
        chat_id, _ = self.start_turn("local", "sleep 60")
        self.direct.asked(operations.DELETE_CHAT, {"chatId": chat_id})
        self.socket.ping()
        self.assertIsInstance(self.kinds(self.socket, chat_id)[-1], SessionDeleted)

    def test_a_worker_that_is_away(self) -> None:
        """Only newer clients are told that its chats wait for it (decisions.md 14)."""
        newer = self.open(is_newer=True)
        chat_id, _ = self.start_turn(self.executor_id, "sleep 60")
        self.worker.kill()

        def waits(messages: list[Any]) -> Any:
            return next((e for e in messages if getattr(e, "phase", None) == "reconnecting"), None)

        self.assertEqual(newer.wait_for("the loss of the worker", waits, 30).chat_id, chat_id)
        self.assertEqual(self.phases(newer), [(chat_id, "reconnecting")])
        self.assertEqual(self.phases(self.socket), [(chat_id, "running")])
        told = [event.phase for event in self.socket.heard(ProcessingUpdated, chat_id)]
        self.assertEqual(set(told), {"running"})

        def shown(messages: list[Any]) -> Any:
            changes = [one for one in messages if isinstance(one, ExecutorsChanged)]
            states = [[one.availability for one in change.executors] for change in changes]
            return ["ready", "reconnecting"] in states or None

        newer.wait_for("the worker's state", shown)
        self.socket.ping()
        self.assertEqual(self.socket.heard(ExecutorsChanged), [])

    def phases(self, socket: StrictSocket) -> list[tuple[str, str]]:
        """What the chats do."""
        chats = socket.reconnect().processing.chats
        assert chats is not msgspec.UNSET
        return [(one.chat_id, one.phase) for one in chats]


class ReconnectTests(BrowserCase):
    """Whoever was away, and comes back."""

    def test_an_idle_controller(self) -> None:
        """It has no chats to tell of."""
        self.assertEqual(self.socket.ping().processing.chats, [])
        state = self.socket.reconnect("1", "1767000000000001")
        outcomes = [(one.chat_id, one.outcome) for one in state.control_results]
        self.assertEqual(outcomes, [("1", "not-found"), ("1767000000000001", "not-found")])
        self.assertEqual(state.server_instance_id, self.instance)

    def test_while_a_turn_runs(self) -> None:
        """It is listed, with its control; at the last row there is nothing to catch up on."""
        chat_id, _ = self.start_turn("local", "say one\nsleep 60")
        eventually("the reply", lambda: self.direct.messages(chat_id).last_ordinal >= 3)
        socket = self.open()
        state = socket.reconnect(chat_id)
        assert state.processing.chats is not msgspec.UNSET
        self.assertEqual([one.chat_id for one in state.processing.chats], [chat_id])
        self.assertEqual([one.outcome for one in state.control_results], ["snapshot"])
        page = self.direct.messages(chat_id)
        last = page.last_ordinal
        subscribed = socket.page(chat_id, page.transcript_view_id, last)
        self.assertEqual((subscribed.first_ordinal, subscribed.last_ordinal), (last + 1, last))
        self.assertEqual((subscribed.messages, subscribed.resend_candidates), ([], []))

    def test_missed_rows_are_replayed(self) -> None:
        """Once, as the page over HTTP has them; again the same."""
        chat_id, view = self.chat()
        cursor = self.direct.messages(chat_id).last_ordinal
        self.socket.close()
        accepted = self.direct.run(self.direct.run_body(view, chat_id, "say missed"))
        self.direct.settled(chat_id, accepted.turn_id)
        socket = self.open()
        pages = [socket.page(chat_id, view, cursor) for _ in range(2)]
        shown = [one for one in self.direct.messages(chat_id).messages if one.ordinal > cursor]
        for page in pages:
            self.assertEqual(
                msgspec.json.decode(msgspec.json.encode(page.messages)), msgspec.to_builtins(shown)
            )
            self.assertFalse(page.has_more)

    def test_a_random_view(self) -> None:
        """Is stale, whatever the cursor."""
        chat_id, view = self.chat()
        for after in (0, 10**9):
            answer = self.socket.ask(
                "chat-subscribe", chatId=chat_id, transcriptViewId="random", afterOrdinal=after
            )
            self.assertEqual((answer.code, answer.retryable), STALE)
            self.assertEqual(answer.chat_id, chat_id)
        refused = self.socket.refused(
            "chat-subscribe", chatId=chat_id, transcriptViewId=view, afterOrdinal=10**9
        )
        self.assertEqual(refused, ("REQUEST_VALIDATION_FAILED", False))
        refused = self.socket.refused(
            "chat-subscribe", chatId="1", transcriptViewId=view, afterOrdinal=0
        )
        self.assertEqual(refused, ("SESSION_NOT_FOUND", False))

    def test_after_a_restart(self) -> None:
        """Another instance, empty controls, nothing processing; what was interrupted is to be sent
        again.
        """
        chat_id, view = self.chat()
        self.direct.run(self.direct.run_body(view, chat_id, "sleep 60"))
        self.controller.kill()
        self.controller = self.fleet.controller()
        own = self.controller.descriptor()
        self.direct = StrictClient(own["baseUrl"], own["localCapability"])
        socket = self.open()
        state = socket.reconnect(chat_id)
        self.assertEqual(state.server_instance_id, own["instanceId"])
        self.assertNotEqual(state.server_instance_id, self.instance)
        self.assertEqual(state.processing.chats, [])
        [result] = state.control_results
        assert result.control is not msgspec.UNSET
        self.assertEqual((result.control.version, result.control.updated_at), (0, None))
        page = socket.page(chat_id, view, 0)
        self.assertEqual([one.content for one in page.resend_candidates], ["sleep 60"])
        self.assertEqual(page.transient_feed.rows, [])

    def test_three_hundred_questions_at_once(self) -> None:
        """All are answered, in whatever order, while others are served."""
        chat_id, view = self.chat()
        asked = {f"many-{n}" for n in range(300)}
        for request_id in sorted(asked):
            self.socket.send(
                {
                    "type": "chat-subscribe",
                    "clientRequestId": request_id,
                    "chatId": chat_id,
                    "transcriptViewId": view,
                    "afterOrdinal": 0,
                }
            )
        began = time.monotonic()
        self.open().ping()
        self.assertLess(time.monotonic() - began, 10)

        def find(messages: list[Any]) -> bool | None:
            answered = {getattr(one, "client_request_id", None) for one in messages}
            return asked <= answered or None

        self.assertTrue(self.socket.wait_for("three hundred answers", find))


class ReloadTests(BrowserCase):
    """Agents of this release keep no history that could be read."""

    def test_there_is_no_history(self) -> None:
        """And the transcript is as it was."""
        chat_id, view = self.chat()
        before = self.direct.messages(chat_id)
        self.assertEqual(
            self.socket.refused("chat-reload", chatId=chat_id), ("HISTORY_LOAD_FAILED", False)
        )
        self.assertEqual(
            self.socket.refused("chat-reload", chatId="1"), ("SESSION_NOT_FOUND", False)
        )
        self.assertEqual(self.direct.messages(chat_id), before)
        self.assertEqual(view, before.transcript_view_id)

    def test_a_chat_in_use(self) -> None:
        """A turn ends, a queued message has to be taken away."""
        chat_id, _ = self.start_turn("local", "sleep 60")
        view = self.direct.messages(chat_id).transcript_view_id
        self.assertEqual(self.socket.refused("chat-reload", chatId=chat_id), ("CHAT_RUNNING", True))
        self.direct.asked(
            operations.CREATE_ENTRY,
            {
                "clientRequestId": self.direct.request_id(),
                "clientMessageId": self.direct.request_id(),
                "chatId": chat_id,
                "transcriptViewId": view,
                "content": "later",
            },
        )
        self.direct.stop({"clientRequestId": self.direct.request_id(), "chatId": chat_id})
        self.assertEqual(
            self.socket.refused("chat-reload", chatId=chat_id), ("CHAT_RUNNING", False)
        )
        self.assertTrue(self.socket.heard(ControlUpdated, chat_id))
