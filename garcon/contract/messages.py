"""What a transcript row shows: the ChatMessage shapes of chats.md 4.20, as one tagged union.

Agents' integrations make these; the controller stores and serves them unchanged.  Every one has
`timestamp`, an ISO time with milliseconds and ``Z``.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType


class _Message(
    Struct, frozen=True, rename="camel", tag_field="type", kw_only=True, omit_defaults=False
):
    timestamp: str


class Image(Struct, frozen=True, rename="camel"):
    """An attachment as the client sent it: `data` is a ``data:`` URL."""

    data: str
    name: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET


class UserMetadata(Struct, frozen=True, rename="camel"):
    client_message_id: str | UnsetType = UNSET


class CustomStyle(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    light_accent: str
    dark_accent: str


class Style(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    style: Literal["info", "notice", "error", "custom"]
    custom_style: CustomStyle | UnsetType = UNSET


class Presentation(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How an input is shown (decisions.md 29)."""

    presentation: Style
    title: str | UnsetType = UNSET
    body_disclosure: Literal["expanded", "collapsed"] = "expanded"


class UserMessage(_Message, frozen=True, tag="user-message", kw_only=True):
    content: str
    images: list[Image] | UnsetType = UNSET
    metadata: UserMetadata | UnsetType = UNSET
    presentation: Presentation | UnsetType = UNSET
    steer: Literal[True] | UnsetType = UNSET
    """Set where the input joined a turn that ran."""


class AssistantMessage(_Message, frozen=True, tag="assistant-message", kw_only=True):
    content: str


class Thinking(_Message, frozen=True, tag="thinking", kw_only=True):
    content: str


class ToolResult(_Message, frozen=True, tag="tool-result", kw_only=True):
    tool_id: str
    content: dict[str, Any]
    is_error: bool


class RowDetail(Struct, frozen=True, rename="camel"):
    type: str


class _Notice(_Message, frozen=True, kw_only=True):
    """The last three are of rows that were put there by a command (decisions.md 29)."""

    content: str
    detail: RowDetail | UnsetType = UNSET
    title: str | UnsetType = UNSET
    presentation: Style | UnsetType = UNSET
    body_disclosure: Literal["expanded", "collapsed"] | UnsetType = UNSET
    format: Literal["plain", "markdown"] | UnsetType = UNSET


class ErrorMessage(_Notice, frozen=True, tag="error", kw_only=True):
    pass


class TranscriptNotice(_Notice, frozen=True, tag="transcript-notice", kw_only=True):
    pass


class PermissionResolved(_Message, frozen=True, tag="permission-resolved", kw_only=True):
    permission_occurrence_id: str
    allowed: bool


class PermissionCancelled(_Message, frozen=True, tag="permission-cancelled", kw_only=True):
    permission_occurrence_id: str
    reason: Literal["cancelled", "session-complete", "aborted"] | UnsetType = UNSET


class PermissionExpired(_Message, frozen=True, tag="permission-expired", kw_only=True):
    permission_occurrence_id: str


class Compaction(_Message, frozen=True, tag="compaction", kw_only=True):
    trigger: Literal["manual", "auto"]
    summary: str
    pre_tokens: float | UnsetType = UNSET
    post_tokens: float | UnsetType = UNSET


class AgentSwitch(_Message, frozen=True, tag="agent-switch", kw_only=True):
    from_agent_id: str
    to_agent_id: str
    from_model: str | UnsetType = UNSET
    to_model: str | UnsetType = UNSET


class _ToolUse(_Message, frozen=True, kw_only=True):
    tool_id: str


class BashToolUse(_ToolUse, frozen=True, tag="bash-tool-use", kw_only=True):
    command: str
    description: str | UnsetType = UNSET


class ReadToolUse(_ToolUse, frozen=True, tag="read-tool-use", kw_only=True):
    file_path: str
    offset: int | UnsetType = UNSET
    limit: int | UnsetType = UNSET


class ListToolUse(_ToolUse, frozen=True, tag="list-tool-use", kw_only=True):
    path: str | UnsetType = UNSET


class EditToolUse(_ToolUse, frozen=True, tag="edit-tool-use", kw_only=True):
    file_path: str | UnsetType = UNSET
    old_string: str | UnsetType = UNSET
    new_string: str | UnsetType = UNSET


class ApplyPatchToolUse(_ToolUse, frozen=True, tag="apply-patch-tool-use", kw_only=True):
    """A patch of one file, which is named, or of several."""

    file_path: str | UnsetType = UNSET
    patch: str | UnsetType = UNSET


