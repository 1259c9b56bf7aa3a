"""The bridge's envelope, policy and outcomes (control.md F.3-F.6)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract import bridge, routes
from garcon.contract.limits import KIB, MIB
from garcon.contract.routes import BRIDGED, Route
from garcon.contract.rpc import BridgedHttp, BridgedReply, BridgedRequest, Lane
from garcon.errors import CallError, GarconError

ID = "1a111111-2222-4333-8444-555555555555"
Query = list[tuple[str, str]]


def http(
    route: Route,
    query: Query | None = None,
    body: dict[str, Any] | None = None,
    executor_id: str | UnsetType = UNSET,
) -> BridgedHttp:
    return BridgedHttp(route.key, query or [], body, executor_id)


class EnvelopeTests(SynchronousTestCase):
    """F.3, field by field."""

    def refused(self, request: BridgedHttp, code: str = "VALIDATION_FAILED") -> None:
        error = self.assertRaises(GarconError, bridge.check_http, request)
        self.assertEqual(error.code, code)

    def accepted(self, request: BridgedHttp) -> None:
        self.assertEqual(bridge.check_http(request).key, request.operation)

    def test_only_registered_operations(self) -> None:
        """Unknown keys, other methods, prefixes and the gateway's own routes are denied."""
        for key in (
            "GET /runtime",
            "GET /cli/context",
            "DELETE /chats",
            "GET /chats/",
            "GET /api/v1/chats",
            "PATCH /chats/tags",
            "GET /executors/../chats",
            "",
        ):
            self.refused(BridgedHttp(key, [], None), "CLI_ACCESS_DENIED")

    def test_every_registered_operation_has_a_valid_envelope(self) -> None:
        """The checks leave each operation of the registry usable."""
        for key, route in BRIDGED.items():
            query: Query = []
            body: dict[str, Any] | None = None if route.method in ("GET", "DELETE") else {}
            if key == "GET /models":
                query = [("executorId", "local")]
            elif key.endswith("/api-provider-assignments"):
                body = None
                if route.method != "GET":
                    query = [("executorId", ID), ("apiProviderId", "p1")]
            elif route is routes.CHANGE_SETTINGS:
                body = {"features": {"transcriptSearch": {"enabled": True}}}
            elif body is not None:
                body = {"executorId": ID}
            self.accepted(
                BridgedHttp(key, query, body, ID if ":executorId" in route.path else UNSET)
            )

    def test_expected_instance_1_to_128(self) -> None:
        """Empty and 129 characters are refused."""
        inner = http(routes.LIST_CHATS)
        for length, fits in ((0, False), (1, True), (128, True), (129, False)):
            request = BridgedRequest("i" * length, inner)
            if fits:
                self.assertIs(bridge.check_request(request), routes.LIST_CHATS)
            else:
                self.assertRaises(GarconError, bridge.check_request, request)

    def test_exact_keys(self) -> None:
        """No member beyond the contract's decodes."""
        whole = {"expectedServerInstanceId": "i", "http": {"operation": "GET /chats"}}
        whole["http"] |= {"query": [], "body": None}  # type: ignore[operator]
        msgspec.convert(whole, BridgedRequest)
        self.assertRaises(
            msgspec.ValidationError, msgspec.convert, whole | {"origin": "x"}, BridgedRequest
        )
        inner = whole["http"] | {"headers": {}}  # type: ignore[operator]
        self.assertRaises(
            msgspec.ValidationError, msgspec.convert, whole | {"http": inner}, BridgedRequest
        )

    def test_executor_segment(self) -> None:
        """Present exactly when the path has it; Local is not managed, rubbish is refused."""
        self.accepted(http(routes.REVEAL_CONNECTION, executor_id=ID))
        self.refused(http(routes.REVEAL_CONNECTION))
        self.refused(http(routes.REVEAL_CONNECTION, executor_id=ID.upper()))
        self.refused(http(routes.REVEAL_CONNECTION, executor_id="../chats"))
        self.refused(http(routes.REVEAL_CONNECTION, executor_id="local"), "EXECUTOR_NOT_FOUND")
        self.refused(http(routes.LIST_CHATS, executor_id=ID))

    def test_query_pairs_128_and_129(self) -> None:
        """Repeats count, and are kept."""
        self.accepted(http(routes.MESSAGES, [("a", "b")] * 128))
        self.refused(http(routes.MESSAGES, [("a", "b")] * 129))

    def test_query_parts_8192_and_8193(self) -> None:
        """Names and values alike, in characters."""
        self.accepted(http(routes.MESSAGES, [("é" * 8192, "é" * 8192)]))
        self.refused(http(routes.MESSAGES, [("a" * 8193, "")]))
        self.refused(http(routes.MESSAGES, [("", "a" * 8193)]))

    def test_get_takes_no_body(self) -> None:
        """Not even an empty object."""
        self.refused(http(routes.LIST_CHATS, body={}))

    def test_models_names_exactly_one_executor(self) -> None:
        """None, two, or a malformed one are refused."""
        self.accepted(http(routes.MODELS, [("agent", "x"), ("executorId", "local")]))
        self.refused(http(routes.MODELS))
        self.refused(http(routes.MODELS, [("executorId", "local")] * 2))
        self.refused(http(routes.MODELS, [("executorId", "")]))
        self.refused(http(routes.MODELS, [("executorId", "x")]))

    def test_bodies_that_name_their_executor(self) -> None:
        """Start, native look-up and the tickets' project default never fall back to Local."""
        for route in (
            routes.START_CHAT,
            routes.LOOKUP_NATIVE_SESSION,
            routes.TICKET_PROJECT_DEFAULT,
        ):
            self.accepted(http(route, body={"executorId": ID}))
            self.accepted(http(route, body={"executorId": "local"}))
            bodies: list[dict[str, Any] | None] = [None, {}]
            bodies += [{"executorId": value} for value in (None, "x", 1)]
            for body in bodies:
                self.refused(http(route, body=body))

    def test_executor_operations_take_no_query(self) -> None:
        """And their DELETE no body."""
        self.refused(http(routes.LIST_EXECUTORS, [("a", "b")]))
        self.refused(http(routes.UPDATE_EXECUTOR, [("a", "b")], {"label": "x"}, ID))
        self.refused(http(routes.DELETE_EXECUTOR, body={}, executor_id=ID))
        self.accepted(http(routes.DELETE_EXECUTOR, executor_id=ID))

    def test_assignments(self) -> None:
        """GET without query, PUT and DELETE with exactly the two names, none with a body."""
        pair: Query = [("executorId", ID), ("apiProviderId", "p")]
        self.accepted(http(routes.LIST_ASSIGNMENTS))
        self.refused(http(routes.LIST_ASSIGNMENTS, pair))
        for route in (routes.ASSIGN_PROVIDER, routes.UNASSIGN_PROVIDER):
            self.accepted(http(route, pair))
            self.accepted(http(route, pair[::-1]))
            self.refused(http(route, pair, {}))
            self.refused(http(route, pair[:1]))
            self.refused(http(route, [*pair, ("x", "y")]))
            self.refused(http(route, [*pair, pair[1]]))
            self.refused(http(route, [("executorId", "x"), pair[1]]))

    def test_settings_take_exactly_the_one_patch(self) -> None:
        """Anything else is denied, wherever it hides."""
        self.accepted(
            http(
                routes.CHANGE_SETTINGS, body={"features": {"transcriptSearch": {"enabled": False}}}
            )
        )
        inner = {"enabled": True}
        bodies: tuple[dict[str, Any] | None, ...] = (
            None,
            {},
            {"ui": {}},
            {"features": {}},
            {"features": {"transcriptSearch": {}}},
            {"features": {"transcriptSearch": {"enabled": 1}}},
            {"features": {"transcriptSearch": {"enabled": None}}},
            {"features": {"transcriptSearch": inner}, "ui": {}},
            {"features": {"transcriptSearch": inner, "agentCommands": {}}},
            {"features": {"transcriptSearch": inner | {"x": 1}}},
        )
        for body in bodies:
            self.refused(http(routes.CHANGE_SETTINGS, body=body), "CLI_ACCESS_DENIED")


