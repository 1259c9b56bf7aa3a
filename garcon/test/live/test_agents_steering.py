"""The local runtime steers a real process: the scripted agent (chats.md 5.11)."""

from __future__ import annotations

import os
from typing import Any, cast

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from garcon.contract.runs import RunEnded
from garcon.contract.steering import Steer, Steered
from garcon.runtime.executor import LocalRuntime
from garcon.testing.agent_runs import RecordingSink, a_launch
from garcon.testing.local_runtimes import RuntimeCase


class SteeringTests(RuntimeCase):
    """A turn that waits."""

    async def asleep(self, runtime: LocalRuntime, seconds: float = 1.5) -> RecordingSink:
        """Begin a turn that sleeps; its input begins at once."""
        self.sink = RecordingSink(reactor)
        launch = a_launch(
            f"say awake\nsleep {seconds}\nsay slept",
            agent_id="scripted",
            model="scripted",
            project_path=str(self.project),
        )
        self.run_id = launch.run_id
        await runtime.launch(launch, self.sink)
        await self.sink.until(lambda: self.sink.texts == ["awake"], "the beginning")
        return self.sink

    async def steer(self, runtime: LocalRuntime, content: str) -> Deferred[Steered]:
        """Capture and steer."""
        capture = await runtime.capture_steering(self.run_id)
        assert capture.target is not None, capture
        return runtime.steer(
            Steer(target=capture.target, client_message_id=content, content=content)
        )

    async def test_input_joins_the_turn(self) -> None:
        """Delivered at once, and taken up in order before the turn is over."""
        runtime = self.a_runtime()
        sink = await self.asleep(runtime)
        for content in ("first", "say second\nsay third"):
            steered = await (await self.steer(runtime, content))
            self.assertEqual(steered, Steered(outcome="delivered"))
        self.assertEqual(sink.texts, ["awake"])
        await sink.ended()
        self.assertEqual(sink.texts, ["awake", "slept", "You said: first", "second", "third"])
        self.assertEqual([end.outcome for end in sink.of(RunEnded)], ["finished"])
        over = await runtime.capture_steering(self.run_id)
        self.assertEqual(over.outcome, "turn-unavailable")

    async def test_the_catalog_says_so(self) -> None:
        """`supportsSteering`."""
        [entry] = await self.a_runtime().catalog("scripted")
        self.assertTrue(entry.supports_steering)

    async def test_an_agent_that_goes_away(self) -> None:
        """What was on its way to it may have arrived."""
        runtime = self.a_runtime()
        sink = RecordingSink(reactor)
        launch = a_launch(
            "run kill -STOP $PPID; sleep 30",
            agent_id="scripted",
            model="scripted",
            project_path=str(self.project),
        )
        self.run_id = launch.run_id
        await runtime.launch(launch, sink)
        await sink.until(lambda: len(sink.events) == 2, "the command")
        while not self.is_stopped(runtime):
            await deferLater(cast(Any, reactor), 0.01)
        d = await self.steer(runtime, "hello")
        self.assertFalse(d.called)
        os.kill(self.agent_pid(runtime), 9)
        self.assertEqual((await d).outcome, "unknown")
        await sink.ended()

    def agent_pid(self, runtime: LocalRuntime) -> int:
        (slot,) = runtime._sessions._slots.values()
        pid = slot.session.process_id  # type: ignore[attr-defined]
        assert isinstance(pid, int)
        return pid

    def is_stopped(self, runtime: LocalRuntime) -> bool:
        with open(f"/proc/{self.agent_pid(runtime)}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"
