"""The operations of the chat contract: that they are there, how they succeed, whether anybody may
keep their answers, and who may ask (chats.md 1.1, 3, 3.39).
"""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract import operations
from garcon.contract.routes import PREFIX
from garcon.controller.http.router import Router

INDEX = """
GET /chats 200
DELETE /chats 200
PUT /chats/last-selected 200
POST /chats/start 202
POST /chats/run 202
POST /chats/fork 200
POST /chats/fork-run 202
POST /chats/handoff-run 202
POST /chats/compact 202
POST /chats/stop 200
POST /chats/interrupt-and-send 200
POST /chats/steer 202
GET /chats/queue 200
POST /chats/queue/entries 202
PUT /chats/queue/entries 200
DELETE /chats/queue/entries 200
PUT /chats/queue/entries/move 200
POST /chats/queue/entries/steer 202
POST /chats/queue/pause 200
POST /chats/queue/resume 200
POST /chats/queue/clear 200
GET /chats/rows 200 never-stored
POST /chats/rows 200 never-stored
GET /chats/turn-receipt 200 never-stored
GET /chats/snapshot 200 never-stored
GET /chats/messages 200
POST /chats/permissions/decision 200
POST /chats/pin 200
POST /chats/archive 200
POST /chats/reorder 200
POST /chats/read 200
PATCH /chats/tags 200
PATCH /chats/execution-settings 200
PATCH /chats/model 200
PATCH /chats/project-path 200
GET /chats/running 200
GET /chats/details 200
GET /chats/validate-start 200
PUT /app/session-name 200
GET /runtime 200 never-stored
GET /models 200
GET /app/settings 200
"""

ABSENT = """
POST /chats/goal-control
POST /chats/title/generate
POST /chats/search/navigate
POST /chats/share
DELETE /chats/share
GET /chats/share/status
GET /shared
PATCH /chats
GET /chats/1767000000000001
GET /chats/
"""
"""What this version has not (chats.md 3.13), or not yet (3.31, 3.36, 3.38), and forms of paths that
no version has.
"""


class IndexTests(SynchronousTestCase):
    """The index of chats.md 3, route by route."""

    def test_every_route(self) -> None:
        """With the status of its success."""
        for line in INDEX.split("\n")[1:-1]:
            method, path, status, *rule = line.split()
            match = Router().match(method, PREFIX + path)
            assert match is not None, line
            self.assertEqual(match.operation.status, int(status), line)
            self.assertEqual(match.operation.no_store, rule == ["never-stored"], line)

    def test_what_there_is_not(self) -> None:
        """It is unknown like any other path."""
        for line in ABSENT.split("\n")[1:-1]:
            method, path = line.split()
            self.assertIsNone(Router().match(method, PREFIX + path), line)

    def test_who_needs_no_token(self) -> None:
        """Whoever wants the proof, the description, or an account: nobody else, and for no chat."""
        self.assertEqual(
            {one.route.key for one in operations.OPERATIONS if one.route.open},
            {
                *("GET /runtime", "GET /openapi.json"),
                *("GET /auth/status", "POST /auth/register", "POST /auth/login"),
            },
        )
