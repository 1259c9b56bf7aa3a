"""Users of chats, and what each of them may rely on: what was accepted, what was refused, and what
was asked for when the controller died.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from random import Random
from threading import Event, Thread
from typing import Any
from urllib.parse import urlencode, urlsplit

from attrs import define, field

from garcon.contract import operations
from garcon.contract.operations import Operation
from garcon.testing.quick_agent import QUICK

ANSWER_TIME = 20.0


class Lost(Exception):
    """The controller went away before it answered."""


@define(eq=False)
class Chat:
    """What its user knows of a chat.  Inputs are named by their message ids."""

    id: str
    view_id: str | None = None
    is_started: bool = False
    accepted: list[str] = field(factory=list)
    """In the order in which they were accepted."""
    queued: list[str] = field(factory=list)
    """Taken by the queue: in the transcript only where they were sent."""
    refused: list[str] = field(factory=list)
    rows: list[str] = field(factory=list)
    """Chat rows that were added."""
    forks: list[str] = field(factory=list)
    """Chats that were made of it."""
    held: str | None = None
    """The last input, while nothing can have answered it."""
    unknown: tuple[Operation, dict[str, Any]] | None = None
    """What was asked for and never answered."""


class Endpoint:
    """One controller, asked over a connection that stays."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=ANSWER_TIME
        )

    def ask(
        self,
        operation: Operation,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> tuple[int, Any]:
        """Return status and body, or raise `Lost`."""
        target = operation.route.path + ("?" + urlencode(query) if query else "")
        content = None if body is None else json.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            self._connection.request(operation.route.method, target, content, headers)
            answer = self._connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            self._connection.close()
            raise Lost() from None

    def close(self) -> None:
        """Give the connection up."""
        self._connection.close()


class User(Thread):
    """Does this and that in some chats, until the controller goes away or it is told to stop."""

    def __init__(self, url: str, project: str, chats: list[Chat], random: Random) -> None:
        super().__init__(daemon=True)
        self._endpoint = Endpoint(url)
        self._project = project
        self._chats = chats
        self._random = random
        self._number = 0
        self.over = Event()
        self.wrong: Exception | None = None

    def run(self) -> None:
        """Be busy."""
        try:
            while not self.over.is_set():
                self._do_something(self._random.choice(self._chats))
        except Lost:
            pass
        except Exception as error:
            self.wrong = error
        finally:
            self._endpoint.close()

    def _do_something(self, chat: Chat) -> None:
        if not chat.is_started:
            self._start_chat(chat)
            return
        (deed,) = self._random.choices(
            (self._run, self._stop_turn, self._queue, self._interrupt, self._add_row, self._fork),
            (60, 12, 12, 5, 8, 3),
        )
        deed(chat)

    def _id(self, chat: Chat) -> str:
        self._number += 1
        return f"{chat.id}-{self._number}-{self._random.getrandbits(64):x}"

    def _command(self, name: str) -> str:
        (wish,) = self._random.choices(
            ("hold", f"say {self._random.randint(1, 20)}", "nothing"), (20, 50, 30)
        )
        return f"{name}\n{wish}"

    def _asked(self, chat: Chat, operation: Operation, body: dict[str, Any]) -> tuple[int, Any]:
        chat.unknown = (operation, body)
        status, answer = self._endpoint.ask(operation, body)
        chat.unknown = None
        if status >= 500 and answer["errorCode"] != "SERVER_SHUTTING_DOWN":
            raise AssertionError(f"{operation.route}: {answer}")
        return status, answer

    def _input(self, chat: Chat, operation: Operation, body: dict[str, Any]) -> None:
        name = body["clientMessageId"]
        status, _ = self._asked(chat, operation, body)
        if status == 202:
            chat.accepted.append(name)
            chat.held = name if body["command"].endswith("\nhold") else None
        else:
            chat.refused.append(name)

    def _start_chat(self, chat: Chat) -> None:
        self._input(chat, operations.START_CHAT, self._start_body(chat))
        chat.is_started = bool(chat.accepted)
        if chat.is_started:
            status, page = self._endpoint.ask(
                operations.MESSAGES, query={"chatId": chat.id, "limit": 1}
            )
            assert status == 200, page
            chat.view_id = page["transcriptViewId"]

    def _start_body(self, chat: Chat) -> dict[str, Any]:
        name = self._id(chat)
        return {
            "clientRequestId": name,
            "clientMessageId": name,
            "chatId": chat.id,
            "agentId": QUICK,
            "projectPath": self._project,
            "model": QUICK,
            "agentSettings": {"ownerId": QUICK, "schemaVersion": 1, "values": {}},
            "command": self._command(name),
        }

    def _of(self, chat: Chat, name: str, **more: Any) -> dict[str, Any]:
        return {
            "clientRequestId": name,
            "clientMessageId": name,
            "chatId": chat.id,
            "transcriptViewId": chat.view_id,
            **more,
        }

    def _run(self, chat: Chat) -> None:
        name = self._id(chat)
        body = self._of(chat, name, command=self._command(name))
        self._input(chat, operations.RUN_CHAT, body)

    def _stop_turn(self, chat: Chat) -> None:
        body = {"clientRequestId": self._id(chat), "chatId": chat.id}
        self._asked(chat, operations.STOP_CHAT, body)

    def _interrupt(self, chat: Chat) -> None:
        body = {"clientRequestId": self._id(chat), "chatId": chat.id}
        self._asked(chat, operations.INTERRUPT_AND_SEND, body)
        chat.held = None  # what waited in the queue may have been sent

    def _queue(self, chat: Chat) -> None:
        name = self._id(chat)
        body = self._of(chat, name, content=self._command(name))
        # Sent or not, and whatever is answered: it is in the transcript once at most.
        chat.queued.append(name)
        chat.held = None
        status, _ = self._asked(chat, operations.CREATE_ENTRY, body)
        if status != 202:
            chat.queued.remove(name)
            chat.refused.append(name)

    def _add_row(self, chat: Chat) -> None:
        name = self._id(chat)
        body = self._of(chat, name, type="notice", content=name)
        status, answer = self._asked(chat, operations.ADD_ROW, body)
        if status == 200:
            chat.rows.append(name)
        else:
            assert status == 503, answer

    def _fork(self, chat: Chat) -> None:
        fork = f"19{self._random.randrange(10**14):014}"
        body = {"sourceChatId": chat.id, "chatId": fork, "clientRequestId": fork}
        status, answer = self._asked(chat, operations.FORK, body)
        if status == 200:
            chat.forks.append(fork)
        else:
            assert status == 503, answer
