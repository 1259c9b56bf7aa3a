"""`executor doctor`: why an executor's link is down, and what is left over on its machine."""

from __future__ import annotations

from garcon.cli import inputs, leftovers
from garcon.cli.client import encode
from garcon.cli.doctor import Examination, examine, figures
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
from garcon.cli.submission import is_definite
from garcon.contract.routes import END_PROCESS, EXECUTOR_DIAGNOSTICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.client import GarconClient
    from garcon.cli.invocation import Invocation


def run(invocation: Invocation) -> int:
    """Explain; 0 when the executor is ready, 3 otherwise.  With ``--end``, end a process that is
    left over there instead.
    """
    executor_id = inputs.executor_id(invocation.parsed.operands[0])
    wanted = _process_id(invocation)
    client = invocation.connect()
    try:
        told = client.call(EXECUTOR_DIAGNOSTICS, executor_id=executor_id)
        try:
            left = told.get("leftovers")
            if wanted is not None:
                return _end(invocation, client, executor_id, wanted, left)
            is_local = executor_id == "local"
            found = Examination([], [], True) if is_local else examine(told)
            counters = [] if told["link"] is None else figures(told["link"])
            counters += leftovers.lines(left)
            found.advice += leftovers.advice(executor_id, left)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise BadAnswer("the diagnostics' answer is malformed") from None
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        raise failure_of(e, EXECUTORS) from None
    _print(invocation, told, found, counters)
    return DONE if found.is_ready else OPERATIONAL


def _process_id(invocation: Invocation) -> int | None:
    text = inputs.optional(invocation.parsed, "end")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 1 < int(text) < 2**31):
        raise bad_arguments("--end must be the number of a process that the doctor listed")
    return int(text)


def _end(
    invocation: Invocation,
    client: GarconClient,
    executor_id: str,
    pid: int,
    left: dict[str, Any] | None,
) -> int:
    if left is None:
        text = "the executor's machine does not say now what is left over there"
        raise CommandFailure(EXECUTORS, text, OPERATIONAL, "EXECUTOR_UNAVAILABLE")
    found = leftovers.pick(left, pid)
    look = invocation.command("executor", "doctor", executor_id)
    if found is None:
        raise CommandFailure(
            EXECUTORS,
            f"no process {pid} is left over there (look with: {look})",
            BAD_REQUEST,
            "PROCESS_NOT_FOUND",
        )
    invocation.interruption = f"interrupted; the process may have been ended (look with: {look})"
    body = encode({"pid": pid, "started": found["started"]})
    try:
        client.send(END_PROCESS, data=body, executor_id=executor_id)
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        if is_definite(e):
            raise
        raise CommandFailure(
            EXECUTORS,
            f"the process may have been ended; {e.said()} (look with: {look})",
            OPERATIONAL,
            "CLI_OUTCOME_UNKNOWN",
        ) from None
    if invocation.json:
        invocation.print_json({"pid": pid, "started": found["started"], "ended": True})
    else:
        invocation.system.out(one_line(f"ended process {pid} ({found['name']})") + "\n")
    return DONE


def _print(
    invocation: Invocation, told: dict[str, Any], found: Examination, counters: list[str]
) -> None:
    if invocation.json:
        invocation.print_json(
            {
                "ready": found.is_ready,
                "findings": [finding.as_json() for finding in found.findings],
                "advice": found.advice,
                "diagnostics": told,
            }
        )
        return
    if told["id"] == "local":
        lines = ["Local is the controller itself: it has no link that could be down."]
        _say(invocation, [*lines, *counters], found.advice)
        return
    link = told["link"]
    state = str(told["availability"]) if told["enabled"] else "disabled"
    lines = [f"executor: {told['id']} ({told['label']})", f"status: {state}"]
    if link is not None:
        proxy = ", through a proxy" if link["throughProxy"] else ""
        lines.append(f"dialled by: the {link['dialledBy']}{proxy}")
    lines += [finding.line() for finding in found.findings]
    _say(invocation, [*lines, *counters], found.advice)


def _say(invocation: Invocation, lines: list[str], advice: list[str]) -> None:
    if advice:
        lines = [*lines, "", *advice]
    invocation.system.out("".join(f"{one_line(line)}\n" for line in lines))
