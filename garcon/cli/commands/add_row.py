"""`add-row`: put a row into a chat's transcript for people to see; no agent reads it."""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.failures import (
    DONE,
    SUBMISSION,
    ApiError,
    RuntimeReplaced,
    TransportFailure,
    bad_arguments,
    failure_of,
)
from garcon.cli.submission import submit
from garcon.contract.limits import ROW_BYTES, ROW_TITLE_CHARACTERS
from garcon.contract.routes import ADD_ROW, READ_ROWS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.invocation import Invocation
    from garcon.cli.options import Parsed

_NOT_IN_A_LINE = ("Cc", "Zl", "Zp")


def run(invocation: Invocation) -> int:
    """Append a row, exactly once; the content goes out to the byte as it came."""
    chat_id = inputs.chat_id(invocation.parsed.operands[0])
    look, style = _look(invocation.parsed)
    invocation.check_selection()
    content = _content(invocation)
    client = invocation.connect()
    try:
        view = client.call(READ_ROWS, [("chatId", chat_id)]).get("transcriptViewId")
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        raise failure_of(e, SUBMISSION) from None
    body = {
        "clientRequestId": client.system.uuid(),
        "clientMessageId": client.system.uuid(),
        "chatId": chat_id,
        "transcriptViewId": view,
        **look,
        "content": content,
    }
    ours = ("clientRequestId", "clientMessageId", "chatId", "transcriptViewId")
    expected = {name: body[name] for name in ours}
    expected |= {"commandType": "chat-row-add", "type": style}

    def wrong(reply: dict[str, Any]) -> str | None:
        for name, value in expected.items():
            if reply.get(name) != value:
                return name
        ordinal = reply.get("ordinal")
        if not isinstance(ordinal, int) or isinstance(ordinal, bool) or ordinal < 1:
            return "ordinal"
        return None if reply.get("status") in ("appended", "duplicate") else "status"

    invocation.interruption = "interrupted; the row command may have reached Garcon"
    status = invocation.command("status", chat_id)
    reply = submit(client, ADD_ROW, body, wrong, "the row", status)
    if invocation.json:
        invocation.print_json(invocation.envelope("add-row", client.context, response=reply))
        return DONE
    invocation.print(
        f"chat id: {chat_id}\ntranscript view id: {view}\nordinal: {reply['ordinal']}\n"
        f"type: {style}\nstatus: {reply['status']}\n"
    )
    return DONE


def _look(parsed: Parsed) -> tuple[dict[str, Any], str]:
    """Return how the row is shown, as members of the request, and its style.

    A plain notice or error is asked for as older controllers know it.
    """
    kind, color = parsed.text("type"), parsed.text("color")
    if (kind is None) == (color is None):
        raise bad_arguments("say how the row looks: --type info, notice or error, or --color")
    style = "custom" if kind is None else kind
    look: dict[str, Any] = {}
    title = _title(parsed)
    if title is not None:
        look["title"] = title
    markdown, collapsible = parsed.flag("markdown"), parsed.flag("collapsible")
    if style in ("notice", "error") and not (markdown or collapsible):
        return look | {"type": style}, style
    look["presentation"] = {"style": style}
    if color is not None:
        look["presentation"]["customStyle"] = inputs.accents(color)
    look["format"] = "markdown" if markdown else "plain"
    look["bodyDisclosure"] = "collapsed" if collapsible else "expanded"
    return look, style


def _title(parsed: Parsed) -> str | None:
    title = inputs.optional(parsed, "title")
    if title is None:
        return None
    from unicodedata import category

    title = title.strip()
    if len(title) > ROW_TITLE_CHARACTERS or any(category(c) in _NOT_IN_A_LINE for c in title):
        raise bad_arguments(
            f"--title must be one line of at most {ROW_TITLE_CHARACTERS} characters"
        )
    return title


def _content(invocation: Invocation) -> str:
    parsed = invocation.parsed
    text = parsed.operands[1]
    if text == "-" and not parsed.literal:
        text = invocation.stdin_text(ROW_BYTES)
        if not text.strip():
            raise bad_arguments("the content is blank")
        return text
    text = inputs.operand(text, "the content")
    if len(text.encode()) > ROW_BYTES:
        raise bad_arguments(f"the content is longer than {ROW_BYTES} bytes")
    return text
