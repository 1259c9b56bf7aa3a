"""Operations that look at chats and at what can be chosen."""

from __future__ import annotations

from garcon.contract import routes
from garcon.testing.matrix.cases import Asked, Row, Typed
from garcon.testing.matrix.differences import (
    ENTRY,
    OBSERVED,
    RECEIPT,
    Allowed,
    Instead,
    Kind,
    Why,
)

UNKNOWN_CHAT = "1700000000000000"
UNKNOWN = "0d2a1f6e-6f0c-4c54-9d0f-0a1b2c3d4e5f"

_LONG = Instead(Why.LANE, 413, "CLI_RESULT_TOO_LARGE")
_UNNAMED = Instead(Why.EXECUTOR, 400, "VALIDATION_FAILED")

ROWS = (
    Row(
        routes.LIST_CHATS,
        asked=(Asked("all"),),
        typed=(
            Typed("a table", words=("chats", "--limit", "3")),
            Typed("filtered", words=("chats", "--filter", "title:say", "--json")),
            Typed("a wrong filter", words=("chats", "--filter", "is:odd"), status=2),
        ),
    ),
    Row(
        routes.MESSAGES,
        asked=(
            Asked("the newest", query=(("chatId", "{read chat}"), ("limit", "2"))),
            Asked(
                "a page before",
                query=(
                    ("chatId", "{read chat}"),
                    ("limit", "1"),
                    ("beforeOrdinal", "3"),
                    ("transcriptViewId", "{read view}"),
                ),
            ),
            Asked(
                "a wrong limit",
                query=(("chatId", "{read chat}"), ("limit", "x")),
                status=400,
                code="VALIDATION_FAILED",
            ),
            Asked(
                "an unknown chat",
                query=(("chatId", UNKNOWN_CHAT),),
                status=404,
                code="SESSION_NOT_FOUND",
            ),
            Asked(
                "a page above the lane's limit",
                before=("a huge chat",),
                query=(("chatId", "{chat}"), ("limit", "200")),
                instead=_LONG,
                heavy=True,
            ),
        ),
        typed=(
            Typed(
                "an answer that the receipt cuts",
                before=("a long answer",),
                words=("wait", "{chat}", "--turn", "{turn}"),
            ),
        ),
    ),
    Row(
        routes.SNAPSHOT,
        asked=(
            Asked("with messages", query=(("chatId", "{read chat}"), ("limit", "5"))),
            Asked("without", query=(("chatId", "{read chat}"), ("limit", "0"))),
            Asked(
                "with a question",
                before=("a question",),
                query=(("chatId", "{chat}"), ("limit", "0")),
                also=ENTRY | {"timestamp": Kind.TIME, "toolId": Kind.ID},
            ),
            Asked(
                "a wrong limit",
                query=(("chatId", "{read chat}"), ("limit", "x")),
                status=400,
                code="VALIDATION_FAILED",
            ),
            Asked(
                "an unknown chat",
                query=(("chatId", UNKNOWN_CHAT), ("limit", "1")),
                status=404,
                code="SESSION_NOT_FOUND",
            ),
        ),
        typed=(
            Typed("in lines", words=("status", "{read chat}")),
            Typed("as JSON", words=("status", "{read chat}", "--json")),
            Typed("an unknown chat", words=("status", UNKNOWN_CHAT), status=2),
        ),
        allowed=Allowed({"observedAt": Kind.TIME}, OBSERVED),
    ),
    Row(
        routes.TURN_RECEIPT,
        asked=(
            Asked("settled", query=(("chatId", "{read chat}"), ("turnId", "{read turn}"))),
            Asked(
                "failed",
                before=("a failed chat",),
                query=(("chatId", "{chat}"), ("turnId", "{turn}")),
                also=RECEIPT,
            ),
            Asked(
                "an unknown turn",
                query=(("chatId", "{read chat}"), ("turnId", UNKNOWN)),
                status=404,
                code="TURN_RECEIPT_NOT_FOUND",
            ),
            Asked(
                "above the lane's limit",
                before=("a long answer",),
                query=(("chatId", "{chat}"), ("turnId", "{turn}")),
                instead=Instead(Why.LANE, 200),
            ),
        ),
        typed=(
            Typed("settled", words=("wait", "{read chat}", "--turn", "{read turn}")),
            Typed("as JSON", words=("wait", "{read chat}", "--turn", "{read turn}", "--json")),
            Typed(
                "failed",
                before=("a failed chat",),
                words=("wait", "{chat}", "--turn", "{turn}"),
                status=1,
            ),
            Typed("an unknown turn", words=("wait", "{read chat}", "--turn", UNKNOWN), status=3),
        ),
    ),
    Row(
        routes.READ_TAGS,
        asked=(
            Asked("there", query=(("chatId", "{read chat}"),)),
            Asked(
                "an unknown chat",
                query=(("chatId", UNKNOWN_CHAT),),
                status=404,
                code="SESSION_NOT_FOUND",
            ),
            Asked(
                "twice named",
                query=(("chatId", "{read chat}"), ("chatId", "{read chat}")),
                status=400,
                code="VALIDATION_FAILED",
            ),
        ),
        typed=(Typed("an unknown chat", words=("set-tags", UNKNOWN_CHAT, "--clear"), status=2),),
    ),
    Row(
        routes.READ_ROWS,
        asked=(
            Asked("the view", query=(("chatId", "{read chat}"),)),
            Asked(
                "an unknown chat",
                query=(("chatId", UNKNOWN_CHAT),),
                status=404,
                code="SESSION_NOT_FOUND",
            ),
        ),
        typed=(
            Typed(
                "an unknown chat",
                words=("add-row", UNKNOWN_CHAT, "--type", "notice", "x"),
                status=2,
            ),
        ),
    ),
    Row(
        routes.LOOKUP_NATIVE_SESSION,
        asked=(
            Asked("found", body={"executorId": "{own}", "nativeSessionId": "{read session}"}),
            Asked("elsewhere", body={"executorId": "local", "nativeSessionId": "{read session}"}),
            Asked(
                "nothing named", body={"executorId": "{own}"}, status=400, code="VALIDATION_FAILED"
            ),
            Asked(
                "no executor named",
                body={"nativeSessionId": "{read session}"},
                instead=_UNNAMED,
            ),
        ),
        typed=(
            Typed(
                "found",
                words=("lookup-native-session", "{read session}", "--executor", "{own}"),
            ),
            Typed(
                "elsewhere",
                words=("lookup-native-session", "{read session}", "--executor", "local"),
                status=2,
            ),
        ),
    ),
    Row(
        routes.MODELS,
        asked=(
            Asked("of a worker", query=(("executorId", "{own}"),)),
            Asked("of Local", query=(("executorId", "local"),)),
            Asked("of one agent", query=(("executorId", "{own}"), ("agent", "scripted"))),
            Asked(
                "looked up at a provider",
                query=(("executorId", "{own}"), ("agent", "direct-openai-compatible")),
            ),
            Asked(
                "an unknown agent",
                query=(("executorId", "{own}"), ("agent", "nobody")),
                status=400,
                code="UNSUPPORTED_AGENT",
            ),
            Asked(
                "an unknown executor",
                query=(("executorId", UNKNOWN),),
                status=404,
                code="EXECUTOR_NOT_FOUND",
            ),
            Asked("no executor named", instead=_UNNAMED),
        ),
        typed=(
            Typed("agents", words=("list", "agents", "--json", "--executor", "{own}")),
            Typed("agents of the default executor", words=("list", "agents")),
            Typed("models", words=("list", "models", "--agent", "scripted")),
            Typed("providers", words=("list", "providers", "--executor", "{own}")),
            Typed(
                "endpoints",
                words=("list", "endpoints", "--provider", "Pretend", "--executor", "{own}"),
            ),
            Typed("an unknown agent", words=("list", "models", "--agent", "nobody"), status=2),
            Typed("an unknown executor", words=("list", "agents", "--executor", UNKNOWN), status=2),
        ),
    ),
    Row(
        routes.LIST_PREAMBLES,
        asked=(Asked("all"),),
        typed=(
            Typed("a table", words=("list", "preambles")),
            Typed("as JSON", words=("list", "preambles", "--json")),
        ),
    ),
    Row(
        routes.READ_SETTINGS,
        asked=(Asked("all"),),
        typed=(
            Typed("permissions", words=("list", "permissions", "--agent", "scripted")),
            Typed(
                "reasoning efforts",
                words=("list", "reasoning-efforts", "--agent", "scripted", "--json"),
            ),
        ),
    ),
)
