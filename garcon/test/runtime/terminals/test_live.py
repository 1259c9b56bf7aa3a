"""The shell around a terminal: giving, pace and order, with a clock and without a process."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import KIB, MIB, RETRY, TERMINAL_LAG
from garcon.contract.terminals import (
    AUTH_EXPIRED,
    BACKPRESSURE,
    INTERNAL,
    PROCESS_EXITED,
    TerminalAttached,
    TerminalAttachment,
    TerminalChanged,
    TerminalDetached,
    TerminalSize,
)
from garcon.errors import GarconError
from garcon.runtime.terminals.live import DRAIN_RATE, DRAIN_SLICE, HIGH, LOW, PATIENCE, LiveTerminal
from garcon.runtime.terminals.session import Session
from garcon.testing.fake_pty import FakePty, RecordingTerminalSink


class Case(SynchronousTestCase):
    """One running terminal."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.gone: list[str] = []
        self.live = LiveTerminal(Session("s", 1, "/srv", "at"), self.clock, self.gone.append)
        self.pty = FakePty(self.live, ["sh"], {}, "/srv", [])
        self.live.started(self.pty)
        self.sink = RecordingTerminalSink()

    def tearDown(self) -> None:
        for attachment_id in list(self.live.session.attachments):
            self.live.detach(attachment_id)
        self.clock.advance(10)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def attach(self, attachment_id: str = "a", sink: Any = None, **more: Any) -> TerminalAttached:
        fields: dict[str, Any] = {
            "client_id": "c",
            "after_sequence": 0,
            "intent": "takeover",
            **more,
        }
        wanted = TerminalAttachment(
            principal_key="p", session_id="s", attachment_id=attachment_id, **fields
        )
        attached = self.live.attach(wanted, sink or self.sink)
        self.clock.advance(0)
        return attached

    def take(self, attachment_id: str = "a") -> None:
        """Say that everything was taken that has come, until no more comes."""
        while True:
            count = len(self.sink.chunks)
            if count:
                self.live.taken(attachment_id, self.sink.chunks[-1].sequence)
            self.clock.advance(0)
            if len(self.sink.chunks) == count:
                return

    def failed(self, d: Deferred[None], code: str) -> None:
        error = self.failureResultOf(d, GarconError).value
        assert isinstance(error, GarconError)
        self.assertEqual(error.code, code)


