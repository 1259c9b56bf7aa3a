"""One controller, composed: what there is, in which order it starts, and in which order it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from attrs import field, frozen
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    DeferredList,
    TimeoutError,
    maybeDeferred,
)
from twisted.logger import Logger

from garcon.allocation import uncollected
from garcon.contract import limits
from garcon.contract.catalogs import AgentEntry
from garcon.contract.ids import LOCAL
from garcon.controller.agent_accounts import AgentAccounts
from garcon.controller.auth import lifetime
from garcon.controller.auth.accounts import Accounts
from garcon.controller.bridge.dispatcher import Dispatcher
from garcon.controller.catalog import Catalogs
from garcon.controller.chats.service import Chats
from garcon.controller.events import Publisher
from garcon.controller.executors.notices import ExecutorNotices
from garcon.controller.executors.service import Executors
from garcon.controller.figures import watch_parts
from garcon.controller.files.operations import FileOperations
from garcon.controller.handlers import Handlers
from garcon.controller.http import shell
from garcon.controller.http.browser import Browser
from garcon.controller.http.discovery import Discovery
from garcon.controller.http.door import Door
from garcon.controller.http.health import Health
from garcon.controller.http.identity import Identities
from garcon.controller.http.listener import Address, Listeners
from garcon.controller.http.pages import Pages
from garcon.controller.http.policy import ControllerPolicy
from garcon.controller.http.router import Router
from garcon.controller.http.shell import AppTitle
from garcon.controller.metrics import Metrics
from garcon.controller.preambles.service import PreambleService
from garcon.controller.providers.service import Providers
from garcon.controller.providers.store import ProviderStore
from garcon.controller.settings.service import Settings
from garcon.controller.terminals.door import TerminalDoor
from garcon.controller.terminals.operations import TerminalOperations
from garcon.controller.ws.hub import Sockets
from garcon.controller.ws.resource import BrowserDoor
from garcon.controller.ws.socket import SocketLimits
from garcon.deferreds import returns_deferred
from garcon.link.endpoints import Trust
from garcon.link.outgoing import OutgoingEndpoints
from garcon.link.proxy_route import ProxyRoutes
from garcon.link.websocket import warn_without_nvx
from garcon.local.descriptors import (
    Descriptor,
    new_capability,
    publish,
    publish_older,
    remove_if_ours,
)
from garcon.local.leases import Lease
from garcon.local.roots import ConfigRoot, older_descriptor
from garcon.runtime.discovery import ModelDiscovery
from garcon.runtime.executor import LocalRuntime
from garcon.runtime.interfaces import IAgent, ICredentials
from garcon.runtime.session_limits import SessionLimits
from garcon.store.sqlite import SqliteStore
from garcon.web.exchange import DoorLimits
from garcon.web.forwarded import TrustedProxies
from garcon.web.hosts import AllowedHosts, is_loopback_name
from garcon.web.origins import AllowedOrigins
from garcon.web.site import BoundedSite

STORE_FILE = "garcon.sqlite"

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": shell.NOTHING,
}

MakeAgents = Callable[[ICredentials], Sequence[IAgent]]
"""Makes the agents of the controller's own machine, which ask for profiles' endpoints there."""

_DROP_AFTER = 3.0
_STEP_TIME = 3.0
_CHATS_TIME = 7.5
"""Three seconds for the turns to end, one for the commands, three for the last rows to be durable.
"""
_AGENTS_TIME = 5.0


@frozen
class Config:
    """Everything a controller is told, already checked.  A bare directory has no `workspace`."""

    root: ConfigRoot
    workspace: str | None
    workspace_dir: str
    project_base: str
    address: Address
    trust: Trust
    environment: Mapping[str, str] = field(repr=False)
    proxies: ProxyRoutes = field(factory=ProxyRoutes)
    public_url: str | None = None
    public_host: str | None = None
    allowed_hosts: Sequence[str] = ()
    browser_dir: str | None = None
    disable_auth: bool = False
    token_lifetime_ms: int = lifetime.DEFAULT
    trusted_proxies: TrustedProxies = field(factory=TrustedProxies)
    compress: bool = True
    body_limit: int = limits.HTTP_BODY
    connections: int = 1_024
    idle: float = limits.HTTP_IDLE
    sessions: int = limits.SESSIONS
    session_limits: SessionLimits = field(factory=SessionLimits)
    stalls: Callable[[], Mapping[str, float]] = dict
    sockets: SocketLimits = field(factory=SocketLimits)


class Controller:
    """The parts of a controller's process.  The leases are handed over and released at the end."""

    _log = Logger()

    def __init__(
        self, reactor: Any, config: Config, agents: MakeAgents, leases: Sequence[Lease]
    ) -> None:
        """Compose, and raise `StartupError` for files that cannot be used: a daemon's operator sees
        that only now (decisions.md 38).
        """
        self._reactor = reactor
        self._config = config
        self._leases = list(leases)
        self.instance_id = str(uuid4())
        self._capability = new_capability()
        self._has_store = False
        self._is_loaded = False
        self._is_ready = False
        self._is_stopping = False
        self._went_well = True
        self._compose(agents)
        self.accounts.load()
        self.executors.load()
        with uncollected():
            self.store.check()

    def _compose(self, agents: MakeAgents) -> None:
        reactor, config = self._reactor, self._config
        store = os.path.join(config.workspace_dir, STORE_FILE)
        self.providers = Providers(
            reactor,
            ProviderStore(reactor, config.root.path, config.workspace_dir),
            is_fresh=not os.path.lexists(store),
        )
        self.handlers = Handlers()
        self.metrics = Metrics()
        self.publisher = Publisher()
        self.store = SqliteStore(store, reactor)
        self.local = LocalRuntime(
            reactor,
            self.instance_id,
            config.project_base,
            config.environment,
            "controller",
            config.root.path,
            agents(self.providers.credentials),
            sessions=config.sessions,
            discovery=ModelDiscovery(
                reactor, OutgoingEndpoints(reactor, config.trust, config.proxies)
            ),
            limits=config.session_limits,
        )
        self.executors = Executors(
            reactor,
            config.workspace_dir,
            self.instance_id,
            self.local,
            config.project_base,
            config.public_url,
            config.trust,
            proxies=config.proxies,
        )
        self.chats = Chats(
            self.store,
            self.executors,
            self.instance_id,
            reactor,
            config.project_base,
            publisher=self.publisher,
            threads=reactor,
            offers=self.providers.offers,
        )
        self.executors.use = self.chats
        bridged = self.handlers.observed(self.metrics.called, reactor.seconds)
        self.terminals = TerminalDoor(
            self.executors,
            reactor,
            time.time,
            lambda session: self.accounts.is_signed_in(session),
        )
        self.sockets = Sockets(reactor, self.chats.answers(), config.sockets, self.terminals)
        self.publisher.subscribe(self.sockets.publish)
        self.notices = ExecutorNotices(reactor, self.executors.snapshots, self.publisher.publish)
        self.executors.noticed = self.notices.changed
        self.dispatcher = Dispatcher(
            reactor, bridged, self.executors, self.instance_id, config.workspace
        )
        self.executors.reverse_handlers.update(self.dispatcher.reverse_handlers())
        self.catalogs = Catalogs(self.executors, reactor, self.providers.offers)
        self.settings = Settings(
            self.store,
            self.publisher,
            reactor,
            config.project_base,
            self._local_agents,
            self.chats.pinned_ids,
        )
        self.preambles = PreambleService(self.store, self.executors, reactor)
        self.chats.use_preambles(self.preambles)
        self.chats.follow_starts(self.settings.chat_started)
        self.chats.pins_at = self.settings.pins_at
        self.executors.watchers.append(self.settings)
        self.providers.connect(self.executors, self.catalogs, self.chats.using_profile)
        self.listeners = Listeners(reactor, config.address)
        self.accounts = Accounts(
            reactor,
            config.root.path,
            config.token_lifetime_ms,
            disabled=config.disable_auth,
        )
        self.accounts.signed_out.append(self.terminals.signed_out)
        self.identities = Identities(
            self._capability, disable_auth=config.disable_auth, holder=self.accounts.holder
        )
        watch_parts(
            self.metrics,
            chats=self.chats,
            executors=self.executors,
            listeners=self.listeners,
            store=self.store,
            sockets=self.sockets,
            stalls=config.stalls,
        )
        self.browser_door = BrowserDoor(
            reactor, self.sockets, lambda token: self.identities.user_token(token or "")
        )
        self.pages = Pages([Health(self.identities, self._unready).page, self.metrics.page])
        if config.browser_dir is not None:
            browser = Browser(reactor, config.browser_dir, self._app_title)
            self.pages.sources.append(browser.page)
        self.door = Door(
            reactor, self.handlers, compress=config.compress, observe=self.metrics.answered
        )

    # Start

    @returns_deferred
    async def start_up(self) -> Sequence[str]:
        """Open the store, load what it holds, listen, publish; fires with the ready lines."""
        warn_without_nvx()
        for lease in self._leases:
            lease.restate()
        self.local.start()
        await self._open_store()
        await self.providers.open(self.store)
        await self.settings.load()
        await self.preambles.load()
        with uncollected():
            await self.chats.load()
        self._is_loaded = True
        self.accounts.start()
        self._register()
        # From here on nothing waits, so nobody is served by half a controller.
        self.listeners.open(self._site(public=True), self._site(public=False))
        self._publish()
        self.executors.start()
        self.dispatcher.open()
        self._is_ready = True
        return self._ready_lines()

    async def _open_store(self) -> None:
        self._has_store = True
        try:
            await self.store.open()
        except CancelledError:
            # Its thread opens it all the same, so it has to be closed.
            raise
        except BaseException:
            self._has_store = False
            raise

    def _register(self) -> None:
        discovery = Discovery(
            instance_id=self.instance_id,
            capability=self._capability,
            server_instance_id=self.instance_id,
            workspace=self._config.workspace,
        )
        parts = (self.accounts, discovery, self.settings, self.catalogs, self.executors, self.chats)
        for part in parts:
            part.register(self.handlers)
        self.providers.register(self.handlers)
        self.preambles.register(self.handlers)
        AgentAccounts(self.executors, self.catalogs, self._reactor).register(self.handlers)
        FileOperations(self._reactor, self.executors, self.chats.place).register(self.handlers)
        TerminalOperations(self.executors).register(self.handlers)

    def _app_title(self) -> AppTitle:
        saved = self.settings.saved
        identity = saved.ui.get("appIdentity", {})
        return AppTitle(identity.get("title", shell.DEFAULT_TITLE), saved.version)

    @returns_deferred
    async def _local_agents(self) -> Sequence[AgentEntry]:
        return (await self.catalogs.catalog(LOCAL)).agents

    def _site(self, *, public: bool) -> BoundedSite:
        config = self._config
        names = list(config.allowed_hosts)
        if config.public_host:
            names.append(config.public_host)
        if not config.address.is_wildcard:
            names.append(config.address.host)
        policy = ControllerPolicy(
            hosts=AllowedHosts(names if public else ()),
            origins=AllowedOrigins(config.allowed_hosts if public else (), config.public_url),
            pages=self.pages,
            router=Router(),
            handlers=self.handlers,
            identities=self.identities,
            server_instance_id=self.instance_id,
            body_limit=config.body_limit,
            stopping=lambda: self._is_stopping,
            refused=self.metrics.refused,
            sign_ins=self.accounts,
            proxies=config.trusted_proxies,
            lane_resource=self.executors.lane_resource() if public else None,
            sockets=self.browser_door.admit,
        )
        bounds = DoorLimits(
            connections=config.connections,
            idle=config.idle,
            uploads=max(DoorLimits().uploads, 2 * config.body_limit),
        )
        return BoundedSite(
            self._reactor, policy, self.door.answer, bounds, SECURITY_HEADERS, time.time
        )

    def _publish(self) -> None:
        descriptor = Descriptor(
            role="controller",
            instance_id=self.instance_id,
            started_at=int(time.time() * 1000),
            pid=os.getpid(),
            base_url=self.listeners.command_url,
            local_capability=self._capability,
            workspace_dir=self._config.workspace_dir,
        )
        publish(self._config.root.controller_descriptor, descriptor)
        if self._config.workspace is not None:
            publish_older(older_descriptor(self._config.workspace_dir), descriptor)

    def _ready_lines(self) -> list[str]:
        state = "DISABLED" if self._config.disable_auth else "ENABLED"
        # A public URL says that a proxy lets others in, wherever it finds the port.
        hosts = self._config.address.host, self._config.public_host or "localhost"
        reachable = not all(is_loopback_name(host) for host in hosts)
        if reachable and self._config.disable_auth:
            self._log.warn(
                "authentication is disabled and other machines reach this controller: whoever"
                " does can run commands here"
            )
        elif reachable and not self.accounts.has_account:
            self._log.warn("there is no account yet: whoever comes first can set it up")
        return [f"Started at {self.listeners.public_url}", f"Authentication: {state}"]

    def _unready(self) -> list[str]:
        if self._is_stopping:
            return ["the controller is stopping"]
        reasons = [] if self._is_ready else ["the controller is starting"]
        if self.store.trouble is not None:
            reasons.append(f"the last commit of the store failed: {self.store.trouble}")
        return reasons

    # End

    @returns_deferred
    async def shut_down(self) -> bool:
        """Refuse, drop, abort, wait, close, retract, release (server.md F.6)."""
        self._is_stopping = True
        try:
            await self._end_parts()
        finally:
            self._retract()
            for lease in reversed(self._leases):
                lease.release()
        return self._went_well

    async def _end_parts(self) -> None:
        step = self._step
        self.notices.stop()
        await step("end the workers' commands", self.executors.quiesce, 1.0)
        await step("stop listening", self.listeners.stop_listening, 1.0)
        drop = partial(self.listeners.drop, _DROP_AFTER)
        together = [
            step("drop connections", drop, _DROP_AFTER + 0.5),
            step("drop browser sockets", self.sockets.drop, 1.0),
            step("stop the bridge", self.dispatcher.close, _STEP_TIME),
        ]
        if self._is_loaded:
            together.append(step("stop the chats", self.chats.shut_down, _CHATS_TIME))
        await DeferredList(together)
        await step("end requests", self._cancel_requests, 1.0)
        await step("stop the accounts", self.accounts.stop, 1.0)
        await step("stop the settings", self.settings.tasks.stopService, 1.0)
        await step("stop the preambles", self.preambles.tasks.stopService, 1.0)
        await step("stop the catalogs", self.catalogs.tasks.stopService, 1.0)
        await step("disconnect the executors", self.executors.stop, _STEP_TIME)
        await step("stop the agents", self.local.stop, _AGENTS_TIME)
        await step("save the API providers", self.providers.settled, _STEP_TIME)
        if self._has_store:
            await step("close the store", self.store.close, _STEP_TIME)

    def _cancel_requests(self) -> Deferred[Any]:
        left = self.door.under_way()
        for work in left:
            work.cancel()
        return DeferredList(left, consumeErrors=True)

    @returns_deferred
    async def _step(self, what: str, begin: Callable[[], Any], seconds: float) -> None:
        """Take one step of the end and wait for it; a step that raises, fails or hangs does not
        keep the next from running.
        """
        try:
            await maybeDeferred(begin).addTimeout(seconds, self._reactor)
        except TimeoutError:
            self._went_well = False
            self._log.error("could not {what} within {seconds} s", what=what, seconds=seconds)
        except CancelledError:
            raise
        except Exception:
            self._went_well = False
            self._log.failure("could not {what}", what=what)

    def _retract(self) -> None:
        paths = [self._config.root.controller_descriptor]
        if self._config.workspace is not None:
            paths.append(older_descriptor(self._config.workspace_dir))
        for path in paths:
            try:
                remove_if_ours(path, self.instance_id)
            except OSError:
                self._went_well = False
                self._log.failure("could not remove {path}", path=path)
