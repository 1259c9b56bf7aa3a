"""`start` and `start-async`: a new chat and its first turn."""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.failures import (
    CATALOG,
    DONE,
    SUBMISSION,
    ApiError,
    CommandFailure,
    RuntimeReplaced,
    TransportFailure,
    bad_arguments,
    failure_of,
)
from garcon.cli.receipts import Turn
from garcon.cli.selection import (
    Catalog,
    Defaults,
    choose_model,
    permission_mode,
    reasoning_effort,
)
from garcon.cli.submission import Refused, accepted_as, submit
from garcon.cli.turns import finish, print_handle, receipt_of, update_title, waiting
from garcon.contract.routes import MODELS, READ_SETTINGS, START_CHAT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.client import GarconClient
    from garcon.cli.invocation import Invocation

COLLISIONS = 3
"""How often a start is repeated under a new chat id."""


def run(invocation: Invocation) -> int:
    """Start a chat and wait for its answer."""
    return _start(invocation, "start", wait=True)


def run_async(invocation: Invocation) -> int:
    """Start a chat and return once it is accepted."""
    return _start(invocation, "start-async", wait=False)


def _start(invocation: Invocation, name: str, wait: bool) -> int:
    parsed = invocation.parsed
    agent_id, model = inputs.required(parsed, "agent"), inputs.required(parsed, "model")
    executor = parsed.text("executor")
    if executor is not None:
        inputs.executor_id(executor)
    if parsed.text("endpoint") is not None and parsed.text("provider") is None:
        raise bad_arguments("--endpoint needs --provider")
    title = inputs.title(parsed)
    inputs.optional(parsed, "cwd")
    body: dict[str, Any] = {"agentId": agent_id, "tags": inputs.tags(parsed), "origin": "cli"}
    parent = parsed.text("parent")
    if parent is not None:
        body["parentChatId"] = inputs.chat_id(parent, "--parent")
    preambles = inputs.preambles(parsed)
    if preambles is not None:
        body["orderedPreambleIds"] = preambles
    presentation = inputs.presentation(parsed)
    if presentation is not None:
        body["userMessagePresentation"] = presentation
    invocation.check_selection()
    body["command"] = invocation.prompt(parsed.operands)

    client = invocation.connect()
    target = executor or client.context.default_executor_id
    body["executorId"] = target
    body["projectPath"] = _project_path(invocation, target, client.context.default_executor_id)
    catalog, defaults = read_catalog(client, target, agent_id)
    agent = catalog.agent(agent_id)
    chosen = choose_model(catalog, agent, model, parsed.text("provider"), parsed.text("endpoint"))
    body |= chosen.fields()
    body["permissionMode"] = permission_mode(agent, parsed.text("permissions"), defaults)
    body["thinkingMode"] = reasoning_effort(agent, parsed.text("reasoning-effort"), defaults)
    body["agentSettings"] = defaults.agent_settings(agent)

    invocation.interruption = (
        "interrupted; no Garcon agent was stopped, and the chat may have been started"
    )
    reply = _submit(invocation, client, body)
    turn = Turn(reply["chatId"], reply["turnId"], reply["clientRequestId"], body["clientMessageId"])
    print_handle(invocation, turn)
    waiting(invocation, turn)
    update = update_title(client, turn.chat_id, title)
    envelope = invocation.envelope(
        name,
        client.context,
        receipt=receipt_of(reply),
        parentChat=reply.get("parentChat"),
        titleUpdate=update.envelope,
    )
    if wait:
        return finish(invocation, client, turn, envelope, update)
    if invocation.json:
        invocation.print_json(envelope)
    if update.failure is not None:
        invocation.system.err(update.failure.line())
        return update.failure.exit_status
    return DONE


def read_catalog(client: GarconClient, executor_id: str, agent_id: str) -> tuple[Catalog, Defaults]:
    """Return an executor's catalog of one agent, and the stored defaults."""
    try:
        catalog = client.call(MODELS, [("executorId", executor_id), ("agent", agent_id)])
        settings = client.call(READ_SETTINGS)
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        raise failure_of(e, CATALOG) from None
    return Catalog(catalog), Defaults(settings)


def _project_path(invocation: Invocation, target: str, origin: str) -> str:
    cwd = invocation.parsed.text("cwd")
    if target == origin:
        return invocation.directory(cwd)
    if cwd is None or not inputs.is_absolute_anywhere(cwd):
        raise bad_arguments(
            f"executor {target} is not the one this command belongs to ({origin}):"
            " say --cwd with an absolute path there"
        )
    return cwd


def _submit(invocation: Invocation, client: GarconClient, body: dict[str, Any]) -> dict[str, Any]:
    """Submit a start under fresh ids; only a certain collision makes it start over."""
    collisions = 0
    while True:
        body["chatId"] = client.system.chat_id()
        body["clientRequestId"] = client.system.uuid()
        body["clientMessageId"] = client.system.uuid()
        try:
            return submit(
                client,
                START_CHAT,
                body,
                accepted_as("chat-start", body, "turnId"),
                f"chat {body['chatId']}",
                invocation.command("status", body["chatId"]),
            )
        except Refused as e:
            if e.code != "CHAT_ID_COLLISION":
                raise
            collisions += 1
            if collisions > COLLISIONS:
                raise CommandFailure(SUBMISSION, e.text, e.exit_status, e.code) from None
