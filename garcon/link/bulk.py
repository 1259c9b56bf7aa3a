"""Where a link's bulk lane is in its life (pure; control.md J.6).

bulk-prepare, bulk-prepared, dial, handshake, reconciliation, bulk-activate, bulk-active.  Only the
controller starts an attempt; a worker whose bulk is lost says so and waits.  Anything said about
another session id than the current one is out of date and ignored.
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    OFFLINE = "offline"
    PREPARING = "preparing"
    CONNECTING = "connecting"
    RECONCILING = "reconciling"
    ACTIVATING = "activating"
    READY = "ready"
    RECONNECTING = "reconnecting"


class BulkState:
    """One side's view.  The methods return whether what happened fits the phase; if not, nothing
    changes.
    """

    def __init__(self) -> None:
        self.phase = Phase.OFFLINE
        self.session_id: str | None = None

    def prepare(self, session_id: str) -> None:
        """A new attempt begins, whatever was before."""
        self.session_id = session_id
        self.phase = Phase.PREPARING

    def prepared(self, session_id: str) -> bool:
        """The worker has dropped its old bulk and expects this one."""
        return self._move(session_id, Phase.PREPARING, Phase.CONNECTING)

    def grants(self, session_id: str | None) -> bool:
        """Whether a socket for this session may be attached now."""
        return self.phase is Phase.CONNECTING and session_id == self.session_id

    def attached(self, session_id: str) -> bool:
        """Both sides have proven themselves on a socket for this session."""
        return self._move(session_id, Phase.CONNECTING, Phase.RECONCILING)

    def reconciled(self, session_id: str) -> bool:
        """Calls of earlier sessions are accounted for."""
        return self._move(session_id, Phase.RECONCILING, Phase.ACTIVATING)

    def active(self, session_id: str) -> bool:
        """Ordinary traffic may flow.  A worker need not have seen the reconciliation as a step
        of its own.
        """
        if self.phase is Phase.RECONCILING:
            return self._move(session_id, Phase.RECONCILING, Phase.READY)
        return self._move(session_id, Phase.ACTIVATING, Phase.READY)

    def lost(self, session_id: str | None) -> bool:
        """The attempt or the session of this id is over."""
        if session_id is None or session_id != self.session_id:
            return False
        self.session_id = None
        self.phase = Phase.RECONNECTING
        return True

    def primary_lost(self) -> None:
        """Bulk lives no longer than its primary."""
        self.session_id = None
        self.phase = Phase.OFFLINE

    def _move(self, session_id: str, before: Phase, after: Phase) -> bool:
        if self.phase is not before or session_id != self.session_id:
            return False
        self.phase = after
        return True
