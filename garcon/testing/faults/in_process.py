"""Schedules over the in-process network, with a clock that only the schedule moves."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock

from garcon.link.memory import MemoryDialler
from garcon.testing.faults.ends import WorkerEnd, leaks
from garcon.testing.faults.ledger import Ledger
from garcon.testing.faults.network import Connection, FaultyNetwork
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
)

REST = 600.0
"""In this time everything has ended once nothing more goes wrong."""
AFTERGLOW = SETTINGS.newer_grace + 2 * max(SETTINGS.redial_delays)
"""So long a worker may keep what the controller will not ask for again, the end of a run whose
acknowledgement was lost; should the link be lost once more, from its return.
"""


class InProcess(TwoEnds):
    """See `play.Stage`."""

    def __init__(self, schedule: Schedule) -> None:
        self.clock = Clock()
        ledger = Ledger(clock=self.clock.seconds)
        if not any(isinstance(step, Stall) for step in schedule.steps):
            # A side that hears nothing finds that out in its time, and tells its handlers.
            ledger.late = SETTINGS.dead_after + SETTINGS.ping_every
        self.network = FaultyNetwork(clock=self.clock)
        self._way = MemoryDialler(self.network)
        super().__init__(self.clock, schedule, ledger, SETTINGS, self._way)

    def worker_made(self, worker: WorkerEnd) -> None:
        """See `TwoEnds`."""
        dials = self.schedule.worker_dials
        self._way.target = self.controller.link if dials else worker.link

    def connections(self) -> list[Connection]:
        """See `TwoEnds`."""
        return self.network.open()

    def refuse(self) -> None:
        """See `TwoEnds`."""
        self.network.is_refusing = True

    def deafen(self) -> None:
        """See `TwoEnds`."""
        self.network.is_deaf = True

    def cut(self) -> None:
        """See `TwoEnds`."""
        for connection in self.network.open():
            self.network.break_off(connection.dialler)

    def strike(self, connection: Any, fault: Fault) -> None:
        """See `TwoEnds`."""
        network = self.network
        match fault:
            case Cut():
                network.break_off(connection.dialler)
            case CutAfter(_, side, position):
                network.cut_after(connection.end(side), position)
            case HalfOpen(_, side):
                network.die(connection.end(side))
            case Hold(_, side):
                network.hold_back(connection.end(side))
            case Full(_, side):
                connection.end(side).set_writable(False)
            case Replay():
                network.replay(connection)

    def heal(self) -> None:
        """See `Stage`."""
        self.network.heal()

    def elapse(self, seconds: float) -> None:
        """Let time pass, each timer at its time."""
        end = self.clock.seconds() + seconds
        while True:
            due = min((call.getTime() for call in self.clock.getDelayedCalls()), default=None)
            if due is None or due > end:
                break
            self.clock.advance(max(0.0, due - self.clock.seconds()))
        self.clock.advance(max(0.0, end - self.clock.seconds()))


def play(schedule: Schedule) -> list[str]:
    """Play a schedule to its end and say what was wrong with it."""
    return play_on(InProcess(schedule))


def play_on(stage: InProcess) -> list[str]:
    """Play the schedule of a stage."""
    play = Play(stage, stage.ledger, keeps_replies=stage.schedule.journal is None)
    stage.elapse(0.0)
    for step in stage.schedule.steps:
        match step:
            case Elapse(seconds):
                stage.elapse(seconds)
            case Stall(seconds):
                stage.clock.advance(seconds)
                if seconds + stage.controller.margin >= SETTINGS.grace:
                    # Who had lost his session before has found his grace over at once.
                    stage.ledger.is_continuous = False
            case _:
                play.take(step)
    wrong = _settle(stage, play)
    if not stage.controller.was_continuous():
        stage.ledger.is_continuous = False
    stopping = [stage.controller.stop(), stage.worker.stop()]
    stage.elapse(0.0)
    if not all(d.called for d in stopping):
        wrong.append("an end did not stop")
    wrong += [f"left: {call}" for call in stage.clock.getDelayedCalls()]
    if stage.network.wires:
        wrong.append(f"{len(stage.network.wires)} sockets are left")
    return stage.ledger.violations() + wrong


def _settle(stage: InProcess, play: Play) -> list[str]:
    """Let everything come to an end."""
    stage.heal()
    began = stage.clock.seconds()
    while not stage.is_at_rest:
        if stage.clock.seconds() - began > REST:
            return [f"no rest after {REST:.0f} s: {stage.controller.link.last_error}"]
        play.wind_up()
        stage.elapse(1.0)
    rested = stage.clock.seconds()
    stage.elapse(1.0)
    while leaks(stage.controller, stage.worker) and stage.clock.seconds() - rested < AFTERGLOW:
        stage.elapse(1.0)
    return leaks(stage.controller, stage.worker)
