"""What a terminal's output does to the local one, as values: the modes it sets, which must not
stay when it is left, and what in it must not happen a second time.
"""

from __future__ import annotations

import re

_MODES = re.compile(rb"\x1b\[\?([0-9;]{1,40})([hl])|\x1b([=>])|\x1b\[([=>])[0-9;]{0,12}([um])")
_LONGEST = 64
"""A sequence that matters and came apart is no longer than this."""

_ON_AT_REST = frozenset({7, 25})
_OFF_AT_REST = frozenset(
    {1, 6, 9, 47, 66, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 1047, 1049}
    | {2004, 2026, 2031, 2048}
)
"""Private modes of which it is known how a terminal has them for a shell."""

_ONCE = re.compile(
    rb"\x1b\[[>=?]?[0-9;]*c"  # what are you
    rb"|\x1b\[\??(?:[56]|996)(?:;[0-9]+)?n"  # how are you, where is the cursor
    rb"|\x1b\[\??[0-9]+\$p"  # is this mode set
    rb"|\x1b\[>[0-9]*q"  # which version
    rb"|\x1b\[\?u"  # how are keys encoded
    rb"|\x1b\[(?:1[134568]|19|2[01])t"  # how large is the window
    rb"|\x1bZ"
    rb"|\x1b\][0-9;]*\?(?:\x07|\x1b\\)"  # which colour
    rb"|\x1bP[+$]q[^\x1b\x07]{0,256}\x1b\\"  # which capability, which setting
    rb"|\x1b\](?:52|9|99|777);[^\x07\x1b]*(?:\x07|\x1b\\)"  # clipboard and notifications
)


def replayed(data: bytes) -> bytes:
    """Return output of before as it is shown again: without the questions, whose answers would be
    typed into a program that does not wait for them, and without what must not happen twice.
    """
    return _ONCE.sub(b"", data)


class Modes:
    """Follows the output and knows what of it must be undone."""

    def __init__(self) -> None:
        self._changed: dict[int, bool] = {}
        self._has_keypad = False
        self._has_keys = False
        self._rest = b""
        self._is_in_line = False

    def follow(self, data: bytes) -> None:
        """Take output as it is shown."""
        self._is_in_line = not data.endswith(b"\n") if data else self._is_in_line
        data = self._rest + data
        for found in _MODES.finditer(data):
            numbers, way, keypad, _, kind = found.groups()
            if keypad:
                self._has_keypad = keypad == b"="
            elif kind:
                # Keys in another encoding: it is enough to know that they may be.
                self._has_keys = True
            else:
                self._private(numbers, way == b"h")
        at = data.rfind(b"\x1b", -_LONGEST)
        self._rest = data[at:] if at >= 0 and _MODES.match(data, at) is None else b""

    def _private(self, numbers: bytes, is_set: bool) -> None:
        for text in numbers.split(b";"):
            mode = int(text or 0)
            if mode in _ON_AT_REST or mode in _OFF_AT_REST:
                if is_set == (mode in _ON_AT_REST):
                    self._changed.pop(mode, None)
                else:
                    self._changed[mode] = is_set

    def undo(self) -> bytes:
        """Return what makes the local terminal as it is for a shell, at the beginning of a line."""
        made = b"".join(_private(mode, not is_set) for mode, is_set in self._changed.items())
        if self._has_keypad:
            made += b"\x1b>"
        if self._has_keys:
            made += b"\x1b[=0u\x1b[>4;0m"
        return b"\x1b[0m" + made + (b"\r\n" if self._is_in_line else b"")

    def again(self) -> bytes:
        """Return what brings the modes back that `undo` took."""
        made = b"".join(_private(mode, is_set) for mode, is_set in self._changed.items())
        return made + (b"\x1b=" if self._has_keypad else b"")


def _private(mode: int, is_set: bool) -> bytes:
    return b"\x1b[?%d%s" % (mode, b"h" if is_set else b"l")
