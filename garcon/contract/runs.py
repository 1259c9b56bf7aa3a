"""What crosses between a chat and the executor that runs its agent: launches, events, decisions.

The same types serve the Local runtime directly and a worker over the link (control.md J.9, J.10).
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from garcon.contract.catalogs import AgentSettings, PermissionMode, Protocol, ThinkingMode
from garcon.contract.messages import Image, ProviderRow, ToolUse, UserMessage


class HistoryMessage(Struct, frozen=True, rename="camel"):
    """One earlier message of a chat, for an agent that has no session of its own to resume
    (chats.md 5.1.4): its text, and a user's attachments.
    """

    role: Literal["user", "assistant"]
    content: str
    images: list[Image] = field(default_factory=list)


class ForkPoint(Struct, frozen=True, rename="camel"):
    """Where a session of an agent is forked: after what it calls `anchor`, or at its end."""

    agent_session_id: str
    anchor: str | None = None


class Launch(Struct, frozen=True, rename="camel", kw_only=True):
    """One turn to run.  `agent_session_id` None starts a fresh agent session, else resumes that
    one.

    `run_id` is the turn's id and `binding_id` names the stream its events come back on.  `prompt`
    is already composed (unanswered input included).  `history`, oldest first, is what was said
    before, for an agent that keeps no session or starts a fresh one in an old chat.

    `fork_from` is where a fresh session is to begin as a fork of another one; what was said there
    is in `history` all the same, for an agent that finds that it cannot.

    `api_provider_id` and `model_endpoint_id` name the profile's endpoint that the model is reached
    by, or are both None for a model of the agent's own; its key is resolved on the executor, never
    sent here.  `is_compaction`: no input, but a wish to compact the session, `prompt` being the
    instructions.
    """

    chat_id: str
    run_id: str
    binding_id: str
    agent_id: str
    model: str
    permission_mode: PermissionMode
    thinking_mode: ThinkingMode
    agent_settings: AgentSettings
    project_path: str
    prompt: str
    images: list[Image] = field(default_factory=list)
    agent_session_id: str | None = None
    fork_from: ForkPoint | None = None
    history: list[HistoryMessage] = field(default_factory=list)
    api_provider_id: str | None = None
    model_endpoint_id: str | None = None
    model_protocol: Protocol | None = None
    is_compaction: bool = False


class Launched(Struct, frozen=True, rename="camel"):
    """The executor's runtime admitted the run and the agent's process began (decisions.md 22)."""

    run_id: str


class _Event(Struct, frozen=True, rename="camel", tag_field="type", kw_only=True):
    pass


class SessionStarted(_Event, frozen=True, tag="session", kw_only=True, omit_defaults=True):
    """The agent named its session; stored, so that the next turn resumes it.  `is_fork`: it began
    as the fork that its launch asked for.
    """

    agent_session_id: str
    is_fork: bool = False


class RowProduced(_Event, frozen=True, tag="row", kw_only=True, omit_defaults=True):
    """One finished row of the agent's output.

    `anchor` is the agent's own name of the point after an assistant's message, where its session
    can be forked there.
    """

    message: ProviderRow
    anchor: str | None = None


class PermissionRequested(_Event, frozen=True, tag="permission-requested", kw_only=True):
    """The agent waits for a decision.  `options` are the agent's own names, for display only."""

    permission_occurrence_id: str
    requested_tool: ToolUse
    options: list[str] = field(default_factory=list)
    timestamp: str


class PermissionWithdrawn(_Event, frozen=True, tag="permission-withdrawn", kw_only=True):
    """The question is void: the agent or the end of the run took it back."""

    permission_occurrence_id: str
    reason: Literal["cancelled", "session-complete", "aborted"] = "cancelled"


class PermissionAutoResolved(_Event, frozen=True, tag="permission-auto-resolved", kw_only=True):
    """We answered by ourselves (``manualBypass``: decisions.md 33); shown as a resolved request."""

    permission_occurrence_id: str
    requested_tool: ToolUse
    allowed: bool
    timestamp: str


