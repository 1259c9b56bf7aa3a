"""A worker's terminals, as its link calls them."""

from __future__ import annotations

import os
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract import rpc
from garcon.contract.rpc import Lane
from garcon.contract.terminals import (
    LIMIT,
    NOT_ATTACHED,
    PROCESS_EXITED,
    UNAVAILABLE,
    TerminalAttached,
    TerminalAttachment,
    TerminalCreation,
    TerminalDetach,
    TerminalGone,
    TerminalInfo,
    TerminalInput,
    TerminalNotification,
    TerminalOutput,
    TerminalResize,
    TerminalSize,
    TerminalsQuery,
)
from garcon.errors import CallError
from garcon.link.interfaces import Peer
from garcon.testing.fake_pty import FakePtys, fake_terminals
from garcon.testing.held_link import HeldSession
from garcon.worker.serving.answers import MOMENT, Answers
from garcon.worker.serving.terminals import TerminalServing

PEER = Peer("executor", "controller-runtime", "controller")


@define(eq=False)
class Wire:
    """Takes notifications, or does not."""

    sent: list[TerminalNotification] = field(factory=list)
    is_full: bool = False

    def send(self, notification: TerminalNotification) -> bool:
        if not self.is_full:
            self.sent.append(notification)
        return not self.is_full


