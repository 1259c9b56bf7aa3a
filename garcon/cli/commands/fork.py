"""`fork` and `fork-async`: a chat made of another one's conversation, with a first turn or without.

With a turn the command has an identity and is repeated safely; without one it has none, and is
never repeated.
"""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.failures import (
    DONE,
    OPERATIONAL,
    SUBMISSION,
    ApiError,
    BadAnswer,
    CommandFailure,
    RuntimeReplaced,
    TransportFailure,
    failure_of,
)
from garcon.cli.receipts import Turn
from garcon.cli.submission import accepted_as, is_definite, submit
from garcon.cli.turns import finish, print_handle, receipt_of, update_title, waiting
from garcon.contract.routes import FORK, FORK_RUN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.client import GarconClient
    from garcon.cli.invocation import Invocation

FORK_TIME = 600.0
"""A long conversation takes its time to be copied; nobody else bounds that (control.md F.5)."""


def run(invocation: Invocation) -> int:
    """Fork a chat; with a prompt, wait for its answer."""
    chat_id = inputs.chat_id(invocation.parsed.operands[0])
    invocation.check_selection()
    words = invocation.parsed.operands[1:]
    if words:
        return _run(invocation, "fork", chat_id, invocation.prompt(words), wait=True)
    return _fork(invocation, chat_id)


def run_async(invocation: Invocation) -> int:
    """Fork a chat and return once its first turn is accepted."""
    chat_id = inputs.chat_id(invocation.parsed.operands[0])
    invocation.check_selection()
    prompt = invocation.prompt(invocation.parsed.operands[1:])
    return _run(invocation, "fork-async", chat_id, prompt, wait=False)


def _fork(invocation: Invocation, source_id: str) -> int:
    client = invocation.connect()
    body = _body(invocation, client, source_id)
    chat_id = body["chatId"]
    invocation.interruption = (
        f"interrupted; no Garcon agent was stopped, and chat {chat_id} may have been made"
    )
    try:
        reply = client.call(FORK, body=body, seconds=FORK_TIME)
        chat = reply.get("chat")
        if not isinstance(chat, dict) or chat.get("id") != chat_id:
            raise BadAnswer("the answer belongs to another command")
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        failure = _advised(failure_of(e, SUBMISSION))
        if not is_definite(e):
            look = invocation.command("status", chat_id)
            failure.text = f"chat {chat_id} may have been made; {failure.text} (look with: {look})"
            failure.exit_status = OPERATIONAL
        raise failure from None
    if invocation.json:
        said = invocation.envelope("fork", client.context, sourceChatId=source_id, chat=chat)
        invocation.print_json(said)
    else:
        invocation.system.out(f"chat id: {chat_id}\n")
    return DONE


def _run(invocation: Invocation, name: str, source_id: str, prompt: str, *, wait: bool) -> int:
    client = invocation.connect()
    body = _body(invocation, client, source_id)
    body["clientRequestId"] = client.system.uuid()
    body["clientMessageId"] = client.system.uuid()
    body["command"] = prompt
    chat_id = body["chatId"]
    invocation.interruption = (
        f"interrupted; no Garcon agent was stopped, and chat {chat_id} may have been made"
    )
    check = accepted_as("fork-run", body, "turnId")
    try:
        look = invocation.command("status", chat_id)
        reply = submit(client, FORK_RUN, body, check, f"chat {chat_id}", look, seconds=FORK_TIME)
    except CommandFailure as failure:
        raise _advised(failure) from None
    turn = Turn(chat_id, reply["turnId"], body["clientRequestId"], body["clientMessageId"])
    print_handle(invocation, turn)
    waiting(invocation, turn)
    envelope = invocation.envelope(
        name,
        client.context,
        sourceChatId=source_id,
        receipt=receipt_of(reply),
        parentChat=reply.get("parentChat"),
        chat=reply.get("chat"),
    )
    if wait:
        return finish(invocation, client, turn, envelope, update_title(client, chat_id, None))
    if invocation.json:
        invocation.print_json(envelope)
    return DONE


def _body(invocation: Invocation, client: GarconClient, source_id: str) -> dict[str, Any]:
    body: dict[str, Any] = {"sourceChatId": source_id, "chatId": client.system.chat_id()}
    if invocation.parsed.flag("allow-handoff-fork"):
        body["allowHandoffFork"] = True
    return body


def _advised(failure: CommandFailure) -> CommandFailure:
    if failure.code == "TRANSCRIPT_NOT_YET_PERSISTED":
        failure.text += (
            "; the agent's own session cannot be forked there yet: try later, or say"
            " --allow-handoff-fork to begin a new one that is told the conversation"
        )
    return failure
