"""Chat ids (chats.md 2.1), and the UUIDs that are made here."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.ids import is_chat_id, is_uuid4, minted_at, new_uuid4


class ChatIdTests(SynchronousTestCase):
    """Sixteen digits: microseconds."""

    def test_the_first_and_the_last(self) -> None:
        """One millisecond after the epoch, and the largest safe integer; their neighbours are
        none.
        """
        for good in ("0000000000001000", "1767000000000001", "9007199254740991"):
            self.assertTrue(is_chat_id(good), good)
        for bad in ("0000000000000999", "0000000000000000", "9007199254740992"):
            self.assertFalse(is_chat_id(bad), bad)

    def test_nothing_else_is_one(self) -> None:
        """Neither the seconds and milliseconds of older ids, nor other digits, nor a number."""
        bad: tuple[Any, ...] = (
            *("1767000000", "1767000000000", "17670000000000011", "", "176700000000000x"),
            *("+767000000000001", "1767000000000001\n", " 1767000000000001"),
            *("\u0661" * 16, 1767000000000001, None),
        )
        for text in bad:
            self.assertFalse(is_chat_id(text), text)

    def test_it_says_when_the_chat_was_made(self) -> None:
        """To the millisecond."""
        self.assertEqual(minted_at("1767000000123999"), "2025-12-29T09:20:00.123Z")
        self.assertEqual(minted_at("0000000000001000"), "1970-01-01T00:00:00.001Z")
        self.assertEqual(minted_at("9007199254740991"), "2255-06-05T23:47:34.740Z")


class NewUuids(SynchronousTestCase):
    """Those of ours."""

    def test_they_are_uuids(self) -> None:
        """Of version 4, as the standard library reads them too, and no two alike."""
        made = [new_uuid4() for _ in range(1_000)]
        self.assertEqual(len(set(made)), len(made))
        for text in made:
            self.assertTrue(is_uuid4(text), text)
            self.assertEqual((str(UUID(text)), UUID(text).version), (text, 4))
        self.assertEqual({text[19] for text in made}, set("89ab"))
