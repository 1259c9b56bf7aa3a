"""What an executor and its link have to say of themselves (decisions.md 13): what the snapshot must
not carry.

Nothing here is an address, a secret or a payload.  Times are seconds before the answer was made.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from garcon.contract.executors import Availability, Direction, LastError
from garcon.contract.leftovers import LeftoverProcesses


class LinkFailure(Struct, frozen=True, rename="camel"):
    """Why an attempt or a session ended.  `stage` is how far it had come: name, tcp, proxy, tls,
    upgrade, noise, hello or session.  `count` is how often this kind has come by now.
    """

    kind: str
    stage: str
    message: str
    seconds_ago: float
    count: int


class LaneDiagnostics(Struct, frozen=True, rename="camel", kw_only=True):
    """One lane.  The members about a session are null while there is none.

    The phase of primary is offline, listening, waiting (for the next attempt), connecting or
    connected; bulk has the phases of its life cycle.  `stage` is how far a present attempt has
    come.
    """

    phase: str
    stage: str | None = None
    session_seconds: float | None = None
    round_trip_ms: float | None = None
    silent_seconds: float | None = None
    queued_bytes: int = 0
    queued_messages: int = 0
    oldest_queued_seconds: float | None = None
    attempts: int = 0
    sessions: int = 0
    causes: dict[str, int] = field(default_factory=dict)
    last_error: LinkFailure | None = None
    redial_seconds: float | None = None


class WrongSecrets(Struct, frozen=True, rename="camel"):
    """How often something dialled that did not know the link's secret, and how long ago last."""

    count: int
    seconds_ago: float


class LinkDiagnostics(Struct, frozen=True, rename="camel", kw_only=True):
    """Both lanes as one side sees them.  `peer_version` is there when the other side's version was
    seen to be another than ours, `wrong_secrets` when there were any where this side is dialled.
    """

    dialled_by: Literal["controller", "worker"]
    through_proxy: bool
    version: str
    peer_version: str | None
    outgoing_calls: int
    incoming_calls: int
    wrong_secrets: WrongSecrets | None = None
    primary: LaneDiagnostics
    bulk: LaneDiagnostics


class ExecutorDiagnostics(Struct, frozen=True, rename="camel", kw_only=True):
    """One executor.  `link` is null while there is none: the executor is disabled or blocked, or it
    is Local, which has no direction either.  `leftovers` is null when its machine does not say now
    what is left over there.
    """

    id: str
    label: str
    enabled: bool
    allow_controller_cli: bool
    allow_executor_management: bool
    direction: Direction | None
    availability: Availability
    last_error: LastError | None
    link: LinkDiagnostics | None
    leftovers: LeftoverProcesses | None = None
