"""Which executor and which project a file route is about (server.md D.1)."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from garcon.contract.files import ProjectQuery
from garcon.contract.ids import LOCAL
from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.providers.operations import executor_id
from garcon.errors import GarconError, validation
from garcon.runtime.files import failures
from garcon.runtime.interfaces import IFileHost, IFiles

ChatPlace = Callable[[str], tuple[str, str]]
"""Returns the executor and the project directory of a chat, or raises ``SESSION_NOT_FOUND``."""


@frozen
class Target:
    """A project of an executor; `chat_id` is the chat whose project it is, if it was named so."""

    executor_id: str
    project_path: str
    chat_id: str | None = None


@frozen
class Targets:
    """Finds what is meant."""

    _executors: IExecutors
    _place: ChatPlace

    def project(self, query: ProjectQuery) -> Target:
        """Return the project that is asked for: a chat's, or the one that is named."""
        wanted = None if query.executor_id is None else executor_id(query.executor_id)
        if not query.chat_id:
            if not query.project_path:
                raise validation("chatId or projectPath is required.")
            return Target(wanted or LOCAL, query.project_path)
        where, path = self._place(query.chat_id)
        if wanted is not None and wanted != where:
            raise GarconError(
                "STALE_CHAT_OWNERSHIP", "The chat runs on another executor.", status=409
            )
        if not path:
            raise GarconError(
                "PROJECT_PATH_NOT_FOUND", "The chat has no project directory.", status=404
            )
        return Target(where, path, query.chat_id)

    def must_be_current(self, target: Target) -> None:
        """Raise when a chat is somewhere else by now."""
        if target.chat_id is None:
            return
        if self._place(target.chat_id) != (target.executor_id, target.project_path):
            raise GarconError(
                "PROJECT_PATH_CHANGED",
                "The chat's directory was changed meanwhile.",
                status=409,
                retryable=True,
            )

    def files(self, where: str) -> IFiles:
        """Return an executor's files.  One that is away for a moment is waited for by its link."""
        executors = self._executors
        if executors.availability(where) == "offline":
            runtime = executors.runtime(where)
        else:
            runtime = executors.existing(where)
        if not IFileHost.providedBy(runtime):
            raise failures.unsupported()
        return runtime.files
