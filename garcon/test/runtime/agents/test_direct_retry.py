"""Which failed requests are sent again, and when."""

from __future__ import annotations

from datetime import UTC, datetime

from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.agents.direct_retry import Patience, asked_for
from garcon.runtime.agents.direct_wire import ProviderFailed, refused

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class PatienceTests(SynchronousTestCase):
    """Pauses that double, an end to them, and the provider's own wish."""

    patience = Patience(attempts=3, pause=0.5, longest=30.0)

    def wait(self, attempt: int, retry_after: str | None = None) -> float | None:
        """What is waited after a failure that may pass."""
        failure = ProviderFailed("busy", is_temporary=True, retry_after=retry_after)
        return self.patience.wait(failure, attempt, NOW)

    def test_three_attempts(self) -> None:
        """Half a second, then a second, then no more."""
        self.assertEqual([self.wait(n) for n in (1, 2, 3)], [0.5, 1.0, None])

    def test_a_provider_that_asks_for_more_time_gets_it(self) -> None:
        """In seconds or as a date, never less than our own pause."""
        self.assertEqual(self.wait(1, "7"), 7.0)
        self.assertEqual(self.wait(2, "0.2"), 1.0)
        self.assertEqual(self.wait(1, "Fri, 02 Jan 2026 03:04:15 GMT"), 10.0)
        self.assertEqual(self.wait(1, "Fri, 02 Jan 2020 03:04:15 GMT"), 0.5)

    def test_a_provider_that_asks_for_too_much_is_not_asked_again(self) -> None:
        """Thirty seconds are waited, more are not."""
        self.assertEqual(self.wait(1, "30"), 30.0)
        self.assertIsNone(self.wait(1, "31"))
        self.assertIsNone(self.wait(1, "9" * 400))

    def test_what_is_neither_number_nor_date_asks_for_nothing(self) -> None:
        """Nor does a date without a zone."""
        for text in (
            *(None, "", "soon", "-1", "1.2.3", "\u0667"),
            "Fri, 02 Jan 2026 03:04:15 -0000",
            "Fri, 02 Jan 2026 03:04:15 +" + "9" * 20,
            "Fri, 02 Jan 2026 03:04:15 +9999",
        ):
            self.assertIsNone(asked_for(text, NOW), text)

    def test_what_will_not_pass_is_not_tried_again(self) -> None:
        """Whatever the provider asks for."""
        failure = ProviderFailed("no", retry_after="1")
        self.assertIsNone(self.patience.wait(failure, 1, NOW))


class RefusedTests(SynchronousTestCase):
    """Answers that are no streams: their texts, and whether waiting helps."""

    def test_the_status_is_in_the_text(self) -> None:
        """With what the provider says, if it says anything (chats.md 5.7.3)."""
        for status, body, text in (
            (401, b'{"error": {"message": "bad key"}}', "HTTP status 401: bad key"),
            (
                429,
                b'{"type": "error", "error": {"message": "slow\\ndown"}}',
                "status 429: slow down",
            ),
            (404, b'{"message": "no such model", "object": "error"}', "404: no such model"),
            (422, b'{"detail": [{"msg": "bad"}]}', '422: [{"msg": "bad"}]'),
            (500, b"<html>", "HTTP status 500."),
            (502, b"", "HTTP status 502."),
            (503, b'["x"]', "HTTP status 503."),
            (302, b"", "HTTP status 302 (redirects are not followed)."),
        ):
            self.assertIn(text, refused(status, body).text)

    def test_which_statuses_may_pass(self) -> None:
        """Timeouts, too many requests, and every fault of the server."""
        passing = {status for status in range(300, 600) if refused(status, b"").is_temporary}
        self.assertEqual(passing, {408, 429, *range(500, 600)})

    def test_an_empty_account_does_not_pass(self) -> None:
        """Although it has the status of too many requests."""
        for member in ("code", "type"):
            body = b'{"error": {"%s": "insufficient_quota"}}' % member.encode()
            self.assertFalse(refused(429, body).is_temporary)
