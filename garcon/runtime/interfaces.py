"""What an executor offers, as interfaces: Local implements them directly, the controller's remote
façade over the link.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from garcon.contract.agents import AgentAuth
from garcon.contract.catalogs import AgentEntry
from garcon.contract.files import (
    Browsed,
    FileContent,
    FileSaved,
    FileTarget,
    IdentifiedFile,
    ListedDirectory,
    ProjectFiles,
    SaveFile,
    Tree,
)
from garcon.contract.leftovers import EndProcess, LeftoverProcesses
from garcon.contract.providers import Discovered, DiscoverModels, ResolvedEndpoint
from garcon.contract.runs import (
    Delivery,
    ExecutorDescription,
    Launch,
    Launched,
    NativeRow,
    NativeSession,
    PermissionResponse,
    ProjectInspection,
    RunEvent,
    SessionPoint,
)
from garcon.contract.steering import Steer, SteerCapture, Steered
from garcon.contract.terminals import (
    TerminalAttached,
    TerminalAttachment,
    TerminalCreation,
    TerminalEvent,
    TerminalInfo,
    TerminalRenaming,
    TerminalSize,
    TerminalsListed,
    TerminalTermination,
)
from garcon.runtime.session_limits import SessionLimits


class IRunSink(Interface):
    """Where the facts of one run go, in order.  Must not raise and must not block.

    Facts may come whenever they do, and are kept as well as can be.  Who can leave an agent's
    output in its pipe asks for room after each, so that a flood waits there instead.
    """

    def event(event: RunEvent) -> None:
        """Take the next fact; `RunEnded` comes last, exactly once, and never before `launch` has
        fired.
        """

    def room() -> Deferred[None]:
        """Fire once more facts are welcome; at once when they are."""


class IExecutorRuntime(Interface):
    """One executor: this process's own (Local, a worker's) or, on the controller, a worker behind
    its link.

    Failures are `GarconError`s of the contract; a remote executor that is not ready fails with
    ``EXECUTOR_UNAVAILABLE``, and a call whose fate is unknown with a `CallError` of outcome
    ``unknown``.
    """

    def describe() -> Deferred[ExecutorDescription]:
        """Say what this executor is."""

    def catalog(agent_id: str | None) -> Deferred[tuple[AgentEntry, ...]]:
        """List its agents, or the one named; an unknown one fails with ``UNSUPPORTED_AGENT``."""

    def auth(agent_id: str | None) -> Deferred[Mapping[str, AgentAuth]]:
        """Say of each installed agent, or of the one named, whether it can reach its own models;
        an unknown one fails with ``UNSUPPORTED_AGENT``.
        """

    def inspect_project(path: str) -> Deferred[ProjectInspection]:
        """Resolve a project directory inside the executor's base (``PROJECT_PATH_OUTSIDE_BASE``
        403, ``PROJECT_PATH_NOT_FOUND`` 404, ``PROJECT_PATH_NOT_DIRECTORY`` 400).
        """

    def discover_models(wanted: DiscoverModels) -> Deferred[Discovered]:
        """Ask an endpoint for its models, from this executor's place in the network; one that
        fails is an answer too.
        """

    def launch(launch: Launch, sink: IRunSink) -> Deferred[Launched]:
        """Admit a run and begin its agent's process.  A failure here means that no event will come.

        Cancelling aborts the launch.  An earlier run of the chat whose launch was cancelled, or
        which was aborted, is waited for; beside any other the run is refused.
        """

    def abort(run_id: str) -> Deferred[bool]:
        """Interrupt a run; fires with whether it was still there.  Its `RunEnded` follows,
        ``interrupted``.
        """

    def respond(response: PermissionResponse) -> Deferred[Delivery]:
        """Hand a decision to the agent that asked, at most once."""

    def capture_steering(run_id: str) -> Deferred[SteerCapture]:
        """Say whether a run can be steered now, and what it does.  Changes nothing."""

    def steer(steer: Steer) -> Deferred[Steered]:
        """Hand further input to a captured run, at most once; inputs arrive in the order of these
        calls.  What becomes of it is the result, not a failure.
        """

    def resolve_mentions(project_path: str, text: str) -> Deferred[str]:
        """Return the text with what the files hold that it mentions as ``@path``, within bounds."""

    def running() -> Deferred[tuple[str, ...]]:
        """The run ids that have not ended."""


class IFiles(Interface):
    """The files of an executor, below its project base (server.md D).

    Failures are `GarconError`s with the codes of `contract.files`; a remote executor's also those
    of its link.  What is under way in the file system cannot be stopped: who cancels is not told
    what became of it, and a save or a new directory that had begun goes on to its end.
    """

    def tree(path: str | None) -> Deferred[Tree]:
        """Show a directory, or the base: all names, links followed where they stay inside."""

    def browse(path: str | None) -> Deferred[Browsed]:
        """Name the directories of a directory, or of the base."""

    def project_files(project_path: str) -> Deferred[ProjectFiles]:
        """Name the files of a project, down to a bounded depth and number."""

    def identity(target: FileTarget) -> Deferred[IdentifiedFile]:
        """Say which regular file a relative path means."""

    def revision(target: FileTarget) -> Deferred[str | None]:
        """Return the revision of a file, None where there is none."""

    def read(target: FileTarget) -> Deferred[FileContent]:
        """Read a file whole, as it was at one moment; ``FILE_CHANGED_DURING_READ`` (409) where no
        such moment was found.
        """

    def save(save: SaveFile) -> Deferred[FileSaved]:
        """Write a file in place, or make it.

        ``FILE_REVISION_CONFLICT`` (409): it is not as expected, or was moved or replaced meanwhile.
        ``FILE_NO_SPACE`` (507): its old content is there.  ``FILE_SAVE_INCOMPLETE`` (500): it holds
        a mixture.  ``FILE_SAVE_OUTCOME_UNKNOWN`` (503): nobody confirmed in time, and nothing tries
        again.
        """

    def create_directory(path: str | None, name: str) -> Deferred[ListedDirectory]:
        """Make one directory in a directory, or in the base."""


class IFileHost(Interface):
    """What a runtime provides as well where its files are served."""

    files: IFiles = Attribute("The files of this executor.")


class IAgentAuth(Interface):
    """An agent with an account of its own."""

    def auth(environment: Mapping[str, str]) -> Deferred[AgentAuth]:
        """Say whether it is signed in; its processes get `environment`.  Never fails but by
        cancellation, and is bounded in time.
        """


class ITerminalSink(Interface):
    """Where the events of one attachment go, in order.  Must not raise and must not block."""

    def offer(event: TerminalEvent) -> bool:
        """Take the next event, or return False: the same one is offered again in a moment.

        Nothing comes before `ITerminals.attach` has fired, and nothing after `TerminalGone`,
        `TerminalDetached` or `ITerminals.detach`.
        """


class ITerminals(Interface):
    """The terminals of one executor (server.md C), of all its principals.

    They live as long as the executor's process.  Nothing that happens to a caller, a socket or a
    link ends a shell; `terminate` does, and the end of that process.

    Failures are `GarconError`s with a code of `contract.terminals`.  A remote executor that cannot
    be reached fails with ``terminal-unavailable``, and one whose answer was lost with
    ``terminal-outcome-unknown``: what it did shows in the next `list`.
    """

    def list(principal_key: str) -> Deferred[TerminalsListed]:
        """Return a principal's terminals, in display order."""

    def create(wanted: TerminalCreation) -> Deferred[TerminalInfo]:
        """Start a shell.  Fails with ``terminal-limit``, ``terminal-validation`` (422 for the
        directory), ``terminal-runtime-changed``, ``terminal-backpressure`` or
        ``terminal-internal``.  A request that is repeated gets the same answer again, but for a
        changed runtime and backpressure.  Cancelling does not end what was begun.
        """

    def rename(wanted: TerminalRenaming) -> Deferred[TerminalInfo]:
        """Set or take away a title; whoever is attached gets `TerminalChanged`."""

    def terminate(wanted: TerminalTermination) -> Deferred[TerminalInfo | None]:
        """End a terminal, its process included, and return what it was last; None for an unknown
        one.
        """

    def attach(wanted: TerminalAttachment, sink: ITerminalSink) -> Deferred[TerminalAttached]:
        """Own a terminal.

        An owner with another client id loses it to ``takeover`` only; ``restore`` then fails with
        ``terminal-takeover-required``, and even so this attachment hears of the terminal's status
        and end until it is detached.  After any other failure there is no attachment.  Those are
        ``terminal-not-found``, ``terminal-replay-sequence``, ``terminal-validation``,
        ``terminal-backpressure``, ``terminal-auth-expired``, and ``terminal-unavailable`` also for
        an attachment epoch that is over.
        """

    def taken(attachment_id: str, sequence: int) -> None:
        """The sink is rid of the output up to this number: as much again may come.

        One that says so too late for its terminal's output is detached, and the shell does not
        wait for it.
        """

    def input(attachment_id: str, data: str) -> Deferred[None]:
        """Type something, after what was typed before; fires when the terminal has it.

        Fails with ``terminal-not-attached``, ``terminal-process-exited``,
        ``terminal-validation`` (too long, with nothing of it typed), ``terminal-backpressure`` or
        ``terminal-internal``.  What waits when the attachment loses the terminal is dropped, and
        its Deferred fires.
        """

    def resize(attachment_id: str, size: TerminalSize) -> Deferred[None]:
        """Change the window's size, in order with the input; fails as `input` does, but that an
        exited terminal has no size to change, and that is no failure.
        """

    def detach(attachment_id: str) -> None:
        """End an attachment, and with it all events; an unknown one is none already."""


