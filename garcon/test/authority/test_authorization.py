"""Who may ask: by the authenticated link and the grant there is now, not by what is said."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract import operations, routes, rpc
from garcon.controller.http.identity import Identities
from garcon.errors import CallError, GarconError
from garcon.local.descriptors import new_capability
from garcon.local.files import DirectoryNotSynced
from garcon.test.authority.cast import OTHER, START, WholeBridge, valid
from garcon.test.controller.executors.test_remote import launch
from garcon.test.worker.test_gateway import Client
from garcon.worker.gateway.policy import find_route

FORGED = {
    "Cookie": "session=root",
    "Forwarded": "for=127.0.0.1;host=localhost",
    "X-Forwarded-For": "127.0.0.1",
    "X-Forwarded-Host": "localhost",
    "X-Garcon-Executor": "local",
    "X-Garcon-Principal": "local",
    "X-Garcon-User": "admin",
}


class PrincipalTests(WholeBridge):
    """The executor of the link asks, whatever the request says of itself."""

    def setUp(self) -> None:
        super().setUp()
        self.starting = self.hold(operations.START_CHAT)
        self.chats = self.hold(operations.LIST_CHATS)

    def principal(self, client: Client) -> Any:
        self.assertTrue(client.is_waiting)
        calls = self.starting.calls + self.chats.calls
        found = calls[-1].principal
        self.assertEqual(found.executor_id, self.executor_id)
        return found

    def test_forged_headers(self) -> None:
        """None of them crosses, and none changes who asks."""
        found = self.principal(self.http("GET", "/chats", headers=FORGED))
        self.assertEqual((found.kind, found.key), ("executor", f"executor:{self.executor_id}"))
        self.assertIsNone(self.chats.calls[-1].base_url)

    def test_forged_bodies_and_queries(self) -> None:
        """Members that name an origin are the handler's to ignore or refuse; a chat's parent and
        its executor are declared, and give no authority.
        """
        body = START | {
            "principal": {"kind": "local", "key": "local"},
            "username": "root",
            "parentChatId": "1700000000000009",
        }
        found = self.principal(self.http("POST", "/chats/start", body))
        self.assertEqual(found.key, f"executor:{self.executor_id}")
        self.principal(self.http("GET", "/chats?principal=local&executorId=local"))

    def test_a_label_is_no_authority(self) -> None:
        """A renamed executor asks as before, and its waits go on."""
        client = self.read()
        before = self.principal(client)
        self.updated(self.executor_id, label="admin")
        self.assertEqual(self.principal(self.read()), before)
        self.chats.waiting[0].callback({})
        self.settle(0.1)
        self.assertEqual(client.answer.status, 200)

    def test_capabilities_are_worth_nothing_elsewhere(self) -> None:
        """The gateway's is no token of the controller's nor the other way round, and the link's
        secret is neither's.
        """
        controllers = new_capability()
        record = self.executors.registry.get(self.executor_id)
        assert record is not None
        door = Identities(controllers)
        door.principal(f"Bearer {controllers}")
        for foreign in (self.identity.capability, record.secret, self.executor_id):
            error = self.assertRaises(GarconError, door.principal, f"Bearer {foreign}")
            self.assertEqual(error.status, 401)
        for foreign in (controllers, record.secret, self.executor_id):
            client = self.http("GET", "/chats", headers={"Authorization": f"Bearer {foreign}"})
            self.outcome(client, 403, "CLI_ACCESS_DENIED")
        self.assertEqual(self.chats.calls, [])


class EnvelopeTests(WholeBridge):
    """What a worker sends on the link itself, past its own gateway."""

    def sent(self, method: rpc.Method, request: Any, integration_id: str = "") -> Deferred[Any]:
        captured: Any = self.worker.current()
        lane = captured.bulk if method is rpc.CLI_REQUEST else captured.primary
        d: Deferred[Any] = lane.call(method, request, 30.0, integration_id)
        self.settle(0.1)
        return d

    def rejected(self, d: Deferred[Any], code: str = "VALIDATION_FAILED") -> None:
        error = self.failureResultOf(d, CallError).value
        assert isinstance(error, CallError)
        self.assertEqual((error.code, error.outcome), (code, "rejected"))

    def asked(self, **http: Any) -> rpc.BridgedRequest:
        whole = {"operation": "GET /chats", "query": [], "body": None} | http
        return rpc.BridgedRequest(self.expected, rpc.BridgedHttp(**whole))

    def test_the_same_checks_on_both_sides(self) -> None:
        """Each refusal of the gateway's is also the controller's, for a worker that makes none."""
        chats, settings = self.hold(operations.LIST_CHATS), self.hold(operations.CHANGE_SETTINGS)
        for http, code in (
            ({"operation": "DELETE /chats"}, "CLI_ACCESS_DENIED"),
            ({"operation": "GET /chats/"}, "CLI_ACCESS_DENIED"),
            ({"operation": "GET /files/tree"}, "CLI_ACCESS_DENIED"),
            ({"operation": "GET /cli/context"}, "CLI_ACCESS_DENIED"),
            ({"operation": "GET /api-providers"}, "CLI_ACCESS_DENIED"),
            ({"body": {}}, "VALIDATION_FAILED"),
            ({"executor_id": self.executor_id}, "VALIDATION_FAILED"),
            ({"query": [("a", "b")] * 129}, "VALIDATION_FAILED"),
            ({"query": [("a", "b" * 8193)]}, "VALIDATION_FAILED"),
            ({"operation": "GET /models"}, "VALIDATION_FAILED"),
            ({"operation": "POST /chats/start", "body": {}}, "VALIDATION_FAILED"),
            ({"operation": "PUT /app/settings", "body": {"ui": {}}}, "CLI_ACCESS_DENIED"),
            ({"operation": "GET /executors", "query": [("a", "b")]}, "VALIDATION_FAILED"),
        ):
            self.rejected(self.sent(rpc.CLI_REQUEST, self.asked(**http)), code)
        self.assertEqual((chats.calls, settings.calls), ([], []))

    def test_no_member_beyond_the_contracts(self) -> None:
        """An envelope with more in it, or of another shape, reaches nothing."""
        loose = rpc.Method("controllerCli.request", Any, Any, lane=None, served_by="controller")
        describe = rpc.Method("controllerCli.describe", Any, Any, served_by="controller")
        captured: Any = self.worker.current()
        inner: dict[str, Any] = {"operation": "GET /chats", "query": [], "body": None}
        for request in (
            {"expectedServerInstanceId": self.expected, "http": inner, "principal": "local"},
            {"expectedServerInstanceId": self.expected, "http": inner | {"headers": {}}},
            {"expectedServerInstanceId": self.expected, "http": inner | {"url": "/"}},
            {"expectedServerInstanceId": self.expected, "http": inner | {"query": {"a": "b"}}},
            {"expectedServerInstanceId": self.expected, "http": inner | {"query": [["a"]]}},
            {"expectedServerInstanceId": self.expected, "http": inner | {"body": []}},
            {"expectedServerInstanceId": None, "http": inner},
            {"http": inner},
            None,
        ):
            d = captured.bulk.call(loose, request, 30.0)
            self.settle(0.1)
            self.rejected(d)
        wrong: tuple[Any, ...] = ({}, {"expectedServerInstanceId": "x"}, [], 0)
        for one in wrong:
            d = captured.primary.call(describe, one, 30.0)
            self.settle(0.1)
            self.rejected(d)

    def test_it_belongs_to_no_integration(self) -> None:
        """Neither call is an individual provider's facet."""
        self.rejected(self.sent(rpc.CLI_REQUEST, self.asked(), "claude"))
        self.rejected(self.sent(rpc.CLI_DESCRIBE, None, "claude"))
        self.successResultOf(self.sent(rpc.CLI_DESCRIBE, None))

    def test_another_lane(self) -> None:
        """A primary operation on bulk and a bulk one on primary are refused by the controller."""
        captured: Any = self.worker.current()
        d = captured.primary.call(rpc.CLI_REQUEST, self.asked(), 30.0)
        self.settle(0.1)
        self.rejected(d, "CLI_ACCESS_DENIED")
        stop = self.asked(operation=routes.STOP_CHAT.key, body={})
        self.rejected(self.sent(rpc.CLI_REQUEST, stop), "CLI_ACCESS_DENIED")


