"""The link's times and amounts in one value, so that tests can change what users never set."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from garcon.contract import limits
from garcon.contract.version import LINK_VERSION
from garcon.link.liveness import machine_slept


@frozen
class LinkSettings:
    """Defaults are the contract's (control.md J.3, J.5); times in seconds.

    Every time of a link and its sessions is here, but for two kinds: a call's deadline is its
    method's (contract/rpc.py), and until its upgrade an accepted socket is the door's
    (`web.exchange.DoorLimits`).
    """

    connect_time: float = 10.0
    """From dialling to an open WebSocket: name, TCP, proxy, TLS and upgrade together."""
    handshake_time: float = limits.HANDSHAKE_TIME
    """From an open WebSocket to both proofs."""
    close_time: float = 1.0
    """How long a closing socket may take to send what it holds."""
    eviction_time: float = 0.5
    """How long a socket that has lost its place is kept at least before it is closed."""
    eviction_pace: float = 0.05
    """How long after the one that lost its place before."""
    replace_time: float = 5.0
    """How long a replaced link may take to close before the next one is opened anyway."""
    ping_every: float = limits.PING_EVERY
    dead_after: float = limits.DEAD_AFTER
    redial_delays: tuple[float, ...] = limits.REDIAL_DELAYS
    redial_reset_after: float = limits.REDIAL_RESET_AFTER
    bulk_wait: float = limits.BULK_WAIT
    bulk_step: float = limits.BULK_STEP
    bulk_reconciling: float = limits.BULK_RECONCILING
    grace: float = limits.GRACE
    """How long after its loss a lane's calls are kept for the next session."""
    newer_grace: float = limits.NEWER_GRACE
    """How long a worker keeps a run that a newer session has not resumed."""
    launch_wait: float = limits.LAUNCH_WAIT
    """How long a controller waits for a run to begin."""
    install_again: float = 5.0
    """When to install a session again whose worker has refused it."""
    interactive_wait: float = limits.INTERACTIVE_WAIT
    dispatch_reserve: float = limits.DISPATCH_RESERVE
    ack_batch: float = limits.ACK_BATCH
    retry: float = limits.RETRY
    """When to try again what found no room in the queue."""
    notice_every: float = 1.0
    """At most one failure notice to the owner in this time."""
    burst: int = 128 * limits.KIB
    """Bytes sealed in one reactor turn while more waits."""
    records_per_key: int = limits.RECORDS_PER_KEY
    version: str = LINK_VERSION
    slept: Callable[[], float] = machine_slept
    """How long this machine has been suspended so far."""
