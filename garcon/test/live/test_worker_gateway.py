"""A worker's gateway before a real controller: what crosses, and what is said when it cannot."""

from __future__ import annotations

import os
import socket
from typing import Any
from unittest import skipUnless

from garcon.cli.main import run
from garcon.local.descriptors import Descriptor, read
from garcon.local.files import InsecureFile
from garcon.test.live.fleets import FleetTestCase
from garcon.test.live.test_worker import ask
from garcon.testing.fake_controller import FakeMachine
from garcon.testing.fleet import eventually


class Gateway(FleetTestCase):
    """A pair, and plain HTTP at the gateway."""

    def setUp(self) -> None:
        super().setUp()
        self.controller, self.worker, self.executor_id = self.fleet.pair()
        self.descriptor = read(self.worker.config / "executor" / "runtime.json", "executor")
        context = self.ask("/cli/context")[1]
        self.assertEqual(context["defaultExecutorId"], self.executor_id)
        self.assertEqual(context["workspaceName"], "default")
        self.instance = context["serverInstanceId"]

    def ask(self, path: str, instance: str | None = None) -> tuple[int, dict[str, Any]]:
        """Ask the gateway with its capability."""
        headers = {"Authorization": f"Bearer {self.descriptor.local_capability}"}
        if instance is not None:
            headers["X-Garcon-Server-Instance"] = instance
        return ask(self.descriptor, "/api/v1" + path, headers)

    def outcome(self, path: str, instance: str | None = None) -> tuple[int, str]:
        """Return the status and the error code of an answer."""
        status, body = self.ask(path, instance)
        return status, body.get("errorCode", "")

    def test_what_crosses(self) -> None:
        """Reads answer as at the controller; fences and grants are the controller's."""
        status, body = self.ask("/chats", self.instance)
        self.assertEqual((status, body["sessions"]), (200, []))
        self.assertEqual(
            self.outcome("/chats/export?chatId=1", self.instance),
            (404, "OPERATION_NOT_AVAILABLE"),
        )
        self.assertEqual(self.outcome("/chats", "another"), (409, "CLI_CONTROLLER_CHANGED"))
        self.assertEqual(self.outcome("/chats"), (400, "VALIDATION_FAILED"))
        self.assertEqual(
            self.outcome(f"/executors/{self.executor_id}/connection", self.instance),
            (403, "CLI_ACCESS_DENIED"),
        )
        for path in ("/files/tree", "/terminals"):
            self.assertEqual(self.outcome(path, self.instance), (403, "CLI_ACCESS_DENIED"), path)

    def test_both_endpoints_answer_alike(self) -> None:
        """Statuses, bodies and errors of the application are the same through either."""
        direct = read(self.controller.config / "runtime.json", "controller")
        chat, turn = self.fleet.garcon(
            self.controller,
            *("start-async", "--agent", "scripted", "--model", "scripted", "say here"),
        ).handle()
        self.fleet.garcon(self.controller, "wait", chat, "--turn", turn)
        for path in (
            "/executors",
            "/models?executorId=local",
            f"/models?executorId={self.executor_id}&agent=scripted",
            "/models?executorId=local&agent=none",
            "/app/settings",
            "/preambles",
            "/chats",
            f"/chats/snapshot?chatId={chat}&limit=5",
            f"/chats/snapshot?chatId={chat}&limit=x",
            f"/chats/messages?chatId={chat}&limit=5",
            f"/chats/turn-receipt?chatId={chat}&turnId={turn}",
            f"/chats/turn-receipt?chatId={chat}&turnId=none",
            "/chats/snapshot?chatId=1753000000000000&limit=1",
        ):
            answers = []
            for descriptor in (direct, self.descriptor):
                headers = {
                    "Authorization": f"Bearer {descriptor.local_capability}",
                    "X-Garcon-Server-Instance": self.instance,
                }
                status, body = ask(descriptor, "/api/v1" + path, headers)
                body.pop("observedAt", None)
                answers.append((status, body))
            self.assertEqual(answers[0], answers[1], path)

    def test_capabilities_are_local_to_their_endpoint(self) -> None:
        """Neither endpoint takes the other one's capability."""
        controller = read(self.controller.config / "runtime.json", "controller")
        self.assertNotEqual(controller.local_capability, self.descriptor.local_capability)
        foreign = {
            "Authorization": f"Bearer {controller.local_capability}",
            "X-Garcon-Server-Instance": self.instance,
        }
        status, body = ask(self.descriptor, "/api/v1/chats", foreign)
        self.assertEqual((status, body["errorCode"]), (403, "CLI_ACCESS_DENIED"))

    def test_without_its_controller(self) -> None:
        """All says unavailable; with a new controller the old instance is over."""
        port = int(self.controller.url.rpartition(":")[2])
        self.controller.kill()
        eventually("unavailable", lambda: self.outcome("/cli/context")[0] == 503)
        for path in ("/cli/context", "/chats"):
            self.assertEqual(self.outcome(path, self.instance), (503, "CLI_CONTROLLER_UNAVAILABLE"))
        again = self.fleet.controller(port=port)
        self.fleet.await_executor(again, self.executor_id)
        self.assertEqual(self.outcome("/chats", self.instance), (409, "CLI_CONTROLLER_CHANGED"))
        context = self.ask("/cli/context")[1]
        self.assertNotEqual(context["serverInstanceId"], self.instance)
        self.assertEqual(self.ask("/chats", context["serverInstanceId"])[0], 200)

    @skipUnless(os.geteuid() == 0, "becomes another user")
    def test_another_account_of_this_machine(self) -> None:
        """It reaches the port, as everybody does, but neither reads the descriptor, however open
        the directories above it are, nor uses one that was opened to it.
        """
        path = self.worker.config / "executor" / "runtime.json"
        for directory in (self.fleet.root, self.worker.config, path.parent):
            directory.chmod(0o755)
        machine = FakeMachine({"GARCON_CONFIG_DIR": str(self.worker.config)})
        words = ["list", "agents", "--runtime", "executor"]
        self.assertEqual(run(words, machine.system()), 0, machine.stderr())
        os.seteuid(65534)
        self.addCleanup(os.seteuid, 0)
        self.assertRaises(PermissionError, read, path, "executor")
        self.assertEqual(run(words, machine.system()), 3)
        self.assertIn("cannot read", machine.stderr())
        self.assertEqual(ask(self.descriptor, "/api/v1/chats")[0], 403)
        os.seteuid(0)
        path.chmod(0o644)
        os.seteuid(65534)
        self.assertRaises(InsecureFile, read, path, "executor")
        self.assertEqual(run(words, machine.system()), 3)

    def test_an_upload_that_is_refused_is_not_read(self) -> None:
        """A body that is too large is answered at once, whatever comes of it."""
        address = ("127.0.0.1", port_of(self.descriptor))
        with socket.create_connection(address, timeout=10) as connection:
            connection.sendall(
                f"POST /api/v1/chats/start HTTP/1.1\r\nHost: 127.0.0.1:{address[1]}\r\n"
                f"Authorization: Bearer {self.descriptor.local_capability}\r\n"
                f"X-Garcon-Server-Instance: {self.instance}\r\n"
                "Content-Type: application/json\r\nContent-Length: 2000000\r\n\r\n{".encode()
            )
            answer = connection.recv(65_536)
        self.assertTrue(answer.startswith(b"HTTP/1.1 413 "), answer)
        self.assertIn(b"CLI_REQUEST_TOO_LARGE", answer)


def port_of(descriptor: Descriptor) -> int:
    """The port a descriptor names."""
    return int(descriptor.base_url.rpartition(":")[2])
