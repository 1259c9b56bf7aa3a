"""Base URLs in one form (control.md B.3), and their origins (B.6)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import URL_CHARACTERS
from garcon.controller.providers.addresses import base_url, origin_of
from garcon.errors import GarconError


class BaseUrlTests(SynchronousTestCase):
    """What may be typed, and what becomes of it."""

    def test_one_form(self) -> None:
        """Trimmed, with a scheme, without slashes at its end."""
        for typed, kept in (
            (" https://a.example/v1/ ", "https://a.example/v1"),
            ("a.example", "https://a.example"),
            ("a.example:8080/v1///", "https://a.example:8080/v1"),
            ("localhost:11434", "https://localhost:11434"),
            ("HTTP://A.example/V1", "http://A.example/V1"),
            ("http://[::1]:8080/", "http://[::1]:8080"),
        ):
            self.assertEqual(base_url(typed), kept, typed)

    def test_what_is_none(self) -> None:
        """Is refused, without a word of it: it may hold a secret."""
        for typed in (
            "",
            "   ",
            "ftp://secret.example",
            "file:///secret",
            "https://a.example/secret?",
            "https://a.example/?key=secret",
            "https://a.example/#secret",
            "https://user:secret@a.example",
            "user:secret@a.example",
            "https://",
            "https:///secret",
            "https://a.example:secret",
            "https://a.example:99999/secret",
            "https://a.example:0/secret",
            "https://a.example/sec ret",
            "https://a.exämple/secret",
            "https://a.example\\secret",
            "https://[::1/secret",
        ):
            error = self.assertRaises(GarconError, base_url, typed)
            self.assertEqual((error.code, error.status), ("VALIDATION_FAILED", 400), typed)
            self.assertNotIn("secret", error.text)

    def test_a_line_break_inside_is_refused(self) -> None:
        """No header can be smuggled in by an address; around it white space does not count."""
        self.assertRaises(GarconError, base_url, "https://a.example/\r\nX: y")
        self.assertEqual(base_url("\nhttps://a.example\r\n"), "https://a.example")

    def test_its_length(self) -> None:
        """Is bounded."""
        start = "https://a.example/"
        longest = start + "x" * (URL_CHARACTERS - len(start))
        self.assertEqual(base_url(longest), longest)
        self.assertRaises(GarconError, base_url, longest + "x")


class OriginTests(SynchronousTestCase):
    """Where a URL leads."""

    def test_the_same_origin(self) -> None:
        """Whatever the case of the name, the spelling of the port, and the path."""
        for one, other in (
            ("https://a.example", "https://A.Example:443/v1"),
            ("http://a.example:80", "http://a.example./x"),
            ("http://[::1]:80", "http://[::1]"),
        ):
            self.assertEqual(origin_of(one), origin_of(other))

    def test_another_origin(self) -> None:
        """By scheme, by name or by port."""
        for one, other in (
            ("https://a.example", "http://a.example"),
            ("https://a.example", "https://b.example"),
            ("https://a.example", "https://a.example:444"),
            ("https://a.example", "https://a.example.evil.example"),
        ):
            self.assertNotEqual(origin_of(one), origin_of(other))
