"""The cast of the executor tests: a workspace with held links, a clock, and perhaps busy chats."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import count
from tempfile import mkdtemp
from typing import Any

import msgspec
from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from garcon.contract import operations
from garcon.contract.operations import Operation
from garcon.contract.runs import RunEvent
from garcon.controller.executors.interfaces import IExecutorUse
from garcon.controller.executors.records import ExecutorRecord
from garcon.controller.executors.service import Executors
from garcon.controller.handlers import Answer, Handlers
from garcon.controller.principals import LOCAL_PRINCIPAL, Principal
from garcon.link.endpoints import Trust
from garcon.link.interfaces import Handler, ILinkEvents
from garcon.local.files import write_private
from garcon.runtime.interfaces import IRunSink
from garcon.testing.held_link import HeldLink

INSTANCE = "controller-instance"


@implementer(IExecutorUse)
@define(eq=False)
class Use:
    """The chats' side: what runs where is what the test says."""

    busy: dict[str, list[str]] = field(factory=dict)
    changes: list[str] = field(factory=list)

    def availability_changed(self, executor_id: str) -> None:
        self.changes.append(executor_id)

    def running_on(self, executor_id: str) -> list[str]:
        return self.busy.get(executor_id, [])


@implementer(IRunSink)
@define(eq=False)
class Sink:
    """Remembers a run's facts."""

    events: list[RunEvent] = field(factory=list)

    def event(self, event: RunEvent) -> None:
        self.events.append(event)

    def room(self) -> Deferred[None]:
        return succeed(None)


def new_ids() -> Callable[[], str]:
    """Return a maker of executor ids that are told apart at a glance."""
    numbers = count(1)
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012x}"


class ExecutorsCase(SynchronousTestCase):
    """A started `Executors` in a workspace of its own, and its operations."""

    public_url: str | None = "https://garcon.example.org/"
    instance = INSTANCE

    def setUp(self) -> None:
        self.clock = Clock()
        self.workspace = mkdtemp()
        self.use = Use()
        self.links: dict[str, HeldLink] = {}
        self.opened: list[HeldLink] = []
        self.write: Callable[[str, bytes], None] = write_private
        self.executors = self.make()
        self.executors.load()
        self.executors.start()
        self.handlers = Handlers()
        self.executors.register(self.handlers)

    def make(self) -> Executors:
        randoms = count(1)
        executors = Executors(
            self.clock,
            self.workspace,
            self.instance,
            _NO_LOCAL,
            "/local/projects",
            self.public_url,
            Trust(),
            open_link=self.open_link,
            write=lambda path, content: self.write(path, content),
            random=lambda n: next(randoms).to_bytes(n, "big"),
            new_id=new_ids(),
            timestamp=lambda: "2026-01-01T00:00:00.000Z",
        )
        executors.use = self.use
        return executors

    def open_link(
        self, record: ExecutorRecord, events: ILinkEvents, handlers: Mapping[str, Handler]
    ) -> HeldLink:
        link = self.links[record.id] = HeldLink(record.id, events)
        self.opened.append(link)
        return link

    @property
    def path(self) -> str:
        return os.path.join(self.workspace, "executors.json")

    def ask(
        self,
        operation: Operation,
        body: dict[str, Any] | None = None,
        executor_id: str | None = None,
        principal: Principal = LOCAL_PRINCIPAL,
        base_url: str | None = None,
    ) -> tuple[int, Any]:
        """Run an operation and return its status and decoded body."""
        d: Deferred[Answer] = self.handlers.run(
            operation, principal, body=body, executor_id=executor_id, base_url=base_url
        )
        answer = self.successResultOf(d)
        self.assertEqual(answer.headers.get("Cache-Control"), "no-store")
        return answer.status, msgspec.json.decode(answer.body)

    def create(self, label: str = "one", **more: Any) -> str:
        """Create an executor and return its id."""
        body = {"label": label, "direction": "executor-connects"} | more
        status, answer = self.ask(operations.CREATE_EXECUTOR, body)
        self.assertEqual(status, 200, answer)
        return str(answer["id"])

    def update(self, executor_id: str, **body: Any) -> tuple[int, Any]:
        return self.ask(operations.UPDATE_EXECUTOR, body, executor_id)

    def updated(self, executor_id: str, **body: Any) -> None:
        status, answer = self.update(executor_id, **body)
        self.assertEqual(status, 200, answer)

    def refused(
        self, answer: tuple[int, Any], status: int, code: str, retryable: bool = False
    ) -> None:
        """Check a refusal's envelope."""
        self.assertEqual(
            (answer[0], answer[1]["errorCode"], answer[1]["retryable"]), (status, code, retryable)
        )

    def snapshot(self, executor_id: str) -> dict[str, Any]:
        _, answer = self.ask(operations.LIST_EXECUTORS)
        found: dict[str, Any] = next(e for e in answer["executors"] if e["id"] == executor_id)
        return found


_NO_LOCAL: Any = object()
"""Local is never asked for anything here."""
