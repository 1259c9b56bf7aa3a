"""`permission-decision`: answer an agent's request, exactly once."""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.failures import (
    DONE,
    OPERATIONAL,
    SUBMISSION,
    CommandFailure,
    bad_arguments,
)
from garcon.cli.submission import accepted_as, submit
from garcon.cli.turns import receipt_of
from garcon.contract.routes import PERMISSION_DECISION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from garcon.cli.invocation import Invocation


def run(invocation: Invocation) -> int:
    """Decide one request; the same decision may be repeated, the opposite one conflicts."""
    parsed = invocation.parsed
    chat_id = inputs.chat_id(parsed.operands[0])
    occurrence, decision = inputs.operand(parsed.operands[1], "the occurrence"), parsed.operands[2]
    if decision not in ("allow", "deny"):
        raise bad_arguments("the decision must be allow or deny")
    run_id = inputs.required(parsed, "run")
    instance = inputs.required(parsed, "server-instance")
    client = invocation.connect()
    if instance != client.context.server_instance_id:
        raise CommandFailure(
            SUBMISSION,
            "another controller runs now: the request is no longer open"
            f" (see: {invocation.command('status', chat_id)})",
            OPERATIONAL,
            "PERMISSION_NOT_ACTIONABLE",
        )
    body = {
        "clientRequestId": request_id(instance, chat_id, run_id, occurrence),
        "chatId": chat_id,
        "permissionOccurrenceId": occurrence,
        "allow": decision == "allow",
        "alwaysAllow": False,
        "control": {
            "serverInstanceId": instance,
            "chatId": chat_id,
            "runId": run_id,
            "permissionOccurrenceId": occurrence,
        },
    }
    invocation.interruption = "interrupted; the decision may have reached Garcon"
    reply = submit(
        client,
        PERMISSION_DECISION,
        body,
        accepted_as("permission-decision", body),
        "the decision",
        invocation.command("status", chat_id),
    )
    if invocation.json:
        envelope = invocation.envelope(
            "permission-decision",
            client.context,
            receipt=receipt_of(reply),
            permissionOccurrenceId=occurrence,
            decision=decision,
        )
        invocation.print_json(envelope)
    else:
        invocation.print(
            f"chat id: {chat_id}\npermission: {occurrence}\ndecision: {decision}\n"
            f"status: {reply['status']}\n"
        )
    return DONE


def request_id(instance: str, chat_id: str, run_id: str, occurrence: str) -> str:
    """Return the one request id of this question, whatever the answer."""
    from hashlib import sha256

    said = "\0".join((instance, chat_id, run_id, occurrence))
    return f"cli-permission-{sha256(said.encode()).hexdigest()}"
