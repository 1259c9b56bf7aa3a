"""Bytes into JSON lines."""

from __future__ import annotations

from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.agents.lines import (
    DEPTH,
    TOO_DEEP,
    Lines,
    LineTooLong,
    decode,
    encode,
)
from garcon.runtime.agents.long_lines import decode_in_steps
from garcon.test.properties import given


class Splitting(SynchronousTestCase):
    @given(
        st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b"")), max_size=9), st.data()
    )
    def test_lines_do_not_depend_on_the_pieces(
        self, lines: list[bytes], data: st.DataObject
    ) -> None:
        """However a stream is cut, the same lines come out, and the rest is what has no end; large
        ones in their pieces.
        """
        stream = b"".join(line + b"\n" for line in lines) + b"rest"
        large = data.draw(st.integers(0, 9))
        found: list[bytes | list[bytes]] = []
        splitter = Lines(9, large)
        while stream:
            size = data.draw(st.integers(1, len(stream)))
            found += splitter.feed(stream[:size])
            stream = stream[size:]
        found.append(splitter.rest())
        self.assertEqual(splitter.rest(), b"")
        for line in found:
            joined = line if isinstance(line, bytes) else b"".join(line)
            self.assertEqual(isinstance(line, bytes), len(joined) <= large)
        whole = [line if isinstance(line, bytes) else b"".join(line) for line in found]
        self.assertEqual(whole, [*lines, b"rest"])

    def test_a_line_is_at_most_so_long(self) -> None:
        """However it is cut, and whether its end has come or not; what is before it counts for
        nothing.
        """
        for pieces in ([b"12345\n"], [b"12", b"345", b"\n"], [b"x\n1234", b"5\nx"]):
            splitter = Lines(5)
            self.assertIn(b"12345", [line for piece in pieces for line in splitter.feed(piece)])
        for pieces in ([b"123456"], [b"123", b"456"], [b"12345\n123456\n"], [b"x\n12345", b"6"]):
            splitter = Lines(5)
            with self.assertRaises(LineTooLong):
                for piece in pieces:
                    splitter.feed(piece)


class Decoding(SynchronousTestCase):
    def test_objects_only(self) -> None:
        """What is no object is nothing, whatever else it is."""
        self.assertEqual(decode('{"a": "ä漢"}'.encode()), {"a": "ä漢"})
        for line in (b"", b"[]", b"3", b"log line", b'{"a": }', b"\xff", b"[" * 100_000):
            self.assertIsNone(decode(line))
        for space in (b" ", b"\t\r", b" " * 63, b" " * 64, b" " * 65, b" " * 1000):
            self.assertEqual(decode(space + b'{"a": 1}'), {"a": 1})
            self.assertIsNone(decode(space + b"x"))
            self.assertIsNone(decode(space))

    def test_what_no_store_could_keep_is_replaced(self) -> None:
        """Unpaired surrogates, as JavaScript writes them, and bytes that are no text."""
        self.assertEqual(decode(b'{"a": ["x\\ud800"]}'), {"a": ["x\ufffd"]})
        self.assertEqual(decode(b'{"\xff": 1}'), {"\ufffd": 1})
        self.assertEqual(decode(b'{"a": "\\ud83e\\uddc0"}'), {"a": "\U0001f9c0"})

    def test_what_is_nested_too_deeply(self) -> None:
        """A word stands for it: nothing that is done with a message later fails for its depth, and
        all else of it is there, a short line or a long one.
        """
        for depth in (1, DEPTH - 1, DEPTH, DEPTH + 1, 900):
            inner = b'{"b": 1, "c": ' * (depth - 1) + b"[2]" + b"}" * (depth - 1)
            line = b'{"a": 3, "d": ' + inner + b', "e": [' + b"{}," * DEPTH + b"0]}"
            for value in (decode(line), decode_in_steps([line])):
                assert value is not None
                self.assertEqual((value["a"], len(value["e"])), (3, DEPTH + 1))
                levels, at = 1, value["d"]
                while isinstance(at, dict):
                    levels, at = levels + 1, at["c"]
                self.assertEqual(
                    (levels, at), (min(depth, DEPTH), [2] if depth < DEPTH else TOO_DEEP)
                )

    def test_one_message_is_one_line(self) -> None:
        """Line ends in texts are escaped."""
        self.assertEqual(encode({"a": "x\ny"}), b'{"a":"x\\ny"}\n')
