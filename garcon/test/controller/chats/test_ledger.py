"""The command ledger (chats.md 2.3)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import LEDGER_TERMINAL
from garcon.controller.chats.ledger import STEER, STEERS, Ledger, Record, digested, fingerprint
from garcon.errors import GarconError, LimitExceeded

AT = "2026-01-02T03:04:05.678Z"


class LedgerTests(SynchronousTestCase):
    """One process's ledger."""

    def setUp(self) -> None:
        self.ledger = Ledger()

    def accept(self, request: str = "r", kind: str = "agent-run", mark: bytes = b"m") -> Record:
        return self.ledger.accept(kind, "chat", request, mark, AT, "turn")

    def replayed(self, kind: str = "agent-run", mark: bytes = b"m") -> Record | None:
        return self.ledger.replayed(kind, "chat", "r", mark)

    def test_a_new_command_is_new(self) -> None:
        """Nothing is known of it."""
        self.assertIsNone(self.replayed())

    def test_the_same_command_is_a_duplicate(self) -> None:
        """Same key, same payload: the same record, in whatever state."""
        record = self.accept()
        self.assertIs(self.replayed(), record)
        self.ledger.settle(record, "finished", "answer")
        self.assertIs(self.replayed(), record)

    def test_other_content_conflicts(self) -> None:
        """Same key, different payload."""
        self.accept()
        error = self.assertRaises(GarconError, self.replayed, mark=b"other")
        self.assertEqual((error.code, error.status), ("IDEMPOTENCY_CONFLICT", 409))

    def test_another_kind_of_command_conflicts(self) -> None:
        """One request id names one command of a chat, whatever its kind."""
        self.accept()
        error = self.assertRaises(GarconError, self.replayed, "agent-stop")
        self.assertEqual(error.code, "IDEMPOTENCY_CONFLICT")

    def test_a_failure_that_can_be_retried_is_forgotten(self) -> None:
        """The next attempt is a new command."""
        record = self.accept()
        self.ledger.fail(record, GarconError("SESSION_BUSY", "busy", status=409, retryable=True))
        self.assertIsNone(self.replayed())
        self.accept(kind="agent-stop")

    def test_another_failure_is_remembered(self) -> None:
        """It keeps the text it failed with."""
        record = self.accept()
        error = GarconError("X", "why")
        self.ledger.fail(record, error)
        self.assertEqual((record.state, record.error), ("rejected", error))
        self.assertIs(self.replayed(), record)

    def test_a_thousand_settled_commands_are_kept(self) -> None:
        """With one more the oldest is forgotten; those under way never are."""
        under_way = self.accept("running")
        records = [self.accept(f"r{n}") for n in range(LEDGER_TERMINAL)]
        for record in records:
            self.ledger.settle(record, "finished")
        self.assertIsNotNone(self.ledger.replayed("agent-run", "chat", "r0", b"m"))
        self.ledger.settle(self.accept("last"), "finished")
        self.assertIsNone(self.ledger.replayed("agent-run", "chat", "r0", b"m"))
        self.assertIsNotNone(self.ledger.replayed("agent-run", "chat", "r1", b"m"))
        self.assertIs(self.ledger.replayed("agent-run", "chat", "running", b"m"), under_way)

    def test_ten_thousand_steers_and_one_more(self) -> None:
        """None is forgotten, however many commands have ended since, and one more is refused."""
        for n in range(STEERS):
            self.ledger.settle(self.accept(f"s{n}", STEER), "finished")
        error = self.assertRaises(LimitExceeded, self.accept, "more", STEER)
        self.assertEqual((error.code, error.status), ("STEER_CAPACITY_EXHAUSTED", 503))
        self.assertFalse(error.retryable)
        for n in (0, STEERS - 1):
            self.assertIsNotNone(self.ledger.replayed(STEER, "chat", f"s{n}", b"m"))
        self.ledger.settle(self.accept("r"), "finished")
        self.assertIsNotNone(self.replayed())


class FingerprintTests(SynchronousTestCase):
    """What makes a command the same one."""

    def test_key_order_does_not_matter(self) -> None:
        """At any depth."""
        one = fingerprint({"a": 1, "b": {"c": 1, "d": 2}})
        self.assertEqual(one, fingerprint({"b": {"d": 2, "c": 1}, "a": 1}))

    def test_values_matter(self) -> None:
        """Also null against a value."""
        self.assertNotEqual(fingerprint({"a": None}), fingerprint({"a": 1}))

    def test_attachments_are_compared_by_digest(self) -> None:
        """Another body of the same length is another command."""
        first, other = ({"data": f"data:image/png;base64,{body}"} for body in ("AAAA", "AAAB"))
        self.assertEqual(digested([first]), digested([dict(first)]))
        self.assertNotEqual(digested([first]), digested([other]))
        self.assertNotIn("AAAA", str(digested([first])))
