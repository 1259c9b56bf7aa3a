"""What ``claude auth status`` says, as the contract shows it (control.md A.7)."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.agents import AgentAuth
from garcon.runtime.agents.claude_auth import UNKNOWN, read_status


class StatusTests(SynchronousTestCase):
    """Outputs of the program."""

    def read(self, **said: Any) -> AgentAuth:
        """Read a status."""
        return read_status(json.dumps(said, indent=2).encode())

    def test_signed_in(self) -> None:
        """By what is named first of: an address, a key's source, a method."""
        for said, label in (
            ({"authMethod": "claude.ai", "email": "me@example.org"}, "me@example.org"),
            ({"authMethod": "api_key", "apiKeySource": "ANTHROPIC_API_KEY"}, "ANTHROPIC_API_KEY"),
            ({"authMethod": "api_key"}, "api_key"),
            ({}, "Signed in"),
        ):
            status = self.read(loggedIn=True, **said)
            self.assertEqual(status, AgentAuth(True, False, label, "agent"))

    def test_not_signed_in(self) -> None:
        """Is no error."""
        status = self.read(loggedIn=False, authMethod="none", apiProvider="firstParty")
        self.assertEqual((status.authenticated, status.source), (False, "agent"))
        self.assertNotEqual(status, UNKNOWN)

    def test_anything_else(self) -> None:
        """Cannot be told."""
        for output in (None, b"", b"Usage: claude", b"[]", b'{"loggedIn": "yes"}', b"\xff"):
            self.assertEqual(read_status(output), UNKNOWN)
