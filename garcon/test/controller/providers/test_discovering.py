"""Which executor asks which address, and when a stored key goes along (control.md B.6)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.contract.providers import Discovered, DiscoverModels, EndpointModel
from garcon.contract.rpc import DISCOVER_MODELS
from garcon.controller.principals import LOCAL_PRINCIPAL
from garcon.controller.providers.store import PROFILES_FILE
from garcon.controller.providers.templates import HOME_PAGE
from garcon.test.controller.providers.cast import (
    KEY,
    OTHER,
    WORKER,
    ProvidersCase,
    endpoint_body,
    profile_body,
)
from garcon.testing.fake_runtime import FakeRuntime

BASE = "https://models.example/v1"


class SilentRuntime(FakeRuntime):
    """An executor that never answers."""

    def discover_models(self, wanted: DiscoverModels) -> Deferred[Discovered]:
        """Go on asking."""
        return Deferred()


class DiscoveryCase(ProvidersCase):
    """One stored profile, and executors that note what they are asked."""

    def setUp(self) -> None:
        super().setUp()
        made = self.asked(operations.CREATE_PROVIDER, profile_body())
        self.profile: str = made["id"]
        self.endpoint: str = made["endpoints"][0]["id"]

    def request(self, **more: Any) -> dict[str, Any]:
        """Return a discovery that is in order."""
        return {"protocol": "openai-compatible", "baseUrl": BASE} | more

    def wanted(self, where: str = "local", **more: Any) -> DiscoverModels:
        """Discover, and return what the executor was asked."""
        body = {k: v for k, v in self.request(**more).items() if v is not None}
        self.asked(operations.DISCOVER_MODELS, body, executorId=where)
        runtime = self.local if where == "local" else self.worker
        return runtime.discoveries[-1]

    def refuse(self, where: str = "local", **more: Any) -> tuple[int, str]:
        """Discover what is refused; no executor hears of it."""
        refusal = self.refused(operations.DISCOVER_MODELS, self.request(**more), executorId=where)
        self.assertEqual((self.local.discoveries, self.worker.discoveries), ([], []))
        return refusal


class DiscoverTests(DiscoveryCase):
    """``POST /api-providers/models``."""

    def test_the_executor_that_is_named_asks(self) -> None:
        """And its answer is the answer."""
        models = [EndpointModel("m", "M")]
        self.worker.discovered = Discovered(success=True, models=models)
        body = self.asked(
            operations.DISCOVER_MODELS, self.request(apiKey="typed"), executorId=WORKER
        )
        self.assertEqual(body, {"success": True, "models": [{"value": "m", "label": "M"}]})
        [wanted] = self.worker.discoveries
        self.assertEqual(self.local.discoveries, [])
        self.assertEqual(
            (wanted.kind, wanted.base_url, wanted.api_key), ("openai-models", BASE, "typed")
        )

    def test_a_failing_endpoint_is_an_answer(self) -> None:
        """Of status 200."""
        self.local.discovered = Discovered(success=False, error="no")
        status, body = self.ask(operations.DISCOVER_MODELS, self.request())
        self.assertEqual((status, body), (200, {"success": False, "error": "no"}))

    def test_kinds(self) -> None:
        """``none`` becomes the protocol's own, as an unknown kind does."""
        for protocol, said, kind in (
            ("openai-compatible", None, "openai-models"),
            ("openai-compatible", "none", "openai-models"),
            ("openai-compatible", "magic", "openai-models"),
            ("openai-compatible", "ollama-tags", "ollama-tags"),
            ("anthropic-messages", None, "anthropic-models"),
            ("anthropic-messages", "none", "anthropic-models"),
            ("anthropic-messages", "ollama-tags", "ollama-tags"),
        ):
            wanted = self.wanted(protocol=protocol, modelDiscovery=said)
            self.assertEqual(wanted.kind, kind)

    def test_bad_requests(self) -> None:
        """Nobody is asked anything."""
        for more in ({"protocol": "x"}, {"baseUrl": "ftp://x"}, {"apiKey": "a\nb"}):
            self.assertEqual(self.refuse(**more), (400, "VALIDATION_FAILED"))
        self.assertEqual(self.refuse("nobody"), (400, "VALIDATION_FAILED"))
        self.assertEqual(self.refuse(OTHER), (404, "EXECUTOR_NOT_FOUND"))
        self.executors.states[WORKER] = "offline"
        self.assertEqual(self.refuse(WORKER), (503, "EXECUTOR_UNAVAILABLE"))

    def test_an_executor_that_does_not_answer(self) -> None:
        """Is waited for a minute."""
        self.executors.runtimes["local"] = SilentRuntime()
        asking = self.handlers.run(operations.DISCOVER_MODELS, LOCAL_PRINCIPAL, body=self.request())
        assert DISCOVER_MODELS.deadline is not None
        self.clock.advance(DISCOVER_MODELS.deadline - 0.1)
        self.assertNoResult(asking)
        self.clock.advance(0.1)
        self.assertIn(b'"success":false', self.successResultOf(asking).body)

    def test_openrouter_is_told_who_asks(self) -> None:
        """By its own headers."""
        wanted = self.wanted(modelDiscovery="openrouter-models")
        self.assertEqual(
            wanted.headers, {"HTTP-Referer": HOME_PAGE, "X-OpenRouter-Title": "Garcon"}
        )
        self.assertEqual(self.wanted().headers, {})


