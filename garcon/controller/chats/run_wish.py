"""What a run asks for, each field in order for itself (chats.md 3.5)."""

from __future__ import annotations

from typing import Any

import msgspec
from attrs import frozen
from msgspec import UNSET, Struct

from garcon.contract.catalogs import PERMISSION_MODES, THINKING_MODES, AgentSettings
from garcon.contract.chats import RunChat
from garcon.contract.messages import Presentation
from garcon.controller.chats import fields
from garcon.controller.chats.ledger import digested, fingerprint
from garcon.errors import validation

EXPLICIT_BYPASS = "require-explicit-bypass"

_OVERRIDES = (
    "model",
    "api_provider_id",
    "model_endpoint_id",
    "model_protocol",
    "permission_mode",
    "thinking_mode",
    "agent_settings",
)


class _Target(Struct, frozen=True, rename="camel"):
    agent_id: str
    model: str
    api_provider_id: str | None = None
    model_endpoint_id: str | None = None
    model_protocol: str | None = None
    permission_mode: str | None = None
    thinking_mode: str | None = None
    agent_settings: AgentSettings | None = None


class _Handoff(Struct, frozen=True, rename="camel"):
    expected_agent_ownership_epoch: str
    target: _Target


@frozen
class Wish:
    """A run whose fields are in order, each for itself."""

    body: RunChat
    request_id: str
    message_id: str
    chat_id: str
    view_id: str
    excluded: list[int]
    permission_mode: str | None
    thinking_mode: str | None
    tags_to_add: list[str]
    presentation: Presentation | None

    def fingerprint(self) -> bytes:
        """Digest what makes a run the same one (chats.md 2.3; the epoch: contract/README.md)."""
        body = self.body
        return fingerprint(
            {
                "chatId": self.chat_id,
                "transcriptViewId": self.view_id,
                "excludedResendOrdinals": self.excluded,
                "clientMessageId": self.message_id,
                "command": body.command,
                "images": digested(body.images),
                "permissionMode": body.permission_mode,
                "thinkingMode": body.thinking_mode,
                "agentSettings": body.agent_settings,
                "model": body.model,
                "apiProviderId": body.api_provider_id,
                "modelEndpointId": body.model_endpoint_id,
                "modelProtocol": body.model_protocol,
                "expectedAgentId": body.expected_agent_id,
                "expectedAgentOwnershipEpoch": body.expected_agent_ownership_epoch,
                "tagsToAdd": self.tags_to_add,
                "permissionFallbackPolicy": body.permission_fallback_policy,
                "handoff": UNSET if body.handoff is None else body.handoff,
                "userMessagePresentation": self.presentation,
            }
        )


def read_wish(body: RunChat) -> Wish:
    """Check every field of a run for itself."""
    fields.no_answers_member(body)
    handoff = body.handoff
    if handoff is not None:
        if any(getattr(body, name) is not UNSET for name in _OVERRIDES):
            raise validation("handoff cannot be combined with settings of this turn")
        _check_handoff(handoff)
    if body.model is UNSET and any(
        isinstance(value, str)
        for value in (body.api_provider_id, body.model_endpoint_id, body.model_protocol)
    ):
        raise validation("a routing field needs model")
    if body.model is not UNSET:
        fields.required(body.model, "model")
    if isinstance(body.model_endpoint_id, str) and not isinstance(body.api_provider_id, str):
        raise validation("modelEndpointId needs apiProviderId")
    if body.expected_agent_id is not UNSET:
        fields.required(body.expected_agent_id, "expectedAgentId")
    if body.permission_fallback_policy not in (None, EXPLICIT_BYPASS):
        raise validation("permissionFallbackPolicy is unknown")
    return Wish(
        body=body,
        request_id=fields.client_id(body.client_request_id, "clientRequestId"),
        message_id=fields.client_id(body.client_message_id, "clientMessageId"),
        chat_id=fields.chat_id(body.chat_id),
        view_id=fields.required(body.transcript_view_id, "transcriptViewId"),
        excluded=fields.ordinals(body.excluded_resend_ordinals),
        permission_mode=fields.exact_mode(body.permission_mode, PERMISSION_MODES, "permissionMode"),
        thinking_mode=fields.exact_mode(body.thinking_mode, THINKING_MODES, "thinkingMode"),
        tags_to_add=fields.tags(body.tags_to_add),
        presentation=fields.presentation(body.user_message_presentation),
    )


def _check_handoff(handoff: dict[str, Any]) -> None:
    try:
        wish = msgspec.convert(handoff, _Handoff)
    except msgspec.ValidationError as error:
        raise validation(f"handoff is malformed: {error}") from None
    target = wish.target
    if target.model_endpoint_id is not None and target.api_provider_id is None:
        raise validation("handoff's modelEndpointId needs apiProviderId")
    if target.agent_settings is not None and target.agent_settings.owner_id != target.agent_id:
        raise validation("handoff's agentSettings belongs to another agent")
