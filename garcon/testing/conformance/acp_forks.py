"""Sessions that the real agents of the Agent Client Protocol fork and compact themselves
(`tox run -e agents`).
"""

from __future__ import annotations

from typing import Any

from twisted.internet import reactor

from garcon.contract.messages import Compaction
from garcon.contract.runs import ForkPoint, HistoryMessage, RunEnded, SessionStarted
from garcon.testing import local_runtimes as cases
from garcon.testing.acp_agents import OPENCODE_MODEL
from garcon.testing.agent_runs import RecordingSink, a_launch

FIRST, LATER = "1700000000000001", "1700000000000002"


class NativeFork:
    """Mixed into a case with an agent that forks its sessions."""

    agent_id: str
    model: str

    async def whole(self: Any, runtime: Any, prompt: str, **changes: Any) -> RecordingSink:
        """Run a whole turn."""
        usual = {
            "agent_id": self.agent_id,
            "model": self.model,
            "project_path": str(self.project),
        }
        sink = RecordingSink(reactor, 120.0)
        await runtime.launch(a_launch(prompt, **(usual | changes)), sink)
        await sink.ended()
        return sink

    async def test_fork(self: Any) -> None:
        """It begins with the parent's conversation, which need not be told; the parent goes on."""
        runtime = self.a_runtime()
        self.script.push("one", "two", "three")
        parent = await self.whole(runtime, "the first words", chat_id=FIRST)
        forked = await self.whole(
            runtime,
            "in the fork",
            chat_id=LATER,
            fork_from=ForkPoint(agent_session_id=parent.session_id),
            history=[HistoryMessage(role="user", content="told instead")],
        )
        (started,) = forked.of(SessionStarted)
        self.assertTrue(started.is_fork)
        self.assertNotEqual(started.agent_session_id, parent.session_id)
        told = str([one for one in self.script.asked if one.tools][-1].body)
        self.assertIn("the first words", told)
        self.assertNotIn("told instead", told)
        more = await self.whole(runtime, "more", chat_id=FIRST, agent_session_id=parent.session_id)
        self.assertEqual(more.texts, ["three"])
        told = str([one for one in self.script.asked if one.tools][-1].body)
        self.assertNotIn("in the fork", told)


class OpencodeForks(NativeFork, cases.OpencodeRuntimeCase):
    agent_id, model = "opencode", OPENCODE_MODEL

    async def test_compaction(self) -> None:
        """Is a turn with one row, and the session goes on with what is left."""
        runtime = self.a_runtime()
        self.script.push("one", "two")
        first = await self.whole(runtime, "the first words")
        session = {"agent_session_id": first.session_id}
        compacted = await self.whole(runtime, "", is_compaction=True, **session)
        self.assertEqual([end.outcome for end in compacted.of(RunEnded)], ["finished"])
        self.assertEqual(len(compacted.rows(Compaction)), 1)
        after = await self.whole(runtime, "go on", **session)
        self.assertEqual(after.texts, ["two"])
        told = str([one for one in self.script.asked if one.tools][-1].body)
        self.assertNotIn("the first words", told)


class ClaudeCodeAcpForks(NativeFork, cases.ClaudeCodeAcpRuntimeCase):
    agent_id, model = "claude-code-acp", "default"