class StoredKeyTests(DiscoveryCase):
    """When the key of a profile goes along."""

    def test_the_endpoint_is_found_by_its_id_first(self) -> None:
        """Then by its profile and the protocol."""
        body = profile_body({"apiKey": "other-key-2"}, label="Other")
        other = self.asked(operations.CREATE_PROVIDER, body)
        by_id = self.wanted(apiProviderId=self.profile, endpointId=other["endpoints"][0]["id"])
        self.assertEqual(by_id.api_key, "other-key-2")
        self.assertEqual(self.wanted(apiProviderId=self.profile, endpointId="gone").api_key, KEY)
        self.assertEqual(self.wanted(apiProviderId=self.profile).api_key, KEY)
        self.assertEqual(self.wanted(endpointId=self.endpoint).api_key, KEY)
        anthropic = self.wanted(apiProviderId=self.profile, protocol="anthropic-messages")
        self.assertIsNone(anthropic.api_key)

    def test_without_a_profile_there_is_no_key(self) -> None:
        """Though there is one for that address."""
        self.assertIsNone(self.wanted().api_key)

    def test_a_typed_key_counts(self) -> None:
        """More than the stored one, at whatever address."""
        wanted = self.wanted(
            apiProviderId=self.profile, apiKey="typed", baseUrl="https://other.example"
        )
        self.assertEqual(wanted.api_key, "typed")

    def test_another_path_of_the_same_origin(self) -> None:
        """Gets it."""
        wanted = self.wanted(apiProviderId=self.profile, baseUrl="https://MODELS.example:443/other")
        self.assertEqual(wanted.api_key, KEY)

    def test_another_origin_never_gets_it(self) -> None:
        """By scheme, host or port: the answer is an error."""
        for base in (
            "http://models.example/v1",
            "https://evil.example/v1",
            "https://models.example:444/v1",
            "https://models.example.evil.example/v1",
        ):
            for more in ({"apiProviderId": self.profile}, {"endpointId": self.endpoint}):
                self.assertEqual(self.refuse(baseUrl=base, **more), (400, "VALIDATION_FAILED"))

    def test_a_profile_without_a_key(self) -> None:
        """Is asked for its models without one, wherever."""
        body = profile_body({"apiKey": ""}, label="Open")
        plain = self.asked(operations.CREATE_PROVIDER, body)
        wanted = self.wanted(apiProviderId=plain["id"], baseUrl="https://other.example")
        self.assertIsNone(wanted.api_key)

    def test_an_unknown_profile(self) -> None:
        """Is none to be guessed."""
        for more in ({"apiProviderId": "unknown"}, {"endpointId": "unknown"}):
            self.assertEqual(self.refuse(**more), (404, "API_PROVIDER_UNAVAILABLE"))

    def test_the_revision_must_match(self) -> None:
        """Also where a key is typed."""
        self.assertEqual(self.wanted(apiProviderId=self.profile, revision=1).api_key, KEY)
        self.local.discoveries.clear()
        for more in ({}, {"apiKey": "typed"}):
            self.assertEqual(
                self.refuse(apiProviderId=self.profile, revision=2, **more),
                (409, "API_PROVIDER_CONFIGURATION_CHANGED"),
            )

    def test_a_worker_gets_only_what_is_assigned_to_it(self) -> None:
        """The controller's own machine has the key anyway."""
        self.assertEqual(
            self.refuse(WORKER, apiProviderId=self.profile), (404, "API_PROVIDER_UNAVAILABLE")
        )
        pair = {"executorId": WORKER, "apiProviderId": self.profile}
        self.asked(operations.ASSIGN_PROVIDER, **pair)
        self.assertEqual(self.wanted(WORKER, apiProviderId=self.profile).api_key, KEY)
        self.asked(operations.UNASSIGN_PROVIDER, executorId="local", apiProviderId=self.profile)
        self.assertEqual(self.wanted(apiProviderId=self.profile).api_key, KEY)

    def test_headers_that_are_stored_go_where_the_key_may_go(self) -> None:
        """Also beside a key that is typed, as one of them may be as secret."""
        file = self.on_disk(PROFILES_FILE)
        file["apiProviders"][0]["endpoints"][0]["headers"] = {"X-Secret": "of-the-profile"}
        file["apiProviders"][0]["templateId"] = "openrouter"
        self.put(PROFILES_FILE, file)
        self.store = self.make_store()
        self.open()
        self.begin_process()
        typed = {"apiProviderId": self.profile, "apiKey": "typed"}
        self.assertEqual(self.wanted(**typed).headers["X-Secret"], "of-the-profile")
        self.assertEqual(self.wanted(**typed, baseUrl="https://other.example").headers, {})
        unassigned = self.wanted(WORKER, **typed)
        self.assertEqual(unassigned.api_key, "typed")
        self.assertNotIn("X-Secret", unassigned.headers)
        self.assertEqual(unassigned.headers["X-OpenRouter-Title"], "Garcon")
        pair = {"executorId": WORKER, "apiProviderId": self.profile}
        self.asked(operations.ASSIGN_PROVIDER, **pair)
        self.assertIn("X-Secret", self.wanted(WORKER, **typed).headers)


