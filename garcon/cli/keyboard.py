"""What is typed at an attached terminal, as values: texts for its program, and the key that
detaches.
"""

from __future__ import annotations

from codecs import getincrementaldecoder

from garcon.cli.failures import bad_arguments
from garcon.contract.limits import TERMINAL_INPUT

DETACH = "^]"
"""Ctrl-], as telnet has it: hardly anything else uses it."""
_INTERRUPT = (b"\x03", b"\x1b[99;5u", b"\x1b[27;5;99~")


class DetachKey:
    """A control key.  `name` is how a person types it, `codes` what terminals send for it."""

    __slots__ = ("codes", "name")

    def __init__(self, character: str | None) -> None:
        self.name = ""
        self.codes: tuple[bytes, ...] = ()
        if character is None:
            return
        self.name = f"Ctrl-{character}"
        plain = ord(character.lower())
        # The others come while a program has asked for keys in a clearer encoding, as fish does.
        self.codes = (
            bytes((ord(character) & 0x1F,)),
            b"\x1b[%d;5u" % plain,
            b"\x1b[27;5;%d~" % plain,
        )


def detach_key(text: str | None) -> DetachKey:
    """Return the key that ``--detach-key`` names: ``^X``, or ``none``."""
    text = DETACH if text is None else text
    if text == "none":
        return DetachKey(None)
    key = text[1:].upper()
    if len(text) != 2 or text[0] != "^" or not "A" <= key <= "_":
        raise bad_arguments("--detach-key is ^ and a letter or one of [\\]^_, or none")
    if key in "[M":
        raise bad_arguments("--detach-key cannot be Escape or Enter: other keys begin with it")
    return DetachKey(key)


class Keyboard:
    """Turns bytes into texts; a character whose bytes came apart waits for its rest."""

    def __init__(self, key: DetachKey) -> None:
        self.key = key
        # What is no UTF-8, as old encodings of the mouse, is typed as a replacement character.
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def read(self, data: bytes) -> tuple[str, bool]:
        """Return the text for the program, and whether the detach key was typed after it."""
        found = [at for code in self.key.codes if (at := data.find(code)) >= 0]
        if not found:
            return self._decoder.decode(data), False
        return self._decoder.decode(data[: min(found)]), True

    def leaves(self, data: bytes) -> bool:
        """Whether what was typed while there is no connection asks to leave; Ctrl-C does, too."""
        self._decoder.reset()
        return any(code in data for code in (*self.key.codes, *_INTERRUPT))


def pieces(text: str) -> list[str]:
    """Return a text in pieces that one message can hold; no character is split."""
    data = text.encode()
    if len(data) <= TERMINAL_INPUT:
        return [text] if text else []
    found = []
    while data:
        end = TERMINAL_INPUT
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        found.append(data[:end].decode())
        data = data[end:]
    return found
