"""Processes that stop or die at each step of a session's installation and of the bulk lane's life.

Each case links once, has a run and a journaled call under way, loses its connections, and has its
peer stop or die at one step of the next session.
"""

from __future__ import annotations

import json
import signal
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred, DeferredList, DeferredSemaphore
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from garcon.deferreds import returns_deferred
from garcon.testing.faults.beside import Beside, Peer
from garcon.testing.faults.ledger import Done, rows_wrong
from garcon.testing.faults.peer import CONTROLLER_STEPS, SCRIPT, WORK, WORKER_STEPS
from garcon.testing.faults.play import Play
from garcon.testing.faults.steps import Begin

reactor: Any = _reactor


class Case:
    """One peer, one step, one signal."""

    def __init__(self, role: str, step: str, number: str) -> None:
        self.step = step
        self.beside = Beside(reactor, role)
        # The first session has nothing to resume.
        self.occurrence = 1 if step == "resume" else 2
        self.options = ("--at", step, "--occurrence", str(self.occurrence), "--signal", number)

    @property
    def count(self) -> int:
        return sum(line == f"step {self.step}" for peer in self.beside.peers for line in peer.lines)

    @returns_deferred
    async def reach(self) -> Peer:
        """Link, begin something, and go on until the peer has come to its step."""
        beside = self.beside
        peer = beside.start_peer(*self.options)
        await beside.until("the link", beside.is_up)
        if beside.controller is not None:
            play = Play(beside, beside.ledger)  # type: ignore[arg-type]  # its faults are not played
            play.take(Begin(SCRIPT))
            play.take(WORK)
            await beside.until("the run", lambda: len(self.turn.events) > 3)
        else:
            await beside.until("the run", lambda: self.done.rows > 3)
        beside.proxy.cut()
        await beside.until(f"the step {self.step}", lambda: self.count >= self.occurrence)
        return peer

    @property
    def turn(self) -> Any:
        return next(iter(self.beside.ledger.turns.values()))

    @property
    def done(self) -> Any:
        return next(iter(self.beside.ledger.done.values()), Done())


