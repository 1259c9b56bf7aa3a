"""One owner for each process: starts that meet each other, and ends that meet a start."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from garcon.contract.runs import Launch
from garcon.errors import GarconError
from garcon.runtime.agents.acp_protocol import AcpConversation, AcpWays
from garcon.runtime.agents.conversation import Invocation
from garcon.runtime.agents.session import AgentSession
from garcon.testing.agent_runs import RecordingSink, a_launch
from garcon.testing.local_runtimes import RuntimeCase, runs

NEVER_READY = "echo $$ >> pids; setsid sleep 300 & echo $! >> pids; exec sleep 300"
"""An agent that never answers, and has started something in a session of its own."""


class Starts(TestCase):
    """A session whose agent never gets ready."""

    timeout = 60

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir(parents=True)
        self.invoked: Deferred[Invocation] | None = None
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        self.session = AgentSession(
            reactor, environment, "TERM", lambda launch, _: self.invocation(launch), _conversation
        )
        self.addCleanup(self.session.close)

    def invocation(self, launch: Launch) -> Invocation | Deferred[Invocation]:
        return self.invoked or _invocation(launch)

    def run_session(self) -> Deferred[None]:
        launch = a_launch("hi", project_path=str(self.directory))
        return self.session.run(launch, RecordingSink(reactor))

    def pids(self) -> list[int]:
        file = self.directory / "pids"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    async def started(self) -> list[int]:
        while len(self.pids()) < 2:
            await deferLater(reactor, 0.02)
        return self.pids()

    async def refused(self, d: Deferred[None]) -> GarconError:
        try:
            await d
        except GarconError as error:
            return error
        self.fail("it was not refused")

    async def test_two_at_once(self) -> None:
        """One process comes of it: the second is refused, whatever the first waits for."""
        first = self.run_session()
        second = await self.refused(self.run_session())
        self.assertEqual(second.code, "SESSION_BUSY")
        pids = await self.started()
        self.assertEqual((await self.refused(self.run_session())).code, "SESSION_BUSY")
        await self.session.close()
        await self.refused(first)
        self.assertEqual(self.pids(), pids)

    async def test_a_close_ends_an_unfinished_start(self) -> None:
        """The start fails, and nothing of what it has begun stays."""
        start = self.run_session()
        pids = await self.started()
        await self.session.close()
        await self.refused(start)
        self.assertEqual([pid for pid in pids if runs(pid)], [])

    async def test_a_close_before_there_is_a_process(self) -> None:
        """Then there will be none."""
        self.invoked = Deferred()
        start = self.run_session()
        await self.session.close()
        launch = a_launch("hi", project_path=str(self.directory))
        self.invoked.callback(_invocation(launch))
        self.assertIn("closed", (await self.refused(start)).text)
        self.assertEqual(self.pids(), [])

    async def test_a_cancelled_start(self) -> None:
        """Leaves nothing, and the next one is as the first."""
        start = self.run_session()
        pids = await self.started()
        start.cancel()
        await DeferredList([start], consumeErrors=True)
        self.assertEqual([pid for pid in pids if runs(pid)], [])
        (self.directory / "pids").unlink()
        again = self.run_session()
        await self.started()
        await self.session.close()
        await self.refused(again)


class Stops(RuntimeCase):
    async def test_the_runtime_s_stop_ends_an_unfinished_start(self) -> None:
        """The launch is told that it was stopped, and nothing is left of it."""
        stand_in = self.project / "claude"
        stand_in.write_text(f"#!/bin/sh\ncd {self.project}\n{NEVER_READY}\n")
        stand_in.chmod(0o755)
        runtime = self.a_runtime({"CLAUDE_BINARY": str(stand_in)})
        launch = a_launch("hi", agent_id="claude", project_path=str(self.project))
        launching = runtime.launch(launch, RecordingSink(reactor))
        file = self.project / "pids"
        await self.eventually(
            lambda: file.exists() and len(file.read_text().split()) == 2, "it has begun"
        )
        stopping = runtime.stop()
        try:
            await launching
        except GarconError as refusal:
            self.assertEqual(refusal.code, "RUN_INTERRUPTED")
        else:
            self.fail("the launch went on")
        await stopping
        left = [int(pid) for pid in file.read_text().split() if runs(int(pid))]
        self.assertEqual(left, [])


def _invocation(launch: Launch) -> Invocation:
    return Invocation(["sh", "-c", NEVER_READY], {}, key=launch.project_path)


def _conversation(launch: Launch, resume: str | None) -> AcpConversation:
    return AcpConversation(launch.project_path, resume, AcpWays())
