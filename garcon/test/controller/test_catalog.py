"""``GET /models``: snapshots, tags, failures."""

from __future__ import annotations

import json
from typing import Any

from attrs import define, field
from msgspec import structs
from twisted.internet.defer import Deferred, fail, succeed

from garcon.contract import operations
from garcon.contract.agents import Catalog
from garcon.contract.catalogs import AgentEntry, AgentSettings, Model
from garcon.contract.providers import Assignments
from garcon.controller.catalog import SNAPSHOT_AGE, Catalogs, encode
from garcon.controller.handlers import Answer, Handlers
from garcon.controller.principals import LOCAL_PRINCIPAL
from garcon.controller.providers.offers import Offers
from garcon.errors import GarconError
from garcon.test.controller.providers.cast import CHAT, KEY, StoreCase
from garcon.test.controller.providers.test_profiles import a_profile

REMOTE = "5f9a2f4e-0000-4000-8000-000000000001"


def agent(name: str, *models: str) -> AgentEntry:
    """Return an entry."""
    return AgentEntry(
        id=name,
        label=name.title(),
        supported_permission_modes=["default"],
        supported_thinking_modes=["none"],
        default_settings=AgentSettings(name, 1, {}),
        default_model=models[0],
        models=[Model(model, model) for model in models],
    )


@define(eq=False)
class _Runtime:
    """An executor that has two agents, and counts how often it is asked."""

    asked: int = 0
    trouble: GarconError | None = None
    waiting: Deferred[tuple[AgentEntry, ...]] | None = None
    entries: tuple[AgentEntry, ...] = field(
        factory=lambda: (agent("claude", "b", "a"), agent("acp", "m"))
    )

    def catalog(self, agent_id: str | None) -> Deferred[tuple[AgentEntry, ...]]:
        """List."""
        self.asked += 1
        if self.waiting is not None:
            return self.waiting
        if self.trouble is not None and agent_id is not None:
            return fail(self.trouble)
        if agent_id is None:
            return succeed(self.entries)
        found = tuple(entry for entry in self.entries if entry.id == agent_id)
        return succeed(found) if found else fail(GarconError("UNSUPPORTED_AGENT", "no"))


@define(eq=False)
class _Executors:
    """Local only."""

    local: _Runtime
    state: str = "ready"

    def availability(self, executor_id: str) -> str:
        """Say."""
        return self.state if executor_id == "local" else "offline"

    def existing(self, executor_id: str) -> Any:
        """Find in any state."""
        return self.local

    def runtime(self, executor_id: str) -> Any:
        """Find."""
        if executor_id != "local":
            raise GarconError("EXECUTOR_NOT_FOUND", "unknown", status=404)
        if self.state != "ready":
            raise GarconError("EXECUTOR_UNAVAILABLE", "not ready", status=503)
        return self.local