class ILeftovers(Interface):
    """Processes that an executor started and that outlived what they were started for.

    A remote executor that cannot be reached fails with ``EXECUTOR_UNAVAILABLE``.
    """

    def read() -> Deferred[LeftoverProcesses]:
        """Look for them."""

    def end(wanted: EndProcess) -> Deferred[None]:
        """End one of them, and nothing that hangs on it; fires when it is gone.

        ``PROCESS_NOT_FOUND`` (404): there is no such among them.  ``PROCESS_NOT_ENDED`` (503): it
        was killed and is still there.  Cancelling does not take the signal back.
        """


class ILeftoverHost(Interface):
    """What a runtime provides as well where it knows what it started."""

    leftovers: ILeftovers = Attribute("Those of this executor.")


class ITerminalHost(Interface):
    """What a runtime provides as well where it has terminals."""

    terminals: ITerminals = Attribute("Those of this executor.")


TakeRows = Callable[[Sequence[NativeRow]], Deferred[None]]


class INativeHistory(Interface):
    """What a runtime provides as well where it can read the histories that its agents keep."""

    def keeps_history(agent_id: str) -> bool:
        """Whether that agent's sessions can be read back."""

    def read_history(session: NativeSession, take: TakeRows) -> Deferred[None]:
        """Hand over what an agent remembers of a session, oldest first, piece by piece: each when
        the one before was taken.  Fires at the end.

        Fails with a `GarconError`, retryable where it may go better later.  Cancelling ends it.
        """


