"""Who is told what of an executor's link, and when (decisions.md 13)."""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.internet.defer import Deferred

from garcon.contract import operations, rpc
from garcon.contract.diagnostics import LaneDiagnostics, LinkDiagnostics
from garcon.contract.executors import ExecutorSnapshot
from garcon.contract.leftovers import EndProcess, LeftoverProcess, LeftoverProcesses
from garcon.controller.executors.diagnostics import PROBE_TIME
from garcon.controller.handlers import Answer
from garcon.controller.principals import LOCAL_PRINCIPAL, Principal, delegated
from garcon.errors import GarconError
from garcon.test.controller.executors.cast import ExecutorsCase

UNKNOWN = "ffffffff-ffff-4fff-8fff-ffffffffffff"
OPERATION = operations.EXECUTOR_DIAGNOSTICS


class DiagnosticsTests(ExecutorsCase):
    """One inbound executor whose link is held."""

    def setUp(self) -> None:
        super().setUp()
        self.executor_id = self.create()
        self.link = self.links[self.executor_id]

    def begin(self, principal: Principal = LOCAL_PRINCIPAL) -> Deferred[Answer]:
        return self.handlers.run(OPERATION, principal, executor_id=self.executor_id)

    def read(self) -> dict[str, Any]:
        status, told = self.ask(OPERATION, executor_id=self.executor_id)
        self.assertEqual(status, 200, told)
        assert isinstance(told, dict)
        return told

    def answered(self, d: Deferred[Answer]) -> dict[str, Any]:
        answer = self.successResultOf(d)
        self.assertEqual(answer.status, 200, answer.body)
        told: dict[str, Any] = msgspec.json.decode(answer.body)
        return told

    def read_silent(self) -> dict[str, Any]:
        """Read while the worker does not say what is left over there."""
        d = self.begin()
        self.clock.advance(PROBE_TIME)
        return self.answered(d)

    def test_keys(self) -> None:
        """Exactly the contract's; none of them is the snapshot's secret or address."""
        told = self.read()
        self.assertEqual(
            set(told),
            {
                *("id", "label", "enabled", "allowControllerCli", "allowExecutorManagement"),
                *("direction", "availability", "lastError", "link", "leftovers"),
            },
        )
        self.assertEqual(
            set(told["link"]),
            set(LinkDiagnostics.__struct_encode_fields__),
        )
        self.assertEqual(
            set(told["link"]["primary"]),
            set(LaneDiagnostics.__struct_encode_fields__),
        )

    def test_the_snapshot_keeps_its_keys(self) -> None:
        """What is told here is not told there."""
        self.assertEqual(
            set(self.snapshot(self.executor_id)), set(ExecutorSnapshot.__struct_encode_fields__)
        )
        self.assertEqual(len(ExecutorSnapshot.__struct_encode_fields__), 13)

    def test_states(self) -> None:
        """Listening, connected, ready, and none at all."""
        self.assertEqual(self.read()["link"]["primary"]["phase"], "listening")
        self.link.ready("g1")
        told = self.read_silent()
        self.assertEqual(
            (told["availability"], told["link"]["primary"]["phase"]), ("ready", "connected")
        )
        self.updated(self.executor_id, enabled=False)
        told = self.read()
        self.assertEqual((told["enabled"], told["link"]), (False, None))

    def test_ids(self) -> None:
        """An unknown one has no diagnostics, anything else is malformed."""
        for executor_id, status, code in (
            (UNKNOWN, 404, "EXECUTOR_NOT_FOUND"),
            ("nobody", 400, "VALIDATION_FAILED"),
        ):
            answer = self.ask(OPERATION, executor_id=executor_id)
            self.refused(answer, status, code)

    def test_management(self) -> None:
        """A worker's own commands need both grants, also for its own link."""
        self.link.ready("g1")
        me = delegated(self.executor_id)
        refused = self.ask(OPERATION, executor_id=self.executor_id, principal=me)
        self.refused(refused, 403, "CLI_ACCESS_DENIED")
        self.updated(self.executor_id, allowControllerCli=True, allowExecutorManagement=True)
        d = self.begin(me)
        self.clock.advance(PROBE_TIME)
        self.answered(d)

    def test_a_link_that_does_not_answer(self) -> None:
        """Is told of as it is after two seconds; a grant that ended meanwhile is no grant."""
        self.updated(self.executor_id, allowControllerCli=True, allowExecutorManagement=True)
        self.link.probed = Deferred()
        d = self.begin()
        self.clock.advance(PROBE_TIME - 0.01)
        self.assertNoResult(d)
        self.clock.advance(0.01)
        self.assertEqual(self.successResultOf(d).status, 200)
        self.link.probed = Deferred()
        d = self.begin(delegated(self.executor_id))
        self.updated(self.executor_id, allowExecutorManagement=False)
        self.link.probed.callback(None)
        self.assertEqual(self.successResultOf(d).status, 403)


