"""`resume`: another turn in a chat, on the executor and with the agent that own it.

Everything it chooses from comes from the chat's own snapshot and that executor's catalog, never
from the endpoint's defaults or the list of chats (decisions.md 25).
"""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.commands.start import read_catalog
from garcon.cli.failures import CATALOG, OPERATIONAL, RESUME, CommandFailure, bad_arguments
from garcon.cli.receipts import Turn
from garcon.cli.selection import (
    Catalog,
    choose_model,
    permission_mode,
    reasoning_effort,
)
from garcon.cli.snapshots import executor_of, read_snapshot
from garcon.cli.submission import accepted_as, submit
from garcon.cli.turns import finish, print_handle, receipt_of, update_title, waiting
from garcon.contract.routes import MODELS, RUN_CHAT, RUN_WITH_HANDOFF_DEADLINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.client import GarconClient
    from garcon.cli.invocation import Invocation
    from garcon.cli.options import Parsed

FALLBACK_POLICY = "require-explicit-bypass"


def run(invocation: Invocation) -> int:
    """Run a turn and wait for its answer."""
    parsed = invocation.parsed
    chat_id = inputs.chat_id(parsed.operands[0])
    title = inputs.title(parsed)
    for name in ("agent", "model", "provider", "endpoint"):
        inputs.optional(parsed, name)
    if parsed.text("endpoint") is not None and parsed.text("provider") is None:
        raise bad_arguments("--endpoint needs --provider")
    if parsed.text("provider") is not None and parsed.text("model") is None:
        raise bad_arguments("--provider needs --model")
    presentation = inputs.presentation(parsed)
    invocation.check_selection()
    prompt = invocation.prompt(parsed.operands[1:])

    client = invocation.connect()
    snapshot = read_snapshot(client, chat_id, 1, RESUME)
    view = viewed(snapshot)
    body: dict[str, Any] = {
        "clientRequestId": client.system.uuid(),
        "clientMessageId": client.system.uuid(),
        "chatId": chat_id,
        "transcriptViewId": view,
        "command": prompt,
        "permissionFallbackPolicy": FALLBACK_POLICY,
    }
    if presentation is not None:
        body["userMessagePresentation"] = presentation
    body |= selected(client, parsed, snapshot)

    invocation.interruption = (
        "interrupted; no Garcon agent was stopped, and the turn may have been accepted"
    )
    seconds = RUN_WITH_HANDOFF_DEADLINE if "handoff" in body else None
    check = accepted_as("agent-run", body, "turnId")
    look = invocation.command("status", chat_id)
    reply = submit(client, RUN_CHAT, body, check, "the turn", look, seconds=seconds)
    turn = Turn(chat_id, reply["turnId"], body["clientRequestId"], body["clientMessageId"])
    print_handle(invocation, turn)
    waiting(invocation, turn)
    update = update_title(client, chat_id, title)
    envelope = invocation.envelope(
        "resume",
        client.context,
        receipt=receipt_of(reply),
        parentChat=reply.get("parentChat"),
        delivery="new-turn",
        titleUpdate=update.envelope,
    )
    return finish(invocation, client, turn, envelope, update)


def viewed(snapshot: dict[str, Any]) -> str:
    """Return the view that a chat's next input is meant for, or fail for one that has none."""
    transcript = snapshot["transcript"]
    if transcript["availability"] != "available":
        code = transcript.get("errorCode", "")
        text = f"the transcript of chat {snapshot['chat']['id']} is unavailable ({code})"
        raise CommandFailure(RESUME, text, OPERATIONAL, code)
    view: str = transcript["transcriptViewId"]
    return view


def selected(client: GarconClient, parsed: Parsed, snapshot: dict[str, Any]) -> dict[str, Any]:
    """Return the request members of what was chosen for this turn.

    A choice made from a catalog is bound to the ownership it was made for: by the expected epoch
    of an ordinary run, or by the hand-off's own.
    """
    chat = snapshot["chat"]
    owner, epoch = chat["agentId"], chat["agentOwnershipEpoch"]
    agent_id = parsed.text("agent")
    if agent_id is not None and agent_id != owner:
        return {"handoff": _handoff(client, parsed, snapshot, agent_id)}
    fields: dict[str, Any] = {}
    if agent_id is not None:
        fields["expectedAgentId"] = agent_id
    asked = {name: parsed.text(name) for name in ("model", "permissions", "reasoning-effort")}
    if not any(asked.values()):
        return fields
    catalog = _catalog(client, executor_of(snapshot), owner)
    agent = catalog.agent(owner)
    if asked["model"] is not None:
        chosen = choose_model(
            catalog, agent, asked["model"], parsed.text("provider"), parsed.text("endpoint")
        )
        fields |= chosen.fields()
    if asked["permissions"] is not None:
        fields["permissionMode"] = permission_mode(agent, asked["permissions"], None)
    if asked["reasoning-effort"] is not None:
        fields["thinkingMode"] = reasoning_effort(agent, asked["reasoning-effort"], None)
    fields["expectedAgentOwnershipEpoch"] = epoch
    return fields


def _catalog(client: GarconClient, executor_id: str, agent_id: str) -> Catalog:
    from garcon.cli.failures import ApiError, RuntimeReplaced, TransportFailure, failure_of

    try:
        return Catalog(client.call(MODELS, [("executorId", executor_id), ("agent", agent_id)]))
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        raise failure_of(e, CATALOG) from None


def _handoff(
    client: GarconClient, parsed: Parsed, snapshot: dict[str, Any], agent_id: str
) -> dict[str, Any]:
    """Return a hand-over to another agent of the same executor, with that agent's defaults."""
    catalog, defaults = read_catalog(client, executor_of(snapshot), agent_id)
    agent = catalog.agent(agent_id)
    model = parsed.text("model") or agent["defaultModel"]
    if not model:
        raise bad_arguments(f"agent {agent_id!r} has no default model: say --model")
    chosen = choose_model(catalog, agent, model, parsed.text("provider"), parsed.text("endpoint"))
    target = {"agentId": agent_id, **chosen.fields()}
    target["permissionMode"] = permission_mode(agent, parsed.text("permissions"), defaults)
    target["thinkingMode"] = reasoning_effort(agent, parsed.text("reasoning-effort"), defaults)
    target["agentSettings"] = defaults.agent_settings(agent)
    epoch = snapshot["chat"]["agentOwnershipEpoch"]
    return {"expectedAgentOwnershipEpoch": epoch, "target": target}
