"""The worker as a process: what it can be told (control.md E.10), and how it is put together."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any
from uuid import uuid4

from twisted.python.usage import UsageError

from garcon.contract.connection_url import (
    Address,
    ConnectionUrl,
    parse_address,
    parse_connection_url,
    require_dialling_choice,
)
from garcon.errors import GarconError, StartupError
from garcon.link.admission import Admission
from garcon.link.endpoints import DialTarget, Trust
from garcon.link.interfaces import Handler, ILink, ILinkEvents
from garcon.link.link import WorkerLink
from garcon.link.outgoing import OutgoingEndpoints
from garcon.link.proxy_route import ProxyRoutes
from garcon.link.websocket import LaneResource
from garcon.local.descriptors import clear
from garcon.local.leases import Lease
from garcon.local.listener import ensure_secret
from garcon.local.roots import ConfigRoot
from garcon.options import (
    COMMON,
    ServiceOptions,
    Setting,
    directory,
    non_empty,
    whole_number,
)
from garcon.process import (
    Role,
    environment_snapshot,
    fail_to_start,
    prepare,
    require_free_port,
    run_in_foreground,
    under_twistd,
)
from garcon.runtime.agents import configured
from garcon.runtime.discovery import ModelDiscovery
from garcon.runtime.executor import LocalRuntime
from garcon.runtime.login_path import with_login_path
from garcon.runtime.session_limits import SessionLimits
from garcon.runtime.shipped import agents_for
from garcon.web.certificates import server_identity
from garcon.worker.listener import LinkListener, ListenPlan
from garcon.worker.service import Worker
from garcon.worker.serving.credentials import LinkCredentials

CONTROLLER_URL = "GARCON_CONTROLLER_URL"
"""Holds the connection URL of a dialling worker, secret included.  There is no option for it."""

_LISTENER_ONLY = ("bind-address", "tls-cert", "tls-private-key")


def _address(text: str) -> Address:
    if "#" in text:
        raise ValueError("must be an address without a secret")
    try:
        return parse_address(text)
    except GarconError as error:
        raise ValueError(f"is no worker address: {error.text}") from None


class Options(ServiceOptions):
    """A worker either dials its controller or listens for it."""

    scope = "worker"
    command = "worker"
    longdesc = (
        "Lend this machine's agents to a controller. What its chats run here runs under this"
        " account. SSL_CERT_FILE or SSL_CERT_DIR name the authorities to trust when dialling."
    )
    settings = (
        *COMMON,
        Setting(
            "listen",
            "wait on this port for the controller to dial (0: any free one)",
            parse=whole_number(0, 65_535),
        ),
        Setting("bind-address", "the address to listen on (default: 127.0.0.1)"),
        Setting("tls-cert", "PEM certificate chain of the listener", parse=directory),
        Setting("tls-private-key", "PEM private key of the certificate", parse=directory),
        Setting("no-tls", "listen or dial without TLS; the link stays encrypted", switch=True),
        Setting(
            "advertise-url",
            "the address under which the controller reaches this listener",
            "GARCON_EXECUTOR_ADVERTISE_URL",
            _address,
        ),
        Setting(
            "allow-unverified-tls",
            "dial without verifying the outer TLS certificate",
            switch=True,
        ),
    )

    def __init__(self, environment: MutableMapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        # First of all, so that nothing that comes later can leak it to a child.
        self._url_text = variables.pop(CONTROLLER_URL, "").strip()
        self.dial: ConnectionUrl | None = None
        super().__init__(variables)

    def getSynopsis(self) -> str:
        """Say what the options alone cannot."""
        return f"{super().getSynopsis()}\n\nTo dial, put the connection URL into {CONTROLLER_URL}."

    def check(self) -> None:
        """Refuse what contradicts itself; no message shows any part of a connection URL."""
        if self._url_text and self["listen"] is not None:
            raise UsageError(f"{CONTROLLER_URL} and --listen exclude each other")
        if self._url_text:
            self._check_dialling()
        elif self["listen"] is not None:
            self._check_listening()
        else:
            raise UsageError(
                f"a worker needs its controller: set {CONTROLLER_URL} to dial it, or --listen"
            )

    def _check_dialling(self) -> None:
        for name in _LISTENER_ONLY:
            if self[name] is not None:
                raise UsageError(f"--{name} needs --listen")
        try:
            dial = parse_connection_url(self._url_text)
            require_dialling_choice(dial.address, self["no-tls"])
        except GarconError as error:
            raise UsageError(f"{CONTROLLER_URL}: {error.text}") from None
        if self["allow-unverified-tls"] and not dial.address.is_tls:
            raise UsageError("--allow-unverified-tls needs a wss: connection URL")
        self.dial, self._url_text = dial, ""

    def _check_listening(self) -> None:
        certificate, key = self["tls-cert"], self["tls-private-key"]
        if self["allow-unverified-tls"]:
            raise UsageError(f"--allow-unverified-tls needs {CONTROLLER_URL}")
        if (certificate is None) != (key is None):
            raise UsageError("--tls-cert and --tls-private-key go together")
        if certificate is None and not self["no-tls"]:
            raise UsageError("--listen needs --tls-cert and --tls-private-key, or --no-tls")
        if certificate is not None and self["no-tls"]:
            raise UsageError("--no-tls contradicts --tls-cert and --tls-private-key")
        self["bind-address"] = non_empty(self["bind-address"] or "127.0.0.1")


LEASE_WAIT = 2.0
"""A predecessor that is about to end gets this long to do so."""


def make_service(options: Options, reactor: Any) -> Role:
    """Take the lease, clear what a predecessor left, read the listener's files, and compose; or end
    the process with one line.

    Nothing runs before the service is started.
    """
    try:
        root = ConfigRoot.chosen(options["config-dir"], {})
        lease = Lease.acquire(root.executor_lease, wait=LEASE_WAIT, role="worker")
        try:
            clear(root.executor_descriptor)
            worker = _compose(options, reactor, root, lease)
        except BaseException:
            lease.release()
            raise
    except StartupError as error:
        fail_to_start(error.text, Options.scope)
    except OSError as error:
        fail_to_start(str(error), Options.scope)
    return Role(reactor, worker, Options.scope)


def _compose(options: Options, reactor: Any, root: ConfigRoot, lease: Lease) -> Worker:
    # The snapshot is taken after the connection URL was taken out.
    environment = with_login_path(environment_snapshot())
    credentials = LinkCredentials(reactor)
    endpoints = OutgoingEndpoints.from_environment(reactor, environment)
    agents = agents_for(
        reactor,
        environment,
        root.executor_dir,
        options["enable-scripted-agent"],
        sys.executable,
        credentials=credentials,
        endpoints=endpoints,
        configured=configured.read(configured.path_in(root.path)),
    )
    runtime = LocalRuntime(
        reactor,
        str(uuid4()),
        options["project-base-dir"] or os.path.expanduser("~"),
        environment,
        "executor",
        root.path,
        agents,
        discovery=ModelDiscovery(reactor, endpoints),
        limits=SessionLimits.chosen(options),
    )
    secret, dial, plan = _ends(options, root, environment)

    def open_link(events: ILinkEvents, handlers: Mapping[str, Handler]) -> WorkerLink:
        link = WorkerLink(reactor, secret, str(uuid4()), events, handlers, dial)
        link.start()
        return link

    def listen(link: ILink) -> LinkListener:
        assert plan is not None and isinstance(link, WorkerLink)
        resource = LaneResource(
            lambda segment: link if segment is None else None, reactor, Admission()
        )
        return LinkListener(reactor, plan, resource)

    worker = Worker(
        reactor,
        lease,
        root.executor_descriptor,
        time.time,
        runtime,
        runtime.start,
        runtime.stop,
        open_link,
        None if plan is None else listen,
    )
    credentials.current = worker.current
    return worker


def _ends(
    options: Options, root: ConfigRoot, environment: Mapping[str, str]
) -> tuple[str, DialTarget | None, ListenPlan | None]:
    """Return the link's secret, and where to dial or how to listen."""
    if options.dial is not None:
        trust = Trust.from_environment(
            environment.get("SSL_CERT_FILE"), environment.get("SSL_CERT_DIR")
        )
        target = DialTarget(
            options.dial.address.url,
            trust,
            options["allow-unverified-tls"],
            ProxyRoutes.from_environment(environment),
        )
        return options.dial.secret, target, None
    pair = options["tls-cert"], options["tls-private-key"]
    tls = None if pair[0] is None else server_identity(*pair)
    require_free_port(options["bind-address"], options["listen"])
    advertised: Address | None = options["advertise-url"]
    plan = ListenPlan(
        port=options["listen"],
        address=options["bind-address"],
        tls=tls,
        advertised=None if advertised is None else advertised.url,
        file=root.executor_listener,
    )
    return ensure_secret(root.executor_secret), None, plan


def makeService(options: Options) -> Role:
    """Compose the worker for twistd."""
    from twisted.internet import reactor

    prepare(reactor)
    return under_twistd(make_service(options, reactor))


def main(argv: Sequence[str]) -> int:
    """Run a worker in the foreground and return its exit status."""
    # Before the reactor is imported, so that nothing else has seen the connection URL.
    options = Options()
    from twisted.internet import reactor

    return run_in_foreground(options, make_service, argv, reactor)
