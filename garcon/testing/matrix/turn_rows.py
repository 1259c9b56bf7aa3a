"""Operations that start, steer, stop and fork turns."""

from __future__ import annotations

from typing import Any

from garcon.contract import routes
from garcon.contract.limits import MIB
from garcon.testing.matrix.cases import Asked, Row, Typed
from garcon.testing.matrix.differences import (
    ACCEPTED,
    ENTRY,
    HANDLE,
    RECEIPT,
    Allowed,
    Instead,
    Kind,
    Printed,
    Why,
)
from garcon.testing.matrix.reading_rows import UNKNOWN, UNKNOWN_CHAT

_IDS: dict[str, Any] = {"clientRequestId": "{new request}", "clientMessageId": "{new message}"}
_REQUEST: dict[str, Any] = {"clientRequestId": "{new request}"}
_SETTINGS: dict[str, Any] = {"ownerId": "scripted", "schemaVersion": 1, "values": {}}
_NOBODY = _SETTINGS | {"ownerId": "nobody"}
_START: dict[str, Any] = {
    **_IDS,
    "chatId": "{new chat}",
    "executorId": "{own}",
    "agentId": "scripted",
    "projectPath": "{project}",
    "model": "scripted",
    "agentSettings": _SETTINGS,
    "command": "say hello",
}
_RUN: dict[str, Any] = {
    **_IDS,
    "chatId": "{chat}",
    "transcriptViewId": "{view}",
    "command": "say more",
}
_FORK: dict[str, Any] = {"sourceChatId": "{chat}", "chatId": "{new chat}"}
_FORK_RUN: dict[str, Any] = {**_IDS, **_FORK, "command": "say forked"}
_STEER: dict[str, Any] = {
    **_IDS,
    "chatId": "{chat}",
    "transcriptViewId": "{view}",
    "content": "say steered",
}
_DECISION: dict[str, Any] = {
    **_REQUEST,
    "chatId": "{chat}",
    "permissionOccurrenceId": "{occurrence}",
    "allow": True,
    "alwaysAllow": False,
    "control": {
        "serverInstanceId": "{instance}",
        "chatId": "{chat}",
        "runId": "{run}",
        "permissionOccurrenceId": "{occurrence}",
    },
}
_SELECTION = ("--agent", "scripted", "--model", "scripted", "--cwd", "{project}")
_MADE = Allowed({**RECEIPT, **ENTRY, "chatId": Kind.ID, "id": Kind.ID}, HANDLE)
_TURN = (Printed(r"^turn id: (\S+)$", Kind.ID),)
_NO_CHAT: dict[str, Any] = {"status": 404, "code": "SESSION_NOT_FOUND"}
_INVALID: dict[str, Any] = {"status": 400, "code": "VALIDATION_FAILED"}


def _handed(**target: Any) -> dict[str, Any]:
    whole = {"agentId": "scripted", "model": "scripted", "agentSettings": _SETTINGS} | target
    return _RUN | {"handoff": {"expectedAgentOwnershipEpoch": "{epoch}", "target": whole}}


