"""`executor list|show|connection|wait`: reading executors."""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.client import REQUEST_TIME
from garcon.cli.failures import (
    BAD_REQUEST,
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
    one_line,
)
from garcon.cli.receipts import may_retry
from garcon.cli.render import table, yes
from garcon.contract.routes import LIST_EXECUTORS, REVEAL_CONNECTION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.client import GarconClient
    from garcon.cli.invocation import Invocation

POLL_EVERY = 0.5
LONGEST_WAIT = 3_600
_AVAILABILITY = ("ready", "reconnecting", "offline")


def list_executors(invocation: Invocation) -> int:
    """List them all."""
    client = invocation.connect()
    found = _read(client)
    if invocation.json:
        invocation.print_json({"executors": found})
        return DONE
    rows = [
        [
            e["id"],
            e["label"],
            status_of(e),
            bulk_of(e),
            yes(e["allowControllerCli"]),
            yes(e["allowExecutorManagement"]),
        ]
        for e in found
    ]
    invocation.system.out(table(("ID", "LABEL", "STATUS", "BULK", "CLI", "MANAGEMENT"), rows))
    return DONE


def show(invocation: Invocation) -> int:
    """Show one."""
    executor_id = inputs.executor_id(invocation.parsed.operands[0])
    print_executor(invocation, pick(_read(invocation.connect()), executor_id))
    return DONE


def connection(invocation: Invocation) -> int:
    """Reveal a connection URL: on standard output, or in a new private file."""
    executor_id = remote_id(invocation)
    output = inputs.optional(invocation.parsed, "output")
    if output is not None and invocation.json:
        raise bad_arguments("--output and --json exclude each other")
    client = invocation.connect()
    try:
        said = client.call(REVEAL_CONNECTION, executor_id=executor_id)
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        raise failure_of(e, EXECUTORS) from None
    url = said.get("connectionUrl")
    flags = [said.get(name) for name in ("noTls", "allowUnverifiedTls")]
    if not isinstance(url, str) or not url or not all(isinstance(f, bool) for f in flags):
        raise CommandFailure(EXECUTORS, "the connection's answer is malformed", OPERATIONAL)
    if invocation.json:
        names = ("connectionUrl", "noTls", "allowUnverifiedTls")
        invocation.print_json({name: said[name] for name in names})
    elif output is not None:
        _write(output, url)
    else:
        invocation.print(f"{url}\n")
    return DONE


def _write(path: str, url: str) -> None:
    from garcon.local.files import write_private

    try:
        write_private(path, url.encode() + b"\n", replace=False)
    except FileExistsError:
        raise bad_arguments(f"--output {path} exists already") from None
    except OSError as e:
        text = f"cannot write {path}: {e.strerror or e}"
        raise CommandFailure(EXECUTORS, text, OPERATIONAL) from None


def wait(invocation: Invocation) -> int:
    """Wait until an executor is ready, bearing what may pass within the time."""
    parsed = invocation.parsed
    executor_id = inputs.executor_id(parsed.operands[0])
    if not parsed.flag("ready"):
        raise bad_arguments("`garcon executor wait` needs --ready")
    timeout = _timeout(parsed.text("timeout"))
    client = invocation.connect()
    deadline = client.system.clock() + timeout
    last = "it was not seen"
    in_doubt = False
    while True:
        try:
            left = max(deadline - client.system.clock(), POLL_EVERY)
            if in_doubt:
                # Whoever answers now must prove itself before it is shown the capability again.
                client.verify(left)
                in_doubt = False
                left = max(deadline - client.system.clock(), POLL_EVERY)
            executor = pick(executors(client, min(left, REQUEST_TIME)), executor_id)
            if not executor["enabled"]:
                raise CommandFailure(EXECUTORS, f"executor {executor_id} is disabled", OPERATIONAL)
            if executor["availability"] == "ready":
                print_executor(invocation, executor)
                return DONE
            last = f"it is {executor['availability']}{_why(executor)}"
        except BadAnswer as e:
            raise failure_of(e, EXECUTORS) from None
        except (ApiError, TransportFailure, RuntimeReplaced) as e:
            if isinstance(e, RuntimeReplaced) or not may_retry(e):
                raise failure_of(e, EXECUTORS) from None
            in_doubt = True
            last = e.said()
        if client.system.clock() + POLL_EVERY > deadline:
            text = f"executor {executor_id} was not ready within {timeout} s: {last}"
            raise CommandFailure(EXECUTORS, text, OPERATIONAL)
        client.system.sleep(POLL_EVERY)


