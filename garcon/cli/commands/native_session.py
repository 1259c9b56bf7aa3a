"""`lookup-native-session`: which chat an agent's own session belongs to."""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.failures import (
    BAD_REQUEST,
    DONE,
    SUBMISSION,
    ApiError,
    BadAnswer,
    CommandFailure,
    RuntimeReplaced,
    TransportFailure,
    failure_of,
)
from garcon.contract.routes import LOOKUP_NATIVE_SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.invocation import Invocation


def run(invocation: Invocation) -> int:
    """Print the one chat; none and several fail, and print nothing."""
    parsed = invocation.parsed
    session_id = inputs.operand(parsed.operands[0], "the native session")
    agent_id, executor = inputs.optional(parsed, "agent"), parsed.text("executor")
    if executor is not None:
        inputs.executor_id(executor)
    client = invocation.connect()
    executor = executor or client.context.default_executor_id
    body: dict[str, Any] = {"executorId": executor, "nativeSessionId": session_id}
    if agent_id is not None:
        body["agentId"] = agent_id
    try:
        matches = client.call(LOOKUP_NATIVE_SESSION, body=body).get("matches")
        if not isinstance(matches, list) or not all(_is_match(one) for one in matches):
            raise BadAnswer("the answer to the look-up is malformed")
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        raise failure_of(e, SUBMISSION) from None
    if len(matches) != 1:
        found = ", ".join(f"{one['chatId']} ({one['agentId']})" for one in matches)
        text = (
            f"chats {found} have the native session" if found else "no chat has the native session"
        )
        raise CommandFailure(SUBMISSION, f"{text} {session_id} on executor {executor}", BAD_REQUEST)
    invocation.system.out(f"{matches[0]['chatId']}\n")
    return DONE


def _is_match(match: object) -> bool:
    return isinstance(match, dict) and all(
        isinstance(match.get(name), str) for name in ("chatId", "agentId")
    )