class PolicyTests(SynchronousTestCase):
    """F.5: lane, pool, deadline."""

    def test_defaults(self) -> None:
        """Bulk, short, thirty seconds."""
        policy = bridge.policy(routes.START_CHAT, {})
        self.assertEqual((policy.lane, policy.pool, policy.deadline), (Lane.BULK, "short", 30.0))

    def test_primary_has_three_operations(self) -> None:
        """Receipt, stop and decision; everything else is bulk."""
        primary = {r.key for r in BRIDGED.values() if bridge.policy(r, None).lane is Lane.PRIMARY}
        self.assertEqual(
            primary,
            {
                "GET /chats/turn-receipt",
                "POST /chats/stop",
                "POST /chats/permissions/decision",
            },
        )

    def test_no_deadline_is_none(self) -> None:
        """Forks, settings and search maintenance have no timer at all."""
        for route in (
            routes.FORK,
            routes.FORK_RUN,
            routes.SEARCH_REBUILD,
            routes.CHANGE_SETTINGS,
        ):
            policy = bridge.policy(route, {})
            self.assertEqual((policy.pool, policy.deadline), ("long", None))

    def test_run_with_a_handoff_is_long(self) -> None:
        """Only a run, and only with a hand-off in its body."""
        handoff = {"handoff": {"agentId": "x"}}
        policy = bridge.policy(routes.RUN_CHAT, handoff)
        self.assertEqual((policy.pool, policy.deadline), ("long", 600.0))
        for route, body in (
            (routes.RUN_CHAT, {}),
            (routes.RUN_CHAT, None),
            (routes.RUN_CHAT, {"handoff": None}),
            (routes.START_CHAT, handoff),
        ):
            self.assertEqual(bridge.policy(route, body).pool, "short")


