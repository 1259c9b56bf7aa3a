"""One remote executor: its record, its link, and what its snapshot says of both (control.md E.2).

The link is replaced when the record's connector changes, and goes away with the executor.  A lost
session ends the executor's command authority at once; its runs wait for the next session of the
same worker process, for as long as the grace lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import structs
from twisted.internet.defer import Deferred, TimeoutError, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.contract import rpc
from garcon.contract.bridge import access_denied, unavailable
from garcon.contract.diagnostics import ExecutorDiagnostics
from garcon.contract.executors import BulkState, ExecutorSnapshot, LastError, MachineServices
from garcon.contract.runs import ExecutorDescription
from garcon.contract.terminals import TerminalNotification
from garcon.controller.executors.authority import Authority, Ending, Lease
from garcon.controller.executors.interfaces import Availability
from garcon.controller.executors.records import (
    ExecutorRecord,
    executor_unavailable,
    grants_differ,
    needs_idle,
)
from garcon.controller.executors.remote import RemoteRuntime
from garcon.deferreds import Tasks
from garcon.errors import CallError
from garcon.link.interfaces import Handler, ICapturedLink, ILink, ILinkEvents, ITerminalEvents
from garcon.link.settings import LinkSettings

OpenLink = Callable[[ExecutorRecord, ILinkEvents, Mapping[str, Handler]], ILink]
BulkAvailability = Literal["connecting", "ready", "reconnecting", "offline"]


def availability(*, enabled: bool, ready: bool, in_grace: bool) -> Availability:
    """Say what an executor is to the chats: usable, to be waited for, or neither."""
    if not enabled:
        return "offline"
    if ready:
        return "ready"
    return "reconnecting" if in_grace else "offline"


def bulk_availability(phase: str) -> BulkAvailability:
    """Fold the bulk life cycle into what the snapshot shows."""
    match phase:
        case "ready" | "reconnecting" | "offline":
            return phase
        case _:
            return "connecting"


class RemoteExecutor:
    """A worker as this controller knows it.  `Executors` owns it."""

    _log = Logger()

    def __init__(
        self,
        record: ExecutorRecord,
        reactor: IReactorTime,
        tasks: Tasks,
        open_link: Callable[[ExecutorRecord, ILinkEvents], ILink],
        timestamp: Callable[[], str],
        changed: Callable[[str], None],
        settings: LinkSettings,
    ) -> None:
        self.record = record
        self._reactor = reactor
        self._tasks = tasks
        self._open_link = open_link
        self._authority = Authority(record.id)
        self.runtime = RemoteRuntime(reactor, tasks, lambda: self._link, timestamp, settings)
        self._changed = changed
        self._settings = settings
        self.noticed: Callable[[], None] = lambda: None
        """Called when anything that a snapshot shows may have changed."""
        self._shown: Availability = "offline"
        self._grace: IDelayedCall | None = None
        self._worker: str | None = None
        """The worker process whose runs we hold."""
        self._link: ILink | None = None
        self._listener: _LinkListener | None = None
        self._closing: Deferred[None] | None = None
        self._is_wanted = False
        self._is_blocked = False
        self._captured: ICapturedLink | None = None
        self._is_ready = False
        self._description: ExecutorDescription | None = None
        self._last_error: LastError | None = None
        self._bulk_error: LastError | None = None

    # -- what it is --

    @property
    def availability(self) -> Availability:
        return availability(
            enabled=self._may_connect,
            ready=self._is_ready,
            in_grace=self._grace is not None,
        )

    @property
    def accepting_link(self) -> ILink | None:
        """The link that takes the worker's own sockets, if it is the worker who dials."""
        return self._link if self.record.direction == "executor-connects" else None

    def snapshot(self) -> ExecutorSnapshot:
        """Return what the API shows."""
        record, known = self.record, self._description
        services = known.services if known is not None else {}
        return ExecutorSnapshot(
            id=record.id,
            label=record.label,
            kind="remote",
            enabled=record.enabled,
            allow_controller_cli=record.allow_controller_cli,
            allow_executor_management=record.allow_executor_management,
            direction=record.direction,
            availability=self.availability,
            bulk=self._bulk(),
            instance_id=known.instance_id if known is not None and self._is_ready else None,
            project_base_path=known.project_base_path if known is not None else None,
            last_error=None if self._is_ready else self._last_error,
            machine_services=MachineServices(
                files=services.get("files", False),
                git=services.get("git", False),
                gh=services.get("gh", False),
                terminals=services.get("terminals", False),
            ),
        )

    def _bulk(self) -> BulkState:
        phase = "offline" if self._link is None else self._link.bulk_phase
        state = bulk_availability(phase)
        return BulkState(state, None if state == "ready" else self._bulk_error)

    @property
    def link(self) -> ILink | None:
        """The link there is now, connected or not."""
        return self._link

    def diagnostics(self) -> ExecutorDiagnostics:
        """Return what the snapshot does not carry."""
        record, link = self.record, self._link
        return ExecutorDiagnostics(
            id=record.id,
            label=record.label,
            enabled=record.enabled,
            allow_controller_cli=record.allow_controller_cli,
            allow_executor_management=record.allow_executor_management,
            direction=record.direction,
            availability=self.availability,
            last_error=None if self._is_ready else self._last_error,
            link=None if link is None else link.diagnostics(),
        )

    def require_ready(self) -> None:
        """Raise ``EXECUTOR_UNAVAILABLE`` unless new work can start here."""
        if self.availability != "ready":
            raise executor_unavailable()

    def require_current(self, generation: str) -> None:
        """Raise ``EXECUTOR_UNAVAILABLE`` unless this is the generation that is connected now."""
        captured = self._captured
        is_current = captured is not None and captured.is_current
        if captured is None or not is_current or captured.generation != generation:
            raise executor_unavailable("The executor's link was replaced or lost.")
        if not self._may_connect:
            raise executor_unavailable("The executor is disabled.")

    def lease(self, generation: str) -> Lease:
        """Return the command authority of a link generation, or raise the bridge's error."""
        captured = self._captured
        if captured is None or captured.generation != generation or not captured.is_current:
            raise unavailable("The executor's link was replaced or lost.")
        if self.availability != "ready":
            raise unavailable("The executor is not ready yet.")
        if not self.record.allow_controller_cli:
            raise access_denied(
                "This executor has no command access; an operator of the controller can grant it:"
                f" garcon executor update {self.record.id} --allow-controller-cli true"
            )
        return self._authority.lease(generation, self.record.allow_executor_management)

    # -- what it should be --

    @property
    def _may_connect(self) -> bool:
        return self._is_wanted and not self._is_blocked and self.record.enabled

    def start(self) -> None:
        """Connect, or be there to be connected to, from now on."""
        self._is_wanted = True
        self._settle()

    def change(self, record: ExecutorRecord) -> None:
        """Take over a changed record; only a changed connector costs the link."""
        old, self.record = self.record, record
        # First of all: whatever fails among those who are told, no old lease is ever found again.
        if grants_differ(old, record):
            self._authority.end(Ending.REVOKED)
        self.noticed()
        if old.secret != record.secret:
            # Perhaps another machine: what was learned of the one before does not hold for it.
            self._description = None
        if needs_idle(old, record):
            self._last_error = self._bulk_error = None
            self._retire("reconfigured", Ending.REVOKED)
            self._settle()

    def block(self) -> None:
        """Go offline until the controller restarts (control.md E.8)."""
        self._is_blocked = True
        self._authority.end(Ending.REVOKED)
        self.noticed()
        self._retire("storage-uncertain", Ending.REVOKED)

    def end_authority(self, ending: Ending) -> None:
        """End what its worker may ask of this controller."""
        self._authority.end(ending)

    def stop(self, ending: Ending) -> Deferred[None]:
        """Disconnect for good; fires when the link is gone."""
        self._is_wanted = False
        self._retire("local-close", ending)
        if self._closing is None:
            return succeed(None)
        gone: Deferred[None] = Deferred()
        self._closing.addBoth(lambda _: gone.callback(None))
        return gone

    def _settle(self) -> None:
        """Open the link that should be there, once the one before is gone."""
        if self._may_connect and self._link is None and self._closing is None:
            self._listener = _LinkListener(self)
            self._link = self._open_link(self.record, self._listener)

    def _not_closed(self, failure: Failure) -> None:
        if failure.check(TimeoutError):
            wait = self._settings.replace_time
            self._log.warn("a link took more than {wait} s to close and was cut", wait=wait)
        else:
            self._log.failure("closing an executor's link failed", failure=failure)

    def _retire(self, cause: str, ending: Ending) -> None:
        link, self._link = self._link, None
        self._authority.end(ending)
        if link is None:
            return
        assert self._listener is not None
        self._listener.owner = None
        self._disconnected()
        self._give_up()
        self._closing = link.close(cause).addTimeout(self._settings.replace_time, self._reactor)
        self._closing.addErrback(self._not_closed).addBoth(self._closed)

    def _closed(self, _: object) -> None:
        self._closing = None
        self._settle()

    # -- what its link tells --

    def primary_installed(self, captured: ICapturedLink) -> None:
        self._captured = captured
        self._last_error = None
        worker = captured.peer.runtime_id
        if self._worker not in (None, worker):
            # Another process: it can know nothing of what ran in the one before.
            self._give_up()
        self._worker = worker
        self._tasks.spawn("installation of an executor's session", self._install(captured))

    async def _install(self, captured: ICapturedLink) -> None:
        """Ask the worker what it is, settle what an earlier session left, then let calls through
        (control.md J.10).
        """
        link, is_reconciled = self._link, False
        assert link is not None
        while self._is_current(captured):
            try:
                description = await captured.call(rpc.DESCRIBE, rpc.Nothing())
                if not is_reconciled and self._is_current(captured):
                    await link.reconcile_primary()
                    is_reconciled = True
                wanted = self.runtime.to_resume()
                answer = rpc.ResumedProducers([])
                if wanted and self._is_current(captured):
                    answer = await captured.call(rpc.PRODUCERS_RESUME, rpc.ResumeProducers(wanted))
            except CallError as error:
                if self._is_current(captured):
                    self._last_error = _unavailable(f"It could not be taken into use: {error.text}")
                await _after(self._reactor, self._settings.install_again)
                continue
            if self._is_current(captured):
                self.runtime.resumed(wanted, answer.resumed)
                link.activate()
                self._ready(captured, description)
            return

    def _is_current(self, captured: ICapturedLink) -> bool:
        return self._captured is captured and captured.is_current

    def _ready(self, captured: ICapturedLink, description: ExecutorDescription) -> None:
        self._description = structs.replace(
            description, instance_id=description.instance_id[:128] or captured.peer.runtime_id
        )
        self._last_error = None
        self._stop_grace()
        self._is_ready = True
        self.runtime.installed(captured, self._description)
        self._log.info("executor {executor} is ready", executor=self.record.id)
        self._availability_changed()

    def primary_lost(self, captured: ICapturedLink, cause: str) -> None:
        if captured is self._captured:
            self._log.info(
                "executor {executor} is disconnected: {cause}",
                executor=self.record.id,
                cause=cause,
            )
            self._authority.end(Ending.SESSION_LOST)
            if self._is_ready:
                self._grace = self._reactor.callLater(self._settings.grace, self._grace_over)
            self._disconnected()

    def _disconnected(self) -> None:
        self._captured = None
        self._is_ready = False
        self.runtime.session_lost()
        self._availability_changed()

    def _grace_over(self) -> None:
        self._grace = None
        self._log.warn("executor {executor} did not come back in time", executor=self.record.id)
        self._give_up()

    def _give_up(self) -> None:
        """No session will go on with what the last one has left."""
        self._stop_grace()
        self._worker = None
        self.runtime.give_up()
        self._availability_changed()

    def _stop_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def _availability_changed(self) -> None:
        """Tell of it, once; what runs there is shown by it."""
        self.noticed()
        now = self.availability
        if now != self._shown:
            self._shown = now
            self._changed(self.record.id)

    def bulk_changed(self, phase: str) -> None:
        if phase == "ready":
            self._bulk_error = None
        self.noticed()

    def link_failed(self, kind: str, text: str) -> None:
        error = _unavailable(f"{text} ({kind})")
        if self._captured is None:
            self._last_error = error
        else:
            self._bulk_error = error
        self.noticed()


