"""What version 0.171.0 of Codex is known to say: its notifications that mean nothing to us, and the
members of its items.  Whatever else comes is counted and kept (`unknown.py`).
"""

from __future__ import annotations

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

_EVERY = frozenset({"type", "id", "startedAtMs", "completedAtMs"})
_MEMBERS = """
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


def _members() -> dict[str, frozenset[str]]:
    entries = _MEMBERS.replace("\n    ", " ").split("\n")
    named = (entry.partition(":") for entry in entries if entry)
    return {kind: _EVERY | set(members.split()) for kind, _, members in named}


MEMBERS = _members()
"""By the type of an item."""
