"""What a client says while it is not known yet whether it has the terminal (server.md C.3)."""

from __future__ import annotations

from garcon.contract.limits import (
    KIB,
    TERMINAL_INPUT,
    TERMINAL_OPERATIONS,
    TERMINAL_OPERATIONS_BYTES,
    TERMINAL_SUBSCRIPTIONS,
)
from garcon.contract.terminals import (
    AUTH_EXPIRED,
    BACKPRESSURE,
    NOT_ATTACHED,
    REPLAY_SEQUENCE,
    TAKEOVER_REQUIRED,
    TerminalSize,
)
from garcon.test.controller.terminals.cast import LocalTalk, short
from garcon.testing.held_terminals import HeldTerminals


class Pending(LocalTalk):
    """The answer takes its time."""

    def setUp(self) -> None:
        super().setUp()
        self.terminals = self.held = HeldTerminals(self.service, holds=True)
        self.give("local")

    def settle(self) -> None:
        self.held.release()
        super().settle()

    def test_typing_right_behind_attaching(self) -> None:
        """Everything arrives, in its order, though nothing was answered yet."""
        name, browser = self.new_name(), self.browser()
        browser.attach(name)
        browser.type(name, "one")
        browser.send("resize", terminalId=name, cols=9, rows=8, attachmentId="a")
        browser.type(name, "two")
        self.settle()
        self.assertEqual(self.ptys.last.done, [b"one", TerminalSize(cols=9, rows=8), b"two"])
        self.assertEqual(browser.kinds(), ["attached"])

    def test_detaching_right_behind_attaching(self) -> None:
        """Leaves no attachment."""
        name, browser = self.new_name(), self.browser()
        browser.attach(name)
        browser.send("detach", terminalId=name, attachmentId="a")
        self.settle()
        self.assertEqual(self.listed().terminals[0].attachment_status, "detached")
        browser.type(name, "x")
        self.assertEqual(browser.kinds()[-1], short(NOT_ATTACHED))

    def test_attaching_again_right_behind_attaching(self) -> None:
        """The last wish counts, and only its words."""
        name, browser = self.new_name(), self.browser()
        browser.attach(name, "a")
        browser.type(name, "A", "a")
        browser.attach(name, "b")
        browser.type(name, "late", "a")
        browser.type(name, "B", "b")
        self.settle()
        self.say("x")
        self.assertNotIn(b"late", self.ptys.last.typed)
        self.assertEqual(self.ptys.last.typed[-1], b"B")
        heard = browser.heard()
        attached = [m["attachmentId"] for m in heard if m["type"] == "terminal-attached"]
        self.assertEqual(attached[-1], "b")
        errors = [m["attachmentId"] for m in heard if m["type"] == "terminal-error"]
        self.assertEqual(errors, ["a"])
        self.assertEqual(heard[-1]["data"], "x")

    def test_what_was_typed_before_a_failure(self) -> None:
        """Is refused piece by piece."""
        name, browser = self.new_name(), self.browser()
        browser.attach(name, afterSequence=9)
        browser.type(name, "x")
        self.settle()
        self.assertEqual(browser.kinds(), [short(REPLAY_SEQUENCE), short(NOT_ATTACHED)])

    def test_too_much_before_it_is_attached(self) -> None:
        """Nothing of it arrives, and the attachment is given up."""
        name, browser = self.new_name(), self.browser()
        browser.attach(name)
        for _ in range(TERMINAL_OPERATIONS):
            browser.type(name, "x")
        self.assertEqual(browser.kinds(), [])
        browser.type(name, "x")
        self.assertEqual(browser.kinds(), [short(BACKPRESSURE)])
        self.settle()
        self.assertEqual((browser.kinds(), self.ptys.last.typed), ([], []))
        self.assertEqual(self.listed().terminals[0].attachment_status, "detached")

    def test_too_many_bytes_before_it_is_attached(self) -> None:
        """Counted as UTF-8, at N and N+1."""
        name, browser = self.new_name(), self.browser()
        browser.attach(name)
        for _ in range(TERMINAL_OPERATIONS_BYTES // TERMINAL_INPUT):
            browser.type(name, "é" * (TERMINAL_INPUT // 2))
        self.assertEqual(browser.kinds(), [])
        browser.type(name, "x")
        self.assertEqual(browser.kinds(), [short(BACKPRESSURE)])

    def test_a_refusal_without_taking_over(self) -> None:
        """Refuses what was typed as well, and leaves the subscription."""
        name, owner = self.new_name(), self.browser()
        owner.attach(name)
        self.settle()
        other = self.browser()
        other.attach(name, clientId="other")
        other.type(name, "x")
        self.settle()
        self.assertEqual(other.kinds(), [short(TAKEOVER_REQUIRED), short(NOT_ATTACHED)])
        self.result(self.rename_call(self.listed().terminals[0], "t"))
        self.assertEqual(other.kinds(), ["status"])

    def test_a_socket_that_ends_meanwhile(self) -> None:
        """Has nothing then."""
        name, browser = self.new_name(), self.browser()
        browser.attach(name)
        browser.type(name, "x")
        browser.socket.closed()
        self.settle()
        self.assertEqual(self.listed().terminals[0].attachment_status, "detached")
        self.assertEqual(self.ptys.last.typed, [])

    def test_an_authority_that_ends_meanwhile(self) -> None:
        """Is the last word."""
        name = self.new_name()
        browser = self.browser(expires_in=10)
        browser.attach(name)
        browser.type(name, "x")
        self.clock.advance(11)
        self.settle()
        self.assertEqual(browser.kinds(), [short(AUTH_EXPIRED)])
        self.assertEqual(self.listed().terminals[0].attachment_status, "detached")
        self.assertEqual(self.ptys.last.typed, [])

    def test_output_meanwhile(self) -> None:
        """Comes after the answer, whole."""
        name, browser = self.new_name(), self.browser()
        self.ptys.last.say("before")
        browser.attach(name)
        self.ptys.last.say("after" * KIB)
        self.settle()
        self.assertEqual(browser.kinds()[0], "attached")
        self.assertEqual(browser.text(name), "before" + "after" * KIB)

    def test_subscriptions_at_n_and_n_plus_one(self) -> None:
        """256 of one socket.  One that is let go makes room, and the same terminal again needs
        none.
        """
        browser = self.browser()
        path, _, _ = self.new_name().rpartition("/")
        names = [f"{path}/00000000-0000-4000-8000-{n:012x}" for n in range(10**6, 10**6 + 257)]
        for name in names[:TERMINAL_SUBSCRIPTIONS]:
            browser.attach(name)
        self.assertEqual(browser.kinds(), [])
        browser.attach(names[-1])
        (error,) = browser.heard()
        self.assertEqual((error["code"], error["terminalId"]), (BACKPRESSURE, names[-1]))
        browser.attach(names[0], "b")
        browser.send("detach", terminalId=names[1], attachmentId="a")
        browser.attach(names[-1])
        self.assertEqual(browser.kinds(), [])
        self.stalled(browser)
        self.settle()
