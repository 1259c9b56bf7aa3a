"""The two ends of a schedule as the services put them together, without their processes: a remote
executor with its runtime on one side, a worker's serving on the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from garcon.contract.connection_url import new_secret
from garcon.controller.executors.authority import Ending
from garcon.controller.executors.records import ExecutorRecord, Inbound, Outbound
from garcon.controller.executors.remote_executor import RemoteExecutor
from garcon.deferreds import Tasks
from garcon.link.interfaces import Handler, ICapturedLink, ILink, ILinkEvents
from garcon.link.journal import Journal
from garcon.link.link import ControllerLink, WorkerLink
from garcon.link.settings import LinkSettings
from garcon.link.wire import IDialler
from garcon.testing.faults.ledger import Ledger
from garcon.testing.faults.machine import ALL, AT, DOWN, UP, Machine, Worker
from garcon.worker.serving.backlog import Backlog
from garcon.worker.serving.serving import Serving

EXECUTOR = "7b1b8b3e-6a53-4f0e-9d5e-000000000001"
SECRET = new_secret(bytes(range(32)))


class ControllerEnd:
    """The controller's side; `dial` None means that the worker dials."""

    link_type = ControllerLink

    def __init__(
        self,
        reactor: Any,
        ledger: Ledger,
        settings: LinkSettings,
        dial: IDialler | None,
        runtime_id: str = "controller-runtime",
    ) -> None:
        self.reactor = reactor
        self.settings = settings
        self.dial = dial
        self.runtime_id = runtime_id
        self.tasks = Tasks()
        self.worker = Worker(reactor, ledger)
        self.links: list[ControllerLink] = []
        self.longest_absence = 0.0
        """How long the worker was away without a break, once it had been there."""
        self._away_since: float | None = None
        record = ExecutorRecord(
            id=EXECUTOR,
            label="Faults",
            enabled=True,
            secret=SECRET,
            no_tls=True,
            connection=Inbound(None) if dial is None else Outbound("ws://127.0.0.1/executor"),
        )
        self.executor = RemoteExecutor(
            record,
            reactor,
            self.tasks,
            self._open,
            lambda: AT,
            self._changed,
            settings,
        )

    def _changed(self, executor_id: str) -> None:
        now = self.reactor.seconds()
        if self.executor.availability != "ready":
            if self._away_since is None:
                self._away_since = now
        elif self._away_since is not None:
            self.longest_absence = max(self.longest_absence, now - self._away_since)
            self._away_since = None

    def was_continuous(self) -> bool:
        """Whether the worker was never away for so long that it may have given up."""
        return self.longest_absence + self.margin < self.settings.grace

    @property
    def margin(self) -> float:
        """How much earlier than we the worker may have noticed a loss, late timers included."""
        return 2 * self.settings.dead_after

    def _open(self, record: ExecutorRecord, events: ILinkEvents) -> ILink:
        link = self.link_type(
            self.reactor,
            record.id,
            record.secret,
            self.runtime_id,
            events,
            self.worker.handlers(UP),
            self.dial,
            settings=self.settings,
            methods=ALL,
        )
        self.links.append(link)
        link.start()
        return link

    @property
    def link(self) -> ControllerLink:
        return self.links[-1]

    @property
    def runtime(self) -> Any:
        return self.executor.runtime

    def stop(self) -> Deferred[Any]:
        """End everything; fires when the link is gone."""
        return self.executor.stop(Ending.REVOKED).addCallback(lambda _: self.tasks.stopService())


@implementer(ILinkEvents)
class WorkerEnd:
    """One worker process."""

    def __init__(
        self,
        reactor: Any,
        ledger: Ledger,
        settings: LinkSettings,
        dial: IDialler | None,
        number: int,
        retention: int | None = None,
        journal: int | None = None,
    ) -> None:
        self.machine = Machine(reactor, ledger)
        self.worker = Worker(reactor, ledger)
        self.backlog = Backlog() if retention is None else Backlog(retention)
        self.serving = Serving(reactor, self.machine, self._offer, self.backlog, settings)
        self.link = WorkerLink(
            reactor,
            SECRET,
            f"worker-runtime-{number}",
            self,
            self.handlers(),
            dial,
            settings=settings,
            methods=ALL,
        )

        if journal is not None:
            self.link._outliving.journal = Journal(journal, journal)

    def handlers(self) -> Mapping[str, Handler]:
        """Return what the link serves."""
        return {**self.serving.handlers(), **self.worker.handlers(DOWN)}

    def _offer(self, seq: int, frame: Any) -> bool:
        return self.link.send_producer(seq, frame)

    def primary_installed(self, captured: ICapturedLink) -> None:
        self.serving.session_started(captured)

    def primary_lost(self, captured: ICapturedLink, cause: str) -> None:
        self.serving.session_lost(captured)

    def bulk_changed(self, phase: str) -> None:
        pass

    def link_failed(self, kind: str, text: str) -> None:
        pass

    def producer_received(self, binding_id: str, seq: int, frame: Any) -> None:
        pass

    def producer_acknowledged(self, acknowledgements: dict[str, int]) -> None:
        self.serving.acknowledged(acknowledgements)

    def stop(self) -> Deferred[Any]:
        """End everything, as a process that is killed does; fires when the link is gone."""
        self.machine.kill()
        self.worker.kill()
        closing = self.link.close("local-close")
        stopping = self.serving.stop()
        return succeed(None).addCallback(lambda _: stopping).addCallback(lambda _: closing)


def leaks(controller: ControllerEnd, worker: WorkerEnd) -> list[str]:
    """Say what is still held when all calls and runs of a linked pair have ended."""
    found = []
    for side, link in (("controller", controller.link), ("worker", worker.link)):
        shared = link._shared
        counts = {
            "outgoing calls": shared.outgoing.used,
            "outgoing exempt calls": shared.outgoing.exempt_used,
            "incoming calls": shared.served.slots.used,
            "incoming exempt calls": shared.served.slots.exempt_used,
            "queued bytes": shared.budget.bytes,
            "queued messages": shared.budget.messages,
            "queued controls": shared.budget.controls,
        }
        found += [f"{side}: {count} {what}" for what, count in counts.items() if count]
    kept = {
        "parked calls": sum(len(one) for one in controller.link._continuing.values()),
        "kept replies": len(worker.link._outliving.journal),
        "calls of lost sessions": sum(
            len(lane.lost) for lane in worker.link._outliving._lanes.values()
        ),
        "run streams": worker.serving.streams,
        "bytes of output": worker.backlog.size,
        "runs": len(controller.runtime._runs),
    }
    return found + [f"{count} {what}" for what, count in kept.items() if count]
