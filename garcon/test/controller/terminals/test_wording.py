"""Messages of terminals: never larger than they may be, and nothing left out (server.md C.6)."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import strategies as st
from msgspec import UNSET
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import TERMINAL_FRAGMENT, TERMINAL_MESSAGE
from garcon.contract.terminals import TerminalChunk
from garcon.controller.terminals import wording
from garcon.test.properties import given

NAME = "local/00000000-0000-4000-8000-000000000001/00000000-0000-4000-8000-000000000002"
PIECES = st.sampled_from(["x", "é", "漢字", "🙂", "👩‍👩‍👧", "\x1b[0m", '"', "\\", "\u2028"])
"""One byte to many, and some that JSON makes longer."""
TEXTS = st.builds(
    lambda piece, count, rest: piece * count + rest,
    PIECES,
    st.sampled_from([1, 7, 1_000, 9_000, 16_384, 70_000]),
    st.text(max_size=3, alphabet=st.characters(codec="utf-8")),
)


def chunks(texts: list[str]) -> list[TerminalChunk]:
    return [TerminalChunk(sequence=n, data=text) for n, text in enumerate(texts, 1)]


def joined(texts: list[bytes]) -> list[tuple[int, str]]:
    """What a client puts together; of each fragmented chunk when its last fragment came."""
    found: list[tuple[int, str]] = []
    parts: list[str] = []
    for text in texts:
        assert len(text) <= TERMINAL_MESSAGE, len(text)
        said: dict[str, Any] = json.loads(text)
        match said["type"]:
            case "terminal-output":
                found.append((said["sequence"], said["data"]))
            case "terminal-replay-batch":
                assert said["chunks"]
                for one in said["chunks"]:
                    found.append((one["sequence"], decoded(one["dataBase64"])))
            case "terminal-output-fragment":
                assert said["fragmentIndex"] == len(parts)
                assert len(said["dataBase64"]) <= TERMINAL_FRAGMENT
                parts.append(said["dataBase64"])
                if len(parts) == said["fragmentCount"]:
                    found.append((said["sequence"], decoded("".join(parts))))
                    parts = []
    assert not parts
    return found


def decoded(data: str) -> str:
    assert len(data) % 4 == 0
    return base64.b64decode(data, validate=True).decode()


class Wording(SynchronousTestCase):
    """Any output, in messages that fit."""

    @given(st.lists(TEXTS, min_size=1, max_size=6), st.sampled_from([UNSET, "a" * 256]))
    def test_any_replay(self, texts: list[str], echo: Any) -> None:
        """Comes whole and in order, whatever is in it."""
        batches = list(wording.batches(NAME, chunks(texts), echo))
        expected = [(one.sequence, one.data) for one in chunks(texts)]
        self.assertEqual(joined([text for text, _ in batches]), expected)
        numbers = [through for _, through in batches]
        self.assertEqual(numbers, sorted(numbers))
        self.assertEqual(numbers[-1], len(texts))

    @given(TEXTS, st.sampled_from([UNSET, "a" * 256]))
    def test_any_output(self, text: str, echo: Any) -> None:
        """Is one message, or fragments that a client joins again."""
        (chunk,) = chunks([text])
        self.assertEqual(joined(wording.output(NAME, chunk, echo)), [(1, text)])

    def test_characters_cut_at_every_byte(self) -> None:
        """Fragments end anywhere in a character of four bytes."""
        for shift in range(4):
            text = "x" * shift + "🙂" * 30_000
            (chunk,) = chunks([text])
            fragments = wording.output(NAME, chunk, UNSET)
            self.assertGreater(len(fragments), 2)
            self.assertEqual(joined(fragments), [(1, text)])
            batches = [part for part, _ in wording.batches(NAME, [chunk], UNSET)]
            self.assertEqual(joined(batches), [(1, text)])

    def test_one_message_at_n_and_n_plus_one(self) -> None:
        """As it is up to 65,536 bytes of JSON; in fragments of 49,152 characters above."""
        (around,) = wording.output(NAME, TerminalChunk(sequence=1, data=""), "a")
        most = TERMINAL_MESSAGE - len(around)
        for size, count in ((most, 1), (most + 1, 2)):
            texts = wording.output(NAME, TerminalChunk(sequence=1, data="x" * size), "a")
            self.assertEqual(len(texts), count)
        fragments = [json.loads(text) for text in texts]
        self.assertEqual({one["fragmentCount"] for one in fragments}, {2})
        self.assertEqual(len(fragments[0]["dataBase64"]), TERMINAL_FRAGMENT)

    def test_a_large_chunk_keeps_its_place(self) -> None:
        """Its fragments lie between the batches."""
        texts = ["a", "x" * 70_000, "b"]
        kinds = [
            json.loads(text)["type"] for text, _ in wording.batches(NAME, chunks(texts), UNSET)
        ]
        self.assertEqual(
            kinds,
            [
                "terminal-replay-batch",
                "terminal-output-fragment",
                "terminal-output-fragment",
                "terminal-replay-batch",
            ],
        )
