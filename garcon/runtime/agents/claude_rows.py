"""What Claude Code says, as rows: in its streaming JSON and in its session files alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import UNSET, UnsetType

from garcon.contract.messages import (
    AssistantMessage,
    Compaction,
    ProviderRow,
    Thinking,
    ToolResult,
    TranscriptNotice,
)
from garcon.runtime.agents.claude_lines import Message, as_object, number, objects, words
from garcon.runtime.agents.claude_tools import result_text, tool_use

SYNTHETIC = "<synthetic>"
"""The model of what the agent says by itself, such as the output of its own commands."""
NO_CONTENT = "(no content)"


def said(message: Message, now: str) -> Iterator[ProviderRow]:
    """Yield the rows of an assistant's message, in the model's own form."""
    for block in objects(message.get("content")):
        match block.get("type"):
            case "text" if text := words(block.get("text")):
                if message.get("model") != SYNTHETIC or text != NO_CONTENT:
                    yield AssistantMessage(timestamp=now, content=text)
            case "thinking" if text := words(block.get("thinking")):
                yield Thinking(timestamp=now, content=text)
            case "tool_use":
                name, tool_id = str(block.get("name", "")), str(block.get("id", ""))
                yield tool_use(name, tool_id, as_object(block.get("input")), now)


def said_by_another(message: Message, now: str) -> Iterator[ProviderRow]:
    """Yield the rows of a subagent's message: what it does, and its words as somebody's thoughts,
    because they are no answer to the user.
    """
    for row in said(message, now):
        if isinstance(row, AssistantMessage):
            yield Thinking(timestamp=now, content=row.content)
        else:
            yield row


def results(content: object, now: str) -> Iterator[ToolResult]:
    """Yield the rows of what tools gave."""
    for block in objects(content):
        if block.get("type") == "tool_result":
            yield ToolResult(
                timestamp=now,
                tool_id=str(block.get("tool_use_id", "")),
                content={"text": result_text(block.get("content"))},
                is_error=block.get("is_error") is True,
            )


def compaction(about: Message, summary: str, now: str) -> Compaction:
    """Return the row of a compaction; its facts are spelled in two ways, by where they stand."""
    trigger: Literal["auto", "manual"] = "auto" if about.get("trigger") == "auto" else "manual"
    return Compaction(
        timestamp=now,
        trigger=trigger,
        summary=summary,
        pre_tokens=_count(about, "pre_tokens", "preTokens"),
        post_tokens=_count(about, "post_tokens", "postTokens"),
    )


def text_of(content: object) -> str:
    """Return the text of a message's content."""
    texts = [words(block.get("text")) for block in objects(content) if block.get("type") == "text"]
    return "\n".join(text for text in texts if text)


def retrying(message: Message, now: str) -> TranscriptNotice:
    """Return the row of a model request that failed and will be sent again."""
    status, kind = message.get("error_status"), words(message.get("error"))
    what = f"HTTP {status}" if type(status) is int else "no answer"
    if kind and kind != "unknown":
        what = f"{what}, {kind.replace('_', ' ')}"
    attempt, most = message.get("attempt"), message.get("max_retries")
    delay = number(message.get("retry_delay_ms"))
    wait = "" if delay is None else f" in {delay / 1000:.1f} s"
    text = f"The model could not be reached ({what}); trying again{wait}"
    if type(attempt) is int and type(most) is int:
        text = f"{text} (attempt {attempt} of {most})"
    return TranscriptNotice(timestamp=now, content=f"{text}.")


def said_alone(text: str, now: str) -> TranscriptNotice:
    """Return the row of what it said between turns."""
    head = "Since the last turn the agent said this, of what went on in the background:"
    return TranscriptNotice(timestamp=now, content=f"{head}{text}")


def failure_text(result: Message) -> str:
    """Return why a turn failed, with the status of a failed model request in it."""
    errors = result.get("errors")
    told = [text for one in errors if (text := words(one))] if isinstance(errors, list) else []
    text = words(result.get("result")) or "; ".join(told)
    text = text or f"the agent failed: {result.get('subtype')}"
    status = result.get("api_error_status")
    if type(status) is int and str(status) not in text:
        text = f"{text} (HTTP {status})"
    return text


def _count(about: Message, *names: str) -> float | UnsetType:
    return next((v for name in names if (v := number(about.get(name))) is not None), UNSET)
