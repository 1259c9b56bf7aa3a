"""The terminals of an executor as the command asks for them: on whose behalf, which one is meant,
and what is known of a change afterwards (server.md C.1, C.2).
"""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.client import is_uuid4
from garcon.cli.failures import (
    AUTHENTICATION,
    BAD_REQUEST,
    TERMINAL,
    ApiError,
    BadAnswer,
    CommandFailure,
    RuntimeReplaced,
    TransportFailure,
    bad_arguments,
    failure_of,
)
from garcon.cli.submission import Refused, submit
from garcon.cli.users import not_accepted, user_token
from garcon.contract.limits import TERMINAL_TITLE_CHARACTERS
from garcon.contract.routes import LIST_TERMINALS, RENAME_TERMINAL, TERMINATE_TERMINAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from garcon.cli.client import GarconClient
    from garcon.cli.invocation import Invocation
    from garcon.contract.routes import Route
    from garcon.errors import GarconError

SHORTEST_PREFIX = 4
_TEXTS = ("terminalId", "initialWorkingDirectory", "processStatus", "attachmentStatus", "createdAt")


def user_client(invocation: Invocation) -> GarconClient:
    """Return a client that acts for the user; a worker's gateway is refused before it is asked."""
    endpoint = invocation.select(controller_only=True)
    if endpoint.role != "controller":
        raise CommandFailure(
            AUTHENTICATION,
            "terminals are reached from the controller's machine, and this is a worker's shell:"
            " run this there, or choose --runtime controller",
            BAD_REQUEST,
        )
    client = invocation.connect(endpoint)
    try:
        client.token = user_token(invocation, client)
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        raise failure_of(e, AUTHENTICATION) from None
    return client


def listed(invocation: Invocation, client: GarconClient, executor: str) -> list[dict[str, Any]]:
    """Return an executor's terminals, in the order of their numbers."""
    try:
        reply = client.call(LIST_TERMINALS, [("executorId", executor)])
        found = reply.get("terminals")
        if not isinstance(found, list) or not all(is_terminal(one, executor) for one in found):
            raise BadAnswer("the terminals' answer is malformed")
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        raise _failure(invocation, e) from None
    return found


def renamed(
    invocation: Invocation, client: GarconClient, terminal_id: str, title: str
) -> str | None:
    """Give a terminal a title, an empty one for none; return the one it has."""
    body = {"terminalId": terminal_id, "title": title or None}

    def wrong(reply: dict[str, Any]) -> str | None:
        is_right = reply.get("terminalId") == terminal_id and reply.get("title") == body["title"]
        return None if is_right else "title"

    what = "the new title"
    reply = change(invocation, client, RENAME_TERMINAL, body, wrong, what, executor_of(terminal_id))
    shown: str | None = reply["title"]
    return shown


def killed(invocation: Invocation, client: GarconClient, terminal_id: str) -> dict[str, Any]:
    """End a terminal; return the answer, whose ``terminal`` is None where there was none."""
    body = {"terminalId": terminal_id, "requestId": client.system.uuid()}

    def wrong(reply: dict[str, Any]) -> str | None:
        last = reply.get("terminal", ())
        is_right = last is None or is_terminal(last, executor_of(terminal_id))
        return None if is_right and reply.get("terminalId") == terminal_id else "terminal"

    what = "the end of the terminal"
    return change(
        invocation, client, TERMINATE_TERMINAL, body, wrong, what, executor_of(terminal_id)
    )


def change(
    invocation: Invocation,
    client: GarconClient,
    route: Route,
    body: dict[str, Any],
    wrong: Callable[[dict[str, Any]], str | None],
    what: str,
    executor: str,
) -> dict[str, Any]:
    """Send a change, the same request again where its answer is lost, and return the answer."""
    look = invocation.command("terminal", "list", "--executor", executor)
    invocation.interruption = f"interrupted; {what} may have been accepted (look with: {look})"
    try:
        return submit(client, route, body, wrong, what, look, is_settled_by_any_code=True)
    except Refused as e:
        raise _failure(invocation, e.error) from None


