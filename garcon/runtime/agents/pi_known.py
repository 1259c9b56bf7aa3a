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

_ROLES = """
assistant: content api provider model responseModel responseId providerThinkingLevel thinkingLevel
    diagnostics usage stopReason deferred errorMessage rawStopReason endTurn timestamp durationMs
user: content timestamp
system: content sections toolsAdded toolsRemoved timestamp
toolResult: toolCallId toolName content structuredContent details usage nestedCalls isError
    durationMs timestamp
bashExecution: command output exitCode cancelled truncated fullOutputPath excludeFromContext
    timestamp
custom: customType content display details timestamp
branchSummary: summary fromId timestamp
compactionSummary: summary tokensBefore timestamp
"""
_BLOCKS = """
text: text textSignature
thinking: thinking thinkingSignature redacted
toolCall: id name arguments thoughtSignature namespace argumentsError
"""


def _members(told: str, name: str) -> dict[str, frozenset[str]]:
    entries = told.replace("\n    ", " ").split("\n")
    named = (entry.partition(":") for entry in entries if entry)
    return {kind: frozenset({name, *members.split()}) for kind, _, members in named}


EVENTS = _members(_EVENTS, "type")
"""The members of each, by its type."""
ROLES = _members(_ROLES, "role")
"""Those of each message, by its role."""
BLOCKS = _members(_BLOCKS, "type")
"""Those of each part of an answer, by its type."""
STOPS = frozenset({"pending", "stop", "length", "toolUse", "error", "aborted", "deferred"})
"""Why an answer ends."""
DIALOGS = frozenset({"select", "confirm", "input", "editor"})
"""Which wait for an answer."""
SHOWN = frozenset({"setStatus", "setWidget", "setTitle", "set_editor_text"})
"""Which are for a screen that nobody looks at."""
