"""A controller process that is killed and started again, between the steps of real commands."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from garcon.cli.client import GarconClient
from garcon.cli.discovery import Endpoint
from garcon.cli.failures import CommandFailure, TransportFailure
from garcon.cli.submission import Refused, accepted_as, submit
from garcon.cli.system import System
from garcon.contract.routes import START_CHAT, Route
from garcon.local.descriptors import read
from garcon.test.live.fleets import SCRIPTED, FleetTestCase
from garcon.testing.fleet import free_port

INBOUND = ("--label", "worker", "--direction", "executor-connects", "--no-tls", "true")


class Interrupted(GarconClient):
    """Loses the answer to its first submission, and is held after the next verification."""

    test: RestartTests
    has_lost: bool = False

    def send(
        self, route: Route, query: Iterable[tuple[str, str]] = (), *args: Any, **more: Any
    ) -> dict[str, Any]:
        answer = super().send(route, query, *args, **more)
        if not self.has_lost:
            self.has_lost = True
            raise TransportFailure("the answer was lost", True)
        return answer

    def verify(self, *args: Any) -> None:
        super().verify(*args)
        self.test.restart()


class RestartTests(FleetTestCase):
    """Invocations that began before a restart go no further; none of them runs twice."""

    def setUp(self) -> None:
        super().setUp()
        self.port = free_port()
        self.controller = self.fleet.controller(port=self.port)
        self.executor_id = self.fleet.executor(self.controller, *INBOUND)
        url = self.fleet.garcon(self.controller, "executor", "connection", self.executor_id).out
        self.worker = self.fleet.worker("--no-tls", url=url.strip())
        self.fleet.await_executor(self.controller, self.executor_id)

    def restart(self) -> None:
        """Kill the controller, and wait until its successor has the worker."""
        self.controller.kill()
        self.controller = self.fleet.controller(port=self.port)
        self.fleet.await_executor(self.controller, self.executor_id, 60)

    def connect(self, kind: type[GarconClient] = GarconClient) -> GarconClient:
        """Begin an invocation of the command beside the worker: prove, discover, capture."""
        path = str(self.worker.config / "executor" / "runtime.json")
        stdin, stdout, stderr = io.BytesIO(), io.BytesIO(), io.BytesIO()
        system = System(environ={}, stdin=stdin, stdout=stdout, stderr=stderr)
        return kind.connect(Endpoint(read(path, "executor"), path), system)

    def submitted(self, client: GarconClient, text: str) -> CommandFailure:
        """Submit a start as the command does, and return how it fails."""
        body = {
            "clientRequestId": client.system.uuid(),
            "clientMessageId": client.system.uuid(),
            "chatId": client.system.chat_id(),
            "executorId": self.executor_id,
            "agentId": "scripted",
            "model": "scripted",
            "projectPath": str(self.fleet.project("project")),
            "agentSettings": {"ownerId": "scripted", "schemaVersion": 1, "values": {}},
            "command": text,
        }
        check = accepted_as("chat-start", body, "turnId")
        with self.assertRaises(CommandFailure) as caught:
            submit(client, START_CHAT, body, check, "the start", "garcon chats")
        failure: CommandFailure = caught.exception
        return failure

    def test_three_invocations_over_one_restart(self) -> None:
        """One that has discovered and not sent is refused, and was not run; one that repeats itself
        is refused, and stays unknown, since its first attempt was accepted; one that polls says
        that Garcon was restarted.  A new one finds the new controller.
        """
        discovered = self.connect()
        project = ("--cwd", str(self.fleet.project("project")))
        polling = self.fleet.begin(self.worker, "start", *SCRIPTED, *project, "sleep 60")
        assert polling.stdout is not None
        polled = polling.stdout.readline().split()[-1]
        repeating = self.connect(Interrupted)
        assert isinstance(repeating, Interrupted)
        repeating.test = self
        failure = self.submitted(repeating, "say once")
        self.assertEqual(failure.code, "CLI_OUTCOME_UNKNOWN")
        self.assertIn("may have been accepted; a repetition was refused", failure.text)
        failure = self.submitted(discovered, "say never")
        self.assertIsInstance(failure, Refused)
        self.assertEqual(failure.code, "CLI_CONTROLLER_CHANGED")
        _, err = polling.communicate(timeout=60)
        self.assertEqual(polling.returncode, 3, err)
        self.assertIn("Garcon restarted while the turn was running", err)
        self.assertIn("again", self.start(self.worker, "say again").out)
        listed = self.fleet.garcon(self.worker, "chats", "--json").json["chats"]
        firsts = sorted(self.rows(self.worker, chat["id"])[0]["content"] for chat in listed)
        self.assertEqual(firsts, ["say again", "say once", "sleep 60"])
        self.assertIn(polled, [chat["id"] for chat in listed])