class TestTests(DiscoveryCase):
    """``POST /api-providers/test``."""

    def tried(self, where: str = "local", **body: Any) -> DiscoverModels:
        """Try a profile, and return what the executor was asked."""
        self.asked(operations.TEST_PROVIDER, body, executorId=where)
        runtime = self.local if where == "local" else self.worker
        return runtime.discoveries[-1]

    def test_a_profile_that_is_not_saved(self) -> None:
        """Is asked for its models, with what was typed."""
        wanted = self.tried(WORKER, **profile_body({"apiKey": "typed"}))
        self.assertEqual(
            (wanted.kind, wanted.base_url, wanted.api_key), ("openai-models", BASE, "typed")
        )

    def test_a_stored_profile_lends_what_is_not_typed(self) -> None:
        """Address, protocol and key."""
        for more in (
            {"apiProviderId": self.profile},
            {"endpointId": self.endpoint},
            {"endpoint": {"id": self.endpoint}},
            {"apiProviderId": self.profile, "revision": 1, "endpoint": {"apiKey": ""}},
        ):
            wanted = self.tried(**more)
            self.assertEqual((wanted.base_url, wanted.api_key), (BASE, KEY), more)

    def test_a_key_that_is_to_be_cleared_is_not_used(self) -> None:
        """The endpoint is tried as it would be."""
        endpoint = endpoint_body(apiKey="", clearApiKey=True)
        wanted = self.tried(endpoint=endpoint, apiProviderId=self.profile)
        self.assertIsNone(wanted.api_key)

    def test_refusals(self) -> None:
        """As in a discovery."""
        for body, expected in (
            ({}, (400, "VALIDATION_FAILED")),
            ({"apiProviderId": "unknown"}, (404, "API_PROVIDER_UNAVAILABLE")),
            (
                {"apiProviderId": self.profile, "revision": 7},
                (409, "API_PROVIDER_CONFIGURATION_CHANGED"),
            ),
            (
                {
                    "apiProviderId": self.profile,
                    "endpoint": {
                        "protocol": "openai-compatible",
                        "baseUrl": "https://evil.example",
                    },
                },
                (400, "VALIDATION_FAILED"),
            ),
        ):
            self.assertEqual(self.refused(operations.TEST_PROVIDER, body), expected)
        self.assertEqual(self.local.discoveries, [])
