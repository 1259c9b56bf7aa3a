"""The settings that can be read, and the one patch."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract import operations
from garcon.controller.handlers import Answer, Handlers
from garcon.controller.principals import LOCAL_PRINCIPAL
from garcon.controller.settings.snapshot import Settings


class SettingsTests(SynchronousTestCase):
    """Defaults everywhere."""

    def setUp(self) -> None:
        self.handlers = Handlers()
        Settings("/projects").register(self.handlers)

    def put(self, body: dict[str, Any]) -> Answer:
        """Send a patch."""
        return self.successResultOf(
            self.handlers.run(operations.CHANGE_SETTINGS, LOCAL_PRINCIPAL, body=body)
        )

    def read(self) -> Any:
        """Return the snapshot."""
        d = self.handlers.run(operations.READ_SETTINGS, LOCAL_PRINCIPAL)
        return json.loads(self.successResultOf(d).body)

    def test_the_snapshot(self) -> None:
        """Every key of the contract, with the execution defaults."""
        snapshot = self.read()
        self.assertEqual(
            set(snapshot),
            {
                "version",
                "features",
                "ui",
                "uiEffective",
                "paths",
                "pinnedChatIds",
                "recentAgentSettings",
                "executionDefaults",
                "projectBasePath",
                "telegram",
            },
        )
        self.assertEqual(snapshot["projectBasePath"], "/projects")
        self.assertEqual(snapshot["features"]["transcriptSearch"], {"enabled": False})
        self.assertEqual(
            snapshot["executionDefaults"],
            {
                "global": {
                    "permissionMode": "default",
                    "thinkingMode": "none",
                    "agentSettingsById": {},
                },
                "byAgent": {},
            },
        )

    def test_search_cannot_be_switched_on(self) -> None:
        """There is none; the flag stays off."""
        answer = self.put({"features": {"transcriptSearch": {"enabled": True}}})
        self.assertEqual(answer.status, 500)
        self.assertEqual(json.loads(answer.body)["errorCode"], "TRANSCRIPT_SEARCH_ENABLE_FAILED")
        self.assertEqual(self.read()["features"]["transcriptSearch"], {"enabled": False})

    def test_search_can_be_switched_off(self) -> None:
        """As it is."""
        answer = self.put({"features": {"transcriptSearch": {"enabled": False}}})
        self.assertEqual(answer.status, 200)
        body = json.loads(answer.body)
        self.assertEqual((body["success"], body["settings"]), (True, self.read()))

    def test_nothing_to_change(self) -> None:
        """Is a success."""
        self.assertEqual(self.put({}).status, 200)

    def test_everything_else_is_refused(self) -> None:
        """Rather than forgotten in silence."""
        bodies: tuple[dict[str, Any], ...] = (
            {"features": {"transcriptSearch": {"enabled": 1}}},
            {"features": {"transcriptSearch": {}}},
            {"features": {"transcriptSearch": True}},
            {"features": {"transcriptSearch": {"enabled": False, "more": 1}}},
            {"features": {"transcriptSearch": {"enabled": False}, "agentCommands": {}}},
            {"features": {"agentCommands": {"enabled": False}}},
            {"ui": {"chatTitle": {"enabled": True}}},
            {"paths": {"browseStartPath": "/"}},
        )
        for body in bodies:
            answer = self.put(body)
            self.assertEqual(answer.status, 400, body)
            self.assertEqual(json.loads(answer.body)["errorCode"], "INVALID_REMOTE_SETTINGS")

    def test_preambles(self) -> None:
        """None yet."""
        d = self.handlers.run(operations.LIST_PREAMBLES, LOCAL_PRINCIPAL)
        self.assertEqual(json.loads(self.successResultOf(d).body), {"revision": 0, "preambles": []})
