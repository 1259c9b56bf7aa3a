"""The dispatcher's checks before dispatch, its waits, and its guard (control.md F.3-F.6)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import structs
from twisted.internet.defer import CancelledError, Deferred

from garcon.contract import operations, routes, rpc
from garcon.contract.chats import TurnOutput, TurnReceipt
from garcon.contract.limits import KIB, MIB
from garcon.contract.rpc import Lane
from garcon.controller.bridge.dispatcher import Dispatcher
from garcon.controller.handlers import Call, Reply
from garcon.errors import GarconError
from garcon.test.controller.bridge.cast import DispatcherCase
from garcon.test.controller.executors.cast import INSTANCE
from garcon.testing.held_link import DESCRIPTION, HeldSession

START: dict[str, Any] = {
    "clientRequestId": "r",
    "clientMessageId": "m",
    "chatId": "1700000000000001",
    "executorId": "local",
    "agentId": "scripted",
    "projectPath": "/p",
    "model": "scripted",
    "agentSettings": {"ownerId": "scripted", "schemaVersion": 1, "values": {}},
}


class AdmissionTests(DispatcherCase):
    """What is refused before anything happens."""

    def setUp(self) -> None:
        super().setUp()
        self.chats = self.hold(operations.LIST_CHATS)

    def refused(self, d: Any, code: str) -> None:  # type: ignore[override]
        self.denied(d, code)
        self.assertEqual(self.chats.calls, [])
        self.assertFalse(any(self.dispatcher.pools.used.values()))

    def test_principal_is_the_link_s(self) -> None:
        """The executor's, whatever the request says of itself."""
        query = [("executorId", "local"), ("principal", "local"), ("username", "root")]
        self.request(routes.LIST_CHATS, query=query)
        principal = self.chats.calls[0].principal
        self.assertEqual(principal.kind, "executor")
        self.assertEqual(principal.key, f"executor:{self.executor_id}")
        self.assertEqual(principal.executor_id, self.executor_id)
        self.assertIsNone(self.chats.calls[0].base_url)

    def test_before_open_and_after_close(self) -> None:
        """The application is not there."""
        fresh = Dispatcher(self.clock, self.handlers, self.executors, INSTANCE, None)
        self.dispatcher, opened = fresh, self.dispatcher
        self.refused(self.request(routes.LIST_CHATS), "CLI_CONTROLLER_UNAVAILABLE")
        self.denied(fresh.describe(None, self.context(Lane.PRIMARY)), "CLI_CONTROLLER_UNAVAILABLE")
        self.dispatcher = opened
        self.successResultOf(opened.close())
        self.refused(self.request(routes.LIST_CHATS), "CLI_CONTROLLER_UNAVAILABLE")

    def test_no_grant(self) -> None:
        """Denied, as is an executor that is not known."""
        self.updated(self.executor_id, allowControllerCli=False)
        self.refused(self.request(routes.LIST_CHATS), "CLI_ACCESS_DENIED")
        stranger = self.context(executor_id="ffffffff-ffff-4fff-8fff-ffffffffffff")
        self.refused(self.request(routes.LIST_CHATS, context=stranger), "CLI_ACCESS_DENIED")

    def test_stale_session(self) -> None:
        """A generation that was replaced has no authority."""
        self.links[self.executor_id].lose()
        self.links[self.executor_id].ready("g2")
        self.refused(self.request(routes.LIST_CHATS), "CLI_CONTROLLER_UNAVAILABLE")
        self.request(routes.LIST_CHATS, context=self.context(generation="g2"))
        self.assertEqual(len(self.chats.calls), 1)

    def test_changed_controller(self) -> None:
        """Reads and mutations alike; the expected instance is never replaced."""
        d = self.request(routes.LIST_CHATS, instance="another")
        self.refused(d, "CLI_CONTROLLER_CHANGED")
        d = self.request(routes.START_CHAT, body=START, instance="another")
        self.refused(d, "CLI_CONTROLLER_CHANGED")

    def test_unregistered_operation(self) -> None:
        """Denied."""
        http = rpc.BridgedHttp("DELETE /chats", [], None)
        d = self.dispatcher.request(rpc.BridgedRequest(INSTANCE, http), self.context())
        self.refused(d, "CLI_ACCESS_DENIED")

    def test_envelope_is_checked_here_too(self) -> None:
        """A worker's word for it does not count."""
        d = self.request(routes.CHANGE_SETTINGS, body={"ui": {}})
        self.refused(d, "CLI_ACCESS_DENIED")
        d = self.request(routes.START_CHAT, body=START | {"executorId": None})
        self.refused(d, "VALIDATION_FAILED")

    def test_wrong_lane(self) -> None:
        """Bulk operations on primary and the reverse are denied."""
        d = self.request(routes.LIST_CHATS, context=self.context(Lane.PRIMARY))
        self.refused(d, "CLI_ACCESS_DENIED")
        d = self.request(routes.STOP_CHAT, body={}, context=self.context(Lane.BULK))
        self.refused(d, "CLI_ACCESS_DENIED")

    def test_management_grant(self) -> None:
        """Needed for management, and effective from the next request on."""
        d = self.request(routes.REVEAL_CONNECTION, executor_id=self.executor_id)
        self.refused(d, "CLI_ACCESS_DENIED")
        self.updated(self.executor_id, allowExecutorManagement=True)
        d = self.request(routes.REVEAL_CONNECTION, executor_id=self.executor_id)
        self.assertEqual(self.published(d).status, 200)

    def test_request_size_at_and_over_the_limit(self) -> None:
        """1 MiB with the envelope on bulk, 64 KiB on primary."""
        self.hold(operations.START_CHAT)
        self.hold(operations.STOP_CHAT)
        for route, body, limit in (
            (routes.START_CHAT, START, MIB - KIB),
            (routes.STOP_CHAT, {"chatId": "c", "clientRequestId": "r"}, 64 * KIB - KIB),
        ):
            http = rpc.BridgedHttp(route.key, [], body | {"pad": ""})
            room = limit - len(msgspec.json.encode(rpc.BridgedRequest(INSTANCE, http)))
            self.assertNoResult(self.request(route, body=body | {"pad": "a" * room}))
            d = self.request(route, body=body | {"pad": "a" * (room + 1)})
            self.denied(d, "CLI_REQUEST_TOO_LARGE")

    def test_operation_without_a_handler(self) -> None:
        """404 ``OPERATION_NOT_AVAILABLE`` as an answer of the application, not of the bridge."""
        for route in (routes.TICKETS, routes.MODELS):
            query = [("executorId", "local")] if route is routes.MODELS else []
            reply = self.published(self.request(route, query=query))
            body = msgspec.json.decode(reply.body)
            self.assertEqual(
                (reply.status, body["errorCode"], body["retryable"]),
                (404, "OPERATION_NOT_AVAILABLE", False),
            )


