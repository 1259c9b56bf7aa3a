"""The controller's composition root: its options, its checks before anything starts, and its two
ways to run.

``twistd garcon-controller`` comes through `makeService`, ``garcon controller`` through `main`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from twisted.python import usage

from garcon import stalls
from garcon.contract import limits
from garcon.contract.connection_url import parse_public_base
from garcon.controller.auth import lifetime
from garcon.controller.auth.lifetime import parse_lifetime
from garcon.controller.http.listener import Address
from garcon.controller.service import Config, Controller
from garcon.controller.ws.socket import SocketLimits
from garcon.errors import GarconError, StartupError
from garcon.link.endpoints import Trust
from garcon.link.outgoing import OutgoingEndpoints
from garcon.link.proxy_route import ProxyRoutes
from garcon.local.descriptors import clear
from garcon.local.files import private_directory
from garcon.local.leases import Lease, LeaseHeld
from garcon.local.roots import ConfigRoot, check_workspace_name, older_descriptor, workspace_lease
from garcon.options import (
    COMMON,
    ServiceOptions,
    Setting,
    boolean,
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
    take_variable,
    under_twistd,
)
from garcon.runtime.agents import configured
from garcon.runtime.interfaces import IAgent, ICredentials
from garcon.runtime.login_path import with_login_path
from garcon.runtime.session_limits import SessionLimits
from garcon.runtime.shipped import agents_for
from garcon.web.certificates import server_identity
from garcon.web.forwarded import TrustedProxies, parse_network
from garcon.web.hosts import is_loopback_name

LEASE_WAIT = 3.0
"""How long a start waits for a predecessor that is ending (server.md F.4)."""


def workspace_name(text: str) -> str:
    """Parse the name of a workspace."""
    try:
        check_workspace_name(text)
    except StartupError as error:
        raise ValueError(f"is wrong: {error.text}") from None
    return text


def public_base(text: str) -> str:
    """Parse the URL at which others reach this controller."""
    try:
        return parse_public_base(text)
    except GarconError as error:
        raise ValueError(f"is wrong: {error.text}") from None


def bind_address(text: str) -> str:
    """Parse an interface's address; brackets around an IPv6 one are taken off."""
    return non_empty(text).removeprefix("[").removesuffix("]")


_SOCKETS = SocketLimits()
SOCKET_SETTINGS = (
    Setting(
        "sockets",
        "most browser sockets at once (128)",
        "GARCON_MAX_WS_CLIENTS",
        whole_number(1),
        _SOCKETS.sockets,
        flag=False,
    ),
    Setting(
        "socket-idle",
        "seconds after which a silent browser socket is closed (960)",
        "GARCON_WS_IDLE_TIMEOUT_SECONDS",
        whole_number(1),
        _SOCKETS.idle,
        flag=False,
    ),
    Setting(
        "socket-unsent",
        "bytes that may wait for a browser socket before it is closed (2097152)",
        "GARCON_WS_BACKPRESSURE_LIMIT",
        whole_number(1),
        _SOCKETS.unsent,
        flag=False,
    ),
    Setting(
        "socket-message",
        "most bytes of one message from a browser (16777216)",
        "GARCON_WS_MAX_PAYLOAD_LENGTH",
        whole_number(1),
        _SOCKETS.message,
        flag=False,
    ),
)
"""What can be told of browser sockets (server.md A.2)."""


class Options(ServiceOptions):
    """What a controller can be told (server.md F.1, decisions.md 2 and 10)."""

    command = "controller"
    longdesc = (
        "Serve chats and executors. Whoever may use this controller's API or command can have"
        " agents run commands on its executors."
    )
    settings = (
        Setting(
            "port",
            "TCP port, 0 for any free one (8080)",
            "GARCON_PORT",
            whole_number(0, 65_535),
            8080,
        ),
        Setting(
            "bind-address",
            "address to listen on (127.0.0.1)",
            "GARCON_BIND_ADDRESS",
            bind_address,
            "127.0.0.1",
        ),
        Setting(
            "workspace",
            "name of the workspace (default)",
            "GARCON_WORKSPACE",
            workspace_name,
            "default",
        ),
        Setting(
            "workspace-dir",
            "directory of a workspace without a name",
            "GARCON_WORKSPACE_DIR",
            directory,
        ),
        Setting(
            "public-url",
            "URL at which others reach this controller",
            "GARCON_PUBLIC_URL",
            public_base,
        ),
        Setting(
            "browser-dir",
            "directory of a built browser client to serve",
            parse=directory,
        ),
        Setting(
            "disable-auth",
            "let everyone who reaches the port in",
            "GARCON_DISABLE_AUTH",
            switch=True,
        ),
        Setting(
            "allow-remote-without-auth",
            "permit --disable-auth on an address that other machines reach",
            switch=True,
        ),
        Setting("allow-host", "a further Host name to answer to; may be repeated", repeated=True),
        Setting(
            "trusted-proxy",
            "address or network of a proxy whose X-Forwarded-For counts; may be repeated",
            parse=parse_network,
            repeated=True,
        ),
        Setting("tls-cert", "PEM certificate chain: the port is TLS then", parse=directory),
        Setting("tls-private-key", "PEM private key of the certificate", parse=directory),
        Setting(
            "token-lifetime",
            "how long a login lasts, such as 30d, 12h or 90s (30d); a number alone is milliseconds",
            "GARCON_JWT_TOKEN_EXPIRY",
            parse_lifetime,
            lifetime.DEFAULT,
            flag=False,
        ),
        Setting(
            "body-limit",
            "most bytes of a request's body (52428800)",
            "GARCON_MAX_REQUEST_BODY_SIZE",
            whole_number(1),
            limits.HTTP_BODY,
            flag=False,
        ),
        Setting(
            "connections",
            "most HTTP connections at once (1024)",
            "GARCON_MAX_CONNECTIONS",
            whole_number(1),
            1_024,
            flag=False,
        ),
        Setting(
            "idle",
            "seconds after which an idle HTTP connection is closed (120)",
            "GARCON_HTTP_IDLE_TIMEOUT_SECONDS",
            whole_number(1),
            limits.HTTP_IDLE,
            flag=False,
        ),
        Setting(
            "sessions",
            "most agents at once, 0 for no limit (50)",
            "GARCON_MAX_SESSIONS",
            whole_number(0),
            limits.SESSIONS,
            flag=False,
        ),
        *SOCKET_SETTINGS,
        Setting(
            "compress",
            "whether answers may be compressed (true)",
            "GARCON_HTTP_COMPRESSION",
            boolean,
            True,
            flag=False,
        ),
        *COMMON,
    )

    def check(self) -> None:
        """Refuse combinations that cannot be meant."""
        if (self["tls-cert"] is None) != (self["tls-private-key"] is None):
            raise usage.UsageError("--tls-cert and --tls-private-key go together")
        reachable = not is_loopback_name(self["bind-address"])
        if self["disable-auth"] and reachable and not self["allow-remote-without-auth"]:
            raise usage.UsageError(
                f"--disable-auth lets everyone in who reaches {self['bind-address']}; if that is"
                " meant, add --allow-remote-without-auth"
            )


