"""The agents that Garcon ships, as one catalog (control.md A.2, A.6)."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from garcon.contract.agents import AgentAuth
from garcon.contract.providers import ResolvedEndpoint
from garcon.runtime.installed import InstalledAgents
from garcon.runtime.interfaces import ICredentials
from garcon.runtime.shipped import agents_for
from garcon.test.runtime.test_executor import HandAgent


@implementer(ICredentials, IAgentEndpointFactory)
class Nothing:
    """Neither credentials nor endpoints: nothing is asked of either."""

    def resolve(self, profile_id: str, endpoint_id: str) -> Any:
        raise AssertionError(ResolvedEndpoint)

    def endpointForURI(self, uri: Any) -> Any:
        raise AssertionError(uri)


class ShippedTests(SynchronousTestCase):
    """Every agent there can be."""

    def test_generation_priorities_are_unique(self) -> None:
        """Two agents with the same one could not be told apart."""
        agents = agents_for(
            Clock(),
            {"PATH": "/bin:/usr/bin", "CLAUDE_BINARY": "/bin/sh"},
            "/",
            True,
            credentials=Nothing(),
            endpoints=Nothing(),
        )
        entries = [self.successResultOf(agent.entry({})) for agent in agents]
        found = [
            entry.generation.priority
            for entry in entries
            if entry is not None and entry.generation is not None
        ]
        self.assertEqual(sorted(found), [10, 20, 40, 50])


class InstalledTests(SynchronousTestCase):
    """Agents that are there, and one that is not."""

    def setUp(self) -> None:
        self.here, self.gone = HandAgent(), HandAgent(id="gone", installed=False)
        self.agents = InstalledAgents([self.here, self.gone])

    def test_what_is_not_installed_is_known_but_not_offered(self) -> None:
        """It can be neither listed nor asked for its account."""
        self.assertIn("gone", self.agents)
        [entry] = self.successResultOf(self.agents.entries(None, {}))
        self.assertEqual(entry.id, "hand")
        error = self.failureResultOf(self.agents.entries("gone", {}))
        self.assertEqual(error.value.code, "UNSUPPORTED_AGENT")
        self.assertIn("hand", str(error.value))
        self.assertIn("its program was not found", str(error.value))
        self.assertEqual(
            self.successResultOf(self.agents.auth(None, {})), {"hand": AgentAuth(True)}
        )

    def test_an_unknown_agent(self) -> None:
        """Is named, with those there are."""
        self.assertNotIn("nobody", self.agents)
        error = self.failureResultOf(self.agents.entries("nobody", {}))
        self.assertIn("gone, hand", str(error.value))
