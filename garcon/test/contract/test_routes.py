"""The registry of the bridge, operation by operation (control.md F.5)."""

from __future__ import annotations

import ast
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import garcon
from garcon.contract import operations, routes
from garcon.contract.routes import BRIDGED, Route

TABLE = """
GET /executors                          bulk    short 30
POST /executors                         bulk    short 30   M G
PATCH /executors/:executorId            bulk    short 30   M G
DELETE /executors/:executorId           bulk    short 30   M G
GET /executors/:executorId/connection   bulk    short 30   G
GET /executors/:executorId/diagnostics  bulk    short 30   G
POST /executors/:executorId/diagnostics/end-process bulk short 30 M G
GET /api-provider-assignments           bulk    short 30   G
PUT /api-provider-assignments           bulk    short 30   M G
DELETE /api-provider-assignments        bulk    short 30   M G
GET /models                             bulk    short 30
GET /app/settings                       bulk    short 30
PUT /app/settings                       bulk    long  none M
GET /preambles                          bulk    short 30
GET /chats                              bulk    short 30
GET /chats/messages                     bulk    short 30
GET /chats/snapshot                     bulk    short 30
GET /chats/turn-receipt                 primary short 30
GET /chats/export                       bulk    long  120
GET /chats/handoff-artifact             bulk    long  120
POST /chats/lookup-native-session       bulk    short 30
POST /chats/search                      bulk    short 30
GET /chats/search/status                bulk    short 30
POST /chats/search/rebuild              bulk    long  none M
POST /chats/start                       bulk    short 30   M
POST /chats/run                         bulk    short 30   M
POST /chats/fork                        bulk    long  none M
POST /chats/fork-run                    bulk    long  none M
POST /chats/steer                       bulk    short 30   M
POST /chats/stop                        primary short 30   M
POST /chats/permissions/decision        primary short 30   M
GET /chats/rows                         bulk    short 30
POST /chats/rows                        bulk    short 30   M
PUT /app/session-name                   bulk    short 30   M
PUT /chats/pin                          bulk    short 30   M
PUT /chats/archive                      bulk    short 30   M
GET /chats/tags                         bulk    short 30
PUT /chats/tags                         bulk    short 30   M
GET /tickets/bootstrap                  bulk    short 30
GET /tickets                            bulk    short 30
GET /tickets/detail                     bulk    short 30
GET /tickets/history                    bulk    short 30
POST /tickets/project-default           bulk    short 30
POST /tickets/mutate                    bulk    short 30   M
"""


def row(route: Route) -> list[str]:
    """Write a route as a line of the table."""
    deadline = "none" if route.deadline is None else f"{route.deadline:g}"
    marks = [m for m, on in (("M", route.mutation), ("G", route.management)) if on]
    return [*route.key.split(), route.lane, route.pool, deadline, *marks]


COMMAND = Path(garcon.__file__).parent / "cli"


def commands_routes() -> set[Route]:
    """Return the routes that the command's modules use, read off their sources."""
    used = set()
    for path in COMMAND.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "garcon.contract.routes":
                used |= {getattr(routes, alias.name) for alias in node.names}
    return {value for value in used if isinstance(value, Route)}


class RegistryTests(SynchronousTestCase):
    """Nothing is forwarded by being near something that is."""

    def test_every_entry(self) -> None:
        """Lane, pool, deadline, mutation and management are those of the contract, for each."""
        expected = sorted(line.split() for line in TABLE.strip().splitlines())
        self.assertEqual(sorted(row(route) for route in BRIDGED.values()), expected)

    def test_what_the_gateway_serves_itself_is_not_forwarded(self) -> None:
        """The proof and the context; the context travels on primary."""
        self.assertNotIn(routes.RUNTIME.key, BRIDGED)
        self.assertNotIn(routes.CLI_CONTEXT.key, BRIDGED)
        self.assertEqual(routes.CLI_CONTEXT.lane, "primary")

    def test_what_the_registry_has_beside_the_command(self) -> None:
        """Each row is asked for by a command, or is one whose command or handler is still to come:
        there is none that nobody ever asks for.
        """
        used = {route for route in commands_routes() if route.bridged}
        self.assertEqual(
            {route.key for route in BRIDGED.values()} - {route.key for route in used},
            {
                "GET /api-provider-assignments",
                "PUT /api-provider-assignments",
                "DELETE /api-provider-assignments",
                "PUT /app/settings",
                "GET /chats/export",
                "GET /chats/handoff-artifact",
                "POST /chats/search",
                "GET /chats/search/status",
                "POST /chats/search/rebuild",
                "GET /tickets/bootstrap",
                "GET /tickets",
                "GET /tickets/detail",
                "GET /tickets/history",
                "POST /tickets/project-default",
                "POST /tickets/mutate",
            },
        )

    def test_every_answer_that_is_forwarded_is_json(self) -> None:
        """No file, no form and no stream has a row."""
        for operation in operations.OPERATIONS:
            if operation.route.bridged:
                self.assertFalse(operation.raw or operation.form, operation.route.key)

    def test_what_a_worker_never_reaches(self) -> None:
        """Accounts, provider credentials, files, terminals and what only a browser does."""
        for key in BRIDGED:
            path = key.split(" ")[1]
            for excluded in ("/auth", "/agents", "/api-providers", "/files", "/terminals"):
                self.assertFalse(path == excluded or path.startswith(excluded + "/"), key)
        for key in ("PATCH /chats/tags", "DELETE /chats", "GET /openapi.json", "PUT /preambles"):
            self.assertNotIn(key, BRIDGED)

    def test_every_operation_of_the_command_is_registered(self) -> None:
        """Whatever the command asks of a controller it can ask through a gateway."""
        known = {*BRIDGED.values(), routes.RUNTIME, routes.CLI_CONTEXT}
        # A person signs in at a controller; what a worker may do is granted to it (decisions.md 6).
        known |= {route for route in routes.ROUTES if "/auth/" in route.key}
        # So are terminals: only with a login of one's own (decisions.md 6).
        known |= {route for route in routes.ROUTES if route.path == f"{routes.PREFIX}/terminals"}
        found = commands_routes()
        self.assertGreater(len(found), 10)
        for path in COMMAND.rglob("*.py"):
            # The one other way to name a path would be to write it down.
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    self.assertNotIn(routes.PREFIX, node.value, path)
        self.assertEqual(found - known, set())
