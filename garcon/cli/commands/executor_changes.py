"""`executor create|update|enable|disable|delete`: changing executors, each with one attempt.

Nothing here is ever repeated by itself.  After the request went out, only a definite refusal means
that nothing happened; everything else is told as unknown (control.md I.6).
"""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.client import encode
from garcon.cli.commands.executor import checked, pick, print_executor, remote_id
from garcon.cli.failures import (
    DONE,
    EXECUTORS,
    OPERATIONAL,
    ApiError,
    BadAnswer,
    CommandFailure,
    RuntimeReplaced,
    TransportFailure,
    bad_arguments,
    failure_of,
)
from garcon.cli.submission import is_definite
from garcon.cli.table import CLI_ACCESS, MANAGEMENT
from garcon.contract.limits import LABEL_CHARACTERS, URL_CHARACTERS
from garcon.contract.routes import CREATE_EXECUTOR, DELETE_EXECUTOR, UPDATE_EXECUTOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from garcon.cli.client import GarconClient
    from garcon.cli.invocation import Invocation
    from garcon.contract.routes import Route

_TRUTHS = {
    "no-tls": "noTls",
    "allow-unverified-tls": "allowUnverifiedTls",
    "allow-controller-cli": "allowControllerCli",
    "allow-executor-management": "allowExecutorManagement",
}


def create(invocation: Invocation) -> int:
    """Register a worker and print its new id, never its secret."""
    parsed = invocation.parsed
    body: dict[str, Any] = {
        "label": _label(inputs.required(parsed, "label")),
        "direction": inputs.required(parsed, "direction"),
    }
    dials = body["direction"] == "executor-connects"
    advertised = inputs.optional(parsed, "advertise-url")
    if advertised is not None:
        if not dials:
            raise bad_arguments("--advertise-url goes with --direction executor-connects only")
        body["advertisedUrl"] = advertised
    if dials and parsed.text("connection-url") is not None:
        raise bad_arguments("--connection-url goes with --direction controller-connects only")
    if not dials:
        inputs.required(parsed, "connection-url")
    for option, name in _TRUTHS.items():
        if (value := parsed.truth(option)) is not None:
            body[name] = value
    if dials and body.get("allowUnverifiedTls"):
        raise bad_arguments("--allow-unverified-tls goes with --direction controller-connects only")
    invocation.check_selection()
    if not dials:
        body["connectionUrl"] = _connection_url(invocation)

    client = invocation.connect()
    _warn_of_grants(invocation)

    def created(reply: dict[str, Any]) -> str:
        executor_id = reply.get("id")
        if not isinstance(executor_id, str) or not executor_id or executor_id == "local":
            raise BadAnswer("the new executor's answer is malformed")
        return executor_id

    executor_id = _change(invocation, client, CREATE_EXECUTOR, "", body, created)
    if invocation.json:
        invocation.print_json({"id": executor_id})
        return DONE
    invocation.print(f"{executor_id}\n")
    if dials:
        reveal = invocation.command("executor", "connection", executor_id)
        invocation.system.err(f"the worker's connection URL: {reveal}")
    return DONE


def update(invocation: Invocation) -> int:
    """Change a name, grants, or the whole connection."""
    parsed = invocation.parsed
    executor_id = remote_id(invocation)
    body: dict[str, Any] = {}
    label = inputs.optional(parsed, "label")
    if label is not None:
        body["label"] = _label(label)
    for option in ("allow-controller-cli", "allow-executor-management"):
        if (value := parsed.truth(option)) is not None:
            body[_TRUTHS[option]] = value
    whole = [parsed.text(name) for name in ("direction", "connection-url", "no-tls")]
    edits = any(part is not None for part in (*whole, parsed.text("allow-unverified-tls")))
    if edits and None in whole:
        raise bad_arguments(
            "a connection edit names --direction, --connection-url and --no-tls together"
        )
    if not edits and not body:
        raise bad_arguments("nothing to change was named")
    invocation.check_selection()
    if edits:
        edit: dict[str, Any] = {"direction": whole[0], "noTls": parsed.truth("no-tls")}
        if (unverified := parsed.truth("allow-unverified-tls")) is not None:
            edit["allowUnverifiedTls"] = unverified
        edit["connectionUrl"] = _connection_url(invocation)
        body["connection"] = edit
    client = invocation.connect()
    _warn_of_grants(invocation)
    return _updated(invocation, client, executor_id, body)


