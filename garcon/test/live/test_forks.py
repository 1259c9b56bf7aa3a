"""Forks and continuations as strict clients see them: at both endpoints, of chats on Local and on a
worker, over crashes (chats.md 3.6 to 3.8, 5.8, 5.10).
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from typing import Any

from garcon.contract import operations
from garcon.contract.events import ChatMessages, ListRefreshRequested, ProcessingUpdated
from garcon.test.live.strict import StrictTestCase
from garcon.testing.fleet import eventually
from garcon.testing.strict_client import StrictClient

CONFLICT = (409, "IDEMPOTENCY_CONFLICT", False)


class ForkCase(StrictTestCase):
    """What the tests of forks ask again and again."""

    def contents(self, client: StrictClient, chat_id: str) -> list[Any]:
        """What was said in a chat, and by whom: its rows, by type and content."""
        return [
            (one.message.__struct_config__.tag, getattr(one.message, "content", None))
            for one in client.all_messages(chat_id, 200)
        ]

    def said_of(self, chat_id: str) -> list[str]:
        """The types of what the socket has heard of a chat by now."""
        self.socket.ping()
        return [
            str(one.__struct_config__.tag)
            for one in self.socket.messages
            if getattr(one, "chat_id", None) == chat_id
        ]

    def go_on(self, client: StrictClient, chat_id: str, command: str, **more: Any) -> Any:
        """Run a turn of a chat to its end; returns its receipt."""
        view = client.messages(chat_id).transcript_view_id
        accepted = client.run(client.run_body(view, chat_id, command, **more))
        return client.settled(chat_id, accepted.turn_id)

    def crash(self, *, linked: bool = True) -> None:
        """Kill the controller and start its successor on the same directories and port; wait until
        the worker is `linked` to it.
        """
        port = self.controller.port
        self.controller.kill()
        self.controller = self.fleet.controller(port=port)
        if linked:
            self.fleet.await_executor(self.controller, self.executor_id)
        own = self.controller.descriptor()
        self.direct = StrictClient(own["baseUrl"], own["localCapability"])
        self.gateway.instance = self.instance = own["instanceId"]

    def crash_during(
        self, body: dict[str, Any], operation: operations.Operation, *, linked: bool = True
    ) -> int | None:
        """Send a command and kill the controller at some moment after; returns what was answered,
        None where nothing was.
        """
        answered: list[int] = []

        def ask() -> None:
            try:
                answered.append(self.direct.ask(operation, body).status)
            except (OSError, http.client.HTTPException):
                pass  # the controller was killed before it could answer

        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(random.uniform(0.0, 0.03))
        self.controller.process.kill()
        asking.join()
        self.crash(linked=linked)
        return answered[0] if answered else None


class ForkTests(ForkCase):
    """Without a turn."""

    def test_a_fork_goes_on_by_itself(self) -> None:
        """It has the source's choices and conversation, numbered titles, and a life of its own; it
        is told of once, and the source not at all.
        """
        for client, executor_id in self.everywhere():
            chat, view, receipt = self.begun(
                client, executor_id, "say one\nsay two", tags=["a"], permissionMode="acceptEdits"
            )
            self.socket.turn_ended(chat, receipt.turn_id)
            source, heard = client.snapshot(chat), self.said_of(chat)
            last = client.messages(chat).last_ordinal
            forks = [client.fork(chat) for _ in range(2)]
            for number, entry in enumerate(forks, 1):
                self.assertEqual(entry.title, f"say one ({number})")
                self.assertEqual((entry.executor_id, entry.tags), (executor_id, ["a"]))
                self.assertEqual(entry.permission_mode, "acceptEdits")
                self.assertNotEqual(entry.agent_ownership_epoch, source.chat.agent_ownership_epoch)
                assert entry.parent_chat is not None
                self.assertEqual(
                    (entry.parent_chat.chat_id, entry.parent_chat.relation), (chat, "fork")
                )
                self.assertEqual(
                    (entry.parent_chat.transcript_view_id, entry.parent_chat.ordinal), (view, last)
                )
                self.assertEqual(self.said_of(entry.id), ["chat-list-refresh-requested"])
            self.assertEqual([entry.id for entry in client.chats()[:2]], [forks[1].id, forks[0].id])
            self.assertEqual(self.said_of(chat), heard)
            said = [
                ("user-message", "say one\nsay two"),
                ("assistant-message", "one"),
                ("assistant-message", "two"),
            ]
            for entry in forks:
                self.assertEqual(self.contents(client, entry.id), said)
            self.go_on(client, forks[0].id, "say three")
            self.go_on(client, chat, "say four")
            more = [("user-message", "say three"), ("assistant-message", "three")]
            self.assertEqual(self.contents(client, forks[0].id), said + more)
            self.assertEqual(self.contents(client, forks[1].id), said)
            again = client.fork(forks[0].id)
            self.assertEqual(self.contents(client, again.id), said + more)
            self.assertEqual(
                client.refused(operations.FORK, {"sourceChatId": chat, "chatId": again.id}),
                CONFLICT,
            )

    def test_a_fork_up_to_a_row(self) -> None:
        """That row included; another view and a row that is not there are refused."""
        for client, executor_id in self.everywhere():
            chat, view, _ = self.begun(client, executor_id, "say one")
            self.go_on(client, chat, "say two")
            rows = client.all_messages(chat, 200)
            for row in rows:
                entry = client.fork(chat, upToOrdinal=row.ordinal, transcriptViewId=view)
                copied = self.contents(client, entry.id)
                wanted = self.contents(client, chat)[: rows.index(row) + 1]
                self.assertEqual(copied, wanted)
                texts = [content for _, content in wanted]
                self.assertEqual(entry.preview.last_message, texts[-1])
            last = client.messages(chat).last_ordinal
            body = {"sourceChatId": chat, "chatId": str(time.time_ns() // 1_000)}
            body |= {"upToOrdinal": last + 1, "transcriptViewId": view}
            failure = (422, "TRANSCRIPT_UNAVAILABLE", False)
            self.assertEqual(client.refused(operations.FORK, body), failure)
            body |= {"upToOrdinal": 1, "transcriptViewId": "another"}
            failure = (409, "STALE_TRANSCRIPT_VIEW", True)
            self.assertEqual(client.refused(operations.FORK, body), failure)

    def test_a_fork_of_a_chat_that_runs(self) -> None:
        """Never shows on the source; what nobody answered there is sent with its first input
        (5.2.4, 5.4).
        """
        for client, executor_id in self.everywhere():
            started = client.start(client.start_body(executor_id, self.project, "sleep 60"))
            chat = started.chat_id
            entry = client.fork(chat)
            self.assertIsNone(entry.processing_phase)
            self.assertEqual(client.snapshot(chat, 0).processing_phase, "running")
            [candidate] = client.messages(entry.id).resend_candidates
            self.assertEqual(candidate.content, "sleep 60")
            receipt = self.go_on(client, entry.id, "hello")
            self.assertEqual(receipt.output.text, "You said: sleep 60\n\nhello")
            self.socket.ping()
            phases = [event.phase for event in self.socket.heard(ProcessingUpdated, chat)]
            self.assertEqual(phases, ["running"])
            client.stop({"clientRequestId": client.request_id(), "chatId": chat})

    def test_an_executor_that_is_away(self) -> None:
        """A copy needs only the controller; its first turn needs the executor."""
        chat, _, _ = self.begun(self.direct, self.executor_id, "say one")
        self.worker.kill()

        def is_gone() -> bool:
            body = self.direct.start_body(self.executor_id, self.project, "say hi")
            return self.direct.ask(operations.START_CHAT, body).status == 503

        eventually("the loss of the worker", is_gone)
        entry = self.direct.fork(chat)
        self.assertEqual(entry.executor_id, self.executor_id)
        body = self.direct.made_body(chat, "say two")
        failure = (503, "EXECUTOR_UNAVAILABLE", True)
        self.assertEqual(self.direct.refused(operations.FORK_RUN, body), failure)
        self.assertEqual([one.id for one in self.direct.chats()], [entry.id, chat])


class ForkRunTests(ForkCase):
    """With a turn, as one unit."""

    def test_one_command_makes_the_chat_and_runs_it(self) -> None:
        """Once: replays answer the same turn, and other content under the id conflicts."""
        for client, executor_id in self.everywhere():
            chat, _, _ = self.begun(client, executor_id, "say one")
            body = client.made_body(chat, "say two", thinkingMode="think", permissionMode="bogus")
            accepted = client.make(operations.FORK_RUN, body)
            assert accepted.chat is not None and accepted.parent_chat is not None
            self.assertEqual(accepted.chat.processing_phase, "running")
            self.assertEqual(accepted.parent_chat.relation, "fork")
            receipt = client.settled(body["chatId"], accepted.turn_id)
            self.assertEqual(receipt.output.assistant_messages, ["two"])  # type: ignore[union-attr]
            self.socket.turn_ended(body["chatId"], accepted.turn_id)
            said = self.contents(client, body["chatId"])
            self.assertEqual([text for _, text in said], ["say one", "one", "say two", "two"])
            again = client.make(operations.FORK_RUN, body | {"allowHandoffFork": True}, "duplicate")
            self.assertEqual(again.turn_id, accepted.turn_id)
            self.assertEqual(again.accepted_at, accepted.accepted_at)
            for change in ({"command": "say three"}, {"clientRequestId": client.request_id()}):
                self.assertEqual(client.refused(operations.FORK_RUN, body | change), CONFLICT)
            self.assertEqual(self.contents(client, body["chatId"]), said)
            self.assertEqual(
                self.said_of(body["chatId"])[:3],
                ["chat-processing-updated", "chat-messages", "chat-list-refresh-requested"],
            )
            refreshed = self.socket.heard(ListRefreshRequested, body["chatId"])
            self.assertEqual([event.reason for event in refreshed], ["chat-added"])
            self.assertEqual(self.socket.heard(ChatMessages, body["chatId"])[0].first_ordinal, 3)

    def test_what_is_refused_makes_no_chat(self) -> None:
        """Nor is anything told of it."""
        for client, executor_id in self.everywhere():
            chat, _, _ = self.begun(client, executor_id, "say one")
            for change, failure in (
                ({"sourceChatId": "1700000000000001"}, (404, "SESSION_NOT_FOUND", False)),
                (
                    {"permissionMode": "plan", "thinkingMode": "x", "apiProviderId": "p"},
                    (400, "VALIDATION_FAILED", False),
                ),
                (
                    {"model": "m", "modelProtocol": "openai-compatible"},
                    (422, "VALIDATION_FAILED", False),
                ),
                ({"command": "\n"}, (400, "VALIDATION_FAILED", False)),
                ({"chatId": chat}, (400, "VALIDATION_FAILED", False)),
            ):
                body = client.made_body(chat, "say two") | change
                self.assertEqual(client.refused(operations.FORK_RUN, body), failure, change)
                if body["chatId"] != chat:
                    self.assertEqual(self.said_of(body["chatId"]), [])
            self.assertEqual(client.chats()[0].id, chat)

    def test_a_crash_leaves_the_whole_or_nothing(self) -> None:
        """At whatever moment; the same command afterwards sees it through, once."""
        chat, _, _ = self.begun(self.direct, "local", "say one")
        for _ in range(6):
            body = self.direct.made_body(chat, "say two")
            answered = self.crash_during(body, operations.FORK_RUN, linked=False)
            made = [entry.id for entry in self.direct.chats() if entry.id == body["chatId"]]
            if answered is not None:
                self.assertEqual((answered, made), (202, [body["chatId"]]))
            if made:
                texts = [text for _, text in self.contents(self.direct, body["chatId"])]
                self.assertEqual(texts[:3], ["say one", "one", "say two"])
            status = "duplicate" if made else "accepted"
            again = self.direct.make(operations.FORK_RUN, body, status)
            receipt = self.direct.settled(body["chatId"], again.turn_id)
            self.assertEqual(receipt.state, "completed")
            texts = [text for _, text in self.contents(self.direct, body["chatId"])]
            self.assertEqual(texts.count("say two"), 1)


class ContinuationTests(ForkCase):
    """A successor that keeps the agent; only direct clients may ask for one."""

    def test_the_successor(self) -> None:
        """The source's title, its conversation, and a turn; the source is as it was."""
        client = self.direct
        for executor_id in ("local", self.executor_id):
            chat, _, _ = self.begun(client, executor_id, "say one", tags=["t"])
            before = self.contents(client, chat)
            body = client.made_body(chat, "say two")
            accepted = client.make(operations.HANDOFF_RUN, body)
            assert accepted.chat is not None and accepted.parent_chat is not None
            self.assertEqual((accepted.chat.title, accepted.chat.tags), ("say one", ["t"]))
            self.assertEqual(accepted.parent_chat.relation, "handoff")
            client.settled(body["chatId"], accepted.turn_id)
            texts = [text for _, text in self.contents(client, body["chatId"])]
            self.assertEqual(texts, ["say one", "one", "say two", "two"])
            self.assertEqual(self.contents(client, chat), before)
            client.asked(operations.DELETE_CHAT, {"chatId": chat})
            again = client.make(operations.HANDOFF_RUN, body, "duplicate")
            self.assertEqual(again.turn_id, accepted.turn_id)
            other = client.made_body(chat, "say two")
            failure = (404, "SESSION_NOT_FOUND", False)
            self.assertEqual(client.refused(operations.HANDOFF_RUN, other), failure)

    def test_a_source_that_runs(self) -> None:
        """Is busy; through a worker's gateway there is no such operation."""
        body = self.direct.start_body("local", self.project, "sleep 60")
        chat = self.direct.start(body).chat_id
        body = self.direct.made_body(chat, "say two")
        failure = (409, "SESSION_BUSY", True)
        self.assertEqual(self.direct.refused(operations.HANDOFF_RUN, body), failure)
        denied = (403, "CLI_ACCESS_DENIED", False)
        self.assertEqual(self.gateway.refused(operations.HANDOFF_RUN, body), denied)
