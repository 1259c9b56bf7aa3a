"""The cast of the strict tests: a pair, a strict client at either endpoint, and a strict browser
socket that runs along.
"""

from __future__ import annotations

from typing import Any

from garcon.test.live.fleets import FleetTestCase
from garcon.testing.strict_client import StrictClient
from garcon.testing.strict_socket import StrictSocket

INVALID = (400, "VALIDATION_FAILED", False)


class StrictTestCase(FleetTestCase):
    """A pair, and a strict client at either endpoint."""

    def setUp(self) -> None:
        super().setUp()
        self.prepare()
        self.controller, self.worker, self.executor_id = self.fleet.pair()
        own, gateway = self.controller.descriptor(), self.worker.descriptor()
        self.direct = StrictClient(own["baseUrl"], own["localCapability"])
        self.gateway = StrictClient(
            gateway["baseUrl"], gateway["localCapability"], own["instanceId"]
        )
        self.instance: str = own["instanceId"]
        self.project = str(self.fleet.project("project"))
        self.socket = StrictSocket(own["baseUrl"])
        """Hears all that the controller tells, in every test, until that is stopped."""
        self.addCleanup(self.socket.close)

    def prepare(self) -> None:
        """Put into the fleet's folder what is to be there before anything starts."""

    def everywhere(self) -> list[tuple[StrictClient, str]]:
        """Every way to reach an agent: both endpoints, both executors."""
        return [
            (client, executor_id)
            for client in (self.direct, self.gateway)
            for executor_id in ("local", self.executor_id)
        ]

    def begun(self, client: StrictClient, executor_id: str, command: str, **more: Any) -> Any:
        """Start a chat whose first turn ends; returns chat id, view and the turn's receipt."""
        accepted = client.start(client.start_body(executor_id, self.project, command, **more))
        receipt = client.settled(accepted.chat_id, accepted.turn_id)
        view = client.messages(accepted.chat_id).transcript_view_id
        return accepted.chat_id, view, receipt
