"""One turn of each agent of the Agent Client Protocol, close up: what it says, asks, does, used."""

from __future__ import annotations

from typing import Any

from twisted.internet import reactor

from garcon.contract.messages import BashToolUse
from garcon.contract.runs import UnknownEvent
from garcon.testing.acp_agents import CLAUDE_CODE_ACP, GEMINI, GEMINI_MODEL, OPENCODE
from garcon.testing.acp_agents import OPENCODE_MODEL as OPENCODES
from garcon.testing.agent_runs import RecordingSink, a_launch, a_response
from garcon.testing.local_runtimes import (
    ClaudeCodeAcpRuntimeCase,
    GeminiRuntimeCase,
    OpencodeRuntimeCase,
)
from garcon.testing.models.script import Call, said

COMMAND = "printf ä > made"


class AskedTurn:
    """Mixed into a case that says how its agent is made to run a command."""

    agent_id: str
    model: str
    version: str
    tool: str
    given: dict[str, str]
    counts_tokens = True

    async def test_turn_with_a_command(self: Any) -> None:
        """It asks, and runs the command when it may; its release and its tokens are told, and
        nothing that it says is unknown.
        """
        call = Call(self.tool, {"command": COMMAND, **self.given})
        self.script.push(said("I will. ", call), said("done: ä漢"))
        launch = a_launch(
            "go",
            agent_id=self.agent_id,
            model=self.model,
            project_path=str(self.project),
        )
        runtime = self.a_runtime()
        sink = RecordingSink(reactor, 120.0)
        await runtime.launch(launch, sink)
        asked = await sink.asked()
        self.assertFalse((self.project / "made").exists())
        self.assertEqual(await runtime.respond(a_response(launch.run_id, asked)), "confirmed")
        end = await sink.ended()
        self.assertEqual((end.outcome, end.agent_version), ("finished", self.version))
        self.assertEqual((self.project / "made").read_text(), "ä")
        self.assertEqual([row.command for row in sink.rows(BashToolUse)], [COMMAND])
        self.assertEqual([is_error for _, is_error in sink.results], [False])
        self.assertEqual(sink.texts[-1], "done: ä漢")
        self.assertEqual(sink.of(UnknownEvent), [])
        if self.counts_tokens:
            assert end.usage is not None
            self.assertGreater(end.usage.input_tokens or 0, 0)


class OpencodeTurn(AskedTurn, OpencodeRuntimeCase):
    agent_id, model, version = "opencode", OPENCODES, OPENCODE.version
    tool, given = "bash", {"description": "make a file"}


class GeminiTurn(AskedTurn, GeminiRuntimeCase):
    agent_id, model, version = "gemini", GEMINI_MODEL, GEMINI.version
    tool, given = "run_shell_command", {}


class ClaudeCodeAcpTurn(AskedTurn, ClaudeCodeAcpRuntimeCase):
    agent_id, model, version = "claude-code-acp", "default", CLAUDE_CODE_ACP.version
    tool, given = "Bash", {"description": "make a file"}
    counts_tokens = False