@implementer(ILinkEvents, ITerminalEvents)
class _LinkListener:
    """Hears one link, until that link is retired."""

    def __init__(self, owner: RemoteExecutor) -> None:
        self.owner: RemoteExecutor | None = owner

    def primary_installed(self, captured: ICapturedLink) -> None:
        if self.owner is not None:
            self.owner.primary_installed(captured)

    def primary_lost(self, captured: ICapturedLink, cause: str) -> None:
        if self.owner is not None:
            self.owner.primary_lost(captured, cause)

    def bulk_changed(self, phase: str) -> None:
        if self.owner is not None:
            self.owner.bulk_changed(phase)

    def link_failed(self, kind: str, text: str) -> None:
        if self.owner is not None:
            self.owner.link_failed(kind, text)

    def producer_received(self, binding_id: str, seq: int, frame: Any) -> None:
        if self.owner is not None:
            self.owner.runtime.producer_received(binding_id, seq, frame)

    def producer_acknowledged(self, acknowledgements: dict[str, int]) -> None:
        """Only workers are told."""

    def terminal_received(self, notification: TerminalNotification) -> None:
        if self.owner is not None:
            self.owner.runtime.remote_terminals.received(notification)

    def terminal_detached(self, attachment_id: str) -> None:
        """Only workers are told."""

    def terminals_taken(self, taken: dict[str, int]) -> None:
        """Only workers are told."""


def _unavailable(text: str) -> LastError:
    return LastError("EXECUTOR_UNAVAILABLE", text)


def _after(reactor: IReactorTime, seconds: float) -> Deferred[None]:
    return deferLater(reactor, seconds, lambda: None)
