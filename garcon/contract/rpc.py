"""The RPC methods of the link: request, result, lane, continuity class (control.md J.9).  The only
list there is.

Both peers check a method's lane against this table before dispatch.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from garcon.contract.agents import AgentAuth
from garcon.contract.catalogs import AgentEntry
from garcon.contract.executors import CliContext
from garcon.contract.files import (
    CALL_TIME,
    Browsed,
    DirectoryPath,
    FileContent,
    FileSaved,
    FileTarget,
    FoundRevision,
    IdentifiedFile,
    ListedDirectory,
    MakeDirectory,
    ProjectFiles,
    ProjectPath,
    SaveFile,
    Tree,
)
from garcon.contract.leftovers import EndProcess, LeftoverProcesses
from garcon.contract.providers import (
    Discovered,
    DiscoverModels,
    ResolveCredential,
    ResolvedEndpoint,
)
from garcon.contract.runs import (
    Delivery,
    ExecutorDescription,
    HistoryOpened,
    HistoryPage,
    HistoryQuery,
    Launch,
    Launched,
    MovedOn,
    NativeSession,
    PermissionResponse,
    ProjectInspection,
    RelayedEvent,
    SessionPoint,
)
from garcon.contract.steering import (
    MentioningText,
    ResolvedText,
    Steer,
    SteerCapture,
    Steered,
)
from garcon.contract.terminals import (
    TerminalAttached,
    TerminalAttachment,
    TerminalCreation,
    TerminalDetach,
    TerminalInfo,
    TerminalInput,
    TerminalRemoved,
    TerminalRenaming,
    TerminalResize,
    TerminalsListed,
    TerminalsQuery,
    TerminalTermination,
)


class Lane(StrEnum):
    PRIMARY = "primary"
    BULK = "bulk"


class Continuity(StrEnum):
    """What becomes of a call when its session is lost (control.md J.8)."""

    SESSION = "session"
    LAUNCH = "launch"
    JOURNALED = "journaled"


class Method(Struct, frozen=True):
    """One RPC method.  `lane` None: the caller's lane, or (``controllerCli.request``) the
    operation's own.

    `installation` calls are made while a session is being installed, before ordinary calls are
    admitted. `served_by` is the role that handles it; `deadline` None means no timer at all.
    """

    name: str
    request: Any
    result: Any
    lane: Lane | None = Lane.PRIMARY
    continuity: Continuity = Continuity.JOURNALED
    served_by: Literal["worker", "controller"] = "worker"
    installation: bool = False
    deadline: float | None = 120.0


class Nothing(Struct, frozen=True):
    """An empty request or result."""


class AgentQuery(Struct, frozen=True, rename="camel"):
    agent_id: str | None = None


class CatalogSnapshot(Struct, frozen=True, rename="camel"):
    agents: list[AgentEntry]


class AuthStatuses(Struct, frozen=True, rename="camel"):
    """By agent id."""

    agents: dict[str, AgentAuth]


class PathQuery(Struct, frozen=True, rename="camel"):
    path: str


class RunQuery(Struct, frozen=True, rename="camel"):
    run_id: str


class Aborted(Struct, frozen=True, rename="camel"):
    """Whether the executor still had that run."""

    running: bool


class RunningSessions(Struct, frozen=True, rename="camel"):
    run_ids: list[str]


class Delivered(Struct, frozen=True, rename="camel"):
    delivery: Delivery


class BindingQuery(Struct, frozen=True, rename="camel"):
    binding_id: str


class CancelLaunch(Struct, frozen=True, rename="camel"):
    """The launch of `run_id` on this binding is not wanted, wherever it has come to."""

    binding_id: str
    run_id: str


class ResumeBinding(Struct, frozen=True, rename="camel"):
    """A binding to go on with, and the number up to which its frames have arrived."""

    binding: str
    acknowledged_seq: int


class ResumeProducers(Struct, frozen=True, rename="camel"):
    bindings: list[ResumeBinding]


class ResumedLaunch(Struct, frozen=True, rename="camel"):
    """A launch that was received and has not failed; `handle` is None while it is starting."""

    run_id: str
    handle: Launched | None = None


class ResumedBinding(Struct, frozen=True, rename="camel"):
    """One binding that goes on: frames up to `replay_through_seq` come again first.

    A launch named in `received_run_ids` and not in `launch` has failed; its frame says how.
    """

    binding_id: str
    replay_through_seq: int
    launch: ResumedLaunch | None = None
    received_run_ids: list[str] = field(default_factory=list)


class ResumedProducers(Struct, frozen=True, rename="camel"):
    """The bindings that were found; those missing are gone for good."""

    resumed: list[ResumedBinding]


class LostCall(Struct, frozen=True, rename="camel"):
    id: str
    session: str
    seq: int


class ReconcileCalls(Struct, frozen=True, rename="camel"):
    calls: list[LostCall] = field(default_factory=list)


class CallState(Struct, frozen=True, rename="camel"):
    id: str
    state: Literal["pending", "not-received", "unknown"]


class ReconciledCalls(Struct, frozen=True, rename="camel"):
    states: list[CallState] = field(default_factory=list)


class BridgedHttp(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One forwarded request (control.md F.3).  `operation` is a key of `routes.BRIDGED`.  The body
    may hold a connection URL, so it never shows it.
    """

    operation: str
    query: list[tuple[str, str]]
    body: dict[str, Any] | None
    executor_id: str | UnsetType = UNSET

    def __repr__(self) -> str:
        return f"<BridgedHttp {self.operation}>"


