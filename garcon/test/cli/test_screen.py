"""What output does to the local terminal, and how that is undone."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli.screen import Modes, replayed


class ModesTests(SynchronousTestCase):
    """Modes that programs set."""

    def undo(self, *outputs: bytes) -> bytes:
        modes = Modes()
        for output in (*outputs, b"\n"):
            modes.follow(output)
        return modes.undo()

    def test_what_comes_next_is_on_a_line_of_its_own(self) -> None:
        """Where a prompt waits, the line is ended."""
        modes = Modes()
        self.assertEqual(modes.undo(), b"\x1b[0m")
        modes.follow(b"$ ")
        self.assertEqual(modes.undo(), b"\x1b[0m\r\n")
        modes.follow(b"")
        self.assertEqual(modes.undo(), b"\x1b[0m\r\n")
        modes.follow(b"exit\r\n")
        self.assertEqual(modes.undo(), b"\x1b[0m")

    def test_nothing_was_changed(self) -> None:
        """Then only colours are."""
        self.assertEqual(self.undo(b"hello \x1b[31mred\r\n"), b"\x1b[0m")

    def test_what_a_full_screen_program_leaves(self) -> None:
        """Its screen, its mouse, its hidden cursor and its keys."""
        undone = self.undo(b"\x1b[?1049h\x1b[?25l\x1b[?1002;1006hx\x1b[?2004h\x1b=\x1b[>1u")
        expected = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1002l", b"\x1b[?1006l", b"\x1b[?2004l")
        for part in (*expected, b"\x1b>", b"\x1b[=0u"):
            self.assertIn(part, undone)

    def test_what_it_undid_itself(self) -> None:
        """Is not undone again."""
        output = b"\x1b[?1049h\x1b[?25l\x1b=x\x1b>\x1b[?25h\x1b[?1049l"
        self.assertEqual(self.undo(output), b"\x1b[0m")

    def test_a_sequence_in_pieces(self) -> None:
        """However it comes apart, and once."""
        output = b"x\x1b[?1049h"
        for at in range(1, len(output)):
            self.assertEqual(self.undo(output[:at], output[at:]), b"\x1b[0m\x1b[?1049l")
        pieces = [bytes((byte,)) for byte in output]
        self.assertEqual(self.undo(*pieces, b"\x1b[?1049l"), b"\x1b[0m")

    def test_unknown_modes_are_left(self) -> None:
        """Nobody knows how they were."""
        self.assertEqual(self.undo(b"\x1b[?12h\x1b[?9999;h\x1b[?h"), b"\x1b[0m")

    def test_again(self) -> None:
        """After a stop they are set as they were."""
        modes = Modes()
        modes.follow(b"\x1b[?1049h\x1b[?25l\x1b=")
        self.assertEqual(modes.again(), b"\x1b[?1049h\x1b[?25l\x1b=")

    def test_little_is_kept(self) -> None:
        """An escape without an end is not collected."""
        modes = Modes()
        modes.follow(b"\x1b[?" + b"1;" * 100_000)
        self.assertLess(len(modes._rest), 100)


class ReplayTests(SynchronousTestCase):
    """What is shown a second time."""

    def test_the_clipboard_stays(self) -> None:
        """And nobody is notified again."""
        for once in (b"\x1b]52;c;aGk=\x07", b"\x1b]777;notify;a;b\x1b\\", b"\x1b]9;done\x07"):
            self.assertEqual(replayed(b"a" + once + b"b"), b"ab", once)

    def test_questions_are_left_out(self) -> None:
        """The answers would be typed into the shell."""
        questions = (
            b"\x1b[c",
            b"\x1b[0c",
            b"\x1b[>c",
            b"\x1b[=c",
            b"\x1b[6n",
            b"\x1b[5n",
            b"\x1b[?6n",
            b"\x1b[?996n",
            b"\x1b[?2026$p",
            b"\x1b[>q",
            b"\x1b[?u",
            b"\x1b[14t",
            b"\x1b[18t",
            b"\x1bZ",
            b"\x1b]11;?\x07",
            b"\x1b]4;1;?\x1b\\",
            b"\x1bP+q544e\x1b\\",
            b"\x1bP$qm\x1b\\",
        )
        for question in questions:
            self.assertEqual(replayed(b"a" + question + b"b"), b"ab", question)

    def test_nothing_else_is(self) -> None:
        """Colours, movements, titles and modes stay."""
        output = (
            b"\x1b[31mred\x1b[0m\x1b[2J\x1b[10;20H\x1b[?25h\x1b]0;what?\x07\x1b[22;0t"
            b"\x1b[>1u\x1b[=1u\x1b[u\x1b[2 q\x1b]8;;http://x/?q\x1b\\\x1b[8;24;80t"
        )
        self.assertEqual(replayed(output), output)