class AnswerTests(DispatcherCase):
    """Answers of the application cross unchanged."""

    def test_success(self) -> None:
        """Status and JSON text."""
        chats = self.hold(operations.LIST_CHATS)
        d = self.request(routes.LIST_CHATS)
        chats.waiting[0].callback(Reply({"sessions": []}, status=203))
        reply = self.published(d)
        self.assertEqual((reply.status, bytes(reply.body)), (203, b'{"sessions":[]}'))
        self.assertEqual(reply.retry_after, msgspec.UNSET)

    def test_errors_with_retry_metadata(self) -> None:
        """A handler's refusal is an answer like any other."""
        start = self.hold(operations.START_CHAT)
        d = self.request(routes.START_CHAT, body=START)
        refusal = GarconError("X", "no", status=503, retryable=True, retry_after=7)
        start.waiting[0].errback(refusal)
        reply = self.published(d)
        self.assertEqual((reply.status, reply.retry_after), (503, "7"))
        self.assertEqual(msgspec.json.decode(reply.body)["errorCode"], "X")

    def test_query_order_and_repeats_reach_the_parser(self) -> None:
        """Which refuses a repeated name, as direct HTTP does."""
        self.hold(operations.MESSAGES)
        d = self.request(routes.MESSAGES, query=[("chatId", "a"), ("chatId", "b")])
        self.assertEqual(self.body(d)["errorCode"], "VALIDATION_FAILED")

    def test_empty_answer_is_null(self) -> None:
        """The body is always JSON."""
        chats = self.hold(operations.LIST_CHATS)
        d = self.request(routes.LIST_CHATS)
        chats.waiting[0].callback(None)
        self.assertEqual(bytes(self.published(d).body), b"null")

    def test_path_segment(self) -> None:
        """The executor that is managed, not the one that asks."""
        self.updated(self.executor_id, allowExecutorManagement=True)
        other = self.create("two")
        d = self.request(routes.UPDATE_EXECUTOR, body={"label": "three"}, executor_id=other)
        self.assertEqual(self.published(d).status, 200)
        self.assertEqual(self.snapshot(other)["label"], "three")


