"""The table of HTTP operations: each route with its query, body and reply types.  Nobody writes a
second list.

Routing, validation, the dispatcher, OpenAPI and the contract tests are read off it.
"""

from __future__ import annotations

from typing import Any

from attrs import field, frozen
from msgspec import Struct

from garcon.contract import (
    accounts,
    agents,
    chat_rows,
    chat_settings,
    chats,
    diagnostics,
    executors,
    files,
    forks,
    leftovers,
    preambles,
    providers,
    queue_commands,
    routes,
    settings,
    terminals,
    upkeep,
)
from garcon.contract.routes import Route


class NoQuery(Struct, frozen=True):
    """An operation without query parameters."""


@frozen
class BodyLimit:
    """The most bytes of a request that are taken, and what a larger one is refused as (413)."""

    most: int
    code: str
    text: str


@frozen
class Operation:
    """One thing a client may ask.  `status` is that of success; `no_store` forbids caching of every
    answer.
    """

    route: Route
    reply: Any
    query: type[Struct] = NoQuery
    body: type[Struct] | None = None
    status: int = 200
    no_store: bool = field(default=False, kw_only=True)
    degraded: type[Struct] | None = field(default=None, kw_only=True)
    """A second shape that success may take (an unavailable history: chats.md 4.9)."""
    invalid: str = field(default="VALIDATION_FAILED", kw_only=True)
    """The code of a body that has not its shape (control.md C.4, D.5)."""
    validation: str = field(default="VALIDATION_FAILED", kw_only=True)
    """The code of a request whose sender, text or query is not as it has to be."""
    raw: bool = field(default=False, kw_only=True)
    """Success is bytes of a type of their own, not JSON; `reply` is `bytes`."""
    form: tuple[str, ...] = field(default=(), kw_only=True)
    """The request is a form (``multipart/form-data``) with files of these names."""
    body_limit: BodyLimit | None = field(default=None, kw_only=True)
    """Where less is taken than a request may have anyway."""


RUNTIME = Operation(
    routes.RUNTIME, executors.RuntimeProof, query=executors.ChallengeQuery, no_store=True
)
CLI_CONTEXT = Operation(routes.CLI_CONTEXT, executors.CliContext, no_store=True)
OPENAPI = Operation(routes.OPENAPI, dict[str, Any])

AUTH_STATUS = Operation(routes.AUTH_STATUS, accounts.AuthStatus, no_store=True)
AUTH_REGISTER = Operation(
    routes.AUTH_REGISTER, accounts.SignedIn, body=accounts.Credentials, no_store=True
)
AUTH_LOGIN = Operation(
    routes.AUTH_LOGIN, accounts.SignedIn, body=accounts.Credentials, no_store=True
)
AUTH_USER = Operation(routes.AUTH_USER, accounts.CurrentUser, no_store=True)
AUTH_LOGOUT = Operation(routes.AUTH_LOGOUT, accounts.SignedOut, no_store=True)

LIST_EXECUTORS = Operation(routes.LIST_EXECUTORS, executors.ExecutorList, no_store=True)
CREATE_EXECUTOR = Operation(
    routes.CREATE_EXECUTOR, executors.CreatedExecutor, body=executors.CreateExecutor, no_store=True
)
UPDATE_EXECUTOR = Operation(
    routes.UPDATE_EXECUTOR, executors.ExecutorList, body=executors.UpdateExecutor, no_store=True
)
DELETE_EXECUTOR = Operation(routes.DELETE_EXECUTOR, executors.ExecutorList, no_store=True)
REVEAL_CONNECTION = Operation(routes.REVEAL_CONNECTION, executors.Connection, no_store=True)
EXECUTOR_DIAGNOSTICS = Operation(
    routes.EXECUTOR_DIAGNOSTICS, diagnostics.ExecutorDiagnostics, no_store=True
)
END_PROCESS = Operation(
    routes.END_PROCESS, leftovers.ProcessEnded, body=leftovers.EndProcess, no_store=True
)

