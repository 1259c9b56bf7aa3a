"""What agents of this protocol are known to say: version 1, schema 1.19, and what opencode 1.18,
Gemini CLI 0.61 and Claude Code by ACP 0.16 add to it.  Whatever else comes is counted and kept
(`unknown.py`).
"""

from __future__ import annotations

from typing import Any

from garcon.runtime.agents.acp_content import KINDS
from garcon.runtime.agents.acp_wire import an_object, objects_of, text_of
from garcon.runtime.agents.conversation import Output, Unknown
from garcon.runtime.agents.unknown import new_fields

_UPDATES = """
agent_message_chunk: content messageId
agent_thought_chunk: content messageId
available_commands_update: availableCommands
config_option_update: configOptions
current_mode_update: currentModeId
plan: entries
session_info_update: title updatedAt
tool_call: content kind locations rawInput rawOutput status title toolCallId
tool_call_update: content kind locations rawInput rawOutput status title toolCallId
usage_update: cost size used
user_message_chunk: content messageId
"""
_ANSWERS = """
initialize: agentCapabilities agentInfo authMethods protocolVersion
opened: configOptions models modes sessionId
prompt: stopReason usage userMessageId
"""
_REQUEST = frozenset({"_meta", "options", "sessionId", "toolCall"})
_UPDATE = frozenset({"_meta", "sessionId", "update"})
_CALL_PIECES = frozenset({"content", "diff"})
"""A terminal is none: we offer none."""
REFUSED = ("fs/", "terminal/", "elicitation/", "mcp/")
"""How the methods begin that the protocol has and we offer none of."""


def _table(text: str, *every: str) -> dict[str, frozenset[str]]:
    named = (line.partition(":") for line in text.strip().splitlines())
    return {kind: frozenset({*every, *members.split()}) for kind, _, members in named}


_UPDATE_MEMBERS = _table(_UPDATES, "_meta", "sessionUpdate")
_ANSWER_MEMBERS = _table(_ANSWERS, "_meta")


def unknown_in_update(parameters: dict[str, Any]) -> list[Output]:
    """Return what is to be said of a session's update."""
    update = an_object(parameters.get("update"))
    kind = text_of(update.get("sessionUpdate"))
    members = _UPDATE_MEMBERS.get(kind)
    if members is None:
        return [Unknown(f"session/update.{kind}", parameters)]
    around = new_fields("session/update", parameters, _UPDATE)
    return [*around, *new_fields(kind, update, members), *_unknown_pieces(kind, update)]


def _unknown_pieces(kind: str, update: dict[str, Any]) -> list[Output]:
    content = update.get("content")
    pieces = objects_of(content)
    if kind.endswith("_chunk"):
        pieces, known = [an_object(content)], KINDS
    else:
        known = _CALL_PIECES
    return [
        Unknown(f"{kind}.content.{named}", update)
        for piece in pieces
        if (named := text_of(piece.get("type"))) and named not in known
    ]


def unknown_in_answer(purpose: str, result: dict[str, Any]) -> list[Output]:
    """Return what is to be said of the answer to a request of ours."""
    return new_fields(f"{purpose} answer", result, _ANSWER_MEMBERS[purpose])


def unknown_in_question(parameters: dict[str, Any]) -> list[Output]:
    """Return what is to be said of a permission request."""
    return new_fields("session/request_permission", parameters, _REQUEST)


def unknown_method(method: str, message: dict[str, Any]) -> list[Output]:
    """Return what is to be said of a request or notification that we do not serve."""
    return [] if method.startswith(REFUSED) else [Unknown(method, message)]
