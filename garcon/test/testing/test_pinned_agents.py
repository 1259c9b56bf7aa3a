"""Installing all pinned agents."""

from __future__ import annotations

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.npm_agents import NotInstalled
from garcon.testing.pinned_agents import AGENTS, missing


@frozen
class Pretended:
    title: str
    why: str = ""

    def install(self) -> str:
        if self.why:
            raise NotInstalled(self.why)
        return f"/{self.title}"


class Missing(SynchronousTestCase):
    def test_each_that_is_missing_is_told(self) -> None:
        """The others are installed all the same."""
        self.assertEqual(
            missing([Pretended("a"), Pretended("b", "no npm"), Pretended("c")]), ["b: no npm"]
        )
        self.assertEqual(missing([Pretended("a")]), [])

    def test_every_agent_of_the_tests(self) -> None:
        """Is there once."""
        titles = [agent.title for agent in AGENTS]
        self.assertEqual(len(titles), len(set(titles)))
        self.assertLess({"Claude Code", "Codex", "Pi"}, set(titles))
