"""Whether a request that failed is sent again, and when (pure)."""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime

from attrs import frozen

from garcon.runtime.agents.direct_wire import ProviderFailed


@frozen
class Patience:
    """How often a request is sent at most, how long the first pause is (each further one is twice
    as long), and the longest that a provider may ask for: who is told to come back later than that
    is better told at once.
    """

    attempts: int = 3
    pause: float = 0.5
    longest: float = 30.0

    def wait(self, failure: ProviderFailed, attempt: int, now: datetime) -> float | None:
        """Return the seconds to wait after the `attempt`-th attempt (from 1) failed, or None to
        give up.  `now` is the wall clock's, for providers that name a date.
        """
        if not failure.is_temporary or attempt >= self.attempts:
            return None
        asked = asked_for(failure.retry_after, now)
        if asked is not None and asked > self.longest:
            return None
        ours: float = self.pause * 2 ** (attempt - 1)
        return max(ours, asked or 0.0)


def asked_for(header: str | None, now: datetime) -> float | None:
    """Return what a ``Retry-After`` means in seconds: a number, or a date (RFC 9110, 10.2.3); None
    for what is neither.
    """
    text = (header or "").strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
        return max((date - now).total_seconds(), 0.0)
    except (TypeError, ValueError, OverflowError):
        return None
