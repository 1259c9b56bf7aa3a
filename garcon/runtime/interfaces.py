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
)
from garcon.contract.steering import Steer, SteerCapture, Steered


class IRunSink(Interface):
    """Where the facts of one run go, in order.  Must not raise and must not block."""

    def event(event: RunEvent) -> None:
        """Take the next fact; `RunEnded` comes last, exactly once, and never before `launch` has
        fired.
        """


class IPacedRunSink(IRunSink):
    """A sink that facts can be held back from."""

    def room() -> Deferred[None]:
        """Fire once more facts are welcome; at once when they are.

        They may come all the same: this is for those who can keep them better elsewhere.
        """


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

        Cancelling aborts the launch.
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

    def list(project_path: str) -> Deferred[ProjectFiles]:
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

        ``FILE_REVISION_CONFLICT`` (409): it is not as expected, nothing of ours is in it.
        ``FILE_NO_SPACE`` (507): nor is anything then.  ``FILE_SAVE_INCOMPLETE`` (500): it holds a
        mixture.  ``FILE_SAVE_OUTCOME_UNKNOWN`` (503): nobody confirmed in time, and nothing tries
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


class IAgent(Interface):
    """One kind of coding agent on this machine."""

    id: str = Attribute("The catalog id (decisions.md 32).")

    def entry() -> Deferred[AgentEntry | None]:
        """The catalog entry, or None where the agent is not installed."""

    def open(launch: Launch, environment: Mapping[str, str]) -> IAgentSession:
        """Make a session for a chat whose processes get `environment`; nothing is started before
        `run`.
        """
