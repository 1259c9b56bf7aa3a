"""Long lines in steps: the same as at once, whatever the window."""

from __future__ import annotations

import json
from threading import Thread
from typing import Any

from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.agents.lines import decode
from garcon.runtime.agents.long_lines import decode_in_steps
from garcon.test.properties import given

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)


class Steps(SynchronousTestCase):
    @given(st.dictionaries(st.text(max_size=5), _VALUES), st.integers(1, 60), st.booleans())
    def test_the_same_as_at_once(self, value: dict[str, Any], window: int, is_spaced: bool) -> None:
        """Whatever the line and the window, with white space and without, escaped and not."""
        line = json.dumps(value, indent=2 if is_spaced else None, ensure_ascii=is_spaced).encode(
            "utf-8", "surrogatepass"
        )
        self.assertEqual(decode_in_steps([line], window), decode(line))

    @given(st.text(max_size=20), st.integers(1, 9), st.integers(1, 9))
    def test_pieces(self, text: str, size: int, window: int) -> None:
        """Wherever a pipe has cut it, also within a character."""
        line = json.dumps({"a": text}, ensure_ascii=False).encode("utf-8", "surrogatepass")
        pieces = [line[at : at + size] for at in range(0, len(line), size)]
        self.assertEqual(decode_in_steps(pieces, window), decode(line))

    @given(st.binary(max_size=60), st.integers(1, 60))
    def test_any_bytes(self, line: bytes, window: int) -> None:
        """What is no object is nothing."""
        self.assertEqual(decode_in_steps([line], window), decode(line))

    @given(
        st.text(alphabet='{}[]":,1e-. \\ntu', max_size=40).map(lambda text: "{" + text),
        st.integers(1, 50),
    )
    def test_nearly_json(self, text: str, window: int) -> None:
        """As it is cut or spoilt."""
        line = text.encode()
        self.assertEqual(decode_in_steps([line], window), decode(line))

    def test_a_number_at_the_window_s_end(self) -> None:
        """Is not taken for a shorter one."""
        line = b'{"a": [12345, [67890, 12345], {"b": 67890}], "c": 13579}'
        for window in range(1, len(line) + 2):
            self.assertEqual(decode_in_steps([line], window), json.loads(line), window)

    @given(
        st.lists(
            st.sampled_from(
                [
                    "a",
                    "\u00e9",
                    "\\u00e9",
                    "\\\\",
                    '\\"',
                    "\\ud83e",
                    "\\uddc0",
                    "\\u12",
                    "\\q",
                    "ud83e",
                ]
            ),
            max_size=12,
        ).map("".join),
        st.integers(1, 14),
    )
    def test_a_text_in_pieces(self, text: str, window: int) -> None:
        """Is the same wherever a piece ends: no escape is parted, and no pair of them."""
        line = f'{{"a": "{text}"}}'.encode()
        self.assertEqual(decode_in_steps([line], window), decode(line))

    def test_others_have_their_turn_at_many_values(self) -> None:
        """While one thread decodes many megabytes another goes on, again and again."""
        self.others_go_on(b'{"a": [' + b'{"b": [1, "x"]},' * 500_000 + b"0]}")

    def test_others_have_their_turn_at_a_long_text(self) -> None:
        """Also where it is one value."""
        self.others_go_on(b'{"a": "' + b"\\n\\u00e9x" * 2_000_000 + b'"}')

    def others_go_on(self, line: bytes) -> None:
        decoding = Thread(target=decode_in_steps, args=([line],))
        turns = 0
        decoding.start()
        while decoding.is_alive():
            decoding.join(0.001)
            turns += 1
        self.assertGreater(turns, 20)

    def test_what_no_store_could_keep_is_replaced(self) -> None:
        """As in short lines."""
        for line in (b'{"a": ["x\\ud800"]}', b'{"\xff": 1}', b'{"a": "\\ud83e\\uddc0"}'):
            self.assertEqual(decode_in_steps([line], 4), decode(line))

    def test_what_is_nested_too_deep(self) -> None:
        """Is nothing, and no error."""
        deep = b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        self.assertIsNone(decode_in_steps([deep]))
        self.assertIsNone(decode_in_steps([b"[" * 100_000], 10))
