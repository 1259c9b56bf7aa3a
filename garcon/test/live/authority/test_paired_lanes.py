"""Bulk that is held in the network, while people type, stop turns and decide (real processes)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract import operations
from garcon.contract.files import FileTarget
from garcon.test.live.authority.cast import Workshop, reactor
from garcon.testing.fleet import Finished
from garcon.testing.proxy import FaultProxy

WHOLE = 3 * 1024 * 1024


class PairedLanes(Workshop):
    """A worker whose link passes a proxy that can hold either connection."""

    async def make_worker(self, name: str = "worker") -> Any:
        self.proxy = FaultProxy(reactor, self.port)
        self.addCleanup(self.proxy.stop)
        controllers, self.port = self.port, self.proxy.start()
        worker = await super().make_worker(name)
        self.port = controllers
        return worker

    async def linked(self) -> None:
        await super().linked()
        await self.eventually(lambda: len(self.proxy.open()) == 2, "both lanes")
        executor = self.controller.executors._known(self.executor_id)
        await self.eventually(lambda: executor.snapshot().bulk.availability == "ready", "bulk")  # type: ignore[union-attr]

    def hold_bulk(self, is_held: bool) -> None:
        """Let bulk's bytes wait in the network, in both directions, or go on."""
        for side in (0, 1):
            self.proxy.open()[1].line(side).hold(is_held)

    async def test_primary_goes_on(self) -> None:
        """Files and commands wait on a held bulk lane; meanwhile a shell answers, a turn's rows
        come, its question is answered and a turn is stopped, all from the worker.  Then everything
        that waited arrives, once.
        """
        project = self.fleet.project("project")
        (project / "large").write_bytes(b"x" * WHOLE)
        _, screen = await self.shell()
        words = ("--agent", "scripted", "--model", "scripted", "--cwd", str(project))
        done = await self.command(self.worker, "start-async", *words, "emit 20\nask true\nsay end")
        asking, turn = done.handle()
        (row,) = await self.asked(asking)
        done = await self.command(self.worker, "start-async", *words, "sleep 60")
        sleeping, _ = done.handle()
        self.hold_bulk(True)
        files = self.controller.executors.existing(self.executor_id).files  # type: ignore[attr-defined]
        reads = [files.read(FileTarget(str(project), "large")) for _ in range(2)]
        listing: Deferred[Finished] = self.command(self.worker, "chats", "--json")
        answers: list[Finished] = []
        listing.addCallback(answers.append)

        for n in range(3):
            await self.enter(screen, f"echo ty''ped {n}", f"typed {n}")
        await self.ask(operations.PERMISSION_DECISION, self.decision(asking, row))
        receipt = await self.receipt(asking, turn)
        self.assertTrue(receipt["output"]["text"].endswith("end"))
        done = await self.command(self.worker, "stop", sleeping)
        self.assertIn("interrupt-requested", done.out)
        done = await self.command(self.worker, "wait", asking, "--turn", turn)
        self.assertIn("end", done.out)
        self.assertFalse(any(d.called for d in reads) or answers)

        self.hold_bulk(False)
        for d in reads:
            content = await d
            self.assertEqual(len(content.data), WHOLE)
        await listing
        self.assertEqual(len(answers[0].json["chats"]), 2)
        self.assertEqual(len(await self.chats()), 2)

    async def test_a_shell_over_a_disconnection(self) -> None:
        """Nobody can reach the worker; its commands say so, and hold nothing back for later.  When
        the link is there again the same shell's commands work.
        """
        info, screen = await self.shell()
        told = self.fleet.projects / "told"
        command = "garcon start-async --agent scripted --model scripted --cwd . 'say'"
        loop = f"until {command} > started 2> told; do sleep 0.2; done; echo ba''ck"
        await self.terminals.input(screen.attachment_id, "until [ -e go ]; do sleep 0.1; done; ")
        await self.terminals.input(screen.attachment_id, loop + "\n")
        self.proxy.refuse()
        self.proxy.cut()
        executors = self.controller.executors
        await self.eventually(
            lambda: executors.availability(self.executor_id) != "ready", "the disconnection"
        )
        (self.fleet.projects / "go").touch()
        await self.eventually(
            lambda: told.exists() and "CLI_CONTROLLER_UNAVAILABLE" in told.read_text(), "a refusal"
        )
        self.assertEqual(await self.chats(), [])
        self.proxy.refuse(False)
        await self.linked()
        screen = await self.attach(info)
        await self.seen(screen, "back")
        self.assertEqual(len(await self.chats()), 1)
