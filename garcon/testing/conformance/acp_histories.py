"""What the real agents of the Agent Client Protocol remember of a session, read back as rows
(`tox run -e agents`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, succeed

from garcon.contract.messages import Image, ToolResult, UserMessage
from garcon.contract.runs import NativeRow, NativeSession
from garcon.testing import local_runtimes as cases
from garcon.testing.acp_agents import GEMINI_MODEL, OPENCODE_MODEL
from garcon.testing.agent_runs import RecordingSink, a_launch
from garcon.testing.models.script import Call, said

DOT = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)


class ReadsBack:
    """Mixed into a case that says how its agent runs a command."""

    agent_id: str
    model: str
    shell: str
    given: dict[str, str]

    async def whole(self: Any, prompt: str, **changes: Any) -> RecordingSink:
        """Run a whole turn."""
        usual = {
            "agent_id": self.agent_id,
            "model": self.model,
            "project_path": str(self.project),
            "permission_mode": "manualBypass",
        }
        sink = RecordingSink(reactor, 120.0)
        await self.runtime.launch(a_launch(prompt, **(usual | changes)), sink)
        await sink.ended()
        return sink

    async def history(self: Any, session_id: str) -> list[NativeRow]:
        """Read all of it."""
        found: list[NativeRow] = []

        def take(rows: Sequence[NativeRow]) -> Deferred[None]:
            found.extend(rows)
            return succeed(None)

        session = NativeSession(self.agent_id, session_id, str(self.project))
        await self.runtime.read_history(session, take)
        return found

    async def test_what_was_said_and_done(self: Any) -> None:
        """Inputs with their pictures, words and calls with their ends, in order; the same each
        time; and the session goes on.
        """
        self.runtime = self.a_runtime()
        call = Call(self.shell, {"command": "echo told", **self.given})
        self.script.push(said("I will. ", call), "first answer", "second answer", "third answer")
        first = await self.whole("the first words", images=[Image(data=DOT)])
        await self.whole("more words", agent_session_id=first.session_id)
        await self.written(first.session_id)
        rows = await self.history(first.session_id)
        self.assertEqual(
            [(type(row).__name__, getattr(row, "content", "")) for row in rows if _is_plain(row)],
            [
                ("UserMessage", "the first words"),
                ("AssistantMessage", rows[1].content),
                ("BashToolUse", ""),
                ("AssistantMessage", "first answer"),
                ("UserMessage", "more words"),
                ("AssistantMessage", "second answer"),
            ],
        )
        self.assertEqual(rows[1].content.strip(), "I will.")
        self.assertEqual(rows[2].command, "echo told")
        self.assertIn("told", str(rows[3].content))
        self.assertFalse(rows[3].is_error)
        self.assertEqual([image.data for image in rows[0].images], [DOT])
        self.assertGreater(min(row.timestamp for row in rows), "2020")
        self.assertEqual(await self.history(first.session_id), rows)
        again = await self.whole("go on", agent_session_id=first.session_id)
        self.assertEqual(again.texts, ["third answer"])

    async def written(self: Any, session_id: str) -> None:
        """Wait until the agent has written down what it said last."""


def _is_plain(row: Any) -> bool:
    return isinstance(row, UserMessage) or not isinstance(row, ToolResult)


class OpencodeHistory(ReadsBack, cases.OpencodeRuntimeCase):
    agent_id, model = "opencode", OPENCODE_MODEL
    shell, given = "bash", {"description": "show"}


class GeminiHistory(ReadsBack, cases.GeminiRuntimeCase):
    agent_id, model = "gemini", GEMINI_MODEL
    shell, given = "run_shell_command", {}


class ClaudeCodeAcpHistory(ReadsBack, cases.ClaudeCodeAcpRuntimeCase):
    agent_id, model = "claude-code-acp", "default"
    shell, given = "Bash", {"description": "show"}

    async def written(self, session_id: str) -> None:
        def holds() -> bool:
            files = (self.project / "home/projects").glob(f"*/{session_id}.jsonl")
            return any("second answer" in file.read_text() for file in files)

        await self.eventually(holds, "the session's file")
