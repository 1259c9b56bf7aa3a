"""Executors managed while their workers run: grants, connectors, deletion, and what is saved."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from garcon.test.live.fleets import SCRIPTED, FleetTestCase
from garcon.testing.fleet import Finished, Service, eventually

INBOUND = ("--direction", "executor-connects", "--no-tls", "true")


class ManagementTests(FleetTestCase):
    """One controller, one worker that dials it."""

    def setUp(self) -> None:
        super().setUp()
        self.controller, self.worker, self.executor_id = self.fleet.pair()

    def manage(self, service: Service, *words: str, check: bool = True) -> Finished:
        return self.fleet.garcon(service, "executor", *words, check=check)

    def grant(self, name: str, value: str) -> None:
        self.manage(self.controller, "update", self.executor_id, f"--allow-{name}", value)

    def shown(self) -> dict[str, Any]:
        return self.executor_snapshot(self.controller, self.executor_id)

    @property
    def saved(self) -> Path:
        return Path(self.controller.descriptor()["workspaceDir"]) / "executors.json"

    def test_revoked_while_a_command_waits(self) -> None:
        """The command stops, its turn goes on, the link stays; a new grant serves new commands."""
        project = ("--cwd", str(self.fleet.project("project")))
        waiting = self.fleet.begin(
            self.worker, "start", *SCRIPTED, *project, "say early\nsleep 3\nsay late"
        )
        assert waiting.stdout is not None
        chat = waiting.stdout.readline().split()[-1]
        eventually("the first row", lambda: self.said(self.controller, chat) == ["early"])
        instance = self.shown()["instanceId"]
        self.grant("controller-cli", "false")
        out, err = waiting.communicate(timeout=30)
        self.assertEqual(waiting.returncode, 3, err)
        self.assertNotIn("late", out)
        refused = self.fleet.garcon(self.worker, "list", "agents", check=False)
        self.assert_refused(refused, 3)
        eventually("the last row", lambda: self.said(self.controller, chat) == ["early", "late"])
        self.grant("controller-cli", "true")
        self.fleet.garcon(self.worker, "list", "agents")
        self.assertEqual(self.shown()["instanceId"], instance)

    def test_management_from_a_worker(self) -> None:
        """Denied without its own grant; with it others are managed, and of itself the label."""
        create = ("create", "--label", "second", *INBOUND)
        refused = self.manage(self.worker, *create, check=False)
        self.assertNotEqual(refused.status, 0)
        self.assertEqual(len(json.loads(self.saved.read_bytes())["executors"]), 1)
        self.grant("executor-management", "true")
        # Through the gateway there is no Host to make an address of.
        refused = self.manage(self.worker, *create, check=False)
        self.assertNotEqual(refused.status, 0)
        self.assertIn("--public-url", refused.err)
        address = (
            "--advertise-url",
            f"ws://127.0.0.1:{self.controller.port}/executor/{{executorId}}",
        )
        second = self.manage(self.worker, *create, *address, "--json").json["id"]
        revealed = self.manage(self.worker, "connection", second).out
        self.assertIn(f"/executor/{second}#secret=", revealed)
        self.manage(self.worker, "update", self.executor_id, "--label", "renamed")
        self.assertEqual(self.shown()["label"], "renamed")
        for words in (
            ("update", self.executor_id, "--allow-executor-management", "false"),
            ("disable", self.executor_id),
            ("delete", self.executor_id),
        ):
            self.assertNotEqual(self.manage(self.worker, *words, check=False).status, 0)
        self.manage(self.worker, "delete", second)
        self.assertEqual(self.shown()["availability"], "ready")

    def test_busy_executors_keep_their_connector(self) -> None:
        """Until the turn ends; then disabling disconnects, and enabling connects again."""
        chat, _ = self.start(self.worker, "say early\nsleep 60", wait=False).handle()
        eventually("the first row", lambda: self.said(self.controller, chat) == ["early"])
        for verb in ("disable", "delete"):
            refused = self.manage(self.controller, verb, self.executor_id, check=False)
            self.assertNotEqual(refused.status, 0)
        self.fleet.garcon(self.controller, "stop", chat)

        def disabled() -> bool:
            done = self.manage(self.controller, "disable", self.executor_id, check=False)
            return done.status == 0

        eventually("the end of the turn", disabled)
        shown = self.shown()
        self.assertEqual((shown["enabled"], shown["availability"]), (False, "offline"))
        self.assert_refused(self.fleet.garcon(self.worker, "list", "agents", check=False), 3)
        self.manage(self.controller, "enable", self.executor_id)
        self.fleet.await_executor(self.controller, self.executor_id, 60)
        self.manage(self.controller, "delete", self.executor_id)
        self.assertEqual(json.loads(self.saved.read_bytes())["executors"], [])
        shown_chat = self.snapshot(self.controller, chat)["chat"]
        self.assertEqual(shown_chat["executorId"], self.executor_id)

    def test_what_is_saved(self) -> None:
        """One private file with the secret; neither shows up in what the services print."""
        self.assertEqual(stat.S_IMODE(os.stat(self.saved).st_mode), 0o600)
        secret = json.loads(self.saved.read_bytes())["executors"][0]["secret"]
        self.assertNotIn(secret, self.fleet.logs())
        self.assertNotIn(secret, json.dumps(self.shown()))
