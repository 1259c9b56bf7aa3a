"""Bulk that is full, slow or lost, and the controls on primary that go on all the same."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract import operations, rpc
from garcon.contract.files import FileTarget
from garcon.contract.limits import MIB
from garcon.contract.runs import PermissionResponse
from garcon.errors import CallError
from garcon.test.authority.cast import WholeBridge
from garcon.test.controller.executors.test_remote import launch

FILE = FileTarget(project_path="/projects/a", path="a")


class PairedLanes(WholeBridge):
    """A link whose bulk lane carries large things in both directions."""

    def setUp(self) -> None:
        super().setUp()
        self.chats = self.hold(operations.LIST_CHATS)
        self.starting = self.hold(operations.START_CHAT)
        self.stopping = self.hold(operations.STOP_CHAT)
        self.receipts = self.hold(operations.TURN_RECEIPT)
        launched = self.executors.runtime(self.executor_id).launch(launch(), self.sink)
        self.settle(0.1)
        self.successResultOf(launched)

    def hold_bulk(self) -> None:
        """Let bulk carry nothing any more, without anybody being told."""
        for wire in self.bulk_wires():
            wire.set_writable(False)

    def free_bulk(self) -> None:
        for wire in self.bulk_wires():
            wire.set_writable(True)
        self.settle(3)

    def read_file(self) -> Deferred[Any]:
        """Ask the worker for a file, as the files of the browser do, on bulk."""
        link = self.executors._known(self.executor_id).link
        assert link is not None
        d: Deferred[Any] = link.call(rpc.READ_FILE, FILE)
        self.settle(0.1)
        return d

    def show_controls(self) -> None:
        """Discovery, a stop, a receipt, a decision and the rows of a turn, each of them now."""
        stop, receipt, context = self.stop(), self.receipt(), self.discover()
        self.stopping.waiting[-1].callback({"outcome": "already-idle"})
        self.receipts.waiting[-1].callback({"state": "pending"})
        response = PermissionResponse(run_id="run-1", permission_occurrence_id="o", allow=True)
        decided = self.executors.runtime(self.executor_id).respond(response)
        before = len(self.sink.events)
        for n in range(50):
            self.runtime.last.say(f"row {n}")
        self.settle(0.5)
        for client in (stop, receipt, context):
            self.assertEqual(client.answer.status, 200)
        self.assertEqual(self.successResultOf(decided), "confirmed")
        self.assertEqual(len(self.sink.events), before + 50)

    def test_controls_pass_a_bulk_that_is_stuck(self) -> None:
        """Seven MiB of an answer, a file and a mutation lie in bulk's queue."""
        read = self.read()
        self.hold_bulk()
        self.chats.waiting[0].callback("x" * 7 * MIB)
        file, mutation = self.read_file(), self.start()
        for _ in range(3):
            self.show_controls()
        self.assertTrue(read.is_waiting and mutation.is_waiting)
        self.assertEqual(self.starting.calls, [])
        self.free_bulk()
        self.assertEqual(len(read.answer.json), 7 * MIB)
        self.assertEqual(len(self.starting.calls), 1)
        self.failureResultOf(file, CallError)  # this worker lends no files: it was asked, though

    def test_a_lost_bulk_ends_what_it_carried_and_nothing_else(self) -> None:
        """Its sent calls end, uncertain where they may have changed something; controls go on; what
        comes next waits for the next bulk lane, and nothing is sent again.
        """
        read, mutation = self.read(), self.start()
        generation = self.worker.current()
        self.lose_bulk()
        self.outcome(read, 503, "CLI_CONTROLLER_UNAVAILABLE")
        self.outcome(mutation, 503, "CLI_OUTCOME_UNKNOWN")
        self.show_controls()
        waiting = self.start(clientRequestId="next")
        self.show_controls()
        self.assertIs(self.worker.current(), generation)
        self.dialler.is_blocked = False
        self.settle(15)
        self.assertTrue(waiting.is_waiting)
        ids = [call.body.client_request_id for call in self.starting.calls]
        self.assertEqual(ids, ["r", "next"])
        self.starting.waiting[0].callback({"late": True})
        self.starting.waiting[1].callback({"mine": True})
        self.settle(0.1)
        self.assertEqual(waiting.answer.json, {"mine": True})

    def test_a_stuck_answer_is_not_published_on_the_next_lane(self) -> None:
        """Half of it was sent when its lane was lost."""
        read, mutation = self.read(), self.start()
        self.hold_bulk()
        self.chats.waiting[0].callback("x" * 2 * MIB)
        self.starting.waiting[0].callback("x" * 2 * MIB)
        for wire in self.bulk_wires():
            wire.close()
        self.settle(6)
        self.assertEqual(self.worker.bulk_phase, "ready")
        self.outcome(read, 503, "CLI_CONTROLLER_UNAVAILABLE")
        self.outcome(mutation, 503, "CLI_OUTCOME_UNKNOWN")
        self.assertEqual(len(self.starting.calls), 1)

    def test_a_lost_primary_fences_both(self) -> None:
        """Bulk lives no longer than its primary, and neither does what it carries."""
        read, mutation, stop = self.read(), self.start(), self.stop()
        primary = self.network.wires[0]
        primary.close()
        self.settle(0.1)
        self.outcome(read, 503, "CLI_CONTROLLER_UNAVAILABLE")
        for client in (mutation, stop):
            self.outcome(client, 503, "CLI_OUTCOME_UNKNOWN")
        self.settle(10)
        self.assertEqual(self.chats.cancelled, 1)
        self.starting.waiting[0].callback({})
        self.show_controls()

    def test_the_grant_holds_for_both_lanes(self) -> None:
        """Taken while bulk is stuck, it ends the waits of both at once; what bulk had published
        before lies in its queue and arrives.
        """
        published, read, stop = self.read(), self.read(), self.stop()
        self.hold_bulk()
        self.chats.waiting[0].callback("x" * MIB)
        self.updated(self.executor_id, allowControllerCli=False)
        self.outcome(stop, 503, "CLI_OUTCOME_UNKNOWN")
        self.outcome(self.discover(), 403, "CLI_ACCESS_DENIED")
        self.free_bulk()
        self.outcome(read, 403, "CLI_ACCESS_DENIED")
        self.assertEqual(published.answer.status, 200)
