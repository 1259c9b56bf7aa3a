"""The browser socket as clients of others use it: opened with no subprotocol, pinged, lost and
opened again (server.md A.1 to A.11; I, ping, reconnect, missed rows, replay, stale view, reload).
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from garcon.test.live.foreign import ForeignCase
from garcon.testing.foreign_client import message
from garcon.testing.foreign_socket import ForeignSocket, Message
from garcon.testing.websocket_client import Refused, WebSocketClient

UNKNOWN = "1700000000000000"
KIB = 1_024


class SocketTests(ForeignCase):
    """What is asked over it."""

    def refusal(self, answer: Message) -> tuple[str, bool]:
        """Return the code of what must be an error, and whether to try again."""
        self.assertEqual(answer["type"], "client-request-error")
        return answer["code"], answer["retryable"]

    def fault(self, socket: ForeignSocket, said: bytes) -> str:
        """Send what is a fault; returns its text."""
        after = len(socket.messages)
        socket.connection.send_frame(1, said)
        text: str = socket.wait_for("a fault", lambda one: one["type"] == "ws-fault", after)[
            "error"
        ]
        return text

    def test_ping(self) -> None:
        """Its id and its instant come back, with what runs: nothing (existing-clients.md)."""
        pong = self.socket.ping()
        self.assertEqual(pong["processing"], {"outcome": "snapshot", "chats": []})
        self.socket.connection.send({"type": "ws-ping", "clientRequestId": "odd", "sentAt": "x"})
        odd = self.socket.wait_for("a pong", lambda one: one.get("clientRequestId") == "odd")
        self.assertEqual(odd["sentAt"], 0)
        self.socket.connection.send({"type": "ws-ping", "sentAt": 1})
        binary = {"type": "ws-ping", "clientRequestId": "binary", "sentAt": 1.5}
        self.socket.connection.send_frame(2, json.dumps(binary).encode())
        answer = self.socket.wait_for("a pong", lambda one: one.get("clientRequestId") == "binary")
        self.assertEqual(answer["sentAt"], 1.5)
        runtime = self.client.do("GET", "/runtime", challenge="c" * 43)
        self.assertEqual(runtime["instanceId"], pong["serverInstanceId"])

    def test_what_is_offered_is_what_is_taken(self) -> None:
        """Nothing; the application's protocol, never the other; compression, or none (A.1, A.2)."""
        url = self.actor.service.url
        self.assertNotIn("sec-websocket-protocol", self.socket.connection.headers)
        for offered in (["garcon-v1"], ["garcon-v1", "garcon-auth.abc"]):
            client = WebSocketClient.open(url, protocols=offered)
            self.addCleanup(client.close)
            self.assertEqual(client.headers["sec-websocket-protocol"], "garcon-v1")
        for offered in ([], ["garcon-auth.abc"]):
            client = WebSocketClient.open(url, protocols=offered, path="/ws?x=1", deflate=None)
            self.addCleanup(client.close)
            self.assertNotIn("sec-websocket-protocol", client.headers)
            self.assertFalse(client.is_compressed)
        with self.assertRaises(Refused) as caught:
            WebSocketClient.open(url, path="/ws/")
        self.assertEqual((caught.exception.status, caught.exception.body), (404, b"Not found"))

    def test_faults_leave_it_open(self) -> None:
        """Text that is no JSON, requests that nobody can be told of; unknown types are nothing
        (A.4 to A.6).
        """
        self.assertEqual(self.fault(self.socket, b"{"), "Malformed JSON")
        asked = {"type": "chat-subscribe", "chatId": UNKNOWN, "transcriptViewId": "v"}
        text = self.fault(self.socket, json.dumps(asked).encode())
        self.assertEqual(text, "chat-subscribe requires a clientRequestId")
        for kind in ("chat-subscribe", "chat-reload"):
            asked = {"type": kind, "clientRequestId": "r", "transcriptViewId": "v"}
            text = self.fault(self.socket, json.dumps(asked).encode())
            self.assertEqual(text, f'Missing chatId for "{kind}"')
        before = len(self.socket.messages)
        for quiet in (
            {"type": "chat-run"},
            {"type": "chat-reload"},
            {"type": "chat-reload-cancel"},
        ):
            self.socket.connection.send(quiet)
        self.socket.ping()
        self.assertEqual(len(self.socket.messages), before + 1)

    def test_reconnect_while_a_turn_runs(self) -> None:
        """The chat is listed as running, its control comes along, and at the last row there is
        nothing to catch up on (I, reconnect while running).
        """
        turn = self.held("hello", "go")
        chat_id = turn["chatId"]
        socket = self.open_socket()
        state = socket.reconnect(chat_id, UNKNOWN, "x")
        self.assertEqual(
            state["processing"],
            {"outcome": "snapshot", "chats": [{"chatId": chat_id, "phase": "running"}]},
        )
        outcomes = [one["outcome"] for one in state["controlResults"]]
        self.assertEqual(outcomes, ["snapshot", "not-found", "not-found"])
        self.assertEqual(state["controlResults"][0]["control"], self.client.control(chat_id))
        page = self.client.history(chat_id)
        last = page["lastOrdinal"]
        answer = socket.subscribe(chat_id, page["transcriptViewId"], last)
        self.assertEqual((answer["firstOrdinal"], answer["lastOrdinal"]), (last + 1, last))
        self.assertEqual((answer["messages"], answer["resendCandidates"]), ([], []))
        self.assertFalse(answer["hasMore"])
        self.providers[0].model.release("go")
        ended = socket.turn_ended(turn)
        self.assertEqual(ended["type"], "agent-run-finished")

    def test_what_is_asked_of_reconnects(self) -> None:
        """Blanks and doubles are dropped, what is no list is empty, and 256 are read (A.5)."""
        answer = self.socket.ask("reconnect-state-query", controlChatIds="x")
        self.assertEqual(answer["controlResults"], [])
        odd = [" ", 7, None, *(f"c{number}" for number in range(257)), "c0"]
        answer = self.socket.ask("reconnect-state-query", controlChatIds=odd)
        asked = [one["chatId"] for one in answer["controlResults"]]
        self.assertEqual(asked, [f"c{number}" for number in range(256)])

    def test_missed_rows_come_once(self) -> None:
        """As the page over HTTP has them, and again the same (I, missed rows)."""
        chat_id = self.chat("first")
        view, cursor = self.client.view(chat_id), self.client.history(chat_id)["lastOrdinal"]
        self.socket.close()
        self.ended(self.client.run(chat_id, "missed"))
        socket = self.open_socket()
        page = self.client.history(chat_id)
        rows = [row for row in page["messages"] if row["ordinal"] > cursor]
        self.assertEqual([row["message"]["content"] for row in rows], ["missed", "ok"])
        first, second = (socket.subscribe(chat_id, view, cursor) for _ in range(2))
        self.assertEqual((first["messages"], second["messages"]), (rows, rows))
        self.assertEqual(first["throughOrdinal"], page["lastOrdinal"])
        self.assertEqual(socket.of(chat_id, "chat-messages"), [])

    def test_views_and_cursors_that_are_not_so(self) -> None:
        """Stale comes first, whatever the cursor; then the range (I, stale view; A.6)."""
        chat_id = self.chat()
        view = self.client.view(chat_id)
        answer = self.socket.subscribe(chat_id, "3f0c7f0e-0000-4000-8000-000000000000", 2**50)
        self.assertEqual(self.refusal(answer), ("STALE_TRANSCRIPT_VIEW", False))
        self.assertEqual(answer["requestType"], "chat-subscribe")
        invalid = ("REQUEST_VALIDATION_FAILED", False)
        last = self.client.history(chat_id)["lastOrdinal"]
        for after, through, wanted in (
            (last + 1, None, invalid),
            (0, last + 1, invalid),
            (2, 1, invalid),
            (-1, None, invalid),
        ):
            answer = self.socket.subscribe(chat_id, view, after, through)
            self.assertEqual(self.refusal(answer), wanted)
        for more in ({"transcriptViewId": ""}, {"afterOrdinal": "1"}, {"throughOrdinal": 1.5}):
            asked = {"chatId": chat_id, "transcriptViewId": view, "afterOrdinal": 0} | more
            self.assertEqual(self.refusal(self.socket.ask("chat-subscribe", **asked)), invalid)
        answer = self.socket.subscribe(UNKNOWN, view, 0)
        self.assertEqual(self.refusal(answer), ("SESSION_NOT_FOUND", False))

    def test_a_replay_is_bounded(self) -> None:
        """Rows of 64 KiB and many small ones: every page advances, is small enough and has the
        first one's watermark; a turn that runs meanwhile comes live and not in it, and is in a
        later one (I, bounded replay).
        """
        chat_id = self.chat()
        view = self.client.view(chat_id)

        def add(number: int) -> None:
            content = "é" * (32 * KIB) if number % 3 == 0 and number < 120 else f"row {number}"
            row = message(chatId=chat_id, transcriptViewId=view, type="notice", content=content)
            self.client.do("POST", "/chats/rows", row)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(add, range(420)))
        last = self.client.history(chat_id)["lastOrdinal"]
        socket = self.open_socket()
        pages = [socket.subscribe(chat_id, view, 0)]
        turn = self.client.run(chat_id, "meanwhile")
        socket.turn_ended(turn)
        while pages[-1]["hasMore"]:
            after, through = pages[-1]["nextAfterOrdinal"], pages[-1]["throughOrdinal"]
            pages.append(socket.subscribe(chat_id, view, after, through))
        self.assertEqual({one["throughOrdinal"] for one in pages}, {last})
        sizes = [one["lastOrdinal"] - one["firstOrdinal"] + 1 for one in pages]
        self.assertEqual(sum(sizes), last)
        self.assertIn(200, sizes)
        self.assertTrue(any(size < 60 for size in sizes[:-1]), f"none is cut by its bytes: {sizes}")
        live = socket.of(chat_id, "chat-messages")
        self.assertEqual(live[0]["firstOrdinal"], last + 1)
        again = socket.replay(chat_id, view)
        self.assertEqual(again[0]["throughOrdinal"], live[-1]["lastOrdinal"])
        shown = [row["ordinal"] for one in again for row in one["messages"]]
        told = [row["ordinal"] for one in live for row in one["messages"]]
        self.assertEqual(shown[-2:], told)
        self.assertEqual(len(shown), 2 + 420 + 2)

    def test_reload_where_there_is_no_native_history(self) -> None:
        """Is refused for good and changes nothing; as it is with something queued, with another
        code, and while a turn runs, when it may be tried again (I, reload; A.7).
        """
        chat_id = self.chat()
        before = self.client.history(chat_id)
        answer = self.socket.ask("chat-reload", chatId=chat_id)
        self.assertEqual(self.refusal(answer), ("HISTORY_LOAD_FAILED", False))
        self.assertEqual((answer["requestType"], answer["chatId"]), ("chat-reload", chat_id))
        self.assertEqual(self.client.history(chat_id), before)
        self.assertFalse(self.client.entry(chat_id)["canReloadFromNativeHistory"])
        answer = self.socket.ask("chat-reload", chatId=UNKNOWN)
        self.assertEqual(self.refusal(answer), ("SESSION_NOT_FOUND", False))
        turn = self.held("runs", "go")
        running = turn["chatId"]
        answer = self.socket.ask("chat-reload", chatId=running)
        self.assertEqual(self.refusal(answer), ("CHAT_RUNNING", True))
        self.client.enqueue(running, "queued")
        self.client.do("POST", "/chats/queue/pause", {"chatId": running})
        self.providers[0].model.release("go")
        self.ended(turn)
        answer = self.socket.ask("chat-reload", chatId=running)
        self.assertEqual(self.refusal(answer), ("CHAT_RUNNING", False))

    def test_everybody_hears_of_everything(self) -> None:
        """What looks after chats, and settings, on a socket that asked for nothing (A.8)."""
        other = self.open_socket()
        chat_id = self.chat("told")
        self.client.do("PUT", "/app/session-name", {"chatId": chat_id, "title": "T"})
        self.client.do("POST", "/chats/read", {"entries": [{"chatId": chat_id, "lastReadAt": "x"}]})
        self.client.do("POST", "/chats/pin", {"chatId": chat_id})
        self.client.do("POST", "/chats/archive", {"chatId": chat_id})
        self.client.do("PATCH", "/chats/tags", {"chatId": chat_id, "tags": ["t"]})
        folder = self.stage.fleet.project("elsewhere")
        moved = {"chatId": chat_id, "projectPath": str(folder)}
        self.client.do("PATCH", "/chats/project-path", moved)
        self.client.do("PUT", "/app/settings", {"ui": {"pinnedInsertPosition": "bottom"}})
        self.client.do("PUT", "/app/settings", {"ui": {"pinnedInsertPosition": None}})
        self.client.do("DELETE", "/chats", {"chatId": chat_id})
        heard: list[Any] = []
        for socket in (self.socket, other):
            socket.ping()
            heard.append([one for one in socket.messages if one["type"] != "ws-pong"])
        self.assertEqual(heard[0], heard[1])
        kinds = [
            (one["type"], one.get("reason"))
            for one in heard[0][heard[0].index(self.socket.of(chat_id, "agent-run-finished")[0]) :]
        ]
        refresh = "chat-list-refresh-requested"
        wanted = [
            ("agent-run-finished", None),
            ("chat-title-updated", None),
            ("chat-read-updated-v1", None),
            (refresh, "pinned-toggled"),
            (refresh, "archive-toggled"),
            (refresh, "tags-updated"),
            ("chat-project-path-updated", None),
            ("settings-changed", None),
            ("settings-changed", None),
            ("chat-session-deleted", None),
        ]
        self.assertEqual([one for one in kinds if one in wanted], wanted)
        self.assertEqual(self.socket.of(chat_id, "chat-title-updated")[0]["title"], "T")

    def test_a_socket_is_not_needed_for_anything(self) -> None:
        """It goes, and what runs goes on."""
        turn = self.held("runs on", "go")
        self.socket.close()
        time.sleep(0.05)
        self.providers[0].model.release("go")
        self.assertEqual(self.ended(turn), ("completed", ["part"]))
