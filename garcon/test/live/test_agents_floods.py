"""Agents that write faster than their output can be kept are left to their pipe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from garcon.contract.runs import RunEnded
from garcon.contract.steering import Steer
from garcon.deferreds import Waiters
from garcon.runtime.agents.process import AgentProcess, Exit
from garcon.runtime.interfaces import IRunSink
from garcon.testing.agent_runs import RecordingSink, a_launch
from garcon.testing.local_runtimes import RuntimeCase

LINES, FLOOD = 20_000, 4_000
"""More than a pipe holds of short lines, and of rows."""
ENOUGH = 100


@implementer(IRunSink)
class FullSink(RecordingSink):
    """It has room for so many facts, and for more when the test says so."""

    def __init__(self) -> None:
        super().__init__(reactor)
        self.most = ENOUGH
        self.emptied: Waiters[None] = Waiters()

    def room(self) -> Deferred[None]:
        if len(self.events) < self.most:
            return succeed(None)
        return self.emptied.wait()

    def empty(self) -> None:
        """Have room for whatever comes."""
        self.most = FLOOD + 10
        self.emptied.fire(None)


class HeldProcesses(TestCase):
    """A process whose owner holds it."""

    timeout = 60

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir(parents=True)
        self.told: list[Any] = []
        self.most = ENOUGH
        self.changed: Waiters[None] = Waiters()

    def start(self, script: str) -> AgentProcess:
        def received(message: dict[str, Any]) -> None:
            self.told.append(message["n"])
            if len(self.told) == self.most:
                process.hold()
            self.changed.fire(None)

        def ended(exit: Exit) -> None:
            self.told.append(exit)
            self.changed.fire(None)

        process = AgentProcess(reactor, received, ended)
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        process.start(["sh", "-c", script], environment, str(self.directory))
        self.addCleanup(process.end, "TERM", at_once=True)
        return process

    async def until(self, count: int) -> None:
        while len(self.told) < count:
            await self.changed.wait().addTimeout(20, reactor)

    async def test_it_writes_no_more_than_a_pipe_takes(self) -> None:
        """And goes on where it was, in order, to the last line."""
        script = f'n=0; while [ $n -lt {LINES} ]; do echo "{{\\"n\\": $n}}"; n=$((n+1)); done'
        process = self.start(script + "; touch written")
        await self.until(ENOUGH)
        await self.asleep(process)
        self.assertEqual(self.told, list(range(ENOUGH)))
        self.assertFalse((self.directory / "written").exists())
        process.let_go()
        await self.until(LINES + 1)
        self.assertEqual(self.told[:-1], list(range(LINES)))
        self.assertEqual(str(self.told[-1]), "exited with status 0")

    async def test_one_that_has_exited_meanwhile(self) -> None:
        """Everything is told before its end, however long it was held."""
        self.most = 1
        process = self.start('for n in 0 1 2 3; do echo "{\\"n\\": $n}"; done; exit 3')
        await self.until(1)
        while process.is_running:
            await deferLater(reactor, 0.02)
        # Longer than output is waited for after an exit.
        await deferLater(reactor, 1.2)
        self.assertEqual(self.told, [0])
        process.let_go()
        await self.until(5)
        self.assertEqual(self.told[:4], [0, 1, 2, 3])
        self.assertEqual(str(self.told[4]), "exited with status 3")

    async def test_the_end_of_one_that_is_held(self) -> None:
        """Does not wait for whoever held it."""
        self.most = 1
        process = self.start('while :; do echo "{\\"n\\": 0}"; done')
        await self.until(1)
        await process.end("TERM", at_once=True)
        self.assertEqual(str(self.told[-1]), "ended by signal 9")

    async def asleep(self, process: AgentProcess) -> None:
        """Wait until it waits to write."""
        where = Path(f"/proc/{process.pid}/wchan")
        state = Path(f"/proc/{process.pid}/stat")
        same = 0
        while same < 10:
            await deferLater(reactor, 0.02)
            word = state.read_text().rsplit(") ", 1)[1][0]
            same = same + 1 if word == "S" and "exit" not in where.read_text() else 0


class Floods(RuntimeCase):
    """A turn of the scripted agent that says more than its sink has room for."""

    async def flood(self, then: str = "") -> FullSink:
        self.runtime = self.a_runtime()
        sink = FullSink()
        verifyObject(IRunSink, sink)
        self.launch = a_launch(
            f"emit {FLOOD}{then}",
            agent_id="scripted",
            model="scripted",
            project_path=str(self.project),
        )
        await self.runtime.launch(self.launch, sink)
        await sink.until(lambda: len(sink.events) >= ENOUGH, "the beginning")
        return sink

    async def test_all_of_it_comes_as_there_is_room(self) -> None:
        """No more than there is room for, then the rest, in order."""
        sink = await self.flood()
        await deferLater(reactor, 0.5)
        self.assertEqual(len(sink.events), ENOUGH)
        sink.empty()
        await sink.ended()
        self.assertEqual(sink.texts, [f"row {n}" for n in range(1, FLOOD + 1)])

    async def test_a_stop_does_not_wait_for_room(self) -> None:
        """The agent's answer comes through the same pipe."""
        sink = await self.flood()
        self.assertTrue(await self.runtime.abort(self.launch.run_id))
        await sink.ended()
        self.assertEqual([end.outcome for end in sink.of(RunEnded)], ["interrupted"])

    async def test_a_steer_does_not_wait_for_room(self) -> None:
        """The sink may be full only because it waits to know whether the steer was delivered."""
        # The input finds the turn also when the flood has been taken in before the agent reads it.
        sink = await self.flood(then="\nsleep 2")
        capture = await self.runtime.capture_steering(self.launch.run_id)
        assert capture.target is not None
        steer = Steer(target=capture.target, client_message_id="m", content="more")
        steered = await self.runtime.steer(steer)
        self.assertEqual(steered.outcome, "delivered")
        sink.empty()
        await sink.ended()
        self.assertEqual(sink.texts[-1], "You said: more")
