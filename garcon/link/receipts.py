"""Which requests of ended sessions had arrived (pure; control.md J.4, J.8).

Numbers run from 1 in each session, so a session's receipts are its last number and the one that may
have been missing.
"""

from __future__ import annotations

from garcon.contract import limits
from garcon.link.calls import Numbers


class Receipts:
    """One lane's latest ended sessions; older ones are forgotten."""

    def __init__(self, sessions: int = limits.RECEIPT_SESSIONS) -> None:
        self._most = sessions
        self._sessions: dict[str, Numbers] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def ended(self, session: str, numbers: Numbers) -> None:
        """A session has ended with these numbers."""
        self._sessions[session] = numbers
        while len(self._sessions) > self._most:
            del self._sessions[next(iter(self._sessions))]

    def received(self, session: str, seq: int) -> bool | None:
        """Whether a request of a session had arrived whole; None where that is not known."""
        numbers = self._sessions.get(session)
        return None if numbers is None else numbers.has(seq)
