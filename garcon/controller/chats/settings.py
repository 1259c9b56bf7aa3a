"""What a chat's next turns run with: modes, agent settings and model (chats.md 3.29)."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from attrs import define, evolve
from msgspec import UNSET
from twisted.internet.defer import Deferred

from garcon.contract.catalogs import AgentEntry, AgentSettings
from garcon.contract.chat_settings import (
    ChangeExecutionSettings,
    ChangeModel,
    ExecutionSettingsChanged,
    ModelChanged,
)
from garcon.controller.chats import fields
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.choices import owner_entry
from garcon.controller.chats.models import (
    Selection,
    is_local,
    must_be_offered,
    must_support_modes,
)
from garcon.controller.chats.state import State
from garcon.controller.handlers import Call
from garcon.errors import GarconError, validation

T = TypeVar("T")

_ROUTING = ("api_provider_id", "model_endpoint_id", "model_protocol")


@define(eq=False)
class ChatSettings:
    """Serves ``PATCH /chats/execution-settings`` and ``/chats/model``.  Nothing that runs is
    touched: the next turn has them.
    """

    _state: State

    async def change_execution(
        self, call: Call[Any, ChangeExecutionSettings]
    ) -> ExecutionSettingsChanged:
        """Change modes, leniently read, and values of the agent's settings, strictly."""
        body = call.body
        chat_id = fields.required(body.chat_id, "chatId")
        return await self._locked(chat_id, lambda chat: self._change_execution(chat, body))

    async def _change_execution(
        self, chat: Chat, body: ChangeExecutionSettings
    ) -> ExecutionSettingsChanged:
        stored, wanted = chat.record, dict[str, Any]()
        if body.permission_mode not in (UNSET, None):
            wanted["permission_mode"] = fields.permission_mode(body.permission_mode)
        if body.thinking_mode not in (UNSET, None):
            wanted["thinking_mode"] = fields.thinking_mode(body.thinking_mode)
        patch = {} if body.agent_settings_patch is UNSET else body.agent_settings_patch
        changed = {name: v for name, v in wanted.items() if v != getattr(stored, name)}
        if patch or changed:
            entry = await owner_entry(self._state, stored.executor_id, stored.agent_id)
            with _as_selection():
                must_support_modes(
                    entry,
                    changed.get("permission_mode", "default"),
                    changed.get("thinking_mode", "none"),
                )
            if patch:
                wanted["agent_settings"] = patched(stored.agent_settings, entry, patch)
        await self._keep(chat, wanted)
        return ExecutionSettingsChanged(
            chat_id=chat.id,
            permission_mode=chat.record.permission_mode,
            thinking_mode=chat.record.thinking_mode,
            agent_settings=chat.record.agent_settings,
        )

    async def change_model(self, call: Call[Any, ChangeModel]) -> ModelChanged:
        """Change the model, and those parts of its routing that were sent."""
        body = call.body
        chat_id = fields.required(body.chat_id, "chatId")
        fields.required(body.model, "model")
        return await self._locked(chat_id, lambda chat: self._change_model(chat, body))

    async def _change_model(self, chat: Chat, body: ChangeModel) -> ModelChanged:
        stored, sent = chat.record, dict[str, Any]()
        for name in _ROUTING:
            value = getattr(body, name)
            if value is not UNSET:
                sent[name] = fields.optional(value, name)
        before = Selection(stored.model or "", *(getattr(stored, name) for name in _ROUTING))
        after = evolve(before, model=body.model.strip(), **sent)
        entry = await owner_entry(self._state, stored.executor_id, stored.agent_id)
        with _as_selection():
            must_be_offered(entry, after)
        if {is_local(entry, before), is_local(entry, after)} == {True, False}:
            raise GarconError(
                "INTERNAL_ERROR",
                "A chat cannot change between a local model and a remote one.",
                status=500,
            )
        await self._keep(chat, after.stored())
        return ModelChanged(chat_id=chat.id, model=after.model, **sent)

    async def _locked(
        self, chat_id: str, change: Callable[[Chat], Coroutine[Deferred[Any], Any, T]]
    ) -> T:
        state = self._state
        state.must_be_open()
        state.registry.get(chat_id)
        return await state.lanes.run(chat_id, lambda: change(state.registry.get(chat_id)))

    async def _keep(self, chat: Chat, wanted: dict[str, Any]) -> None:
        changed = {name: v for name, v in wanted.items() if v != getattr(chat.record, name)}
        if changed:
            await chat.change(self._state.store, **changed)


@contextmanager
def _as_selection() -> Iterator[None]:
    """What an agent cannot run with has a code of its own here: ``MODEL_SELECTION_ERROR`` (422)."""
    try:
        yield
    except GarconError as error:
        raise GarconError("MODEL_SELECTION_ERROR", error.text, status=422) from None


def patched(stored: AgentSettings, entry: AgentEntry, patch: dict[str, Any]) -> AgentSettings:
    """Return an agent's settings with some values changed; what it does not know or take is
    refused (control.md A.5).
    """
    if stored.owner_id != entry.id:
        stored = entry.default_settings
    known = {setting.get("key"): setting for setting in entry.settings}
    for key, value in patch.items():
        if key not in known:
            raise validation(f"The agent {entry.id} has no setting {key!r}.")
        if not takes(known[key], value):
            raise validation(f"The agent {entry.id} does not take that value for {key}.")
    return AgentSettings(stored.owner_id, stored.schema_version, {**stored.values, **patch})


def takes(setting: dict[str, Any], value: Any) -> bool:
    """Whether a setting accepts a value."""
    match setting.get("type"):
        case "boolean":
            return isinstance(value, bool)
        case "enum":
            return any(option.get("value") == value for option in setting.get("options", ()))
        case "number":
            if isinstance(value, bool) or not isinstance(value, int | float):
                return False
            low, high = setting.get("min", value), setting.get("max", value)
            return math.isfinite(value) and bool(low <= value <= high)
        case "string" | "credential-ref":
            return isinstance(value, str)
    return False