class Faults(TestCase):
    """What is linked finds together again, and tells the truth about what was under way."""

    timeout = 110

    @returns_deferred
    async def all(self, role: str, number: str, steps: tuple[str, ...], go: Any) -> None:
        """Try every step, two at a time: each is a process that has to keep short times."""
        two = DeferredSemaphore(2)
        trying = [two.run(self.one, role, step, number, go) for step in steps]
        ended: Any = await DeferredList(trying, consumeErrors=True)
        wrong = [result.getTraceback() for _, result in ended if isinstance(result, Failure)]
        if wrong:
            self.fail("\n".join(wrong))

    @returns_deferred
    async def one(self, role: str, step: str, number: str, go: Any) -> None:
        """Try one step, and clean up after it."""
        case = Case(role, step, number)
        try:
            await go(case, await case.reach())
        except Exception as error:
            error.add_note(f"at step {case.step!r}")
            raise
        finally:
            await case.beside.close()

    async def noticed(self, case: Case) -> None:
        """The side that lives notices within the time it has, and ends what it had."""
        # The step may have come here before what led to it has.
        await deferLater(reactor, 0.2)
        link = case.beside.link
        await case.beside.until("the loss", lambda: link.current() is None, 2.0)

    # -- a worker --

    def test_a_worker_stops(self) -> Deferred[None]:
        """It goes on where it was: the call succeeds, having happened once, and every row is there
        once.
        """
        return self.all("worker", "STOP", WORKER_STEPS, self.worker_stops)

    async def worker_stops(self, case: Case, peer: Peer) -> None:
        """Freeze it for a moment that is noticed."""
        beside = case.beside
        await self.noticed(case)
        peer.signal(signal.SIGCONT)
        await beside.until("the link again", beside.is_up)
        await beside.until("the end of all", lambda: beside.ledger.is_settled)
        (call,) = beside.ledger.calls.values()
        self.assertEqual(call.ends, ["succeeded"])
        self.assertEqual(peer.count(f"happened {call.token}"), 1)
        self.assertEqual(peer.count(f"begun {call.token}"), 1)
        self.assertEqual(case.turn.end.outcome, "finished")
        self.assertEqual(list(rows_wrong(f"run {case.turn.run_id}", case.turn.events, 40)), [])

    def test_a_worker_dies(self) -> Deferred[None]:
        """The next one is linked, and knows nothing: the run ends as unknown, exactly once, and
        the call in the way that its process has told before it died.
        """
        return self.all("worker", "KILL", WORKER_STEPS, self.worker_dies)

    async def worker_dies(self, case: Case, peer: Peer) -> None:
        """Replace it."""
        beside = case.beside
        await beside.until("its end", lambda: peer.has_ended)
        second = beside.start_peer()
        await beside.until("the link again", beside.is_up)
        await beside.until("the end of all", lambda: beside.ledger.is_settled)
        (call,) = beside.ledger.calls.values()
        self.assertEqual(len(call.ends), 1)
        self.assertEqual(second.count(f"begun {call.token}"), 0)
        if call.ends == ["succeeded"]:
            self.assertEqual(peer.count(f"happened {call.token}"), 1)
        else:
            self.assertEqual(call.ends, ["unknown"])
        self.assertEqual(case.turn.end.outcome, "failed")
        self.assertEqual(case.turn.end.error.code, "OUTCOME_UNKNOWN")
        self.assertEqual(list(rows_wrong(f"run {case.turn.run_id}", case.turn.events, None)), [])

    # -- a controller --

    def test_a_controller_stops(self) -> Deferred[None]:
        """It goes on where it was, as if the link alone had been lost."""
        return self.all("controller", "STOP", CONTROLLER_STEPS, self.controller_stops)

    async def controller_stops(self, case: Case, peer: Peer) -> None:
        """Freeze it for a moment that is noticed."""
        await self.noticed(case)
        peer.signal(signal.SIGCONT)
        summary = await self.summary(case, peer)
        self.assertEqual(
            summary,
            {
                "call": ["succeeded"],
                "launch": ["succeeded"],
                "end": "finished",
                "rows": SCRIPT.rows,
                "wrong": [],
            },
        )
        self.assertEqual(max(case.beside.ledger.happened.values()), 1)
        self.assertEqual(case.done.received, 1)

    async def summary(self, case: Case, peer: Peer) -> Any:
        """Return what a controller says of its call and its run."""

        def told() -> list[str]:
            return [line for line in peer.lines if line.startswith("summary ")]

        await case.beside.until("its summary", told)
        return json.loads(told()[0].partition(" ")[2])

    def test_a_controller_dies(self) -> Deferred[None]:
        """The next one is linked and served; what the first has left is given up in its time, and
        leaves nothing behind.
        """
        return self.all("controller", "KILL", CONTROLLER_STEPS, self.controller_dies)

    async def controller_dies(self, case: Case, peer: Peer) -> None:
        """Replace it."""
        beside = case.beside
        worker = beside.worker
        assert worker is not None
        await beside.until("its end", lambda: peer.has_ended)
        second = beside.start_peer()
        summary = await self.summary(case, second)
        self.assertEqual((summary["call"], summary["end"]), (["succeeded"], "finished"))
        self.assertEqual(summary["wrong"], [])
        await beside.until(
            "the end of what was left",
            lambda: worker.machine.is_idle and not worker.serving.streams and worker.worker.is_idle,
        )
        self.assertEqual(case.done.received, 1)

    # -- two at once --

    @returns_deferred
    async def test_a_frozen_worker_and_another_of_the_same_identity(self) -> None:
        """While the first is frozen the second takes its place, and keeps it when the first wakes;
        nothing of the first's is shown any more.
        """
        case = Case("worker", "none", "STOP")
        beside = case.beside
        try:
            first = beside.start_peer()
            await beside.until("the link", beside.is_up)
            play = Play(beside, beside.ledger)  # type: ignore[arg-type]  # its faults are not played
            play.take(Begin(SCRIPT))
            play.take(WORK)
            await beside.until("the run", lambda: len(case.turn.events) > 3)
            first.signal(signal.SIGSTOP)
            second = beside.start_peer()
            await beside.until("the second's place", lambda: second.count("step ready") == 1)
            await beside.until("the link again", beside.is_up)
            self.assertEqual(case.turn.end.error.code, "OUTCOME_UNKNOWN")
            events = len(case.turn.events)
            (call,) = beside.ledger.calls.values()
            self.assertEqual(call.ends, ["unknown"])
            first.signal(signal.SIGCONT)
            await beside.until(
                "the first's refusal", lambda: beside.link.last_error is not None, 10.0
            )
            self.assertEqual(beside.link.last_error[0], "second-primary")
            self.assertTrue(beside.is_up())
            self.assertEqual(first.count("step installed"), 1)
            self.assertEqual((len(case.turn.events), call.ends), (events, ["unknown"]))
            again = Play(beside, beside.ledger, 10)  # type: ignore[arg-type]  # likewise
            again.take(WORK)
            await beside.until("its answer", lambda: beside.ledger.is_settled)
            self.assertEqual(beside.ledger.calls["call-11"].ends, ["succeeded"])
            self.assertEqual(second.count("happened call-11"), 1)
        finally:
            await beside.close()
