"""API providers over both executors, with real processes and a pretend model server that judges
what it is asked: discovery, assignment, turns, restarts, and where keys are found (control.md B,
security.txt).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from garcon.contract import operations
from garcon.contract.operations import Operation
from garcon.contract.providers import ManagedProviders, WrittenProvider
from garcon.test.live.strict import INVALID, StrictTestCase
from garcon.testing.fleet import Service, eventually
from garcon.testing.strict_client import StrictClient
from garcon.testing.strict_rules import Said

KEY = "sk-live-0123456789-the-key-of-the-test"
OTHER_KEY = "sk-other-9876543210-another-key"
GONE = (404, "API_PROVIDER_UNAVAILABLE", False)
AGENT = "direct-openai-compatible"


class ProvidersCase(StrictTestCase):
    """A pair, and one strict model server; no answer to anybody ever shows a key."""

    def setUp(self) -> None:
        super().setUp()
        self.models = self.serve_models()
        self.base = f"{self.models.url}/v1"
        self.addCleanup(self.judged)

    def judged(self) -> None:
        """Whatever was asked of the server was in order."""
        answer = StrictClient(self.models.url, "").send("GET", "/_script/violations")
        self.assertEqual(answer.json, [])

    def serve_models(self) -> Service:
        """Start a server with Chat Completions that knows one key."""
        argv = [sys.executable, "-m", "garcon.testing.models", "--port", "0"]
        argv += ["--wire", "openai-chat", "--strict", KEY]
        service = self.fleet.start("models", self.fleet.root, argv)
        self.fleet.await_ready(service, re.compile(r'"port": (\d+)'))
        service.url = f"http://127.0.0.1:{service.url}"
        return service

    def answer(
        self,
        operation: Operation,
        body: Any = None,
        client: StrictClient | None = None,
        **query: str,
    ) -> Said:
        """Ask, and look at the answer for keys."""
        said = (client or self.direct).ask(operation, body, query)
        for key in (KEY, OTHER_KEY):
            self.assertNotIn(key.encode(), said.body)
        return said

    def create(self, **more: Any) -> WrittenProvider:
        """Create a profile of that server."""
        endpoint = {
            "protocol": "openai-compatible",
            "baseUrl": self.base,
            "apiKey": KEY,
            "defaultModel": "scripted",
        }
        body = {"label": "Pretend", "endpoint": endpoint | more.pop("endpoint", {})} | more
        created: WrittenProvider = self.direct.asked(operations.CREATE_PROVIDER, body)
        return created

    def assign(self, profile: str, executor_id: str, *, wanted: bool = True) -> ManagedProviders:
        """Let an executor use a profile, or no more."""
        operation = operations.ASSIGN_PROVIDER if wanted else operations.UNASSIGN_PROVIDER
        query = {"executorId": executor_id, "apiProviderId": profile}
        managed: ManagedProviders = self.direct.asked(operation, None, query)
        return managed

    def catalog(self, executor_id: str, client: StrictClient | None = None) -> Any:
        """Return an executor's catalog."""
        said = self.answer(operations.MODELS, None, client, executorId=executor_id)
        self.assertEqual(said.status, 200, str(said))
        return said.json["catalog"]

    def models_of(self, executor_id: str) -> list[str]:
        """Return what the direct agent is offered."""
        [entry] = [one for one in self.catalog(executor_id)["agents"] if one["id"] == AGENT]
        return [model["value"] for model in entry["models"]]

    def selection(self, profile: WrittenProvider) -> dict[str, Any]:
        """Return the members of a start that select the profile's model."""
        endpoint = profile.endpoints[0].id
        return {
            "agentId": AGENT,
            "agentSettings": {"ownerId": AGENT, "schemaVersion": 1, "values": {}},
            "model": f"{endpoint}:scripted",
            "apiProviderId": profile.id,
            "modelEndpointId": endpoint,
            "modelProtocol": "openai-compatible",
        }

    def files_with(self, *keys: str) -> list[str]:
        """Name the files of all processes that hold one of these keys."""
        found = []
        for path in self.fleet.root.rglob("*"):
            if path.is_file() and any(key.encode() in path.read_bytes() for key in keys):
                found.append(str(path.relative_to(self.fleet.root)))
        return sorted(found)

    def assert_no_log_shows(self, *keys: str) -> None:
        """Assert that no service has printed a key."""
        for service in (self.controller, self.worker):
            for key in keys:
                self.assertNotIn(key, service.output.text())


