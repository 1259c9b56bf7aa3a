"""What `start` and `resume` share after a turn was accepted: its title, its wait, its answer."""

from __future__ import annotations

from garcon.cli.failures import (
    DONE,
    TITLE,
    ApiError,
    BadAnswer,
    CommandFailure,
    RuntimeReplaced,
    TransportFailure,
    failure_of,
)
from garcon.cli.submission import is_definite
from garcon.contract.routes import SESSION_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.client import GarconClient
    from garcon.cli.invocation import Invocation
    from garcon.cli.receipts import Turn


class TitleUpdate:
    """Whether a chat got its title.  `failure` is told after the answer, and then decides."""

    def __init__(self, envelope: dict[str, Any], failure: CommandFailure | None = None) -> None:
        self.envelope = envelope
        self.failure = failure


def update_title(client: GarconClient, chat_id: str, title: str | None) -> TitleUpdate:
    """Give the chat its title.  One attempt: a title is not worth an uncertain repetition."""
    if title is None:
        return TitleUpdate({"status": "not-requested"})
    try:
        reply = client.call(SESSION_NAME, body={"chatId": chat_id, "title": title})
        if reply.get("success") is not True:
            raise BadAnswer("the title's answer is malformed")
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        failure = failure_of(e, TITLE)
        if not is_definite(e):
            failure.text = f"the title may have been changed; {failure.text}"
        error = {"phase": TITLE, "errorCode": e.code or None, "message": failure.text}
        return TitleUpdate({"status": "failed", "error": error}, failure)
    stored = reply.get("title")
    return TitleUpdate(
        {
            "status": "succeeded",
            "title": stored if isinstance(stored, str) else title,
            "changed": reply.get("changed") is not False,
        }
    )


def receipt_of(reply: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an acceptance that automation reads (control.md I.7)."""
    names = ("commandType", "clientRequestId", "chatId", "turnId", "status", "acceptedAt")
    return {name: reply[name] for name in names if name in reply}


def print_handle(invocation: Invocation, turn: Turn) -> None:
    """Print what names the turn, before anything is waited for."""
    if not invocation.json:
        invocation.system.out(f"chat id: {turn.chat_id}\nturn id: {turn.turn_id}\n")


def waiting(invocation: Invocation, turn: Turn) -> None:
    """From here on Ctrl-C only ends the wait, and says how to go on."""
    again = invocation.command("wait", turn.chat_id, "--turn", turn.turn_id)
    invocation.interruption = (
        f"interrupted while waiting; no Garcon agent was stopped (go on with: {again})"
    )


def finish(
    invocation: Invocation,
    client: GarconClient,
    turn: Turn,
    envelope: dict[str, Any],
    title: TitleUpdate,
) -> int:
    """Wait for the turn, print its answer, and return the exit status."""
    from garcon.cli.receipts import await_receipt, envelope_of, outcome
    from garcon.cli.rows import complete

    waiting(invocation, turn)
    receipt = await_receipt(client, turn)
    ended = outcome(receipt)
    if ended is None or invocation.json:
        complete(client, turn, receipt)
    if invocation.json:
        invocation.print_json(envelope | {"turnReceipt": envelope_of(receipt)})
    elif ended is None:
        print_answer(invocation, receipt)
    status = DONE
    for failure in (ended, title.failure):
        if failure is not None:
            invocation.system.err(failure.line())
            status = status or failure.exit_status
    return status


def print_answer(invocation: Invocation, receipt: dict[str, Any]) -> None:
    """Print a completed turn's text; nothing at all when it is blank."""
    from garcon.cli.receipts import output_text

    text = output_text(receipt["output"])
    if text.strip():
        invocation.print(text if text.endswith("\n") else text + "\n")
