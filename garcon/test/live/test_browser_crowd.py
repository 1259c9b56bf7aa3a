"""Many browser sockets at once, and one that takes nothing (server.md A.2, A.12)."""

from __future__ import annotations

import base64
import json
import os
import selectors
import time
from typing import Any

from garcon.contract import operations
from garcon.contract.limits import MIB
from garcon.test.live.fleets import FleetTestCase
from garcon.testing.fleet import eventually
from garcon.testing.strict_client import StrictClient
from garcon.testing.strict_socket import StrictSocket
from garcon.testing.websocket_client import CLOSE, TEXT, Refused, WebSocketClient

CROWD = 200
ROWS = 300


class CrowdCase(FleetTestCase):
    """A controller with room for a crowd, and a strict client."""

    def setUp(self) -> None:
        super().setUp()
        room = {"GARCON_MAX_WS_CLIENTS": str(CROWD + 10)}
        self.controller = self.fleet.controller(environment=room)
        own = self.controller.descriptor()
        self.direct = StrictClient(own["baseUrl"], own["localCapability"])
        self.project = str(self.fleet.project("project"))

    def start_turn(self, command: str) -> tuple[str, Any]:
        """Start a chat; returns its id and its turn's while that runs."""
        accepted = self.direct.start(self.direct.start_body("local", self.project, command))
        return accepted.chat_id, accepted.turn_id

    def strict(self) -> StrictSocket:
        """Open a strict socket."""
        socket = StrictSocket(self.controller.url)
        self.addCleanup(socket.close)
        return socket

    def client(self, **more: Any) -> WebSocketClient:
        """Open any socket."""
        client = WebSocketClient.open(self.controller.url, protocols=["garcon-v1"], **more)
        self.addCleanup(client.close)
        return client

    def resident(self) -> int:
        """Return how much memory the controller has, in bytes."""
        with open(f"/proc/{self.controller.process.pid}/status") as file:
            (line,) = [line for line in file if line.startswith("VmRSS")]
        return int(line.split()[1]) * 1024


class Crowd:
    """Many sockets that are read side by side, and what each of them was sent."""

    def __init__(self, clients: list[WebSocketClient]) -> None:
        self.clients = clients
        self.payloads: list[list[bytes]] = [[] for _ in clients]
        """As they came, compressed."""
        self.messages: list[list[Any]] = [[] for _ in clients]
        self._selector = selectors.DefaultSelector()
        self._texts: dict[bytes, bytes] = {}
        for n, client in enumerate(clients):
            self._selector.register(client.connection, selectors.EVENT_READ, n)

    def read_until(self, kind: str, seconds: float = 60.0) -> None:
        """Read until every one of them has got a message of a kind."""
        deadline = time.monotonic() + seconds
        waiting = set(range(len(self.clients)))
        while waiting:
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(waiting)} sockets have no {kind}")
            for key, _ in self._selector.select(1.0):
                if kind in self._read(key.data):
                    waiting.discard(key.data)

    def _read(self, n: int) -> set[str]:
        client, kinds = self.clients[n], set()
        for frame in client.frames_now():
            if frame.opcode == TEXT:
                message = self._decoded(client.inflated(frame))
                kinds.add(message["type"])
                self.messages[n].append(message)
                if "clientRequestId" not in message or message["type"].startswith("agent-run"):
                    self.payloads[n].append(frame.payload)
        return kinds

    def _decoded(self, text: bytes) -> Any:
        return json.loads(text)


class BusyTests(CrowdCase):
    """Two hundred sockets that follow one busy chat."""

    def test_everybody_gets_every_row_once(self) -> None:
        """Each by a replay that began during the turn, and what came live; the events are the same
        bytes for all.
        """
        strict = self.strict()
        crowd = Crowd([self.client() for _ in range(CROWD)])
        chat_id, turn_id = self.start_turn(f"sleep 1\nemit {ROWS}")
        view = self.direct.messages(chat_id).transcript_view_id
        for n, client in enumerate(crowd.clients):
            client.send(
                {
                    "type": "chat-subscribe",
                    "clientRequestId": f"crowd-{n}",
                    "chatId": chat_id,
                    "transcriptViewId": view,
                    "afterOrdinal": 0,
                }
            )
        crowd.read_until("agent-run-finished")
        strict.turn_ended(chat_id, turn_id)
        wanted = [one.ordinal for one in self.direct.all_messages(chat_id, 200)]
        self.assertEqual(len(wanted), ROWS + 1)
        for messages in crowd.messages:
            self.assertEqual(followed(messages, chat_id), wanted)
        first, *others = crowd.payloads
        for other in others:
            self.assertEqual(other, first)


