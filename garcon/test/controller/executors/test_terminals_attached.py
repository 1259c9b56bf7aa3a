"""Who has a terminal and what comes to them, on this machine and behind a link alike (server.md
C.5, C.7).
"""

from __future__ import annotations

from garcon.contract.limits import KIB, MIB, TERMINAL_TAIL
from garcon.contract.terminals import (
    AUTH_EXPIRED,
    BACKPRESSURE,
    NOT_ATTACHED,
    NOT_FOUND,
    REPLAY_SEQUENCE,
    TAKEOVER_REQUIRED,
    UNAVAILABLE,
    VALIDATION,
    TerminalChanged,
    TerminalDetached,
    TerminalTakenOver,
)
from garcon.test.controller.executors.terminal_cast import (
    Asking,
    HeldCase,
    LinkedCase,
    LocalCase,
    size,
)
from garcon.testing.fake_pty import RecordingTerminalSink


class Attaching(Asking):
    """Owners, followers and output."""

    def test_output(self) -> None:
        """Comes to the owner, numbered from 1, and nobody else."""
        info = self.new()
        _, sink, attached = self.attach(info.session_id)
        self.assertEqual(
            (attached.generation, attached.first_sequence, attached.replay_through), (1, 1, 0)
        )
        self.assertFalse(attached.is_truncated)
        self.assertEqual(attached.terminal.attachment_status, "attached")
        self.say("one")
        self.say("漢字🙂")
        self.assertEqual([(c.sequence, c.data) for c in sink.chunks], [(1, "one"), (2, "漢字🙂")])
        self.assertEqual(self.listed().terminals[0].latest_output_sequence, 2)

    def test_replay(self) -> None:
        """What was kept comes first, from where the client has come to."""
        info = self.new()
        for text in "abcd":
            self.say(text)
        _, sink, attached = self.attach(info.session_id, after_sequence=2)
        self.say("e")
        self.assertEqual((attached.first_sequence, attached.replay_through), (3, 4))
        self.assertEqual([c.sequence for c in sink.chunks], [3, 4, 5])
        self.assertEqual(sink.text, "cde")

    def test_replay_of_everything(self) -> None:
        """A whole mebibyte arrives, once and in order, and says what was dropped before it."""
        info = self.new()
        for number in range(TERMINAL_TAIL // (4 * KIB) + 3):
            self.say(f"{number:04}" + "x" * (4 * KIB - 4))
            self.clock.advance(1)
        attachment_id, sink, attached = self.attach(info.session_id)
        self.assertTrue(attached.is_truncated)
        self.assertEqual(attached.first_sequence, 4)
        self.take(attachment_id, sink)
        self.assertEqual(len(sink.text), TERMINAL_TAIL)
        self.assertEqual(
            [c.sequence for c in sink.chunks],
            list(range(attached.first_sequence, attached.replay_through + 1)),
        )
        self.assertTrue(all(c.data.startswith(f"{c.sequence - 1:04}") for c in sink.chunks))

    def test_a_number_that_is_ahead(self) -> None:
        """Is refused, and nothing is attached."""
        info = self.new()
        self.say("a")
        sink = RecordingTerminalSink()
        _, d = self.attach_call(info.session_id, sink, after_sequence=2)
        self.fails(d, REPLAY_SEQUENCE)
        self.attach(info.session_id, after_sequence=1)
        self.say("b")
        self.assertEqual(sink.events, [])

    def test_an_unknown_terminal(self) -> None:
        """Is told."""
        _, d = self.attach_call("00000000-0000-4000-8000-00000000ffff", RecordingTerminalSink())
        self.fails(d, NOT_FOUND)

    def test_another_client_has_to_take_it(self) -> None:
        """To restore is refused, and yet it hears of the terminal's status from then on; to take
        over always succeeds, and the other is told by whom.
        """
        info = self.new()
        first, owner, _ = self.attach(info.session_id, client_id="one")
        follower = RecordingTerminalSink()
        followed, d = self.attach_call(info.session_id, follower, client_id="two")
        self.fails(d, TAKEOVER_REQUIRED)
        self.say("a")
        self.result(self.rename_call(info, "title"))
        self.settle()
        self.assertEqual((owner.text, follower.text), ("a", ""))
        self.assertEqual([type(e) for e in follower.events], [TerminalChanged])
        self.fails(self.terminals.input(followed, "x"), NOT_ATTACHED)
        second, taker, attached = self.attach(
            info.session_id, client_id="two", intent="takeover", after_sequence=1
        )
        self.assertEqual(attached.generation, 2)
        self.say("b")
        self.assertEqual((owner.text, taker.text), ("a", "b"))
        self.assertEqual(owner.events[-1], TerminalTakenOver(replacement_client_id="two"))
        self.fails(self.terminals.input(first, "x"), NOT_ATTACHED)
        self.fails(self.terminals.resize(first, size(1)), NOT_ATTACHED)
        self.result(self.terminals.input(second, "y"))
        self.assertEqual(self.ptys.last.typed, [b"y"])

    def test_the_same_client_restores(self) -> None:
        """From another socket, without a word to the one before, which loses output and rights."""
        info = self.new()
        first, before, _ = self.attach(info.session_id)
        _, after, _ = self.attach(info.session_id)
        self.say("a")
        self.ptys.last.exit(0)
        self.settle()
        self.assertEqual((before.text, after.text), ("", "a"))
        self.assertEqual([type(e) for e in before.events], [TerminalChanged])
        self.fails(self.terminals.input(first, "x"), NOT_ATTACHED)

    def test_detaching(self) -> None:
        """The process goes on, and what it says is kept; an older attachment that is detached does
        not touch a newer one.
        """
        info = self.new()
        first, sink, _ = self.attach(info.session_id)
        self.terminals.detach(first)
        self.settle()
        self.assertEqual(self.listed().terminals[0].attachment_status, "detached")
        self.say("a")
        self.assertEqual(sink.events, [])
        self.fails(self.terminals.input(first, "x"), NOT_ATTACHED)
        second, after, _ = self.attach(info.session_id)
        self.terminals.detach(first)
        self.terminals.detach("unknown")
        self.say("b")
        self.assertEqual(after.text, "ab")
        self.result(self.terminals.input(second, "x"))

    def test_an_id_that_is_used(self) -> None:
        """Is refused, and the attachment of that id is as it was."""
        info = self.new()
        first, sink, _ = self.attach(info.session_id)
        _, d = self.attach_call(
            info.session_id, RecordingTerminalSink(), attachment_id=first, intent="takeover"
        )
        self.fails(d, VALIDATION)
        self.say("a")
        self.assertEqual(sink.text, "a")

    def test_the_epoch(self) -> None:
        """Must be the one of the list, where it is said."""
        info = self.new()
        epoch = self.listed().attachment_epoch
        self.attach(info.session_id, attachment_epoch=epoch)
        _, d = self.attach_call(info.session_id, RecordingTerminalSink(), attachment_epoch="old")
        self.fails(d, UNAVAILABLE)

    def test_authority_ends(self) -> None:
        """By itself: the last event says so, nothing is typed any more, and the process goes on."""
        info = self.new()
        attachment_id, sink, _ = self.attach(info.session_id, expires_in=60.0)
        self.clock.pump([0.5] * 100)
        self.say("a")
        self.clock.pump([0.5] * 20)
        self.say("b")
        self.assertEqual(sink.text, "a")
        end = sink.events[-1]
        assert isinstance(end, TerminalDetached)
        self.assertEqual(end.code, AUTH_EXPIRED)
        self.fails(self.terminals.input(attachment_id, "x"), NOT_ATTACHED)
        self.assertEqual((self.ptys.last.typed, self.ptys.last.ends), ([], 0))
        _, d = self.attach_call(info.session_id, RecordingTerminalSink(), expires_in=0.0)
        self.fails(d, AUTH_EXPIRED)

    def test_a_reader_that_stops(self) -> None:
        """Is detached when too much waits for it, and never has a hole in what it got; attaching
        again says what is missing.
        """
        info = self.new()
        _, sink, _ = self.attach(info.session_id)
        for _ in range(5 * MIB // (16 * KIB)):
            self.say("x" * 16 * KIB)
            self.clock.advance(0.1)
        end = sink.events[-1]
        assert isinstance(end, TerminalDetached)
        self.assertEqual(end.code, BACKPRESSURE)
        numbers = [c.sequence for c in sink.chunks]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        _, _, attached = self.attach(info.session_id, after_sequence=numbers[-1])
        self.assertTrue(attached.is_truncated)

    def test_a_sink_that_is_full(self) -> None:
        """Is offered the same again until it takes it; its terminal waits for it, no other does."""
        one = self.new()
        pty = self.ptys.last
        attachment_id, sink, _ = self.attach(one.session_id)
        sink.is_full = True
        for text in "abc":
            self.say(text)
        other = self.new()
        _, free, _ = self.attach(other.session_id)
        self.say("quick")
        self.assertEqual((free.text, sink.text), ("quick", ""))
        sink.is_full = False
        self.settle()
        pty.say("d")
        self.settle()
        self.assertEqual([c.sequence for c in sink.chunks], [1, 2, 3, 4])
        self.assertEqual(sink.text, "abcd")
        self.terminals.detach(attachment_id)


class LocalAttaching(Attaching, LocalCase):
    """On this machine."""


class HeldAttaching(Attaching, HeldCase):
    """The tests' double."""


class RemoteAttaching(Attaching, LinkedCase):
    """Behind a link."""
