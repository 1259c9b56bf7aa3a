"""Codex's items as rows: what it said and thought, its tool calls and what became of each."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import UNSET

from garcon.contract.messages import (
    ApplyPatchToolUse,
    AssistantMessage,
    BashToolUse,
    CodexSubagentToolUse,
    ExternalToolUse,
    McpToolUse,
    ProviderRow,
    ReadToolUse,
    Thinking,
    ToolResult,
    ToolUse,
    UnknownToolUse,
    WebSearchToolUse,
)
from garcon.runtime.agents.codex_wire import an_object, objects_of, text_of, texts_of

Item = dict[str, Any]
STILL_RUNS = "The command still runs in the background."
_KINDS = {"add": "Add", "delete": "Delete", "update": "Update"}
_ACTIONS = {
    "spawnAgent": "spawn_agent",
    "sendInput": "send_input",
    "resumeAgent": "resume_agent",
    "wait": "wait_agent",
    "closeAgent": "close_agent",
    "sendMessage": "send_message",
    "followupTask": "followup_task",
    "interruptAgent": "interrupt_agent",
    "listAgents": "list_agents",
}


def said(item: Item, now: str) -> Iterator[ProviderRow]:
    """Yield the row of an item that is words, if there are any."""
    match item.get("type"):
        case "agentMessage" | "plan":
            if (text := text_of(item.get("text"))).strip():
                yield AssistantMessage(timestamp=now, content=text)
        case "reasoning":
            # Some models tell a summary, some what they really thought.
            text = "\n\n".join(texts_of(item.get("summary")) or texts_of(item.get("content")))
            if text.strip():
                yield Thinking(timestamp=now, content=text)


def use(item: Item, now: str) -> ToolUse | None:
    """Return the row of a tool call, None for an item that is none."""
    make = _USES.get(text_of(item.get("type")))
    return None if make is None else make(text_of(item.get("id")), item, now)


def result(item: Item, now: str) -> ToolResult:
    """Return the row that shows how a tool call ended."""
    status = item.get("status")
    content: dict[str, Any] = {"text": _output(item)}
    is_error = status in ("failed", "declined", "interrupted")
    if isinstance(code := item.get("exitCode"), int):
        content["exitCode"] = code
        is_error = is_error or code != 0
    is_error = is_error or item.get("success") is False or item.get("failure") is not None
    return ToolResult(
        timestamp=now, tool_id=text_of(item.get("id")), content=content, is_error=is_error
    )


def unended(item: Item, now: str, *, may_go_on: bool) -> ToolResult:
    """Return the row for a tool call that has not ended with its turn; a command may go on."""
    goes_on = may_go_on and item.get("type") == "commandExecution" and item.get("processId")
    return ToolResult(
        timestamp=now,
        tool_id=text_of(item.get("id")),
        content={"text": STILL_RUNS if goes_on else "The call did not end."},
        is_error=not goes_on,
    )


def changed_paths(item: Item) -> list[str]:
    """Return the files that a change would write, remove, or move something to."""
    found = []
    for change in objects_of(item.get("changes")):
        found.append(text_of(change.get("path")))
        if moved := text_of(an_object(change.get("kind")).get("move_path")):
            found.append(moved)
    return found


def script_of(command: str) -> str:
    """Return what a shell was given, without the shell."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    return words[2] if len(words) == 3 and words[1] in ("-lc", "-c") else command


def in_words(parts: object) -> str:
    """Return what a list of contents says, in words."""
    if isinstance(parts, str):
        return parts
    return "\n".join(
        text_of(part.get("text")) or f"[{part.get('type')}]" for part in objects_of(parts)
    )


# -- one function for each row


def _command(tool_id: str, item: Item, now: str) -> ToolUse:
    return BashToolUse(
        timestamp=now, tool_id=tool_id, command=script_of(text_of(item.get("command")))
    )


def _patch(tool_id: str, item: Item, now: str) -> ToolUse:
    changes = objects_of(item.get("changes"))
    paths = [text_of(change.get("path")) for change in changes]
    patch = "\n".join(_change(change) for change in changes)
    return ApplyPatchToolUse(
        timestamp=now,
        tool_id=tool_id,
        file_path=paths[0] if len(paths) == 1 else UNSET,
        patch=patch,
    )


