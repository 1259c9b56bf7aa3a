"""What agents' own tools can do with the command on a worker: each agent with a tool that may use
the machine's loopback network finds the gateway by what it inherits.

With the table, not with the tests: those show it of Claude Code, Codex and Pi in turns of their
own, and what Codex's sandbox keeps back.
"""

from __future__ import annotations

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from garcon.testing.conformance.casts import CASTS, Cast, Plan, Run
from garcon.testing.conformance.scenarios import BYPASS
from garcon.testing.conformance.stage import Stage
from garcon.testing.npm_agents import NotInstalled

ASK = "garcon list agents --json > {name} 2>&1; echo status $? >> {name}"
WHERE = 'echo "$GARCON_RUNTIME $GARCON_CONFIG_DIR" > where'


class Tools(SynchronousTestCase):
    """One agent on a worker, and a command that it runs."""

    def stage(self, agent_id: str) -> Stage:
        stage = Stage(cast_of(agent_id), "worker")
        self.addCleanup(stage.close)
        try:
            stage.open()
        except NotInstalled as error:
            raise SkipTest(f"{agent_id} cannot be had here: {error}") from None
        return stage

    def reaches(self, agent_id: str) -> None:
        """A command that this agent runs asks the gateway of its own machine."""
        stage = self.stage(agent_id)
        plan: Plan = [[Run(f"{WHERE}; {ASK.format(name='asked')}")], ["done"]]
        chat, turn = stage.start(stage.prompt(plan), *BYPASS)
        done = stage.wait(chat, turn)
        self.assertEqual(done.status, 0, done)
        where = (stage.project / "where").read_text()
        self.assertEqual(where, f"executor {stage.service.config}\n")
        said = (stage.project / "asked").read_text()
        self.assertTrue(said.endswith("status 0\n"), said)
        self.assertIn(f'"{agent_id}"', said)

    def test_scripted(self) -> None:
        """The scripted agent's."""
        self.reaches("scripted")

    def test_claude(self) -> None:
        """Claude Code's."""
        self.reaches("claude")

    def test_codex(self) -> None:
        """Codex's, which was let out of its sandbox."""
        self.reaches("codex")

    def test_pi(self) -> None:
        """Pi's."""
        self.reaches("pi")

    def test_opencode(self) -> None:
        """OpenCode's."""
        self.reaches("opencode")

    def test_gemini(self) -> None:
        """Gemini CLI's."""
        self.reaches("gemini")

    def test_claude_code_acp(self) -> None:
        """That of Claude Code's adapter."""
        self.reaches("claude-code-acp")


def cast_of(agent_id: str) -> Cast:
    """Return an agent of the table."""
    return next(cast for cast in CASTS if cast.agent_id == agent_id)
