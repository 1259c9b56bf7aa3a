"""The codes that chats' operations may fail with, each with its statuses and whether it may be
tried again (chats.md 1.2, 1.3; what was added: decisions.md 31, contract/README.md).
"""

from __future__ import annotations

from typing import Any

NEVER, LATER = False, True

CODES: dict[str, set[tuple[int, bool]]] = {
    "VALIDATION_FAILED": {(status, NEVER) for status in (400, 401, 403, 404, 409, 413, 422)},
    "INTERNAL_ERROR": {(500, LATER), (500, NEVER), (409, NEVER)},
    "SESSION_NOT_FOUND": {(404, NEVER)},
    "SESSION_BUSY": {(409, LATER)},
    "IDEMPOTENCY_CONFLICT": {(409, NEVER)},
    "CHAT_ID_COLLISION": {(409, NEVER)},
    "TURN_RECEIPT_NOT_FOUND": {(404, NEVER)},
    "TURN_RESULT_EXPIRED": {(410, NEVER)},
    "SERVER_SHUTTING_DOWN": {(503, LATER), (503, NEVER)},
    "QUEUE_ENTRY_NOT_FOUND": {(404, NEVER)},
    "QUEUE_ENTRY_ALREADY_SENT": {(409, NEVER)},
    "QUEUE_ENTRY_IN_FLIGHT": {(409, NEVER)},
    "QUEUE_ENTRY_REVISION_CONFLICT": {(409, NEVER)},
    "QUEUE_ENTRY_REORDER_CONFLICT": {(409, NEVER)},
    "QUEUE_PAUSE_CHANGED": {(409, NEVER)},
    "STEER_NOT_DELIVERED": {(500, NEVER)},
    "STEER_OUTCOME_UNKNOWN": {(500, NEVER)},
    "STEER_PROVIDER_REJECTED": {(409, NEVER)},
    "STEER_TURN_UNAVAILABLE": {(409, NEVER)},
    "STEER_TURN_CHANGED": {(409, NEVER)},
    "STEER_TURN_NOT_STEERABLE": {(409, NEVER)},
    "STEER_CAPACITY_EXHAUSTED": {(503, NEVER)},
    "QUEUE_STEER_FINALIZATION_FAILED": {(500, NEVER)},
    "UNSUPPORTED_AGENT": {(400, NEVER), (422, NEVER)},
    "EXPECTED_AGENT_MISMATCH": {(409, NEVER)},
    "EXPLICIT_BYPASS_REQUIRED": {(422, NEVER)},
    "INCOMPLETE_EXECUTION_CONFIG": {(422, NEVER)},
    "STALE_CHAT_OWNERSHIP": {(409, NEVER)},
    "AGENT_HANDOFF_REQUIRES_IDLE": {(409, LATER)},
    "TRANSCRIPT_UNAVAILABLE": {(422, NEVER)},
    "STALE_TRANSCRIPT_VIEW": {(409, NEVER), (409, LATER)},
    "TRANSCRIPT_NOT_YET_PERSISTED": {(409, LATER)},
    "OPERATION_UNSUPPORTED": {(422, NEVER)},
    "CHAT_NOT_IDLE": {(409, LATER)},
    "ORDER_CROSS_GROUP": {(400, NEVER)},
    "PROJECT_PATH_UPDATE_UNSUPPORTED": {(422, NEVER)},
    "PROJECT_PATH_OUTSIDE_BASE": {(403, NEVER)},
    "PROJECT_PATH_NOT_FOUND": {(404, NEVER)},
    "PROJECT_PATH_NOT_DIRECTORY": {(400, NEVER)},
    "PROJECT_PATH_NATIVE_PATH_UNRESOLVED": {(409, LATER)},
    "MODEL_SELECTION_ERROR": {(422, NEVER)},
    # Added since
    "PERMISSION_NOT_ACTIONABLE": {(409, NEVER), (409, LATER)},
    "PERMISSION_DECISION_OUTCOME_UNKNOWN": {(503, NEVER)},
    "EXECUTOR_UNAVAILABLE": {(503, LATER)},
    "EXECUTOR_NOT_FOUND": {(404, NEVER)},
    "PREAMBLE_NOT_FOUND": {(404, NEVER)},
    "PREAMBLE_SELECTION_COMPOSITION_INVALID": {(422, NEVER)},
    "API_PROVIDER_STORAGE_UNAVAILABLE": {(503, LATER)},
    "QUEUE_FULL": {(409, LATER)},
}
"""Where a code has two, it says what is so: whether the very same request could succeed."""

ENVELOPE = {"success", "error", "errorCode", "retryable"}
MORE = {"details", "control", "deliveryOutcome", "serverInstanceId"}
"""Members that some errors have beside (1.2)."""


def check_failure(status: int, body: dict[str, Any]) -> None:
    """Raise unless an answer above 399 is the standard envelope with a code that may be."""
    if body.get("valid") is False:
        # Why no chat can be started in a directory is an answer with codes of its own (3.35).
        return
    missing, unknown = ENVELOPE - body.keys(), body.keys() - ENVELOPE - MORE
    assert not missing and not unknown, (missing, unknown)
    assert body["success"] is False and body["error"].strip(), body
    found = (status, body["retryable"])
    assert found in CODES.get(body["errorCode"], set()), (body["errorCode"], found)