class BridgedRequest(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    expected_server_instance_id: str
    http: BridgedHttp


class BridgedReply(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An application answer, whatever its status.

    `body` is the JSON text itself, so that neither side decodes and encodes a large answer once
    more on its way.
    """

    status: int
    body: Raw
    retry_after: str | UnsetType = UNSET


class ProducerFrame(Struct, frozen=True, rename="camel"):
    """One event of a binding (control.md J.6 `producer`: the notification).

    `event` is the JSON text of a `RelayedEvent`: it is encoded once, before it is kept, and only
    who takes it can say what an unreadable one means.
    """

    binding_id: str
    event: Raw


def produced(binding_id: str, event: RelayedEvent) -> ProducerFrame:
    """Return the frame of an event."""
    return ProducerFrame(binding_id, Raw(msgspec.json.encode(event)))


DESCRIBE = Method(
    "executor.describe",
    Nothing,
    ExecutorDescription,
    continuity=Continuity.SESSION,
    installation=True,
)
RECONCILE = Method(
    "calls.reconcile",
    ReconcileCalls,
    ReconciledCalls,
    lane=None,
    continuity=Continuity.SESSION,
    installation=True,
)
CATALOG = Method("catalog.snapshot", AgentQuery, CatalogSnapshot)
INSPECT_PROJECT = Method("projects.inspect", PathQuery, ProjectInspection)
BIND = Method("producers.bind", BindingQuery, Nothing, continuity=Continuity.SESSION)
CLOSE_BINDING = Method("producers.close", BindingQuery, Nothing)
PRODUCERS_RESUME = Method(
    "producers.resume",
    ResumeProducers,
    ResumedProducers,
    continuity=Continuity.SESSION,
    installation=True,
)
CANCEL_LAUNCH = Method("producers.cancelLaunch", CancelLaunch, Nothing)
START = Method("execution.start", Launch, Launched, continuity=Continuity.LAUNCH, deadline=None)
RESUME = Method("execution.resume", Launch, Launched, continuity=Continuity.LAUNCH, deadline=None)
ABORT = Method("execution.abort", RunQuery, Aborted)
RUNNING = Method("execution.runningSessions", Nothing, RunningSessions)
RESOLVE_MENTIONS = Method(
    "projects.resolveFileMentions", MentioningText, ResolvedText, deadline=20.0
)
CAPTURE_STEERING = Method("steering.captureTarget", RunQuery, SteerCapture, deadline=20.0)
STEER = Method("steering.steer", Steer, Steered, deadline=20.0)
RESPOND = Method("permissions.respond", PermissionResponse, Delivered, deadline=20.0)
AUTH_STATUS = Method("auth.status", AgentQuery, AuthStatuses)
DISCOVER_MODELS = Method("apiProviders.discoverModels", DiscoverModels, Discovered, deadline=60.0)
LIST_TERMINALS = Method(
    "terminals.list",
    TerminalsQuery,
    TerminalsListed,
    continuity=Continuity.SESSION,
    deadline=20.0,
)
CREATE_TERMINAL = Method(
    "terminals.create", TerminalCreation, TerminalInfo, continuity=Continuity.SESSION
)
RENAME_TERMINAL = Method(
    "terminals.rename",
    TerminalRenaming,
    TerminalInfo,
    continuity=Continuity.SESSION,
    deadline=20.0,
)
TERMINATE_TERMINAL = Method(
    "terminals.terminate", TerminalTermination, TerminalRemoved, continuity=Continuity.SESSION
)
ATTACH_TERMINAL = Method(
    "terminals.attach",
    TerminalAttachment,
    TerminalAttached,
    continuity=Continuity.SESSION,
    deadline=20.0,
)
TERMINAL_INPUT = Method(
    "terminals.input", TerminalInput, Nothing, continuity=Continuity.SESSION, deadline=None
)
RESIZE_TERMINAL = Method(
    "terminals.resize", TerminalResize, Nothing, continuity=Continuity.SESSION, deadline=None
)
DETACH_TERMINAL = Method("terminals.detach", TerminalDetach, Nothing, continuity=Continuity.SESSION)
RESOLVE_CREDENTIAL = Method(
    "credentials.resolve",
    ResolveCredential,
    ResolvedEndpoint,
    continuity=Continuity.SESSION,
    served_by="controller",
    deadline=20.0,
)
CLI_DESCRIBE = Method(
    "controllerCli.describe",
    None,
    CliContext,
    continuity=Continuity.SESSION,
    served_by="controller",
    deadline=5.0,
)
CLI_REQUEST = Method(
    "controllerCli.request",
    BridgedRequest,
    BridgedReply,
    lane=None,
    continuity=Continuity.SESSION,
    served_by="controller",
    deadline=None,
)
LEFTOVERS = Method(
    "processes.leftovers",
    Nothing,
    LeftoverProcesses,
    continuity=Continuity.SESSION,
    deadline=20.0,
)
END_LEFTOVER = Method(
    "processes.endLeftover", EndProcess, Nothing, continuity=Continuity.SESSION, deadline=20.0
)
OPEN_HISTORY = Method(
    "history.open",
    NativeSession,
    HistoryOpened,
    lane=Lane.BULK,
    continuity=Continuity.SESSION,
    deadline=20.0,
)
READ_HISTORY = Method(
    "history.next", HistoryQuery, HistoryPage, lane=Lane.BULK, continuity=Continuity.SESSION
)
CLOSE_HISTORY = Method(
    "history.close",
    HistoryQuery,
    Nothing,
    lane=Lane.BULK,
    continuity=Continuity.SESSION,
    deadline=20.0,
)
MOVED_ON = Method(
    "history.movedOn",
    SessionPoint,
    MovedOn,
    lane=Lane.BULK,
    continuity=Continuity.SESSION,
    deadline=20.0,
)
FILE_IDENTITY = Method("files.identity", FileTarget, IdentifiedFile, deadline=CALL_TIME)
FILE_REVISION = Method("files.revision", FileTarget, FoundRevision, deadline=CALL_TIME)
FILE_TREE = Method("files.tree", DirectoryPath, Tree, lane=Lane.BULK, deadline=CALL_TIME)
BROWSE_FILES = Method("files.browse", DirectoryPath, Browsed, lane=Lane.BULK, deadline=CALL_TIME)
LIST_FILES = Method("files.list", ProjectPath, ProjectFiles, lane=Lane.BULK, deadline=CALL_TIME)
READ_FILE = Method("files.read", FileTarget, FileContent, lane=Lane.BULK, deadline=CALL_TIME)
SAVE_FILE = Method("files.save", SaveFile, FileSaved, lane=Lane.BULK, deadline=CALL_TIME)
MAKE_DIRECTORY = Method(
    "files.createDirectory", MakeDirectory, ListedDirectory, lane=Lane.BULK, deadline=CALL_TIME
)

METHODS: dict[str, Method] = {
    value.name: value for value in tuple(globals().values()) if isinstance(value, Method)
}
