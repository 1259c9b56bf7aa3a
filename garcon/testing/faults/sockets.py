"""Schedules over real sockets on loopback, with a fault proxy between the two ends and all times
shortened alike.
"""

from __future__ import annotations

from random import Random
from typing import Any, cast

from attrs import evolve
from twisted.internet.address import IPv4Address
from twisted.internet.defer import maybeDeferred
from twisted.internet.task import deferLater
from twisted.web.resource import Resource
from twisted.web.server import Site

from garcon.deferreds import returns_deferred
from garcon.link.admission import Admission
from garcon.link.endpoints import DialTarget
from garcon.link.settings import LinkSettings
from garcon.link.websocket import LaneResource
from garcon.testing.faults.ends import EXECUTOR, leaks
from garcon.testing.faults.ledger import Ledger
from garcon.testing.faults.play import Play
from garcon.testing.faults.stage import TwoEnds
from garcon.testing.faults.steps import (
    SETTINGS,
    Cut,
    CutAfter,
    Elapse,
    Fault,
    Full,
    HalfOpen,
    Hold,
    Replay,
    Schedule,
    Stall,
    scaled,
)
from garcon.testing.faults.strikes import Strike, struck
from garcon.testing.proxy import FaultProxy

SCALE = 1 / 25
"""Of a schedule's times; what it waits at most at once is about a second."""
REST = 60.0
POLL = 0.02


def shortened(settings: LinkSettings, factor: float) -> LinkSettings:
    """Return settings with every time of theirs multiplied."""
    return evolve(
        settings,
        connect_time=settings.connect_time * factor,
        handshake_time=settings.handshake_time * factor,
        close_time=settings.close_time * factor,
        eviction_time=settings.eviction_time * factor,
        eviction_pace=settings.eviction_pace * factor,
        replace_time=settings.replace_time * factor,
        ping_every=settings.ping_every * factor,
        dead_after=settings.dead_after * factor,
        redial_delays=tuple(delay * factor for delay in settings.redial_delays),
        redial_reset_after=settings.redial_reset_after * factor,
        bulk_wait=settings.bulk_wait * factor,
        bulk_step=settings.bulk_step * factor,
        bulk_reconciling=settings.bulk_reconciling * factor,
        grace=settings.grace * factor,
        newer_grace=settings.newer_grace * factor,
        launch_wait=settings.launch_wait * factor,
        install_again=settings.install_again * factor,
        interactive_wait=settings.interactive_wait * factor,
        dispatch_reserve=settings.dispatch_reserve * factor,
        ack_batch=settings.ack_batch * factor,
    )


QUICK = evolve(
    shortened(SETTINGS, SCALE),
    # A busy machine must be able to shake hands, and to come back before anybody gives up.
    connect_time=2.0,
    handshake_time=1.0,
    bulk_step=1.0,
    grace=10.0,
    newer_grace=3.0,
)


class OverSockets(TwoEnds):
    """See `play.Stage`.  `chance` strikes connections beside what the schedule has."""

    def __init__(self, reactor: Any, schedule: Schedule, chance: Random) -> None:
        self._chance = chance
        self._is_healing = False
        self.admission = Admission()
        root = Resource()
        root.putChild(b"executor", LaneResource(self._find, reactor, self.admission, QUICK))
        site = Site(root)
        site.noisy = False
        self._port = reactor.listenTCP(0, site, interface="127.0.0.1")
        target = cast(IPv4Address, self._port.getHost()).port
        self.proxy = FaultProxy(reactor, target, self._strikes)
        path = f"/executor/{EXECUTOR}" if schedule.worker_dials else "/executor"
        way = DialTarget(f"ws://127.0.0.1:{self.proxy.start()}{path}")
        super().__init__(reactor, scaled(schedule, SCALE), Ledger(), QUICK, way)

    def _find(self, segment: bytes | None) -> Any:
        if self.schedule.worker_dials:
            return self.controller.link if segment == EXECUTOR.encode() else None
        return self.worker.link if segment is None else None

    def _strikes(self, number: int) -> tuple[Strike, ...]:
        if self._is_healing or self._chance.random() < 0.5:
            return ()
        return struck(self._chance)

    def connections(self) -> Any:
        """See `TwoEnds`."""
        return self.proxy.open()

    def refuse(self) -> None:
        """See `TwoEnds`."""
        self.proxy.refuse()

    def deafen(self) -> None:
        """See `TwoEnds`."""
        self.proxy.is_deaf = True

    def cut(self) -> None:
        """See `TwoEnds`."""
        self.proxy.cut()

    def strike(self, connection: Any, fault: Fault) -> None:
        """See `TwoEnds`."""
        match fault:
            case Cut():
                connection.abort()
            case CutAfter(_, side, position):
                cut = Strike("cut", bool(side % 2), position * 90)
                connection.line(side).strike_after(cut)
            case HalfOpen(_, side):
                connection.half_open(side)
            case Hold(_, side) | Full(_, side):
                connection.line(side).hold(True)
            case Replay():
                connection.duplicate()

    def heal(self) -> None:
        """See `Stage`."""
        self.proxy.heal()

    @returns_deferred
    async def play(self) -> list[str]:
        """Play the schedule to its end and say what was wrong with it."""
        play = Play(self, self.ledger, keeps_replies=self.schedule.journal is None)
        await self._until(lambda: self.controller.executor.availability == "ready", 2.0)
        for step in self.schedule.steps:
            match step:
                case Elapse(seconds) | Stall(seconds):
                    await self._elapse(min(seconds, 1.5))
                case _:
                    play.take(step)
        wrong = await self._settle(play)
        await self._close()
        if len(self.admission):
            wrong.append(f"{len(self.admission)} sockets still have a place")
        if self.proxy.connections:
            wrong.append(f"{len(self.proxy.connections)} connections are left")
        if not self.controller.was_continuous():
            self.ledger.is_continuous = False
        return self.ledger.violations() + wrong

    async def _settle(self, play: Play) -> list[str]:
        self._is_healing = True
        self.heal()
        # What the proxy has swallowed would otherwise have to be found dead first.
        self.proxy.cut()

        def rests() -> bool:
            play.wind_up()
            return self.is_at_rest

        if not await self._until(rests, REST):
            open_calls = [call.method for call in self.ledger.open_calls()]
            return [f"no rest after {REST:.0f} s: {open_calls} {self.controller.link.last_error}"]
        # An unclaimed run is kept until the grace of the session that comes next is over, and that
        # session may take as long to come as all else.
        await self._until(lambda: not leaks(self.controller, self.worker), REST + QUICK.newer_grace)
        return leaks(self.controller, self.worker)

    async def _close(self) -> None:
        stopping = [self.controller.stop(), self.worker.stop()]
        for d in stopping:
            await d
        await self.proxy.stop()
        await maybeDeferred(self._port.stopListening)
        proxy = self.proxy
        await self._until(
            lambda: not (len(self.admission) or proxy.connections or proxy.copies), 3.0
        )

    async def _until(self, condition: Any, seconds: float) -> bool:
        end = self.reactor.seconds() + seconds
        while not condition():
            if self.reactor.seconds() > end:
                return False
            await self._elapse(POLL)
        return True

    async def _elapse(self, seconds: float) -> None:
        await deferLater(self.reactor, seconds)
