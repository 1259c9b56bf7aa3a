"""What assigned profiles add to an executor's agents (control.md A.2-A.4)."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, structs
from twisted.internet.defer import Deferred

from garcon.contract.catalogs import AgentEntry, Model
from garcon.contract.providers import Assignments, Capabilities
from garcon.controller.providers.former import FORMER
from garcon.controller.providers.kept import StorageUnavailable
from garcon.controller.providers.offers import Offers, extended
from garcon.controller.providers.profiles import Profile
from garcon.controller.providers.store import ASSIGNMENTS_FILE
from garcon.test.controller.providers.cast import (
    ANTHROPIC,
    CHAT,
    KEY,
    RESPONSES,
    WORKER,
    StoreCase,
    direct_entry,
)
from garcon.test.controller.providers.test_profiles import a_profile


def values(entry: AgentEntry) -> list[str]:
    """Return the models of an entry."""
    return [model.value for model in entry.models]


class ExtendedTests(StoreCase):
    """One agent and some profiles."""

    def test_models_of_endpoints(self) -> None:
        """Are named by their endpoint, and say where they are reached."""
        profile = a_profile({"supportsImages": True})
        entry = extended(CHAT, [profile])
        self.assertEqual(
            entry.models[0],
            Model(
                value="models_00beef_openai:m1",
                label="M 1",
                supports_images=True,
                api_provider_id="models_00beef",
                endpoint_id="models_00beef_openai",
                raw_model="m1",
                protocol="openai-compatible",
            ),
        )
        self.assertEqual(values(entry), ["models_00beef_openai:m1", "models_00beef_openai:m2"])

    def test_by_protocol_and_capability(self) -> None:
        """Chat Completions, Responses and Messages each have their agent."""
        both = a_profile({"capabilities": {"responses": True}})
        chat = a_profile()
        responses = a_profile({"capabilities": {"chatCompletions": False, "responses": True}})
        anthropic = a_profile({"protocol": "anthropic-messages"})
        unsaid = structs.replace(
            chat, endpoints=[structs.replace(chat.endpoints[0], capabilities=UNSET)]
        )
        codex = direct_entry("codex", "openai-compatible")
        claude = direct_entry("claude", "anthropic-messages")
        for profile, agents in (
            (both, [CHAT, RESPONSES, codex]),
            (chat, [CHAT]),
            (unsaid, [CHAT]),
            (responses, [RESPONSES, codex]),
            (anthropic, [ANTHROPIC, claude]),
        ):
            for agent in (CHAT, RESPONSES, ANTHROPIC, codex, claude):
                offered = bool(extended(agent, [profile]).models)
                self.assertEqual(offered, agent in agents, (profile, agent.id))

    def test_only_agents_that_accept_endpoints(self) -> None:
        """Get any, whatever protocols they speak."""
        entry = structs.replace(CHAT, accepts_api_provider_endpoints=False)
        self.assertEqual(values(extended(entry, [a_profile()])), [])

    def test_native_models_come_first(self) -> None:
        """Each value counts once, and an empty one not at all."""
        own = [Model("a", "A"), Model("", "none"), Model("a", "again")]
        entry = structs.replace(CHAT, models=own)
        self.assertEqual(
            values(extended(entry, [a_profile()])),
            ["a", "models_00beef_openai:m1", "models_00beef_openai:m2"],
        )
        self.assertEqual(extended(entry, []).models[0].label, "A")

    def test_the_default_model(self) -> None:
        """Is the agent's own, else the first there is, else empty."""
        self.assertEqual(extended(CHAT, []).default_model, "")
        self.assertEqual(extended(CHAT, [a_profile()]).default_model, "models_00beef_openai:m1")
        own = structs.replace(CHAT, default_model="mine")
        self.assertEqual(extended(own, [a_profile()]).default_model, "mine")

    def test_pictures(self) -> None:
        """A model says for itself, else its endpoint does; never more than the agent takes."""
        rows = [
            {"value": "a", "label": "A", "supportsImages": True, "isLocal": True},
            {"value": "b", "label": "B", "supportsImages": False},
            {"value": "c", "label": "C"},
        ]
        blind = structs.replace(CHAT, supports_images=False)
        for of_endpoint, agent, expected in (
            (False, CHAT, [True, False, False]),
            (True, CHAT, [True, False, True]),
            (True, blind, [False, False, False]),
        ):
            profile = a_profile(
                {"models": rows, "defaultModel": "a", "supportsImages": of_endpoint}
            )
            entry = extended(agent, [profile])
            self.assertEqual([model.supports_images for model in entry.models], expected)
        self.assertEqual([model.is_local for model in entry.models], [True, UNSET, UNSET])


