"""Programs that stand in for Claude Code: they know lines of the user's, and no handshake."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import structs
from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from garcon.contract.runs import Launch, RunEnded
from garcon.errors import GarconError
from garcon.runtime.agents.claude_protocol import ClaudeConversation
from garcon.runtime.agents.conversation import Invocation
from garcon.runtime.agents.session import AgentSession
from garcon.testing.agent_runs import RecordingSink, a_launch

SILENT = """while read -r line; do case "$line" in *'"type":"user"'*)
echo '{"type": "result", "is_error": false, "session_id": "s"}';; esac; done"""
ADAPTS = """while read -r line; do id=${line#*'"request_id":"'}; id=${id%%'"'*}
case "$line" in *'"type":"user"'*) echo '{"type": "result", "is_error": false}';;
*) echo '{"type": "control_response", "response": {"subtype": "success", "request_id": "'$id'"}}';;
esac; done"""
REFUSES = """read -r line; read -r line
echo '{"type": "control_response", "response": {"subtype": "error", "request_id": "initialize",
"error": "not today"}}' | tr -d '\\n'; echo; exec sleep 60"""


class PatienceTests(TestCase):
    """How long a handshake is waited for."""

    timeout = 60

    def session(self, script: str, patience: float | None) -> AgentSession:
        """Return the session of a shell script."""

        def invoke(launch: Launch, resume: str | None) -> Invocation:
            return Invocation(["sh", "-c", script], {}, "key", settings=launch.model)

        session = AgentSession(
            reactor,
            {"PATH": os.defpath},
            "TERM",
            invoke,
            lambda launch, resume: ClaudeConversation(),
            patience,
        )
        self.addCleanup(session.close)
        self.launch = a_launch("hello", project_path=str(Path(self.mktemp()).parent.absolute()))
        self.sink = RecordingSink(reactor)
        return session

    async def test_a_turn_without_a_handshake(self) -> None:
        """Begins once there was time enough for one, and ends with its result; so does the next."""
        session = self.session(SILENT, 0.1)
        for _ in range(2):
            await session.run(self.launch, self.sink)
            await self.sink.ended()
            self.assertEqual(self.sink.events[-1], RunEnded(outcome="finished"))
            self.sink.events.clear()

    async def test_other_settings_without_a_handshake(self) -> None:
        """Are for another process: this one would not listen."""
        session = self.session(SILENT, 0.1)
        started = []
        for model in ("a", "a", "b"):
            await session.run(structs.replace(self.launch, model=model), self.sink)
            await self.sink.ended()
            started.append(session.process_id)
            self.assertEqual(self.sink.events[-1], RunEnded(outcome="finished"))
            self.sink.events.clear()
        self.assertEqual(started[0], started[1])
        self.assertNotEqual(started[1], started[2])

    async def test_other_settings_are_told_where_there_was_one(self) -> None:
        """The same process takes them, ahead of the line."""
        session = self.session(ADAPTS, 20)
        started = []
        for model in ("a", "b"):
            await session.run(structs.replace(self.launch, model=model), self.sink)
            await self.sink.ended()
            started.append(session.process_id)
            self.sink.events.clear()
        self.assertEqual(started[0], started[1])

    async def test_a_slow_start_is_waited_for(self) -> None:
        """The time counts from when it has read what it was told; what it says then is heard."""
        session = self.session(f"sleep 2; {REFUSES.replace('read -r line; read', 'read')}", 1.0)
        with self.assertRaises(GarconError) as caught:
            await session.run(self.launch, self.sink)
        self.assertIn("not today", caught.exception.text)
        self.assertEqual(self.sink.events, [])

    async def test_nobody_waits_who_need_not(self) -> None:
        """Where a handshake must come, its absence is no readiness."""
        session = self.session(SILENT, None)
        d = session.run(self.launch, self.sink)
        d.addTimeout(0.5, reactor)
        with self.assertRaises(Exception):  # noqa: B017  # however the end of the wait is told
            await d
        self.assertEqual(self.sink.events, [])

    async def test_a_refusal_that_comes_late(self) -> None:
        """Fails the turn that had begun."""
        session = self.session(REFUSES, 0.1)
        await session.run(self.launch, self.sink)
        await self.sink.ended()
        end = self.sink.events[-1]
        assert isinstance(end, RunEnded) and end.error is not None
        self.assertEqual(end.outcome, "failed")
        self.assertIn("not today", end.error.message)

    async def test_a_refusal_in_time(self) -> None:
        """Is no turn at all."""
        session = self.session(REFUSES.replace("read -r line; read", "read"), 20)
        with self.assertRaises(GarconError) as caught:
            await session.run(self.launch, self.sink)
        self.assertIn("not today", caught.exception.text)
