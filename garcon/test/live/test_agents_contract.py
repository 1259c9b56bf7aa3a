"""What `IAgentSession` promises, held against every agent that is built: one test, four agents."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from twisted.internet import reactor
from zope.interface.verify import verifyObject

from garcon.contract.runs import Launch, PermissionWithdrawn, RunEnded, SessionStarted
from garcon.runtime.agents.session import AgentSession
from garcon.runtime.environment import child_environment
from garcon.runtime.interfaces import IAgent, IAgentSession
from garcon.runtime.shipped import agents_for
from garcon.testing.agent_runs import RecordingSink, a_launch, a_response
from garcon.testing.codex_cli import MODEL
from garcon.testing.local_runtimes import (
    ClaudeRuntimeCase,
    CodexRuntimeCase,
    PiRuntimeCase,
    RuntimeCase,
    runs,
)
from garcon.testing.models.script import Call, Hold, said
from garcon.testing.pi_coding_agent import MODEL as PI_MODEL

WAITS, ASKS = "waits", "asks"
PATIENCE = 90.0
"""Some agents take their time to start, and to begin their first turn."""


class SessionContract:
    """Mixed into a case that says how its agent is made to do things."""

    agent_id: str
    model = "haiku"
    environment: dict[str, str]
    project: Any

    def prompt_for(self, what: str) -> str:
        """Return a prompt that makes the agent say ``hello``, ask, or wait."""
        raise NotImplementedError

    async def written(self, session_id: str) -> None:
        """What was said can be taken up by another process: some write it a little later."""

    async def between_processes(self) -> None:
        """What must have come about before another process takes up a session."""

    def a_session(self: Any) -> AgentSession:
        """Open a session that ends with the test."""
        agents = agents_for(reactor, self.environment, str(self.project), True, sys.executable)
        agent = next(agent for agent in agents if agent.id == self.agent_id)
        verifyObject(IAgent, agent)
        environment = child_environment(self.environment, "executor", str(self.project))
        session = agent.open(a_launch("hi"), environment)
        verifyObject(IAgentSession, session)
        assert isinstance(session, AgentSession)
        self.addCleanup(session.close)
        return session

    def launch(self: Any, what: str, **changes: Any) -> Launch:
        """Return a launch of this agent."""
        usual = {
            "agent_id": self.agent_id,
            "model": self.model,
            "project_path": str(self.project),
        }
        return a_launch(self.prompt_for(what), **(usual | changes))

    def ends(self: Any, sink: RecordingSink) -> list[str]:
        """How the turn ended, each time that it did."""
        return [end.outcome for end in sink.of(RunEnded)]

    async def test_turn(self: Any) -> None:
        """Events come once `run` has fired, the session's name among them, and one end is last."""
        session, sink = self.a_session(), RecordingSink(reactor, PATIENCE)
        d = session.run(self.launch("hello"), sink)
        before: list[int] = []
        d.addCallback(lambda _: before.append(len(sink.of(RunEnded))))
        await d
        await sink.ended()
        self.assertEqual(before, [0])
        self.assertEqual(sink.texts, ["hello"])
        self.assertEqual(len(sink.of(SessionStarted)), 1)
        self.assertEqual(self.ends(sink), ["finished"])
        self.assertIsInstance(sink.events[-1], RunEnded)

    async def test_next_turn_in_the_same_process(self: Any) -> None:
        """A second turn needs no other process."""
        session = self.a_session()
        pids = set()
        for _ in range(2):
            sink = RecordingSink(reactor, PATIENCE)
            await session.run(self.launch("hello"), sink)
            await sink.ended()
            pids.add(session.process_id)
        self.assertEqual(len(pids), 1)

    async def test_interrupt(self: Any) -> None:
        """It fires when the end has been told; without a turn it fires at once."""
        session, sink = self.a_session(), RecordingSink(reactor, PATIENCE)
        await session.interrupt()
        await session.run(self.launch(WAITS), sink)
        await session.interrupt()
        self.assertEqual(self.ends(sink), ["interrupted"])
        await session.interrupt()
        after = RecordingSink(reactor, PATIENCE)
        await session.run(self.launch("hello"), after)
        await after.ended()
        self.assertEqual(after.texts[-1:], ["hello"])

    async def test_decision(self: Any) -> None:
        """A live request takes one answer; others find nobody."""
        session, sink = self.a_session(), RecordingSink(reactor, PATIENCE)
        launch = self.launch(ASKS)
        await session.run(launch, sink)
        asked = await sink.asked()
        self.assertEqual(
            session.respond(a_response(launch.run_id, asked, allow=False)), "confirmed"
        )
        again = a_response(launch.run_id, asked)
        self.assertEqual(session.respond(again), "not-delivered")
        stray = a_response(launch.run_id, asked, permission_occurrence_id="none")
        self.assertEqual(session.respond(stray), "not-delivered")
        await sink.ended()
        self.assertEqual(sink.of(PermissionWithdrawn), [])
        self.assertFalse((self.project / "made").exists())

    async def test_close_ends_turn_and_process(self: Any) -> None:
        """When `close` fires turn and process have ended; closing again is nothing."""
        session, sink = self.a_session(), RecordingSink(reactor, PATIENCE)
        await session.run(self.launch(WAITS), sink)
        pid = session.process_id
        self.assertTrue(runs(pid))
        await session.close()
        self.assertEqual(self.ends(sink), ["interrupted"])
        self.assertFalse(runs(pid))
        await session.close()

    async def test_process_that_is_gone_is_replaced(self: Any) -> None:
        """A turn after the process ended starts another, in the same agent session."""
        session, sink = self.a_session(), RecordingSink(reactor, PATIENCE)
        await session.run(self.launch("hello"), sink)
        await sink.ended()
        first = session.process_id
        await self.written(sink.session_id)
        os.kill(first, signal.SIGTERM)
        await self.eventually(lambda: session.process_id is None, "the end of the process")
        await self.between_processes()
        after = RecordingSink(reactor, PATIENCE)
        await session.run(self.launch("hello", agent_session_id=sink.session_id), after)
        await after.ended()
        self.assertNotEqual(session.process_id, first)
        self.assertEqual(after.of(SessionStarted), [])
        self.assertEqual(after.texts, ["hello"])


