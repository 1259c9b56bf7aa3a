"""The cast of the chats' tests: a store, an executor that the test plays, and the operations
through their one door.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec
from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract import operations
from garcon.contract.events import Event
from garcon.contract.operations import Operation
from garcon.controller.chats.service import Chats
from garcon.controller.events import Publisher
from garcon.controller.handlers import Answer, Handlers
from garcon.controller.principals import LOCAL_PRINCIPAL, Principal
from garcon.controller.providers.offers import Offers
from garcon.store.interfaces import IStore
from garcon.store.sqlite import SqliteStore
from garcon.test.controller.chats.codes import check_failure
from garcon.testing.fake_runtime import FakeExecutors, FakeRuntime
from garcon.testing.inline_threads import InlinePool, InlineReactor
from garcon.testing.memory_store import MemoryStore

CHAT, OTHER = "1767000000000001", "1767000000000002"
WORKER = "11111111-1111-4111-8111-111111111111"
INSTANCE = "instance-1"
SETTINGS = {"ownerId": "scripted", "schemaVersion": 1, "values": {}}


@frozen
class Said:
    """An answer, decoded."""

    status: int
    body: Any
    headers: dict[str, str]

    @property
    def code(self) -> str | None:
        """The error code, if it is an error."""
        code: str | None = self.body.get("errorCode")
        return code

    @property
    def failure(self) -> tuple[int, str | None, bool | None]:
        """Status, code and retryability."""
        return self.status, self.code, self.body.get("retryable")


def said(answer: Answer) -> Said:
    """Decode an answer."""
    return Said(answer.status, msgspec.json.decode(answer.body), answer.headers)


def judged(answer: Answer) -> Said:
    """Decode an answer of a chats' operation; an error is one of those that may be."""
    decoded = said(answer)
    if decoded.status >= 400:
        check_failure(decoded.status, decoded.body)
    return decoded


