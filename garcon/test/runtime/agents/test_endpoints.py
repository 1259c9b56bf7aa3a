"""Which endpoint a launch wants, and which model of it."""

from __future__ import annotations

from typing import Any

from msgspec import structs
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.providers import ResolvedEndpoint
from garcon.errors import GarconError
from garcon.runtime.agents.endpoints import endpoint_of, model_of
from garcon.test.runtime.agents.direct_shell import FakeCredentials
from garcon.testing.agent_runs import a_launch

ENDPOINT = ResolvedEndpoint(
    protocol="openai-compatible", base_url="https://models.example/v1", revision=1
)
ROUTED: dict[str, Any] = {
    "model": "end:large:v2",
    "api_provider_id": "profile",
    "model_endpoint_id": "end",
    "model_protocol": "openai-compatible",
}


class EndpointTests(SynchronousTestCase):
    def ask(self, credentials: Any, **launch: Any) -> Deferred[ResolvedEndpoint | None]:
        """Ask for a launch's endpoint."""
        return Deferred.fromCoroutine(endpoint_of(a_launch("hi", **launch), credentials))

    def test_an_agents_own_model_has_none(self) -> None:
        """Nobody is asked."""
        self.assertIsNone(self.successResultOf(self.ask(None)))
        self.assertEqual(model_of(a_launch("hi", model="a:b")), "a:b")

    def test_a_profiles_model(self) -> None:
        """It is looked up, and goes by its own name at its endpoint."""
        found = self.successResultOf(self.ask(FakeCredentials(ENDPOINT), **ROUTED))
        self.assertEqual(found, ENDPOINT)
        self.assertEqual(model_of(a_launch("hi", **ROUTED)), "large:v2")

    def test_refusals(self) -> None:
        """Without profiles, and where the endpoint has become another kind."""
        error = self.failureResultOf(self.ask(None, **ROUTED), GarconError).value
        self.assertEqual(error.code, "OPERATION_UNSUPPORTED")
        other = structs.replace(ENDPOINT, protocol="anthropic-messages")
        error = self.failureResultOf(self.ask(FakeCredentials(other), **ROUTED), GarconError).value
        self.assertIn("does not speak", error.text)