class WaitTests(DispatcherCase):
    """What ends a wait, and what it does to the handler."""

    def setUp(self) -> None:
        super().setUp()
        self.chats = self.hold(operations.LIST_CHATS)
        self.start = self.hold(operations.START_CHAT)

    def sent(self, route: routes.Route) -> Any:
        return self.request(route, body=START if route is routes.START_CHAT else None)

    def test_deadline_at_30_seconds(self) -> None:
        """A read is interrupted, a mutation's outcome unknown."""
        read, mutation = self.sent(routes.LIST_CHATS), self.sent(routes.START_CHAT)
        self.clock.advance(29.9)
        self.assertNoResult(read)
        self.clock.advance(0.1)
        self.denied(read, "CLI_CONTROLLER_UNAVAILABLE")
        self.denied(mutation, "CLI_OUTCOME_UNKNOWN")

    def test_no_deadline(self) -> None:
        """No timer at all."""
        self.hold(operations.CHANGE_SETTINGS)
        body = {"features": {"transcriptSearch": {"enabled": True}}}
        d = self.request(routes.CHANGE_SETTINGS, body=body)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertNoResult(d)

    def test_caller_gone_cancels_a_read(self) -> None:
        """Best effort."""
        d = self.sent(routes.LIST_CHATS)
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.assertEqual(self.chats.cancelled, 1)

    def test_caller_gone_leaves_a_mutation_alone(self) -> None:
        """Cancellation is neither rollback nor stop; its slot stays taken until it settles."""
        d = self.sent(routes.START_CHAT)
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.assertEqual(self.start.cancelled, 0)
        self.assertEqual(self.dispatcher.pools.used["", "short"], 1)
        self.start.waiting[0].callback({})
        self.assertEqual(self.dispatcher.pools.used["", "short"], 0)

    def test_cancelled_waits_cannot_admit_more_work(self) -> None:
        """Not even over several sessions: four unsettled handlers are four slots."""
        for _ in range(4):
            d = self.sent(routes.START_CHAT)
            d.cancel()
            self.failureResultOf(d, CancelledError)
        self.denied(self.sent(routes.START_CHAT), "CLI_SERVICE_BUSY")
        self.links[self.executor_id].lose()
        self.links[self.executor_id].ready("g2")
        context = self.context(generation="g2")
        d = self.request(routes.START_CHAT, body=START, context=context)
        error = self.denied(d, "CLI_SERVICE_BUSY")
        self.assertEqual(error.retry_after, 1)
        self.start.waiting[0].callback({})
        self.assertNoResult(self.request(routes.START_CHAT, body=START, context=context))

    def test_long_requests_leave_polling_its_slots(self) -> None:
        """A run with a hand-off is long; a third one is refused, a receipt is not."""
        self.hold(operations.RUN_CHAT)
        receipt = self.hold(operations.TURN_RECEIPT)
        body = {"chatId": "c", "clientRequestId": "r", "clientMessageId": "m"}
        body |= {"transcriptViewId": "v", "handoff": {}}  # type: ignore[dict-item]
        for _ in range(2):
            self.assertNoResult(self.request(routes.RUN_CHAT, body=body))
        self.denied(self.request(routes.RUN_CHAT, body=body), "CLI_SERVICE_BUSY")
        self.request(routes.TURN_RECEIPT)
        self.assertEqual(len(receipt.calls), 1)

    def test_revoked_during_a_wait(self) -> None:
        """The wait ends at once: denied for a read, unknown for a mutation, which goes on."""
        read, mutation = self.sent(routes.LIST_CHATS), self.sent(routes.START_CHAT)
        self.updated(self.executor_id, allowControllerCli=False)
        self.denied(read, "CLI_ACCESS_DENIED")
        self.denied(mutation, "CLI_OUTCOME_UNKNOWN")
        self.assertEqual((self.chats.cancelled, self.start.cancelled), (1, 0))
        self.start.waiting[0].callback({})

    def test_changing_either_grant_ends_the_waits(self) -> None:
        """The management grant too."""
        read = self.sent(routes.LIST_CHATS)
        self.updated(self.executor_id, allowExecutorManagement=True)
        self.denied(read, "CLI_ACCESS_DENIED")

    def test_session_lost_during_a_wait(self) -> None:
        """The wait ends; nothing of it crosses to the next session."""
        read, mutation = self.sent(routes.LIST_CHATS), self.sent(routes.START_CHAT)
        self.links[self.executor_id].lose()
        self.denied(read, "CLI_CONTROLLER_UNAVAILABLE")
        self.denied(mutation, "CLI_OUTCOME_UNKNOWN")

    def test_controller_stops_during_a_wait(self) -> None:
        """Waits end when authority does; then handlers are ended and waited for."""
        read, mutation = self.sent(routes.LIST_CHATS), self.sent(routes.START_CHAT)
        self.executors.quiesce()
        self.denied(read, "CLI_CONTROLLER_UNAVAILABLE")
        self.denied(mutation, "CLI_OUTCOME_UNKNOWN")
        self.successResultOf(self.dispatcher.close())
        self.assertEqual(self.start.cancelled, 1)
        self.assertFalse(any(self.dispatcher.pools.used.values()))

    def test_close_waits_two_seconds_at_most(self) -> None:
        """For a handler that does not end when it is told to."""
        cleaning: Deferred[Any] = Deferred()

        def stubborn(_: Call[Any, Any]) -> Deferred[Any]:
            d: Deferred[Any] = Deferred()
            return d.addErrback(lambda _: cleaning)

        self.handlers.register(operations.RUN_CHAT, stubborn)
        body = {"chatId": "c", "clientRequestId": "r", "clientMessageId": "m"}
        body["transcriptViewId"] = "v"
        run = self.request(routes.RUN_CHAT, body=body)
        closed = self.dispatcher.close()
        self.assertNoResult(closed)
        self.clock.advance(2)
        self.successResultOf(closed)
        self.executors.quiesce()
        self.denied(run, "CLI_OUTCOME_UNKNOWN")