class INativeDrift(Interface):
    """What a runtime provides as well where it can say whether a session was gone on with."""

    def has_moved_on(point: SessionPoint) -> Deferred[bool]:
        """Say whether an agent's session has more to show than it had at a point; False where
        nobody can tell.
        """


class IAgentDrift(Interface):
    """An agent that can say so of its sessions."""

    def has_moved_on(point: SessionPoint, environment: Mapping[str, str]) -> Deferred[bool]:
        """See `INativeDrift.has_moved_on`; `environment` is what its processes get."""


class IAgentHistory(Interface):
    """An agent whose sessions can be read back."""

    def read_history(
        session: NativeSession, environment: Mapping[str, str], take: TakeRows
    ) -> Deferred[None]:
        """See `INativeHistory.read_history`; `environment` is what its processes get."""


class ICredentials(Interface):
    """Where an agent of this executor gets the endpoint that a launch names, key included.

    Nothing is kept: each session asks again, and what it was given goes with it.
    """

    def resolve(profile_id: str, endpoint_id: str) -> Deferred[ResolvedEndpoint]:
        """Look an endpoint up, or fail with a `GarconError`.

        ``API_PROVIDER_UNAVAILABLE`` (404): no such profile or endpoint, or not assigned to this
        executor, which is not told apart.  ``API_PROVIDER_STORAGE_UNAVAILABLE`` (503): it cannot
        be said now.  On a worker also ``EXECUTOR_UNAVAILABLE`` (503) when the controller cannot be
        asked.  Cancelling gives the question up.
        """


class IAgentSession(Interface):
    """One agent process (or share of one) that runs the turns of one chat, one at a time."""

    def run(launch: Launch, sink: IRunSink) -> Deferred[None]:
        """Begin a turn; fires when the agent's process has begun it, then events go to the sink."""

    def interrupt() -> Deferred[None]:
        """Stop the turn that runs, if any; fires when its `RunEnded` has been emitted."""

    def respond(response: PermissionResponse) -> Delivery:
        """Answer a live permission request."""

    def capture_steering() -> SteerCapture:
        """Say whether the turn that runs can be steered now; ``unsupported`` where never.  The
        runtime asks only while a turn runs, and sees to `run_id` (the one of the launch).
        """

    def steer(steer: Steer) -> Deferred[Steered]:
        """Give the turn further input.  Called in order, and not before the one before has fired
        or the turn has ended; never fails, and fires at the latest when the turn ends.

        It is delivered once the agent has it, not when the agent acts on it: what a turn says is
        held back until its steer has fired, so that the input's row comes before its answer.
        """

    def close() -> Deferred[None]:
        """End the process and every descendant it left, and fire when they are gone."""


class ILimitedSession(Interface):
    """What a session provides as well that can be held to limits."""

    def limit(limits: SessionLimits) -> None:
        """Hold what is started from now on to these."""


class IAgent(Interface):
    """One kind of coding agent on this machine."""

    id: str = Attribute("The catalog id (decisions.md 32).")

    def is_installed() -> bool:
        """Say whether there is one here, without asking it anything."""

    def entry(environment: Mapping[str, str]) -> Deferred[AgentEntry | None]:
        """The catalog entry, or None where the agent is not installed; a program that is started to
        find out gets `environment`.
        """

    def open(launch: Launch, environment: Mapping[str, str]) -> IAgentSession:
        """Make a session for a chat whose processes get `environment`; nothing is started before
        `run`.
        """