def _failure(invocation: Invocation, error: GarconError) -> CommandFailure:
    failure = failure_of(error, TERMINAL)
    if isinstance(error, ApiError) and error.status == 401:
        return not_accepted(invocation)
    if isinstance(error, ApiError) and error.code == "terminal-limit":
        failure.text += "; end one with `garcon terminal kill`"
    return failure


def wished_executor(invocation: Invocation) -> str | None:
    """Return what ``--executor`` names."""
    executor = invocation.parsed.text("executor")
    return None if executor is None else inputs.executor_id(executor)


def named(invocation: Invocation) -> tuple[str, str | None]:
    """Return what was typed for a terminal, and the executor that is said or part of it."""
    name = inputs.operand(invocation.parsed.operands[0], "the terminal")
    executor = wished_executor(invocation)
    if "/" not in name:
        is_number = name.isascii() and name.isdigit()
        if not is_number and len(name) < SHORTEST_PREFIX:
            raise bad_arguments(
                f"a terminal is named by its number, the first {SHORTEST_PREFIX} or more characters"
                " that `garcon terminal list` shows for it, or its whole id"
            )
        return name, executor
    parts = name.split("/")
    if len(parts) != 3 or not (is_uuid4(parts[1]) and is_uuid4(parts[2])):
        raise bad_arguments(f"{name!r} is not the id of a terminal")
    inputs.executor_id(parts[0])
    if executor not in (None, parts[0]):
        raise bad_arguments("the terminal's id names another --executor")
    return name, parts[0]


def find(invocation: Invocation, client: GarconClient, name: str, executor: str | None) -> str:
    """Return the id of the terminal that is meant; a whole id is not looked up."""
    if "/" in name:
        return name
    executor = executor or client.context.default_executor_id
    there = listed(invocation, client, executor)
    found = [one for one in there if str(one["displaySequence"]) == name]
    if not found and len(name) >= SHORTEST_PREFIX:
        found = [one for one in there if session_of(one).startswith(name.lower())]
    if len(found) == 1:
        terminal_id: str = found[0]["terminalId"]
        return terminal_id
    look = invocation.command("terminal", "list", "--executor", executor)
    why = "more than one terminal begins with" if found else "there is no terminal"
    raise CommandFailure(
        TERMINAL, f"{why} {name} on executor {executor} (look with: {look})", BAD_REQUEST
    )


def is_terminal(value: object, executor: str) -> bool:
    """Whether this describes a terminal of an executor, as far as the command reads it."""
    if not isinstance(value, dict) or not all(isinstance(value.get(n), str) for n in _TEXTS):
        return False
    numbers = (value.get("displaySequence"), value.get("latestOutputSequence"))
    nothing = (value.get("title", ""), value.get("exitCode", ""))
    return (
        all(type(number) is int for number in numbers)
        and (nothing[0] is None or isinstance(value.get("title"), str))
        and (nothing[1] is None or type(value.get("exitCode")) is int)
        and executor_of(value["terminalId"]) == executor
        and value["terminalId"].count("/") == 2
    )


def executor_of(terminal_id: str) -> str:
    """Return the executor that an id names."""
    return terminal_id.partition("/")[0]


def session_of(terminal: dict[str, Any]) -> str:
    """Return the session's UUID, by whose beginning people name it."""
    session: str = terminal["terminalId"].rpartition("/")[2]
    return session


def checked_title(text: str, what: str) -> str:
    """Return a title as the controller takes it: trimmed, perhaps empty."""
    title = text.strip()
    if any(c < " " or c == "\x7f" for c in title):
        raise bad_arguments(f"{what} has a control character")
    if len(title) > TERMINAL_TITLE_CHARACTERS:
        raise bad_arguments(f"{what} is longer than {TERMINAL_TITLE_CHARACTERS} characters")
    if title:
        inputs.operand(title, what)
    return title