ROWS = (
    Row(
        routes.START_CHAT,
        asked=(
            Asked("on a worker", status=202, body=_START),
            Asked("on Local", status=202, body=_START | {"executorId": "local"}),
            Asked("again", status=202, body=_START, again=True),
            Asked(
                "a chat that there is",
                status=409,
                code="CHAT_ID_COLLISION",
                body=_START | {"chatId": "{read chat}"},
            ),
            Asked(
                "without a model", body={k: _START[k] for k in _START if k != "model"}, **_INVALID
            ),
            Asked(
                "an unknown agent",
                status=400,
                code="UNSUPPORTED_AGENT",
                body=_START | {"agentId": "nobody", "agentSettings": _NOBODY},
            ),
            Asked(
                "outside the project base",
                status=403,
                code="PROJECT_PATH_OUTSIDE_BASE",
                body=_START | {"projectPath": "{outside}"},
            ),
            Asked(
                "an unknown executor",
                status=404,
                code="EXECUTOR_NOT_FOUND",
                body=_START | {"executorId": UNKNOWN},
            ),
            Asked(
                "an executor that is not there",
                before=("an executor",),
                status=503,
                code="EXECUTOR_UNAVAILABLE",
                body=_START | {"executorId": "{executor}"},
            ),
            Asked("a parent in the request", body=_START | {"parentChat": None}, **_INVALID),
            Asked("no JSON", body="{nothing", **_INVALID),
            Asked("no object", body="[]", **_INVALID),
            Asked(
                "another type of body",
                body="{}",
                headers={"Content-Type": "text/plain"},
                instead=Instead(Why.ENVELOPE, 415, "VALIDATION_FAILED"),
                **_INVALID,
            ),
            Asked(
                "no executor named",
                status=202,
                body={k: _START[k] for k in _START if k != "executorId"},
                instead=Instead(Why.EXECUTOR, 400, "VALIDATION_FAILED"),
            ),
            Asked(
                "above the lane's limit",
                body=_START | {"command": "x" * MIB},
                instead=Instead(Why.LANE, 413, "CLI_REQUEST_TOO_LARGE"),
                status=202,
            ),
        ),
        typed=(
            Typed("and wait", words=("start", *_SELECTION, "--executor", "{own}", "say hello")),
            Typed(
                "on the default executor",
                words=("start", *_SELECTION, "--title", "A title", "--json", "say hello"),
            ),
            Typed("a turn that fails", words=("start", *_SELECTION, "fail for this"), status=1),
            Typed("and return", words=("start-async", *_SELECTION, "--json", "say hello")),
            Typed(
                "outside the project base",
                words=(
                    *("start", *_SELECTION[:4], "--cwd", "{outside}"),
                    *("--executor", "{own}", "say hello"),
                ),
                status=2,
            ),
        ),
        allowed=_MADE,
    ),
    Row(
        routes.RUN_CHAT,
        asked=(
            Asked("a further turn", before=("a settled chat",), status=202, body=_RUN),
            Asked("again", before=("a settled chat",), status=202, body=_RUN, again=True),
            Asked(
                "handed over",
                before=("a settled chat",),
                status=202,
                body=_handed(executorId="local"),
                also=ENTRY,
            ),
            Asked(
                "handed over to nobody",
                before=("a settled chat",),
                status=422,
                code="UNSUPPORTED_AGENT",
                body=_handed(agentId="nobody", agentSettings=_NOBODY),
            ),
            Asked(
                "a busy chat",
                before=("a busy chat",),
                status=409,
                code="SESSION_BUSY",
                body=_RUN,
            ),
            Asked(
                "settings of an earlier owner",
                status=409,
                code="STALE_CHAT_OWNERSHIP",
                body=_RUN | {"expectedAgentOwnershipEpoch": "old"},
            ),
            Asked(
                "an older view",
                status=409,
                code="STALE_TRANSCRIPT_VIEW",
                body=_RUN | {"transcriptViewId": UNKNOWN},
            ),
            Asked("an unknown chat", body=_RUN | {"chatId": UNKNOWN_CHAT}, **_NO_CHAT),
        ),
        typed=(
            Typed(
                "and wait", before=("a settled chat",), words=("resume", "{chat}", "say further")
            ),
            Typed(
                "with a title, as JSON",
                before=("a settled chat",),
                words=("resume", "{chat}", "--title", "New", "--json", "say further"),
            ),
            Typed(
                "and return",
                before=("a settled chat",),
                words=("resume-async", "{chat}", "say further"),
            ),
            Typed("an unknown chat", words=("resume", UNKNOWN_CHAT, "say x"), status=2),
        ),
        allowed=Allowed(RECEIPT, _TURN),
    ),
    Row(
        routes.FORK,
        asked=(
            Asked("made", before=("a settled chat",), body=_FORK),
            Asked("of an unknown chat", body=_FORK | {"sourceChatId": UNKNOWN_CHAT}, **_NO_CHAT),
            Asked(
                "into a chat that there is",
                status=409,
                code="IDEMPOTENCY_CONFLICT",
                body=_FORK | {"chatId": "{read chat}"},
            ),
            Asked("of a row without its view", body=_FORK | {"upToOrdinal": 1}, **_INVALID),
        ),
        typed=(
            Typed("made", words=("fork", "{chat}")),
            Typed("of an unknown chat", words=("fork", UNKNOWN_CHAT), status=2),
        ),
        allowed=Allowed(ENTRY | {"title": Kind.ID}, HANDLE[:1]),
    ),
    Row(
        routes.FORK_RUN,
        asked=(
            Asked("made", before=("a settled chat",), status=202, body=_FORK_RUN),
            Asked(
                "of an unknown chat", body=_FORK_RUN | {"sourceChatId": UNKNOWN_CHAT}, **_NO_CHAT
            ),
            Asked("without a text", body=_FORK_RUN | {"command": " "}, **_INVALID),
        ),
        typed=(
            Typed(
                "made", before=("a settled chat",), words=("fork", "{chat}", "--json", "say forked")
            ),
            Typed(
                "and return",
                before=("a settled chat",),
                words=("fork-async", "{chat}", "say forked"),
            ),
        ),
        allowed=_MADE,
    ),
    Row(
        routes.STEER,
        asked=(
            Asked("a turn", before=("a busy chat",), status=202, body=_STEER),
            Asked("no turn", status=409, code="STEER_TURN_UNAVAILABLE", body=_STEER),
            Asked("an unknown chat", body=_STEER | {"chatId": UNKNOWN_CHAT}, **_NO_CHAT),
        ),
        typed=(
            Typed(
                "a turn",
                before=("a busy chat",),
                words=("resume-async", "{chat}", "--allow-steer", "say steered"),
            ),
            Typed(
                "without leave",
                before=("a busy chat",),
                words=("resume-async", "{chat}", "say steered"),
                status=3,
            ),
        ),
        allowed=Allowed(ACCEPTED),
    ),
    Row(
        routes.STOP_CHAT,
        asked=(
            Asked("a turn", before=("a busy chat",), body=_REQUEST | {"chatId": "{chat}"}),
            Asked("no turn", body=_REQUEST | {"chatId": "{chat}"}),
            Asked("an unknown chat", body=_REQUEST | {"chatId": UNKNOWN_CHAT}, **_NO_CHAT),
            Asked("without an identity", body={"chatId": "{chat}"}, **_INVALID),
        ),
        typed=(
            Typed("a turn", before=("a busy chat",), words=("stop", "{chat}")),
            Typed("no turn", words=("stop", "{chat}", "--json")),
            Typed("an unknown chat", words=("stop", UNKNOWN_CHAT), status=2),
        ),
        allowed=Allowed({"acceptedAt": Kind.TIME, "clientRequestId": Kind.ID}),
    ),
    Row(
        routes.PERMISSION_DECISION,
        asked=(
            Asked("allowed", before=("a question",), body=_DECISION),
            Asked("again", before=("a question",), body=_DECISION, again=True),
            Asked(
                "under another controller's name",
                before=("a question",),
                status=409,
                code="PERMISSION_NOT_ACTIONABLE",
                body=_DECISION | {"control": _DECISION["control"] | {"serverInstanceId": UNKNOWN}},
            ),
            Asked(
                "a question that nobody asked",
                before=("a question",),
                status=409,
                code="PERMISSION_NOT_ACTIONABLE",
                body=_DECISION
                | {
                    "permissionOccurrenceId": UNKNOWN,
                    "control": _DECISION["control"] | {"permissionOccurrenceId": UNKNOWN},
                },
            ),
        ),
        typed=(
            Typed(
                "denied",
                before=("a question",),
                words=(
                    *("permission-decision", "{chat}", "{occurrence}", "deny"),
                    *("--run", "{run}", "--server-instance", "{instance}"),
                ),
            ),
            Typed(
                "nobody asked",
                words=(
                    *("permission-decision", "{chat}", UNKNOWN, "deny"),
                    *("--run", UNKNOWN, "--server-instance", "{instance}"),
                ),
                status=3,
            ),
        ),
        allowed=Allowed({"acceptedAt": Kind.TIME}),
    ),
)
