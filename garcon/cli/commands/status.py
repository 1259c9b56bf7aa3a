"""`status`: a chat, its newest messages, and the commands that answer what it waits for."""

from __future__ import annotations

import json

from garcon.cli import inputs
from garcon.cli.failures import DONE, STATUS, bad_arguments, one_line, visible
from garcon.cli.snapshots import executor_of, read_snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.invocation import Invocation

MOST_MESSAGES = 200
LONGEST_TEXT = 4_000
_HIDDEN = ("type", "timestamp", "images", "title", "metadata", "detail")
_SUMMARIES = ("command", "filePath", "pattern", "query", "url", "path", "prompt", "name", "rawName")


def run(invocation: Invocation) -> int:
    """Show the snapshot; nothing is changed by looking."""
    chat_id = inputs.chat_id(invocation.parsed.operands[0])
    limit = _limit(invocation.parsed.text("messages"))
    client = invocation.connect()
    snapshot = read_snapshot(client, chat_id, limit, STATUS)
    if invocation.json:
        invocation.print_json(snapshot)
        return DONE
    lines = [*summary(snapshot), *permissions(snapshot, invocation)]
    for row in snapshot["transcript"].get("messages", []):
        lines += message_lines(row)
    invocation.system.out("\n".join(visible(line, "\t") for line in lines) + "\n")
    return DONE


def _limit(text: str | None) -> int:
    if text is None:
        return 10
    if not (text.isascii() and text.isdigit()) or len(text) > 3 or int(text) > MOST_MESSAGES:
        raise bad_arguments(f"--messages must be a number from 0 to {MOST_MESSAGES}")
    return int(text)


def summary(snapshot: dict[str, Any]) -> list[str]:
    """Return the lines about the chat itself (chats.md 6.5)."""
    chat, control = snapshot["chat"], snapshot["control"]
    queue = control.get("queue")
    queue = queue if isinstance(queue, dict) else {}
    pairs = [
        ("chat id", chat["id"]),
        ("status", snapshot.get("processingPhase") or "idle"),
        ("observed at", snapshot.get("observedAt")),
        ("title", chat["title"]),
        ("agent", chat["agentId"]),
        ("executor", executor_of(snapshot)),
        ("ownership epoch", chat["agentOwnershipEpoch"]),
        ("carryover revision", chat.get("carryOverRevision")),
    ]
    for label, name in (
        ("model", "model"),
        ("provider", "apiProviderId"),
        ("endpoint", "modelEndpointId"),
        ("protocol", "modelProtocol"),
    ):
        if chat.get(name) is not None:
            pairs.append((label, chat[name]))
    entries, tags = queue.get("entries"), chat.get("tags")
    pairs += [
        ("project path", chat["projectPath"]),
        ("tags", ", ".join(tags) if isinstance(tags, list) and tags else "none"),
        ("queue", str(len(entries) if isinstance(entries, list) else 0)),
    ]
    if queue.get("steeringEntryId"):
        pairs.append(("queue steering", queue["steeringEntryId"]))
    if isinstance(queue.get("pause"), dict):
        pairs.append(("queue paused", queue["pause"].get("kind", "yes")))
    return [f"{label}: {one_line(str(value))}" for label, value in pairs] + _transcript(snapshot)


def _transcript(snapshot: dict[str, Any]) -> list[str]:
    transcript = snapshot["transcript"]
    if transcript["availability"] == "unavailable":
        again = "yes" if transcript.get("retryable") is True else "no"
        return [
            f"transcript: unavailable ({transcript.get('errorCode')}, retryable: {again})",
            f"transcript message: {one_line(str(transcript.get('message', '')))}",
        ]
    if transcript["availability"] == "not-requested":
        return []
    shown = (
        f"transcript: view {transcript['transcriptViewId']},"
        f" last ordinal {transcript['lastOrdinal']}, showing {len(transcript['messages'])}"
    )
    return [shown + (", older messages available" if transcript.get("hasMore") else "")]


def permissions(snapshot: dict[str, Any], invocation: Invocation) -> list[str]:
    """Return, for each open request, what is asked and the two commands that answer it."""
    feed = snapshot["transientFeed"]
    lines: list[str] = []
    for row in feed["rows"]:
        message = row.get("message") if isinstance(row, dict) else None
        if not isinstance(message, dict) or message.get("type") != "permission-request":
            continue
        occurrence, run = row.get("permissionOccurrenceId"), row.get("runId")
        instance = feed.get("serverInstanceId")
        if not all(isinstance(part, str) and part for part in (occurrence, run, instance)):
            continue
        lines += ["", f"permission request: {_asked(message.get('requestedTool'))}"]
        for decision in ("allow", "deny"):
            command = invocation.command(
                "permission-decision",
                snapshot["chat"]["id"],
                occurrence,
                decision,
                "--run",
                run,
                "--server-instance",
                instance,
            )
            lines.append(f"{decision}: {command}")
    return lines


def _asked(tool: object) -> str:
    """Return in one line what an agent asks to do."""
    if not isinstance(tool, dict):
        return "unknown"
    kind = one_line(str(tool.get("type", "tool"))).removesuffix("-tool-use")
    for name in _SUMMARIES:
        if isinstance(tool.get(name), str) and tool[name].strip():
            return f"{kind}: {_cut(one_line(tool[name]), 400)}"
    rest = {k: v for k, v in tool.items() if k not in ("type", "toolId", "timestamp")}
    return f"{kind}: {_cut(one_line(json.dumps(rest, ensure_ascii=False)), 400)}"


def message_lines(row: object) -> list[str]:
    """Return a transcript row as it is shown: an empty line, its heading, its text."""
    message = row.get("message") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(message, dict):
        return ["", "[?] a malformed row"]
    detail, title = message.get("detail"), message.get("title")
    heading = f"[{row.get('ordinal')}] {message.get('timestamp')} {message.get('type')}"
    if isinstance(detail, dict) and detail.get("type") == "cli-row":
        heading += " (CLI)"
    if isinstance(title, str) and title:
        heading += f" — {one_line(title)}"
    lines = ["", heading]
    content = message.get("content")
    if isinstance(content, str):
        text = content
    else:
        rest = {k: v for k, v in message.items() if k not in _HIDDEN}
        text = json.dumps(rest, indent=2, ensure_ascii=False)
    text = _cut(without_data_urls(text), LONGEST_TEXT)
    lines += text.replace("\r\n", "\n").split("\n")
    images = message.get("images")
    if isinstance(images, list) and images:
        lines.append(f"[images: {len(images)}]")
    return lines


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]} [cut after {limit} of {len(text)} characters; --json shows all]"


def without_data_urls(text: str) -> str:
    """Return `text` with every ``data:`` URL replaced by a mark."""
    pieces: list[str] = []
    at = 0
    while (start := text.find("data:", at)) >= 0:
        end = start
        while end < len(text) and not text[end].isspace() and text[end] not in "\"'<>()`\\":
            end += 1
        # Prose may say "data: a" or "data:": only what has a payload is a URL.
        if "," in text[start:end]:
            pieces += [text[at:start], "[data URL omitted]"]
        else:
            pieces.append(text[at:end])
        at = end
    return "".join(pieces) + text[at:]