class CatalogTests(StoreCase):
    """One executor's catalog."""

    def setUp(self) -> None:
        super().setUp()
        self.open("local")
        self.runtime = _Runtime()
        self.executors = _Executors(self.runtime)
        executors: Any = self.executors
        self.catalogs = Catalogs(executors, self.clock, Offers(self.store))
        self.handlers = Handlers()
        self.catalogs.register(self.handlers)

    def ask(self, *query: tuple[str, str]) -> Deferred[Answer]:
        """Ask."""
        return self.handlers.run(operations.MODELS, LOCAL_PRINCIPAL, query=query)

    def answer(self, *query: tuple[str, str]) -> Answer:
        """Ask and return the answer."""
        return self.successResultOf(self.ask(*query))

    def test_the_whole_catalog(self) -> None:
        """With its tag and caching rule."""
        answer = self.answer()
        catalog = json.loads(answer.body)["catalog"]
        self.assertEqual([entry["id"] for entry in catalog["agents"]], ["claude", "acp"])
        self.assertEqual(catalog["apiProviders"], [])
        self.assertEqual(answer.headers["Cache-Control"], "private, no-cache")
        self.assertRegex(answer.headers["ETag"], r'^W/"model-catalog:[A-Za-z0-9_-]{43}"$')

    def test_a_snapshot_is_kept_for_a_minute(self) -> None:
        """Then the executor is asked again."""
        self.answer()
        self.clock.advance(SNAPSHOT_AGE - 1)
        self.answer(("executorId", "local"))
        self.assertEqual(self.runtime.asked, 1)
        self.clock.advance(1)
        self.answer()
        self.assertEqual(self.runtime.asked, 2)

    def test_concurrent_requests_share_one_look(self) -> None:
        """Each gets its answer, also when another gives up."""
        self.runtime.waiting = Deferred()
        first, second, third = self.ask(), self.ask(), self.ask()
        first.cancel()
        self.failureResultOf(first)
        self.runtime.waiting.callback(self.runtime.entries)
        self.assertEqual(self.successResultOf(second), self.successResultOf(third))
        self.assertEqual(self.runtime.asked, 1)

    def test_a_failed_look_is_not_kept(self) -> None:
        """Everyone who waited hears of it, and the next request tries again."""
        self.runtime.waiting = Deferred()
        first, second = self.ask(), self.ask()
        self.runtime.waiting.errback(GarconError("EXECUTOR_UNAVAILABLE", "down", status=503))
        for d in (first, second):
            self.assertEqual(self.successResultOf(d).status, 503)
        self.runtime.waiting = None
        self.assertEqual(self.answer().status, 200)

    def test_an_invalidated_look_is_not_kept(self) -> None:
        """What was asked for before the change must not answer for after it."""
        waiting = self.runtime.waiting = Deferred()
        first = self.ask()
        self.catalogs.invalidate("local")
        self.runtime.waiting = None
        waiting.callback(self.runtime.entries)
        self.assertEqual(self.successResultOf(first).status, 200)
        self.answer()
        self.assertEqual(self.runtime.asked, 2)
        self.catalogs.invalidate("local")
        self.answer()
        self.assertEqual(self.runtime.asked, 3)

    def test_one_agent_bypasses_the_snapshot(self) -> None:
        """And comes alone, without a tag."""
        self.answer()
        answer = self.answer(("agent", "acp"))
        self.assertEqual([a["id"] for a in json.loads(answer.body)["catalog"]["agents"]], ["acp"])
        self.assertNotIn("ETag", answer.headers)
        self.assertEqual(self.runtime.asked, 2)

    def test_an_unknown_agent(self) -> None:
        """Is named, with those there are."""
        answer = self.answer(("agent", "nobody"))
        self.assertEqual(answer.status, 400)
        error = json.loads(answer.body)["error"]
        for word in ("nobody", "acp, claude"):
            self.assertIn(word, error)

    def test_executors(self) -> None:
        """A malformed id is 400; an unknown one never falls back to Local."""
        self.assertEqual(self.answer(("executorId", "other")).status, 400)
        self.assertEqual(self.answer(("executorId", "")).status, 400)
        self.assertEqual(self.answer(("executorId", REMOTE)).status, 404)
        self.assertEqual(self.runtime.asked, 0)

    def test_a_lost_link_that_may_come_back(self) -> None:
        """The call waits for it; an executor that is gone for good has no catalog."""
        self.executors.state = "reconnecting"
        self.runtime.waiting = Deferred()
        waiting = self.ask()
        self.assertNoResult(waiting)
        self.runtime.waiting.callback(self.runtime.entries)
        self.assertEqual(self.successResultOf(waiting).status, 200)
        self.executors.state = "offline"
        self.assertEqual(self.answer().status, 503)

    def test_the_tag_does_not_depend_on_order(self) -> None:
        """Only on what the catalog says."""
        one = encode(Catalog([agent("a", "x", "y"), agent("b", "z")]))[1]
        same = agent("a", "x", "y")
        turned = encode(
            Catalog(
                [
                    agent("b", "z"),
                    AgentEntry(
                        id=same.id,
                        label=same.label,
                        supported_permission_modes=same.supported_permission_modes,
                        supported_thinking_modes=same.supported_thinking_modes,
                        default_settings=same.default_settings,
                        default_model=same.default_model,
                        models=list(reversed(same.models)),
                    ),
                ]
            )
        )[1]
        self.assertEqual(one, turned)
        self.assertNotEqual(one, encode(Catalog([agent("a", "x"), agent("b", "z")]))[1])

    # Profiles

    def assign(self, *executor_ids: str) -> None:
        """Let executors use one profile."""
        profile = a_profile()
        known = Assignments(1, {one: [profile.id] for one in executor_ids})
        self.successResultOf(self.store.change_profiles(lambda before: {profile.id: profile}))
        self.successResultOf(self.store.change_assignments(lambda before: known))

    def test_profiles_of_the_executor(self) -> None:
        """Are listed, and their models offered; one agent alone shows the full list too."""
        self.runtime.entries = (agent("claude", "a"), CHAT)
        self.assign("local")
        for query in ((), (("agent", CHAT.id),)):
            catalog = json.loads(self.answer(*query).body)["catalog"]
            self.assertEqual([one["id"] for one in catalog["apiProviders"]], ["models_00beef"])
            direct = catalog["agents"][-1]
            self.assertEqual(
                [model["value"] for model in direct["models"]],
                ["models_00beef_openai:m1", "models_00beef_openai:m2"],
            )
        self.assertNotIn(KEY, str(catalog))
        self.assign(REMOTE)
        self.catalogs.invalidate_all()
        catalog = json.loads(self.answer().body)["catalog"]
        self.assertEqual(catalog["apiProviders"], [])
        self.assertEqual(catalog["agents"][-1]["models"], [])

    def test_every_write_clears_the_catalogs(self) -> None:
        """Of profiles and of assignments; the tag changes with what is offered."""
        self.store.changed = self.catalogs.invalidate_all
        tags = [self.answer().headers["ETag"]]
        self.assign("local")
        tags.append(self.answer().headers["ETag"])
        self.assertNotEqual(*tags)
        asked = self.runtime.asked
        self.answer()
        self.assertEqual(self.runtime.asked, asked)
        self.successResultOf(self.store.change_profiles(lambda known: {}))
        self.assertEqual(self.answer().headers["ETag"], tags[0])

    def test_a_write_during_a_look(self) -> None:
        """What the look has found is not kept."""
        self.store.changed = self.catalogs.invalidate_all
        waiting = self.runtime.waiting = Deferred()
        first = self.ask()
        self.assign("local")
        self.runtime.waiting = None
        waiting.callback(self.runtime.entries)
        self.successResultOf(first)
        self.answer()
        self.assertEqual(self.runtime.asked, 2)

    # Models that have to be looked up

    def strictly(self, *models: str) -> None:
        """Have one such agent, with these models."""
        entry = agent("pi", *(models or ("none",)))
        self.runtime.entries = (
            structs.replace(
                entry,
                requires_strict_model_discovery=True,
                models=entry.models if models else [],
            ),
        )

    def fail_discovery(self) -> Any:
        """Ask for the agent whose models cannot be looked up."""
        self.runtime.trouble = GarconError("MODEL_DISCOVERY_FAILED", "the tool hangs", status=503)
        answer = self.answer(("agent", "pi"))
        self.assertEqual(answer.status, 503)
        body = json.loads(answer.body)
        self.assertIn("pi", body["error"])
        self.assertEqual(body["reason"], "the tool hangs")
        self.assertTrue(body["retryable"])
        return body

    def test_a_failed_discovery_without_known_models(self) -> None:
        """Says why, and has no catalog."""
        self.strictly()
        self.answer(("agent", "pi"))
        self.assertNotIn("catalog", self.fail_discovery())

    def test_a_failed_discovery_with_known_models(self) -> None:
        """Shows that one agent with the models it had, by whichever look they were found."""
        for query in ((), (("agent", "pi"),)):
            self.runtime.trouble = None
            self.strictly("m2", "m1")
            self.catalogs.forget("local")
            self.answer(*query)
            catalog = self.fail_discovery()["catalog"]
            self.assertEqual(set(catalog), {"agents", "apiProviders"})
            [entry] = catalog["agents"]
            self.assertEqual([m["value"] for m in entry["models"]], ["m2", "m1"])
            self.assertEqual((entry["id"], entry["defaultModel"]), ("pi", "m2"))

    def test_a_default_model_that_is_not_among_the_stale_ones(self) -> None:
        """Falls back to the first of them."""
        self.strictly("m1", "m2")
        [entry] = self.runtime.entries
        self.runtime.entries = (structs.replace(entry, default_model="gone"),)
        self.answer()
        [entry] = self.fail_discovery()["catalog"]["agents"]
        self.assertEqual(entry["defaultModel"], "m1")

    def test_a_removed_executor_is_forgotten(self) -> None:
        """What its agents had too."""
        self.strictly("m1")
        self.answer()
        self.catalogs.forget("local")
        self.assertNotIn("catalog", self.fail_discovery())

    def test_stopping_ends_a_look(self) -> None:
        """And whoever waited for it."""
        self.runtime.waiting = Deferred()
        waiting = self.ask()
        self.successResultOf(self.catalogs.tasks.stopService())
        self.failureResultOf(waiting)
