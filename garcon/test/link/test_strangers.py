"""What a peer without the secret can do to the errors that the owner of a link is shown."""

from __future__ import annotations

from attrs import evolve

from garcon.contract.diagnostics import LaneDiagnostics, WrongSecrets
from garcon.link.memory import MemoryWire
from garcon.link.noise import HANDSHAKE_MESSAGE
from garcon.test.link.pairs import PairCase


class Strangers(PairCase):
    """A worker with another secret dials the same listener as the right one."""

    def come(self) -> None:
        """Let a stranger try."""
        self.stranger().close("over")

    @property
    def told(self) -> LaneDiagnostics:
        return self.controller.diagnostics().primary

    def test_one_does_not_disturb_a_link_that_is_up(self) -> None:
        """It is counted, and nobody is shown an error."""
        self.clock.advance(0)
        for _ in range(3):
            self.come()
        self.assertIsNone(self.controller.last_error)
        self.assertEqual(self.owner.failures, [])
        self.assertIsNone(self.told.last_error)
        self.assertEqual(self.told.causes, {"handshake-failed": 3})
        self.assertEqual(self.told.attempts, 4)

    def test_one_does_not_explain_a_link_that_was_up(self) -> None:
        """What ended the session stays the reason that is shown."""
        self.clock.advance(0)
        self.network.cut()
        for _ in range(3):
            self.come()
        assert self.controller.last_error is not None and self.told.last_error is not None
        self.assertEqual(self.controller.last_error[0], "socket-closed")
        self.assertEqual(self.told.last_error.kind, "socket-closed")
        self.assertEqual([kind for kind, _ in self.owner.failures], ["session-retired"])
        self.assertEqual(self.told.causes, {"socket-closed": 1, "handshake-failed": 3})

    def test_a_wrong_secret_is_shown_while_nothing_is_known(self) -> None:
        """It may be the owner's own worker; the first session ends the doubt."""
        self.worker._stop_redial()
        self.come()
        assert self.controller.last_error is not None and self.told.last_error is not None
        self.assertEqual(self.controller.last_error[0], "handshake-failed")
        self.assertEqual(self.told.last_error.kind, "handshake-failed")
        self.assertEqual([kind for kind, _ in self.owner.failures], ["handshake-failed"])
        self.worker.start()
        self.clock.advance(5)
        self.assertIsNotNone(self.controller.current())
        self.assertIsNone(self.controller.last_error)

    def test_a_wrong_version_is_better_known(self) -> None:
        """The peer that said it has the secret; whoever comes later without does not hide it."""
        self.worker._settings = evolve(self.settings, version="0.9+protocol.0")
        self.come()
        self.clock.advance(0)
        assert self.controller.last_error is not None
        self.assertEqual(self.controller.last_error[0], "version-mismatch")
        self.come()
        assert self.told.last_error is not None
        self.assertEqual(self.controller.last_error[0], "version-mismatch")
        self.assertEqual(self.told.last_error.kind, "version-mismatch")

    def test_the_owner_hears_of_the_peer_behind_them(self) -> None:
        """Strangers do not use up the one notice a second (bulk's end comes first)."""
        self.clock.advance(0)
        self.come()
        self.network.cut()
        self.assertEqual([kind for kind, _ in self.owner.failures], ["session-retired"])

    def test_a_socket_that_says_nothing(self) -> None:
        """Opened, held and closed: no error of a link that is up."""
        self.clock.advance(0)
        user = self.controller.answer()
        user.wire_closed("socket-closed", "the connection was closed")
        self.assertIsNone(self.controller.last_error)
        self.assertEqual(self.told.causes, {"socket-closed": 1})
        self.assertIsNone(self.controller.diagnostics().wrong_secrets)

    def test_wrong_secrets_are_counted(self) -> None:
        """Before, during and after a session, and when the last one came; not where the socket was
        closed or said something else, nor by the stranger of himself.
        """
        self.come()
        self.clock.advance(5)
        self.come()
        self.network.cut()
        self.clock.advance(0.5)
        stranger = self.stranger()
        self.assertIsNone(stranger.diagnostics().wrong_secrets)
        stranger.close("over")
        self.clock.advance(2.5)
        self.assertEqual(self.controller.diagnostics().wrong_secrets, WrongSecrets(3, 2.5))
        for size in (0, HANDSHAKE_MESSAGE - 1, HANDSHAKE_MESSAGE + 1):
            self.say(bytes(size))
        self.assertEqual(self.controller.diagnostics().wrong_secrets, WrongSecrets(3, 2.5))
        self.say(bytes(HANDSHAKE_MESSAGE))
        self.assertEqual(self.controller.diagnostics().wrong_secrets, WrongSecrets(4, 0.0))

    def say(self, record: bytes) -> None:
        """Say one record on a socket of its own."""
        user = self.controller.answer()
        wire = MemoryWire(self.network, user)
        user.wire_opened(wire)
        user.record_received(record)
        self.assertTrue(wire.is_over)
