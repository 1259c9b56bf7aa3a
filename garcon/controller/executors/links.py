"""The links of remote executors: how a record becomes one, and where workers' sockets arrive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from twisted.web.resource import IResource

from garcon.contract.ids import is_uuid4
from garcon.controller.executors.records import ExecutorRecord, Outbound
from garcon.controller.executors.remote_executor import OpenLink
from garcon.link.admission import Admission
from garcon.link.endpoints import DialTarget, Trust
from garcon.link.interfaces import Handler, ILink, ILinkEvents
from garcon.link.link import ControllerLink
from garcon.link.proxy_route import ProxyRoutes
from garcon.link.settings import LinkSettings
from garcon.link.websocket import Acceptor, LaneResource


def controller_links(
    reactor: Any,
    runtime_id: str,
    trust: Trust,
    proxies: ProxyRoutes,
    settings: LinkSettings | None = None,
) -> OpenLink:
    """Return what opens the link of an executor: dialled by us, or waiting to be dialled."""

    def opened(
        record: ExecutorRecord, events: ILinkEvents, handlers: Mapping[str, Handler]
    ) -> ILink:
        dial = None
        if isinstance(record.connection, Outbound):
            dial = DialTarget(
                record.connection.target_url, trust, record.allow_unverified_tls, proxies
            )
        link = ControllerLink(
            reactor,
            record.id,
            record.secret,
            runtime_id,
            events,
            handlers,
            dial,
            settings=settings,
        )
        link.start()
        return link

    return opened


def lane_resource(
    reactor: Any, find: Callable[[str], ILink | None], settings: LinkSettings | None = None
) -> IResource:
    """Return what takes sockets at ``/executor/<uuid>``, for links that wait to be dialled."""

    def acceptor(segment: bytes | None) -> Acceptor | None:
        executor_id = "" if segment is None else segment.decode("ascii", "replace")
        # Whoever waits to be dialled is a link of ours, which is an acceptor too.
        return cast(Acceptor | None, find(executor_id) if is_uuid4(executor_id) else None)

    resource: IResource = LaneResource(acceptor, reactor, Admission(), settings)
    return resource