class DiscoveryTests(ProvidersCase):
    """``/api-providers/models`` and ``/api-providers/test``."""

    def discover(self, executor_id: str, **more: Any) -> Any:
        """Ask for the models of the server."""
        body = {"protocol": "openai-compatible", "baseUrl": self.base} | more
        said = self.answer(operations.DISCOVER_MODELS, body, executorId=executor_id)
        return said.json

    def test_both_executors_ask(self) -> None:
        """With a typed key the models come, with another one the status, and neither shows."""
        for executor_id in ("local", self.executor_id):
            found = self.discover(executor_id, apiKey=KEY)
            self.assertEqual(
                found, {"success": True, "models": [{"value": "scripted", "label": "scripted"}]}
            )
            nothing = self.discover(executor_id, apiKey=KEY, baseUrl="http://127.0.0.1:1/v1")
            self.assertFalse(nothing["success"])
            self.assertIn("Nothing answers", nothing["error"])
        self.assert_no_log_shows(KEY)

    def test_a_stored_key(self) -> None:
        """Goes to its own origin, and to a worker only while that may use it."""
        profile = self.create()
        ask = operations.DISCOVER_MODELS
        here = {"protocol": "openai-compatible", "baseUrl": self.base, "apiProviderId": profile.id}
        on_worker = {"executorId": self.executor_id}
        self.assertTrue(self.discover("local", apiProviderId=profile.id)["success"])
        self.assertEqual(self.direct.refused(ask, here, on_worker), GONE)
        self.assign(profile.id, self.executor_id)
        self.assertTrue(self.discover(self.executor_id, apiProviderId=profile.id)["success"])
        elsewhere = here | {"baseUrl": "http://127.0.0.1:1/v1"}
        for query in ({}, on_worker):
            self.assertEqual(self.direct.refused(ask, elsewhere, query), INVALID)
        self.assign(profile.id, self.executor_id, wanted=False)
        self.assertEqual(self.direct.refused(ask, here, on_worker), GONE)
        tested = {"apiProviderId": profile.id, "endpoint": {"apiKey": ""}}
        self.assertTrue(self.answer(operations.TEST_PROVIDER, tested).json["success"])
        self.assert_no_log_shows(KEY)


class LifeTests(ProvidersCase):
    """One profile from its making to its end."""

    def test_from_creation_to_deletion(self) -> None:
        """Each answer in the contract's shape, through a restart of the controller."""
        profile = self.create()
        self.assertRegex(profile.id, r"^pretend_[0-9a-f]{6}$")
        self.assertEqual(profile.endpoints[0].id, f"{profile.id}_openai")
        self.assertEqual(profile.endpoints[0].api_key_label, "sk-l...test")
        body = {"label": "Renamed", "revision": 1, "executorIds": ["local", self.executor_id]}
        changed = self.direct.asked(operations.UPDATE_PROVIDER, body, {"id": profile.id})
        self.assertEqual((changed.label, changed.revision), ("Renamed", 2))
        self.assertEqual(
            self.direct.refused(operations.UPDATE_PROVIDER, body, {"id": profile.id}),
            (409, "API_PROVIDER_CONFIGURATION_CHANGED", False),
        )
        before: ManagedProviders = self.direct.asked(operations.LIST_PROVIDERS)
        self.assertEqual(
            before.assignments.assignments, {"local": [profile.id], self.executor_id: [profile.id]}
        )
        self.restart()
        self.assertEqual(self.direct.asked(operations.LIST_ASSIGNMENTS), before)
        query = {"id": profile.id}
        self.assertEqual(self.direct.refused(operations.DELETE_PROVIDER, None, query), INVALID)
        query["acknowledgeSharedImpact"] = "true"
        for _ in range(2):
            self.direct.asked(operations.DELETE_PROVIDER, None, query)
        after: ManagedProviders = self.direct.asked(operations.LIST_PROVIDERS)
        self.assertEqual((after.providers, after.assignments.assignments), ([], {}))
        self.assertEqual(self.files_with(KEY), [])

    def restart(self) -> None:
        """Kill the controller, and start it anew on the same folders."""
        port = self.controller.port
        self.controller.kill()
        self.controller = self.fleet.controller(port=port)
        own = self.controller.descriptor()
        self.direct = StrictClient(own["baseUrl"], own["localCapability"])
        self.fleet.await_executor(self.controller, self.executor_id)

    def test_a_deleted_executor_is_pruned(self) -> None:
        """From the answers and from the file."""
        profile = self.create(executorIds=["local", self.executor_id])
        path = next(self.fleet.root.rglob("api-provider-assignments.json"))
        self.assertIn(self.executor_id, path.read_text())
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.fleet.garcon(self.controller, "executor", "delete", self.executor_id)
        eventually("the pruning", lambda: self.executor_id not in path.read_text())
        self.assertEqual(json.loads(path.read_text())["assignments"], {"local": [profile.id]})
        self.assertEqual(
            self.direct.refused(
                operations.ASSIGN_PROVIDER,
                None,
                {"executorId": self.executor_id, "apiProviderId": profile.id},
            ),
            (404, "EXECUTOR_NOT_FOUND", False),
        )


