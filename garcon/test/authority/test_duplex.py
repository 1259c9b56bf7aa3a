"""Requests that come back to the worker they came from, while that worker asks as well: nothing
waits for anything but what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from garcon.contract import limits, operations, rpc
from garcon.contract.catalogs import AgentEntry
from garcon.contract.providers import ResolveCredential, ResolvedEndpoint
from garcon.contract.runs import PermissionResponse
from garcon.deferreds import returns_deferred
from garcon.link.interfaces import CallContext
from garcon.test.authority.cast import WholeBridge
from garcon.test.controller.executors.test_remote import launch
from garcon.testing.fake_runtime import FakeRuntime
from garcon.worker.serving.credentials import LinkCredentials

ENDPOINT = ResolvedEndpoint(
    protocol="openai-compatible",
    base_url="https://models.example/v1",
    api_key="key",
    revision=1,
)


@define(eq=False)
class Asking(FakeRuntime):
    """An executor whose catalog needs a credential of the controller's."""

    credentials: Callable[[], LinkCredentials] | None = None
    resolved: list[ResolvedEndpoint] = field(factory=list)

    def catalog(self, agent_id: str | None) -> Deferred[tuple[AgentEntry, ...]]:
        assert self.credentials is not None
        asking = self.credentials().resolve("models", "models_openai")
        asking.addCallback(self.resolved.append)
        return asking.addCallback(lambda _: tuple(self.agents))


class DuplexTests(WholeBridge):
    """A catalog through the gateway: to the controller, back to the worker, and once more."""

    runtime: Asking

    def make_runtime(self) -> Asking:
        return Asking(credentials=lambda: self.credentials)

    def setUp(self) -> None:
        super().setUp()
        self.credentials = LinkCredentials(self.clock)
        self.credentials.current = lambda: self.worker.current()
        self.secrets: list[Deferred[ResolvedEndpoint]] = []
        self.executors.reverse_handlers[rpc.RESOLVE_CREDENTIAL.name] = self.resolve
        self.handlers.register(operations.MODELS, self.models)
        self.stopping = self.hold(operations.STOP_CHAT)
        self.receipts = self.hold(operations.TURN_RECEIPT)

    def resolve(self, request: ResolveCredential, context: CallContext) -> Deferred[Any]:
        self.assertEqual(context.peer.executor_id, self.executor_id)
        self.secrets.append(Deferred())
        return self.secrets[-1]

    @returns_deferred
    async def models(self, call: Any) -> dict[str, list[str]]:
        entries = await self.executors.runtime(call.query.executor_id).catalog("scripted")
        return {"agents": [entry.id for entry in entries]}

    def models_through_the_gateway(self) -> Any:
        return self.http("GET", f"/models?executorId={self.executor_id}&agent=scripted")

    def test_a_request_that_comes_back_while_a_credential_is_resolved(self) -> None:
        """Four calls deep, in both directions of one link, with rows streaming: rows, controls and
        decisions go on meanwhile, and the answer comes once the credential is there.
        """
        launched = self.executors.runtime(self.executor_id).launch(launch(), self.sink)
        self.settle(0.1)
        self.successResultOf(launched)
        client = self.models_through_the_gateway()
        self.assertEqual((len(self.secrets), self.runtime.resolved), (1, []))
        for n in range(200):
            self.runtime.last.say(f"row {n}")
        stop, receipt = self.stop(), self.receipt()
        decision = PermissionResponse(run_id="run-1", permission_occurrence_id="o", allow=True)
        decided = self.executors.runtime(self.executor_id).respond(decision)
        self.stopping.waiting[0].callback({"outcome": "already-idle"})
        self.receipts.waiting[0].callback({"state": "pending"})
        self.settle(0.5)
        self.assertEqual(self.successResultOf(decided), "confirmed")
        self.assertEqual((stop.answer.status, receipt.answer.status), (200, 200))
        self.assertEqual(len(self.sink.events), 200)
        self.assertTrue(client.is_waiting)
        self.secrets[0].callback(ENDPOINT)
        self.settle(0.1)
        self.assertEqual(client.answer.json, {"agents": ["scripted"]})
        self.assertEqual(self.runtime.resolved, [ENDPOINT])

    def test_every_slot_comes_back_at_once(self) -> None:
        """As many as there are slots, all of which wait for the worker, which waits for us: they
        are answered in any order, and the controls never wait for them.
        """
        n = limits.POOL_SHORT_BULK
        clients = [self.models_through_the_gateway() for _ in range(n)]
        self.assertEqual(len(self.secrets), n)
        self.outcome(self.models_through_the_gateway(), 503, "CLI_SERVICE_BUSY")
        stop = self.stop()
        self.stopping.waiting[0].callback({"outcome": "already-idle"})
        for at in reversed(range(n)):
            self.assertTrue(clients[at].is_waiting)
            self.secrets[at].callback(ENDPOINT)
            self.settle(0.1)
            self.assertEqual(clients[at].answer.status, 200)
        self.assertEqual(stop.answer.status, 200)
        self.assertFalse(any(self.dispatcher.pools.used.values()))

    def test_the_credential_needs_no_slot_of_the_bridge(self) -> None:
        """With every slot taken a worker's own questions are answered, and so are ours to it."""
        held = self.hold(operations.START_CHAT)
        for _ in range(limits.POOL_SHORT_BULK):
            self.start()
        for _ in range(limits.POOL_SHORT - limits.POOL_SHORT_BULK):
            self.stop()
        asking = self.executors.runtime(self.executor_id).catalog("scripted")
        self.settle(0.1)
        self.secrets[0].callback(ENDPOINT)
        self.settle(0.1)
        self.assertEqual(len(self.successResultOf(asking)), 1)
        self.assertEqual(len(held.calls), limits.POOL_SHORT_BULK)

    def test_a_revoked_grant_leaves_the_worker_its_own_questions(self) -> None:
        """Credentials go by assignments, not by command access: what the worker needs for its own
        turns still comes, although the request that began it is denied.
        """
        client = self.models_through_the_gateway()
        self.updated(self.executor_id, allowControllerCli=False)
        self.outcome(client, 403, "CLI_ACCESS_DENIED")
        again = self.executors.runtime(self.executor_id).catalog("scripted")
        self.settle(0.1)
        for d in self.secrets:
            d.callback(ENDPOINT)
        self.settle(0.1)
        self.assertEqual(len(self.successResultOf(again)), 1)
