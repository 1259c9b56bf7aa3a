"""`stop`: end a chat's running turn."""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.failures import DONE, OPERATIONAL, SUBMISSION, CommandFailure
from garcon.cli.submission import accepted_as, submit
from garcon.cli.turns import receipt_of
from garcon.contract.routes import STOP_CHAT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.invocation import Invocation

OUTCOMES = ("interrupt-requested", "already-idle", "failed")


def run(invocation: Invocation) -> int:
    """Ask for the turn to be stopped, and say what came of it."""
    chat_id = inputs.chat_id(invocation.parsed.operands[0])
    client = invocation.connect()
    body = {"clientRequestId": client.system.uuid(), "chatId": chat_id}
    check = accepted_as("agent-stop", body, "outcome")

    def wrong(reply: dict[str, Any]) -> str | None:
        if check(reply):
            return check(reply)
        return None if reply["outcome"] in OUTCOMES else "outcome"

    invocation.interruption = "interrupted; the stop command may have reached Garcon"
    look = invocation.command("status", chat_id)
    reply = submit(client, STOP_CHAT, body, wrong, "the stop command", look)
    outcome = reply["outcome"]
    if invocation.json:
        receipt = receipt_of(reply)
        receipt.pop("turnId", None)
        envelope = invocation.envelope(
            "stop",
            client.context,
            receipt=receipt,
            parentChat=reply.get("parentChat"),
            outcome=outcome,
            control=reply.get("control"),
        )
        invocation.print_json(envelope)
    elif outcome != "failed":
        invocation.system.out(f"chat id: {chat_id}\nstop: {outcome}\n")
    if outcome == "failed":
        text = f"the running turn of chat {chat_id} could not be stopped"
        raise CommandFailure(SUBMISSION, text, OPERATIONAL)
    return DONE
