"""A controller that is restarted: what was meant for the one before never reaches the next.

The gateway, its capability and the shells behind it outlive a controller, so nothing but the fence
of each request keeps an old invocation away from the new one.
"""

from __future__ import annotations

from garcon.contract import operations
from garcon.contract.routes import BRIDGED
from garcon.test.authority.cast import CHAT, FORK, START, STOP, WholeBridge, valid
from garcon.test.worker.test_gateway import Client


class FencingTests(WholeBridge):
    """The controller is replaced between two steps of an invocation."""

    def setUp(self) -> None:
        super().setUp()
        self.starting = self.hold(operations.START_CHAT)
        self.receipts = self.hold(operations.TURN_RECEIPT)

    def changed(self, client: Client) -> None:
        self.outcome(client, 409, "CLI_CONTROLLER_CHANGED")

    def test_between_discovery_and_dispatch(self) -> None:
        """The mutation is refused undispatched; a new invocation finds the new controller."""
        found = self.discover().answer.json["serverInstanceId"]
        self.assertEqual(found, self.expected)
        self.restart()
        self.changed(self.start())
        self.assertEqual(self.starting.calls, [])
        self.assertEqual(self.used(), 0)
        self.expected = self.discover().answer.json["serverInstanceId"]
        self.assertEqual(self.expected, "the next controller")
        self.assertTrue(self.start().is_waiting)
        self.assertEqual(len(self.starting.calls), 1)

    def test_every_operation_is_fenced(self) -> None:
        """Reads, polling, management and mutations, with and without a handler."""
        self.updated(self.executor_id, allowExecutorManagement=True)
        self.restart()
        for route in BRIDGED.values():
            self.changed(self.http(*valid(route)))

    def test_between_retry_verification_and_dispatch(self) -> None:
        """The answer of the first attempt is lost, the verification finds the same controller; then
        it is replaced.  The repetition does not run in the next one.
        """
        first = self.start()
        self.network.cut()
        self.outcome(first, 503, "CLI_OUTCOME_UNKNOWN")
        self.relink()
        verified = self.discover().answer.json["serverInstanceId"]
        self.assertEqual(verified, self.expected)
        self.restart()
        self.changed(self.start())
        self.assertEqual(len(self.starting.calls), 1)

    def test_during_polling(self) -> None:
        """A receipt is asked for again and again: the first answer after the restart ends it."""
        client = self.receipt()
        self.receipts.waiting[0].callback({"state": "pending"})
        self.settle(0.1)
        self.assertEqual(client.answer.status, 200)
        self.restart()
        self.changed(self.receipt())
        self.assertEqual(len(self.receipts.calls), 1)

    def test_between_completion_and_publication(self) -> None:
        """A handler ends while its controller does: its answer does not cross, the outcome is
        unknown, and nothing of it comes from the next controller.
        """
        mutation, read = self.start(), self.receipt()
        for wire in list(self.network.wires):
            wire.is_black_hole = True
        self.starting.waiting[0].callback({})
        self.receipts.waiting[0].callback({"state": "pending"})
        self.assertTrue(mutation.is_waiting and read.is_waiting)
        self.restart()
        self.outcome(mutation, 503, "CLI_OUTCOME_UNKNOWN")
        self.outcome(read, 503, "CLI_CONTROLLER_UNAVAILABLE")
        self.changed(self.start())
        self.assertEqual(len(self.starting.calls), 1)

    def test_during_an_upload(self) -> None:
        """The body comes when the session it was admitted for is gone: it is sent nowhere."""
        content = b'{"executorId":"local"}'
        client = Client(self.site)
        client.send(self.head("POST", "/chats/start", len(content)))
        self.restart()
        client.send(content)
        self.outcome(client, 503, "CLI_CONTROLLER_UNAVAILABLE")
        self.assertEqual(self.starting.calls, [])

    def test_while_it_waits_for_bulk(self) -> None:
        """A request that waited for the old session's bulk lane is not given the new one's."""
        self.lose_bulk()
        client = self.start()
        self.assertTrue(client.is_waiting)
        self.dialler.is_blocked = False
        self.restart()
        self.outcome(client, 503, "CLI_CONTROLLER_UNAVAILABLE")
        self.assertEqual(self.starting.calls, [])

    def test_an_old_context_is_never_told(self) -> None:
        """While no controller is there discovery is unavailable, whatever was found before."""
        self.assertEqual(self.discover().answer.status, 200)
        self.dialler.is_blocked = True
        self.network.cut()
        self.outcome(self.discover(), 503, "CLI_CONTROLLER_UNAVAILABLE")

    def test_the_fence_is_the_invocations_own(self) -> None:
        """Nobody on the way puts the present instance in its place: a wrong, an empty and a too
        long one stay what they are.
        """
        for value, outcome in (
            ("gateway-1", (409, "CLI_CONTROLLER_CHANGED")),
            (self.executor_id, (409, "CLI_CONTROLLER_CHANGED")),
            (self.expected.upper(), (409, "CLI_CONTROLLER_CHANGED")),
            (f"{self.expected}, {self.expected}", (409, "CLI_CONTROLLER_CHANGED")),
            ("x" * 129, (400, "VALIDATION_FAILED")),
            ("", (400, "VALIDATION_FAILED")),
        ):
            headers = {"X-Garcon-Server-Instance": value}
            for method, path, body in (
                ("GET", f"/chats/turn-receipt?chatId={CHAT}&turnId=t", None),
                ("POST", "/chats/start", START),
                ("POST", "/chats/stop", STOP),
                ("POST", "/chats/fork", FORK),
            ):
                client = self.http(method, path, body, headers)
                self.outcome(client, *outcome)
        self.assertEqual(self.starting.calls, [])
