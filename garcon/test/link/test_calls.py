"""Call slots, sequence numbers, and how failures cross."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.rpc import Lane
from garcon.errors import BadMessage, CallError, GarconError
from garcon.link.calls import (
    INSTALLATION_CALLS,
    Numbers,
    Slots,
    call_error,
    error_object,
    internal,
    shortened,
)
from garcon.link.frames import ErrorObject


class SlotTests(SynchronousTestCase):
    """256 calls in each direction, of them 192 on bulk."""

    def test_all(self) -> None:
        """256 run, the next does not, and a freed slot serves again."""
        slots = Slots()
        self.assertTrue(all(slots.take(Lane.PRIMARY, False) for _ in range(256)))
        self.assertFalse(slots.take(Lane.PRIMARY, False))
        self.assertFalse(slots.take(Lane.BULK, False))
        slots.free(Lane.PRIMARY, False)
        self.assertTrue(slots.take(Lane.PRIMARY, False))

    def test_bulk(self) -> None:
        """192 run on bulk; primary has the rest."""
        slots = Slots()
        self.assertTrue(all(slots.take(Lane.BULK, False) for _ in range(192)))
        self.assertFalse(slots.take(Lane.BULK, False))
        self.assertTrue(all(slots.take(Lane.PRIMARY, False) for _ in range(64)))
        self.assertFalse(slots.take(Lane.PRIMARY, False))

    def test_installation_calls_have_their_own(self) -> None:
        """When all slots are taken, 64 installation calls still go."""
        slots = Slots()
        for _ in range(256):
            slots.take(Lane.PRIMARY, False)
        self.assertTrue(all(slots.take(Lane.PRIMARY, True) for _ in range(INSTALLATION_CALLS)))
        self.assertFalse(slots.take(Lane.PRIMARY, True))
        slots.free(Lane.PRIMARY, True)
        self.assertTrue(slots.take(Lane.PRIMARY, True))


class NumberTests(SynchronousTestCase):
    """Requests arrive in order, but for one that a small one may pass."""

    def test_in_order(self) -> None:
        """One after the other, whole or assembled."""
        numbers = Numbers()
        for seq in range(1, 6):
            numbers.request(seq, whole=seq % 2 == 0, assembling=False)

    def test_wrong_numbers(self) -> None:
        """Zero, a repeated one and a gap are errors."""
        for seq in (0, 2, -1):
            self.assertRaises(BadMessage, Numbers().request, seq, whole=True, assembling=False)
        numbers = Numbers()
        numbers.request(1, whole=True, assembling=False)
        self.assertRaises(BadMessage, numbers.request, 1, whole=True, assembling=False)

    def test_small_ones_pass_a_large_one(self) -> None:
        """While one is assembled its number may be missing; it then brings it."""
        numbers = Numbers()
        numbers.request(2, whole=True, assembling=True)
        numbers.request(3, whole=True, assembling=True)
        numbers.request(1, whole=False, assembling=False)
        numbers.request(4, whole=True, assembling=False)

    def test_only_one_may_be_missing(self) -> None:
        """A second gap is an error, and so is a gap while nothing is assembled."""
        numbers = Numbers()
        numbers.request(2, whole=True, assembling=True)
        self.assertRaises(BadMessage, numbers.request, 4, whole=True, assembling=True)
        self.assertRaises(BadMessage, Numbers().request, 3, whole=True, assembling=True)

    def test_the_assembled_message_must_bring_it(self) -> None:
        """Another request or another frame in its place is an error."""
        numbers = Numbers()
        numbers.request(2, whole=True, assembling=True)
        self.assertRaises(BadMessage, numbers.request, 3, whole=False, assembling=False)
        numbers = Numbers()
        numbers.assembled_other()
        numbers.request(2, whole=True, assembling=True)
        self.assertRaises(BadMessage, numbers.assembled_other)


class Errors(SynchronousTestCase):
    """What crosses of a failure (control.md J.7)."""

    def test_a_handlers_error(self) -> None:
        """It was refused, in the executor's domain, with all that its receiver may act on."""
        error = error_object(
            GarconError("A_CODE", "words", status=409, retryable=True, details="more")
        )
        self.assertEqual(
            error,
            ErrorObject(
                code="A_CODE",
                message="words",
                retryable=True,
                domain="executor",
                status=409,
                details="more",
                outcome="rejected",
            ),
        )

    def test_a_call_error_keeps_its_outcome_and_domain(self) -> None:
        """Both survive the way there and back."""
        sent = CallError("C", "t", outcome="unknown", domain="git", status=503, details="d")
        got = call_error(error_object(sent))
        self.assertEqual(
            (got.code, got.text, got.outcome, got.domain, got.status, got.details),
            ("C", "t", "unknown", "git", 503, "d"),
        )

    def test_an_impossible_status_is_500(self) -> None:
        """Only 400 to 599 cross."""
        self.assertEqual(error_object(GarconError("C", "t", status=200)).status, 500)

    def test_an_unexpected_failure_says_only_its_incident(self) -> None:
        """Its outcome is unknown."""
        error = internal("abc")
        self.assertEqual(
            (error.code, error.outcome, error.domain), ("PROVIDER_FAILURE", "unknown", None)
        )
        self.assertIn("abc", error.message)

    def test_a_long_error_is_shortened(self) -> None:
        """Details go, the text is cut, the rest stays."""
        error = error_object(GarconError("C", "w" * 9000, status=404, details="d" * 9000))
        short = shortened(error)
        self.assertEqual((short.details, len(short.message), short.status), (None, 1024, 404))