def _change(change: dict[str, Any]) -> str:
    kind = an_object(change.get("kind"))
    head = (
        f"*** {_KINDS.get(text_of(kind.get('type')), 'Update')} File: {text_of(change.get('path'))}"
    )
    if moved := text_of(kind.get("move_path")):
        head += f"\n*** Move to: {moved}"
    return f"{head}\n{text_of(change.get('diff'))}".rstrip("\n")


def _mcp(tool_id: str, item: Item, now: str) -> ToolUse:
    return McpToolUse(
        timestamp=now,
        tool_id=tool_id,
        server=text_of(item.get("server")),
        tool=text_of(item.get("tool")),
        input=an_object(item.get("arguments")),
    )


def _external(tool_id: str, item: Item, now: str) -> ToolUse:
    name = text_of(item.get("tool")) or text_of(item.get("name"))
    given = an_object(item.get("arguments"))
    return ExternalToolUse(timestamp=now, tool_id=tool_id, name=name, input=given)


def _subagent(tool_id: str, item: Item, now: str) -> ToolUse:
    action = _ACTIONS.get(text_of(item.get("tool")))
    details = {
        "targets": texts_of(item.get("receiverThreadIds")),
        "message": text_of(item.get("prompt")),
        "model": text_of(item.get("model")),
        "reasoningEffort": text_of(item.get("reasoningEffort")),
    }
    details = {name: value for name, value in details.items() if value}
    if action is None:
        name = text_of(item.get("tool"))
        return UnknownToolUse(timestamp=now, tool_id=tool_id, raw_name=name, input=details)
    known: Any = action
    return CodexSubagentToolUse(timestamp=now, tool_id=tool_id, action=known, details=details)


def _search(tool_id: str, item: Item, now: str) -> ToolUse | None:
    action = an_object(item.get("action"))
    query = text_of(item.get("query")) or text_of(action.get("query")) or text_of(action.get("url"))
    # It is announced before it is known what is looked for.
    return WebSearchToolUse(timestamp=now, tool_id=tool_id, query=query) if query else None


def _view(tool_id: str, item: Item, now: str) -> ToolUse:
    return ReadToolUse(timestamp=now, tool_id=tool_id, file_path=text_of(item.get("path")))


def _picture(tool_id: str, item: Item, now: str) -> ToolUse:
    given = {"prompt": text_of(item.get("revisedPrompt"))}
    return UnknownToolUse(timestamp=now, tool_id=tool_id, raw_name="image_generation", input=given)


_USES: dict[str, Callable[[str, Item, str], ToolUse | None]] = {
    "commandExecution": _command,
    "fileChange": _patch,
    "mcpToolCall": _mcp,
    "dynamicToolCall": _external,
    "functionCallOutput": _external,
    "collabAgentToolCall": _subagent,
    "webSearch": _search,
    "imageView": _view,
    "imageGeneration": _picture,
}


def _output(item: Item) -> str:
    match item.get("type"):
        case "commandExecution":
            return text_of(item.get("aggregatedOutput")) or _not_done(item)
        case "fileChange":
            return _not_done(item)
        case "mcpToolCall":
            failed = text_of(an_object(item.get("error")).get("message"))
            return failed or in_words(an_object(item.get("result")).get("content"))
        case "dynamicToolCall":
            return in_words(item.get("contentItems"))
        case "functionCallOutput":
            return in_words(item.get("output"))
        case "collabAgentToolCall":
            return _states(an_object(item.get("agentsStates")))
        case "imageGeneration":
            return text_of(item.get("savedPath"))
    return ""


def _not_done(item: Item) -> str:
    match item.get("status"):
        case "declined":
            return "This was not allowed."
        case "failed":
            return "This failed."
    return ""


def _states(states: dict[str, Any]) -> str:
    lines = []
    for agent, state in states.items():
        message = text_of(an_object(state).get("message"))
        lines.append(
            f"{agent}: {an_object(state).get('status')}{f': {message}' if message else ''}"
        )
    return "\n".join(lines)