class ChatsTestCase(SynchronousTestCase):
    """One controller's chats; `restart` makes another process over the same store."""

    offers: Offers | None = None
    """What profiles add to the agents, where a test has some."""

    def setUp(self) -> None:
        self.base = os.path.realpath(self.mktemp())
        os.makedirs(f"{self.base}/p")
        self.store = self.make_store()
        self.successResultOf(self.store.open())
        self.clock = Clock()
        self.time = 1_767_323_045.0
        self.requests = 0
        self.open_process()

    def make_store(self) -> IStore:
        """Make the store of the test."""
        return MemoryStore()

    @property
    def memory(self) -> MemoryStore:
        """The store, where it is the double."""
        assert isinstance(self.store, MemoryStore)
        return self.store

    def open_process(self, instance: str = INSTANCE) -> None:
        """Begin a controller process: everything but the store is new."""
        self.local, self.worker = FakeRuntime(self.base), FakeRuntime(self.base)
        self.executors = FakeExecutors({"local": self.local, WORKER: self.worker})
        self.publisher = Publisher()
        self.told: list[Event] = []
        """What this process has published."""
        self.publisher.subscribe(self.told.append)
        self.chats = Chats(
            self.store,
            self.executors,
            instance,
            self.clock,
            self.base,
            publisher=self.publisher,
            offers=self.offers,
            wall_clock=lambda: self.time + self.clock.seconds(),
        )
        self.successResultOf(self.chats.load())
        self.handlers = Handlers()
        self.chats.register(self.handlers)

    def restart(self, instance: str = "instance-2") -> None:
        """Lose the process, keep the store."""
        self.open_process(instance)

    # Asking

    def ask(
        self,
        operation: Operation,
        body: dict[str, Any] | None = None,
        query: dict[str, Any] | None = None,
        principal: Principal = LOCAL_PRINCIPAL,
    ) -> Deferred[Said]:
        """Ask through the handlers, as both doors do."""
        pairs = [(name, str(value)) for name, value in (query or {}).items()]
        decode = judged if operation.route.path.startswith("/api/v1/chats") else said
        return self.handlers.run(operation, principal, query=pairs, body=body).addCallback(decode)

    def asked(self, *args: Any, **more: Any) -> Said:
        """Ask for something that is answered at once."""
        answer: Said = self.successResultOf(self.ask(*args, **more))
        return answer

    def request_id(self) -> str:
        """Return a request id nobody used."""
        self.requests += 1
        return f"request-{self.requests}"

    def start_body(self, **more: Any) -> dict[str, Any]:
        """Return a start that is in order."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": "m-start",
            "chatId": CHAT,
            "agentId": "scripted",
            "projectPath": f"{self.base}/p",
            "model": "scripted",
            "agentSettings": SETTINGS,
            "command": "hello",
        }
        return body | more

    def start(self, **more: Any) -> Said:
        """Start a chat."""
        return self.asked(operations.START_CHAT, self.start_body(**more))

    def started(self, **more: Any) -> str:
        """Start a chat whose first turn ends at once; returns its view id."""
        answer = self.start(**more)
        self.assertEqual(answer.status, 202, answer.body)
        run = self.runtime_of(more).last
        run.session("agent-session")
        run.say("hi")
        run.finish()
        view: str = self.messages(answer.body["chatId"]).body["transcriptViewId"]
        return view

    def runtime_of(self, body: dict[str, Any]) -> FakeRuntime:
        """Return the executor a start meant."""
        return self.worker if body.get("executorId") == WORKER else self.local

    def run_body(self, view: str, **more: Any) -> dict[str, Any]:
        """Return a run that is in order."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": f"m-{self.requests}",
            "chatId": CHAT,
            "transcriptViewId": view,
            "command": "again",
        }
        return body | more

    def run_chat(self, view: str, **more: Any) -> Said:
        """Run a turn."""
        return self.asked(operations.RUN_CHAT, self.run_body(view, **more))

    def stop(self, **more: Any) -> Deferred[Said]:
        """Stop the chat's turn."""
        body = {"clientRequestId": self.request_id(), "chatId": CHAT}
        return self.ask(operations.STOP_CHAT, body | more)

    # Reading

    def messages(self, chat_id: str = CHAT, **query: Any) -> Said:
        """Read a page."""
        return self.asked(operations.MESSAGES, query={"chatId": chat_id} | query)

    def kinds(self, chat_id: str = CHAT) -> list[tuple[int, str, Any]]:
        """Return the transcript as ordinal, type and text."""
        page = self.messages(chat_id, limit=200).body
        return [
            (one["ordinal"], one["message"]["type"], one["message"].get("content"))
            for one in page["messages"]
        ]

    def snapshot(self, chat_id: str = CHAT, **query: Any) -> Said:
        """Observe a chat."""
        return self.asked(operations.SNAPSHOT, query={"chatId": chat_id} | query)

    def phase(self, chat_id: str = CHAT) -> Any:
        """Return the processing phase."""
        return self.snapshot(chat_id, limit=0).body["processingPhase"]

    def listed(self) -> list[dict[str, Any]]:
        """Return the chat list's entries."""
        sessions: list[dict[str, Any]] = self.asked(operations.LIST_CHATS).body["sessions"]
        return sessions

    def receipt(self, turn_id: str, chat_id: str = CHAT) -> Said:
        """Return a turn's receipt."""
        query = {"chatId": chat_id, "turnId": turn_id}
        return self.asked(operations.TURN_RECEIPT, query=query)


class HeldStoreTestCase(ChatsTestCase):
    """Over a file; with `pool.held` set, `pool.run_next` does one commit or read at a time."""

    def make_store(self) -> IStore:
        self.pool = InlinePool()
        return SqliteStore(self.mktemp(), InlineReactor(), self.pool)

    def tearDown(self) -> None:
        while len(self.pool):
            self.pool.run_next()
        self.pool.held = False
        self.successResultOf(self.store.close())