def makeService(options: Options, reactor: Any = None) -> Role:
    """Check everything that can be checked, take the leases, and return the service, not started.

    A failure is one line on standard error and status 1.
    """
    twistd = reactor is None
    if reactor is None:
        from twisted.internet import reactor as installed

        reactor = installed
        prepare(reactor)
    # A worker's secret is not a controller's business, least of all its children's.
    take_variable("GARCON_CONTROLLER_URL")
    leases: list[Lease] = []
    try:
        service = Role(reactor, _controller(options, reactor, leases))
    except (GarconError, OSError) as error:
        for lease in leases:
            lease.release()
        fail_to_start(_reason(error))
    return under_twistd(service) if twistd else service


def _controller(options: Options, reactor: Any, leases: list[Lease]) -> Controller:
    environment = with_login_path(environment_snapshot())
    root = ConfigRoot(options["config-dir"] or "~/.garcon")
    if options["workspace-dir"] is None:
        workspace = options["workspace"]
        workspace_dir = root.workspace(workspace)
    else:
        workspace = None
        workspace_dir = root.workspace_dir(options["workspace-dir"])
    tls = None
    if options["tls-cert"] is not None:
        tls = server_identity(options["tls-cert"], options["tls-private-key"])
    public_url = options["public-url"]
    config = Config(
        root=root,
        workspace=workspace,
        workspace_dir=workspace_dir,
        project_base=options["project-base-dir"] or os.path.expanduser("~"),
        address=Address(options["bind-address"], options["port"], tls),
        trust=Trust.from_environment(
            environment.get("SSL_CERT_FILE"), environment.get("SSL_CERT_DIR")
        ),
        environment=environment,
        proxies=ProxyRoutes.from_environment(environment),
        public_url=public_url,
        public_host=None if public_url is None else urlsplit(public_url).hostname,
        allowed_hosts=options["allow-host"],
        browser_dir=_browser_dir(options["browser-dir"]),
        disable_auth=options["disable-auth"],
        token_lifetime_ms=options["token-lifetime"],
        trusted_proxies=TrustedProxies(options["trusted-proxy"]),
        compress=options["compress"],
        body_limit=options["body-limit"],
        connections=options["connections"],
        idle=float(options["idle"]),
        sessions=options["sessions"] or sys.maxsize,
        session_limits=SessionLimits.chosen(options),
        stalls=lambda: {"step": stalls.SEEN.steps, "turn": stalls.SEEN.turns},
        sockets=SocketLimits(
            sockets=options["sockets"],
            message=options["socket-message"],
            unsent=options["socket-unsent"],
            idle=float(options["socket-idle"]),
        ),
    )
    leases.append(Lease.acquire(root.controller_lease, LEASE_WAIT, "config"))
    clear(root.controller_descriptor)
    private_directory(workspace_dir)
    leases.append(Lease.acquire(workspace_lease(workspace_dir), LEASE_WAIT, "workspace"))
    if workspace is not None:
        clear(older_descriptor(workspace_dir))
    # Only now: a predecessor that was ending has let go of its port with its leases.
    require_free_port(config.address.host, config.address.port)

    own_agents = configured.read(configured.path_in(root.path))

    def agents(credentials: ICredentials) -> list[IAgent]:
        return agents_for(
            reactor,
            environment,
            os.path.join(workspace_dir, "agent-data"),
            options["enable-scripted-agent"],
            credentials=credentials,
            endpoints=OutgoingEndpoints(reactor, config.trust, config.proxies),
            configured=own_agents,
        )

    return Controller(reactor, config, agents, leases)


def _browser_dir(path: str | None) -> str | None:
    if path is not None and not os.path.isdir(path):
        raise StartupError(f"--browser-dir {path} is not a directory")
    return path


def _reason(error: GarconError | OSError) -> str:
    if isinstance(error, LeaseHeld):
        return f"{error.text} ({error.code})"
    return error.text if isinstance(error, GarconError) else str(error)


def main(argv: Sequence[str]) -> int:
    """Run a controller in the foreground until it is told to stop; return the exit status."""
    from twisted.internet import reactor

    return run_in_foreground(Options(), makeService, argv, reactor)