class LeftoverTests(ExecutorsCase):
    """What is left over on a worker's machine, and its end."""

    def setUp(self) -> None:
        super().setUp()
        self.executor_id = self.create()
        self.link = self.links[self.executor_id]
        self.generation = self.link.ready("g1")

    def begin(self, principal: Principal = LOCAL_PRINCIPAL) -> Deferred[Answer]:
        return self.handlers.run(OPERATION, principal, executor_id=self.executor_id)

    def end(self, executor_id: str = "", /, **body: int) -> Deferred[Answer]:
        wanted = {"pid": 7, "started": 9} | body
        return self.handlers.run(
            operations.END_PROCESS,
            LOCAL_PRINCIPAL,
            body=wanted,
            executor_id=executor_id or self.executor_id,
        )

    def told(self, d: Deferred[Answer]) -> tuple[int, Any]:
        answer = self.successResultOf(d)
        return answer.status, msgspec.json.decode(answer.body)

    def test_what_the_worker_says(self) -> None:
        """Each with exactly these fields."""
        d = self.begin()
        one = LeftoverProcess(7, 9, "sleep", "earlier", 1.5)
        self.generation.waiting(rpc.LEFTOVERS).d.callback(LeftoverProcesses([one], 3))
        _, told = self.told(d)
        expected = {"pid": 7, "started": 9, "name": "sleep", "origin": "earlier", "seconds": 1.5}
        self.assertEqual(told["leftovers"], {"processes": [expected], "count": 3})

    def test_a_worker_that_does_not_say(self) -> None:
        """All else is told after two seconds, or at once where it refuses or is not there."""
        d = self.begin()
        self.clock.advance(PROBE_TIME - 0.01)
        self.assertNoResult(d)
        self.clock.advance(0.01)
        self.assertIsNone(self.told(d)[1]["leftovers"])
        d = self.begin()
        refusal = GarconError("INTERNAL_ERROR", "no", status=500)
        self.generation.waiting(rpc.LEFTOVERS).d.errback(refusal)
        self.assertIsNone(self.told(d)[1]["leftovers"])
        self.link.lose()
        self.assertIsNone(self.told(self.begin())[1]["leftovers"])

    def test_end(self) -> None:
        """That very process is named to the worker, and gone when it says so."""
        d = self.end()
        call = self.generation.waiting(rpc.END_LEFTOVER)
        self.assertEqual(call.request, EndProcess(7, 9))
        self.assertNoResult(d)
        call.d.callback(rpc.Nothing())
        self.assertEqual(self.told(d), (200, {"pid": 7, "started": 9, "success": True}))

    def test_end_is_refused(self) -> None:
        """By the worker, or as there is none to ask; what is no process id reaches nobody."""
        d = self.end()
        refusal = GarconError("PROCESS_NOT_FOUND", "no", status=404)
        self.generation.waiting(rpc.END_LEFTOVER).d.errback(refusal)
        self.refused(self.told(d), 404, "PROCESS_NOT_FOUND")
        before = len(self.generation.calls)
        for body in ({"pid": 1}, {"pid": 0}, {"pid": -7}, {"pid": 2**31}, {"started": -1}):
            self.refused(self.told(self.end(**body)), 400, "VALIDATION_FAILED")
        self.refused(self.told(self.end(signal=9)), 400, "VALIDATION_FAILED")
        self.assertEqual(len(self.generation.calls), before)
        self.refused(self.told(self.end("nobody")), 400, "VALIDATION_FAILED")
        self.refused(self.told(self.end(UNKNOWN)), 404, "EXECUTOR_NOT_FOUND")
        self.refused(self.told(self.end("local")), 422, "OPERATION_UNSUPPORTED")
        self.link.lose()
        self.refused(self.told(self.end()), 503, "EXECUTOR_UNAVAILABLE", retryable=True)

    def test_end_needs_management(self) -> None:
        """A worker's own commands may not, also on its own machine, without that grant."""
        me = delegated(self.executor_id)
        body = {"pid": 7, "started": 9}
        answer = self.ask(operations.END_PROCESS, body, self.executor_id, me)
        self.refused(answer, 403, "CLI_ACCESS_DENIED")
