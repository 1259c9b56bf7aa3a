"""Operations that manage executors and assign profiles, and the ones by which a command begins."""

from __future__ import annotations

from typing import Any

from garcon.contract import routes
from garcon.testing.matrix.cases import Asked, Row, Typed, Whole
from garcon.testing.matrix.differences import (
    LINK,
    NEW_ID,
    Allowed,
    Instead,
    Kind,
    Printed,
    Why,
)
from garcon.testing.matrix.reading_rows import UNKNOWN

_CHALLENGE = "A" * 43
_CREATE: dict[str, Any] = {
    "label": "made {new label}",
    "direction": "executor-connects",
    "advertisedUrl": "wss://controller.example/executor/{executorId}",
}
_ASSIGNED = (("executorId", "{own}"), ("apiProviderId", "{profile}"))
_INVALID: dict[str, Any] = {"status": 400, "code": "VALIDATION_FAILED"}
_UNKNOWN: dict[str, Any] = {"status": 404, "code": "EXECUTOR_NOT_FOUND"}
_NO_PROCESS: dict[str, Any] = {"pid": 2**31 - 1, "started": 1}
_LEFT = ("a process that is left over",)
_PUBLIC_URL = Instead(Why.PUBLIC_URL, 400, "VALIDATION_FAILED")
_NARROW = Instead(Why.ENVELOPE, 400, "VALIDATION_FAILED")


def _assignment(route: routes.Route, before: str) -> Row:
    return Row(
        route,
        asked=(
            Asked("done", before=(before,), query=_ASSIGNED),
            Asked("done already", query=_ASSIGNED),
            Asked(
                "an unknown executor",
                query=(("executorId", UNKNOWN), ("apiProviderId", "{profile}")),
                **_UNKNOWN,
            ),
            Asked("nothing named", instead=_NARROW, **_INVALID),
        ),
        allowed=Allowed({"revision": Kind.COUNT}),
    )