class Serving(SynchronousTestCase):
    """The methods, and the events of attachments."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.ptys = FakePtys()
        self.wire = Wire()
        base = self.mktemp()
        os.makedirs(base)
        self.terminals = fake_terminals(self.clock, self.ptys, base)
        self.serving = TerminalServing(self.terminals, self.wire.send, Answers(self.clock))
        self.handlers = self.serving.handlers()
        self.session = HeldSession(Lane.PRIMARY, "g1", PEER)

    def ask(self, method: rpc.Method, request: Any, generation: str = "g1") -> Any:
        d: Deferred[Any] = self.handlers[method.name](
            request, self.session.context(method, generation)
        )
        self.clock.advance(MOMENT)
        return self.successResultOf(d)

    def refused(
        self, code: str, method: rpc.Method, request: Any, generation: str = "g1"
    ) -> CallError:
        d = self.handlers[method.name](request, self.session.context(method, generation))
        error = self.failureResultOf(d, CallError).value
        assert isinstance(error, CallError)
        self.assertEqual((error.code, error.domain, error.outcome), (code, "terminal", "rejected"))
        return error

    def create(self, name: str = "r") -> TerminalInfo:
        info: TerminalInfo = self.ask(
            rpc.CREATE_TERMINAL, TerminalCreation(principal_key="p", request_id=name)
        )
        return info

    def wish(self, info: TerminalInfo, name: str, **more: Any) -> TerminalAttachment:
        fields: dict[str, Any] = {
            "client_id": "c",
            "after_sequence": 0,
            "intent": "takeover",
            **more,
        }
        return TerminalAttachment(
            principal_key="p", session_id=info.session_id, attachment_id=name, **fields
        )

    def attach(self, info: TerminalInfo, name: str = "a", generation: str = "g1") -> None:
        attached = self.ask(rpc.ATTACH_TERMINAL, self.wish(info, name), generation)
        self.assertIsInstance(attached, TerminalAttached)

    def test_every_method(self) -> None:
        """Of terminals is served."""
        wanted = {name for name in rpc.METHODS if name.startswith("terminals.")}
        self.assertEqual(set(self.handlers), wanted)
        self.assertEqual(len(wanted), 8)

    def test_refusals_cross_in_their_own_domain(self) -> None:
        """With their status, and whether it is worth trying again."""
        for number in range(8):
            self.create(str(number))
        creation = TerminalCreation(principal_key="p", request_id="one more")
        error = self.refused(LIMIT, rpc.CREATE_TERMINAL, creation)
        self.assertEqual((error.status, error.retryable), (409, False))

    def test_the_epoch_is_the_session(self) -> None:
        """One of another session is over; which the runtime's own is does not matter here."""
        info = self.create()
        query = TerminalsQuery(principal_key="p")
        self.assertEqual(self.ask(rpc.LIST_TERMINALS, query, "g7").attachment_epoch, "g7")
        wish = self.wish(info, "a", attachment_epoch="g1")
        self.refused(UNAVAILABLE, rpc.ATTACH_TERMINAL, wish, "g2")
        self.ask(rpc.ATTACH_TERMINAL, wish, "g1")

    def test_events(self) -> None:
        """Name their attachment; one that the link does not take now is offered again."""
        info = self.create()
        self.attach(info)
        self.wire.is_full = True
        self.ptys.last.say("x")
        self.assertEqual(self.wire.sent, [])
        self.wire.is_full = False
        self.clock.advance(0.01)
        (sent,) = self.wire.sent
        assert isinstance(sent.event, TerminalOutput)
        self.assertEqual((sent.attachment_id, sent.event.chunks[0].data), ("a", "x"))

    def test_a_lost_session(self) -> None:
        """Takes its attachments along, silently, and those of no other."""
        info, other = self.create("1"), self.create("2")
        self.attach(info, "a", "g1")
        self.attach(other, "b", "g2")
        self.serving.session_lost("g1")
        for pty in self.ptys.opened:
            pty.say("x")
        self.assertEqual([sent.attachment_id for sent in self.wire.sent], ["b"])
        typed = TerminalInput(attachment_id="a", number=1, data="x")
        self.refused(NOT_ATTACHED, rpc.TERMINAL_INPUT, typed)
        self.assertEqual([pty.ends for pty in self.ptys.opened], [0, 0])

    def test_numbers(self) -> None:
        """Inputs and sizes count together; what was refused is not counted, so nothing follows."""
        info = self.create()
        self.attach(info)
        self.ask(rpc.TERMINAL_INPUT, TerminalInput(attachment_id="a", number=1, data="1"))
        size = TerminalSize(cols=1, rows=2)
        self.ask(rpc.RESIZE_TERMINAL, TerminalResize(attachment_id="a", number=2, size=size))
        for number in (2, 4):
            typed = TerminalInput(attachment_id="a", number=number, data="?")
            self.refused(NOT_ATTACHED, rpc.TERMINAL_INPUT, typed)
        self.ptys.last.exit(0)
        typed = TerminalInput(attachment_id="a", number=3, data="3")
        self.refused(PROCESS_EXITED, rpc.TERMINAL_INPUT, typed)
        typed = TerminalInput(attachment_id="a", number=4, data="4")
        self.refused(NOT_ATTACHED, rpc.TERMINAL_INPUT, typed)
        self.assertEqual(self.ptys.last.done, [b"1", size])

    def type(self, number: int, data: str) -> Deferred[Any]:
        typed = TerminalInput(attachment_id="a", number=number, data=data)
        context = self.session.context(rpc.TERMINAL_INPUT, "g1")
        return self.handlers[rpc.TERMINAL_INPUT.name](typed, context)

    def test_an_echo_goes_first(self) -> None:
        """Before the word that its key was typed, which is not long in coming without one."""
        self.attach(self.create())
        first = self.type(1, "1")
        self.assertNoResult(first)
        self.ptys.last.say("1")
        self.assertEqual(len(self.wire.sent), 1)
        self.successResultOf(first)
        self.ptys.last.echo = b"2"
        self.successResultOf(self.type(2, "2"))
        self.assertEqual(len(self.wire.sent), 2)
        hidden = self.type(3, "3")
        self.assertNoResult(hidden)
        self.clock.advance(MOMENT)
        self.successResultOf(hidden)

    def test_what_a_terminal_does_not_take(self) -> None:
        """Is answered when it does, and that it never will as any other refusal."""
        self.attach(self.create())
        self.ptys.last.block()
        first, second = self.type(1, "1"), self.type(2, "2")
        self.clock.advance(MOMENT)
        self.assertNoResult(first)
        self.ptys.last.read_on()
        self.successResultOf(first)
        self.successResultOf(second)
        self.ptys.last.block()
        third = self.type(3, "3")
        self.ptys.last.exit(0)
        error = self.failureResultOf(third, CallError).value
        assert isinstance(error, CallError)
        self.assertEqual((error.code, error.domain), (PROCESS_EXITED, "terminal"))

    def test_detaching(self) -> None:
        """By a word or by a call; an unknown one is none already, and nothing is taken of it."""
        info = self.create()
        for name, detach in (
            ("a", lambda: self.serving.detached("a")),
            ("b", lambda: self.ask(rpc.DETACH_TERMINAL, TerminalDetach(attachment_id="b"))),
        ):
            self.attach(info, name)
            for _ in range(2):
                detach()
            self.ptys.last.say("x")
            self.serving.taken({name: 1})
        self.assertEqual([sent.attachment_id for sent in self.wire.sent], ["b"])

    def test_the_end_is_the_last(self) -> None:
        """What was its id may be used no more, and costs nothing."""
        info = self.create()
        self.attach(info)
        self.ptys.last.exit(0)
        self.terminals._find("p", info.session_id).terminate()
        self.assertEqual(self.wire.sent[-1].event, TerminalGone())
        self.assertEqual(self.serving._attachments, {})

    def test_a_refused_attachment_leaves_nothing(self) -> None:
        """But one that another client has to take over follows the terminal."""
        info = self.create()
        self.refused(
            "terminal-replay-sequence",
            rpc.ATTACH_TERMINAL,
            self.wish(info, "a", after_sequence=1),
        )
        self.assertEqual(self.serving._attachments, {})
        self.attach(info, "b")
        wish = self.wish(info, "c", client_id="other", intent="restore")
        self.refused("terminal-takeover-required", rpc.ATTACH_TERMINAL, wish)
        self.clock.advance(0)
        self.ptys.last.exit(0)
        self.assertEqual({sent.attachment_id for sent in self.wire.sent}, {"b", "c"})
