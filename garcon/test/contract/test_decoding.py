"""JSON of others: how much it may become."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.decoding import PARTS, decode


class DecodingTests(SynchronousTestCase):
    """Texts by the lists and objects in them."""

    def test_so_many_parts_and_no_more(self) -> None:
        """Lists and objects together, the outermost among them."""
        for part in (b"[]", b"{}"):
            few = b"[" + (part + b",") * (PARTS - 2) + part + b"]"
            self.assertEqual(len(decode(few, list)), PARTS - 1)
            with self.assertRaises(msgspec.DecodeError):
                decode(b"[" + few + b"]", list)

    def test_large_texts_have_few_parts(self) -> None:
        """What is long because it says much is read."""
        text = b'{"a": "' + b"x" * 4_000_000 + b'"}'
        self.assertEqual(len(decode(text, dict[str, str])["a"]), 4_000_000)

    def test_what_is_wrong_is_told_as_by_msgspec(self) -> None:
        """Another shape, no JSON, no text."""
        with self.assertRaises(msgspec.ValidationError):
            decode(b"[]", dict)
        with self.assertRaises(msgspec.DecodeError):
            decode(b"[", list)
