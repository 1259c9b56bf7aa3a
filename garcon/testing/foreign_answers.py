"""The answers over HTTP that a client written by somebody else takes (chats.md 3, 4; server.md B,
E; control.md A to C), by method and path.
"""

from __future__ import annotations

from typing import Any

from garcon.testing.foreign_rules import (
    CANDIDATE,
    CONTROL,
    EFFORTS,
    ENVELOPE,
    FAILURE,
    FEED,
    LISTED,
    PERMISSIONS,
    PHASES,
    PROTOCOLS,
    Malformed,
    OneOf,
    Shape,
    anything,
    boolean,
    chat_id,
    check,
    count,
    feed_relations,
    iso,
    maybe,
    need,
    page_relations,
    positive,
    string,
    text,
    true,
)

_OK = {"success": true}
_TAKEN = {
    "success": true,
    "commandType": text,
    "clientRequestId": text,
    "chatId": chat_id,
    "status": {"accepted", "duplicate"},
    "acceptedAt": iso,
}
_TURN = _TAKEN | {"turnId": text}
_QUEUED = _TAKEN | {"entryId": text, "control": CONTROL}
_STOPPED = (
    _TAKEN | {"outcome": {"interrupt-requested", "already-idle", "failed"}} | {"control": CONTROL}
)
_CONTROLLED = {"success": true, "chatId": chat_id, "control": CONTROL}
_OUTPUT = OneOf(
    (
        {
            "availability": {"available"},
            "completeness": {"complete", "best-effort"},
            "assistantMessages": [string],
        },
        {"availability": {"unavailable"}, "reason": {"too-large", "retention-pressure"}},
    )
)
_RECEIPT = {
    "chatId": text,
    "turnId": text,
    "clientRequestId": text,
    "acceptedAt": iso,
    "updatedAt": iso,
}
_SETTLED = _RECEIPT | {"settledAt": iso, "output": _OUTPUT}
RECEIPT = OneOf(
    (
        _RECEIPT | {"state": {"pending"}},
        _SETTLED | {"state": {"completed"}},
        _SETTLED | {"state": {"failed"}, "error": text},
        _SETTLED | {"state": {"interrupted"}, "reason": {"user-stop", "chat-deleted"}},
    )
)
_SNAPSHOT = {
    "observedAt": iso,
    "messageLimit": count,
    "chat": {
        "id": chat_id,
        "title": text,
        "agentId": text,
        "agentOwnershipEpoch": text,
        "carryOverRevision": text,
        "model": maybe(string),
        "apiProviderId": maybe(text),
        "modelEndpointId": maybe(text),
        "modelProtocol": maybe(PROTOCOLS),
        "permissionMode": PERMISSIONS,
        "thinkingMode": EFFORTS,
        "projectPath": text,
        "tags": [text],
        "canReloadFromNativeHistory": boolean,
        "activity": {"createdAt": maybe(iso), "lastActivityAt": maybe(iso)},
    },
    "processingPhase": maybe(PHASES),
    "control": CONTROL,
    "transientFeed": FEED,
    "transcript": OneOf(
        (
            {"availability": {"not-requested"}},
            {"availability": {"available"}, "transcriptViewId": text},
            {
                "availability": {"unavailable"},
                "errorCode": text,
                "retryable": boolean,
                "message": text,
            },
        )
    ),
}
_GENERATION = {
    "agentId": string,
    "model": string,
    "thinkingMode": EFFORTS,
    "apiProviderId": maybe(text),
    "modelEndpointId": maybe(text),
    "modelProtocol": maybe(PROTOCOLS),
}
_MODES = {"permissionMode": PERMISSIONS, "thinkingMode": EFFORTS, "agentSettingsById": anything}
_OWN_MODES = {
    "permissionMode?": PERMISSIONS,
    "thinkingMode?": EFFORTS,
    "agentSettingsById?": anything,
}


def by_agent(value: Any) -> bool:
    """What agents have of their own."""
    for name, modes in value.items():
        check(modes, _OWN_MODES, name)
    return True


