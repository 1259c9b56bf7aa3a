"""The cast of the live tests of terminals: a browser that has some, over HTTP and its socket."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from attrs import define, field

from garcon.test.live.browser import SocketCase
from garcon.test.live.test_controller import API, Answer, ask
from garcon.testing.foreign_terminals import TerminalJudgement, check_terminal
from garcon.testing.websocket_client import WebSocketClient

PATH = f"{API}/terminals"
WAIT = 30.0
_OUTPUT = {"terminal-output", "terminal-replay-batch", "terminal-output-fragment"}


@define(eq=False)
class TerminalClient:
    """One browser's socket and what it has of terminals, judged message by message."""

    socket: WebSocketClient
    client_id: str = field(factory=lambda: str(uuid4()))
    judgement: TerminalJudgement = field(factory=TerminalJudgement)
    attachments: dict[str, str] = field(factory=dict)
    seen: list[dict[str, Any]] = field(factory=list)
    """Every message about terminals but output."""

    @property
    def texts(self) -> dict[str, str]:
        """What came of each terminal."""
        return self.judgement.texts

    @property
    def last(self) -> dict[str, int]:
        """The number that each terminal has come to here."""
        return self.judgement.last

    # -- saying

    def attach(
        self, terminal_id: str, *, after: int | None = None, intent: str = "restore", **more: Any
    ) -> str:
        """Ask for a terminal, from where this client is."""
        attachment_id = self.attachments[terminal_id] = str(uuid4())
        self.send(
            type="terminal-attach",
            terminalId=terminal_id,
            clientId=self.client_id,
            afterSequence=self.last.get(terminal_id, 0) if after is None else after,
            intent=intent,
            attachmentId=attachment_id,
            **more,
        )
        return attachment_id

    def say(self, kind: str, terminal_id: str, **more: Any) -> None:
        """Send something about the present attachment, or about none that it has."""
        if terminal_id in self.attachments:
            more = {"attachmentId": self.attachments[terminal_id], **more}
        self.send(type=f"terminal-{kind}", terminalId=terminal_id, **more)

    def send(self, **message: Any) -> None:
        """Send a message."""
        self.judgement.asked(message)
        self.socket.send(message)

    def type(self, terminal_id: str, text: str) -> None:
        """Type something."""
        self.say("input", terminal_id, data=text)

    # -- hearing

    def take(self, seconds: float = WAIT) -> dict[str, Any]:
        """Take the next message, whatever it is."""
        raw = self.socket.message(seconds)
        message: dict[str, Any] = json.loads(raw)
        if str(message.get("type")).startswith("terminal-"):
            self.judgement.heard(raw, message)
            if message["type"] not in _OUTPUT:
                self.seen.append(message)
        return message

    def until(self, holds: Callable[[], Any], what: str, seconds: float = WAIT) -> Any:
        """Take messages until something holds."""
        deadline = time.monotonic() + seconds
        while not (found := holds()):
            left = deadline - time.monotonic()
            assert left > 0, (what, {k: v[-300:] for k, v in self.texts.items()}, self.seen[-5:])
            try:
                self.take(left)
            except TimeoutError:
                shown = {k: v[-300:] for k, v in self.texts.items()}
                raise AssertionError(f"never came: {what}; {shown}; {self.seen[-5:]}") from None
        return found

    def heard(self, kind: str, seconds: float = WAIT, **fields: Any) -> dict[str, Any]:
        """Take messages until one of this kind came that was not asked for before."""

        def found() -> dict[str, Any] | None:
            for message in self.seen:
                if message["type"] == f"terminal-{kind}" and all(
                    message.get(name) == value for name, value in fields.items()
                ):
                    self.seen.remove(message)
                    return message
            return None

        message: dict[str, Any] = self.until(found, f"{kind} {fields}", seconds)
        return message

    def shows(self, terminal_id: str, text: str, seconds: float = WAIT) -> str:
        """Take messages until the terminal shows some text."""
        self.until(lambda: text in self.texts.get(terminal_id, ""), repr(text), seconds)
        return self.texts[terminal_id]

    def enter(self, terminal_id: str, command: str, until: str, seconds: float = WAIT) -> str:
        """Type a command and wait for some of its output; return what came meanwhile."""
        begin = len(self.texts.get(terminal_id, ""))
        self.type(terminal_id, command + "\n")
        self.until(lambda: until in self.texts.get(terminal_id, "")[begin:], repr(until), seconds)
        return self.texts[terminal_id][begin:]

    def ping(self) -> None:
        """Ask whether the controller answers, and miss nothing of what comes before."""
        request_id = str(uuid4())
        self.send(type="ws-ping", clientRequestId=request_id, sentAt=1)
        while self.take().get("clientRequestId") != request_id:
            pass

    def open(self, terminal_id: str) -> dict[str, Any]:
        """Attach, and make the shell's prompt and echo known."""
        self.attach(terminal_id)
        attached = self.heard("attached")
        self.enter(terminal_id, "PS1='% '; stty -echo; echo re''ady", "ready")
        return attached


class TerminalCase(SocketCase):
    """A controller, and browsers with terminals."""

    token: str | None = None

    def terminals(self, method: str, body: Any = None, query: str = "", **more: Any) -> Answer:
        """Ask one of the routes."""
        token = more.pop("token", self.token)
        return ask(self.controller.url, method, PATH + query, body, token, **more)

    def listed(self, query: str = "") -> dict[str, Any]:
        """List terminals."""
        answer = self.terminals("GET", query=query)
        self.assertEqual(answer.status, 200, answer.body)
        found: dict[str, Any] = answer.json
        return found

    def create(self, directory: str | None = None, **more: Any) -> dict[str, Any]:
        """Start a terminal."""
        body = {"requestId": str(uuid4()), "requestedInitialWorkingDirectory": directory, **more}
        answer = self.terminals("POST", body)
        self.assertEqual(answer.status, 201, answer.body)
        self.assertEqual(set(answer.json), {"success", "terminal"})
        terminal: dict[str, Any] = answer.json["terminal"]
        check_terminal(terminal)
        return terminal

    def new(self, **more: Any) -> str:
        """Start a terminal and return its name."""
        name: str = self.create(**more)["terminalId"]
        return name

    def failed(self, answer: Answer, status: int, code: str) -> None:
        """Check a failure's envelope."""
        self.assertEqual((answer.status, answer.json["errorCode"]), (status, code), answer.body)
        self.assertEqual(answer.json["success"], False)
        self.assertEqual(answer.json["retryable"], status >= 500)

    def browser(self, client_id: str | None = None, **more: Any) -> TerminalClient:
        """Open a browser's socket."""
        if self.token is not None:
            more.setdefault("token", self.token)
        client = TerminalClient(self.open(**more))
        if client_id is not None:
            client.client_id = client_id
        return client


class OpenCase(TerminalCase):
    """A controller without accounts."""

    def setUp(self) -> None:
        super().setUp()
        self.controller = self.start(auth=False)