class RegistryTests(WholeBridge):
    """What is in the table can be asked for, and nothing that is near it."""

    def test_what_has_no_handler_yet(self) -> None:
        """Every row passes the gateway and is found, or said not to be offered: 404, by both sides'
        consent, with and without a body.
        """
        self.updated(self.executor_id, allowExecutorManagement=True)
        for route in routes.BRIDGED.values():
            if not self.handlers.serves(route.key):
                self.outcome(self.http(*valid(route)), 404, "OPERATION_NOT_AVAILABLE")

    def test_what_is_not_in_it(self) -> None:
        """Every other operation of the controller, and every neighbour of a row."""
        for route in routes.ROUTES:
            if route not in (*routes.BRIDGED.values(), routes.RUNTIME, routes.CLI_CONTEXT):
                path = route.path.removeprefix(routes.PREFIX).replace(":executorId", OTHER)
                self.outcome(self.http(route.method, path), 403, "CLI_ACCESS_DENIED")
        for route in routes.BRIDGED.values():
            path = route.path.removeprefix(routes.PREFIX).replace(":executorId", OTHER)
            for method, near in (
                ("TRACE", path),
                (route.method, path + "/"),
                (route.method, path + "/x"),
                (route.method, path[:-1]),
                (route.method, path + "%20"),
                (route.method, "/" + path),
                (route.method.lower(), path),
            ):
                if find_route(method, routes.PREFIX + near) is None:
                    self.outcome(self.http(method, near), 403, "CLI_ACCESS_DENIED")
            upgrade = {"Upgrade": "websocket", "Connection": "Upgrade"}
            client = self.http(route.method, path, headers=upgrade)
            self.outcome(client, 403, "CLI_ACCESS_DENIED")

    def test_management_needs_both_grants(self) -> None:
        """The second grant alone opens nothing, and the first alone no row of management."""
        for cli, management in ((True, False), (False, True), (False, False)):
            grants = {"allowControllerCli": cli, "allowExecutorManagement": management}
            self.updated(self.executor_id, **grants)
            for route in routes.BRIDGED.values():
                if route.management:
                    self.outcome(self.http(*valid(route)), 403, "CLI_ACCESS_DENIED")


