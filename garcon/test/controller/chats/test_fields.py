"""Fields of command bodies (chats.md 1.1, 4.14, 4.15; decisions.md 29)."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import CLIENT_ID_BYTES, TITLE_BYTES
from garcon.controller.chats import fields
from garcon.errors import GarconError


class FieldTests(SynchronousTestCase):
    """Each field for itself."""

    def refused(self, f: Any, *args: Any) -> None:
        error = self.assertRaises(GarconError, f, *args)
        self.assertEqual((error.code, error.status), ("VALIDATION_FAILED", 400))

    def test_a_client_id_has_up_to_256_bytes(self) -> None:
        """After trimming, in UTF-8."""
        longest = "é" * (CLIENT_ID_BYTES // 2)
        self.assertEqual(fields.client_id(f"  {longest} ", "x"), longest)
        self.refused(fields.client_id, longest + "x", "x")
        self.refused(fields.client_id, " \n ", "x")

    def test_a_title_has_up_to_four_kibibytes(self) -> None:
        """After trimming, in UTF-8."""
        longest = "é" * (TITLE_BYTES // 2)
        self.assertEqual(fields.title(f" {longest} "), longest)
        self.refused(fields.title, longest + "x")
        self.refused(fields.title, "  ")

    def test_a_first_line_is_cut_between_characters(self) -> None:
        """At most 4 KiB, never half a character."""
        self.assertEqual(fields.first_line("\n  one \n two"), "one")
        line = fields.first_line("x" + "é" * TITLE_BYTES)
        self.assertEqual(len(line.encode()), TITLE_BYTES - 1)

    def test_a_chat_id_is_sixteen_digits(self) -> None:
        """Anything else is refused."""
        self.assertEqual(fields.chat_id("1767000000000001"), "1767000000000001")
        for wrong in ("", "1", "17670000000000011", "176700000000000x", "9999999999999999"):
            self.refused(fields.chat_id, wrong)

    def test_an_executor_is_local_by_default(self) -> None:
        """Absent is Local, malformed is refused."""
        self.assertEqual(fields.executor_id(None), "local")
        self.refused(fields.executor_id, "Local")

    def test_tags_are_slugs(self) -> None:
        """Normalised, without empties and duplicates, sorted."""
        self.assertEqual(fields.slug("Review Needed"), "review-needed")
        self.assertEqual(fields.slug("--a  b--c!-"), "a-b-c")
        self.assertEqual(fields.tags(["B", "a", "b", "!!", 3]), ["a", "b"])
        self.assertEqual(fields.tags("a"), [])

    def test_lenient_modes(self) -> None:
        """What is unknown becomes the plain one, old names are mapped."""
        self.assertEqual(fields.permission_mode("plan"), "plan")
        for unknown in ("nonsense", None, 3, ["plan"]):
            self.assertEqual(fields.permission_mode(unknown), "default")
        pairs = {"ultrathink": "max", "think": "low", "high": "high", "x": "none", 1: "none"}
        for said, meant in pairs.items():
            self.assertEqual(fields.thinking_mode(said), meant)

    def test_numbers_in_queries_are_digits(self) -> None:
        """No signs, no spaces, no zero where a count is meant."""
        self.assertEqual((fields.positive("7", "x"), fields.positive(None, "x")), (7, None))
        for wrong in ("0", "-1", "+1", " 1", "1.0", "", "x"):
            self.refused(fields.positive, wrong, "x")
        self.assertEqual(fields.natural("0", "x"), 0)
        self.assertEqual(fields.positive("9" * 30, "x"), 10**30 - 1)

    def test_presentations(self) -> None:
        """A style, custom ones with their colours, a title of one line."""
        good: list[dict[str, Any]] = [
            {"presentation": {"style": "info"}},
            {"presentation": {"style": "error"}, "title": "t" * 120},
            {"presentation": {"style": "notice"}, "bodyDisclosure": "collapsed"},
            {
                "presentation": {
                    "style": "custom",
                    "customStyle": {"lightAccent": "#00ff00", "darkAccent": "#0000ff"},
                }
            },
        ]
        for wish in good:
            self.assertIsNotNone(fields.presentation(wish))
        bad: list[dict[str, Any]] = [
            {},
            {"presentation": {"style": "loud"}},
            {"presentation": {"style": "custom"}},
            {"presentation": {"style": "info"}, "title": "two\nlines"},
            {"presentation": {"style": "info"}, "title": "t" * 121},
            {"presentation": {"style": "info"}, "more": 1},
            {
                "presentation": {
                    "style": "custom",
                    "customStyle": {"lightAccent": "#00FF00", "darkAccent": "#0000ff"},
                }
            },
        ]
        for wish in bad:
            self.refused(fields.presentation, wish)
