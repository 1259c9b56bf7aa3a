"""Sockets that have lost their place: how long they are kept."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import PENDING_SOCKETS
from garcon.link.settings import LinkSettings
from garcon.link.websocket import LaneServerProtocol, _Leaving


class Transport(StringTransport):
    """A socket that can be aborted."""

    def abortConnection(self) -> None:
        """See `ITCPTransport`."""
        self.loseConnection()


class Evictions(SynchronousTestCase):
    """Closed a moment later and one after the other, by the link's own settings."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.leaving = _Leaving(self.clock, LinkSettings(eviction_time=2.0, eviction_pace=0.5))
        self.sockets: list[Any] = []

    def tearDown(self) -> None:
        self.clock.advance(PENDING_SOCKETS)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def evict(self) -> Transport:
        protocol: Any = LaneServerProtocol()
        protocol.transport = transport = Transport()
        self.sockets.append(protocol)
        self.leaving.add(protocol)
        return transport

    def test_each_in_its_time(self) -> None:
        """Nothing more is read of them at once; the second is closed a pace after the first."""
        self.assertEqual((LinkSettings().eviction_time, LinkSettings().eviction_pace), (0.5, 0.05))
        first, second = self.evict(), self.evict()
        self.assertEqual(first.producerState, "paused")
        closed = []
        for seconds in (1.99, 0.0100001, 0.48, 0.02):
            self.clock.advance(seconds)
            closed.append((first.disconnecting, second.disconnecting))
        self.assertEqual(closed, [(False, False), (True, False), (True, False), (True, True)])

    def test_at_the_bound_and_past_it(self) -> None:
        """One more than may be pending closes the one that has waited longest."""
        transports = [self.evict() for _ in range(PENDING_SOCKETS)]
        self.assertFalse(any(t.disconnecting for t in transports))
        self.evict()
        self.assertEqual([t.disconnecting for t in transports[:2]], [True, False])

    def test_who_goes_by_himself(self) -> None:
        """Is waited for no longer."""
        self.evict()
        self.sockets[0].on_gone()
        self.assertEqual(self.clock.getDelayedCalls(), [])
