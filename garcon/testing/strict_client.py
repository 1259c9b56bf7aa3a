"""A client that believes nothing: every answer must be exactly what the contract says, key for key.

It asks a controller directly or through a worker's gateway, and blocks.  What decodes is encoded
again and compared, so that a key too many, a key too few and a null out of place are all seen; then
come the rules that no type says (`strict_rules`).
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import uuid4

import msgspec
from attrs import define, field

from garcon.contract import operations
from garcon.contract.chats import (
    ChatListEntry,
    ChatSnapshot,
    CommandAccepted,
    History,
    RunAccepted,
    StartAccepted,
    StopAccepted,
    TranscriptMessage,
    TurnReceipt,
)
from garcon.contract.forks import ForkRunAccepted
from garcon.contract.ids import is_uuid4
from garcon.contract.operations import Operation
from garcon.contract.queue_commands import (
    ChatControl,
    EntryAccepted,
    EntrySteered,
    SteerAccepted,
)
from garcon.contract.queues import ExecutionControl
from garcon.testing.fleet import eventually, expect
from garcon.testing.strict_rules import (
    Said,
    check_control,
    check_entry,
    check_page,
    check_receipt,
    check_snapshot,
    exactly,
    refusal,
    same,
)

WAIT = 60.0
_ENTRY_COMMANDS = {
    operations.REPLACE_ENTRY.route.key: "queue-entry-replace",
    operations.DELETE_ENTRY.route.key: "queue-entry-delete",
    operations.MOVE_ENTRY.route.key: "queue-entry-move",
}


@define(eq=False)
class StrictClient:
    """Asks one endpoint.  `instance` is the generation that a gateway wants named, else None."""

    url: str
    token: str
    instance: str | None = None
    _requests: int = field(default=0)

    # Any request

    def send(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Said:
        """Send one request over a connection of its own."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WAIT)
        own = {"Authorization": f"Bearer {self.token}"}
        if self.instance is not None:
            own["X-Garcon-Server-Instance"] = self.instance
        if body is not None:
            own["Content-Type"] = "application/json"
        try:
            connection.request(method, target, body, {**own, **(headers or {})})
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Said(answer.status, names, answer.read())
        finally:
            connection.close()

    def ask(
        self,
        operation: Operation,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | Sequence[tuple[str, str]] = (),
    ) -> Said:
        """Ask for an operation; whatever is answered has the headers its operation wants."""
        target = operation.route.path + ("?" + urlencode(query) if query else "")
        content = None if body is None else json.dumps(body).encode()
        said = self.send(operation.route.method, target, content)
        same(said.headers.get("content-type"), "application/json", f"type of {target}")
        if operation.no_store:
            same(said.headers.get("cache-control"), "no-store", f"caching of {target}")
        return said

    def asked(
        self,
        operation: Operation,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | Sequence[tuple[str, str]] = (),
    ) -> Any:
        """Ask for what must succeed; returns the reply, decoded."""
        said = self.ask(operation, body, query)
        expect(said.status == operation.status, f"{operation.route}: {said}")
        return exactly(said.body, operation.reply)

    def refused(
        self,
        operation: Operation,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | Sequence[tuple[str, str]] = (),
    ) -> tuple[int, str, bool]:
        """Ask for what must fail; returns status, code and whether it may be tried again."""
        return refusal(self.ask(operation, body, query))

    def request_id(self) -> str:
        """Return an identity nobody used."""
        self._requests += 1
        return f"strict-{self._requests}-{uuid4()}"

    # Commands

    def start_body(self, executor_id: str, project: str, command: str, **more: Any) -> Any:
        """Return a start of the scripted agent that is in order."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": self.request_id(),
            "chatId": str(time.time_ns() // 1_000),
            "executorId": executor_id,
            "agentId": "scripted",
            "projectPath": project,
            "model": "scripted",
            "agentSettings": {"ownerId": "scripted", "schemaVersion": 1, "values": {}},
            "command": command,
        }
        return body | more

    def run_body(self, view: str, chat_id: str, command: str, **more: Any) -> Any:
        """Return a run that is in order."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": self.request_id(),
            "chatId": chat_id,
            "transcriptViewId": view,
            "command": command,
        }
        return body | more

    def start(self, body: Mapping[str, Any], status: str = "accepted") -> StartAccepted:
        """Start a chat; the same body again with ``duplicate``."""
        accepted: StartAccepted = self._turn(operations.START_CHAT, body, "chat-start", status)
        if accepted.chat is not None:
            check_entry(accepted.chat)
            same(accepted.chat.id, body["chatId"], "the chat")
        return accepted

    def run(self, body: Mapping[str, Any], status: str = "accepted") -> RunAccepted:
        """Run a turn; the same body again with ``duplicate``."""
        accepted: RunAccepted = self._turn(operations.RUN_CHAT, body, "agent-run", status)
        return accepted

    def made_body(self, source_id: str, command: str, **more: Any) -> Any:
        """Return a command in order that makes a chat of another one and runs it."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": self.request_id(),
            "sourceChatId": source_id,
            "chatId": str(time.time_ns() // 1_000),
            "command": command,
        }
        return body | more

    def make(
        self, operation: Operation, body: Mapping[str, Any], status: str = "accepted"
    ) -> ForkRunAccepted:
        """Fork a chat and run it, or continue it; the same body again with ``duplicate``."""
        said = self.ask(operation, body)
        expect(said.status == operation.status, f"{operation.route}: {said}")
        accepted: ForkRunAccepted = exactly(said.body, operation.reply)
        _accepted(accepted, body, "fork-run", status)
        expect(is_uuid4(accepted.turn_id), "a turn has a UUID")
        same(said.headers.get("location"), None, "location")
        if accepted.chat is not None:
            check_entry(accepted.chat)
            same(accepted.chat.id, body["chatId"], "the chat")
            same(accepted.chat.parent_chat, accepted.parent_chat, "the parent")
        return accepted

    def fork(self, source_id: str, **more: Any) -> ChatListEntry:
        """Fork a chat without running it."""
        body = {"sourceChatId": source_id, "chatId": str(time.time_ns() // 1_000)} | more
        made = self.asked(operations.FORK, body)
        same(made.success, True, "success")
        check_entry(made.chat)
        same(made.chat.id, body["chatId"], "the chat")
        entry: ChatListEntry = made.chat
        return entry

    def stop(self, body: Mapping[str, Any], status: str = "accepted") -> StopAccepted:
        """Stop a chat's turn."""
        accepted: StopAccepted = self.asked(operations.STOP_CHAT, body)
        _accepted(accepted, body, "agent-stop", status)
        expect(accepted.turn_id is msgspec.UNSET, "a stop has no turn")
        check_control(accepted.control, self.instance)
        return accepted

    # The queue, and further input

    def entry_body(self, view: str, chat_id: str, content: str, **more: Any) -> Any:
        """Return a queued message that is in order."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": self.request_id(),
            "chatId": chat_id,
            "transcriptViewId": view,
            "content": content,
        }
        return body | more

    def queue(self, chat_id: str) -> ExecutionControl:
        """Read a chat's queue."""
        read: ChatControl = self.asked(operations.READ_QUEUE, query={"chatId": chat_id})
        return self._control(read, chat_id)

    def create(self, body: Mapping[str, Any], status: str = "accepted") -> EntryAccepted:
        """Queue a message."""
        return self._entry(operations.CREATE_ENTRY, body, "queue-entry-create", status)

    def change(
        self, operation: Operation, entry_id: str, chat_id: str, **more: Any
    ) -> EntryAccepted:
        """Edit, move or take out an entry."""
        body = {"clientRequestId": self.request_id(), "chatId": chat_id, "entryId": entry_id}
        return self._entry(operation, body | more, _ENTRY_COMMANDS[operation.route.key], "accepted")

    def hold(self, operation: Operation, chat_id: str, **more: Any) -> ExecutionControl:
        """Pause, resume or clear."""
        held: ChatControl = self.asked(operation, {"chatId": chat_id, **more})
        return self._control(held, chat_id)

    def steer(self, body: Mapping[str, Any], status: str = "accepted") -> SteerAccepted:
        """Give a turn further input; the body is that of a queued message."""
        accepted: SteerAccepted = self.asked(operations.STEER, body)
        _accepted(accepted, body, "steer", status)
        expect(is_uuid4(accepted.turn_id), "the turn that was joined")
        return accepted

    def steer_entry(self, body: Mapping[str, Any], status: str = "accepted") -> EntrySteered:
        """Give a turn the head of the queue."""
        accepted: EntrySteered = self.asked(operations.STEER_ENTRY, body)
        _accepted(accepted, body, "steer", status)
        expect(is_uuid4(accepted.turn_id), "the turn that was joined")
        assert isinstance(accepted.control, ExecutionControl)
        check_control(accepted.control, self.instance)
        same(accepted.server_instance_id, accepted.control.server_instance_id, "the instance")
        return accepted

    def _entry(
        self, operation: Operation, body: Mapping[str, Any], command_type: str, status: str
    ) -> EntryAccepted:
        accepted: EntryAccepted = self.asked(operation, body)
        _accepted(accepted, body, command_type, status)
        expect(accepted.turn_id is msgspec.UNSET, "an entry has no turn")
        check_control(accepted.control, self.instance)
        return accepted

    def _control(self, read: ChatControl, chat_id: str) -> ExecutionControl:
        same((read.success, read.chat_id), (True, chat_id), "the chat")
        check_control(read.control, self.instance)
        return read.control

    def decide(self, body: Mapping[str, Any], status: str = "accepted") -> CommandAccepted:
        """Decide on a permission."""
        accepted: CommandAccepted = self.asked(operations.PERMISSION_DECISION, body)
        _accepted(accepted, body, "permission-decision", status)
        expect(accepted.turn_id is msgspec.UNSET, "a decision has no turn")
        return accepted

    def _turn(
        self, operation: Operation, body: Mapping[str, Any], command_type: str, status: str
    ) -> Any:
        said = self.ask(operation, body)
        expect(said.status == operation.status, f"{operation.route}: {said}")
        accepted = exactly(said.body, operation.reply)
        _accepted(accepted, body, command_type, status)
        expect(is_uuid4(accepted.turn_id), "a turn has a UUID")
        location = said.headers.get("location")
        # A gateway carries no headers; a controller names the receipt.
        if self.instance is None:
            path, _, query = (location or "").partition("?")
            same(path, operations.TURN_RECEIPT.route.path, "location")
            wanted = {"chatId": [body["chatId"]], "turnId": [accepted.turn_id]}
            same(parse_qs(query), wanted, "location")
        return accepted

    # Reading

    def chats(self) -> list[ChatListEntry]:
        """Read the chat list."""
        listed = self.asked(operations.LIST_CHATS)
        same(listed.total, len(listed.sessions), "total")
        ids = [entry.id for entry in listed.sessions]
        same(len(set(ids)), len(ids), "every chat once")
        for entry in listed.sessions:
            check_entry(entry)
        return list(listed.sessions)

    def messages(self, chat_id: str, **query: Any) -> History:
        """Read a page that must be whole."""
        page: History = self.asked(operations.MESSAGES, query={"chatId": chat_id, **query})
        same(page.chat_id, chat_id, "the chat")
        limit = min(int(query.get("limit", 20)), 200)
        same(page.limit, limit, "limit")
        before = query.get("beforeOrdinal")
        newest = page.last_ordinal if before is None else min(before, page.last_ordinal + 1) - 1
        same(page.page_newest_ordinal, newest, "pageNewestOrdinal")
        check_page(page, limit)
        ordinals = [one.ordinal for one in page.resend_candidates]
        same(ordinals, sorted(set(ordinals)), "candidates ascend")
        return page

    def all_messages(self, chat_id: str, limit: int) -> list[TranscriptMessage]:
        """Walk back from the end to the beginning; returns every message, oldest first."""
        page = self.messages(chat_id, limit=limit)
        found, view = list(page.messages), page.transcript_view_id
        while page.has_more:
            page = self.messages(
                chat_id,
                limit=limit,
                beforeOrdinal=page.next_before_ordinal,
                transcriptViewId=view,
            )
            same(page.transcript_view_id, view, "one view")
            found[:0] = page.messages
        ordinals = [one.ordinal for one in found]
        same(ordinals, sorted(set(ordinals)), "every message once")
        return found

    def snapshot(self, chat_id: str, limit: int = 10) -> ChatSnapshot:
        """Observe a chat."""
        query = {"chatId": chat_id, "limit": limit}
        snapshot: ChatSnapshot = self.asked(operations.SNAPSHOT, query=query)
        same(snapshot.chat.id, chat_id, "the chat")
        same(snapshot.message_limit, limit, "messageLimit")
        check_snapshot(snapshot, self.instance)
        return snapshot

    def receipt(self, chat_id: str, turn_id: Any) -> TurnReceipt:
        """Read a turn's receipt."""
        query = {"chatId": chat_id, "turnId": turn_id}
        receipt: TurnReceipt = self.asked(operations.TURN_RECEIPT, query=query)
        same((receipt.chat_id, receipt.turn_id), (chat_id, turn_id), "the turn")
        check_receipt(receipt)
        return receipt

    def settled(self, chat_id: str, turn_id: Any) -> TurnReceipt:
        """Wait until a turn is over."""

        def ended() -> TurnReceipt | None:
            receipt = self.receipt(chat_id, turn_id)
            return None if receipt.state == "pending" else receipt

        found: TurnReceipt = eventually("the end of a turn", ended)
        return found

    def permission(self, chat_id: str) -> dict[str, Any]:
        """Wait for a live permission request; returns the control tuple that decides it."""

        def asked() -> dict[str, Any] | None:
            feed = self.snapshot(chat_id, 0).transient_feed
            if not feed.rows:
                return None
            return {
                "serverInstanceId": feed.server_instance_id,
                "chatId": feed.chat_id,
                "runId": feed.rows[0].run_id,
                "permissionOccurrenceId": feed.rows[0].permission_occurrence_id,
            }

        found: dict[str, Any] = eventually("a permission request", asked)
        return found


def _accepted(
    accepted: CommandAccepted, body: Mapping[str, Any], command_type: str, status: str
) -> None:
    """The members that every accepted command has (chats.md 2.5)."""
    same(accepted.success, True, "success")
    same(accepted.command_type, command_type, "commandType")
    same(accepted.client_request_id, body["clientRequestId"], "clientRequestId")
    same(accepted.chat_id, body["chatId"], "chatId")
    same(accepted.status, status, "status")
