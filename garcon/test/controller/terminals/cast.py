"""The cast of the tests of terminals on the browser socket, on this machine and behind a link."""

from __future__ import annotations

import json
from typing import Any

from attrs import define, field
from twisted.internet.task import Clock
from zope.interface import implementer

from garcon.contract.terminals import UNAVAILABLE, TerminalInfo, terminal_error, terminal_id
from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.principals import Principal
from garcon.controller.terminals.door import TerminalDoor
from garcon.controller.ws.socket import Socket
from garcon.test.controller.executors.terminal_cast import (
    Asking,
    LinkedCase,
    LocalCase,
    RuntimeWithTerminals,
)
from garcon.test.controller.ws.cast import FakeAnswers, FakeWire, new_socket, payload_of
from garcon.testing.foreign_terminals import TerminalJudgement

EPOCH = 1_800_000_000.0
"""The time of day at which the clocks of the tests begin."""


def short(code: str) -> str:
    """A code as the tests write it."""
    return code.removeprefix("terminal-")


@implementer(IExecutors)
@define(eq=False)
class OneExecutor:
    """Knows one runtime, whatever it is called."""

    where: str
    host: Any

    def existing(self, executor_id: str) -> Any:
        if executor_id != self.where:
            raise terminal_error(UNAVAILABLE, "unknown")
        return self.host

    def runtime(self, executor_id: str) -> Any:
        raise AssertionError("terminals do not ask whether it is ready")

    def availability(self, executor_id: str) -> Any:
        raise AssertionError("nor how ready it is")

    def snapshots(self) -> Any:
        raise AssertionError("nor for the others")


@define(eq=False)
class Browser:
    """A socket on a wire that remembers, judged message by message."""

    socket: Socket
    wire: FakeWire
    judgement: TerminalJudgement = field(factory=TerminalJudgement)
    said: list[dict[str, Any]] = field(factory=list)

    def send(self, kind: str, **fields: Any) -> None:
        message = {"type": f"terminal-{kind}", **fields}
        self.judgement.asked(message)
        self.socket.received(json.dumps(message).encode())

    def attach(self, name: str, attachment_id: str | None = "a", **more: Any) -> None:
        wish = {"clientId": "tab", "afterSequence": 0, "intent": "restore", **more}
        named = {} if attachment_id is None else {"attachmentId": attachment_id}
        self.send("attach", terminalId=name, **named, **wish)

    def type(self, name: str, data: str, attachment_id: str = "a") -> None:
        self.send("input", terminalId=name, data=data, attachmentId=attachment_id)

    def heard(self) -> list[dict[str, Any]]:
        """What came since the last call."""
        frames, self.wire.frames = self.wire.frames, []
        messages = []
        for frame in frames:
            raw = payload_of(frame)
            message = json.loads(raw)
            if message["type"].startswith("terminal-"):
                self.judgement.heard(raw, message)
            messages.append(message)
        self.said += messages
        return messages

    def kinds(self) -> list[str]:
        """What came since the last call, in short; failures by their codes."""
        return [one.get("code", one["type"]).removeprefix("terminal-") for one in self.heard()]

    def text(self, name: str) -> str:
        self.heard()
        return self.judgement.texts.get(name, "")


class Talking(Asking):
    """How the tests talk; a case says where the terminals are."""

    clock: Clock
    where: str
    door: TerminalDoor
    slept = 0
    """Seconds for which the machine was suspended."""

    def give(self, where: str) -> None:
        """Let sockets have the terminals that there are."""
        self.where = where
        host = RuntimeWithTerminals(terminals=self.terminals)
        self.signed_out: set[str] = set()
        self.door = TerminalDoor(
            OneExecutor(where, host),
            self.clock,
            self.now,
            lambda session: session not in self.signed_out,
        )

    def now(self) -> float:
        """The time of day."""
        return EPOCH + self.clock.seconds() + self.slept

    def browser(self, who: str = "alice", expires_in: float | None = None) -> Browser:
        """Open a socket."""
        expires = None if expires_in is None else int((self.now() + expires_in) * 1000)
        principal = Principal(
            "authenticated", who, who, expires_at_ms=expires, session=f"{who}'s login"
        )
        socket = new_socket(self.clock, principal=principal)
        wire = FakeWire(socket)
        socket.opened(wire, FakeAnswers(), self.door)
        self.sockets.append(socket)
        return Browser(socket, wire)

    sockets: list[Socket]

    def name(self, info: TerminalInfo) -> str:
        """What clients call a terminal."""
        return terminal_id(self.where, self.listed().terminal_runtime_id, info.session_id)

    def new_name(self) -> str:
        return self.name(self.new())

    def close_all(self) -> None:
        for socket in self.sockets:
            socket.closed()

    def stalled(self, browser: Browser) -> None:
        """Let its client take nothing more."""
        browser.socket.wire_full()

    def having(self, **more: Any) -> tuple[str, Browser]:
        """A terminal, and a socket that has it."""
        name, browser = self.new_name(), self.browser()
        browser.attach(name, **more)
        self.settle()
        self.assertEqual(browser.kinds(), ["attached"])
        return name, browser


class LocalTalk(Talking, LocalCase):
    """On this machine."""

    def setUp(self) -> None:
        super().setUp()
        self.sockets = []
        self.give("local")

    def tearDown(self) -> None:
        self.close_all()
        super().tearDown()


class LinkedTalk(Talking, LinkedCase):
    """On a worker."""

    def setUp(self) -> None:
        super().setUp()
        self.sockets = []
        self.give(self.executor_id)

    def tearDown(self) -> None:
        self.close_all()
        super().tearDown()