class UnknownEvent(_Event, frozen=True, tag="unknown-event", kw_only=True):
    """The agent said `count` times what this version does not know: counted, and kept as it came.

    `kind` names what it was by the agent's own words, ``result.sparkle`` being a field of a known
    message.  `raw` is the JSON text of the first of that kind, cut to `UNKNOWN_RAW`; empty where
    that was kept before.
    """

    agent_id: str
    kind: str
    raw: str = ""
    count: int = 1
    agent_version: str | None = None


class RunFailure(Struct, frozen=True, rename="camel"):
    code: str
    message: str


class Usage(Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """What a turn used of its model, where the agent says so: tokens that it was given and made,
    money, and how many tokens the model can be given at most.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    context_window: int | None = None


class RunEnded(_Event, frozen=True, tag="run-ended", kw_only=True):
    """The last event of every run, exactly once.  `error` is set when and only when it failed;
    `agent_version` is what the agent calls its own release, where it does.  `anchor` names the
    point after the turn, where the agent's session can be forked there.
    """

    outcome: Literal["finished", "failed", "interrupted"]
    error: RunFailure | None = None
    agent_version: str | None = None
    anchor: str | None = None
    usage: Usage | None = None


RunEvent = (
    SessionStarted
    | RowProduced
    | PermissionRequested
    | PermissionWithdrawn
    | PermissionAutoResolved
    | UnknownEvent
    | RunEnded
)


class LaunchFailure(Struct, frozen=True, rename="camel", kw_only=True):
    """Why a launch failed, as its reply would have said it."""

    code: str
    message: str
    outcome: Literal["not-dispatched", "rejected", "unknown"] = "rejected"
    status: int = 500
    retryable: bool = False


class LaunchSettled(_Event, frozen=True, tag="launch-settled", kw_only=True):
    """What became of a launch whose reply was lost with its session (control.md J.10).

    With an `error` nothing else comes of that run; without, its events follow.
    """

    run_id: str
    error: LaunchFailure | None = None


RelayedEvent = RunEvent | LaunchSettled
"""What crosses the link on a binding; the sink of a run gets the run's own events only."""


class PermissionResponse(Struct, frozen=True, rename="camel", kw_only=True):
    """A decision for one live request.  `response` is the answer to a question (chats.md 4.18) or
    None.
    """

    run_id: str
    permission_occurrence_id: str
    allow: bool
    always_allow: bool = False
    response: dict[str, Any] | None = None


Delivery = Literal["confirmed", "not-delivered", "unknown"]


class ProjectInspection(Struct, frozen=True, rename="camel"):
    """A project directory as its executor sees it.  `project_path` is canonical: absolute, symbolic
    links followed.
    """

    project_path: str
    project_key: str
    is_git_repo: bool = False


class ExecutorDescription(Struct, frozen=True, rename="camel"):
    """What an executor is (control.md J.9, `executor.describe`)."""

    instance_id: str
    project_base_path: str
    agent_ids: list[str]
    services: dict[str, bool] = field(default_factory=dict)
    history_agent_ids: list[str] = field(default_factory=list)
    """Those agents whose sessions can be read back."""


class NativeSession(Struct, frozen=True, rename="camel"):
    """A session whose history its agent keeps itself."""

    agent_id: str
    agent_session_id: str
    project_path: str


NativeRow = UserMessage | ProviderRow
"""What an agent remembers of a session: what it was told, and what it said and did."""


class SessionPoint(Struct, frozen=True, rename="camel"):
    """A point of a session, by the agent's own name of it."""

    session: NativeSession
    anchor: str


class MovedOn(Struct, frozen=True, rename="camel"):
    """Whether a session has more than it had at a point."""

    moved_on: bool


class HistoryOpened(Struct, frozen=True, rename="camel"):
    """A history that is being read, piece by piece."""

    reader: str


class HistoryQuery(Struct, frozen=True, rename="camel"):
    """Which piece of it is wanted, numbered from 1; each once and in order."""

    reader: str
    page: int


class HistoryPage(Struct, frozen=True, rename="camel"):
    """One piece, oldest first; `done` where it is the last, and it may be empty then."""

    done: bool
    rows: list[NativeRow] = field(default_factory=list)
