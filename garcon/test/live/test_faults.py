"""Crashes, ends and full disks in the middle of many commands: what was accepted stays, once, and
what was refused for certain never was.
"""

from __future__ import annotations

import http.client
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest

from garcon.contract import operations
from garcon.test.live.fleets import FleetTestCase
from garcon.testing.fleet import Service, eventually
from garcon.testing.strict_client import StrictClient
from garcon.testing.strict_rules import Said

_numbers = count(time.time_ns() // 1_000)


class FaultCase(FleetTestCase):
    """A controller that many clients use at once."""

    def client(self, service: Service) -> StrictClient:
        """Return a client of a controller."""
        found = service.descriptor()
        return StrictClient(found["baseUrl"], found["localCapability"])

    def a_start(self, client: StrictClient, command: str, executor_id: str = "local") -> Any:
        """Return a start under an id of its own."""
        project = str(self.fleet.project("project"))
        chat_id = str(next(_numbers))
        return client.start_body(executor_id, project, command, chatId=chat_id)

    def stored(self, config: Path) -> tuple[Counter[str], list[str]]:
        """Return how often each message id is in the store, and the views that have a gap."""
        path = config / "workspace-default" / "garcon.sqlite"
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
            ids = Counter(
                found
                for (found,) in db.execute(
                    "SELECT client_message_id FROM rows WHERE kind = 'user-input'"
                )
            )
            gaps = [
                view_id
                for view_id, last, rows in db.execute(
                    "SELECT view_id, max(ordinal), count(*) FROM views JOIN rows USING (view)"
                    " GROUP BY view_id"
                )
                if last != rows
            ]
        db.close()
        return ids, gaps


class CrashTests(FaultCase):
    """The controller is killed while it is busy."""

    def test_what_was_accepted_is_there_once_and_whole(self) -> None:
        """Killed at four moments: no accepted input is lost or doubled, no transcript has a gap,
        and no chat is left in a phase.
        """
        controller = self.fleet.controller()
        config, accepted = controller.config, set[str]()
        for number, pause in enumerate((0.1, 0.2, 0.4, 0.6), 1):
            client = self.client(controller)
            with ThreadPoolExecutor(6) as pool:
                clients = [pool.submit(self.keep_starting, client, accepted) for _ in range(6)]
                eventually("starts", lambda: len(accepted) >= 3 * number)  # noqa: B023
                time.sleep(pause)
                controller.kill()
                for one in clients:
                    one.result(30)
            controller = self.fleet.controller(config=config)
            ids, gaps = self.stored(config)
            self.assertEqual([one for one in accepted if ids[one] != 1], [])
            self.assertEqual((max(ids.values()), gaps), (1, []))
            phases = {chat.processing_phase for chat in self.client(controller).chats()}
            self.assertEqual(phases, {None})
        self.assertGreater(len(accepted), 10)
        eventually("the end of what the crashes left", lambda: not self.fleet.left_over())

    def keep_starting(self, client: StrictClient, accepted: set[str]) -> None:
        """Start one chat after the other until the controller is gone."""
        while True:
            body = self.a_start(client, "emit 50\nsay over")
            try:
                said = client.ask(operations.START_CHAT, body)
            except (OSError, http.client.HTTPException):
                return
            self.assertEqual(said.status, 202, said)
            accepted.add(body["clientMessageId"])


class EndTests(FaultCase):
    """The controller is asked to end while it is busy."""

    def test_starts_under_way_end_with_a_true_answer(self) -> None:
        """Accepted and there, or refused and not there; nothing goes wrong inside."""
        for pause in (0.02, 0.1):
            controller, worker, executor_id = self.fleet.pair()
            client = self.client(controller)
            bodies = [
                self.a_start(client, "sleep 60", ("local", executor_id)[number % 2])
                for number in range(10)
            ]
            with ThreadPoolExecutor(len(bodies)) as pool:
                answers = [pool.submit(self.start_quietly, client, body) for body in bodies]
                time.sleep(pause)
                self.assertEqual(controller.stop(), 0)
                said = [one.result(30) for one in answers]
            self.assertNotIn("Traceback", controller.output.text())
            self.assertEqual(worker.stop(), 0)
            self.assertEqual(self.fleet.left_over(), [])
            again = self.fleet.controller(config=controller.config)
            there = {chat.id for chat in self.client(again).chats()}
            for body, answer in zip(bodies, said, strict=True):
                if answer is not None:
                    self.assertEqual(answer.status == 202, body["chatId"] in there, answer)
            self.assertEqual(again.stop(), 0)
            shutil.rmtree(controller.config)
            shutil.rmtree(worker.config)

    def start_quietly(self, client: StrictClient, body: Any) -> Said | None:
        """Start a chat; None when the controller listened no more."""
        try:
            return client.ask(operations.START_CHAT, body)
        except (OSError, http.client.HTTPException):
            return None


class CrowdTests(FaultCase):
    """Many commands at once, as agents start them."""

    def test_thirty_commands_at_once_on_a_worker(self) -> None:
        """They wait for room at the gateway: each turn is run once and answered to its command."""
        controller, worker, _ = self.fleet.pair()
        with ThreadPoolExecutor(30) as pool:
            turns = [
                pool.submit(self.start, worker, f"say number {number}", check=False)
                for number in range(30)
            ]
            done = [turn.result(120) for turn in turns]
        self.assertEqual([str(one) for one in done if one.status != 0], [])
        said = [one.out.splitlines()[2:] for one in done]
        self.assertEqual(said, [[f"number {number}"] for number in range(30)])
        self.assertEqual(len(self.client(controller).chats()), 30)

    def test_decisions_at_once(self) -> None:
        """Of several decisions on one request exactly one counts, and its row is the only one."""
        client = self.client(self.fleet.controller())
        for number in range(3):
            body = self.a_start(client, f"ask touch made-{number}\nsay over")
            turn = client.start(body).turn_id
            control = client.permission(body["chatId"])
            with ThreadPoolExecutor(4) as pool:
                decisions = [
                    pool.submit(self.decide_at_once, client, control, allow)
                    for allow in (True, False, True, False)
                ]
                answers = [one.result(30) for one in decisions]
            taken = [allow for allow, said in answers if said.status == 200]
            self.assertEqual(len(taken), 1, answers)
            refusals = {said.json["errorCode"] for _, said in answers if said.status != 200}
            self.assertEqual(refusals, {"PERMISSION_NOT_ACTIONABLE"})
            self.assertEqual(client.settled(body["chatId"], turn).state, "completed")
            made = self.fleet.projects / "project" / f"made-{number}"
            self.assertEqual(made.exists(), taken[0])
            kinds = [row["type"] for row in self.rows_of(client, body["chatId"])]
            self.assertEqual(kinds.count("permission-resolved"), 1)

    def decide_at_once(
        self, client: StrictClient, control: dict[str, Any], allow: bool
    ) -> tuple[bool, Said]:
        """Decide under an identity of its own."""
        body = {
            "clientRequestId": client.request_id(),
            "chatId": control["chatId"],
            "permissionOccurrenceId": control["permissionOccurrenceId"],
            "allow": allow,
            "alwaysAllow": False,
            "control": control,
        }
        return allow, client.ask(operations.PERMISSION_DECISION, body)

    def rows_of(self, client: StrictClient, chat_id: str) -> list[dict[str, Any]]:
        """Return a chat's messages as JSON."""
        said = client.ask(operations.MESSAGES, query={"chatId": chat_id, "limit": 200})
        return [one["message"] for one in said.json["messages"]]

    def test_stops_at_once_and_at_any_moment(self) -> None:
        """Of two stops at most one interrupts; the receipt says which it was, and the chat is
        free.
        """
        client = self.client(self.fleet.controller())
        for number in range(8):
            body = self.a_start(client, "sleep 0.05\nsay over")
            turn = client.start(body).turn_id
            time.sleep(number * 0.015)
            with ThreadPoolExecutor(2) as pool:
                stops = [pool.submit(self.stop_at_once, client, body["chatId"]) for _ in range(2)]
                outcomes = sorted(one.result(30) for one in stops)
            state = client.settled(body["chatId"], turn).state
            if state == "completed":
                self.assertEqual(outcomes, ["already-idle", "already-idle"])
            else:
                self.assertEqual(
                    (outcomes, state), (["already-idle", "interrupt-requested"], "interrupted")
                )
        phases = {chat.processing_phase for chat in client.chats()}
        self.assertEqual(phases, {None})

    def stop_at_once(self, client: StrictClient, chat_id: str) -> str:
        """Stop a chat under an identity of its own; return the outcome."""
        return str(client.stop({"clientRequestId": client.request_id(), "chatId": chat_id}).outcome)


class FullDiskTests(FaultCase):
    """The workspace lies on a file system that has no room left."""

    def full(self) -> Service:
        """Start a controller whose workspace has 2 MiB, in a mount namespace of its own."""
        unshare = shutil.which("unshare")
        place = self.fleet.root / "small"
        place.mkdir()
        mount = 'mount -t tmpfs -o size=2m tmpfs "$0"'
        if (
            unshare is None
            or subprocess.run(
                [unshare, "-m", "sh", "-c", mount, str(place)], capture_output=True, check=False
            ).returncode
        ):
            raise SkipTest("no file system can be mounted here")
        config = self.fleet.root / "controller"
        argv = [
            *(unshare, "-m", "sh", "-c", f'{mount} && exec "$@"', str(place)),
            *(sys.executable, "-m", "garcon.cli.main", "controller", "--disable-auth"),
            *("--port", "0", "--bind-address", "127.0.0.1", "--enable-scripted-agent"),
            *("--config-dir", str(config), "--workspace-dir", str(place / "workspace")),
            *("--project-base-dir", str(self.fleet.projects)),
        ]
        return self.fleet.await_ready(self.fleet.start("controller", config, argv))

    def test_accepted_means_kept(self) -> None:
        """Once a write is refused the start is, with the reason; what was accepted stays."""
        controller = self.full()
        client = self.client(controller)
        accepted = []
        for _ in range(40):
            body = self.a_start(client, "say " + "x" * 60_000)
            said = client.ask(operations.START_CHAT, body)
            if said.status != 202:
                break
            turn = client.settled(body["chatId"], said.json["turnId"])
            accepted.append(body)
            if turn.state != "completed":
                self.assertIn("could not be kept", str(turn.error))
        self.assertEqual(said.status, 500)
        self.assertIn("full", said.json["error"])
        self.assertGreater(len(accepted), 2)
        listed = [chat.id for chat in client.chats()]
        self.assertEqual(sorted(listed), sorted(body["chatId"] for body in accepted))
        for body in accepted:
            first: Any = client.messages(body["chatId"], limit=200).messages[0].message
            self.assertEqual(first.content, body["command"])
        self.assertEqual(controller.stop(), 0)

    def test_a_turn_that_cannot_be_kept_fails(self) -> None:
        """Its agent is stopped, and the chat is free again."""
        controller = self.full()
        client = self.client(controller)
        (self.fleet.project("project") / "much").write_text("y" * 400_000)
        body = self.a_start(client, "\n".join(["run cat much"] * 10 + ["sleep 60"]))
        turn = client.start(body).turn_id
        receipt = client.settled(body["chatId"], turn)
        self.assertEqual(receipt.state, "failed")
        self.assertIn("could not be kept", str(receipt.error))
        (chat,) = client.chats()
        self.assertIsNone(chat.processing_phase)
        self.assertEqual(controller.stop(), 0)