MODELS = Operation(routes.MODELS, agents.CatalogReply, query=agents.CatalogQuery)
AGENTS = Operation(routes.AGENTS, agents.Catalog, query=agents.AgentsQuery)
AGENT_AUTH = Operation(routes.AGENT_AUTH, dict[str, agents.AgentAuth], query=agents.AuthQuery)
AGENT_READINESS = Operation(
    routes.AGENT_READINESS, dict[str, agents.Readiness], query=agents.AgentsQuery
)
LAUNCH_AGENT_LOGIN = Operation(
    routes.LAUNCH_AGENT_LOGIN, agents.LoginLaunched, body=agents.LaunchLogin
)
AGENT_LOGIN_STATE = Operation(routes.AGENT_LOGIN_STATE, agents.LoginState, query=agents.LoginQuery)
COMPLETE_AGENT_LOGIN = Operation(
    routes.COMPLETE_AGENT_LOGIN, agents.LoginCompleted, body=agents.CompleteLogin
)

LIST_PROVIDERS = Operation(routes.LIST_PROVIDERS, providers.ManagedProviders, no_store=True)
CREATE_PROVIDER = Operation(
    routes.CREATE_PROVIDER,
    providers.WrittenProvider,
    query=providers.OnExecutor,
    body=providers.ProfileInput,
    status=201,
    no_store=True,
)
UPDATE_PROVIDER = Operation(
    routes.UPDATE_PROVIDER,
    providers.WrittenProvider,
    query=providers.NamedProfile,
    body=providers.ProfileInput,
    no_store=True,
)
DELETE_PROVIDER = Operation(
    routes.DELETE_PROVIDER, providers.Removed, query=providers.RemovedProfile, no_store=True
)
TEST_PROVIDER = Operation(
    routes.TEST_PROVIDER,
    providers.Discovered,
    query=providers.OnExecutor,
    body=providers.TestedProfile,
    no_store=True,
)
DISCOVER_MODELS = Operation(
    routes.DISCOVER_MODELS,
    providers.Discovered,
    query=providers.OnExecutor,
    body=providers.DiscoveryRequest,
    no_store=True,
)
LIST_ASSIGNMENTS = Operation(routes.LIST_ASSIGNMENTS, providers.ManagedProviders, no_store=True)
ASSIGN_PROVIDER = Operation(
    routes.ASSIGN_PROVIDER,
    providers.ManagedProviders,
    query=providers.AssignmentQuery,
    no_store=True,
)
UNASSIGN_PROVIDER = Operation(
    routes.UNASSIGN_PROVIDER,
    providers.ManagedProviders,
    query=providers.AssignmentQuery,
    no_store=True,
)

READ_SETTINGS = Operation(routes.READ_SETTINGS, settings.SettingsSnapshot)
CHANGE_SETTINGS = Operation(
    routes.CHANGE_SETTINGS,
    settings.SettingsChanged,
    body=settings.ChangeSettings,
    invalid="INVALID_REMOTE_SETTINGS",
)
SESSION_NAME = Operation(routes.SESSION_NAME, chats.NamedSession, body=chats.NameSession)
LIST_PREAMBLES = Operation(routes.LIST_PREAMBLES, preambles.Preambles)
CREATE_PREAMBLE = Operation(
    routes.CREATE_PREAMBLE,
    preambles.PreamblesChanged,
    body=preambles.CreatePreamble,
    status=201,
    invalid=preambles.INVALID,
)
REPLACE_PREAMBLE = Operation(
    routes.REPLACE_PREAMBLE,
    preambles.PreamblesChanged,
    body=preambles.ReplacePreamble,
    invalid=preambles.INVALID,
)
DELETE_PREAMBLE = Operation(
    routes.DELETE_PREAMBLE,
    preambles.PreamblesChanged,
    body=preambles.DeletePreamble,
    invalid=preambles.INVALID,
)
REORDER_PREAMBLES = Operation(
    routes.REORDER_PREAMBLES,
    preambles.PreamblesChanged,
    body=preambles.ReorderPreambles,
    invalid=preambles.INVALID,
)