class SizeTests(SynchronousTestCase):
    """F.4, with the 1 KiB allowance for the envelope."""

    def test_requests_at_and_over_the_limit(self) -> None:
        """64 KiB on primary, 1 MiB on bulk."""
        for lane, limit in ((Lane.PRIMARY, 64 * KIB - KIB), (Lane.BULK, MIB - KIB)):
            bridge.check_request_size(lane, limit)
            error = self.assertRaises(CallError, bridge.check_request_size, lane, limit + 1)
            self.assertEqual(
                (error.code, error.status, error.outcome),
                ("CLI_REQUEST_TOO_LARGE", 413, "not-dispatched"),
            )

    def test_reply_limits(self) -> None:
        """64 KiB on primary, 8 MiB on bulk."""
        self.assertEqual(bridge.reply_limit(Lane.PRIMARY), 63 * KIB)
        self.assertEqual(bridge.reply_limit(Lane.BULK), 8 * MIB - KIB)

    def test_small_replies_skip_the_pressure_test(self) -> None:
        """Up to 64 KiB whatever is queued."""
        self.assertFalse(bridge.reply_presses(63 * KIB, 24 * MIB))
        self.assertTrue(bridge.reply_presses(63 * KIB + 1, 24 * MIB))

    def test_queue_pressure_at_and_over_8_mib(self) -> None:
        """Queued bytes plus the reply."""
        size = 4 * MIB - KIB
        self.assertFalse(bridge.reply_presses(size, 4 * MIB))
        self.assertTrue(bridge.reply_presses(size, 4 * MIB + 1))


class ReplyTests(SynchronousTestCase):
    """What a result may be."""

    def test_statuses(self) -> None:
        """200-299 and 400-599."""
        for status, valid in (
            (199, False),
            (200, True),
            (299, True),
            (300, False),
            (399, False),
            (400, True),
            (599, True),
            (600, False),
        ):
            self.assertIs(bridge.is_reply(BridgedReply(status, Raw(b"{}"))), valid, status)

    def test_retry_after_has_1_to_5_digits(self) -> None:
        """Nothing else crosses as retry metadata."""
        for text, valid in (
            ("", False),
            ("0", True),
            ("99999", True),
            ("100000", False),
            ("-1", False),
            ("1.5", False),
            ("1\n", False),
            ("\u0661", False),
        ):
            self.assertIs(bridge.is_reply(BridgedReply(503, Raw(b"{}"), text)), valid, text)


