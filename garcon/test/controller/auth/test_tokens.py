"""User tokens as they are kept, and how long they live."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.auth.lifetime import DEFAULT, parse_lifetime
from garcon.controller.auth.tokens import MOST, StoredToken, TokenTable, hash_of, live, with_new

DAY = 86_400_000


def token(name: str, issued: int = 0, expires: int = 100) -> StoredToken:
    """Return a kept token."""
    return StoredToken(hash_of(name), issued, expires)


class TokenTests(SynchronousTestCase):
    """What is kept and found."""

    def test_only_hashes_are_kept(self) -> None:
        """Whoever reads the file cannot sign in with it."""
        self.assertNotIn("secret", str(token("secret")))
        self.assertEqual(len(hash_of("secret")), 64)

    def test_a_token_is_good_until_its_expiry(self) -> None:
        """One millisecond before it is, at the deadline it is not."""
        table = TokenTable.of([token("a", expires=100)])
        self.assertIsNotNone(table.find(hash_of("a"), 99))
        self.assertIsNone(table.find(hash_of("a"), 100))
        self.assertIsNone(table.find(hash_of("b"), 0))

    def test_the_expired_are_pruned(self) -> None:
        """At each new one."""
        old, good = token("old", expires=50), token("good", expires=51)
        new = token("new", issued=50, expires=150)
        self.assertEqual(with_new([old, good], new, 50), (good, new))
        self.assertEqual(live([old, good], 50), [good])

    def test_as_many_as_fit_and_one_more(self) -> None:
        """The oldest goes first, whatever its place in the file."""
        kept = [token(str(n), issued=n) for n in range(MOST - 1)]
        full = with_new(kept, token("new", issued=MOST), 0)
        self.assertEqual(len(full), MOST)
        more = with_new([*reversed(full)], token("newer", issued=MOST + 1), 0)
        self.assertEqual(len(more), MOST)
        self.assertEqual(set(full) - set(more), {token("0", issued=0)})
        self.assertEqual(more[-1], token("newer", issued=MOST + 1))


class LifetimeTests(SynchronousTestCase):
    """GARCON_JWT_TOKEN_EXPIRY."""

    def test_units(self) -> None:
        """A number with a unit, in any case, also with a space or a fraction."""
        for text, milliseconds in (
            ("30d", DEFAULT),
            ("90s", 90_000),
            ("45m", 45 * 60_000),
            ("12h", DAY // 2),
            ("1w", 7 * DAY),
            ("1y", int(365.25 * DAY)),
            ("250ms", 250),
            ("1.5h", 5_400_000),
            (".5d", DAY // 2),
            ("2 Days", 2 * DAY),
            ("10 minutes", 600_000),
        ):
            self.assertEqual(parse_lifetime(text), milliseconds, text)

    def test_a_bare_number_is_milliseconds(self) -> None:
        """As it always was."""
        self.assertEqual(parse_lifetime("60000"), 60_000)

    def test_bounds(self) -> None:
        """From one millisecond to a hundred years."""
        self.assertEqual(parse_lifetime("1"), 1)
        self.assertEqual(parse_lifetime("100y"), int(36_525 * DAY))
        for text in ("0", "0d", "0.4", "101y", "9" * 15 + "y"):
            self.assertRaises(ValueError, parse_lifetime, text)

    def test_what_is_no_time(self) -> None:
        """It is told at start, with an example."""
        for text in ("", "d", "-1d", "30 fortnights", "1e3", "0x10", "30d 2h", "never", "\u0661d"):
            with self.assertRaisesRegex(ValueError, "30d"):
                parse_lifetime(text)
