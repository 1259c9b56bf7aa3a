"""What is typed into terminals and how they exit, on this machine and behind a link alike
(server.md C.5).
"""

from __future__ import annotations

from garcon.contract.limits import TERMINAL_INPUT
from garcon.contract.terminals import PROCESS_EXITED, VALIDATION, TerminalChanged
from garcon.test.controller.executors.terminal_cast import (
    Asking,
    HeldCase,
    LinkedCase,
    LocalCase,
    size,
)


class Typing(Asking):
    """Input, sizes and the exit."""

    def test_typing(self) -> None:
        """Bytes of UTF-8, in order, sizes between them kept where they are."""
        info = self.new()
        attachment_id, _, _ = self.attach(info.session_id, size=size(1))
        pty = self.ptys.last
        pty.block()
        calls = [
            self.terminals.input(attachment_id, "漢🙂"),
            self.terminals.resize(attachment_id, size(2)),
            self.terminals.input(attachment_id, "\x03"),
        ]
        self.settle()
        for d in calls:
            self.assertNoResult(d)
        pty.read_on()
        for d in calls:
            self.assertIsNone(self.result(d))
        self.assertEqual(pty.done, [size(1), "漢🙂".encode(), size(2), b"\x03"])

    def test_64_kib_and_one_byte_more(self) -> None:
        """The one is typed whole, the other not at all."""
        info = self.new()
        attachment_id, _, _ = self.attach(info.session_id)
        self.result(self.terminals.input(attachment_id, "x" * TERMINAL_INPUT))
        self.assertEqual(b"".join(self.ptys.last.typed), b"x" * TERMINAL_INPUT)
        self.fails(self.terminals.input(attachment_id, "y" * (TERMINAL_INPUT + 1)), VALIDATION)
        self.result(self.terminals.input(attachment_id, "z"))
        self.assertEqual(self.ptys.last.typed[-1], b"z")
        self.assertFalse(any(b"y" in data for data in self.ptys.last.typed))

    def test_a_large_paste(self) -> None:
        """Ten mebibytes in pieces arrive in order while small keys follow, though the shell reads
        only now and then.
        """
        info = self.new()
        attachment_id, _, _ = self.attach(info.session_id)
        pty = self.ptys.last
        pty.block()
        texts = [chr(ord("a") + n % 26) * TERMINAL_INPUT for n in range(160)]
        calls = [self.terminals.input(attachment_id, text) for text in texts]
        calls.append(self.terminals.input(attachment_id, "\r"))
        self.settle()
        for _ in range(20):
            if all(d.called for d in calls):
                break
            pty.read_on()
            pty.block()
            self.settle()
            pty.read_on()
            self.settle()
        for d in calls:
            self.successResultOf(d)
        self.assertTrue(b"".join(pty.typed) == "".join([*texts, "\r"]).encode())

    def test_what_control_characters_cost(self) -> None:
        """64 KiB of them are typed as any other."""
        info = self.new()
        attachment_id, _, _ = self.attach(info.session_id)
        self.result(self.terminals.input(attachment_id, "\x1b" * TERMINAL_INPUT))
        self.assertTrue(b"".join(self.ptys.last.typed) == b"\x1b" * TERMINAL_INPUT)

    def test_input_that_waits_when_another_takes_over(self) -> None:
        """Is never typed, and nobody is told of a failure."""
        info = self.new()
        first, _, _ = self.attach(info.session_id, client_id="one")
        pty = self.ptys.last
        pty.block()
        lost = [self.terminals.input(first, "x" * TERMINAL_INPUT) for _ in range(4)]
        self.settle()
        second, _, _ = self.attach(info.session_id, client_id="two", intent="takeover")
        kept = self.terminals.input(second, "ls")
        self.settle()
        pty.read_on()
        self.settle()
        for d in lost:
            self.assertIsNone(self.successResultOf(d))
        self.result(kept)
        self.assertEqual(pty.typed, [b"ls"])

    def test_the_exit(self) -> None:
        """Comes after all output; what the terminal said and its code stay until it is removed."""
        info = self.new()
        attachment_id, sink, _ = self.attach(info.session_id)
        self.ptys.last.say("bye")
        self.ptys.last.exit(3)
        self.settle()
        changed = sink.events[-1]
        assert isinstance(changed, TerminalChanged)
        self.assertEqual(
            (changed.terminal.process_status, changed.terminal.exit_code, sink.text),
            ("exited", 3, "bye"),
        )
        self.fails(self.terminals.input(attachment_id, "x"), PROCESS_EXITED)
        self.assertIsNone(self.result(self.terminals.resize(attachment_id, size(3))))
        self.fails(self.terminals.input(attachment_id, "y"), PROCESS_EXITED)
        self.assertEqual(self.listed().terminals[0].exit_code, 3)
        _, after, _ = self.attach(info.session_id)
        self.settle()
        self.assertEqual(after.text, "bye")


class LocalTyping(Typing, LocalCase):
    """On this machine."""


class HeldTyping(Typing, HeldCase):
    """The tests' double."""


class RemoteTyping(Typing, LinkedCase):
    """Behind a link."""
