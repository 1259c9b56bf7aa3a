"""A chat with a queue, and what is asked of it."""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.contract.events import (
    ChatMessages,
    ControlUpdated,
    ProcessingUpdated,
    RunFailed,
    RunFinished,
    SessionStopped,
)
from garcon.test.controller.chats.cast import CHAT, ChatsTestCase, Said


class QueueTestCase(ChatsTestCase):
    """An idle chat, ready for its second turn."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.told.clear()

    # Asking

    def create(self, content: str = "next", **more: Any) -> Said:
        """Queue a message."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": f"q-{self.requests}",
            "chatId": CHAT,
            "transcriptViewId": self.view,
            "content": content,
        }
        return self.asked(operations.CREATE_ENTRY, body | more)

    def queued(self, content: str = "next", **more: Any) -> str:
        """Queue a message; returns its entry's id."""
        answer = self.create(content, **more)
        self.assertEqual(answer.status, 202, answer.body)
        entry: str = answer.body["entryId"]
        return entry

    def entry_body(self, entry: str, **more: Any) -> dict[str, Any]:
        """Return what every command on an entry has."""
        return {"clientRequestId": self.request_id(), "chatId": CHAT, "entryId": entry} | more

    def replace(self, entry: str, content: str, revision: int = 1, **more: Any) -> Said:
        """Edit an entry."""
        body = self.entry_body(entry, content=content, expectedRevision=revision, **more)
        return self.asked(operations.REPLACE_ENTRY, body)

    def delete(self, entry: str, **more: Any) -> Said:
        """Take an entry out."""
        return self.asked(operations.DELETE_ENTRY, self.entry_body(entry, **more))

    def move(self, entry: str, placement: str, target: str, **more: Any) -> Said:
        """Reorder; who wishes it knows the order's and the entries' revisions of the beginning."""
        body = {
            "targetEntryId": target,
            "placement": placement,
            "expectedReorderRevision": 0,
            "expectedSourceRevision": 1,
            "expectedTargetRevision": 1,
        }
        return self.asked(operations.MOVE_ENTRY, self.entry_body(entry, **(body | more)))

    def pause(self) -> str:
        """Pause; returns the pause's id."""
        answer = self.asked(operations.PAUSE_QUEUE, {"chatId": CHAT})
        pause: str = answer.body["control"]["queue"]["pause"]["id"]
        return pause

    def resume(self, pause: str) -> Said:
        """Resume."""
        return self.asked(operations.RESUME_QUEUE, {"chatId": CHAT, "pauseId": pause})

    def clear(self) -> Said:
        """Take everything out."""
        return self.asked(operations.CLEAR_QUEUE, {"chatId": CHAT})

    # Seeing

    def control(self, chat_id: str = CHAT) -> Any:
        """Read the queue's route."""
        return self.asked(operations.READ_QUEUE, query={"chatId": chat_id}).body["control"]

    def waiting(self) -> list[str]:
        """Return the contents that wait."""
        return [entry["content"] for entry in self.control()["queue"]["entries"]]

    def pause_kind(self) -> str | None:
        """Return what holds the queue."""
        pause = self.control()["queue"]["pause"]
        return None if pause is None else pause["kind"]

    def prompts(self) -> list[str]:
        """Return what the agent was given, from the second turn on."""
        return [run.launch.prompt for run in self.local.runs[1:]]

    def order(self) -> list[str]:
        """Return what was told of the chat's work, in words."""
        words = []
        for event in self.told:
            match event:
                case ChatMessages(messages=messages):
                    words.append("rows" if messages else "hidden")
                case ProcessingUpdated(phase=phase):
                    words.append(f"phase {phase}")
                case RunFinished():
                    words.append("finished")
                case RunFailed():
                    words.append("failed")
                case SessionStopped(outcome=outcome, intent=intent):
                    words.append(f"{intent}: {outcome}")
                case ControlUpdated(control=control):
                    words.append(f"control {control.version}")
        return words
