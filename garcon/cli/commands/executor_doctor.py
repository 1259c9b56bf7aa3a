"""`executor doctor`: why an executor's link is down, phase by phase."""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.commands.executor import executors
from garcon.cli.doctor import examine, figures
from garcon.cli.failures import (
    DONE,
    EXECUTORS,
    OPERATIONAL,
    ApiError,
    BadAnswer,
    RuntimeReplaced,
    TransportFailure,
    failure_of,
    one_line,
)
from garcon.contract.routes import EXECUTOR_DIAGNOSTICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.doctor import Examination
    from garcon.cli.invocation import Invocation


def run(invocation: Invocation) -> int:
    """Explain; 0 when the executor is ready, 3 otherwise."""
    executor_id = inputs.executor_id(invocation.parsed.operands[0])
    client = invocation.connect()
    try:
        if executor_id == "local":
            executors(client)  # that somebody answers is all there is to it
            return _local(invocation)
        told = client.call(EXECUTOR_DIAGNOSTICS, executor_id=executor_id)
        try:
            found = examine(told)
            lines = [] if told["link"] is None else figures(told["link"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise BadAnswer("the diagnostics' answer is malformed") from None
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        raise failure_of(e, EXECUTORS) from None
    _print(invocation, told, found, lines)
    return DONE if found.is_ready else OPERATIONAL


def _local(invocation: Invocation) -> int:
    text = "Local is the controller itself: it has no link that could be down."
    if invocation.json:
        invocation.print_json({"ready": True, "findings": [], "advice": [], "diagnostics": None})
    else:
        invocation.system.out(text + "\n")
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
    link = told["link"]
    state = str(told["availability"]) if told["enabled"] else "disabled"
    lines = [f"executor: {told['id']} ({told['label']})", f"status: {state}"]
    if link is not None:
        proxy = ", through a proxy" if link["throughProxy"] else ""
        lines.append(f"dialled by: the {link['dialledBy']}{proxy}")
    lines += [finding.line() for finding in found.findings]
    lines += counters
    if found.advice:
        lines += ["", *found.advice]
    invocation.system.out("".join(f"{one_line(line)}\n" for line in lines))