class OffersTests(StoreCase):
    """The profiles that are assigned to an executor."""

    def setUp(self) -> None:
        super().setUp()
        self.open()
        self.offers = Offers(self.store)
        first, second = a_profile(), a_profile({"capabilities": {"responses": True}})
        endpoint = structs.replace(second.endpoints[0], id="second_openai")
        second = structs.replace(second, id="second", endpoints=[endpoint])
        self.keep({first.id: first, "second": second})
        self.assign(local=["second", "models_00beef"], **{WORKER: ["second"]})

    def keep(self, profiles: dict[str, Profile]) -> None:
        """Have these profiles."""
        self.successResultOf(self.store.change_profiles(lambda known: profiles))

    def assign(self, **found: list[str]) -> None:
        """Have these assignments."""
        known = Assignments(1, found)
        self.successResultOf(self.store.change_assignments(lambda before: known))

    def result_of(self, work: Any) -> Any:
        """Return what a coroutine returns at once."""
        return self.successResultOf(Deferred.fromCoroutine(work))

    def test_a_catalog_shows_only_what_is_assigned(self) -> None:
        """In the order in which the profiles were made, without any key."""
        catalog = self.result_of(self.offers.catalog("local", [CHAT, RESPONSES]))
        self.assertEqual([p.id for p in catalog.api_providers], ["models_00beef", "second"])
        self.assertEqual([len(entry.models) for entry in catalog.agents], [4, 2], catalog.agents)
        self.assertNotIn(KEY, repr(catalog))
        catalog = self.result_of(self.offers.catalog(WORKER, [CHAT]))
        self.assertEqual([p.id for p in catalog.api_providers], ["second"])
        self.assertEqual(len(catalog.agents[0].models), 2)
        other = self.result_of(self.offers.catalog("nobody", [CHAT]))
        self.assertEqual((other.api_providers, other.agents[0].models), ([], []))

    def test_an_entry_is_as_in_the_catalog(self) -> None:
        """For its executor."""
        for executor_id in ("local", WORKER):
            for agent in (CHAT, RESPONSES, ANTHROPIC):
                catalog = self.result_of(self.offers.catalog(executor_id, [agent]))
                entry = self.result_of(self.offers.entry(executor_id, agent))
                self.assertEqual([entry], catalog.agents)

    def test_unreadable_assignments(self) -> None:
        """The catalog is there without profiles; who has no other models cannot say any."""
        self.put(ASSIGNMENTS_FILE, b"{")
        self.store = self.make_store()
        self.offers = Offers(self.store)
        own = structs.replace(CHAT, models=[Model("a", "A")], default_model="a")
        catalog = self.result_of(self.offers.catalog("local", [CHAT, own]))
        self.assertEqual(catalog.api_providers, [])
        self.assertEqual([values(entry) for entry in catalog.agents], [[], ["a"]])
        self.assertEqual(self.result_of(self.offers.entry("local", own)).models, own.models)
        plain = structs.replace(CHAT, accepts_api_provider_endpoints=False)
        self.assertEqual(self.result_of(self.offers.entry("local", plain)), plain)
        asking = Deferred.fromCoroutine(self.offers.entry("local", CHAT))
        self.failureResultOf(asking, StorageUnavailable)

    def test_secrets_that_are_none_any_more(self) -> None:
        """So many of them are known, the oldest are forgotten first; one that came back between is
        not the older for that.
        """
        keys = [f"sk-{n:04}" for n in range(FORMER + 1)]
        for key in (keys[1], keys[0], *keys[1:]):
            self.keep({"one": a_profile({"apiKey": key})})
        text = " ".join([KEY, *keys])
        secrets = self.result_of(self.offers.secrets())
        self.assertEqual(secrets.out_of(text), " ".join([KEY] + ["[secret]"] * len(keys)))
        self.keep({})
        secrets = self.result_of(self.offers.secrets())
        self.assertEqual(
            secrets.out_of(text), " ".join([KEY, keys[0]] + ["[secret]"] * (len(keys) - 1))
        )

    def test_capabilities_are_shown(self) -> None:
        """As they are kept."""
        catalog = self.result_of(self.offers.catalog(WORKER, []))
        [endpoint] = catalog.api_providers[0].endpoints
        self.assertEqual(endpoint.capabilities, Capabilities(True, True))
