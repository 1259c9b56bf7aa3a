"""Where in the session of its agent a fork begins (chats.md 5.8.3).

An agent that keeps sessions can often fork them itself: the fork then has all that its parent had,
and not only what was said.  Agents name points in their sessions by anchors, which come with rows
and with the ends of turns, and are kept with those ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define

from garcon.contract.catalogs import AgentEntry
from garcon.contract.runs import ForkPoint
from garcon.controller.chats.admission import unreadable
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.copies import Point, is_copied
from garcon.controller.transcripts.pieces import in_pieces
from garcon.controller.transcripts.rows import RunEnd, is_assistants, is_said, run_end, session_of
from garcon.errors import GarconError
from garcon.store.interfaces import Damaged
from garcon.store.records import NativeFork, Row


@define
class Place:
    """What is known of the point after a row: found by looking at the rows in order, and a little
    further, to the end of the turn that the row is of.
    """

    _through: int
    _foreign: int
    """Rows, the first ones, that are not in the agent's session."""
    anchor: str | None = None
    is_end_of_turn: bool = False
    """What was said last there was the last of its turn."""
    was_said: bool = False
    """Whether an agent has said anything up to there."""
    inherited: int = 0
    """Those rows that a copy has."""
    session: str | None = None
    _said_in: str | None = None
    _is_open: bool = False
    """The end of the turn that said it last is still to come."""
    _is_assistants: bool = False
    _later: int = 0
    """Rows of that turn which are behind the point, and among them assistant's messages."""
    _later_assistants: int = 0
    is_settled: bool = False

    @property
    def is_here(self) -> bool:
        """Whether the session that goes on at the point is the one that said what was said."""
        return self.session is not None and self.session == self._said_in

    def take(self, rows: Sequence[Row]) -> None:
        """Look at the next rows."""
        for row in rows:
            if row.ordinal <= self._through:
                self._before(row)
            elif self._is_open:
                self._behind(row)
            else:
                self.is_settled = True
            if self.is_settled:
                return

    def _before(self, row: Row) -> None:
        if row.ordinal <= self._foreign and is_copied(row):
            self.inherited += 1
        if row.kind == "agent-switch":
            self.session = None
        elif (session := session_of(row)) is not None:
            self.session = session
        elif is_said(row):
            self.was_said = self._is_open = True
            self._said_in, self._is_assistants = self.session, is_assistants(row)
            self.anchor, self.is_end_of_turn = None, False
        elif (end := run_end(row)) is not None:
            self._ended(end)

    def _behind(self, row: Row) -> None:
        if is_said(row):
            self._later += 1
            self._later_assistants += is_assistants(row)
        elif (end := run_end(row)) is not None:
            self._ended(end)
            self.is_settled = True

    def _ended(self, end: RunEnd) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self.is_end_of_turn = not self._later
        if self.is_end_of_turn and end.anchor is not None:
            self.anchor = end.anchor
        elif self._is_assistants and self._later_assistants < len(end.anchors):
            self.anchor = end.anchors[-1 - self._later_assistants]


async def native_point(
    source: Chat, point: Point, entry: AgentEntry | None, may_copy: bool | None
) -> NativeFork | None:
    """Return where the fork of a chat begins in its agent's session; None where there is nothing to
    fork, or the agent forks nothing.

    ``TRANSCRIPT_NOT_YET_PERSISTED`` (409) where it could, but not at this point; it is None then
    as well if the caller `may_copy` instead.
    """
    if entry is None or entry.native_fork == "none":
        return None
    record = source.record
    if record.agent_session_id is None:
        # It is a fork that has not begun: its own forks begin at the same place.
        begun = record.fork_from
        return begun if point.is_end and begun is not None and begun.point.anchor else None
    place = Place(point.through, record.inherited)
    try:
        async for some in in_pieces(source.transcript, source.transcript.last_ordinal):
            place.take(some)
            if place.is_settled:
                break
    except Damaged as damage:
        raise unreadable(damage) from None
    if not place.was_said:
        return None
    if place.is_here and place.session is not None:
        if entry.native_fork == "message" and place.anchor is not None:
            return _at(place, ForkPoint(place.session, place.anchor))
        if entry.native_fork == "session" and point.is_end and place.is_end_of_turn:
            return _at(place, ForkPoint(place.session))
    if may_copy:
        return None
    raise GarconError(
        "TRANSCRIPT_NOT_YET_PERSISTED",
        "The agent cannot fork its session here; allow a fork that is told what was said instead.",
        status=409,
        retryable=True,
    )


def _at(place: Place, point: ForkPoint) -> NativeFork:
    return NativeFork(point=point, inherited=place.inherited)
