"""Terminals of a worker over a real link, with real shells (server.md C)."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from msgspec import Struct
from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from zope.interface import implementer

from garcon.contract.limits import TERMINAL_INPUT
from garcon.contract.terminals import (
    UNAVAILABLE,
    TerminalDetached,
    TerminalNotification,
)
from garcon.controller.executors.remote_terminals import RemoteTerminals
from garcon.deferreds import Tasks, returns_deferred
from garcon.errors import GarconError
from garcon.link.endpoints import DialTarget
from garcon.link.interfaces import ICapturedLink, ILinkEvents, ITerminalEvents
from garcon.link.link import ControllerLink, WorkerLink
from garcon.runtime.executor import LocalRuntime
from garcon.test.link.cast import EXECUTOR, SECRET
from garcon.test.live.linked import Linked
from garcon.test.live.shells import Screen, Shells
from garcon.worker.serving.serving import Serving

reactor: Any = _reactor


@implementer(ILinkEvents, ITerminalEvents)
class Controller:
    """Installs sessions, and has a worker's terminals."""

    def __init__(self) -> None:
        self.link: ControllerLink | None = None
        self.tasks = Tasks()
        self.terminals = RemoteTerminals(reactor, lambda: self.link, 0.05)
        self.is_active = False

    def primary_installed(self, captured: ICapturedLink) -> None:
        self.tasks.spawn("installation", self.install())

    async def install(self) -> None:
        assert self.link is not None
        try:
            await self.link.reconcile_primary()
        except GarconError:
            return
        self.link.activate()
        self.is_active = True

    def primary_lost(self, captured: ICapturedLink, cause: str) -> None:
        self.is_active = False
        self.terminals.session_lost()

    def bulk_changed(self, phase: str) -> None:
        """Terminals need none."""

    def link_failed(self, kind: str, text: str) -> None:
        """It tries again."""

    def producer_received(self, binding_id: str, seq: int, frame: Any) -> None:
        raise AssertionError("nothing runs here")

    def producer_acknowledged(self, acknowledgements: dict[str, int]) -> None:
        raise AssertionError("only workers hear of it")

    def terminal_received(self, notification: TerminalNotification) -> None:
        self.terminals.received(notification)

    def terminal_detached(self, attachment_id: str) -> None:
        raise AssertionError("only workers hear of it")

    def terminals_taken(self, taken: dict[str, int]) -> None:
        raise AssertionError("only workers hear of it")


