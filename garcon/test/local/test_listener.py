"""What a listening worker leaves behind: a secret made once, and an address without it."""

from __future__ import annotations

import os
import stat

from twisted.trial.unittest import SynchronousTestCase

from garcon.errors import StartupError
from garcon.local.files import InsecureFile, write_private
from garcon.local.listener import (
    NoListener,
    ensure_secret,
    is_secret,
    new_secret,
    read_listener,
    read_secret,
    write_listener,
)


class ListenerTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = self.mktemp()
        os.makedirs(folder)
        self.secret = os.path.join(folder, "executor-secret.json")
        self.listener = os.path.join(folder, "listener.json")

    def test_secret_is_made_once(self) -> None:
        """The first listen makes it, privately; later ones and readers find the same."""
        self.assertRaises(NoListener, read_secret, self.secret)
        made = ensure_secret(self.secret)
        self.assertTrue(is_secret(made))
        self.assertEqual(made, ensure_secret(self.secret))
        self.assertEqual(made, read_secret(self.secret))
        self.assertEqual(0o600, stat.S_IMODE(os.stat(self.secret).st_mode))

    def test_secrets_are_canonical(self) -> None:
        """Every fresh secret is canonical, and no two are the same."""
        made = {new_secret() for _ in range(50)}
        self.assertEqual(50, len(made))
        self.assertTrue(all(is_secret(text) for text in made))
        self.assertFalse(is_secret("A" * 42 + "B"))
        self.assertFalse(is_secret("A" * 44))

    def test_a_broken_secret_is_never_replaced(self) -> None:
        """A file that holds no valid secret stops a start instead of rotating the secret."""
        for content in (
            b"",
            b"[]",
            b'{"version": 2, "secret": "x"}',
            b'{"version": 1}',
            b"[" * 9_999,
        ):
            write_private(self.secret, content)
            self.assertRaises(StartupError, ensure_secret, self.secret)
        os.chmod(self.secret, 0o644)
        self.assertRaises(InsecureFile, ensure_secret, self.secret)

    def test_address_round_trip(self) -> None:
        """The bound address comes back; without a listen there is none; a broken one is told."""
        self.assertRaises(NoListener, read_listener, self.listener)
        write_listener(self.listener, "wss://127.0.0.1:4000/executor", tls=True)
        self.assertEqual("wss://127.0.0.1:4000/executor", read_listener(self.listener))
        write_private(self.listener, b'{"version": 1, "url": "x"}')
        self.assertRaises(StartupError, read_listener, self.listener)
