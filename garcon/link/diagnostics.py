"""What is remembered of a link's attempts and sessions, and how it is told (pure).

Kinds and texts come from causes.py and the two sides' own words; addresses, secrets and payloads
never do.
"""

from __future__ import annotations

from collections import Counter

from attrs import define, field, frozen
from msgspec import structs

from garcon.contract.diagnostics import LaneDiagnostics, LinkFailure, WrongSecrets
from garcon.contract.rpc import Lane


@frozen
class Ended:
    """The last failure of a lane, and when it came."""

    kind: str
    stage: str
    text: str
    at: float
    is_proven: bool = True


@define(eq=False)
class LaneHistory:
    """What one lane has been through."""

    attempts: int = 0
    sessions: int = 0
    causes: Counter[str] = field(factory=Counter)
    last: Ended | None = None

    def failed(
        self, kind: str, stage: str, text: str, now: float, *, is_proven: bool = True
    ) -> bool:
        """An attempt or a session has failed.  Return whether that is the last error now.

        A peer that has not shown the secret may be anybody: it is always counted, but tells
        something only of a lane that has never been up and of which nothing better is known.
        """
        self.causes[kind] += 1
        if not is_proven and (self.sessions or (self.last is not None and self.last.is_proven)):
            return False
        self.last = Ended(kind, stage, text, now, is_proven)
        return True

    def last_error(self, now: float) -> LinkFailure | None:
        """Return the last failure as it is told."""
        last = self.last
        if last is None:
            return None
        return LinkFailure(
            last.kind, last.stage, last.text, _ago(now, last.at), self.causes[last.kind]
        )


@define(eq=False)
class RoundTrip:
    """How long the peer takes to answer a ping.  A word it says unasked at just that time passes
    for the answer.
    """

    latest: float | None = None
    _asked: float | None = None

    def asked(self, now: float) -> None:
        """A ping was sent; one that is still open counts from its own time."""
        if self._asked is None:
            self._asked = now

    def answered(self, now: float) -> None:
        """The answer came, or a word said unasked."""
        if self._asked is not None:
            self.latest = now - self._asked
            self._asked = None

    @property
    def is_open(self) -> bool:
        """Whether a ping has no answer yet."""
        return self._asked is not None


@frozen
class SessionState:
    """What a session says of itself."""

    began: float
    heard: float
    round_trip: float | None
    queued_bytes: int
    queued_messages: int
    oldest: float | None
    """When the oldest waiting message was queued."""


def lane_diagnostics(
    history: LaneHistory,
    session: SessionState | None,
    phase: str,
    stage: str | None,
    redial_at: float | None,
    now: float,
) -> LaneDiagnostics:
    """Return one lane as it is told."""
    lane = LaneDiagnostics(
        phase=phase,
        stage=stage,
        attempts=history.attempts,
        sessions=history.sessions,
        causes=dict(history.causes),
        last_error=history.last_error(now),
        redial_seconds=None if redial_at is None else _ago(redial_at, now),
    )
    if session is None:
        return lane
    return structs.replace(
        lane,
        session_seconds=_ago(now, session.began),
        round_trip_ms=None if session.round_trip is None else round(session.round_trip * 1e3, 3),
        silent_seconds=_ago(now, session.heard),
        queued_bytes=session.queued_bytes,
        queued_messages=session.queued_messages,
        oldest_queued_seconds=None if session.oldest is None else _ago(now, session.oldest),
    )


@define(eq=False)
class LinkHistory:
    """Both lanes."""

    primary: LaneHistory = field(factory=LaneHistory)
    bulk: LaneHistory = field(factory=LaneHistory)
    peer_version: str | None = None
    strangers: int = 0
    """How many dialled this side without knowing the secret."""
    strangers_at: float = 0.0

    def stranger_came(self, now: float) -> None:
        """Somebody dialled who has another secret."""
        self.strangers += 1
        self.strangers_at = now

    def wrong_secrets(self, now: float) -> WrongSecrets | None:
        """Return how often that was, as it is told."""
        if not self.strangers:
            return None
        return WrongSecrets(self.strangers, _ago(now, self.strangers_at))

    def of(self, lane: Lane) -> LaneHistory:
        """Return a lane's."""
        return self.primary if lane is Lane.PRIMARY else self.bulk

    def agreed(self, lane: Lane) -> None:
        """An attempt has become a session, so the versions are the same."""
        history = self.of(lane)
        history.attempts += 1
        history.sessions += 1
        self.peer_version = None


def _ago(now: float, then: float) -> float:
    return round(max(0.0, now - then), 3)
