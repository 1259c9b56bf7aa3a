"""The table of HTTP operations: each route with its query, body and reply types.  Nobody writes a
second list.

Routing, validation, the dispatcher, OpenAPI and the contract tests are read off it.
"""

from __future__ import annotations

from typing import Any

from attrs import field, frozen
from msgspec import Struct

from garcon.contract import accounts, chats, diagnostics, executors, routes, settings
from garcon.contract.agents import CatalogQuery, CatalogReply
from garcon.contract.routes import Route


class NoQuery(Struct, frozen=True):
    """An operation without query parameters."""


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

MODELS = Operation(routes.MODELS, CatalogReply, query=CatalogQuery)
READ_SETTINGS = Operation(routes.READ_SETTINGS, settings.SettingsSnapshot)
CHANGE_SETTINGS = Operation(
    routes.CHANGE_SETTINGS, settings.SettingsChanged, body=settings.ChangeSettings
)
SESSION_NAME = Operation(routes.SESSION_NAME, chats.NamedSession, body=chats.NameSession)
LIST_PREAMBLES = Operation(routes.LIST_PREAMBLES, executors.Preambles)

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
STOP_CHAT = Operation(routes.STOP_CHAT, chats.StopAccepted, body=chats.StopChat)
PERMISSION_DECISION = Operation(
    routes.PERMISSION_DECISION, chats.CommandAccepted, body=chats.DecidePermission
)

OPERATIONS: tuple[Operation, ...] = tuple(
    value for value in tuple(globals().values()) if isinstance(value, Operation)
)
BY_KEY: dict[str, Operation] = {operation.route.key: operation for operation in OPERATIONS}
