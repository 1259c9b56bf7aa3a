"""What version 0.171.0 of Codex is known to say: its notifications that mean nothing to us, and the
members of all that we read.  Whatever else comes is counted and kept (`unknown.py`).
"""

from __future__ import annotations

from typing import Any

from garcon.runtime.agents.codex_wire import an_object, text_of
from garcon.runtime.agents.conversation import Output, Unknown
from garcon.runtime.agents.unknown import new_fields

_MEANINGLESS = """
account/gatewayOAuth/changed account/login/completed account/rateLimits/updated account/updated
app/list/updated autoApprovalReview/strictReviewRequired command/exec/outputDelta configWarning
deprecationNotice externalAgentConfig/import/completed externalAgentConfig/import/progress
fs/changed fuzzyFileSearch/sessionCompleted fuzzyFileSearch/sessionUpdated hook/completed
hook/started item/agentMessage/delta item/autoApprovalReview/completed
item/autoApprovalReview/started item/commandExecution/outputDelta
item/commandExecution/terminalInteraction item/fileChange/outputDelta item/fileChange/patchUpdated
item/mcpToolCall/progress item/plan/delta item/reasoning/summaryPartAdded
item/reasoning/summaryTextDelta item/reasoning/textDelta mcpServer/event/stream/notification
mcpServer/oauthLogin/completed mcpServer/startupStatus/updated model/safetyBuffering/updated
model/verification modelProvider/authRecoveryCompleted modelProvider/authRecoveryStarted
process/exited process/outputDelta project/changed rawResponse/completed rawResponseItem/completed
remoteControl/status/changed skills/changed thread/archived thread/attachment/updated
thread/closed thread/compacted thread/deleted thread/environment/connected
thread/environment/disconnected thread/goal/cleared thread/goal/updated thread/name/updated
thread/prediction/updated thread/project/updated thread/queue/changed thread/readState/changed
thread/realtime/closed thread/realtime/error thread/realtime/item/completed
thread/realtime/item/started thread/realtime/item/transcript/delta thread/realtime/itemAdded
thread/realtime/outputAudio/delta thread/realtime/sdp thread/realtime/started
thread/realtime/transcript/delta thread/realtime/transcript/done thread/reverted
thread/search/partial thread/section/changed thread/settings/updated thread/started
thread/status/changed thread/unarchived turn/diff/updated turn/moderationMetadata
windows/worldWritableWarning windowsSandbox/setupCompleted
"""
MEANINGLESS = frozenset(_MEANINGLESS.split())
"""Notifications that no row is made of, most of them about what we never ask for."""

_ITEMS = """
agentMessage: moderation text phase memoryCitation delivery questions
collabAgentToolCall: tool status senderThreadId receiverThreadIds prompt model reasoningEffort
    agentsStates
commandExecution: pluginId scriptPath command cwd processId source status commandActions
    aggregatedOutput exitCode durationMs
contextCompaction:
dynamicToolCall: namespace tool arguments status contentItems success durationMs
enteredReviewMode: review
exitedReviewMode: review
fileChange: changes status
functionCallOutput: name namespace output
hookPrompt: fragments
imageGeneration: status revisedPrompt transparentBackground failure savedPath inputImages
    generationId fileId result
imageView: path
mcpToolCall: server environmentId tool status arguments appContext mcpAppResourceUri mcpAppUi
    pluginId readOnlyHint result error durationMs
plan: text
reasoning: summary content
sleep: durationMs
subAgentActivity: model reasoningEffort kind agentThreadId agentPath
userMessage: clientId content
webSearch: query action results
"""

_NOTIFICATIONS = """
error: error turnId willRetry
guardianWarning: message
item/completed: completedAtMs contentTokenCount item turnId
item/started: item startedAtMs turnId
model/rerouted: fromModel reason toModel turnId
serverRequest/resolved: requestId
thread/tokenUsage/updated: tokenUsage turnId
turn/completed: turn
turn/plan/updated: explanation plan turnId
turn/started: turn
warning: message
"""
_REQUESTS = """
item/commandExecution/requestApproval: additionalPermissions approvalId availableDecisions command
    commandActions cwd environmentId itemId kind networkApprovalContext proposedExecpolicyAmendment
    proposedNetworkPolicyAmendments reason startedAtMs turnId
item/fileChange/requestApproval: grantRoot itemId reason startedAtMs turnId
item/permissions/requestApproval: cwd environmentId itemId permissions reason startedAtMs turnId
item/tool/requestUserInput: autoResolutionMs isBlocking itemId questions turnId
mcpServer/elicitation/request: _meta challenge description elicitationId environmentId message mode
    requestedSchema serverName title turnId url
"""
_PARTS = """
turn: completedAt durationMs error id items itemsView rootTurnId startedAt status
error: additionalDetails codexErrorInfo message misalignment
tokenUsage: last modelContextWindow total
"""
_ENDS = frozenset({"completed", "failed", "interrupted"})
"""How a turn ends."""


def _table(text: str, *every: str) -> dict[str, frozenset[str]]:
    entries = text.strip().replace("\n    ", " ").split("\n")
    named = (entry.partition(":") for entry in entries)
    return {kind: frozenset({*every, *members.split()}) for kind, _, members in named}


MEMBERS = _table(_ITEMS, "type", "id", "startedAtMs", "completedAtMs")
"""By the type of an item."""
_NOTIFICATION_MEMBERS = _table(_NOTIFICATIONS, "threadId")
_REQUEST_MEMBERS = _table(_REQUESTS, "threadId")
_PART_MEMBERS = _table(_PARTS)


def unknown_in_notification(method: str, parameters: dict[str, Any]) -> list[Output]:
    """Return what is to be said of a notification that we read."""
    outputs = new_fields(method, parameters, _NOTIFICATION_MEMBERS[method])
    for name, members in _PART_MEMBERS.items():
        outputs += new_fields(name, an_object(parameters.get(name)), members)
    if method.startswith("item/"):
        outputs += _unknown_in_item(an_object(parameters.get("item")))
    if method == "turn/completed":
        outputs += _unknown_in_end(an_object(parameters.get("turn")))
    return outputs


def _unknown_in_item(item: dict[str, Any]) -> list[Output]:
    kind = text_of(item.get("type"))
    members = MEMBERS.get(kind)
    if members is None:
        return [Unknown(f"item.{kind}", item)]
    return new_fields(f"item.{kind}", item, members)


def _unknown_in_end(turn: dict[str, Any]) -> list[Output]:
    status = text_of(turn.get("status"))
    how = [] if status in _ENDS else [Unknown(f"turn.status.{status}", turn)]
    return [*how, *new_fields("error", an_object(turn.get("error")), _PART_MEMBERS["error"])]


def unknown_in_request(method: str, parameters: dict[str, Any]) -> list[Output]:
    """Return what is to be said of a request that we serve."""
    return new_fields(method, parameters, _REQUEST_MEMBERS[method])
