"""The cast of the browser socket's tests: a controller and clients of its socket."""

from __future__ import annotations

from typing import Any

from garcon.test.live.test_controller import ControllerCase
from garcon.testing.fleet import Service
from garcon.testing.websocket_client import Refused, WebSocketClient


class SocketCase(ControllerCase):
    """A controller and clients of its socket."""

    controller: Service

    def open(self, **more: Any) -> WebSocketClient:
        """Open a socket that ends with the test."""
        client = WebSocketClient.open(self.controller.url, **more)
        self.addCleanup(client.close)
        return client

    def turned_away(self, **more: Any) -> tuple[int, bytes]:
        """Try to open one that is refused."""
        with self.assertRaises(Refused) as caught:
            self.open(**more)
        return caught.exception.status, caught.exception.body

    def ping(self, client: WebSocketClient, request_id: str = "p") -> None:
        """Ask whether the controller answers."""
        pong = client.ask({"type": "ws-ping", "clientRequestId": request_id, "sentAt": 7})
        self.assertEqual((pong["type"], pong["sentAt"]), ("ws-pong", 7))