@implementer(ILinkEvents, ITerminalEvents)
class Worker:
    """Serves a runtime over whichever link there is."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self.link: WorkerLink | None = None
        self.serving = Serving(reactor, runtime, self.offer, tell=self.tell)

    def offer(self, seq: int, frame: Struct) -> bool:
        return self.link is not None and self.link.send_producer(seq, frame)

    def tell(self, notification: TerminalNotification) -> bool:
        return self.link is not None and self.link.send_terminal(notification)

    def primary_installed(self, captured: ICapturedLink) -> None:
        self.serving.session_started(captured)

    def primary_lost(self, captured: ICapturedLink, cause: str) -> None:
        self.serving.session_lost(captured)

    def bulk_changed(self, phase: str) -> None:
        """Terminals need none."""

    def link_failed(self, kind: str, text: str) -> None:
        """It tries again."""

    def producer_received(self, binding_id: str, seq: int, frame: Any) -> None:
        raise AssertionError("a worker gets none")

    def producer_acknowledged(self, acknowledgements: dict[str, int]) -> None:
        self.serving.acknowledged(acknowledgements)

    def terminal_received(self, notification: TerminalNotification) -> None:
        raise AssertionError("a worker gets none")

    def terminal_detached(self, attachment_id: str) -> None:
        assert self.serving.terminals is not None
        self.serving.terminals.detached(attachment_id)

    def terminals_taken(self, taken: dict[str, int]) -> None:
        assert self.serving.terminals is not None
        self.serving.terminals.taken(taken)


class RemoteShells(Shells, Linked):
    """Behind a real link whose worker dials, with a proxy between that can break it."""

    timeout = 120

    def make_links(self, **more: Any) -> None:
        base = Path(self.mktemp()).resolve()
        base.mkdir(parents=True)
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(base),
            "SHELL": "/bin/bash",
        }
        self.runtime = LocalRuntime(
            reactor, "i", str(base), environment, "executor", str(base / "config"), []
        )
        self.worker_side_owner = Worker(self.runtime)
        self.target = DialTarget(self.url, self.trust, False)
        self.worker = WorkerLink(
            reactor,
            SECRET,
            "worker-runtime",
            self.worker_side_owner,
            self.worker_side_owner.serving.handlers(),
            self.target if self.worker_dials else None,
            settings=self.settings,
        )
        self.worker_side_owner.link = self.worker
        self.make_controller("controller-runtime")

    def make_controller(self, runtime_id: str) -> None:
        """Begin a controller's process: nothing of an earlier one is known to it."""
        self.owner = Controller()
        self.controller = ControllerLink(
            reactor,
            EXECUTOR,
            SECRET,
            runtime_id,
            self.owner,
            {},
            None if self.worker_dials else self.target,
            settings=self.settings,
        )
        self.owner.link = self.controller
        self.terminals = self.owner.terminals

    def is_up(self) -> bool:
        return self.owner.is_active

    @returns_deferred
    async def tearDown(self) -> None:  # type: ignore[override]  # trial waits for it
        await self.runtime.stop()
        stopped: Deferred[Any] = super().tearDown()
        await stopped
        self.worker_side_owner.serving.stop()
        await self.owner.tasks.stopService()

    async def state(self, screen: Screen) -> str:
        """Return what the shell remembers and which process it is."""
        screen.text = ""
        await self.enter(screen, "echo sta''te $kept $$ .", " .")
        found = re.search(r"state (\w+ \d+) \.", screen.text)
        assert found is not None, screen.text
        return found[1]

    async def test_over_a_cut(self) -> None:
        """The shell keeps its state, its id and its process, and what it says meanwhile comes
        afterwards, once.
        """
        info, screen = await self.shell()
        await self.enter(screen, "kept=yes; echo se''t", "set")
        before = await self.state(screen)
        await self.terminals.input(screen.attachment_id, "sleep 0.5; echo mean''while\n")
        self.proxy.is_black_hole = True
        self.cut()
        await self.eventually(lambda: screen.others, "the end of the attachment")
        end = screen.others[-1]
        assert isinstance(end, TerminalDetached)
        self.assertEqual(end.code, UNAVAILABLE)
        await deferLater(reactor, 1)
        self.proxy.is_black_hole = False
        self.cut()
        await self.until(self.is_up)
        listed = await self.terminals.list("p")
        self.assertEqual([t.session_id for t in listed.terminals], [info.session_id])
        again = await self.attach(info, screen.last)
        await self.seen(again, "meanwhile")
        self.assertEqual(again.text.count("meanwhile"), 1)
        self.assertEqual(await self.state(again), before)

    async def test_over_a_restart_of_the_controller(self) -> None:
        """Likewise, for whoever signs in there."""
        info, screen = await self.shell()
        await self.enter(screen, "kept=yes; echo se''t", "set")
        before = await self.state(screen)
        await self.controller.close("restart")
        self.make_controller("another controller process")
        self.controller.start()
        await self.until(self.is_up)
        again = await self.attach(info, client_id="another browser", intent="restore")
        self.assertEqual(await self.state(again), before)

    async def test_a_flood(self) -> None:
        """Arrives whole and in order with a reader that takes it."""
        _, screen = await self.shell()
        screen.keeps = False
        count = 400_000
        await self.terminals.input(screen.attachment_id, f"seq 1 {count}; echo e''nd\n")
        size = sum(len(str(n)) + 2 for n in range(1, count + 1))
        await self.eventually(lambda: screen.size > size, "all of it", 60)
        self.assertEqual([type(e) for e in screen.others], [])

    async def test_a_paste(self) -> None:
        """Arrives whole and in order."""
        _, screen = await self.shell()
        await self.enter(screen, "stty raw; echo go; head -c 2000000 | sha256sum; stty -raw", "go")
        text = "".join(f"{n:07}\n" for n in range(250_000))
        pieces = [
            text[start : start + TERMINAL_INPUT] for start in range(0, len(text), TERMINAL_INPUT)
        ]
        calls = [self.terminals.input(screen.attachment_id, piece) for piece in pieces]
        for d in calls:
            await d
        await self.seen(screen, hashlib.sha256(text.encode()).hexdigest(), 60)


class DialledShells(RemoteShells):
    """The same, where the controller dials."""

    worker_dials = False
