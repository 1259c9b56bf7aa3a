"""Replies that are kept until their caller has them (pure; control.md J.4, J.8).

A reply is delivered when a session has taken it to send, which is no proof that it arrived.  Where
there is no room the oldest delivered ones go first, one that was never delivered never does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from attrs import define

from garcon.contract import limits
from garcon.contract.rpc import Lane

ENTRY = 256
"""What keeping a reply costs besides its text."""


@define(eq=False)
class Reply:
    """One kept reply: the encoded frame, and the session on which its call was last known."""

    id: str
    lane: Lane
    session: str
    text: bytes
    delivered: bool
    serial: int

    @property
    def charge(self) -> int:
        """What it takes of the journal."""
        return len(self.text) + ENTRY


class Journal:
    """All kept replies of a worker."""

    def __init__(
        self, total: int = limits.JOURNAL_BYTES, bulk_total: int = limits.JOURNAL_BULK_BYTES
    ) -> None:
        self._most = total
        self._most_on = {Lane.PRIMARY: total, Lane.BULK: bulk_total}
        self._replies: dict[str, Reply] = {}
        self._delivered: dict[Lane, OrderedDict[str, Reply]] = {
            lane: OrderedDict() for lane in Lane
        }
        self._used = dict.fromkeys(Lane, 0)
        self._pinned = dict.fromkeys(Lane, 0)
        """What was never delivered."""
        self._serial = 0

    def __len__(self) -> int:
        return len(self._replies)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._replies

    @property
    def used(self) -> int:
        """The charge of all replies."""
        return sum(self._used.values())

    def find(self, lane: Lane, call_id: str) -> Reply | None:
        """Return a call's reply if it is kept for that lane."""
        reply = self._replies.get(call_id)
        return reply if reply is not None and reply.lane is lane else None

    def keep(self, lane: Lane, session: str, call_id: str, text: bytes, delivered: bool) -> bool:
        """Keep a reply; False, and nothing changes, when there is no room even without all that
        was delivered.
        """
        self._serial += 1
        reply = Reply(call_id, lane, session, text, delivered, self._serial)
        charge = reply.charge
        if (
            self._pinned[lane] + charge > self._most_on[lane]
            or sum(self._pinned.values()) + charge > self._most
        ):
            return False
        while self._used[lane] + charge > self._most_on[lane]:
            self._drop_oldest(lane)
        while self.used + charge > self._most:
            self._drop_oldest(*Lane)
        self._replies[call_id] = reply
        self._used[lane] += charge
        if delivered:
            self._delivered[lane][call_id] = reply
        else:
            self._pinned[lane] += charge
        return True

    def _drop_oldest(self, *lanes: Lane) -> None:
        heads = [next(iter(self._delivered[lane].values()), None) for lane in lanes]
        oldest = min((r for r in heads if r is not None), key=lambda r: r.serial)
        self.forget(oldest.lane, oldest.id)

    def delivered(self, reply: Reply, session: str) -> None:
        """A session has taken a reply to send."""
        if reply.delivered or self._replies.get(reply.id) is not reply:
            reply.session = session
            return
        reply.delivered = True
        reply.session = session
        self._pinned[reply.lane] -= reply.charge
        self._serial += 1
        reply.serial = self._serial
        self._delivered[reply.lane][reply.id] = reply

    def forget(self, lane: Lane, call_id: str) -> bool:
        """Drop a call's reply; return whether that lane had one."""
        reply = self._replies.get(call_id)
        if reply is None or reply.lane is not lane:
            return False
        del self._replies[call_id]
        self._used[lane] -= reply.charge
        if reply.delivered:
            del self._delivered[lane][call_id]
        else:
            self._pinned[lane] -= reply.charge
        return True

    def retain(self, lane: Lane, named: Iterable[str], present: str) -> None:
        """Drop that lane's replies of sessions before `present`, but for the named ones."""
        wanted = set(named)
        for reply in list(self._replies.values()):
            if reply.lane is lane and reply.session != present and reply.id not in wanted:
                self.forget(lane, reply.id)
