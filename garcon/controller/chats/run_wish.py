"""What a run asks for, each field in order for itself (chats.md 3.5)."""

from __future__ import annotations

from attrs import frozen
from msgspec import UNSET

from garcon.contract.catalogs import PERMISSION_MODES, THINKING_MODES
from garcon.contract.chats import RunChat
from garcon.contract.messages import Presentation
from garcon.controller.chats import fields
from garcon.controller.chats.choices import Overrides
from garcon.controller.chats.handoff import Handoff, overrides_of, read_handoff
from garcon.controller.chats.ledger import digested, fingerprint
from garcon.controller.chats.models import Selection
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
    selection: Selection | None
    handoff: Handoff | None

    @property
    def overrides(self) -> Overrides:
        """What the turn is to run with instead of the chat's own choices."""
        explicit = self.body.permission_fallback_policy == EXPLICIT_BYPASS
        if self.handoff is not None:
            return overrides_of(self.handoff, needs_explicit_bypass=explicit)
        settings = self.body.agent_settings
        return Overrides(
            selection=self.selection,
            permission_mode=self.permission_mode,
            thinking_mode=self.thinking_mode,
            agent_settings=None if settings is UNSET else settings,
            needs_explicit_bypass=explicit,
        )

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
    if handoff is not None and any(getattr(body, name) is not UNSET for name in _OVERRIDES):
        raise validation("handoff cannot be combined with settings of this turn")
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
        selection=Selection.of(body),
        handoff=read_handoff(handoff),
    )
