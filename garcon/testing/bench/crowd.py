"""Many workers in one process, each with a link of its own to one controller, doing nothing.

Their connection URLs come on standard input, one a line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from attrs import define
from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from garcon.contract.connection_url import parse_connection_url
from garcon.contract.rpc import DESCRIBE, PRODUCERS_RESUME, ResumedProducers
from garcon.contract.runs import ExecutorDescription
from garcon.link.endpoints import DialTarget
from garcon.link.interfaces import CallContext, Handler, ICapturedLink, ILinkEvents
from garcon.link.link import WorkerLink
from garcon.process import prepare


@implementer(ILinkEvents)
@define(eq=False)
class _Idle:
    """Whose link it is; it says what it is and nothing else."""

    runtime_id: str

    def handlers(self) -> dict[str, Handler]:
        return {DESCRIBE.name: self._describe, PRODUCERS_RESUME.name: self._resume}

    def _describe(self, request: Any, context: CallContext) -> Deferred[Any]:
        return succeed(
            ExecutorDescription(
                instance_id=self.runtime_id, project_base_path="/", agent_ids=[], services={}
            )
        )

    def _resume(self, request: Any, context: CallContext) -> Deferred[Any]:
        return succeed(ResumedProducers([]))

    def primary_installed(self, captured: ICapturedLink) -> None:
        """As it should be."""

    def primary_lost(self, captured: ICapturedLink, cause: str) -> None:
        """It comes back by itself."""

    def bulk_changed(self, phase: str) -> None:
        """Nothing waits for it."""

    def link_failed(self, kind: str, text: str) -> None:
        """Whoever counts the ready ones will miss this one."""

    def producer_received(self, binding_id: str, seq: int, frame: Any) -> None:
        """Only a controller receives these."""

    def producer_acknowledged(self, acknowledgements: dict[str, int]) -> None:
        """Nothing was produced."""


def link_to(reactor: Any, url: str) -> WorkerLink:
    """Return a worker's link that dials."""
    dial = parse_connection_url(url)
    owner = _Idle(str(uuid4()))
    link = WorkerLink(
        reactor,
        dial.secret,
        owner.runtime_id,
        owner,
        owner.handlers(),
        DialTarget(dial.address.url),
    )
    link.start()
    return link


def main(read: Callable[[], str] = sys.stdin.read) -> None:
    """Link them all, until ended."""
    from twisted.internet import reactor

    prepare(reactor)
    links = [link_to(reactor, url) for url in read().split()]
    print(f"Dialling {len(links)}", flush=True)
    reactor.run()


if __name__ == "__main__":
    main()