class PublicationTests(DispatcherCase):
    """The guard, right before the reply is queued."""

    def setUp(self) -> None:
        super().setUp()
        self.chats = self.hold(operations.LIST_CHATS)
        self.start = self.hold(operations.START_CHAT)

    def settled(self, mutation: bool, context: Any = None, size: int = 0) -> Any:
        """Return a request whose handler has answered with a body of `size` bytes or more."""
        if mutation:
            d = self.request(routes.START_CHAT, body=START, context=context)
            self.start.waiting[-1].callback("x" * size)
        else:
            d = self.request(routes.LIST_CHATS, context=context)
            self.chats.waiting[-1].callback("x" * size)
        return d

    def test_revoked_between_handler_and_queue(self) -> None:
        """The reply is not published."""
        read, mutation = self.settled(False), self.settled(True)
        self.updated(self.executor_id, allowControllerCli=False)
        self.unpublished(read, "CLI_ACCESS_DENIED")
        self.unpublished(mutation, "CLI_OUTCOME_UNKNOWN")

    def test_revoked_and_enabled_again(self) -> None:
        """That does not authorise a reply under the old lease."""
        read, mutation = self.settled(False), self.settled(True)
        self.updated(self.executor_id, allowControllerCli=False)
        self.updated(self.executor_id, allowControllerCli=True)
        self.unpublished(read, "CLI_ACCESS_DENIED")
        self.unpublished(mutation, "CLI_OUTCOME_UNKNOWN")
        self.assertEqual(self.published(self.settled(False)).status, 200)

    def test_whoever_fails_to_hear_of_it_keeps_no_lease_alive(self) -> None:
        """The lease has ended before anybody is told of the change, or of the end."""
        read, mutation = self.settled(False), self.settled(True)

        def broken() -> None:
            raise AssertionError("a listener fails")

        self.executors.noticed = broken
        for granted in (False, True):
            self.assertEqual(self.update(self.executor_id, allowControllerCli=granted)[0], 500)
        self.unpublished(read, "CLI_ACCESS_DENIED")
        self.unpublished(mutation, "CLI_OUTCOME_UNKNOWN")
        held = self.hold(operations.READ_SETTINGS)
        waiting = self.request(routes.READ_SETTINGS)
        self.assertEqual(len(held.waiting), 1)
        self.assertEqual(self.ask(operations.DELETE_EXECUTOR, None, self.executor_id)[0], 500)
        self.denied(waiting, "CLI_ACCESS_DENIED")
        self.assertEqual(len(self.flushLoggedErrors(AssertionError)), 3)

    def test_the_present_record_decides(self) -> None:
        """Not what was captured when the request came: without a word about it the grant, the
        connector's use and the session are looked at anew.
        """
        executor = self.executors._known(self.executor_id)
        record = executor.record
        for changed, code in (
            (structs.replace(record, allow_controller_cli=False), "CLI_ACCESS_DENIED"),
            (structs.replace(record, enabled=False), "CLI_CONTROLLER_UNAVAILABLE"),
        ):
            read, mutation = self.settled(False), self.settled(True)
            described = self.dispatcher.describe(None, self.context(Lane.PRIMARY))
            executor.record = changed
            self.unpublished(read, code)
            self.unpublished(described, code)
            self.unpublished(mutation, "CLI_OUTCOME_UNKNOWN")
            executor.record = record
        read = self.settled(False)
        captured: Any = self.links[self.executor_id].current()
        captured.is_current = False
        self.unpublished(read, "CLI_CONTROLLER_UNAVAILABLE")

    def test_restarted_between_dispatch_and_publication(self) -> None:
        """A surviving reply is not one of the new controller."""
        read, mutation = self.settled(False), self.settled(True)
        self.dispatcher.server_instance_id = "the next one"
        self.unpublished(read, "CLI_CONTROLLER_CHANGED")
        self.unpublished(mutation, "CLI_OUTCOME_UNKNOWN")

    def test_stopping_between_handler_and_queue(self) -> None:
        """Authority ends first."""
        read, mutation = self.settled(False), self.settled(True)
        self.executors.quiesce()
        self.unpublished(read, "CLI_CONTROLLER_UNAVAILABLE")
        self.unpublished(mutation, "CLI_OUTCOME_UNKNOWN")

    def test_deadline_passed_between_handler_and_queue(self) -> None:
        """At thirty seconds, not before."""
        in_time, late = self.settled(False), self.settled(False)
        mutation = self.settled(True)
        self.clock.advance(29.9)
        self.assertEqual(self.published(in_time).status, 200)
        self.clock.advance(0.1)
        self.unpublished(late, "CLI_CONTROLLER_UNAVAILABLE")
        self.unpublished(mutation, "CLI_OUTCOME_UNKNOWN")

    def test_reply_lane_lost(self) -> None:
        """A bulk reply does not move to another bulk."""
        for mutation, code in (
            (False, "CLI_CONTROLLER_UNAVAILABLE"),
            (True, "CLI_OUTCOME_UNKNOWN"),
        ):
            context = self.context()
            d = self.settled(mutation, context)
            assert isinstance(context.session, HeldSession)
            context.session.is_open = False
            self.unpublished(d, code)

    def test_reply_size_at_and_over_8_mib(self) -> None:
        """With the envelope's allowance: never truncated."""
        shell = len(msgspec.json.encode(rpc.BridgedReply(200, msgspec.Raw(b'""'))))
        room = 8 * MIB - KIB - shell
        self.assertEqual(self.published(self.settled(False, size=room)).status, 200)
        self.unpublished(self.settled(False, size=room + 1), "CLI_RESULT_TOO_LARGE")
        # The accepted start answers 202: as long a status, so the same room.
        self.assertEqual(self.published(self.settled(True, size=room)).status, 202)
        self.unpublished(self.settled(True, size=room + 1), "CLI_OUTCOME_UNKNOWN")

    def test_queue_pressure(self) -> None:
        """Small replies always go; a larger one must fit into 8 MiB with what is queued."""
        for mutation, code in ((False, "CLI_SERVICE_BUSY"), (True, "CLI_OUTCOME_UNKNOWN")):
            context = self.context()
            assert isinstance(context.session, HeldSession)
            context.session.queued_bytes = 8 * MIB - 100 * KIB
            small = self.settled(mutation, context, 50 * KIB)
            self.published(small)
            fits = self.settled(mutation, context, 90 * KIB)
            self.published(fits)
            self.unpublished(self.settled(mutation, context, 110 * KIB), code)
            context.session.queued_bytes = 20 * MIB
            self.published(self.settled(mutation, context, 50 * KIB))
            self.unpublished(self.settled(mutation, context, 64 * KIB), code)

    def test_primary_mutation_reply_over_64_kib(self) -> None:
        """Its outcome is unknown to the caller."""
        stop = self.hold(operations.STOP_CHAT)
        d = self.request(routes.STOP_CHAT, body={"chatId": "c", "clientRequestId": "r"})
        stop.waiting[0].callback("x" * 64 * KIB)
        self.unpublished(d, "CLI_OUTCOME_UNKNOWN")

    def test_receipts_are_cut(self) -> None:
        """To what primary carries, with the outcome intact."""
        receipts = self.hold(operations.TURN_RECEIPT)
        d = self.request(routes.TURN_RECEIPT, query=[("chatId", "c"), ("turnId", "t")])
        output = TurnOutput(
            availability="available", completeness="complete", text="é" * 100_000 + "end"
        )
        receipts.waiting[0].callback(
            TurnReceipt(
                chat_id="c",
                turn_id="t",
                client_request_id="r",
                accepted_at="t",
                updated_at="t",
                state="completed",
                output=output,
            )
        )
        reply = self.published(d)
        self.assertLessEqual(len(msgspec.json.encode(reply)), 63 * KIB)
        body = msgspec.json.decode(reply.body)
        self.assertEqual(
            (body["state"], body["output"]["completeness"]), ("completed", "best-effort")
        )
        self.assertTrue(body["output"]["text"].endswith("end"))

    def test_invalid_answers_are_not_published(self) -> None:
        """A redirect or a strange retry time is no answer the bridge may carry."""
        d = self.request(routes.LIST_CHATS)
        self.chats.waiting[0].callback(Reply({}, status=302))
        self.denied(d, "CLI_CONTROLLER_UNAVAILABLE")
        d = self.request(routes.START_CHAT, body=START)
        self.start.waiting[0].callback(Reply({}, headers={"Retry-After": "Wed, 21 Oct"}))
        self.denied(d, "CLI_OUTCOME_UNKNOWN")


