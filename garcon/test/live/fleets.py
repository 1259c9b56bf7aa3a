"""The cast of the live tests: a fleet for each test, and what is asked of it again and again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

import garcon
from garcon.testing.claude_code import CLAUDE_CODE
from garcon.testing.codex_cli import CODEX
from garcon.testing.fleet import Finished, Fleet, Service, eventually
from garcon.testing.npm_agents import NotInstalled, NpmAgent


def program_of(agent: NpmAgent) -> str:
    """Return the program of a pinned agent; skip where npm cannot bring it."""
    try:
        return agent.install()
    except NotInstalled as error:
        raise SkipTest(f"no {agent.title}: {error}") from None


def claude_code() -> str:
    """Return the program of the pinned Claude Code; skip where npm cannot bring it."""
    return program_of(CLAUDE_CODE)


def codex() -> str:
    """Return the program of the pinned Codex; skip where npm cannot bring it."""
    return program_of(CODEX)


SCRIPTED = ("--agent", "scripted", "--model", "scripted")


class FleetTestCase(SynchronousTestCase):
    """A test with real processes.  What they printed is kept in trial's folder."""

    def setUp(self) -> None:
        self.fleet = Fleet()
        self.addCleanup(self._end)

    def _end(self) -> None:
        logs = Path(self.mktemp())
        logs.write_text(self.fleet.logs())
        self.fleet.close()

    def commands(self) -> Path:
        """Make a directory with the command, as an installation has it."""
        directory = self.fleet.root / "commands"
        directory.mkdir()
        command = directory / "garcon"
        source = Path(garcon.__file__).parents[1]
        command.write_text(
            f'#!/bin/sh\nPYTHONPATH={source} exec {sys.executable} -m garcon.cli.main "$@"\n'
        )
        command.chmod(0o755)
        return directory

    def start(
        self, service: Service, prompt: str, *options: str, check: bool = True, wait: bool = True
    ) -> Finished:
        """Start a scripted chat from a shell beside a service."""
        project = self.fleet.project("project")
        command = "start" if wait else "start-async"
        return self.fleet.garcon(
            service, command, *SCRIPTED, "--cwd", str(project), *options, prompt, check=check
        )

    def snapshot(self, service: Service, chat: str) -> dict[str, Any]:
        """Return what `status` says of a chat."""
        found: dict[str, Any] = self.fleet.garcon(
            service, "status", chat, "--messages", "100", "--json"
        ).json
        return found

    def rows(self, service: Service, chat: str) -> list[dict[str, Any]]:
        """Return a chat's transcript, after checking that its ordinals have no gap."""
        transcript = self.snapshot(service, chat)["transcript"]
        self.assertEqual(transcript["availability"], "available")
        ordinals = [row["ordinal"] for row in transcript["messages"]]
        self.assertEqual(ordinals, sorted(set(ordinals)))
        return [row["message"] for row in transcript["messages"]]

    def said(self, service: Service, chat: str) -> list[str]:
        """Return what the agent said in a chat."""
        rows = self.rows(service, chat)
        return [row["content"] for row in rows if row["type"] == "assistant-message"]

    def request(self, service: Service, chat: str) -> dict[str, Any]:
        """Wait for a permission request of a chat; return its live row and the server instance."""

        def asked() -> dict[str, Any] | None:
            snapshot = self.snapshot(service, chat)
            rows = snapshot["transientFeed"]["rows"]
            instance = snapshot["control"]["serverInstanceId"]
            return {**rows[0], "serverInstanceId": instance} if rows else None

        found: dict[str, Any] = eventually("a permission request", asked)
        return found

    def decide(self, service: Service, chat: str, decision: str, check: bool = True) -> Finished:
        """Answer a chat's permission request by the command."""
        row = self.request(service, chat)
        return self.fleet.garcon(
            service,
            *("permission-decision", chat, row["permissionOccurrenceId"], decision),
            *("--run", row["runId"], "--server-instance", row["serverInstanceId"]),
            check=check,
        )

    def executor_snapshot(self, controller: Service, executor_id: str) -> dict[str, Any]:
        """Return what the controller says of one executor."""
        shown: dict[str, Any] = self.fleet.garcon(
            controller, "executor", "show", executor_id, "--json"
        ).json
        return shown

    def assert_refused(self, done: Finished, status: int, *words: str) -> None:
        """Assert that a command ended with a status and named its reason on standard error."""
        self.assertEqual(done.status, status, str(done))
        for word in words:
            self.assertIn(word, done.err)
        self.assertEqual(done.out, "")
