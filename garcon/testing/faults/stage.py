"""What every stage of a schedule has: its two ends, workers that are killed and come anew, and
faults that meet one of the connections between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from garcon.link.settings import LinkSettings
from garcon.link.wire import IDialler
from garcon.testing.faults.ends import ControllerEnd, WorkerEnd
from garcon.testing.faults.ledger import Ledger
from garcon.testing.faults.steps import Cut, Deafen, Fault, Refuse, Schedule


class TwoEnds:
    """See `play.Stage`.  Subclasses know the connections, and how each of them breaks."""

    def __init__(
        self,
        reactor: Any,
        schedule: Schedule,
        ledger: Ledger,
        settings: LinkSettings,
        dialler: IDialler,
    ) -> None:
        self.reactor = reactor
        self.schedule = schedule
        self.ledger = ledger
        self._settings = settings
        self._dialler = dialler
        self._workers = 0
        self.controller = ControllerEnd(
            reactor, ledger, settings, None if schedule.worker_dials else dialler
        )
        self.controller.executor.start()
        self.worker = self._start_worker()

    def _start_worker(self) -> WorkerEnd:
        self._workers += 1
        schedule = self.schedule
        worker = WorkerEnd(
            self.reactor,
            self.ledger,
            self._settings,
            self._dialler if schedule.worker_dials else None,
            self._workers,
            schedule.retention,
            schedule.journal,
        )
        self.worker_made(worker)
        worker.link.start()
        return worker

    def worker_made(self, worker: WorkerEnd) -> None:
        """There is a new worker, which has yet to begin."""

    def restart(self) -> None:
        """See `Stage`.  A killed process says no more; its sockets tell the peer."""
        self.cut()
        self.worker.stop()
        self.ledger.is_continuous = False
        self.worker = self._start_worker()

    def fault(self, fault: Fault) -> None:
        """See `Stage`."""
        match fault:
            case Refuse():
                self.refuse()
            case Deafen():
                self.deafen()
            case Cut(connection=-1):
                self.cut()
            case _:
                connections = self.connections()
                if connections:
                    self.strike(connections[fault.connection % len(connections)], fault)

    @property
    def is_at_rest(self) -> bool:
        """Whether every call and run has ended and the worker can take new ones."""
        return (
            self.ledger.is_settled
            and self.worker.machine.is_idle
            and self.worker.worker.is_idle
            and self.controller.executor.availability == "ready"
        )

    def connections(self) -> Sequence[Any]:
        """Return those that are open."""
        raise NotImplementedError

    def strike(self, connection: Any, fault: Fault) -> None:
        """Let it happen to this connection."""
        raise NotImplementedError

    def refuse(self) -> None:
        """Refuse new connections."""
        raise NotImplementedError

    def deafen(self) -> None:
        """Never answer new connections."""
        raise NotImplementedError

    def cut(self) -> None:
        """Break every connection."""
        raise NotImplementedError
