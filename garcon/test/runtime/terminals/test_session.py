"""A terminal's session: its bounds, at them and one beyond, and what is told in which order."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import (
    KIB,
    TERMINAL_INPUT,
    TERMINAL_LAG,
    TERMINAL_SUBSCRIPTIONS,
    TERMINAL_WINDOW,
    TERMINAL_WINDOW_CHUNKS,
)
from garcon.contract.terminals import (
    AUTH_EXPIRED,
    BACKPRESSURE,
    VALIDATION,
    TerminalAttached,
    TerminalAttachment,
    TerminalChanged,
    TerminalDetached,
    TerminalEvent,
    TerminalOutput,
)
from garcon.errors import GarconError
from garcon.runtime.terminals.attachment import AROUND_CHUNK, BATCH, Attachment
from garcon.runtime.terminals.session import Session


class Case(SynchronousTestCase):
    """One session."""

    def setUp(self) -> None:
        self.session = Session("s", 1, "/srv", "at")

    def attach(self, attachment_id: str, **more: Any) -> TerminalAttached:
        fields: dict[str, Any] = {
            "client_id": "c",
            "after_sequence": 0,
            "intent": "takeover",
            **more,
        }
        wanted = TerminalAttachment(
            principal_key="p", session_id="s", attachment_id=attachment_id, **fields
        )
        return self.session.attach(wanted, 0.0)

    def owner(self) -> Attachment:
        assert self.session.owner is not None
        return self.session.owner

    def write(self, text: str, times: int = 1) -> None:
        for _ in range(times):
            self.session.output(text, len(text))

    def give(self, attachment: Attachment) -> TerminalEvent | None:
        """Give the next event, if there is one."""
        event = self.session.next_event(attachment)
        if event is not None:
            self.session.gave(attachment, event)
        return event

    def given(self, attachment: Attachment) -> list[int]:
        """Give output until there is none for now; return its numbers."""
        numbers: list[int] = []
        while isinstance(event := self.give(attachment), TerminalOutput):
            numbers += [chunk.sequence for chunk in event.chunks]
        return numbers


class Bounds(Case):
    """N and one more."""

    def test_followers(self) -> None:
        """256 may follow a terminal, one more is refused and changes nothing."""
        for number in range(TERMINAL_SUBSCRIPTIONS):
            self.attach(str(number))
        error = self.assertRaises(GarconError, self.attach, "one more")
        self.assertEqual(error.code, BACKPRESSURE)
        self.assertEqual(self.owner().id, str(TERMINAL_SUBSCRIPTIONS - 1))
        self.session.detach("0")
        self.attach("one more")

    def test_what_waits_for_an_owner(self) -> None:
        """Two mebibytes may; with one byte more it is detached, and keeps what it was given."""
        self.attach("a")
        attachment = self.owner()
        self.write("x" * KIB, TERMINAL_LAG // KIB)
        self.assertEqual((attachment.lag, self.session.owner), (TERMINAL_LAG, attachment))
        self.write("y")
        self.assertIsNone(self.session.owner)
        self.assertEqual(self.session.info().attachment_status, "detached")
        event = self.give(attachment)
        assert isinstance(event, TerminalDetached)
        self.assertEqual(event.code, BACKPRESSURE)
        self.assertEqual(self.session.attachments, {})
        again = self.attach("b", after_sequence=5)
        self.assertTrue(again.is_truncated)
        self.assertEqual(again.first_sequence, self.session.scrollback.first)

    def test_the_window_in_bytes(self) -> None:
        """As much is given as may be under way, and more only for what was taken."""
        self.attach("a")
        count = TERMINAL_WINDOW // KIB // 4
        self.write("x" * 4 * KIB, count + 1)
        self.assertEqual(self.given(self.owner()), list(range(1, count + 1)))
        self.owner().taken(0)
        self.assertEqual(self.given(self.owner()), [])
        self.owner().taken(1)
        self.assertEqual(self.given(self.owner()), [count + 1])

    def test_the_window_in_chunks(self) -> None:
        """Likewise."""
        self.attach("a")
        self.write("x", TERMINAL_WINDOW_CHUNKS + 3)
        self.assertEqual(self.given(self.owner()), list(range(1, TERMINAL_WINDOW_CHUNKS + 1)))
        self.owner().taken(2)
        self.assertEqual(len(self.given(self.owner())), 2)

    def test_one_event(self) -> None:
        """Holds chunks up to its own limit, and one that is as large as a chunk may be."""
        self.attach("a")
        size = 2 * KIB
        fitting = BATCH // (size + AROUND_CHUNK)
        self.write("x" * size, fitting + 1)
        event = self.give(self.owner())
        assert isinstance(event, TerminalOutput)
        self.assertEqual(len(event.chunks), fitting)

    def test_one_input(self) -> None:
        """64 KiB may be typed at once, with one byte more nothing is, whatever the characters."""
        self.attach("a")
        self.session.type("a", "x" * TERMINAL_INPUT, None, 0.0)
        self.session.type("a", "é" * (TERMINAL_INPUT // 2), None, 0.0)
        for data in ("x" * (TERMINAL_INPUT + 1), "x" + "é" * (TERMINAL_INPUT // 2)):
            error = self.assertRaises(GarconError, self.session.type, "a", data, None, 0.0)
            self.assertEqual((error.code, error.status), (VALIDATION, 400))
        self.assertEqual(len(self.session.operations), 2)


class Order(Case):
    """What comes before what."""

    def given_output(self) -> list[int]:
        """Give output as long as it is that; return its numbers."""
        numbers: list[int] = []
        while isinstance(self.session.next_event(self.owner()), TerminalOutput):
            event = self.give(self.owner())
            assert isinstance(event, TerminalOutput)
            numbers += [chunk.sequence for chunk in event.chunks]
        return numbers

    def test_a_title_does_not_wait(self) -> None:
        """For output that is not taken; the process runs."""
        self.attach("a")
        self.write("x" * KIB, 2000)
        self.given(self.owner())
        self.session.rename("work")
        event = self.give(self.owner())
        assert isinstance(event, TerminalChanged)
        self.assertEqual(event.terminal.title, "work")

    def test_the_exit_waits(self) -> None:
        """For all output, and a title with it; whoever only follows hears at once."""
        self.attach("follower", client_id="f")
        follower = self.owner()
        self.attach("a", client_id="a")
        self.write("x" * KIB, 600)
        first = self.given(self.owner())
        self.session.exited(3)
        self.session.rename("over")
        self.assertIsNone(self.give(self.owner()))
        event = self.give(follower)
        assert isinstance(event, TerminalChanged)
        self.assertEqual(event.terminal.exit_code, 3)
        numbers = first
        while len(numbers) < 600:
            self.assertIsNone(self.session.next_event(self.owner()))
            self.owner().taken(numbers[-1])
            numbers += self.given_output()
        self.assertEqual(numbers, list(range(1, 601)))
        self.assertIsInstance(self.give(self.owner()), TerminalChanged)

    def test_changes_become_one(self) -> None:
        """A follower that takes nothing costs no more than one."""
        self.attach("a")
        for number in range(1000):
            self.session.rename(f"title {number}")
        event = self.give(self.owner())
        assert isinstance(event, TerminalChanged)
        self.assertEqual(event.terminal.title, "title 999")
        self.assertIsNone(self.give(self.owner()))


class Expiry(Case):
    """Authority that was lent for a time (C.7)."""

    def test_the_deadline(self) -> None:
        """Until then it holds; from then on there is one last event, and no output."""
        self.attach("a", expires_in=10.0)
        attachment = self.owner()
        self.write("x")
        self.assertEqual(self.session.next_expiry, 10.0)
        self.session.expire(9.9)
        self.assertIs(self.session.owner, attachment)
        self.session.expire(10.0)
        self.assertIsNone(self.session.owner)
        self.assertIsNone(self.session.next_expiry)
        event = self.give(attachment)
        assert isinstance(event, TerminalDetached)
        self.assertEqual(event.code, AUTH_EXPIRED)
        self.assertIsNone(self.session.next_event(attachment))

    def test_what_waits_to_be_typed(self) -> None:
        """Is not typed after it, even where no timer has said so yet."""
        self.attach("a", expires_in=10.0)
        self.session.type("a", "x", "ticket", 9.0)
        self.assertIsNone(self.session.next_operation(10.0))
        self.assertEqual(self.session.settled, [("ticket", None)])

    def test_one_that_is_over_already(self) -> None:
        """Attaches nothing."""
        for left in (0.0, -1.0):
            error = self.assertRaises(GarconError, self.attach, "a", expires_in=left)
            self.assertEqual((error.code, error.status), (AUTH_EXPIRED, 401))
        self.assertEqual(self.session.attachments, {})

    def test_followers_expire_too(self) -> None:
        """And leave the owner alone."""
        self.attach("a", expires_in=10.0)
        follower = self.owner()
        self.attach("b", client_id="other", expires_in=20.0)
        self.session.expire(10.0)
        self.assertEqual(self.owner().id, "b")
        self.assertEqual(self.session.next_expiry, 20.0)
        self.assertTrue(follower.is_ending)
