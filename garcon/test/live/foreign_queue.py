"""The cast of the compatibility tests that queue things."""

from __future__ import annotations

from typing import Any

from garcon.test.live.foreign import ForeignCase, Provider
from garcon.testing.fleet import eventually
from garcon.testing.foreign_client import command

ENTRIES = "/chats/queue/entries"
NOT_FOUND = (404, "QUEUE_ENTRY_NOT_FOUND", False)
SENT = (409, "QUEUE_ENTRY_ALREADY_SENT", False)
REVISION = (409, "QUEUE_ENTRY_REVISION_CONFLICT", False)
REORDER = (409, "QUEUE_ENTRY_REORDER_CONFLICT", False)


class QueueCase(ForeignCase):
    """Chats whose turn is held while things are queued behind it."""

    def contents(self, chat_id: str) -> list[str]:
        """What waits, in its order."""
        return [one["content"] for one in self.client.queue(chat_id)["entries"]]

    def entries(self, chat_id: str) -> dict[str, dict[str, Any]]:
        """What waits, by its content."""
        return {one["content"]: one for one in self.client.queue(chat_id)["entries"]}

    def held_with(
        self, *texts: str, provider: Provider | None = None
    ) -> tuple[dict[str, Any], str]:
        """Begin a turn that waits at the gate `go`, and queue texts behind it."""
        turn = self.held("first", "go", provider)
        for text in texts:
            self.client.enqueue(turn["chatId"], text)
        return turn, turn["chatId"]

    def users(self, chat_id: str) -> list[str]:
        """The user's rows."""
        return [text for kind, text in self.client.said(chat_id) if kind == "user-message"]

    def await_idle(self, chat_id: str) -> None:
        """Wait until nothing runs in a chat and nothing waits."""
        eventually(
            "the end of the queue",
            # In this order: what has left the queue is being processed, or was.
            lambda: not self.contents(chat_id) and not self.client.entry(chat_id)["isProcessing"],
        )

    def await_text(self, chat_id: str, content: str) -> None:
        """Wait until an input is in the transcript."""
        eventually(f"the input {content}", lambda: content in self.users(chat_id))

    def move(self, chat_id: str, what: str, where: str, target: str, **more: Any) -> dict[str, Any]:
        """Return the body that moves an entry."""
        found, queue = self.entries(chat_id), self.client.queue(chat_id)
        body = command(
            chatId=chat_id,
            entryId=found[what]["id"],
            targetEntryId=found[target]["id"],
            placement=where,
            expectedReorderRevision=queue["reorderRevision"],
            expectedSourceRevision=found[what]["revision"],
            expectedTargetRevision=found[target]["revision"],
        )
        return body | more
