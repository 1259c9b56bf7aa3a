"""Where a chat works: another project directory for it, and whether one could be started there
(chats.md 3.29, 3.35).

Directories are judged by the chat's executor, never by this machine's file system.
"""

from __future__ import annotations

from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, TimeoutError

from garcon.contract.chat_settings import ChangeProjectPath, ProjectPathChanged
from garcon.contract.events import ProjectPathUpdated
from garcon.contract.limits import INTERACTIVE_READ
from garcon.contract.runs import ProjectInspection
from garcon.contract.upkeep import StartInvalid, StartValid, ValidateStartQuery
from garcon.controller.chats import fields
from garcon.controller.chats.agents import executor_silent
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.choices import owner_entry
from garcon.controller.chats.state import State
from garcon.controller.handlers import Call, Reply
from garcon.errors import GarconError
from garcon.runtime.projects import NO_ACCESS
from garcon.store.records import ChatRecord

_VERDICTS: dict[str, Any] = {
    "PROJECT_PATH_NOT_DIRECTORY": "not_directory",
    "PROJECT_PATH_OUTSIDE_BASE": "outside_base_dir",
    "PROJECT_PATH_NOT_FOUND": "path_not_found",
    NO_ACCESS: "permission_denied",
    "VALIDATION_FAILED": "unknown",
}


@define(eq=False)
class Projects:
    """Serves ``PATCH /chats/project-path`` and ``GET /chats/validate-start``."""

    _state: State

    async def change(self, call: Call[Any, ChangeProjectPath]) -> ProjectPathChanged:
        """Let a chat that is idle go on in another directory; the one it has is always right."""
        state = self._state
        chat_id = fields.chat_id(call.body.chat_id)
        path = fields.required(call.body.project_path, "projectPath")
        state.must_be_open()
        state.registry.get(chat_id)
        return await state.lanes.run(chat_id, lambda: self._change(chat_id, path))

    async def _change(self, chat_id: str, path: str) -> ProjectPathChanged:
        state = self._state
        chat = state.registry.get(chat_id)
        stored = chat.record
        if path == stored.project_path:
            return _changed(chat, stored)
        project = await self._inspect(stored.executor_id, path)
        if project.project_path == stored.project_path:
            return _changed(chat, stored)
        entry = await owner_entry(state, stored.executor_id, stored.agent_id)
        if not entry.supports_update_project_path:
            raise GarconError(
                "PROJECT_PATH_UPDATE_UNSUPPORTED",
                f"The agent {entry.label} cannot go on in another directory.",
                status=422,
            )
        if chat.turn is not None or chat.queue.holds_runs:
            raise GarconError(
                "CHAT_NOT_IDLE",
                "The chat's directory can be changed only while nothing runs or waits in it.",
                status=409,
                retryable=True,
            )
        moved: dict[str, Any] = {
            "project_path": project.project_path,
            "project_key": project.project_key,
        }
        if entry.requires_native_path_for_project_path_update:
            if stored.agent_session_id is None:
                raise GarconError(
                    "PROJECT_PATH_NATIVE_PATH_UNRESOLVED",
                    f"The agent {entry.label} has not said yet where it keeps this chat.",
                    status=409,
                    retryable=True,
                )
        elif not entry.needs_history:
            # Agents find a session by its directory: the next turn begins another one, and is told
            # what was said so far.
            moved |= {"agent_session_id": None, "fork_from": None}
        before = chat.record
        await chat.change(state.store, **moved)
        state.publish(
            ProjectPathUpdated(
                chat_id=chat.id,
                project_path=chat.record.project_path,
                effective_project_key=chat.record.project_key,
                previous_project_path=before.project_path,
                previous_effective_project_key=before.project_key,
            )
        )
        return _changed(chat, before)

    async def validate(
        self, call: Call[ValidateStartQuery, None]
    ) -> StartValid | StartInvalid | Reply:
        """Say whether a chat could be started in a directory, and if not, why."""
        path = call.query.path.strip()
        if not path:
            return Reply(StartInvalid(error="path is required", error_code="path_required"), 400)
        executor_id = fields.executor_id(call.query.executor_id)
        runtime = self._state.executors.runtime(executor_id)
        try:
            project = await self._asked(executor_id, runtime.inspect_project(path))
        except GarconError as error:
            if error.code not in _VERDICTS:
                raise
            return StartInvalid(error=error.text, error_code=_VERDICTS[error.code])
        return StartValid(is_git_repo=project.is_git_repo)

    async def _inspect(self, executor_id: str, path: str) -> ProjectInspection:
        runtime = self._state.executors.runtime(executor_id)
        try:
            return await self._asked(executor_id, runtime.inspect_project(path))
        except GarconError as error:
            raise outward(error) from None

    async def _asked(
        self, executor_id: str, asked: Deferred[ProjectInspection]
    ) -> ProjectInspection:
        try:
            return await asked.addTimeout(INTERACTIVE_READ, self._state.clock)
        except TimeoutError:
            raise executor_silent(executor_id) from None


def outward(error: GarconError) -> GarconError:
    """Return what callers are told of a directory that an executor refuses."""
    if error.code != NO_ACCESS:
        return error
    return GarconError("PROJECT_PATH_NOT_FOUND", error.text, status=404)


def _changed(chat: Chat, before: ChatRecord) -> ProjectPathChanged:
    return ProjectPathChanged(
        chat_id=chat.id,
        project_path=chat.record.project_path,
        effective_project_key=chat.record.project_key,
        previous_project_path=before.project_path,
        previous_effective_project_key=before.project_key,
    )
