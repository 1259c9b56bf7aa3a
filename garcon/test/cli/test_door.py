"""The way to the controller's socket: what is shown to whom, and what is tried again."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli import door
from garcon.cli.discovery import Endpoint
from garcon.cli.door import Door
from garcon.cli.failures import CommandFailure, RuntimeReplaced, TransportFailure
from garcon.local.descriptors import read
from garcon.local.roots import ConfigRoot
from garcon.testing.fake_controller import FakeController, FakeMachine
from garcon.testing.http_double import answer, refusal

TOKEN = "garcon_user_x"
UPGRADED = b"HTTP/1.1 101 Switching\r\nSec-WebSocket-Accept: %s\r\n\r\n"


class DoorTests(SynchronousTestCase):
    """A controller, and the door to it."""

    def setUp(self) -> None:
        self.root = ConfigRoot(os.path.abspath(self.mktemp()))
        os.mkdir(self.root.path, 0o700)
        self.controller = self.serve()
        self.path = str(self.root.descriptor("controller"))
        endpoint = Endpoint(read(self.path, "controller"), self.path)
        self.door = Door(endpoint, self.path, TOKEN, FakeMachine().system())

    def serve(self) -> FakeController:
        """Start a controller and publish it."""
        controller = FakeController()
        controller.double.__enter__()
        self.addCleanup(controller.double.stop)
        controller.publish(self.root)
        return controller

    def test_the_login_is_not_taken(self) -> None:
        """That is final, and told as what it is."""
        self.controller.on("GET /ws", refusal(401, "", "Unauthorized"))
        error = self.assertRaises(CommandFailure, self.door.open)
        self.assertEqual((error.phase, error.exit_status), ("authentication", 3))
        (asked,) = self.controller.asked("GET /ws")
        self.assertEqual(asked.headers["authorization"], f"Bearer {TOKEN}")
        self.assertNotIn(TOKEN, asked.target)

    def test_what_passes(self) -> None:
        """No room, another answer, none, and nobody."""
        for reply in (refusal(503, "", "hard-capacity"), answer({}), UPGRADED % b"x", b""):
            self.controller.on("GET /ws", reply)
            self.assertRaises(TransportFailure, self.door.open)
        self.controller.double.stop()
        error = self.assertRaises(TransportFailure, self.door.open)
        self.assertIn("cannot reach Garcon", error.text)

    def test_nobody_answers(self) -> None:
        """It is waited for `STEP_TIME`."""
        self.patch(door, "STEP_TIME", 0.05)
        self.controller.on("GET /ws", b"HTTP/1.1 101 Switching\r\n")
        self.assertRaises(TransportFailure, self.door.open)

    def test_a_successor_is_found(self) -> None:
        """At its own port, once it has proven itself."""
        successor = self.serve()
        successor.on("GET /ws", refusal(503, "", "hard-capacity"))
        self.assertRaises(TransportFailure, self.door.reopen)
        self.assertEqual(self.controller.double.asked, [])
        self.assertEqual(successor.double.asked[0].path, "/api/v1/runtime")
        self.assertEqual(len(successor.asked("GET /ws")), 1)

    def test_a_stranger_sees_no_token(self) -> None:
        """Whoever listens at the port now, but cannot prove that it is the one."""
        self.controller.proves = lambda challenge: {
            "schemaVersion": 1,
            "instanceId": self.controller.instance_id,
            "proof": "x" * 43,
        }
        self.assertRaises(RuntimeReplaced, self.door.reopen)
        self.assertEqual(
            [asked.path for asked in self.controller.double.asked], ["/api/v1/runtime"]
        )
        self.assertNotIn("authorization", self.controller.double.asked[0].headers)

    def test_no_controller_runs(self) -> None:
        """Its descriptor is gone: it may come back."""
        os.unlink(self.path)
        error = self.assertRaises(TransportFailure, self.door.reopen)
        self.assertEqual(error.text, "no controller runs")
