"""All executors of one workspace: Local, and the workers of ``executors.json`` with their links."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from twisted.internet.defer import Deferred, DeferredList
from twisted.web.resource import IResource
from zope.interface import implementer

from garcon.contract.bridge import access_denied, unavailable
from garcon.contract.connection_url import parse_public_base
from garcon.contract.executors import ExecutorSnapshot, MachineServices
from garcon.contract.ids import LOCAL
from garcon.controller.executors.authority import Ending, Lease
from garcon.controller.executors.diagnostics import DiagnosticsOperation
from garcon.controller.executors.interfaces import (
    Availability,
    IExecutors,
    IExecutorUse,
    IExecutorWatcher,
)
from garcon.controller.executors.links import controller_links, lane_resource
from garcon.controller.executors.operations import ExecutorOperations
from garcon.controller.executors.records import (
    LOCAL_LABEL,
    ExecutorRecord,
    executor_unavailable,
    in_use,
    needs_idle,
    not_found,
)
from garcon.controller.executors.registry import Registry, SaveUncertain
from garcon.controller.executors.remote_executor import OpenLink, RemoteExecutor
from garcon.controller.handlers import Handlers
from garcon.deferreds import Tasks
from garcon.errors import GarconError, StartupError
from garcon.link.endpoints import Trust
from garcon.link.interfaces import Handler, ILink, ILinkEvents
from garcon.link.proxy_route import ProxyRoutes
from garcon.link.settings import LinkSettings
from garcon.local.files import write_private
from garcon.runtime.interfaces import IExecutorRuntime


@implementer(IExecutors)
class Executors:
    """The executors, by id; owns the remote ones and their links.

    `use` (the chats' side of the idle check) and `reverse_handlers` (what workers may call) are set
    by the composition before `start`.
    """

    use: IExecutorUse

    def __init__(
        self,
        reactor: Any,
        workspace_dir: str,
        server_instance_id: str,
        local_runtime: IExecutorRuntime,
        project_base: str,
        public_url: str | None,
        trust: Trust,
        *,
        proxies: ProxyRoutes | None = None,
        open_link: OpenLink | None = None,
        write: Callable[[str, bytes], None] = write_private,
        random: Callable[[int], bytes] = os.urandom,
        new_id: Callable[[], str] = lambda: str(uuid4()),
        timestamp: Callable[[], str] | None = None,
        settings: LinkSettings | None = None,
    ) -> None:
        self._settings = settings or LinkSettings()
        self._reactor = reactor
        self._server_instance_id = server_instance_id
        self._local_runtime = local_runtime
        self._project_base = project_base
        self.public_base = None if not public_url else _public_base(public_url)
        self._open_link = open_link or controller_links(
            reactor, server_instance_id, trust, proxies or ProxyRoutes(), self._settings
        )
        self._random = random
        self._new_id = new_id
        self.timestamp = timestamp or _now
        self.registry = Registry(workspace_dir, write)
        self.reverse_handlers: dict[str, Handler] = {}
        self.watchers: list[IExecutorWatcher] = []
        self.noticed: Callable[[], None] = lambda: None
        """Called when anything that `snapshots` show may have changed."""
        self._remote: dict[str, RemoteExecutor] = {}
        self._tasks = Tasks()
        self._is_started = False
        self._is_stopping = False

    # -- life --

    def load(self) -> None:
        """Read ``executors.json``; raises `StartupError`."""
        self.registry.load()
        for record in self.registry.all():
            self._remote[record.id] = self._make(record)

    def start(self) -> None:
        """Connect to the executors, and let them connect."""
        self._is_started = True
        self._tasks.startService()
        for executor in self._remote.values():
            executor.start()

    def quiesce(self) -> None:
        """End every worker's command authority and give none any more."""
        self._is_stopping = True
        for executor in self._remote.values():
            executor.end_authority(Ending.STOPPING)

    def stop(self) -> Deferred[None]:
        """Disconnect every executor; fires when their links and our work for them are gone."""
        self.quiesce()
        gone = [executor.stop(Ending.STOPPING) for executor in self._remote.values()]
        return DeferredList(gone).addCallback(lambda _: self._tasks.stopService())

    def register(self, handlers: Handlers) -> None:
        """Serve the executor operations."""
        ExecutorOperations(self, self._random, self._new_id).register(handlers)
        DiagnosticsOperation(self._reactor, self._known, self.runtime, self.may_manage).register(
            handlers
        )

    def lane_resource(self) -> IResource:
        """Return what serves ``/executor/<uuid>``."""
        return lane_resource(self._reactor, self._accepting, self._settings)

    # -- IExecutors --

    def runtime(self, executor_id: str) -> IExecutorRuntime:
        if executor_id == LOCAL:
            return self._local_runtime
        executor = self._known(executor_id)
        executor.require_ready()
        return executor.runtime

    def existing(self, executor_id: str) -> IExecutorRuntime:
        if executor_id == LOCAL:
            return self._local_runtime
        return self._known(executor_id).runtime

    def availability(self, executor_id: str) -> Availability:
        if executor_id == LOCAL:
            return "ready"
        executor = self._remote.get(executor_id)
        return "offline" if executor is None else executor.availability

    def snapshots(self) -> list[ExecutorSnapshot]:
        remote = [executor.snapshot() for executor in self._remote.values()]
        return [self._local_snapshot(), *remote]

    # -- authority --

    def lease(self, executor_id: str, generation: str) -> Lease:
        """Return the command authority of a worker over one link generation, or raise."""
        if self._is_stopping:
            raise unavailable("The controller is stopping.")
        executor = self._remote.get(executor_id)
        if executor is None:
            raise access_denied("This executor is not known to the controller any more.")
        return executor.lease(generation)

    def require_current(self, executor_id: str, generation: str) -> None:
        """Raise unless a link generation is the present one of an enabled executor."""
        if self._is_stopping:
            raise executor_unavailable("The controller is stopping.")
        self._known(executor_id).require_current(generation)

    def may_manage(self, executor_id: str | None) -> bool:
        """Whether a worker's commands may manage executors now."""
        record = None if executor_id is None else self.registry.get(executor_id)
        return (
            record is not None
            and record.enabled
            and record.allow_controller_cli
            and record.allow_executor_management
        )

    # -- changes --

    def add(self, record: ExecutorRecord) -> None:
        """Save a new executor and connect it."""
        self._require_changeable()
        self.registry.put(record)
        executor = self._remote[record.id] = self._make(record)
        if self._is_started:
            executor.start()
        self.noticed()

    def change(self, record: ExecutorRecord) -> None:
        """Save a changed record and act on the change."""
        self._require_changeable()
        executor = self._known(record.id)
        if needs_idle(executor.record, record):
            self._require_idle(record.id)
        self._saving(executor, lambda: self.registry.put(record))
        executor.change(record)

    def remove(self, record: ExecutorRecord) -> None:
        """Forget an executor."""
        self._require_changeable()
        executor = self._known(record.id)
        self._require_idle(record.id)
        self._saving(executor, lambda: self.registry.remove(record.id))
        del self._remote[record.id]
        executor.end_authority(Ending.REVOKED)
        self.noticed()
        for watcher in self.watchers:
            watcher.executor_removed(record.id)
        self._tasks.spawn("farewell to an executor", _wait(executor.stop(Ending.REVOKED)))

    def _saving(self, executor: RemoteExecutor, save: Callable[[], None]) -> None:
        try:
            save()
        except SaveUncertain:
            executor.block()
            raise

    def _require_changeable(self) -> None:
        if self._is_stopping:
            raise GarconError(
                "SERVER_SHUTTING_DOWN", "The controller is stopping.", status=503, retryable=True
            )
        self.registry.require_writable()

    def _require_idle(self, executor_id: str) -> None:
        if chats := self.use.running_on(executor_id):
            raise in_use(chats)

    def _known(self, executor_id: str) -> RemoteExecutor:
        executor = self._remote.get(executor_id)
        if executor is None:
            raise not_found()
        return executor

    def _make(self, record: ExecutorRecord) -> RemoteExecutor:
        executor = RemoteExecutor(
            record,
            self._reactor,
            self._tasks,
            self._opened,
            self.timestamp,
            self._availability_changed,
            self._settings,
        )
        executor.noticed = lambda: self.noticed()
        return executor

    def _availability_changed(self, executor_id: str) -> None:
        for watcher in self.watchers:
            watcher.availability_changed(executor_id)
        self.use.availability_changed(executor_id)

    def _opened(self, record: ExecutorRecord, events: ILinkEvents) -> ILink:
        return self._open_link(record, events, self.reverse_handlers)

    def _accepting(self, executor_id: str) -> ILink | None:
        executor = self._remote.get(executor_id)
        return None if executor is None else executor.accepting_link

    def _local_snapshot(self) -> ExecutorSnapshot:
        return ExecutorSnapshot(
            id=LOCAL,
            label=LOCAL_LABEL,
            kind="local",
            enabled=True,
            allow_controller_cli=True,
            allow_executor_management=True,
            direction=None,
            availability="ready",
            bulk=None,
            instance_id=self._server_instance_id,
            project_base_path=self._project_base,
            last_error=None,
            machine_services=MachineServices(files=True, git=True, gh=True, terminals=True),
        )


def _public_base(text: str) -> str:
    try:
        return parse_public_base(text)
    except GarconError as error:
        raise StartupError(f"--public-url: {error.text}") from None


async def _wait(d: Deferred[None]) -> None:
    await d


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