class Giving(Case):
    """Events and those who take them."""

    def test_the_answer_comes_first(self) -> None:
        """Nothing is given before the caller of attach has its answer, though the PTY speaks."""
        self.pty.say("before")
        sink = RecordingTerminalSink()
        wanted = TerminalAttachment(
            principal_key="p",
            session_id="s",
            attachment_id="a",
            client_id="c",
            after_sequence=0,
            intent="restore",
        )
        self.live.attach(wanted, sink)
        self.pty.say(", meanwhile")
        self.assertEqual(sink.events, [])
        self.clock.advance(0)
        self.assertEqual(sink.text, "before, meanwhile")

    def test_output_is_given_at_once(self) -> None:
        """In the turn in which it was read."""
        self.attach()
        self.pty.say("x")
        self.assertEqual(self.sink.text, "x")

    def test_what_is_refused_is_offered_again(self) -> None:
        """After a moment, in order, and nothing of it twice."""
        self.attach()
        self.sink.is_full = True
        self.pty.say("a")
        self.pty.say("b")
        self.clock.advance(RETRY)
        self.clock.advance(RETRY)
        self.assertEqual(self.sink.events, [])
        self.assertGreaterEqual(self.sink.refused, 3)
        self.sink.is_full = False
        self.clock.advance(RETRY)
        self.assertEqual([c.data for c in self.sink.chunks], ["a", "b"])

    def test_one_that_refuses_holds_up_nobody(self) -> None:
        """Others hear what they are to hear."""
        self.attach("follower", client_id="f")
        self.sink.is_full = True
        owner = RecordingTerminalSink()
        self.attach("owner", owner, client_id="o")
        self.pty.say("x")
        self.live.rename("t")
        self.assertEqual((owner.text, len(owner.others)), ("x", 1))
        self.sink.is_full = False
        self.clock.advance(RETRY)
        self.assertEqual(len(self.sink.others), 2)

    def test_characters_are_whole(self) -> None:
        """Wherever the PTY cuts them, and a half one at the end is told as such."""
        self.attach()
        for byte in "漢🙂".encode():
            self.pty.say(bytes([byte]))
        self.assertEqual([c.data for c in self.sink.chunks], ["漢", "🙂"])
        self.pty.say("漢".encode()[:2])
        self.pty.exit(1)
        self.assertEqual(self.sink.text, "漢🙂\ufffd")

    def test_the_exit_comes_after_the_output(self) -> None:
        """To its owner, however slow it is."""
        self.attach()
        self.sink.is_full = True
        self.pty.say("last words")
        self.pty.exit(7)
        self.sink.is_full = False
        self.clock.advance(RETRY)
        self.assertEqual(self.sink.text, "last words")
        changed = self.sink.events[-1]
        assert isinstance(changed, TerminalChanged)
        self.assertEqual((changed.terminal.exit_code, len(self.sink.others)), (7, 1))

    def test_detached_means_silence(self) -> None:
        """Also while something was being given to it."""
        self.attach()

        class Leaving(RecordingTerminalSink):
            def offer(sink, event: Any) -> bool:
                self.live.detach("b")
                return super().offer(event)

        leaving = Leaving()
        self.attach("b", leaving, client_id="other")
        self.pty.say("x")
        self.pty.say("y")
        self.assertEqual(leaving.text, "x")
        self.assertEqual(self.gone, ["b"])

    def test_a_sink_that_breaks(self) -> None:
        """Loses its attachment, and nothing else happens to the terminal."""

        class Broken(RecordingTerminalSink):
            def offer(self, event: Any) -> bool:
                raise ZeroDivisionError

        self.attach("follower", client_id="f")
        self.attach("b", Broken(), client_id="other")
        self.pty.say("x")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertIsNone(self.live.session.owner)
        self.assertEqual(self.gone, ["b"])
        self.assertEqual(self.attach("c", after_sequence=0).replay_through, 1)

    def test_taken_while_it_is_given(self) -> None:
        """Counts as taken: the window does not fill up."""

        class Quick(RecordingTerminalSink):
            def offer(sink, event: Any) -> bool:
                taken = super().offer(event)
                self.live.taken("q", sink.chunks[-1].sequence)
                return taken

        quick = Quick()
        self.attach("q", quick)
        for _ in range(64):
            self.pty.say("x" * 64 * KIB)
            self.clock.advance(0)
        self.assertEqual(len(quick.text), 64 * 64 * KIB)

    def test_expiry_is_told_in_time(self) -> None:
        """By a timer, with nothing else going on; the process goes on."""
        self.attach(expires_in=30.0)
        self.clock.advance(29.9)
        self.pty.say("x")
        self.assertEqual(self.sink.text, "x")
        self.clock.advance(0.1)
        end = self.sink.events[-1]
        assert isinstance(end, TerminalDetached)
        self.assertEqual((end.code, self.gone, self.pty.ends), (AUTH_EXPIRED, ["a"], 0))
        self.pty.say("y")
        self.assertEqual(self.sink.text, "x")


