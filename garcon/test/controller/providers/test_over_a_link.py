"""Credentials and discoveries over whole links, encryption included, with the worker's serving."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, globalLogPublisher

from garcon.contract.providers import (
    Assignments,
    Discovered,
    DiscoverModels,
    EndpointModel,
    ResolvedEndpoint,
)
from garcon.controller.providers.credentials import CredentialService
from garcon.controller.providers.store import ProviderStore
from garcon.errors import GarconError
from garcon.test.controller.bridge.test_over_a_link import OverALink
from garcon.test.controller.providers.cast import KEY
from garcon.test.controller.providers.test_profiles import a_profile
from garcon.testing.inline_threads import InlinePool, InlineReactor
from garcon.worker.serving.credentials import AGAIN, LinkCredentials

PROFILE, ENDPOINT = "models_00beef", "models_00beef_openai"


class LinkedCredentialTests(OverALink):
    """A linked worker's agents, and the controller's profiles."""

    def setUp(self) -> None:
        super().setUp()
        self.events: list[LogEvent] = []
        observer: Any = self.events.append
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        self.store = ProviderStore(
            InlineReactor(), self.workspace, self.workspace, pool=InlinePool()
        )
        self.successResultOf(self.store.open(["local"], is_fresh=True, is_known=False))
        profile = a_profile()
        self.successResultOf(self.store.change_profiles(lambda known: {PROFILE: profile}))
        self.executors.reverse_handlers.update(
            CredentialService(self.store, self.executors).reverse_handlers()
        )
        self.credentials = LinkCredentials(self.clock)
        self.credentials.current = lambda: self.worker.current()

    def tearDown(self) -> None:
        """No log ever shows the key."""
        for event in self.events:
            self.assertNotIn(KEY, repr(event))

    def assign(self, *executor_ids: str) -> None:
        """Assign the profile to just these."""
        known = Assignments(1, {one: [PROFILE] for one in executor_ids})
        self.successResultOf(self.store.change_assignments(lambda before: known))

    def resolve(self) -> Deferred[ResolvedEndpoint]:
        """Ask on the worker."""
        asking = self.credentials.resolve(PROFILE, ENDPOINT)
        self.settle(0.1)
        return asking

    def code(self, d: Deferred[Any]) -> str:
        """Return why it failed."""
        error = self.failureResultOf(d, GarconError).value
        assert isinstance(error, GarconError)
        self.assertNotIn(KEY, error.text)
        return error.code

    def test_an_assigned_profile(self) -> None:
        """Comes across whole; a worker without any grant may ask."""
        self.updated(self.executor_id, allowControllerCli=False)
        self.assign(self.executor_id)
        found = self.successResultOf(self.resolve())
        self.assertEqual(found, self.store.resolve_now(self.executor_id, PROFILE, ENDPOINT))
        self.assertEqual((found.api_key, found.revision), (KEY, 1))

    def test_a_profile_of_others(self) -> None:
        """Does not, and a revoked one no more."""
        self.assign("local")
        self.assertEqual(self.code(self.resolve()), "API_PROVIDER_UNAVAILABLE")
        self.assign(self.executor_id)
        self.successResultOf(self.resolve())
        self.assign()
        self.assertEqual(self.code(self.resolve()), "API_PROVIDER_UNAVAILABLE")

    def test_a_lost_link(self) -> None:
        """Is waited for; the next one gives the answer."""
        self.assign(self.executor_id)
        self.network.cut()
        asking = self.credentials.resolve(PROFILE, ENDPOINT)
        self.assertNoResult(asking)
        self.settle(AGAIN * 2)
        self.settle(10)
        self.assertEqual(self.successResultOf(asking).api_key, KEY)

    def test_a_discovery(self) -> None:
        """Reaches the worker with its key, and its answer comes back."""
        self.runtime.discovered = Discovered(success=True, models=[EndpointModel("m", "M")])
        wanted = DiscoverModels(
            kind="openai-models",
            base_url="https://a.example",
            api_key=KEY,
            headers={"X-Title": "Garcon"},
        )
        discovering = self.executors.runtime(self.executor_id).discover_models(wanted)
        self.settle(0.1)
        self.assertEqual(self.successResultOf(discovering), self.runtime.discovered)
        self.assertEqual(self.runtime.discoveries, [wanted])
