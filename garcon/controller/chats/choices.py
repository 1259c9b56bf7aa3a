"""What a turn runs with: a chat's own choices, those that its command makes instead, and whether
the agent allows them (chats.md 3.5, in its order of checks).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from garcon.contract.catalogs import BYPASS_MODES, AgentEntry, AgentSettings
from garcon.controller.chats import attachments, fields
from garcon.controller.chats.admission import TurnSettings
from garcon.controller.chats.attachments import Attachment
from garcon.controller.chats.models import (
    Selection,
    must_be_offered,
    must_support_modes,
    takes_pictures,
)
from garcon.controller.chats.state import State
from garcon.errors import GarconError, validation
from garcon.store.records import ChatRecord


@frozen
class Overrides:
    """What one command chooses for its turn only; None leaves the chat's own choice."""

    selection: Selection | None = None
    permission_mode: Any = None
    thinking_mode: Any = None
    agent_settings: AgentSettings | None = None
    needs_explicit_bypass: bool = False


NONE = Overrides()


async def chosen(
    state: State,
    stored: ChatRecord,
    overrides: Overrides = NONE,
    attached: Sequence[Attachment] = (),
) -> TurnSettings:
    """Return what a turn of this chat runs with, or raise what forbids it."""
    selection = overrides.selection or own_selection(stored)
    entry = await owner_entry(state, stored.executor_id, stored.agent_id)
    pictures = takes_pictures(entry, selection)
    attachments.must_be_supported(list(attached), entry, images=pictures)
    if (
        overrides.needs_explicit_bypass
        and overrides.permission_mode is None
        and stored.permission_mode in BYPASS_MODES
    ):
        raise GarconError(
            "EXPLICIT_BYPASS_REQUIRED",
            f"The chat's permission mode {stored.permission_mode} must be asked for by name.",
            status=422,
        )
    settings = stored.agent_settings
    if overrides.agent_settings is not None:
        settings = fields.agent_settings(overrides.agent_settings)
        if settings.owner_id != stored.agent_id:
            raise validation("agentSettings belongs to another agent")
    if settings.owner_id != stored.agent_id:
        raise _incomplete("agent settings")
    permission = overrides.permission_mode or stored.permission_mode
    thinking = overrides.thinking_mode or stored.thinking_mode
    must_support_modes(entry, permission, thinking)
    if overrides.selection is not None:
        must_be_offered(entry, selection)
    return TurnSettings(entry, selection, permission, thinking, settings)


async def owner_entry(state: State, executor_id: str, agent_id: str) -> AgentEntry:
    """Return the catalog entry of an agent that owns a chat, or is to; ``UNSUPPORTED_AGENT`` (422)
    for one that the executor does not have.
    """
    try:
        return await state.agents.entry(executor_id, agent_id)
    except GarconError as error:
        if error.code != "UNSUPPORTED_AGENT":
            raise
        raise GarconError("UNSUPPORTED_AGENT", error.text, status=422) from None


def own_selection(stored: ChatRecord) -> Selection:
    """Return the model that a chat has chosen."""
    if not stored.model:
        raise _incomplete("model")
    return Selection(
        stored.model, stored.api_provider_id, stored.model_endpoint_id, stored.model_protocol
    )


def _incomplete(what: str) -> GarconError:
    return GarconError(
        "INCOMPLETE_EXECUTION_CONFIG", f"The chat has no {what}; name one.", status=422
    )
