"""One side of a link as a process of its own, which stops or kills itself at a step that it is
told: ``python -m garcon.testing.faults.peer worker URL --at reconciling --signal STOP``.

Every step and everything that is done is told on standard output, a line each, before it happens.
A controller also launches a run and makes a call as soon as it is linked for the first time, and
tells how they ended.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field
from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall

from garcon.contract import rpc
from garcon.contract.rpc import Method
from garcon.link.endpoints import DialTarget
from garcon.link.interfaces import CallContext, Handler, ICapturedLink
from garcon.link.link import ControllerLink
from garcon.testing.faults.ends import ControllerEnd, WorkerEnd
from garcon.testing.faults.ledger import Ledger, rows_wrong
from garcon.testing.faults.machine import Script
from garcon.testing.faults.play import Play
from garcon.testing.faults.sockets import QUICK
from garcon.testing.faults.steps import Ask, Begin

WORKER_STEPS = (
    *("installed", "describe", "reconcile", "resume"),
    *("connecting", "reconciling", "reconcile bulk", "ready"),
)
CONTROLLER_STEPS = (
    *("installed", "describe", "reconcile", "resume", "activate"),
    *("preparing", "connecting", "reconciling", "activating", "ready"),
)
SCRIPT = Script(rows=40, size=200, pace=0.1)
WORK = Ask(1, seconds=2.0, deadline=None)
"""A journaled call on primary."""


def say(*words: object) -> None:
    """Tell whoever started us."""
    print(*words, flush=True)


@define(eq=False)
class Steps:
    """Counts what is reached, and raises the signal where it was told to."""

    at: str | None
    occurrence: int
    number: int
    _seen: Counter[str] = field(factory=Counter)

    def reached(self, step: str) -> None:
        """Something is about to happen."""
        self._seen[step] += 1
        say("step", step)
        if step == self.at and self._seen[step] == self.occurrence:
            os.kill(os.getpid(), self.number)


class _Told(Counter[str]):
    """Tells of each count before it is raised."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def __setitem__(self, key: str, value: int) -> None:
        say(self._what, key)
        super().__setitem__(key, value)


class SteppedWorker(WorkerEnd):
    """A worker whose steps are told."""

    steps: Steps

    def handlers(self) -> Mapping[str, Handler]:
        served = dict(super().handlers())
        served[rpc.RECONCILE.name] = lambda request, context: self.link._answer_reconciliation(
            request, context
        )
        for method, step in (
            (rpc.DESCRIBE, "describe"),
            (rpc.RECONCILE, "reconcile"),
            (rpc.PRODUCERS_RESUME, "resume"),
        ):
            served[method.name] = self._stepped(served[method.name], step)
        return served

    def _stepped(self, handler: Handler, step: str) -> Handler:
        def handle(request: Any, context: CallContext) -> Deferred[Any]:
            on_bulk = context.lane is rpc.Lane.BULK
            self.steps.reached(f"{step} bulk" if on_bulk else step)
            return handler(request, context)

        return handle

    def primary_installed(self, captured: ICapturedLink) -> None:
        self.steps.reached("installed")
        super().primary_installed(captured)

    def bulk_changed(self, phase: str) -> None:
        self.steps.reached(phase)


class _SteppedLink(ControllerLink):
    steps: Steps

    def _tell(self, event: Callable[..., None], *arguments: Any) -> None:
        if event.__name__ == "primary_installed":
            self.steps.reached("installed")
            captured = arguments[0]
            captured.call = self._stepped(captured.call)
        elif event.__name__ == "bulk_changed":
            self.steps.reached(arguments[0])
        super()._tell(event, *arguments)

    def _stepped(self, call: Callable[..., Deferred[Any]]) -> Callable[..., Deferred[Any]]:
        names = {rpc.DESCRIBE: "describe", rpc.PRODUCERS_RESUME: "resume"}

        def stepped(method: Method, request: Struct | None, **more: Any) -> Deferred[Any]:
            if method in names:
                self.steps.reached(names[method])
            return call(method, request, **more)

        return stepped

    def reconcile_primary(self) -> Deferred[None]:
        self.steps.reached("reconcile")
        return super().reconcile_primary()

    def activate(self) -> None:
        self.steps.reached("activate")
        super().activate()


class SteppedController(ControllerEnd):
    """A controller whose steps are told."""

    link_type = _SteppedLink


@define(eq=False)
class _Alone:
    """A stage without faults: those happen outside."""

    controller: ControllerEnd
    worker: Any = None

    def fault(self, fault: object) -> None:
        raise AssertionError("faults happen outside")

    def heal(self) -> None:
        raise AssertionError("faults happen outside")

    def restart(self) -> None:
        raise AssertionError("faults happen outside")


def run_worker(reactor: Any, url: str, steps: Steps, number: int) -> None:
    """Link to a controller, over and over."""
    ledger = Ledger()
    ledger.begun, ledger.happened = _Told("begun"), _Told("happened")
    SteppedWorker.steps = steps
    worker = SteppedWorker(reactor, ledger, QUICK, DialTarget(url), number)
    worker.link.start()


def run_controller(reactor: Any, url: str, steps: Steps, number: int) -> None:
    """Link to a worker, over and over, and have it do something."""
    ledger = Ledger()
    _SteppedLink.steps = steps
    controller = SteppedController(
        reactor, ledger, QUICK, DialTarget(url), f"controller-runtime-{number}"
    )
    # No two controllers give the same ids.
    play = Play(_Alone(controller), ledger, 100 * number)

    def look() -> None:
        if not ledger.turns and controller.executor.availability == "ready":
            play.take(Begin(SCRIPT))
            play.take(WORK)
            say("begun all")
        elif ledger.turns and ledger.is_settled:
            looking.stop()
            (turn,), (call,) = ledger.turns.values(), ledger.calls.values()
            end = turn.end
            summary = {
                "call": call.ends,
                "launch": turn.ends,
                "end": None if end is None else end.outcome,
                "rows": sum(type(event).__name__ == "RowProduced" for event in turn.events),
                "wrong": list(rows_wrong(f"run {turn.run_id}", turn.events, SCRIPT.rows)),
            }
            say("summary", json.dumps(summary))

    looking = LoopingCall(look)
    looking.clock = reactor
    looking.start(0.02)
    controller.executor.start()


def main(arguments: list[str]) -> None:
    """Be a peer until killed."""
    from twisted.internet import reactor as _reactor

    reactor: Any = _reactor
    parser = argparse.ArgumentParser(prog="python -m garcon.testing.faults.peer")
    parser.add_argument("role", choices=("worker", "controller"))
    parser.add_argument("url")
    parser.add_argument("--number", type=int, default=1)
    parser.add_argument("--at", default=None)
    parser.add_argument("--occurrence", type=int, default=1)
    parser.add_argument("--signal", choices=("STOP", "KILL"), default="STOP")
    options = parser.parse_args(arguments)
    steps = Steps(options.at, options.occurrence, signal.Signals[f"SIG{options.signal}"])
    run = run_worker if options.role == "worker" else run_controller
    reactor.callWhenRunning(run, reactor, options.url, steps, options.number)
    reactor.run()


if __name__ == "__main__":
    main(sys.argv[1:])
