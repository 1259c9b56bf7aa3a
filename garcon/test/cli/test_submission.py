"""What is known of an attempt, by how it ended."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli.failures import (
    ApiError,
    BadAnswer,
    RuntimeReplaced,
    TransportFailure,
    bad_arguments,
    failure_of,
)
from garcon.cli.submission import (
    NOT_DISPATCHED,
    REFUSED,
    UNKNOWN,
    UNKNOWN_FINAL,
    accepted_as,
    is_definite,
    judge,
)


def http(status: int, code: str = "", retryable: bool = False) -> ApiError:
    return ApiError(status, code, "no", retryable, None)


class JudgeTests(SynchronousTestCase):
    def test_matrix(self) -> None:
        """Each ending leaves exactly this known (chats.md 6.4, control.md F.6)."""
        table = (
            (TransportFailure("refused", False), NOT_DISPATCHED),
            (TransportFailure("lost", True), UNKNOWN),
            (BadAnswer("not ours"), UNKNOWN),
            (RuntimeReplaced("gone"), REFUSED),
            (http(503, "CLI_CONTROLLER_UNAVAILABLE", True), NOT_DISPATCHED),
            (http(503, "CLI_SERVICE_BUSY", True), NOT_DISPATCHED),
            (http(503, "SERVER_SHUTTING_DOWN", True), NOT_DISPATCHED),
            (http(503, "CLI_OUTCOME_UNKNOWN"), UNKNOWN),
            (http(503, "PERMISSION_DECISION_OUTCOME_UNKNOWN"), UNKNOWN_FINAL),
            (http(403, "CLI_ACCESS_DENIED"), REFUSED),
            (http(413, "CLI_REQUEST_TOO_LARGE"), REFUSED),
            (http(413, "CLI_RESULT_TOO_LARGE"), REFUSED),
            (http(401), REFUSED),
            (http(404, "SESSION_NOT_FOUND"), REFUSED),
            (http(409, "SESSION_BUSY", True), REFUSED),
            (http(404), REFUSED),
            (http(408), UNKNOWN),
            (http(425), UNKNOWN),
            (http(429, "RATE_LIMITED", True), UNKNOWN),
            (http(500, "INTERNAL_ERROR", True), UNKNOWN),
            (http(502), UNKNOWN),
            (http(503, "EXECUTOR_UNAVAILABLE", True), UNKNOWN),
        )
        for error, verdict in table:
            self.assertEqual(verdict, judge(error), error)

    def test_what_is_definite_without_repetition(self) -> None:
        """Only a coded 4xx, what never went out, and three named refusals say it did not happen."""
        for error in (
            http(400, "VALIDATION_FAILED"),
            http(409, "EXECUTOR_IN_USE"),
            http(503, "CLI_CONTROLLER_UNAVAILABLE"),
            http(503, "CLI_SERVICE_BUSY"),
            http(503, "SERVER_SHUTTING_DOWN"),
            TransportFailure("refused", False),
            RuntimeReplaced("gone"),
        ):
            self.assertTrue(is_definite(error), error)
        for error in (
            http(400),
            http(500, "INTERNAL_ERROR"),
            http(503, "CLI_OUTCOME_UNKNOWN"),
            TransportFailure("lost", True),
            BadAnswer("what"),
        ):
            self.assertFalse(is_definite(error), error)


class CorrelationTests(SynchronousTestCase):
    def test_an_answer_must_be_ours(self) -> None:
        """Another command, request or chat, a missing status or turn: not our answer."""
        body = {"clientRequestId": "r", "chatId": "c"}
        good = {
            "commandType": "chat-start",
            "clientRequestId": "r",
            "chatId": "c",
            "status": "duplicate",
            "acceptedAt": "2026-01-01T00:00:00.000Z",
            "turnId": "t",
        }
        check = accepted_as("chat-start", body, "turnId")
        self.assertIsNone(check(good))
        for name in good:
            self.assertEqual(
                name,
                check(
                    good | {name: "other"}
                    if name in ("commandType", "clientRequestId", "chatId", "status")
                    else {k: v for k, v in good.items() if k != name}
                ),
            )


class ExitTests(SynchronousTestCase):
    def test_phases_and_statuses(self) -> None:
        """401 and 403 are about access, the caller's mistakes end with 2, all else with 3."""
        table = (
            (http(401), "authentication", 3),
            (http(403, "CLI_ACCESS_DENIED"), "authentication", 3),
            (http(403, "PROJECT_PATH_OUTSIDE_BASE"), "submission", 2),
            (http(404, "SESSION_NOT_FOUND"), "submission", 2),
            (http(409, "EXPECTED_AGENT_MISMATCH"), "submission", 2),
            (http(422, "EXPLICIT_BYPASS_REQUIRED"), "submission", 2),
            (http(400, "UNSUPPORTED_AGENT"), "submission", 2),
            (http(400), "submission", 2),
            (http(409, "SESSION_BUSY", True), "submission", 3),
            (http(503, "EXECUTOR_UNAVAILABLE", True), "submission", 3),
            (TransportFailure("lost", True), "submission", 3),
            (RuntimeReplaced("gone"), "transport recovery", 3),
        )
        for error, phase, status in table:
            failure = failure_of(error, "submission")
            self.assertEqual((phase, status), (failure.phase, failure.exit_status), error)

    def test_one_line_always(self) -> None:
        """A diagnostic is one line, with what a terminal would obey made visible."""
        failure = failure_of(ApiError(500, "X", "a\nb\x1b[2J\u202ec", False, None), "submission")
        self.assertEqual("submission: a b\\x1b[2J\\u202ec (HTTP 500, X)", failure.line())

    def test_a_secret_typed_in_the_wrong_place_is_not_repeated(self) -> None:
        """Whatever text it came into."""
        failure = bad_arguments("unknown command 'wss://h/executor#secret=abcdef'")
        self.assertEqual(
            "arguments: unknown command 'wss://h/executor#secret=[redacted]'", failure.line()
        )
