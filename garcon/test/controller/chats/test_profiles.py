"""Chats whose models are reached through profiles: what may be selected, and what keeps a profile
(chats.md 3.4, 3.5; control.md A.2, B.1).
"""

from __future__ import annotations

import os
from typing import Any

from msgspec import structs

from garcon.contract.catalogs import Model
from garcon.contract.providers import Assignments
from garcon.controller.providers.offers import Offers
from garcon.controller.providers.store import ASSIGNMENTS_FILE, ProviderStore
from garcon.local.files import write_private
from garcon.test.controller.chats.cast import WORKER, ChatsTestCase, Said
from garcon.test.controller.providers.cast import ANTHROPIC, CHAT, RESPONSES
from garcon.test.controller.providers.test_profiles import a_profile
from garcon.testing.fake_runtime import agent_entry
from garcon.testing.inline_threads import InlinePool, InlineReactor

PROFILE, ENDPOINT = "models_00beef", "models_00beef_openai"
ROUTING = {
    "apiProviderId": PROFILE,
    "modelEndpointId": ENDPOINT,
    "modelProtocol": "openai-compatible",
}


class ProfilesCase(ChatsTestCase):
    """Direct agents on both executors, and one profile that Local may use."""

    def setUp(self) -> None:
        folder = os.path.realpath(self.mktemp())
        os.makedirs(folder)
        self.folder = folder
        self.reopen()
        self.successResultOf(self.profiles.open(["local"], is_fresh=True, is_known=False))
        profile = a_profile()
        self.successResultOf(self.profiles.change_profiles(lambda known: {PROFILE: profile}))
        self.assign("local")
        super().setUp()

    def reopen(self) -> None:
        """Have the store of another process."""
        self.profiles = ProviderStore(InlineReactor(), self.folder, self.folder, pool=InlinePool())
        self.offers = Offers(self.profiles)

    def open_process(self, instance: str = "instance-1") -> None:
        """Begin with direct agents on either executor."""
        super().open_process(instance)
        for runtime in (self.local, self.worker):
            runtime.agents = [agent_entry(), CHAT, RESPONSES, ANTHROPIC]

    def assign(self, *executor_ids: str) -> None:
        """Let just these use the profile."""
        known = Assignments(1, {one: [PROFILE] for one in executor_ids})
        self.successResultOf(self.profiles.change_assignments(lambda before: known))

    def start_direct(self, agent: str = CHAT.id, **more: Any) -> Said:
        """Start a chat of a direct agent."""
        usual = {
            "agentId": agent,
            "agentSettings": {"ownerId": agent, "schemaVersion": 1, "values": {}},
            "model": f"{ENDPOINT}:m1",
            **ROUTING,
        }
        return self.start(**{k: v for k, v in (usual | more).items() if v != "-"})

    def assert_unfit(self, said: Said) -> None:
        """Assert that a selection was refused, and nothing started."""
        self.assertEqual(said.failure, (422, "VALIDATION_FAILED", False), said.body)
        self.assertEqual((self.local.runs, self.worker.runs), ([], []))