LIST_CHATS = Operation(routes.LIST_CHATS, chats.ChatList)
MESSAGES = Operation(
    routes.MESSAGES, chats.History, query=chats.MessagesQuery, degraded=chats.UnavailableHistory
)
SNAPSHOT = Operation(routes.SNAPSHOT, chats.ChatSnapshot, query=chats.SnapshotQuery, no_store=True)
TURN_RECEIPT = Operation(
    routes.TURN_RECEIPT, chats.TurnReceipt, query=chats.ReceiptQuery, no_store=True
)
START_CHAT = Operation(routes.START_CHAT, chats.StartAccepted, body=chats.StartChat, status=202)
RUN_CHAT = Operation(routes.RUN_CHAT, chats.RunAccepted, body=chats.RunChat, status=202)
FORK = Operation(routes.FORK, forks.ForkMade, body=forks.ForkChat)
FORK_RUN = Operation(routes.FORK_RUN, forks.ForkRunAccepted, body=forks.ForkRun, status=202)
HANDOFF_RUN = Operation(
    routes.HANDOFF_RUN, forks.ForkRunAccepted, body=forks.ContinueChat, status=202
)
COMPACT = Operation(routes.COMPACT, chats.CommandAccepted, body=forks.CompactChat, status=202)
STOP_CHAT = Operation(routes.STOP_CHAT, chats.StopAccepted, body=chats.StopChat)
INTERRUPT_AND_SEND = Operation(routes.INTERRUPT_AND_SEND, chats.StopAccepted, body=chats.StopChat)
STEER = Operation(
    routes.STEER, queue_commands.SteerAccepted, body=queue_commands.SteerChat, status=202
)
STEER_ENTRY = Operation(
    routes.STEER_ENTRY, queue_commands.EntrySteered, body=queue_commands.SteerEntry, status=202
)
READ_QUEUE = Operation(
    routes.READ_QUEUE, queue_commands.ChatControl, query=queue_commands.QueueQuery
)
CREATE_ENTRY = Operation(
    routes.CREATE_ENTRY,
    queue_commands.EntryAccepted,
    body=queue_commands.CreateEntry,
    status=202,
)
REPLACE_ENTRY = Operation(
    routes.REPLACE_ENTRY, queue_commands.EntryAccepted, body=queue_commands.ReplaceEntry
)
DELETE_ENTRY = Operation(
    routes.DELETE_ENTRY, queue_commands.EntryAccepted, body=queue_commands.DeleteEntry
)
MOVE_ENTRY = Operation(
    routes.MOVE_ENTRY, queue_commands.EntryAccepted, body=queue_commands.MoveEntry
)
PAUSE_QUEUE = Operation(
    routes.PAUSE_QUEUE, queue_commands.ChatControl, body=queue_commands.HoldQueue
)
RESUME_QUEUE = Operation(
    routes.RESUME_QUEUE, queue_commands.ChatControl, body=queue_commands.ResumeQueue
)
CLEAR_QUEUE = Operation(
    routes.CLEAR_QUEUE, queue_commands.ChatControl, body=queue_commands.HoldQueue
)
PERMISSION_DECISION = Operation(
    routes.PERMISSION_DECISION, chats.CommandAccepted, body=chats.DecidePermission
)

DELETE_CHAT = Operation(
    routes.DELETE_CHAT, upkeep.Done, query=upkeep.ChatQuery, body=upkeep.NamedChat
)
SELECT_CHAT = Operation(routes.SELECT_CHAT, upkeep.SelectedChat, body=upkeep.SelectChat)
TOGGLE_PIN = Operation(
    routes.TOGGLE_PIN, upkeep.PinToggled, query=upkeep.ChatQuery, body=upkeep.NamedChat
)
TOGGLE_ARCHIVE = Operation(
    routes.TOGGLE_ARCHIVE, upkeep.ArchiveToggled, query=upkeep.ChatQuery, body=upkeep.NamedChat
)
PIN = Operation(routes.PIN, upkeep.PinSet, body=upkeep.SetPinned)
ARCHIVE = Operation(routes.ARCHIVE, upkeep.ArchiveSet, body=upkeep.SetArchived)
REORDER_CHAT = Operation(routes.REORDER_CHAT, upkeep.ChatReordered, body=upkeep.ReorderChat)
MARK_READ = Operation(routes.MARK_READ, upkeep.MarkedRead, body=upkeep.MarkRead)
READ_TAGS = Operation(routes.READ_TAGS, upkeep.ChatTags, query=upkeep.ChatQuery)
SET_TAGS = Operation(routes.SET_TAGS, upkeep.TagsSet, body=upkeep.SetTags)
CHANGE_TAGS = Operation(routes.CHANGE_TAGS, upkeep.TagsChanged, body=upkeep.ChangeTags)
CHANGE_EXECUTION_SETTINGS = Operation(
    routes.CHANGE_EXECUTION_SETTINGS,
    chat_settings.ExecutionSettingsChanged,
    body=chat_settings.ChangeExecutionSettings,
)
CHANGE_MODEL = Operation(
    routes.CHANGE_MODEL, chat_settings.ModelChanged, body=chat_settings.ChangeModel
)
CHANGE_PROJECT_PATH = Operation(
    routes.CHANGE_PROJECT_PATH,
    chat_settings.ProjectPathChanged,
    body=chat_settings.ChangeProjectPath,
)
READ_ROWS = Operation(
    routes.READ_ROWS, chat_rows.RowsView, query=chat_rows.RowsQuery, no_store=True
)
ADD_ROW = Operation(routes.ADD_ROW, chat_rows.RowAdded, body=chat_rows.AddRow, no_store=True)
RUNNING_CHATS = Operation(routes.RUNNING_CHATS, upkeep.RunningChats)
CHAT_DETAILS = Operation(routes.CHAT_DETAILS, upkeep.ChatDetails, query=upkeep.ChatQuery)
VALIDATE_START = Operation(
    routes.VALIDATE_START,
    upkeep.StartValid,
    query=upkeep.ValidateStartQuery,
    degraded=upkeep.StartInvalid,
)
LOOKUP_NATIVE_SESSION = Operation(
    routes.LOOKUP_NATIVE_SESSION, upkeep.NativeSessionFound, body=upkeep.FindNativeSession
)