class DescribeTests(DispatcherCase):
    """``controllerCli.describe``: live, and fenced like everything else."""

    def describe(self) -> Any:
        return self.dispatcher.describe(None, self.context(Lane.PRIMARY))

    def test_context(self) -> None:
        """This controller, the authenticated executor, the workspace's name."""
        guarded = self.successResultOf(self.describe())
        self.assertEqual(
            msgspec.to_builtins(guarded.guard(100)),
            {
                "serverInstanceId": INSTANCE,
                "defaultExecutorId": self.executor_id,
                "workspaceName": "workspace",
            },
        )

    def test_denied_and_unavailable(self) -> None:
        """Without the grant, and without a ready session."""
        self.updated(self.executor_id, allowControllerCli=False)
        self.denied(self.describe(), "CLI_ACCESS_DENIED")
        self.links[self.executor_id].lose()
        self.denied(self.describe(), "CLI_CONTROLLER_UNAVAILABLE")

    def test_not_ready_yet(self) -> None:
        """A session whose worker has not said what it is has no authority, for discovery either."""
        link = self.links[self.executor_id]
        link.lose()
        installed = link.install("g2")
        context = self.context(Lane.PRIMARY, "g2")
        self.denied(self.dispatcher.describe(None, context), "CLI_CONTROLLER_UNAVAILABLE")
        d = self.request(routes.LIST_CHATS, context=self.context(generation="g2"))
        self.denied(d, "CLI_CONTROLLER_UNAVAILABLE")
        installed.waiting(rpc.DESCRIBE).d.callback(DESCRIPTION)
        self.successResultOf(self.dispatcher.describe(None, context))

    def test_revoked_before_it_is_queued(self) -> None:
        """Context is not told under an old lease."""
        d = self.describe()
        self.updated(self.executor_id, allowControllerCli=False)
        self.updated(self.executor_id, allowControllerCli=True)
        self.unpublished(d, "CLI_ACCESS_DENIED")

    def test_takes_no_slot_for_longer_than_itself(self) -> None:
        """But needs one to be free."""
        for _ in range(20):
            self.successResultOf(self.describe())
        slots = [
            self.dispatcher.pools.take(self.executor_id, "short", Lane.PRIMARY) for _ in range(6)
        ]
        self.assertNotIn(None, slots)
        self.denied(self.describe(), "CLI_SERVICE_BUSY")
