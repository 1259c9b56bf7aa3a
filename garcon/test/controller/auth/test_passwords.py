"""Passwords as they are kept."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.auth.passwords import COST, Cost, PasswordHash, nobody

SALT = b"0123456789abcdef"
CHEAP = Cost(4, 1, 1)


class PasswordTests(SynchronousTestCase):
    """Hashing, keeping and checking."""

    def test_only_the_password_fits(self) -> None:
        """Nothing else does, not even its beginning."""
        hashed = PasswordHash.of("correct horse", SALT, CHEAP)
        self.assertTrue(hashed.fits("correct horse"))
        for wrong in ("correct hors", "correct horse ", "Correct horse", "", "\0"):
            self.assertFalse(hashed.fits(wrong), wrong)

    def test_the_text_is_read_back(self) -> None:
        """What is kept holds everything that a check needs."""
        hashed = PasswordHash.of("pässword🔑", SALT, CHEAP)
        text = str(hashed)
        self.assertTrue(text.startswith("$scrypt$ln=4,r=1,p=1$"), text)
        self.assertEqual(PasswordHash.parse(text), hashed)
        self.assertTrue(PasswordHash.parse(text).fits("pässword🔑"))

    def test_the_salt_decides(self) -> None:
        """One password twice is two hashes."""
        other = PasswordHash.of("password", b"x" * 16, CHEAP)
        self.assertNotEqual(PasswordHash.of("password", SALT, CHEAP).digest, other.digest)

    def test_new_passwords_cost_32_mib(self) -> None:
        """Three rounds over 32 MiB: a guess is expensive, a login is not."""
        self.assertEqual(128 * COST.r * 2**COST.log_n, 32 * 1024 * 1024)
        self.assertEqual(COST.p, 3)

    def test_a_known_answer(self) -> None:
        """The test vector of RFC 7914, cut to the length that is kept."""
        digest = Cost(10, 8, 16).derive("password", b"NaCl")
        self.assertEqual(
            digest.hex(), "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162"
        )

    def test_nobodys_password(self) -> None:
        """Nothing fits what stands in for an account that is not there."""
        for password in ("", "\0", "password"):
            self.assertFalse(nobody(CHEAP).fits(password))

    def test_foreign_and_dear_hashes_are_refused(self) -> None:
        """Another form, and parameters beyond the bounds; at the bounds they are read."""
        text = str(PasswordHash.of("password", SALT, CHEAP))
        for good in ("ln=17,r=8,p=8", "ln=1,r=1,p=1"):
            PasswordHash.parse(text.replace("ln=4,r=1,p=1", good))
        for bad in ("ln=18,r=8,p=1", "ln=4,r=9,p=1", "ln=4,r=1,p=9", "ln=0,r=1,p=1", "ln=4,r=1"):
            with self.assertRaises(ValueError):
                PasswordHash.parse(text.replace("ln=4,r=1,p=1", bad))
        for bad in ("", "$2b$12$abcdefghijklmnopqrstuv", text[:-1], text + "A", f" {text}"):
            with self.assertRaises(ValueError):
                PasswordHash.parse(bad)

    def test_nothing_secret_is_shown(self) -> None:
        """A traceback or a log line may hold the representation."""
        hashed = PasswordHash.of("password", SALT, CHEAP)
        self.assertNotIn("digest", repr(hashed))
        self.assertNotIn("salt", repr(hashed))
