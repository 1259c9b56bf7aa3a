"""A browser's socket that believes nothing: a thread listens, and the first message that is not
exactly as the contract says fails whoever asks next.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import uuid4

from garcon.contract.events import (
    ChatMessages,
    ClientRequestError,
    Pong,
    ReconnectState,
    RunFailed,
    RunFinished,
    Subscribed,
)
from garcon.testing.fleet import expect
from garcon.testing.heard_socket import HeardSocket
from garcon.testing.strict_socket_rules import Hearing, Message
from garcon.testing.websocket_client import WAIT, WebSocketClient

T = TypeVar("T")


class StrictSocket(HeardSocket[Message]):
    """Listens to one controller until `close`, which also says whether all was well."""

    def __init__(self, url: str, *, is_newer: bool = False, **more: Any) -> None:
        protocols = ["garcon-v1", *(["garcon-v2"] if is_newer else [])]
        self.hearing = Hearing(is_newer)
        connection = WebSocketClient.open(url, protocols=protocols, **more)
        super().__init__(connection, self.hearing.heard)

    # Waiting

    def wait_for(
        self, what: str, find: Callable[[list[Message]], T | None], seconds: float = WAIT
    ) -> T:
        """Return what `find` sees in all that was heard, as soon as it sees something."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while (found := find(self.messages)) is None:
                self.check()
                left = deadline - time.monotonic()
                expect(left > 0 and not self._is_over, f"{what}: not heard")
                self._changed.wait(left)
            return found

    def heard(self, kind: type[T], chat_id: str | None = None) -> list[T]:
        """Return the messages of a kind so far."""
        with self._changed:
            found = [one for one in self.messages if isinstance(one, kind)]
        return [one for one in found if chat_id in (None, getattr(one, "chat_id", None))]

    def turn_ended(self, chat_id: str, turn_id: Any) -> RunFinished | RunFailed:
        """Wait for a turn's end."""

        def find(messages: list[Message]) -> Any:
            for one in messages:
                if isinstance(one, (RunFinished, RunFailed)) and one.turn_id == turn_id:
                    return one
            return None

        ended: Any = self.wait_for(f"the end of a turn of {chat_id}", find)
        expect(ended.chat_id == chat_id, "the turn's chat")
        return ended  # type: ignore[no-any-return]  # mypy joins the two into their base

    # Asking

    def send(self, message: dict[str, Any]) -> None:
        """Say something."""
        if isinstance(message.get("clientRequestId"), str):
            with self._changed:
                self.hearing.asked(message)
        with self._changed:
            self.hearing.terminals.asked(message)
        self.connection.send(message)

    def ask(self, kind: str, **fields: Any) -> Any:
        """Ask and wait for the answer."""
        request_id = f"strict-{uuid4()}"
        before = len(self.messages)
        self.send({"type": kind, "clientRequestId": request_id, **fields})

        def find(messages: list[Message]) -> Message | None:
            for one in messages[before:]:
                if getattr(one, "client_request_id", None) == request_id:
                    return one
            return None

        return self.wait_for(f"the answer to {kind}", find)

    def ping(self) -> Pong:
        """Ask whether anybody is there.  What was told before the answer has been heard."""
        pong: Pong = self.ask("ws-ping", sentAt=time.time_ns() // 1_000_000)
        return pong

    def reconnect(self, *chat_ids: str) -> ReconnectState:
        """Ask what the chats do."""
        state: ReconnectState = self.ask("reconnect-state-query", controlChatIds=list(chat_ids))
        return state

    def page(self, chat_id: str, view: str, after: int, through: int | None = None) -> Subscribed:
        """Read a page of a replay that must be there."""
        more = {} if through is None else {"throughOrdinal": through}
        answer = self.ask(
            "chat-subscribe", chatId=chat_id, transcriptViewId=view, afterOrdinal=after, **more
        )
        expect(isinstance(answer, Subscribed), str(answer))
        page: Subscribed = answer
        return page

    def refused(self, kind: str, **fields: Any) -> tuple[str, bool]:
        """Ask for what must fail; returns code and whether it may be tried again."""
        answer = self.ask(kind, **fields)
        expect(isinstance(answer, ClientRequestError), str(answer))
        return answer.code, answer.retryable

    def rows(self, chat_id: str) -> list[tuple[int, bytes]]:
        """Return the rows of a chat that were told of: ordinal and JSON."""
        told = self.heard(ChatMessages, chat_id)
        return [(row.ordinal, bytes(row.message)) for one in told for row in one.messages]