class CatalogTests(ProvidersCase):
    """What the catalogs show of it."""

    def test_the_catalog_follows_the_assignments(self) -> None:
        """Of each executor for itself, at once; an unchanged one is not sent again."""
        self.assertEqual(self.models_of("local"), [])
        profile = self.create()
        value = f"{profile.endpoints[0].id}:scripted"
        self.assertEqual(self.models_of("local"), [value])
        self.assertEqual(self.models_of(self.executor_id), [])
        self.assertEqual(self.catalog(self.executor_id)["apiProviders"], [])
        self.assign(profile.id, self.executor_id)
        self.assertEqual(self.models_of(self.executor_id), [value])
        for client in (self.direct, self.gateway):
            catalog = self.catalog(self.executor_id, client)
            self.assertEqual([one["id"] for one in catalog["apiProviders"]], [profile.id])
        said = self.answer(operations.MODELS)
        again = self.direct.send(
            "GET", operations.MODELS.route.path, headers={"If-None-Match": said.headers["etag"]}
        )
        self.assertEqual((again.status, again.body), (304, b""))
        for name in ("etag", "cache-control"):
            self.assertEqual(again.headers[name], said.headers[name])
        self.assign(profile.id, "local", wanted=False)
        changed = self.direct.send(
            "GET", operations.MODELS.route.path, headers={"If-None-Match": said.headers["etag"]}
        )
        self.assertEqual(changed.status, 200)
        agents = self.answer(operations.AGENTS, executorId=self.executor_id).json
        self.assertEqual(agents, self.catalog(self.executor_id))
        ready = self.answer(operations.AGENT_READINESS, executorId=self.executor_id).json
        self.assertEqual(ready[AGENT], {"ready": True})
        ready = self.answer(operations.AGENT_READINESS).json
        self.assertEqual(ready[AGENT], {"ready": False})
        auth = self.answer(operations.AGENT_AUTH, agent="scripted", executorId=self.executor_id)
        self.assertEqual(list(auth.json), ["scripted"])

    def test_the_command_lists_what_is_assigned(self) -> None:
        """On the worker what the worker may use."""
        profile = self.create(executorIds=[self.executor_id])
        listed = self.fleet.garcon(self.worker, "list", "providers", "--json").json
        self.assertEqual([one["id"] for one in listed["providers"]], [profile.id])
        listed = self.fleet.garcon(self.controller, "list", "providers", "--json").json
        self.assertEqual(listed["providers"], [])


class GatewayTests(ProvidersCase):
    """Assignments through a worker's gateway."""

    def test_they_need_the_management_grant(self) -> None:
        """Profiles themselves are never reached from there."""
        profile = self.create()
        query = {"executorId": self.executor_id, "apiProviderId": profile.id}
        denied = (403, "CLI_ACCESS_DENIED", False)
        self.assertEqual(self.gateway.refused(operations.LIST_ASSIGNMENTS), denied)
        self.assertEqual(self.gateway.refused(operations.ASSIGN_PROVIDER, None, query), denied)
        grant = ("--allow-executor-management", "true")
        self.fleet.garcon(self.controller, "executor", "update", self.executor_id, *grant)
        managed = self.gateway.asked(operations.ASSIGN_PROVIDER, None, query)
        self.assertEqual(managed.assignments.assignments[self.executor_id], [profile.id])
        self.assertEqual(self.gateway.asked(operations.LIST_ASSIGNMENTS), managed)
        after = self.gateway.asked(operations.UNASSIGN_PROVIDER, None, query)
        self.assertEqual(after.assignments.assignments, {"local": [profile.id]})
        for operation in (operations.LIST_PROVIDERS, operations.DISCOVER_MODELS):
            self.assertEqual(self.gateway.refused(operation), denied)


class TurnTests(ProvidersCase):
    """Direct agents with the key of a profile."""

    def test_turns_on_both_executors(self) -> None:
        """The server judges each request; the key lies in one file of the controller's only."""
        profile = self.create(executorIds=["local", self.executor_id])
        chats = []
        for client, executor_id in self.everywhere():
            chat, _, receipt = self.begun(client, executor_id, "hello", **self.selection(profile))
            self.assertEqual(receipt.state, "completed", receipt)
            chats.append(chat)
        self.assertEqual(self.files_with(KEY), ["controller/api-providers.json"])
        self.assert_no_log_shows(KEY)
        query = {"id": profile.id, "acknowledgeSharedImpact": "true"}
        self.assertEqual(self.direct.refused(operations.DELETE_PROVIDER, None, query), INVALID)
        path = Path(self.controller.config) / "api-providers.json"
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)

    def test_a_revoked_assignment(self) -> None:
        """The next turn of a chat that had it fails; whoever keeps it goes on."""
        profile = self.create(executorIds=["local", self.executor_id])
        chat, view, _ = self.begun(
            self.direct, self.executor_id, "hello", **self.selection(profile)
        )
        self.assign(profile.id, self.executor_id, wanted=False)
        accepted = self.direct.run(self.direct.run_body(view, chat, "again"))
        receipt = self.direct.settled(chat, accepted.turn_id)
        self.assertEqual(receipt.state, "failed", receipt)
        self.assertIn("assigned", str(receipt.error))
        _, _, receipt = self.begun(self.direct, "local", "hello", **self.selection(profile))
        self.assertEqual(receipt.state, "completed")
        refused = self.direct.start_body(
            self.executor_id, self.project, "hello", **self.selection(profile)
        )
        self.assertEqual(
            self.direct.refused(operations.START_CHAT, refused),
            (422, "VALIDATION_FAILED", False),
        )
