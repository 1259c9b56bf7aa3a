"""`resume-async`: send a message to a chat and return at once, as a new turn or, where that is
allowed, as further input for the turn that runs.
"""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.commands.resume import viewed
from garcon.cli.failures import DONE, OPERATIONAL, RESUME, SUBMISSION, CommandFailure
from garcon.cli.snapshots import read_snapshot
from garcon.cli.submission import Refused, accepted_as, submit
from garcon.cli.turns import receipt_of
from garcon.contract.routes import RUN_CHAT, STEER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.client import GarconClient
    from garcon.cli.invocation import Invocation

ATTEMPTS, PAUSE = 3, 0.05
"""How often a chat may change between idle and busy under our hands, and the seconds between."""

PENDING = "pending control state"
"""What the refusal of a run says where messages are queued or the queue is paused (chats.md
5.20).
"""
CHANGED = frozenset({"STEER_TURN_UNAVAILABLE", "STEER_TURN_CHANGED"})


def run(invocation: Invocation) -> int:
    """Send the message; it is never queued."""
    parsed = invocation.parsed
    chat_id = inputs.chat_id(parsed.operands[0])
    presentation = inputs.presentation(parsed)
    invocation.check_selection()
    text = invocation.prompt(parsed.operands[1:])
    client = invocation.connect()
    message: dict[str, Any] = {
        "chatId": chat_id,
        "transcriptViewId": viewed(read_snapshot(client, chat_id, 1, RESUME)),
    }
    if presentation is not None:
        message["userMessagePresentation"] = presentation
    invocation.interruption = "interrupted; the message may have reached Garcon"
    look = invocation.command("status", chat_id)
    reply, delivery = _sent(client, message, text, look, may_steer=parsed.flag("allow-steer"))
    if invocation.json:
        envelope = invocation.envelope(
            "resume-async",
            client.context,
            receipt=receipt_of(reply),
            parentChat=reply.get("parentChat"),
            delivery=delivery,
        )
        invocation.print_json(envelope)
    else:
        invocation.system.out(
            f"chat id: {chat_id}\ndelivery: {delivery}\nturn id: {reply['turnId']}\n"
        )
    return DONE


def _sent(
    client: GarconClient, message: dict[str, Any], text: str, look: str, *, may_steer: bool
) -> tuple[dict[str, Any], str]:
    """Run a turn or steer the one that runs, whichever the chat takes; return the answer and which
    it was.

    The run keeps its identity whenever it is tried again; every steer has one of its own.
    """
    body = message | _identity(client) | {"command": text}
    for attempt in range(ATTEMPTS):
        if attempt:
            client.system.sleep(PAUSE)
        try:
            check = accepted_as("agent-run", body, "turnId")
            return submit(client, RUN_CHAT, body, check, "the message", look), "new-turn"
        except Refused as refusal:
            if refusal.code != "SESSION_BUSY":
                raise
            if not may_steer or PENDING in refusal.text:
                raise _busy(message["chatId"], refusal) from None
        try:
            steer = message | _identity(client) | {"content": text}
            check = accepted_as("steer", steer, "turnId")
            reply = submit(
                client, STEER, steer, check, "the message", look, is_settled_by_any_code=True
            )
            return reply, "steer"
        except Refused as refusal:
            if refusal.code not in CHANGED:
                raise
    raise CommandFailure(
        SUBMISSION,
        f"chat {message['chatId']} changed execution state repeatedly; the message was not sent",
        OPERATIONAL,
        "SESSION_BUSY",
    )


def _identity(client: GarconClient) -> dict[str, str]:
    return {"clientRequestId": client.system.uuid(), "clientMessageId": client.system.uuid()}


def _busy(chat_id: str, refusal: Refused) -> CommandFailure:
    text = (
        f"chat {chat_id} cannot accept a new turn: {refusal.text}. Nothing was queued; wait for it,"
        " say --allow-steer to reach the turn that runs, or look after paused or queued work in"
        " Garcon"
    )
    return CommandFailure(SUBMISSION, text, OPERATIONAL, refusal.code)
