"""What version 2.1.197 of Claude Code is known to say, and the fields of it.  Whatever else comes
is counted and kept (`unknown.py`).
"""

from __future__ import annotations

from garcon.runtime.agents.claude_lines import Message, as_object
from garcon.runtime.agents.conversation import Output, Unknown
from garcon.runtime.agents.unknown import new_fields

_EVERY = frozenset({"type", "subtype", "uuid", "session_id", "parent_tool_use_id", "timestamp"})
_FIELDS = """
assistant: message error request_id subagent_type task_description
control_cancel_request: request_id
control_request: request_id request
control_response: response
keep_alive:
prompt_suggestion: suggestion
rate_limit_event: rate_limit_info
result: api_error_status duration_api_ms duration_ms errors fast_mode_state is_error modelUsage
    num_turns origin permission_denials result stop_reason structured_output terminal_reason
    time_to_request_ms total_cost_usd ttft_ms ttft_stream_ms usage
stream_event: event ttft_ms
system/api_retry: attempt error error_status max_retries retry_delay_ms
system/compact_boundary: compact_metadata
system/hook_progress: hook_id hook_name hook_event stdout stderr output
system/hook_response: hook_id hook_name hook_event stdout stderr output exit_code outcome
system/hook_started: hook_id hook_name hook_event
system/init: agents analytics_disabled apiKeySource betas claude_code_version cwd fast_mode_state
    mcp_servers memory_paths model output_style permissionMode plugins product_feedback_disabled
    skills slash_commands tools
system/session_state_changed: state
system/status: status permissionMode compact_result compact_error
system/task_notification: task_id tool_use_id status output_file summary usage
system/task_progress: task_id tool_use_id description subagent_type last_tool_name usage summary
system/task_started: task_id tool_use_id description subagent_type task_type prompt workflow_name
system/task_updated: task_id patch
system/thinking_tokens: estimated_tokens estimated_tokens_delta
tool_progress: tool_use_id tool_name elapsed_time_seconds task_id
tool_use_summary: summary preceding_tool_use_ids
user: message isReplay isSynthetic tool_use_result priority subagent_type task_description
"""
_BLOCKS = frozenset({"text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image"})
_SERVERS_BLOCKS = frozenset({"server_tool_use", "web_search_tool_result", "document"})
"""Of tools that run where the model does, and what a user attached: no rows are made of them."""
_REQUESTS = frozenset({"can_use_tool"})


def _table() -> dict[str, frozenset[str]]:
    fields: dict[str, frozenset[str]] = {}
    name = ""
    for line in _FIELDS.strip().splitlines():
        if not line.startswith(" "):
            name, _, line = line.partition(":")
        fields[name] = fields.get(name, _EVERY) | frozenset(line.split())
    return fields


FIELDS = _table()


def unknown_in(message: Message) -> list[Output]:
    """Return what is to be said of what a message has that we do not know."""
    kind = str(message.get("type"))
    if kind == "system":
        kind = f"system/{message.get('subtype')}"
    known = FIELDS.get(kind)
    if known is None:
        return [Unknown(kind, message)]
    found = new_fields(kind, message, known)
    if kind == "control_request":
        asked = str(as_object(message.get("request")).get("subtype"))
        if asked not in _REQUESTS:
            found.append(Unknown(f"control_request/{asked}", message))
    elif kind in ("assistant", "user"):
        found.extend(
            Unknown(f"{kind}.content/{block}", message)
            for block in _blocks(message)
            if block not in _BLOCKS and block not in _SERVERS_BLOCKS
        )
    return found


def _blocks(message: Message) -> list[str]:
    content = as_object(message.get("message")).get("content")
    if not isinstance(content, list):
        return []
    return [str(as_object(block).get("type")) for block in content]