class Pace(Case):
    """How fast the PTY is read."""

    def flood(self, size: int) -> None:
        """Write so much, in slices."""
        for _ in range(size // (8 * KIB)):
            self.pty.say("x" * 8 * KIB)

    def test_one_that_keeps_up_slows_the_program(self) -> None:
        """Above the mark it is held, and let go on below the lower one; nothing is lost."""
        self.attach()
        self.sink.is_full = True
        self.flood(HIGH)
        self.assertFalse(self.pty.is_held)
        self.flood(8 * KIB)
        self.assertTrue(self.pty.is_held)
        self.clock.advance(PATIENCE / 2)
        self.assertTrue(self.pty.is_held)
        self.sink.is_full = False
        self.clock.advance(RETRY)
        self.take()
        self.assertFalse(self.pty.is_held)
        self.assertEqual(len(self.sink.text), HIGH + 8 * KIB)

    def test_one_that_does_not_is_not_waited_for(self) -> None:
        """After a second the program goes on; when too much waits it is detached, whose way back
        is to attach again, and is told what is missing.
        """
        self.attach()
        self.flood(MIB)
        self.assertTrue(self.pty.is_held)
        self.clock.advance(PATIENCE)
        self.assertFalse(self.pty.is_held)
        # What was given and not taken does not wait any more.
        self.flood(TERMINAL_LAG + MIB)
        end = self.sink.events[-1]
        assert isinstance(end, TerminalDetached)
        self.assertEqual(end.code, BACKPRESSURE)
        last = self.sink.chunks[-1].sequence
        again = self.attach("b", after_sequence=last)
        self.assertTrue(again.is_truncated)
        self.assertGreater(again.first_sequence, last + 1)

    def test_patience_comes_back(self) -> None:
        """With a consumer that has caught up."""
        self.attach()
        self.flood(MIB)
        self.clock.advance(PATIENCE)
        self.assertFalse(self.pty.is_held)
        self.take()
        self.assertLessEqual(self.live.session.owner.lag, LOW)  # type: ignore[union-attr]
        self.flood(MIB)
        self.assertTrue(self.pty.is_held)

    def test_nobody_is_waited_for(self) -> None:
        """Without an owner large slices are read at a pace, small ones at once."""
        self.pty.say("x" * (DRAIN_SLICE - 1))
        self.assertFalse(self.pty.is_held)
        self.pty.say("x" * DRAIN_SLICE)
        self.assertTrue(self.pty.is_held)
        self.clock.advance(DRAIN_SLICE / DRAIN_RATE)
        self.assertFalse(self.pty.is_held)
        self.assertEqual(self.live.session.scrollback.latest, 2)

    def test_memory_is_bounded_without_anybody(self) -> None:
        """A hundred mebibytes leave one."""
        for _ in range(100 * 64):
            self.pty.say("x" * 16 * KIB)
            self.clock.advance(1)
        self.assertLessEqual(self.live.session.scrollback.size, MIB)

    def test_an_owner_that_leaves_holds_nothing(self) -> None:
        """The program goes on."""
        self.attach()
        self.flood(MIB)
        self.assertTrue(self.pty.is_held)
        self.live.detach("a")
        self.assertFalse(self.pty.is_held)


class Doing(Case):
    """Input and sizes."""

    def size(self, number: int) -> TerminalSize:
        return TerminalSize(cols=number, rows=number)

    def test_in_order(self) -> None:
        """At once while the PTY takes it, else when it does again; sizes between inputs stay."""
        self.attach()
        self.successResultOf(self.live.type("a", "1"))
        self.pty.block()
        later = [
            self.live.type("a", "2"),
            self.live.resize("a", self.size(1)),
            self.live.resize("a", self.size(2)),
            self.live.type("a", "3"),
            self.live.resize("a", self.size(3)),
        ]
        for d in later:
            self.assertNoResult(d)
        self.pty.read_on()
        for d in later:
            self.assertIsNone(self.successResultOf(d))
        self.assertEqual(self.pty.done, [b"1", b"2", self.size(2), b"3", self.size(3)])

    def test_an_echo_is_there_at_once(self) -> None:
        """What a key has made the terminal show is given before anything else happens."""
        self.attach()
        self.pty.echo = b"x"
        d = self.live.type("a", "x")
        self.assertEqual((self.pty.typed, self.sink.text), ([b"x"], "x"))
        self.assertIsNone(self.successResultOf(d))

    def test_a_size_with_the_attachment(self) -> None:
        """Is set before the first input."""
        self.attach(size=self.size(9))
        self.live.type("a", "x")
        self.assertEqual(self.pty.done, [self.size(9), b"x"])

    def test_what_waits_is_dropped_with_the_ownership(self) -> None:
        """Silently; the next owner's input is typed."""
        self.attach()
        self.pty.block()
        lost = self.live.type("a", "rm -rf /")
        self.attach("b", client_id="other")
        self.assertIsNone(self.successResultOf(lost))
        self.live.type("b", "ls")
        self.pty.read_on()
        self.assertEqual(self.pty.typed, [b"ls"])

    def test_after_the_exit(self) -> None:
        """Input fails, also what waited; a size is nobody's concern."""
        self.attach()
        self.pty.block()
        waiting, size = self.live.type("a", "x"), self.live.resize("a", self.size(1))
        self.pty.exit(0)
        self.failed(waiting, PROCESS_EXITED)
        self.successResultOf(size)
        error = self.assertRaises(GarconError, self.live.type, "a", "x")
        self.assertEqual(error.code, PROCESS_EXITED)
        self.successResultOf(self.live.resize("a", self.size(2)))
        self.assertEqual(self.pty.done, [])

    def test_one_that_fails(self) -> None:
        """Is told, and the next is tried."""
        self.attach()
        self.pty.error = OSError(5, "broken")
        self.failed(self.live.type("a", "x"), INTERNAL)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.pty.error = None
        self.successResultOf(self.live.type("a", "y"))
        self.assertEqual(self.pty.typed, [b"y"])

    def test_a_caller_that_gives_up(self) -> None:
        """Has typed it all the same."""
        self.attach()
        self.pty.block()
        d = self.live.type("a", "x")
        d.addErrback(lambda _: None)
        d.cancel()
        self.pty.read_on()
        self.assertEqual(self.pty.typed, [b"x"])
