"""`pin`, `unpin`, `archive`, `unarchive`, `rename`, `set-tags`: the wanted end state of a chat.

Repeating one converges, and the last writer wins.  An unknown outcome is told, never repeated
(control.md I.3).
"""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.client import encode
from garcon.cli.failures import (
    DONE,
    OPERATIONAL,
    SUBMISSION,
    TITLE,
    ApiError,
    BadAnswer,
    RuntimeReplaced,
    TransportFailure,
    bad_arguments,
    failure_of,
)
from garcon.cli.render import yes
from garcon.cli.submission import is_definite
from garcon.contract.limits import TITLE_BYTES
from garcon.contract.routes import ARCHIVE, PIN, READ_TAGS, SESSION_NAME, SET_TAGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.client import GarconClient
    from garcon.cli.invocation import Invocation
    from garcon.contract.routes import Route


def pin(invocation: Invocation) -> int:
    """Have a chat pinned."""
    return _place(invocation, "pin", PIN, "pinned", True)


def unpin(invocation: Invocation) -> int:
    """Have a chat not pinned."""
    return _place(invocation, "unpin", PIN, "pinned", False)


def archive(invocation: Invocation) -> int:
    """Have a chat archived."""
    return _place(invocation, "archive", ARCHIVE, "archived", True)


def unarchive(invocation: Invocation) -> int:
    """Have a chat not archived."""
    return _place(invocation, "unarchive", ARCHIVE, "archived", False)


def rename(invocation: Invocation) -> int:
    """Give a chat its title."""
    chat_id = inputs.chat_id(invocation.parsed.operands[0])
    title = inputs.operand(invocation.parsed.operands[1], "the title").strip()
    if len(title.encode()) > TITLE_BYTES:
        raise bad_arguments(f"the title is longer than {TITLE_BYTES} bytes")
    client = _client(invocation)
    body = {"chatId": chat_id, "title": title}
    # It answers for no chat: whose title it is, the request says.
    reply = _set(invocation, client, SESSION_NAME, body, {"title": title}, TITLE)
    return _print(invocation, client, "rename", chat_id, "title", reply)


def set_tags(invocation: Invocation) -> int:
    """Have a chat tagged with these tags and no others."""
    chat_id = inputs.chat_id(invocation.parsed.operands[0])
    tags = _tags(invocation)
    client = _client(invocation)
    try:
        present = client.call(READ_TAGS, [("chatId", chat_id)]).get("tags")
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        raise failure_of(e, SUBMISSION) from None
    reply: dict[str, Any] = {"tags": tags, "changed": False}
    if present != tags:
        body = {"chatId": chat_id, "tags": tags}
        reply = _set(invocation, client, SET_TAGS, body, body, SUBMISSION)
    return _print(invocation, client, "set-tags", chat_id, "tags", reply)


def _tags(invocation: Invocation) -> list[str]:
    given, clear = invocation.parsed.texts("tag"), invocation.parsed.flag("clear")
    if clear == bool(given):
        raise bad_arguments("name the tags with --tag, or take all away with --clear")
    return sorted({inputs.tag(text) for text in given})


def _place(invocation: Invocation, command: str, route: Route, name: str, wanted: bool) -> int:
    chat_id = inputs.chat_id(invocation.parsed.operands[0])
    client = _client(invocation)
    body = {"chatId": chat_id, name: wanted}
    reply = _set(invocation, client, route, body, body, SUBMISSION)
    return _print(invocation, client, command, chat_id, name, reply)


def _client(invocation: Invocation) -> GarconClient:
    client = invocation.connect()
    invocation.interruption = "interrupted; the change may have reached Garcon"
    return client


def _set(
    invocation: Invocation,
    client: GarconClient,
    route: Route,
    body: dict[str, Any],
    wanted: dict[str, Any],
    phase: str,
) -> dict[str, Any]:
    """Ask for an end state, once; the answer must be of it."""
    try:
        reply = client.send(route, data=encode(body), patient=True)
        if reply.get("success") is not True or not isinstance(reply.get("changed"), bool):
            raise BadAnswer("the answer is malformed")
        for name, value in wanted.items():
            if reply.get(name) != value:
                raise BadAnswer(f"the answer is of another {name}")
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        failure = failure_of(e, phase)
        if not is_definite(e):
            failure.exit_status = OPERATIONAL
            look = invocation.command("status", body["chatId"])
            failure.text = f"the chat may have been changed; {failure.text} (look with: {look})"
        raise failure from None
    return reply


def _print(
    invocation: Invocation,
    client: GarconClient,
    command: str,
    chat_id: str,
    name: str,
    reply: dict[str, Any],
) -> int:
    value, changed = reply[name], reply["changed"]
    if invocation.json:
        fields = {"chatId": chat_id, name: value, "changed": changed}
        invocation.print_json(invocation.envelope(command, client.context, **fields))
        return DONE
    shown = (", ".join(value) or "none") if isinstance(value, list) else value
    if isinstance(shown, bool):
        shown = yes(shown)
    invocation.print(f"chat id: {chat_id}\n{name}: {shown}\nchanged: {yes(changed)}\n")
    return DONE
