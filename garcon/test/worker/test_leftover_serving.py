"""How a worker serves what is left over on its machine."""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from garcon.contract import rpc
from garcon.contract.leftovers import EndProcess, LeftoverProcess, LeftoverProcesses
from garcon.errors import GarconError
from garcon.link.interfaces import CallContext
from garcon.runtime.interfaces import ILeftovers
from garcon.test.worker.doubles import IdleLane
from garcon.worker.serving.leftovers import LeftoverServing


@implementer(ILeftovers)
@define(eq=False)
class SomeLeftovers:
    """One process, until it is ended."""

    there: list[LeftoverProcess] = field(
        factory=lambda: [LeftoverProcess(7, 9, "sleep", "orphan", 1.0)]
    )

    def read(self) -> Deferred[LeftoverProcesses]:
        return succeed(LeftoverProcesses(list(self.there), len(self.there)))

    def end(self, wanted: EndProcess) -> Deferred[None]:
        found = [
            one for one in self.there if (one.pid, one.started) == (wanted.pid, wanted.started)
        ]
        if not found:
            return fail(GarconError("PROCESS_NOT_FOUND", "none", status=404))
        self.there.remove(found[0])
        return succeed(None)


class LeftoverServingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.leftovers = SomeLeftovers()
        self.handlers = LeftoverServing(self.leftovers).handlers()

    def ask(self, method: rpc.Method, request: object) -> Deferred[object]:
        lane = IdleLane()
        context = CallContext(method, lane.lane, lane.peer, lane, lane.session_id)
        d: Deferred[object] = self.handlers[method.name](request, context)
        return d

    def test_the_double_honours_its_interface(self) -> None:
        """Whatever these tests show of it holds for others."""
        verifyObject(ILeftovers, self.leftovers)

    def test_every_method(self) -> None:
        """Of processes is served."""
        wanted = {name for name in rpc.METHODS if name.startswith("processes.")}
        self.assertEqual(set(self.handlers), wanted)

    def test_they_are_seen_and_ended(self) -> None:
        """One that is not among them is refused in the runtime's own words."""
        told = self.successResultOf(self.ask(rpc.LEFTOVERS, rpc.Nothing()))
        self.assertEqual(told, LeftoverProcesses(list(self.leftovers.there), 1))
        error = self.failureResultOf(self.ask(rpc.END_LEFTOVER, EndProcess(7, 8)), GarconError)
        self.assertEqual(error.value.code, "PROCESS_NOT_FOUND")
        ended = self.successResultOf(self.ask(rpc.END_LEFTOVER, EndProcess(7, 9)))
        self.assertEqual((ended, self.leftovers.there), (rpc.Nothing(), []))
