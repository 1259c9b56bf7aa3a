"""Terminals whose answers to attaching take until the test lets them come, as over a slow link."""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import Deferred
from zope.interface import implementer

from garcon.contract.terminals import (
    TerminalAttached,
    TerminalAttachment,
    TerminalCreation,
    TerminalEvent,
    TerminalInfo,
    TerminalRenaming,
    TerminalSize,
    TerminalsListed,
    TerminalTermination,
)
from garcon.runtime.interfaces import ITerminals, ITerminalSink


@implementer(ITerminalSink)
@define(eq=False)
class _HeldSink:
    """Takes nothing before the answer has come."""

    sink: ITerminalSink
    is_held: bool

    def offer(self, event: TerminalEvent) -> bool:
        return not self.is_held and self.sink.offer(event)


@implementer(ITerminals)
@define(eq=False)
class HeldTerminals:
    """Those of `terminals`; while it `holds`, answers to attaching wait for `release`."""

    terminals: ITerminals
    holds: bool = False
    _waiting: list[tuple[Deferred[TerminalAttached], Deferred[TerminalAttached], _HeldSink]] = (
        field(factory=list)
    )

    def attach(self, wanted: TerminalAttachment, sink: ITerminalSink) -> Deferred[TerminalAttached]:
        held = _HeldSink(sink, self.holds)
        inner = self.terminals.attach(wanted, held)
        if not self.holds:
            return inner
        answer: Deferred[TerminalAttached] = Deferred(
            lambda _: self.terminals.detach(wanted.attachment_id)
        )
        self._waiting.append((inner, answer, held))
        return answer

    def release(self) -> None:
        """Let the answers come."""
        waiting, self._waiting = self._waiting, []
        for inner, answer, held in waiting:
            held.is_held = False
            if answer.called:
                inner.addErrback(lambda _: None)
            else:
                inner.chainDeferred(answer)

    # The rest is as it is there.

    def list(self, principal_key: str) -> Deferred[TerminalsListed]:
        return self.terminals.list(principal_key)

    def create(self, wanted: TerminalCreation) -> Deferred[TerminalInfo]:
        return self.terminals.create(wanted)

    def rename(self, wanted: TerminalRenaming) -> Deferred[TerminalInfo]:
        return self.terminals.rename(wanted)

    def terminate(self, wanted: TerminalTermination) -> Deferred[TerminalInfo | None]:
        return self.terminals.terminate(wanted)

    def taken(self, attachment_id: str, sequence: int) -> None:
        self.terminals.taken(attachment_id, sequence)

    def input(self, attachment_id: str, data: str) -> Deferred[None]:
        return self.terminals.input(attachment_id, data)

    def resize(self, attachment_id: str, size: TerminalSize) -> Deferred[None]:
        return self.terminals.resize(attachment_id, size)

    def detach(self, attachment_id: str) -> None:
        self.terminals.detach(attachment_id)