class OutcomeTests(SynchronousTestCase):
    """F.6."""

    def test_status_and_retry_meaning(self) -> None:
        """As in the table."""
        for error, code, status, retryable in (
            (bridge.unavailable(), "CLI_CONTROLLER_UNAVAILABLE", 503, True),
            (bridge.busy(), "CLI_SERVICE_BUSY", 503, True),
            (bridge.controller_changed(), "CLI_CONTROLLER_CHANGED", 409, False),
            (bridge.access_denied("no"), "CLI_ACCESS_DENIED", 403, False),
            (bridge.request_too_large(Lane.BULK), "CLI_REQUEST_TOO_LARGE", 413, False),
            (bridge.result_too_large(Lane.BULK), "CLI_RESULT_TOO_LARGE", 413, False),
            (bridge.outcome_unknown(), "CLI_OUTCOME_UNKNOWN", 503, False),
        ):
            self.assertEqual((error.code, error.status, error.retryable), (code, status, retryable))
            self.assertEqual(error.retry_after, 1 if code == "CLI_SERVICE_BUSY" else None)
            self.assertEqual(error.domain, "executor")

    def test_reads_and_mutations_lose_their_replies_differently(self) -> None:
        """A mutation is never reported as one that did not run."""
        read, mutation = routes.LIST_CHATS, routes.START_CHAT
        for lose, code in (
            (bridge.lost_reply, "CLI_CONTROLLER_UNAVAILABLE"),
            (bridge.oversize_reply, "CLI_RESULT_TOO_LARGE"),
            (bridge.crowded_reply, "CLI_SERVICE_BUSY"),
        ):
            self.assertEqual(lose(read).code, code)
            self.assertEqual(lose(mutation).code, "CLI_OUTCOME_UNKNOWN")

    def test_failed_calls(self) -> None:
        """The bridge's own codes pass; of a link failure only its outcome counts."""
        read, mutation = routes.LIST_CHATS, routes.START_CHAT

        def link(outcome: str, code: str = "EXECUTOR_UNAVAILABLE") -> CallError:
            return CallError(code, "x", outcome=outcome, domain="executor", status=503)

        for error, route, code in (
            (bridge.controller_changed(), mutation, "CLI_CONTROLLER_CHANGED"),
            (bridge.busy(), mutation, "CLI_SERVICE_BUSY"),
            (link("unknown"), mutation, "CLI_OUTCOME_UNKNOWN"),
            (link("unknown"), read, "CLI_CONTROLLER_UNAVAILABLE"),
            (link("not-dispatched"), mutation, "CLI_CONTROLLER_UNAVAILABLE"),
            (link("not-dispatched", "EXECUTOR_BUSY"), mutation, "CLI_SERVICE_BUSY"),
            (link("rejected", "VALIDATION_FAILED"), mutation, "VALIDATION_FAILED"),
            (link("unknown", "REPLY_LOST"), mutation, "CLI_OUTCOME_UNKNOWN"),
            (link("unknown", "REPLY_LOST"), read, "CLI_SERVICE_BUSY"),
            (bridge.outcome_unknown(), mutation, "CLI_OUTCOME_UNKNOWN"),
            (bridge.interrupted_read(), read, "CLI_CONTROLLER_UNAVAILABLE"),
        ):
            self.assertEqual(bridge.of_call(route, error).code, code)

    def test_no_code_makes_a_mutation_that_may_have_run_one_that_did_not(self) -> None:
        """The outcome decides, whatever word came with it."""
        for code in (*bridge.STATUSES, "EXECUTOR_BUSY", "VALIDATION_FAILED", "PROVIDER_FAILURE"):
            error = CallError(code, "x", outcome="unknown", domain="executor")
            told = bridge.of_call(routes.START_CHAT, error)
            self.assertEqual(
                (told.code, told.status, told.retryable), ("CLI_OUTCOME_UNKNOWN", 503, False)
            )

    def test_retry_after_survives_the_link(self) -> None:
        """The error object has no room for it; the code brings it back."""
        crossed = CallError("CLI_SERVICE_BUSY", "x", outcome="not-dispatched", domain="executor")
        self.assertEqual(bridge.of_call(routes.LIST_CHATS, crossed).retry_after, 1)