def followed(messages: list[Any], chat_id: str) -> list[int]:
    """Return the rows of a chat that a client has after all this, by the cursor rule of A.9."""
    rows: list[int] = []
    cursor = 0
    live: list[Any] = []
    for message in messages:
        if message.get("chatId") != chat_id:
            continue
        if message["type"] == "chat-messages":
            live.append(message)
        if message["type"] == "chat-subscribed":
            rows += [row["ordinal"] for row in message["messages"]]
            cursor = message["nextAfterOrdinal"]
    for span in live:
        if span["lastOrdinal"] <= cursor:
            continue
        if span["firstOrdinal"] > cursor + 1:
            raise AssertionError(f"a gap behind {cursor}: {span['firstOrdinal']}")
        rows += [row["ordinal"] for row in span["messages"] if row["ordinal"] > cursor]
        cursor = span["lastOrdinal"]
    return rows


class StuckTests(CrowdCase):
    """A client that opens a socket and reads nothing."""

    def test_it_is_closed_alone(self) -> None:
        """Once more than its limit waits; the others have heard everything, and the controller
        does not grow by what nobody takes.
        """
        chat_id, turn_id = self.start_turn("say hi")
        self.direct.settled(chat_id, turn_id)
        view = self.direct.messages(chat_id).transcript_view_id
        strict = self.strict()
        stuck = [self.client(receive_buffer=4_096) for _ in range(4)]
        before = self.resident()
        added = 0
        while self.controller.output.text().count("a browser socket was closed") < len(stuck):
            self.assertLess(added, 400, "the sockets that read nothing are still open")
            self.add_row(chat_id, view)
            added += 1
        self.assertLess(self.resident() - before, 48 * MIB)
        strict.ping()
        heard = strict.rows(chat_id)
        self.assertEqual(len(heard), added)
        self.assertEqual(self.direct.messages(chat_id).last_ordinal, heard[-1][0])
        for client in stuck:
            self.assertEqual(client.ended(), "dropped")
        self.client().ask({"type": "ws-ping", "clientRequestId": "p", "sentAt": 1})

    def test_whoever_says_goodbye_does_not_keep_a_place(self) -> None:
        """Though he takes nothing of what is unsent; the idle time is sixteen minutes."""
        chat_id, turn_id = self.start_turn("say hi")
        self.direct.settled(chat_id, turn_id)
        view = self.direct.messages(chat_id).transcript_view_id
        leaving = self.client(receive_buffer=4_096)
        others = [self.client() for _ in range(CROWD + 9)]
        self.assertRaises(Refused, self.client)
        for _ in range(90):
            self.add_row(chat_id, view)
            for client in others:
                client.frames_now()
        self.assertNotIn("a browser socket was closed", self.controller.output.text())
        leaving.send_frame(CLOSE, b"\x03\xe8")
        eventually("the place", self._try)

    def _try(self) -> bool:
        try:
            self.client()
        except Refused:
            return False
        return True

    def test_who_reads_slowly_is_not_closed(self) -> None:
        """As long as all of it is taken in time, whatever it is together."""
        chat_id, turn_id = self.start_turn("say hi")
        self.direct.settled(chat_id, turn_id)
        view = self.direct.messages(chat_id).transcript_view_id
        slow = self.client(receive_buffer=4_096)
        added = 150
        for _ in range(added):
            self.add_row(chat_id, view)
            slow.frames_now()
        self.assertGreater(slow.received, 4 * MIB)
        slow.ask({"type": "ws-ping", "clientRequestId": "p", "sentAt": 1})
        self.assertNotIn("a browser socket was closed", self.controller.output.text())

    def test_what_a_client_asks_for_does_not_close_it(self) -> None:
        """It is sent page after page as it takes them, however many it asks for at once."""
        chat_id, turn_id = self.start_turn("say hi")
        self.direct.settled(chat_id, turn_id)
        view = self.direct.messages(chat_id).transcript_view_id
        for _ in range(20):
            self.add_row(chat_id, view)
        client = self.client(receive_buffer=4_096)
        for n in range(12):
            client.send(
                {
                    "type": "chat-subscribe",
                    "clientRequestId": f"page-{n}",
                    "chatId": chat_id,
                    "transcriptViewId": view,
                    "afterOrdinal": 0,
                }
            )
        got = {client.json()["clientRequestId"] for _ in range(12)}
        self.assertEqual(got, {f"page-{n}" for n in range(12)})

    def add_row(self, chat_id: str, view: str) -> None:
        """Add a row that compression makes hardly smaller."""
        body = {
            "clientRequestId": self.direct.request_id(),
            "clientMessageId": self.direct.request_id(),
            "chatId": chat_id,
            "transcriptViewId": view,
            "content": base64.b64encode(os.urandom(49_000)).decode(),
            "type": "info",
        }
        self.direct.asked(operations.ADD_ROW, body)