SETTINGS = {
    "version": count,
    "features": {"transcriptSearch": {"enabled": boolean}},
    "ui": anything,
    "uiEffective": {
        "chatTitle": _GENERATION | {"enabled": boolean},
        "agentSwitchCompaction": _GENERATION | {"enabled": boolean},
        "commitMessage": _GENERATION,
        "promptRefinement": _GENERATION,
    },
    "paths": {
        "pinnedProjectPaths": [string],
        "browseStartPath": string,
        "recentProjectPaths": [string],
    },
    "pinnedChatIds": [chat_id],
    "recentAgentSettings": [
        {
            "agentId": text,
            "model": string,
            "apiProviderId": maybe(text),
            "modelEndpointId": maybe(text),
            "modelProtocol": maybe(PROTOCOLS),
        }
    ],
    "executionDefaults": {"global": _MODES, "byAgent": by_agent},
    "projectBasePath": text,
    "telegram": {
        "botTokenAvailable": boolean,
        "botUsername": maybe(string),
        "botFirstName": maybe(string),
        "recipientUsername": maybe(string),
        "recipientDisplayName": maybe(string),
        "recipientLinked": boolean,
        "pendingLink": boolean,
        "linkUrl": maybe(string),
    },
}
_MODEL = {
    "value": text,
    "label": text,
    "rawModel?": text,
    "apiProviderId?": text,
    "endpointId?": text,
    "protocol?": PROTOCOLS,
    "supportsImages?": boolean,
    "isLocal?": boolean,
}
AGENT = {
    "id": text,
    "label": text,
    "description?": string,
    "kind": {"agent"},
    "supportsCompact": boolean,
    "supportsFork": true,
    "supportsForkAtMessage": true,
    "supportsForkWhileRunning": true,
    "supportsUpdateProjectPath": boolean,
    "supportsSteering": boolean,
    "supportsGoals": boolean,
    "supportsImages": boolean,
    "fileAttachmentMimeTypes?": [text],
    "acceptsApiProviderEndpoints": boolean,
    "supportedProtocols": [PROTOCOLS],
    "authLoginSupported": boolean,
    "supportedPermissionModes": [PERMISSIONS],
    "supportedThinkingModes": [EFFORTS],
    "settings": [anything],
    "defaultSettings": ENVELOPE,
    "requiresStrictModelDiscovery": boolean,
    "defaultModel": string,
    "models": [_MODEL],
}
PROVIDER = {
    "id": text,
    "label": text,
    "endpoints": [
        {
            "id": text,
            "protocol": PROTOCOLS,
            "baseUrl": text,
            "defaultModel": string,
            "models": [{"value": text, "label": text}],
            "supportsImages": boolean,
            "hasApiKey": boolean,
            "apiKeyLabel": string,
            "modelDiscovery": text,
        }
    ],
}
_ROW_ADDED = {
    "success": true,
    "commandType": {"chat-row-add"},
    "clientRequestId": text,
    "clientMessageId": text,
    "chatId": chat_id,
    "transcriptViewId": text,
    "ordinal": positive,
    "type": {"notice", "error"},
    "status": {"appended", "duplicate"},
    "timestamp": iso,
}
_USER = {"id": text, "username": text}

ANSWERS: dict[tuple[str, str], Shape] = {
    ("GET", "/chats"): {
        "sessions": [LISTED],
        "total": count,
        "lastSelectedChatId": maybe(chat_id),
    },
    ("DELETE", "/chats"): _OK,
    ("PUT", "/chats/last-selected"): _OK | {"lastSelectedChatId": maybe(chat_id)},
    ("POST", "/chats/start"): _TURN | {"chat": maybe(LISTED)},
    ("POST", "/chats/run"): _TURN | {"chat?": LISTED},
    ("POST", "/chats/fork"): _OK | {"chat": LISTED},
    ("POST", "/chats/fork-run"): _TURN | {"chat": maybe(LISTED)},
    ("POST", "/chats/handoff-run"): _TURN | {"chat": maybe(LISTED)},
    ("POST", "/chats/compact"): _TURN,
    ("POST", "/chats/stop"): _STOPPED,
    ("POST", "/chats/interrupt-and-send"): _STOPPED,
    ("POST", "/chats/steer"): _TURN,
    ("GET", "/chats/queue"): _CONTROLLED,
    ("POST", "/chats/queue/entries"): _QUEUED,
    ("PUT", "/chats/queue/entries"): _QUEUED,
    ("DELETE", "/chats/queue/entries"): _QUEUED,
    ("PUT", "/chats/queue/entries/move"): _QUEUED,
    ("POST", "/chats/queue/entries/steer"): _TURN | {"serverInstanceId": text, "control?": CONTROL},
    ("POST", "/chats/queue/pause"): _CONTROLLED,
    ("POST", "/chats/queue/clear"): _CONTROLLED,
    ("POST", "/chats/queue/resume"): _CONTROLLED,
    ("GET", "/chats/rows"): _OK | {"chatId": chat_id, "transcriptViewId": text},
    ("POST", "/chats/rows"): _ROW_ADDED,
    ("GET", "/chats/turn-receipt"): RECEIPT,
    ("GET", "/chats/snapshot"): _SNAPSHOT,
    ("GET", "/chats/messages"): {"historyState": anything, "chatId": chat_id},
    ("POST", "/chats/permissions/decision"): _TAKEN,
    ("POST", "/chats/pin"): _OK | {"isPinned": boolean},
    ("POST", "/chats/archive"): _OK | {"isArchived": boolean},
    ("POST", "/chats/reorder"): _OK
    | {"chatId": chat_id, "orderGroup": {"pinned", "normal", "archived"}, "changed": boolean},
    ("POST", "/chats/read"): _OK | {"results": [{"chatId": chat_id, "lastReadAt": iso}]},
    ("PATCH", "/chats/tags"): _OK | {"chatId": chat_id, "tags": [text]},
    ("PATCH", "/chats/execution-settings"): _OK
    | {
        "chatId": chat_id,
        "permissionMode": PERMISSIONS,
        "thinkingMode": EFFORTS,
        "agentSettings": ENVELOPE,
    },
    ("PATCH", "/chats/model"): _OK | {"chatId": chat_id, "model": text},
    ("PATCH", "/chats/project-path"): _OK
    | {
        "chatId": chat_id,
        "projectPath": text,
        "effectiveProjectKey": text,
        "previousProjectPath": text,
        "previousEffectiveProjectKey": maybe(text),
    },
    ("GET", "/chats/running"): {"sessions": anything},
    ("GET", "/chats/details"): {
        "chatId": chat_id,
        "firstMessage": string,
        "createdAt": maybe(iso),
        "lastActivityAt": maybe(iso),
        "agentSessionId": maybe(string),
        "transcriptSource": maybe(
            {"kind": {"filesystem-path", "provider-reference"}, "value": text}
        ),
        "carryOver": {"revision": text, "archivedMessageCount": count, "segments": [anything]},
    },
    ("GET", "/chats/validate-start"): OneOf(
        ({"valid": true, "isGitRepo": boolean}, FAILURE | {"valid": boolean})
    ),
    ("PUT", "/app/session-name"): _OK,
    ("GET", "/app/settings"): SETTINGS,
    ("PUT", "/app/settings"): _OK | {"settings": SETTINGS},
    ("GET", "/models"): {"catalog": {"agents": [AGENT], "apiProviders": [PROVIDER]}},
    ("POST", "/api-providers"): PROVIDER,
    ("PUT", "/api-providers"): PROVIDER,
    ("DELETE", "/api-providers"): _OK,
    ("POST", "/api-providers/models"): {"success": boolean, "error?": text},
    ("GET", "/auth/status"): {
        "needsSetup": boolean,
        "isAuthenticated": boolean,
        "authDisabled": boolean,
    },
    ("POST", "/auth/register"): _OK | {"user": _USER, "token": text},
    ("POST", "/auth/login"): _OK | {"user": _USER, "token": text},
    ("GET", "/auth/user"): {"user": _USER},
    ("POST", "/auth/logout"): _OK | {"message": string},
    ("GET", "/runtime"): {"schemaVersion": {1}, "instanceId": text, "proof": text},
}
"""What succeeds; whatever fails is an envelope, but for `SHORT`."""

