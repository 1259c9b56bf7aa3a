"""Who is told what of an executor's link, and when (decisions.md 13)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.contract.diagnostics import LaneDiagnostics, LinkDiagnostics
from garcon.contract.executors import ExecutorSnapshot
from garcon.controller.executors.diagnostics import PROBE_TIME
from garcon.controller.handlers import Answer
from garcon.controller.principals import LOCAL_PRINCIPAL, Principal, delegated
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

    def test_keys(self) -> None:
        """Exactly the contract's; none of them is the snapshot's secret or address."""
        told = self.read()
        self.assertEqual(
            set(told),
            {
                *("id", "label", "enabled", "allowControllerCli", "allowExecutorManagement"),
                *("direction", "availability", "lastError", "link"),
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
        told = self.read()
        self.assertEqual(
            (told["availability"], told["link"]["primary"]["phase"]), ("ready", "connected")
        )
        self.updated(self.executor_id, enabled=False)
        told = self.read()
        self.assertEqual((told["enabled"], told["link"]), (False, None))

    def test_ids(self) -> None:
        """Local has no link, an unknown one no diagnostics, anything else is malformed."""
        for executor_id, status, code in (
            ("local", 404, "EXECUTOR_NOT_FOUND"),
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
        status, _ = self.ask(OPERATION, executor_id=self.executor_id, principal=me)
        self.assertEqual(status, 200)

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
