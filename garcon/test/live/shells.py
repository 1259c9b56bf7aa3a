"""How tests use terminals with real shells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from attrs import define, field
from twisted.internet import reactor as _reactor
from twisted.internet.task import deferLater
from zope.interface import implementer

from garcon.contract.terminals import (
    TerminalAttachment,
    TerminalCreation,
    TerminalEvent,
    TerminalInfo,
    TerminalOutput,
)
from garcon.runtime.interfaces import ITerminals, ITerminalSink

reactor: Any = _reactor


@implementer(ITerminalSink)
@define(eq=False)
class Screen:
    """A client of one terminal that takes what comes, unless it `has_stopped`."""

    terminals: ITerminals
    attachment_id: str
    text: str = ""
    size: int = 0
    keeps: bool = True
    last: int = 0
    others: list[TerminalEvent] = field(factory=list)
    has_stopped: bool = False

    def offer(self, event: TerminalEvent) -> bool:
        if isinstance(event, TerminalOutput):
            for chunk in event.chunks:
                assert chunk.sequence == self.last + 1, "a chunk is missing, or came twice"
                self.last = chunk.sequence
                self.size += len(chunk.data)
                if self.keeps:
                    self.text += chunk.data
            if not self.has_stopped:
                self.terminals.taken(self.attachment_id, self.last)
        else:
            self.others.append(event)
        return True


class Shells:
    """How the tests use terminals."""

    terminals: ITerminals
    addCleanup: Any
    assertEqual: Any
    assertIn: Any
    assertLess: Any
    assertTrue: Any
    fail: Any

    async def create(self, request_id: str | None = None, **more: Any) -> TerminalInfo:
        wanted = TerminalCreation(principal_key="p", request_id=request_id or str(uuid4()), **more)
        return await self.terminals.create(wanted)

    async def attach(self, info: TerminalInfo, after: int = 0, **more: Any) -> Screen:
        fields = {"client_id": "c", "intent": "takeover", **more}
        wanted = TerminalAttachment(
            principal_key="p",
            session_id=info.session_id,
            attachment_id=str(uuid4()),
            after_sequence=after,
            **fields,
        )
        screen = Screen(self.terminals, wanted.attachment_id, last=after)
        attached = await self.terminals.attach(wanted, screen)
        if attached.is_truncated:
            screen.last = attached.first_sequence - 1
        return screen

    async def shell(self, **more: Any) -> tuple[TerminalInfo, Screen]:
        """Start a shell with a prompt that is told from what is typed."""
        info = await self.create(**more)
        screen = await self.attach(info)
        await self.enter(screen, "PS1='% '; stty -echo; echo re''ady", "ready")
        return info, screen

    async def enter(self, screen: Screen, command: str, until: str, seconds: float = 30) -> None:
        """Type a command and wait for some text of its output."""
        await self.terminals.input(screen.attachment_id, command + "\n")
        await self.seen(screen, until, seconds)

    async def seen(self, screen: Screen, text: str, seconds: float = 30) -> None:
        await self.eventually(lambda: text in screen.text, text, seconds, screen)

    async def eventually(
        self, holds: Callable[[], Any], what: str, seconds: float = 30, screen: Any = None
    ) -> None:
        deadline = reactor.seconds() + seconds
        while not holds():
            if reactor.seconds() > deadline:
                shown = "" if screen is None else repr(screen.text[-300:])
                self.fail(f"this did not come about: {what}; {shown}")
            await deferLater(reactor, 0.01)