class SelectionTests(ProfilesCase):
    """Which selections a start may make."""

    def test_a_model_of_an_assigned_endpoint(self) -> None:
        """By its value or the endpoint's own name; the launch says where it is reached."""
        for number, model in enumerate((f"{ENDPOINT}:m1", "m2")):
            answer = self.start_direct(model=model, chatId=f"176700000000000{number + 5}")
            self.assertEqual(answer.status, 202, answer.body)
            launch = self.local.last.launch
            self.assertEqual(launch.model, model)
            self.assertEqual(
                (launch.api_provider_id, launch.model_endpoint_id, launch.model_protocol),
                (PROFILE, ENDPOINT, "openai-compatible"),
            )

    def test_the_protocol_need_not_be_said(self) -> None:
        """The endpoint has just one."""
        self.assertEqual(self.start_direct(modelProtocol="-").status, 202)

    def test_unknown_providers_endpoints_and_models(self) -> None:
        """Are not exposed."""
        for more in (
            {"apiProviderId": "unknown"},
            {"modelEndpointId": "unknown"},
            {"model": "unknown"},
            {"model": f"{ENDPOINT}:unknown"},
        ):
            self.assert_unfit(self.start_direct(**more))

    def test_an_incomplete_pair(self) -> None:
        """Says too little."""
        for name in ("apiProviderId", "modelEndpointId"):
            self.assert_unfit(self.start_direct(**{name: "-"}))

    def test_a_protocol_that_the_agent_or_the_endpoint_does_not_speak(self) -> None:
        """Is refused, whoever else speaks it."""
        self.assert_unfit(self.start_direct(modelProtocol="anthropic-messages"))
        both = structs.replace(
            CHAT, supported_protocols=["openai-compatible", "anthropic-messages"]
        )
        self.local.agents = [both]
        self.assert_unfit(self.start_direct(modelProtocol="anthropic-messages"))

    def test_an_endpoint_without_the_agents_interface(self) -> None:
        """Offers it nothing."""
        for agent in (RESPONSES.id, ANTHROPIC.id):
            self.assert_unfit(self.start_direct(agent))

    def test_an_agent_without_models_of_its_own_needs_an_endpoint(self) -> None:
        """A bare name leads nowhere."""
        nowhere = dict.fromkeys(ROUTING, "-")
        for model in ("m1", f"{ENDPOINT}:m1"):
            self.assert_unfit(self.start_direct(model=model, **nowhere))
        own = structs.replace(CHAT, models=[Model("own", "Own")])
        self.local.agents = [own]
        self.clock.advance(61)
        self.assertEqual(self.start_direct(model="own", **nowhere).status, 202)

    def test_only_assigned_executors(self) -> None:
        """A profile of Local is none of a worker's, until it is assigned; then at once."""
        self.assert_unfit(self.start_direct(executorId=WORKER))
        self.assign("local", WORKER)
        self.assertEqual(self.start_direct(executorId=WORKER).status, 202)
        self.worker.last.finish()
        self.assign(WORKER)
        self.local.runs.clear()
        self.worker.runs.clear()
        self.assert_unfit(self.start_direct(chatId="1767000000000009"))

    def test_assignments_that_cannot_be_read(self) -> None:
        """Are no reason to call an endpoint unknown."""
        write_private(os.path.join(self.folder, ASSIGNMENTS_FILE), b"{")
        self.reopen()
        self.restart()
        self.assertEqual(
            self.start_direct().failure, (503, "API_PROVIDER_STORAGE_UNAVAILABLE", True)
        )
        self.assertEqual(self.start().status, 202)


class UseTests(ProfilesCase):
    """Which chats use a profile."""

    def test_chats_that_use_a_profile(self) -> None:
        """As long as they are there, in whatever process."""
        self.assertEqual(self.chats.using_profile(PROFILE), [])
        chat = self.start_direct().body["chatId"]
        self.start(chatId="1767000000000009")
        self.assertEqual(self.chats.using_profile(PROFILE), [chat])
        self.local.runs[0].session("s")
        for run in self.local.runs:
            run.finish()
        self.restart()
        self.assertEqual(self.chats.using_profile(PROFILE), [chat])
        self.assertEqual(self.chats.using_profile("other"), [])


class AgentsTests(ProfilesCase):
    """What is known of agents."""

    def test_a_worker_that_came_back_is_asked_anew(self) -> None:
        """It may be another process, with other agents."""
        self.start(executorId=WORKER)
        self.worker.last.finish()
        asked = self.worker.catalogs
        self.start(executorId=WORKER, chatId="1767000000000009")
        self.assertEqual(self.worker.catalogs, asked)
        self.worker.last.finish()
        self.chats.availability_changed(WORKER)
        self.start(executorId=WORKER, chatId="1767000000000010")
        self.assertEqual(self.worker.catalogs, asked + 1)
