"""How long a user token lives: the text of ``GARCON_JWT_TOKEN_EXPIRY`` (server.md B.3)."""

from __future__ import annotations

import re

DEFAULT = 30 * 86_400_000
_LONGEST = 100 * 365.25 * 86_400_000
_UNITS = {
    "": 1,
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86_400_000),
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), 365.25 * 86_400_000),
}
_FORM = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}) *([a-z]*)")


def parse_lifetime(text: str) -> int:
    """Return milliseconds; a number alone is milliseconds already.  `ValueError` says what fits."""
    found = _FORM.fullmatch(text.strip().lower())
    unit = _UNITS.get(found[2]) if found is not None else None
    if found is None or unit is None:
        raise ValueError("must be a time such as 30d, 12h, 45m or 90s")
    milliseconds = int(float(found[1]) * unit)
    if not 1 <= milliseconds <= _LONGEST:
        raise ValueError("must be a time from one millisecond to a hundred years")
    return milliseconds