class ScriptedSession(SessionContract, RuntimeCase):
    agent_id = model = "scripted"

    def prompt_for(self, what: str) -> str:
        return {"hello": "say hello", ASKS: "ask touch made", WAITS: "sleep 60"}[what]


class ClaudeSession(SessionContract, ClaudeRuntimeCase):
    agent_id = "claude"

    def prompt_for(self, what: str) -> str:
        self.script.turns.clear()  # a turn that was stopped at once never asked the model
        self.script.push(
            {
                "hello": said("hello"),
                ASKS: said(Call("Bash", {"command": "touch made"})),
                WAITS: said(Hold("never")),
            }[what]
        )
        return what


class CodexSession(SessionContract, CodexRuntimeCase):
    agent_id, model = "codex", MODEL

    def prompt_for(self, what: str) -> str:
        self.script.turns.clear()  # as above
        given = {"cmd": "touch made", "sandbox_permissions": "require_escalated"}
        self.script.push(
            {
                "hello": said("hello"),
                ASKS: said(Call("exec_command", {**given, "justification": "why"})),
                WAITS: said(Hold("never")),
            }[what]
        )
        return what


class PiSession(SessionContract, PiRuntimeCase):
    agent_id, model = "pi", PI_MODEL

    def prompt_for(self, what: str) -> str:
        self.script.turns.clear()  # as above
        self.script.push(
            {
                "hello": said("hello"),
                ASKS: said(Call("bash", {"command": "touch made"})),
                WAITS: said(Hold("never")),
            }[what]
        )
        return what