ROWS = (
    Row(
        routes.RUNTIME,
        asked=(
            Asked("proven", query=(("challenge", _CHALLENGE),)),
            Asked("no challenge", query=(("challenge", "short"),), status=400),
            Asked("two challenges", query=(("challenge", _CHALLENGE),) * 2, **_INVALID),
        ),
        typed=(
            Typed(
                "another server asserted",
                words=("chats", "--server", "http://127.0.0.1:1"),
                status=3,
                instead=Instead(Why.ENDPOINT, 3, "is not the selected executor"),
            ),
        ),
        allowed=Allowed({"instanceId": Kind.ID, "proof": Kind.ID}),
    ),
    Row(
        routes.CLI_CONTEXT,
        asked=(
            Asked("told"),
            Asked(
                "with another capability",
                headers={"Authorization": "Bearer garcon_local_" + _CHALLENGE},
                instead=Instead(Why.CAPABILITY, 403, "CLI_ACCESS_DENIED"),
            ),
        ),
        typed=(Typed("in an envelope", words=("pin", "{chat}", "--json")),),
        allowed=Allowed({"defaultExecutorId": Kind.EXECUTOR}),
    ),
    Row(
        routes.LIST_EXECUTORS,
        asked=(
            Asked("all"),
            Asked("with a query", query=(("a", "b"),), instead=_NARROW),
        ),
        typed=(
            Typed("a table", words=("executor", "list")),
            Typed("as JSON", words=("executor", "list", "--json")),
            Typed("one", words=("executor", "show", "{own}")),
            Typed("an unknown one", words=("executor", "show", UNKNOWN), status=2),
            Typed("ready", words=("executor", "wait", "{own}", "--ready", "--json")),
        ),
    ),
    Row(
        routes.CREATE_EXECUTOR,
        asked=(
            Asked("with an address", body=_CREATE),
            Asked(
                "without one",
                body={k: _CREATE[k] for k in ("label", "direction")} | {"noTls": True},
                instead=_PUBLIC_URL,
            ),
            Asked("a label of Local", body=_CREATE | {"label": "Local"}, **_INVALID),
            Asked("an unknown direction", body=_CREATE | {"direction": "both"}, **_INVALID),
            Asked("an unknown member", body=_CREATE | {"more": 1}, **_INVALID),
        ),
        typed=(
            Typed(
                "with an address",
                words=(
                    *("executor", "create", "--label", "typed {new label}"),
                    *("--direction", "executor-connects", "--advertise-url"),
                    _CREATE["advertisedUrl"],
                ),
            ),
            Typed(
                "without one",
                words=(
                    *("executor", "create", "--label", "typed {new label}"),
                    *("--direction", "executor-connects", "--no-tls", "true"),
                ),
                instead=Instead(Why.PUBLIC_URL, 2, "VALIDATION_FAILED"),
            ),
        ),
        allowed=Allowed(
            {"id": Kind.ID, "connectionUrl": Kind.ID},
            (*NEW_ID, Printed(r"executor connection ([0-9a-f-]{36}) ", Kind.ID)),
        ),
    ),
    Row(
        routes.UPDATE_EXECUTOR,
        asked=(
            Asked(
                "a label",
                before=("an executor",),
                executor="{executor}",
                body={"label": "x {new label}"},
            ),
            Asked(
                "disabled", before=("an executor",), executor="{executor}", body={"enabled": False}
            ),
            Asked(
                "granted",
                before=("an executor",),
                executor="{executor}",
                body={"allowControllerCli": True},
            ),
            Asked("an unknown one", executor=UNKNOWN, body={"label": "x"}, **_UNKNOWN),
            Asked("Local", executor="local", body={"label": "x"}, **_UNKNOWN),
            Asked(
                "too long a label",
                before=("an executor",),
                executor="{executor}",
                body={"label": "x" * 200},
                **_INVALID,
            ),
            Asked(
                "itself",
                executor="{own}",
                body={"allowControllerCli": True},
                instead=Instead(Why.SELF, 403, "CLI_ACCESS_DENIED"),
            ),
        ),
        typed=(
            Typed(
                "a label",
                before=("an executor",),
                words=("executor", "update", "{executor}", "--label", "y {new label}"),
            ),
            Typed(
                "granted",
                before=("an executor",),
                words=("executor", "update", "{executor}", "--allow-controller-cli", "true"),
            ),
            Typed(
                "disabled",
                before=("an executor",),
                words=("executor", "disable", "{executor}", "--json"),
            ),
            Typed(
                "enabled",
                before=("a disabled executor",),
                words=("executor", "enable", "{executor}"),
            ),
            Typed("an unknown one", words=("executor", "enable", UNKNOWN), status=2),
        ),
    ),
    Row(
        routes.DELETE_EXECUTOR,
        asked=(
            Asked("forgotten", before=("an executor",), executor="{executor}"),
            Asked("an unknown one", executor=UNKNOWN, **_UNKNOWN),
        ),
        typed=(
            Typed("forgotten", before=("an executor",), words=("executor", "delete", "{executor}")),
            Typed("an unknown one", words=("executor", "delete", UNKNOWN), status=2),
        ),
    ),
    Row(
        routes.REVEAL_CONNECTION,
        asked=(
            Asked("with an address", before=("an executor",), executor="{executor}"),
            Asked(
                "without one",
                before=("an executor without an address",),
                executor="{executor}",
                instead=_PUBLIC_URL,
            ),
            Asked("an unknown one", executor=UNKNOWN, **_UNKNOWN),
        ),
        typed=(
            Typed(
                "with an address",
                before=("an executor",),
                words=("executor", "connection", "{executor}"),
            ),
            Typed("an unknown one", words=("executor", "connection", UNKNOWN), status=2),
        ),
        allowed=Allowed({"connectionUrl": Kind.ID}, (Printed(r"#secret=(\S+)$", Kind.ID),)),
    ),
    Row(
        routes.EXECUTOR_DIAGNOSTICS,
        asked=(
            Asked("ready", executor="{own}"),
            Asked("away", before=("an executor",), executor="{executor}"),
            Asked("an unknown one", executor=UNKNOWN, **_UNKNOWN),
        ),
        typed=(
            Typed("ready", words=("executor", "doctor", "{own}", "--json")),
            Typed(
                "away",
                before=("an executor",),
                words=("executor", "doctor", "{executor}"),
                status=3,
            ),
            Typed("an unknown one", words=("executor", "doctor", UNKNOWN), status=2),
        ),
        allowed=Allowed(LINK),
    ),
    Row(
        routes.END_PROCESS,
        asked=(
            Asked(
                "one of them",
                before=_LEFT,
                executor="{own}",
                body={"pid": Whole("process"), "started": Whole("begun")},
                also={"pid": Kind.COUNT, "started": Kind.COUNT},
            ),
            Asked(
                "none of them",
                executor="{own}",
                body=_NO_PROCESS,
                status=404,
                code="PROCESS_NOT_FOUND",
            ),
            Asked("an unknown executor", executor=UNKNOWN, body=_NO_PROCESS, **_UNKNOWN),
            Asked("no process", executor="{own}", body={}, **_INVALID),
        ),
        typed=(
            Typed(
                "one of them",
                before=_LEFT,
                words=("executor", "doctor", "{own}", "--end", "{process}"),
            ),
            Typed(
                "none of them",
                words=("executor", "doctor", "{own}", "--end", "2147483647"),
                status=2,
            ),
        ),
    ),
    Row(
        routes.LIST_ASSIGNMENTS,
        asked=(Asked("all"), Asked("with a query", query=(("a", "b"),), instead=_NARROW)),
    ),
    _assignment(routes.ASSIGN_PROVIDER, "the profile taken away"),
    _assignment(routes.UNASSIGN_PROVIDER, "the profile assigned"),
)
