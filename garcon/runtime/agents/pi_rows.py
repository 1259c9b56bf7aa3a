"""What Pi says and does, as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import UNSET, UnsetType

from garcon.contract.messages import (
    AssistantMessage,
    BashToolUse,
    Compaction,
    EditToolUse,
    GlobToolUse,
    GrepToolUse,
    ListToolUse,
    ProviderRow,
    ReadToolUse,
    Thinking,
    ToolUse,
    TranscriptNotice,
    UnknownToolUse,
    WriteToolUse,
)
from garcon.runtime.agents.pi_wire import Message, an_object, objects, text_of, texts


def said(message: Message, now: str) -> Iterator[ProviderRow]:
    """Yield the rows of an assistant's message."""
    for block in objects(message.get("content")):
        match block.get("type"):
            case "text" if (text := text_of(block.get("text"))).strip():
                yield AssistantMessage(timestamp=now, content=text)
            case "thinking" if (text := text_of(block.get("thinking"))).strip():
                yield Thinking(timestamp=now, content=text)
            case "toolCall":
                name, tool_id = text_of(block.get("name")), text_of(block.get("id"))
                yield tool_use(name, tool_id, an_object(block.get("arguments")), now)


def tool_use(name: str, tool_id: str, given: Message, now: str) -> ToolUse:
    """Return the row of a tool call; one that is not known, or lacks what its row needs, stays as
    it came.
    """
    path = text_of(given.get("path"))
    match name:
        case "bash" if command := text_of(given.get("command")):
            return BashToolUse(timestamp=now, tool_id=tool_id, command=command)
        case "read" if path:
            return ReadToolUse(
                timestamp=now,
                tool_id=tool_id,
                file_path=path,
                offset=number(given.get("offset")),
                limit=number(given.get("limit")),
            )
        case "write" if path:
            content = given.get("content")
            return WriteToolUse(
                timestamp=now,
                tool_id=tool_id,
                file_path=path,
                content=content if isinstance(content, str) else UNSET,
            )
        case "edit" if path and len(edits := objects(given.get("edits"))) == 1:
            return EditToolUse(
                timestamp=now,
                tool_id=tool_id,
                file_path=path,
                old_string=text_of(edits[0].get("oldText")),
                new_string=text_of(edits[0].get("newText")),
            )
        case "grep":
            pattern = text_of(given.get("pattern")) or UNSET
            return GrepToolUse(timestamp=now, tool_id=tool_id, pattern=pattern, path=path or UNSET)
        case "find":
            pattern = text_of(given.get("pattern")) or UNSET
            return GlobToolUse(timestamp=now, tool_id=tool_id, pattern=pattern, path=path or UNSET)
        case "ls":
            return ListToolUse(timestamp=now, tool_id=tool_id, path=path or UNSET)
    return UnknownToolUse(timestamp=now, tool_id=tool_id, raw_name=name, input=given)


def compaction(event: Message, now: str) -> Compaction:
    """Return the row of a compaction that succeeded."""
    result = an_object(event.get("result"))
    trigger: Literal["auto", "manual"] = "manual" if event.get("reason") == "manual" else "auto"
    return Compaction(
        timestamp=now,
        trigger=trigger,
        summary=text_of(result.get("summary")),
        pre_tokens=number(result.get("tokensBefore")),
        post_tokens=number(result.get("estimatedTokensAfter")),
    )


def failure(message: Message) -> str:
    """Return why a model failed."""
    return text_of(message.get("errorMessage")) or "the model failed and did not say why"


def cut_off(message: Message, now: str) -> TranscriptNotice | None:
    """Return the row of an answer that had to end before its end, None for any other."""
    if message.get("stopReason") != "length":
        return None
    text = "The answer ends here: the model may not say more at once."
    return TranscriptNotice(timestamp=now, content=text)


def added(message: Message, now: str) -> Iterator[TranscriptNotice]:
    """Yield the row of what an extension has put into the conversation for the user to see."""
    text = texts(message.get("content"))
    if message.get("display") is True and text.strip():
        yield TranscriptNotice(timestamp=now, content=text)


def retrying(event: Message, now: str) -> TranscriptNotice:
    """Return the row of a model request that failed and will be sent again."""
    why = text_of(event.get("errorMessage")) or "no answer"
    attempt, most = event.get("attempt"), event.get("maxAttempts")
    count = f" (attempt {attempt} of {most})" if _isnumber(attempt) and _isnumber(most) else ""
    text = f"The model could not be reached ({why}); trying again{count}."
    return TranscriptNotice(timestamp=now, content=text)


def _isnumber(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def number(value: object) -> int | UnsetType:
    """Return a number, UNSET where there is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else UNSET
