"""A chat changes hands: another agent, or the same one on another executor, takes the next turn
(chats.md 3.5, 5.9; contract/README.md).

The new owner, the row that says so and the input are one commit: a crash leaves all of it or
nothing, so no decision is ever pending.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec
from msgspec import UNSET, Struct
from twisted.internet.defer import TimeoutError

from garcon.contract.catalogs import PERMISSION_MODES, THINKING_MODES, AgentSettings, Protocol
from garcon.contract.limits import INTERACTIVE_WAIT
from garcon.contract.messages import AgentSwitch
from garcon.controller.chats import fields
from garcon.controller.chats.agents import executor_silent
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.choices import Overrides, owner_entry
from garcon.controller.chats.models import Selection
from garcon.controller.chats.project import outward
from garcon.controller.chats.state import State
from garcon.errors import GarconError, validation
from garcon.store.records import ChatRecord


class Target(Struct, frozen=True, rename="camel"):
    """Who takes over, and with what; what is absent stays as the chat has it."""

    agent_id: str
    model: str
    executor_id: str | None = None
    project_path: str | None = None
    api_provider_id: str | None = None
    model_endpoint_id: str | None = None
    model_protocol: Protocol | None = None
    permission_mode: str | None = None
    thinking_mode: str | None = None
    agent_settings: AgentSettings | None = None

    @property
    def selection(self) -> Selection:
        return Selection(
            self.model.strip(), self.api_provider_id, self.model_endpoint_id, self.model_protocol
        )


class Handoff(Struct, frozen=True, rename="camel"):
    """What a run says of a change of hands."""

    expected_agent_ownership_epoch: str
    target: Target


def read_handoff(given: dict[str, Any] | None) -> Handoff | None:
    """Check every field for itself."""
    if given is None:
        return None
    try:
        wish = msgspec.convert(given, Handoff)
    except msgspec.ValidationError as error:
        raise validation(f"handoff is malformed: {error}") from None
    target = wish.target
    fields.required(wish.expected_agent_ownership_epoch, "expectedAgentOwnershipEpoch")
    fields.required(target.agent_id, "handoff's agentId")
    fields.required(target.model, "handoff's model")
    fields.executor_id(target.executor_id)
    if target.model_endpoint_id is not None and target.api_provider_id is None:
        raise validation("handoff's modelEndpointId needs apiProviderId")
    if target.permission_mode is not None:
        fields.exact_mode(target.permission_mode, PERMISSION_MODES, "handoff's permissionMode")
    if target.thinking_mode is not None:
        fields.exact_mode(target.thinking_mode, THINKING_MODES, "handoff's thinkingMode")
    settings = target.agent_settings
    if settings is not None and fields.agent_settings(settings).owner_id != target.agent_id:
        raise validation("handoff's agentSettings belongs to another agent")
    return wish


async def new_owner(state: State, chat: Chat, handoff: Handoff) -> dict[str, Any]:
    """Return what changes of the chat's record with the target as its owner; raises what forbids
    that.
    """
    stored, target = chat.record, handoff.target
    if handoff.expected_agent_ownership_epoch != stored.agent_ownership_epoch:
        raise stale_ownership()
    executor_id = stored.executor_id if target.executor_id is None else target.executor_id
    if (executor_id, target.agent_id) == (stored.executor_id, stored.agent_id):
        raise validation("the target of the handoff owns the chat already")
    state.executors.runtime(executor_id)
    entry = await owner_entry(state, executor_id, target.agent_id)
    path, key = stored.project_path, stored.project_key
    if executor_id != stored.executor_id or target.project_path is not None:
        path, key = await _project(state, executor_id, target.project_path or stored.project_path)
    settings = target.agent_settings
    if settings is None:
        kept = stored.agent_settings
        settings = kept if kept.owner_id == target.agent_id else entry.default_settings
    return {
        "executor_id": executor_id,
        "agent_id": target.agent_id,
        "agent_ownership_epoch": str(uuid4()),
        "agent_session_id": None,
        "fork_from": None,
        "agent_settings": settings,
        "project_path": path,
        "project_key": key,
        "permission_mode": target.permission_mode or stored.permission_mode,
        "thinking_mode": target.thinking_mode or stored.thinking_mode,
        **target.selection.stored(),
    }


def overrides_of(handoff: Handoff, *, needs_explicit_bypass: bool) -> Overrides:
    """Return what the target's first turn is checked for: all that the wish names."""
    target = handoff.target
    return Overrides(
        selection=target.selection,
        permission_mode=target.permission_mode,
        thinking_mode=target.thinking_mode,
        agent_settings=target.agent_settings,
        needs_explicit_bypass=needs_explicit_bypass,
    )


def switch(at: str, before: ChatRecord, after: ChatRecord) -> AgentSwitch:
    """Return what stands in the transcript where the chat changes hands."""
    return AgentSwitch(
        timestamp=at,
        from_agent_id=before.agent_id,
        to_agent_id=after.agent_id,
        from_model=before.model or UNSET,
        to_model=after.model or UNSET,
    )


def stale_ownership() -> GarconError:
    """The caller's choice was made for another owner."""
    return GarconError(
        "STALE_CHAT_OWNERSHIP", "The chat has changed hands; choose again.", status=409
    )


def requires_idle(error: GarconError) -> GarconError:
    """A chat changes hands only while nothing of it runs or waits."""
    return GarconError("AGENT_HANDOFF_REQUIRES_IDLE", error.text, status=409, retryable=True)


async def _project(state: State, executor_id: str, path: str) -> tuple[str, str]:
    runtime = state.executors.runtime(executor_id)
    try:
        found = await runtime.inspect_project(path).addTimeout(INTERACTIVE_WAIT, state.clock)
    except TimeoutError:
        raise executor_silent(executor_id) from None
    except GarconError as error:
        raise outward(error) from None
    return found.project_path, found.project_key