def enable(invocation: Invocation) -> int:
    """Let an executor connect."""
    executor_id = remote_id(invocation)
    return _updated(invocation, invocation.connect(), executor_id, {"enabled": True})


def disable(invocation: Invocation) -> int:
    """Disconnect an executor; one that works is refused."""
    executor_id = remote_id(invocation)
    return _updated(invocation, invocation.connect(), executor_id, {"enabled": False})


def delete(invocation: Invocation) -> int:
    """Forget an executor.  Its saved chats stay, and point at nothing."""
    executor_id = remote_id(invocation)
    client = invocation.connect()

    def deleted(reply: dict[str, Any]) -> None:
        if any(executor["id"] == executor_id for executor in checked(reply)):
            raise BadAnswer("the answer still lists the executor")

    _change(invocation, client, DELETE_EXECUTOR, executor_id, None, deleted)
    if invocation.json:
        invocation.print_json({"id": executor_id, "deleted": True})
    else:
        invocation.print(f"deleted {executor_id}\n")
    return DONE


def _updated(
    invocation: Invocation, client: GarconClient, executor_id: str, body: dict[str, Any]
) -> int:
    def changed(reply: dict[str, Any]) -> dict[str, Any]:
        for executor in checked(reply):
            if executor["id"] == executor_id:
                return executor
        raise BadAnswer("the answer does not list the executor")

    executor = _change(invocation, client, UPDATE_EXECUTOR, executor_id, body, changed)
    print_executor(invocation, pick([executor], executor_id))
    return DONE


def _change(
    invocation: Invocation,
    client: GarconClient,
    route: Route,
    executor_id: str,
    body: dict[str, Any] | None,
    read: Callable[[dict[str, Any]], Any],
) -> Any:
    """Send one change and return what `read` finds in its answer."""
    inspect = invocation.command("executor", "list")
    invocation.interruption = (
        f"interrupted; the change may have reached Garcon (look with: {inspect})"
    )
    data = None if body is None else encode(body)
    try:
        return read(client.send(route, data=data, executor_id=executor_id))
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        if is_definite(e):
            raise failure_of(e, EXECUTORS) from None
        raise CommandFailure(
            EXECUTORS,
            f"the change may have been made; {e.said()} (look with: {inspect})",
            OPERATIONAL,
            "CLI_OUTCOME_UNKNOWN",
        ) from None


def _warn_of_grants(invocation: Invocation) -> None:
    parsed = invocation.parsed
    if parsed.truth("allow-controller-cli"):
        invocation.system.err(f"note: {CLI_ACCESS}")
    if parsed.truth("allow-executor-management"):
        invocation.system.err(f"note: {MANAGEMENT}")


def _label(text: str) -> str:
    if len(text.strip()) > LABEL_CHARACTERS:
        raise bad_arguments(f"--label is longer than {LABEL_CHARACTERS} characters")
    return text.strip()


def _connection_url(invocation: Invocation) -> str:
    """Return the worker's URL, from standard input unless it was typed, which is warned about."""
    given = invocation.parsed.text("connection-url") or ""
    if given != "-":
        invocation.system.err(
            "warning: the secret in --connection-url can be seen by other users of this machine;"
            " use --connection-url - and standard input"
        )
        url = given
    else:
        # Two more bytes for the line's end, which does not count.
        url = invocation.stdin_text(URL_CHARACTERS + 2)
        url = url.removesuffix("\n").removesuffix("\r")
    if not url or any(c.isspace() for c in url):
        raise bad_arguments("the connection URL must be one line without spaces")
    try:
        size = len(url.encode())
    except UnicodeEncodeError:
        raise bad_arguments("the connection URL is not valid UTF-8") from None
    if size > URL_CHARACTERS:
        raise bad_arguments(f"the connection URL is longer than {URL_CHARACTERS} bytes")
    return url