class WriteToolUse(_ToolUse, frozen=True, tag="write-tool-use", kw_only=True):
    file_path: str
    content: str | UnsetType = UNSET


class GrepToolUse(_ToolUse, frozen=True, tag="grep-tool-use", kw_only=True):
    pattern: str | UnsetType = UNSET
    path: str | UnsetType = UNSET


class GlobToolUse(_ToolUse, frozen=True, tag="glob-tool-use", kw_only=True):
    pattern: str | UnsetType = UNSET
    path: str | UnsetType = UNSET


class WebSearchToolUse(_ToolUse, frozen=True, tag="web-search-tool-use", kw_only=True):
    query: str


class WebFetchToolUse(_ToolUse, frozen=True, tag="web-fetch-tool-use", kw_only=True):
    url: str
    prompt: str | UnsetType = UNSET


class Todo(Struct, frozen=True, rename="camel"):
    content: str
    status: Literal["pending", "in_progress", "completed"]


class TodoWriteToolUse(_ToolUse, frozen=True, tag="todo-write-tool-use", kw_only=True):
    todos: list[Todo] | UnsetType = UNSET


class TaskToolUse(_ToolUse, frozen=True, tag="task-tool-use", kw_only=True):
    subagent_type: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    prompt: str | UnsetType = UNSET


class CodexSubagentToolUse(_ToolUse, frozen=True, tag="codex-subagent-tool-use", kw_only=True):
    """`details` has members as of chats.md 4.20, all of them optional."""

    action: Literal[
        "spawn_agent",
        "send_input",
        "send_message",
        "followup_task",
        "wait_agent",
        "interrupt_agent",
        "list_agents",
        "close_agent",
        "resume_agent",
        "agent_status",
    ]
    details: dict[str, Any]


class EnterPlanModeToolUse(_ToolUse, frozen=True, tag="enter-plan-mode-tool-use", kw_only=True):
    pass


class ExitPlanModeToolUse(_ToolUse, frozen=True, tag="exit-plan-mode-tool-use", kw_only=True):
    plan: str


class QuestionOption(Struct, frozen=True, rename="camel"):
    id: str
    label: str
    description: str | UnsetType = UNSET


class Question(Struct, frozen=True, rename="camel"):
    id: str
    prompt: str
    options: list[QuestionOption]
    header: str | UnsetType = UNSET
    allow_multiple: bool | UnsetType = UNSET


class AskUserQuestionToolUse(_ToolUse, frozen=True, tag="ask-user-question-tool-use", kw_only=True):
    questions: list[Question]
    title: str | UnsetType = UNSET


class McpToolUse(_ToolUse, frozen=True, tag="mcp-tool-use", kw_only=True):
    server: str
    tool: str
    input: dict[str, Any]


class ExternalToolUse(_ToolUse, frozen=True, tag="external-tool-use", kw_only=True):
    name: str
    input: dict[str, Any]


class RequestPermissionsToolUse(
    _ToolUse, frozen=True, tag="request-permissions-tool-use", kw_only=True
):
    permissions: dict[str, Any]
    reason: str | UnsetType = UNSET


class UnknownToolUse(_ToolUse, frozen=True, tag="unknown-tool-use", kw_only=True):
    raw_name: str
    input: dict[str, Any]


ToolUse = (
    BashToolUse
    | ReadToolUse
    | ListToolUse
    | EditToolUse
    | ApplyPatchToolUse
    | WriteToolUse
    | GrepToolUse
    | GlobToolUse
    | WebSearchToolUse
    | WebFetchToolUse
    | TodoWriteToolUse
    | TaskToolUse
    | CodexSubagentToolUse
    | EnterPlanModeToolUse
    | ExitPlanModeToolUse
    | AskUserQuestionToolUse
    | McpToolUse
    | ExternalToolUse
    | RequestPermissionsToolUse
    | UnknownToolUse
)


class PermissionRequest(_Message, frozen=True, tag="permission-request", kw_only=True):
    permission_occurrence_id: str
    requested_tool: ToolUse


ProviderRow = (
    AssistantMessage
    | Thinking
    | ToolResult
    | ErrorMessage
    | Compaction
    | ToolUse
    | TranscriptNotice
)
"""What a run may add to a transcript: its agent's output, and our notice that some was lost."""

ChatMessage = (
    ProviderRow
    | UserMessage
    | PermissionRequest
    | PermissionResolved
    | PermissionCancelled
    | PermissionExpired
    | AgentSwitch
)
