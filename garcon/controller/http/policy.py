"""What the controller's door decides from a request's headers, before it reads a body."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from twisted.web.resource import IResource
from zope.interface import Interface, implementer

from garcon.contract import limits
from garcon.contract.bridge import controller_changed
from garcon.contract.operations import Operation
from garcon.controller.handlers import Handlers, error_answer
from garcon.controller.http.identity import Identities
from garcon.controller.http.pages import Page, Pages
from garcon.controller.http.router import Match, Router
from garcon.controller.principals import Principal
from garcon.controller.ws.upgrade import is_upgrade
from garcon.errors import GarconError, validation
from garcon.web.exchange import (
    Admission,
    IDoorPolicy,
    Incoming,
    Outgoing,
    Upgrade,
    text_answer,
)
from garcon.web.forwarded import TrustedProxies
from garcon.web.hosts import AllowedHosts
from garcon.web.origins import AllowedOrigins

LANE_PATH = "/executor/"
OTHER = "other"
"""What a request for nothing of ours is called in figures."""
INSTANCE_HEADER = b"x-garcon-server-instance"

SOCKET_PATH = "/ws"

NOT_FOUND = text_answer(404, "Not found")


@frozen
class Admitted:
    """What admission found out, kept for the answer: an operation or a page.

    `base_url` is what the request itself suggests as the address that workers dial: None at a port
    that takes none.
    """

    match: Match | None
    principal: Principal | None
    base_url: str | None = None
    page: Page | None = None

    @property
    def name(self) -> str:
        """What it is called in figures."""
        if self.page is not None:
            return self.page.name
        return OTHER if self.match is None else self.match.operation.route.key


def outgoing(error: GarconError, operation: Operation | None = None) -> Outgoing:
    """Return a failure as this door answers it."""
    # What fails before its operation is known may be about one that is never to be stored.
    no_store = operation is None or operation.no_store
    if operation is not None and error.code == "VALIDATION_FAILED":
        error = GarconError(operation.validation, error.text, status=error.status)
    answer = error_answer(error, no_store=no_store)
    headers = {"Content-Type": "application/json", **answer.headers}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Outgoing(answer.status, answer.body, headers)


AdmitSocket = Callable[[Incoming], "Outgoing | Upgrade"]
"""Judges a request for a browser's socket whose host and origin are right."""

WRONG_HOST = outgoing(validation("This server does not answer to that Host name.", status=403))
WRONG_ORIGIN = outgoing(validation("This server takes nothing from that web page.", status=403))


class ISignIns(Interface):
    """Counts the attempts to sign in."""

    def admit(key: str, address: str) -> None:
        """Let one begin, by its operation's registry key and its client's address, or raise."""


