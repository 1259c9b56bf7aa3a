"""Operations that look after chats."""

from __future__ import annotations

from typing import Any

from garcon.contract import routes
from garcon.contract.limits import TITLE_BYTES
from garcon.testing.matrix.cases import Asked, Row, Typed
from garcon.testing.matrix.differences import Allowed, Instead, Kind, Printed, Why
from garcon.testing.matrix.reading_rows import UNKNOWN, UNKNOWN_CHAT

_ROW: dict[str, Any] = {
    "clientRequestId": "{new request}",
    "clientMessageId": "{new message}",
    "chatId": "{chat}",
    "transcriptViewId": "{view}",
    "content": "Release 7 is out.",
    "type": "notice",
}
_NO_CHAT: dict[str, Any] = {"status": 404, "code": "SESSION_NOT_FOUND"}
_INVALID: dict[str, Any] = {"status": 400, "code": "VALIDATION_FAILED"}


def _place(route: routes.Route, name: str, word: str, other: str) -> Row:
    """Return the row of a place in the list: there, there already, and back again."""
    there: dict[str, Any] = {"chatId": "{chat}", name: True}
    return Row(
        route,
        asked=(
            Asked("there", body=there),
            Asked("there already", body=there),
            Asked("back", body=there | {name: False}),
            Asked("an unknown chat", body=there | {"chatId": UNKNOWN_CHAT}, **_NO_CHAT),
            Asked("neither", body=there | {name: "yes"}, **_INVALID),
        ),
        typed=(
            Typed("there", words=(word, "{chat}")),
            Typed("there already", words=(word, "{chat}", "--json")),
            Typed("back", words=(other, "{chat}")),
            Typed("an unknown chat", words=(word, UNKNOWN_CHAT), status=2),
        ),
    )


ROWS = (
    _place(routes.PIN, "pinned", "pin", "unpin"),
    _place(routes.ARCHIVE, "archived", "archive", "unarchive"),
    Row(
        routes.SESSION_NAME,
        asked=(
            Asked("named", body={"chatId": "{chat}", "title": "A title"}),
            Asked("so named already", body={"chatId": "{chat}", "title": "A title"}),
            Asked(
                "too long a title",
                body={"chatId": "{chat}", "title": "x" * (TITLE_BYTES + 1)},
                **_INVALID,
            ),
            Asked("no title", body={"chatId": "{chat}"}, **_INVALID),
            Asked("an unknown chat", body={"chatId": UNKNOWN_CHAT, "title": "x"}, **_NO_CHAT),
        ),
        typed=(
            Typed("named", words=("rename", "{chat}", "Another title")),
            Typed("an unknown chat", words=("rename", UNKNOWN_CHAT, "x"), status=2),
        ),
    ),
    Row(
        routes.SET_TAGS,
        asked=(
            Asked("set", body={"chatId": "{chat}", "tags": ["a", "b"]}),
            Asked("as they are", body={"chatId": "{chat}", "tags": ["b", "a"]}),
            Asked("an unknown chat", body={"chatId": UNKNOWN_CHAT, "tags": []}, **_NO_CHAT),
            Asked("no list", body={"chatId": "{chat}", "tags": "a"}, **_INVALID),
        ),
        typed=(
            Typed("set", words=("set-tags", "{chat}", "--tag", "c", "--json")),
            Typed("taken away", words=("set-tags", "{chat}", "--clear")),
        ),
    ),
    Row(
        routes.ADD_ROW,
        asked=(
            Asked("added", body=_ROW),
            Asked("again", body=_ROW, again=True),
            Asked(
                "an older view",
                status=409,
                code="STALE_TRANSCRIPT_VIEW",
                body=_ROW | {"transcriptViewId": UNKNOWN},
            ),
            Asked("a blank one", body=_ROW | {"content": " "}, **_INVALID),
            Asked("an unknown chat", body=_ROW | {"chatId": UNKNOWN_CHAT}, **_NO_CHAT),
        ),
        typed=(
            Typed(
                "added", words=("add-row", "{chat}", "--type", "info", "--title", "Deployed", "It.")
            ),
            Typed("as JSON", words=("add-row", "{chat}", "--color", "aabbcc", "--json", "It.")),
        ),
        allowed=Allowed(
            {"timestamp": Kind.TIME, "clientRequestId": Kind.ID, "clientMessageId": Kind.ID},
            (Printed(r"^transcript view id: (\S+)$", Kind.ID),),
        ),
    ),
    Row(
        routes.CHANGE_SETTINGS,
        asked=(
            Asked("search is off", body={"features": {"transcriptSearch": {"enabled": False}}}),
            Asked(
                "search, which comes later",
                status=500,
                code="TRANSCRIPT_SEARCH_ENABLE_FAILED",
                body={"features": {"transcriptSearch": {"enabled": True}}},
            ),
            Asked(
                "no truth",
                status=400,
                code="INVALID_REMOTE_SETTINGS",
                body={"features": {"transcriptSearch": {"enabled": "yes"}}},
                instead=Instead(Why.PATCH, 403, "CLI_ACCESS_DENIED"),
            ),
            Asked(
                "anything else",
                body={"ui": {"appIdentity": {"title": "Theirs"}}},
                instead=Instead(Why.PATCH, 403, "CLI_ACCESS_DENIED"),
            ),
        ),
    ),
)