SHORT = {("GET", "/runtime"), ("GET", "/models"), ("PUT", "/app/session-name")}
SHORT |= {("POST", "/auth/register"), ("POST", "/auth/login"), ("GET", "/auth/user")}
"""Whose failures may be no more than `error`."""


def judge(method: str, path: str, query: dict[str, Any], status: int, body: Any) -> None:
    """Raise `Malformed` for an answer that such a client does not take."""
    key = (method, path)
    if status >= 400:
        check(body, {"error": text} if key in SHORT else FAILURE, f"{method} {path} {status}")
        return
    if key not in ANSWERS:
        raise Malformed(f"{method} {path} answers {status}, and nothing is known of it")
    check(body, ANSWERS[key], f"{method} {path}")
    if key == ("GET", "/chats"):
        need(body["total"] == len(body["sessions"]), body, "total")
    elif key == ("GET", "/chats/messages"):
        _history(body, query)
    elif key == ("GET", "/chats/snapshot"):
        _snapshot(body, query)


def _history(body: Any, query: dict[str, Any]) -> None:
    state = body["historyState"]
    if state["kind"] == "degraded":
        check(state, {"errorCode": text, "retryable": boolean}, "historyState")
        need(set(state) == {"kind", "errorCode", "retryable"}, state, "exactly three keys")
        need(set(body) == {"historyState", "chatId", "messages"}, body, "no other fields")
        need(body["messages"] == [], body, "no messages")
        return
    need(state == {"kind": "complete"}, state, "exactly one key")
    check(
        body,
        {"transcriptViewId": text, "resendCandidates": [CANDIDATE], "limit": positive},
        "history",
    )
    need(body["limit"] == min(int(query.get("limit", 20)), 200), body, "the effective limit")
    page_relations(body, body["limit"])


def _snapshot(body: Any, query: dict[str, Any]) -> None:
    limit = int(query.get("limit", 10))
    chat, transcript = body["chat"], body["transcript"]
    need(chat["id"] == query["chatId"], chat, "the chat that was asked for")
    need(body["messageLimit"] == limit, body, "the limit that was asked for")
    need(chat["tags"] == sorted(set(chat["tags"])), chat, "the tags' order")
    unasked = transcript["availability"] == "not-requested"
    need(unasked == (limit == 0), transcript, "the transcript's availability")
    view = body["transientFeed"]["transcriptViewId"]
    if transcript["availability"] == "available":
        need(view == transcript["transcriptViewId"], body, "one view")
        page_relations(transcript, limit)
    feed_relations(body["transientFeed"], chat["id"], view)