@implementer(IDoorPolicy)
class ControllerPolicy:
    """Host, origin, route, caller, instance and size, in this order.

    `sign_ins` counts those who want to become known, `proxies` says whose word about their address
    is taken.  `refused` is told what a request that is refused was for, and how it was answered.
    `lane_resource` takes workers' sockets; a door that is only for the command has none.
    `stopping` says whether the process is on its way out.
    """

    def __init__(
        self,
        *,
        hosts: AllowedHosts,
        router: Router,
        handlers: Handlers,
        identities: Identities,
        server_instance_id: str,
        body_limit: int,
        stopping: Callable[[], bool],
        origins: AllowedOrigins | None = None,
        pages: Pages | None = None,
        sign_ins: ISignIns | None = None,
        proxies: TrustedProxies | None = None,
        sockets: AdmitSocket | None = None,
        lane_resource: IResource | None = None,
        refused: Callable[[str, int], None] | None = None,
    ) -> None:
        self._refused = refused
        self._sign_ins = sign_ins
        self._proxies = TrustedProxies() if proxies is None else proxies
        self._hosts = hosts
        self._origins = AllowedOrigins() if origins is None else origins
        self._pages = Pages([]) if pages is None else pages
        self._router = router
        self._handlers = handlers
        self._identities = identities
        self._server_instance_id = server_instance_id
        self._body_limit = body_limit
        self._stopping = stopping
        self._sockets = sockets
        self._lane_resource = lane_resource

    def admit(self, incoming: Incoming) -> Admission | Outgoing | Upgrade:
        """Admit a request, or refuse it unread."""
        verdict = self._admit(incoming)
        if isinstance(verdict, Outgoing) and self._refused is not None:
            match = self._router.match(incoming.method, incoming.path)
            self._refused(Admitted(match, None).name, verdict.status)
        return verdict

    def _admit(self, incoming: Incoming) -> Admission | Outgoing | Upgrade:
        path = incoming.path
        if path.startswith(LANE_PATH):
            return self._lane(incoming)
        host = incoming.header(b"host")
        if not self._hosts.allows(host, incoming.local):
            return WRONG_HOST
        if not self._origins.allows(incoming.header(b"origin"), host):
            return WRONG_ORIGIN
        if path == SOCKET_PATH:
            return self._socket(incoming)
        if is_upgrade(incoming.header):
            return NOT_FOUND
        page = self._pages.find(path) if incoming.method in ("GET", "HEAD") else None
        if page is not None:
            return self._page(incoming, page)
        match = self._router.match(incoming.method, path)
        if match is None or not self._handlers.serves(match.operation.route.key):
            return NOT_FOUND
        try:
            principal = self._judge(incoming, match)
        except GarconError as error:
            return outgoing(error, match.operation)
        base = None if self._lane_resource is None else base_url(incoming)
        limit = self._body_limit
        if principal is None:
            # Whoever is not known could otherwise keep a connection by a body that never comes.
            limit = 0 if match.operation.body is None else limits.CREDENTIALS_BODY
        admission = Admission(
            limit, Admitted(match, principal, base), is_known=principal is not None
        )
        own = match.operation.body_limit
        if own is not None and own.most < limit:
            admission.limit = own.most
            too_large = GarconError(own.code, own.text, status=413)
            admission.too_large = outgoing(too_large, match.operation)
        return admission

    def _socket(self, incoming: Incoming) -> Outgoing | Upgrade:
        if self._sockets is None:
            return NOT_FOUND
        if self._stopping():
            return outgoing(shutting_down())
        return self._sockets(incoming)

    def _page(self, incoming: Incoming, page: Page) -> Admission | Outgoing:
        principal = None
        try:
            if self._stopping() and not page.survives:
                raise shutting_down()
            if not page.open:
                principal = self._identities.principal(incoming.header(b"authorization"))
        except GarconError as error:
            return outgoing(error)
        return Admission(0, Admitted(None, principal, page=page), is_known=principal is not None)

    def _judge(self, incoming: Incoming, match: Match) -> Principal | None:
        if self._stopping():
            raise shutting_down()
        if match.operation.route.open:
            if self._sign_ins is not None:
                self._sign_ins.admit(match.operation.route.key, self._client(incoming))
            return None
        principal = self._identities.principal(incoming.header(b"authorization"))
        expected = incoming.header(INSTANCE_HEADER)
        if expected is not None and expected != self._server_instance_id:
            raise controller_changed()
        return principal

    def _client(self, incoming: Incoming) -> str:
        return self._proxies.client(
            incoming.peer, incoming.header(b"x-forwarded-for"), incoming.header(b"x-real-ip")
        )

    def _lane(self, incoming: Incoming) -> Outgoing | Upgrade:
        upgrade = incoming.header(b"upgrade") or ""
        if self._lane_resource is None or upgrade.lower() != "websocket":
            return NOT_FOUND
        if self._stopping():
            return outgoing(shutting_down())
        return Upgrade(self._lane_resource)


def base_url(incoming: Incoming) -> str | None:
    """Return the base URL that a request itself suggests."""
    host = incoming.header(b"host")
    if host is None:
        return None
    return f"{'https' if incoming.secure else 'http'}://{host}"


def shutting_down() -> GarconError:
    """The answer to whoever comes while the controller ends."""
    return GarconError(
        "SERVER_SHUTTING_DOWN", "The controller is shutting down.", status=503, retryable=True
    )
