"""What version 1.6.0 of Pi is known to say; whatever else comes is counted and kept
(`unknown.py`).
"""

from __future__ import annotations

_EVENTS = """
agent_start:
agent_end: messages willRetry
agent_settled: aborted
auto_retry_end: success attempt finalError
auto_retry_start: attempt maxAttempts delayMs errorMessage
bash_execution_update: id delta
compaction_end: reason result aborted willRetry errorMessage
compaction_start: reason
entry_appended: entry
extension_error: extensionPath event error
extension_ui_request: id method title message placeholder prefill options timeout notifyType
    statusKey statusText widgetKey widgetLines widgetPlacement text
message_end: message
message_start: message
message_update: usage assistantMessageEvent
queue_update: steering followUp
response: id command success data error
session_info_changed: name
summarization_retry_attempt_start: source reason
summarization_retry_finished:
summarization_retry_scheduled: attempt maxAttempts delayMs errorMessage
thinking_level_changed: level
tool_execution_end: toolCallId toolName result isError durationMs parentToolCallId
tool_execution_start: toolCallId toolName args parentToolCallId
tool_execution_update: toolCallId toolName args partialResult parentToolCallId
turn_end: message toolResults
turn_start:
"""


def _events() -> dict[str, frozenset[str]]:
    entries = _EVENTS.replace("\n    ", " ").split("\n")
    named = (entry.partition(":") for entry in entries if entry)
    return {kind: frozenset({"type", *members.split()}) for kind, _, members in named}


EVENTS = _events()
"""The members of each, by its type."""
ROLES = frozenset(
    {
        *("assistant", "user", "system", "toolResult", "bashExecution", "custom"),
        *("branchSummary", "compactionSummary"),
    }
)
BLOCKS = frozenset({"text", "thinking", "toolCall"})
"""Of an assistant's message."""
ASSISTANT = frozenset(
    {
        *("role", "content", "api", "provider", "model", "responseModel", "responseId"),
        *("providerThinkingLevel", "thinkingLevel", "diagnostics", "usage", "stopReason"),
        *("deferred", "errorMessage", "rawStopReason", "endTurn", "timestamp", "durationMs"),
    }
)
DIALOGS = frozenset({"select", "confirm", "input", "editor"})
"""Which wait for an answer."""
SHOWN = frozenset({"setStatus", "setWidget", "setTitle", "set_editor_text"})
"""Which are for a screen that nobody looks at."""
