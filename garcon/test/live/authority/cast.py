"""A controller in the test's own process, and its worker and their commands as real processes: so a
test can use what no command offers, and hold what it likes.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, cast

from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from garcon.contract import operations
from garcon.contract.operations import Operation
from garcon.controller.executors.terminals import terminals_of
from garcon.controller.http.listener import Address
from garcon.controller.principals import LOCAL_PRINCIPAL
from garcon.controller.service import Config, Controller
from garcon.deferreds import returns_deferred
from garcon.link.endpoints import Trust
from garcon.local.files import private_directory
from garcon.local.leases import Lease
from garcon.local.roots import ConfigRoot, workspace_lease
from garcon.test.live.shells import Shells
from garcon.testing.fleet import Finished, Fleet, Service, free_port

reactor: Any = _reactor


class Workshop(Shells, TestCase):
    """One worker with command access, ready; its gateway is a real process's."""

    timeout = 120
    worker_dials = True

    @returns_deferred
    async def setUp(self) -> None:  # type: ignore[override]  # trial waits for it
        self.fleet = Fleet()
        self.root = ConfigRoot(str(self.fleet.root / "controller"))
        self.workspace = self.root.workspace("default")
        for directory in (self.root.path, self.workspace):
            private_directory(directory)
        self.port = free_port()
        self.controller = await self.started()
        self.worker = await self.make_worker()
        await self.linked()

    @returns_deferred
    async def tearDown(self) -> None:  # type: ignore[override]  # likewise
        await self.controller.shut_down()
        closing: Deferred[Any] = deferToThread(self.fleet.close)
        await closing

    async def started(self) -> Controller:
        """Start a controller's process, as far as this one is one."""
        config = Config(
            root=self.root,
            workspace="default",
            workspace_dir=self.workspace,
            project_base=str(self.fleet.projects),
            address=Address("127.0.0.1", self.port),
            trust=Trust.from_environment(None, None),
            environment={},
        )
        paths = (self.root.controller_lease, workspace_lease(self.workspace))
        leases = [Lease.acquire(path) for path in paths]
        controller = Controller(reactor, config, lambda credentials: (), leases)
        await controller.start_up()
        return controller

    async def make_worker(self, name: str = "worker") -> Service:
        """Start a worker's process and register it."""
        body = {"label": name, "noTls": True, "allowControllerCli": True}
        if self.worker_dials:
            address = f"ws://127.0.0.1:{self.port}/executor/{{executorId}}"
            body |= {"direction": "executor-connects", "advertisedUrl": address}
            made = await self.ask(operations.CREATE_EXECUTOR, body)
            worker = self.fleet.worker("--no-tls", url=made["connectionUrl"], name=name)
        else:
            worker = self.fleet.worker("--listen", "0", "--no-tls", name=name)
            told = await self.command(worker, "executor", "connection-url")
            body |= {"direction": "controller-connects", "connectionUrl": told.out.strip()}
            made = await self.ask(operations.CREATE_EXECUTOR, body)
        self.executor_id: str = made["id"]
        return worker

    async def linked(self) -> None:
        """Wait until the worker can be used."""
        executors = self.controller.executors
        await self.eventually(
            lambda: executors.availability(self.executor_id) == "ready", "a linked worker"
        )
        self.terminals = terminals_of(executors, self.executor_id)

    async def restart(self) -> None:
        """Replace the controller by another one of the same workspace, at the same port."""
        await self.controller.shut_down()
        self.controller = await self.started()

    # -- who asks --

    async def ask(
        self,
        operation: Operation,
        body: dict[str, Any] | None = None,
        executor_id: str = "",
        **query: str,
    ) -> Any:
        """Use an operation as a person at the controller would."""
        answer = await self.controller.handlers.run(
            operation,
            LOCAL_PRINCIPAL,
            query=list(query.items()),
            body=body,
            executor_id=executor_id or None,
        )
        said = json.loads(answer.body)
        self.assertLess(answer.status, 300, said)
        return said

    async def chats(self) -> list[dict[str, Any]]:
        """Return the list of chats."""
        listed: list[dict[str, Any]] = (await self.ask(operations.LIST_CHATS))["sessions"]
        return listed

    async def receipt(self, chat: str, turn: str) -> dict[str, Any]:
        """Return a turn's receipt once it is settled."""
        for _ in range(600):
            found: dict[str, Any] = await self.ask(
                operations.TURN_RECEIPT, chatId=chat, turnId=turn
            )
            if found["state"] != "pending":
                return found
            await deferLater(reactor, 0.05)
        raise AssertionError(f"turn {turn} never ends")

    async def asked(self, chat: str) -> list[dict[str, Any]]:
        """Return a chat's permission requests once there is one."""
        while True:
            found = await self.ask(operations.SNAPSHOT, chatId=chat, limit="1")
            rows: list[dict[str, Any]] = found["transientFeed"]["rows"]
            if rows:
                return rows
            await deferLater(reactor, 0.05)

    def decision(self, chat: str, row: dict[str, Any]) -> dict[str, Any]:
        """Return a person's consent to a request."""
        return {
            "clientRequestId": "decision",
            "chatId": chat,
            "permissionOccurrenceId": row["permissionOccurrenceId"],
            "allow": True,
            "alwaysAllow": False,
            "control": {
                "serverInstanceId": self.controller.instance_id,
                "chatId": chat,
                "runId": row["runId"],
                "permissionOccurrenceId": row["permissionOccurrenceId"],
            },
        }

    async def grant(self, is_given: bool) -> None:
        body = {"allowControllerCli": is_given}
        await self.ask(operations.UPDATE_EXECUTOR, body, self.executor_id)

    def command(self, service: Service, *words: str, check: bool = True) -> Deferred[Finished]:
        """Run the command beside a service."""
        run = partial(self.fleet.garcon, service, *words, check=check)
        return cast("Deferred[Finished]", deferToThread(run))