class LeaseTests(WholeBridge):
    """The grant is given, taken and given again while requests are at different places."""

    def setUp(self) -> None:
        super().setUp()
        self.starting = self.hold(operations.START_CHAT)
        self.chats = self.hold(operations.LIST_CHATS)

    def grant(self, is_given: bool) -> None:
        self.updated(self.executor_id, allowControllerCli=is_given)
        self.settle(0.1)

    def test_off_until_given(self) -> None:
        """Discovery, reads and mutations are denied; nothing is dispatched."""
        self.grant(False)
        for client in (self.discover(), self.read(), self.start()):
            self.outcome(client, 403, "CLI_ACCESS_DENIED")
        self.assertEqual(self.starting.calls + self.chats.calls, [])
        self.grant(True)
        self.assertEqual(self.discover().answer.status, 200)

    def test_revoked_and_given_again_during_a_wait(self) -> None:
        """The waits end under the old lease; what its handlers say later is nobody's, although the
        same worker may ask again at once.
        """
        read, mutation = self.read(), self.start()
        self.grant(False)
        self.grant(True)
        self.outcome(read, 403, "CLI_ACCESS_DENIED")
        self.outcome(mutation, 503, "CLI_OUTCOME_UNKNOWN")
        again = self.start(clientRequestId="another")
        self.starting.waiting[0].callback({"late": True})
        self.settle(0.1)
        self.assertTrue(again.is_waiting)
        self.starting.waiting[1].callback({"mine": True})
        self.settle(0.1)
        self.assertEqual(again.answer.json, {"mine": True})

    def test_revoked_while_the_answer_is_in_the_queue(self) -> None:
        """What was published before is not taken back."""
        client = self.read()
        self.network.hold()
        self.chats.waiting[0].callback({"sessions": []})
        self.grant(False)
        self.network.release()
        self.settle(0.1)
        self.assertEqual(client.answer.status, 200)

    def test_revoked_during_an_upload(self) -> None:
        """The grant is looked at when the whole request is there."""
        content = b'{"executorId":"local"}'
        client = Client(self.site)
        client.send(self.head("POST", "/chats/start", len(content)))
        self.grant(False)
        client.send(content)
        self.outcome(client, 403, "CLI_ACCESS_DENIED")
        self.assertEqual(self.starting.calls, [])

    def test_revoking_touches_nothing_else(self) -> None:
        """Not the link, not what runs on the worker, not what was accepted; nothing is aborted."""
        running = self.executors.runtime(self.executor_id).launch(launch(), self.sink)
        self.settle(0.1)
        self.successResultOf(running)
        mutation = self.start()
        generation = self.worker.current()
        self.grant(False)
        self.outcome(mutation, 503, "CLI_OUTCOME_UNKNOWN")
        self.assertEqual(self.starting.cancelled, 0)
        self.assertIs(self.worker.current(), generation)
        self.assertEqual(self.executors.availability(self.executor_id), "ready")
        self.assertEqual(self.runtime.aborted, [])
        self.runtime.last.say("still here")
        self.settle(0.1)
        self.assertEqual(len(self.sink.events), 1)

    def test_the_second_grant_ends_the_lease_too(self) -> None:
        """Either way: a management call that waits is not published after the grant was taken."""
        self.updated(self.executor_id, allowExecutorManagement=True)
        read = self.read()
        self.updated(self.executor_id, allowExecutorManagement=False)
        self.outcome(read, 403, "CLI_ACCESS_DENIED")
        client = self.http("GET", f"/executors/{self.executor_id}/connection")
        self.outcome(client, 403, "CLI_ACCESS_DENIED")

    def test_a_disabled_executor_has_no_authority(self) -> None:
        """Its waits end and its link goes; enabled again it has a lease of its own."""
        mutation = self.start()
        self.updated(self.executor_id, enabled=False)
        self.outcome(mutation, 503, "CLI_OUTCOME_UNKNOWN")
        self.outcome(self.read(), 503, "CLI_CONTROLLER_UNAVAILABLE")

    def test_a_change_that_may_not_be_saved(self) -> None:
        """Its executor goes offline and its authority ends, since nobody knows which grant a crash
        would leave (control.md E.8).
        """
        mutation = self.start()

        def unsynced(path: str, content: bytes) -> None:
            raise DirectoryNotSynced(5, "lost")

        self.write = unsynced
        status, _ = self.update(self.executor_id, label="another")
        self.assertEqual(status, 503)
        self.outcome(mutation, 503, "CLI_OUTCOME_UNKNOWN")
        self.outcome(self.read(), 503, "CLI_CONTROLLER_UNAVAILABLE")
        self.assertEqual(self.executors.availability(self.executor_id), "offline")
        self.assertEqual(len(self.flushLoggedErrors(DirectoryNotSynced)), 1)

    def test_a_controller_that_stops(self) -> None:
        """Everything is unavailable from then on, discovery as well."""
        self.executors.quiesce()
        for client in (self.discover(), self.read(), self.start()):
            self.outcome(client, 503, "CLI_CONTROLLER_UNAVAILABLE")
        self.assertEqual(self.starting.calls + self.chats.calls, [])

    def test_another_lane_of_the_same_session_carries_no_lease_further(self) -> None:
        """A bulk lane that was replaced between dispatch and publication loses the answer."""
        mutation, read = self.start(), self.read()
        for wire in self.bulk_wires():
            wire.close()
        self.settle(6)
        self.assertEqual(self.worker.bulk_phase, "ready")
        self.outcome(mutation, 503, "CLI_OUTCOME_UNKNOWN")
        self.outcome(read, 503, "CLI_CONTROLLER_UNAVAILABLE")
        self.starting.waiting[0].callback({})
        self.settle(0.1)
        self.assertEqual(self.used(), 0)