def _timeout(text: str | None) -> int:
    if text is None:
        return 30
    fine = text.isascii() and text.isdigit() and len(text) <= 4
    if not fine or not 1 <= int(text) <= LONGEST_WAIT:
        raise bad_arguments(f"--timeout must be a number of seconds from 1 to {LONGEST_WAIT}")
    return int(text)


def remote_id(invocation: Invocation) -> str:
    """Return the operand that must name a worker's executor."""
    executor_id = inputs.executor_id(invocation.parsed.operands[0])
    if executor_id == "local":
        raise bad_arguments("Local is the controller itself; it has no such settings")
    return executor_id


def executors(client: GarconClient, seconds: float | None = None) -> list[dict[str, Any]]:
    """Return every executor's snapshot, checked for what the command reads."""
    return checked(client.call(LIST_EXECUTORS, seconds=seconds))


def checked(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the snapshots of an answer, or raise `BadAnswer`."""
    found = reply.get("executors")
    if not isinstance(found, list):
        raise BadAnswer("the executors' answer is malformed")
    for executor in found:
        fine = (
            isinstance(executor, dict)
            and all(isinstance(executor.get(name), str) for name in ("id", "label", "kind"))
            and all(
                isinstance(executor.get(name), bool)
                for name in ("enabled", "allowControllerCli", "allowExecutorManagement")
            )
            and executor.get("availability") in _AVAILABILITY
        )
        if not fine:
            raise BadAnswer("the executors' answer is malformed")
    return found


def _read(client: GarconClient) -> list[dict[str, Any]]:
    try:
        return executors(client)
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        raise failure_of(e, EXECUTORS) from None


def pick(found: list[dict[str, Any]], executor_id: str) -> dict[str, Any]:
    """Return one executor, which must exist."""
    for executor in found:
        if executor["id"] == executor_id:
            return executor
    raise CommandFailure(EXECUTORS, f"there is no executor {executor_id}", BAD_REQUEST)


def print_executor(invocation: Invocation, executor: dict[str, Any]) -> None:
    """Print one snapshot."""
    if invocation.json:
        invocation.print_json(executor)
        return
    services = executor.get("machineServices")
    services = services if isinstance(services, dict) else {}
    pairs = [
        ("id", executor["id"]),
        ("label", executor["label"]),
        ("kind", executor["kind"]),
        ("direction", executor.get("direction")),
        ("status", status_of(executor)),
        ("bulk", bulk_of(executor)),
        ("cli access", _access(executor)),
        ("executor management", yes(executor["allowExecutorManagement"])),
        ("instance", executor.get("instanceId")),
        ("project base", executor.get("projectBasePath")),
        ("machine services", ", ".join(n for n, on in services.items() if on is True) or "none"),
        ("last error", _error(executor.get("lastError"))),
    ]
    lines = [f"{label}: {one_line(str(value))}\n" for label, value in pairs if value]
    invocation.system.out("".join(lines))


def _access(executor: dict[str, Any]) -> str:
    """Say what CLI access means wherever it is shown to be given."""
    if not executor["allowControllerCli"] or executor["kind"] == "local":
        return yes(executor["allowControllerCli"])
    return "yes (its account may run commands on every executor, local included)"


def status_of(executor: dict[str, Any]) -> str:
    """Return an executor's state in one word."""
    state: str = executor["availability"]
    return state if executor["enabled"] else "disabled"


def bulk_of(executor: dict[str, Any]) -> str:
    """Return the state of an executor's bulk lane, if it has one."""
    bulk = executor.get("bulk")
    return str(bulk.get("availability", "")) if isinstance(bulk, dict) else ""


def _error(error: object) -> str:
    if not isinstance(error, dict):
        return ""
    return f"{error.get('message')} ({error.get('code')})"


def _why(executor: dict[str, Any]) -> str:
    error = _error(executor.get("lastError"))
    return f": {error}" if error else ""
