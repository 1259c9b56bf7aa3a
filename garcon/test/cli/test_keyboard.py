"""What is typed at an attached terminal."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli.failures import CommandFailure
from garcon.cli.keyboard import Keyboard, detach_key, pieces
from garcon.contract.limits import TERMINAL_INPUT


class DetachKeyTests(SynchronousTestCase):
    """Which key detaches."""

    def test_the_default(self) -> None:
        """Ctrl-], and what terminals send for it when keys are encoded otherwise."""
        key = detach_key(None)
        self.assertEqual(key.name, "Ctrl-]")
        self.assertEqual(key.codes, (b"\x1d", b"\x1b[93;5u", b"\x1b[27;5;93~"))

    def test_another(self) -> None:
        """A letter in either case, or a sign."""
        for text in ("^a", "^A"):
            self.assertEqual(detach_key(text).codes[:2], (b"\x01", b"\x1b[97;5u"))
        self.assertEqual(detach_key("^\\").codes[0], b"\x1c")
        self.assertEqual(detach_key("^_").codes[0], b"\x1f")
        self.assertEqual(detach_key("none").codes, ())

    def test_what_is_no_key(self) -> None:
        """Also Escape and Enter, which begin or end what else is typed."""
        for text in ("", "^", "a", "^aa", "^1", "^@", "ctrl-a", "^[", "^m", "^é"):
            error = self.assertRaises(CommandFailure, detach_key, text)
            self.assertEqual(error.exit_status, 2, text)


class KeyboardTests(SynchronousTestCase):
    """Bytes become texts."""

    def setUp(self) -> None:
        self.keyboard = Keyboard(detach_key(None))

    def test_everything_is_passed_on(self) -> None:
        """Control characters, too: Ctrl-C, Ctrl-Z and Ctrl-\\ are the shell's."""
        data = bytes(byte for byte in range(0x80) if byte != 0x1D)
        self.assertEqual(self.keyboard.read(data), (data.decode(), False))

    def test_a_character_in_pieces(self) -> None:
        """It waits for its rest."""
        typed = [self.keyboard.read(bytes((byte,)))[0] for byte in "a漢".encode()]
        self.assertEqual(typed, ["a", "", "", "漢"])

    def test_what_is_no_utf_8(self) -> None:
        """Is typed as a replacement character; what follows is as it was."""
        self.assertEqual(self.keyboard.read(b"a\xffb\xe6\xbcc"), ("a\ufffdb\ufffdc", False))

    def test_the_key_detaches(self) -> None:
        """What was typed before it is sent, what follows is not; in any of its encodings."""
        for code in (b"\x1d", b"\x1b[93;5u", b"\x1b[27;5;93~"):
            self.assertEqual(self.keyboard.read(b"ab" + code + b"cd\x1d"), ("ab", True))

    def test_without_a_key(self) -> None:
        """Everything goes through."""
        keyboard = Keyboard(detach_key("none"))
        self.assertEqual(keyboard.read(b"\x1d"), ("\x1d", False))

    def test_what_leaves_without_a_connection(self) -> None:
        """The key, and Ctrl-C; half a character from before is forgotten."""
        self.keyboard.read(b"\xe6")
        self.assertFalse(self.keyboard.leaves(b"abc"))
        self.assertEqual(self.keyboard.read(b"x"), ("x", False))
        self.assertTrue(self.keyboard.leaves(b"\x1d"))
        self.assertTrue(Keyboard(detach_key("none")).leaves(b"\x03"))


class PieceTests(SynchronousTestCase):
    """At most `TERMINAL_INPUT` bytes in a message."""

    def test_at_the_limit(self) -> None:
        """That much is one piece, one byte more is two."""
        self.assertEqual(pieces(""), [])
        self.assertEqual(pieces("x" * TERMINAL_INPUT), ["x" * TERMINAL_INPUT])
        self.assertEqual(pieces("x" * (TERMINAL_INPUT + 1)), ["x" * TERMINAL_INPUT, "x"])

    def test_no_character_is_split(self) -> None:
        """Wherever the limit falls into one."""
        for character in ("é", "漢", "😀"):
            for before in range(4):
                text = "x" * before + character * TERMINAL_INPUT
                found = pieces(text)
                self.assertEqual("".join(found), text)
                self.assertTrue(all(len(one.encode()) <= TERMINAL_INPUT for one in found))