FILE_TREE = Operation(routes.FILE_TREE, files.Tree, query=files.DirectoryQuery, no_store=True)
LIST_FILES = Operation(
    routes.LIST_FILES, list[files.ListedFile], query=files.ProjectQuery, no_store=True
)
IDENTIFY_FILE = Operation(
    routes.IDENTIFY_FILE, files.IdentityReply, query=files.FileQuery, no_store=True
)
FILE_REVISION = Operation(
    routes.FILE_REVISION, files.RevisionReply, query=files.FileQuery, no_store=True
)
READ_TEXT = Operation(routes.READ_TEXT, files.TextReply, query=files.FileQuery, no_store=True)
SAVE_TEXT = Operation(
    routes.SAVE_TEXT,
    files.TextSaved,
    query=files.FileQuery,
    body=files.SaveText,
    no_store=True,
    body_limit=BodyLimit(files.SAVE_BODY_BYTES, files.TOO_LARGE, "The content is too large."),
)
READ_CONTENT = Operation(routes.READ_CONTENT, bytes, query=files.FileQuery, no_store=True, raw=True)
BROWSE_FILES = Operation(
    routes.BROWSE_FILES, list[files.ListedDirectory], query=files.DirectoryQuery, no_store=True
)
MAKE_DIRECTORY = Operation(
    routes.MAKE_DIRECTORY,
    files.DirectoryMade,
    query=files.DirectoryQuery,
    body=files.NameDirectory,
    status=201,
    no_store=True,
)
_UPLOAD = BodyLimit(
    files.UPLOAD_BYTES, "VALIDATION_FAILED", "The attachments together are too large."
)
UPLOAD_ATTACHMENTS = Operation(
    routes.UPLOAD_ATTACHMENTS, files.Uploaded, form=files.UPLOAD_FIELDS, body_limit=_UPLOAD
)
UPLOAD_IMAGES = Operation(
    routes.UPLOAD_IMAGES, files.Uploaded, form=files.UPLOAD_FIELDS, body_limit=_UPLOAD
)

LIST_TERMINALS = Operation(
    routes.LIST_TERMINALS,
    terminals.TerminalList,
    query=terminals.TerminalQuery,
    no_store=True,
    validation=terminals.VALIDATION,
)
CREATE_TERMINAL = Operation(
    routes.CREATE_TERMINAL,
    terminals.TerminalCreated,
    body=terminals.CreateTerminal,
    status=201,
    no_store=True,
    invalid=terminals.VALIDATION,
    validation=terminals.VALIDATION,
)
TERMINATE_TERMINAL = Operation(
    routes.TERMINATE_TERMINAL,
    terminals.TerminalTerminated,
    body=terminals.TerminateTerminal,
    no_store=True,
    invalid=terminals.VALIDATION,
    validation=terminals.VALIDATION,
)
RENAME_TERMINAL = Operation(
    routes.RENAME_TERMINAL,
    terminals.TerminalRenamed,
    body=terminals.RenameTerminal,
    no_store=True,
    invalid=terminals.VALIDATION,
    validation=terminals.VALIDATION,
)

OPERATIONS: tuple[Operation, ...] = tuple(
    value for value in tuple(globals().values()) if isinstance(value, Operation)
)
BY_KEY: dict[str, Operation] = {operation.route.key: operation for operation in OPERATIONS}
