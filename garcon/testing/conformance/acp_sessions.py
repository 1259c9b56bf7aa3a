"""What `IAgentSession` promises, held against the agents of the Agent Client Protocol, which take
their time (`tox run -e agents`).
"""

from __future__ import annotations

from garcon.test.live import test_agents_contract as contract
from garcon.test.live.test_agents_contract import ASKS, WAITS, SessionContract
from garcon.testing.acp_agents import GEMINI_MODEL, OPENCODE_MODEL
from garcon.testing.local_runtimes import (
    ClaudeCodeAcpRuntimeCase,
    GeminiRuntimeCase,
    OpencodeRuntimeCase,
)
from garcon.testing.models.script import Call, Hold, said


class OpencodeSession(SessionContract, OpencodeRuntimeCase):
    agent_id, model = "opencode", OPENCODE_MODEL

    def prompt_for(self, what: str) -> str:
        self.script.turns.clear()  # as above
        self.script.push(
            {
                "hello": said("hello"),
                ASKS: said(Call("bash", {"command": "touch made", "description": "make"})),
                WAITS: said(Hold("never")),
            }[what]
        )
        return what


class GeminiSession(SessionContract, GeminiRuntimeCase):
    """Another process takes a session up when the minute in which it was begun is over."""

    agent_id, model = "gemini", GEMINI_MODEL

    def prompt_for(self, what: str) -> str:
        self.script.turns.clear()  # as above
        self.script.push(
            {
                "hello": said("hello"),
                ASKS: said(Call("run_shell_command", {"command": "touch made"})),
                WAITS: said(Hold("never")),
            }[what]
        )
        return what


class ClaudeCodeAcpSession(SessionContract, ClaudeCodeAcpRuntimeCase):
    agent_id, model = "claude-code-acp", "default"
    prompt_for = contract.ClaudeSession.prompt_for

    async def written(self, session_id: str) -> None:
        def holds() -> bool:
            files = (self.project / "home/projects").glob(f"*/{session_id}.jsonl")
            return any('"assistant"' in file.read_text() for file in files)

        await self.eventually(holds, "the session's file")
