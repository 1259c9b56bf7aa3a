"""Where secrets of ours are not: below a role, in arguments, in output and in logs, after a whole
run with agents, tools and terminals.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.logger import LogEvent, eventAsText, globalLogPublisher

from garcon.contract import operations
from garcon.test.live.authority.cast import Workshop
from garcon.test.live.fleets import FleetTestCase
from garcon.testing.fleet import Service, eventually

SLEEP = "run sleep 47"


def children(pid: int) -> list[int]:
    """Return every process below another, by the kernel's account."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (thread / "children").read_text().split()):
            found += [child, *children(child)]
    return found


def arguments(pid: int) -> list[bytes]:
    """Return a process's arguments."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]


def environment(pid: int) -> bytes:
    """Return the environment that a process was started with."""
    return Path(f"/proc/{pid}/environ").read_bytes()


class ChildEnvironmentTests(FleetTestCase):
    """An agent and its tools get no secret of the role that starts them."""

    def setUp(self) -> None:
        super().setUp()
        self.controller, self.worker, executor_id = self.fleet.pair()
        self.url = self.fleet.garcon(
            self.controller, "executor", "connection", executor_id
        ).out.strip()
        self.hidden = {
            "the connection URL": self.url,
            "its address": self.url.partition("#")[0],
            "the secret": self.url.rpartition("=")[2],
            "the URL's variable": "GARCON_CONTROLLER_URL",
            "the controller's capability": self.controller.descriptor()["localCapability"],
            "the worker's capability": self.worker.descriptor()["localCapability"],
        }

    def show_children(self, service: Service) -> None:
        """Start a turn whose tool sleeps, and read what lies below the service meanwhile."""
        self.start(service, SLEEP, wait=False)
        pid = service.process.pid

        def running() -> list[int]:
            try:
                found = children(pid)
                return found if any(arguments(p) == [b"sleep", b"47"] for p in found) else []
            except OSError:
                return []  # one of them came or went meanwhile

        found = eventually("a tool's process", running)
        names = [arguments(p) for p in found]
        self.assertTrue(any(b"scripted_agent" in b" ".join(words) for words in names), names)
        for child in found:
            held = environment(child)
            self.assertIn(b"GARCON_RUNTIME=", held)
            for what, text in self.hidden.items():
                self.assertNotIn(text.encode(), held, f"{what} in {arguments(child)}")
        for process in (pid, *found):
            typed = b" ".join(arguments(process))
            for what, text in self.hidden.items():
                self.assertNotIn(text.encode(), typed, what)

    def test_below_a_worker(self) -> None:
        """Nothing of the link and no capability; the worker itself was started with the URL."""
        self.assertIn(self.url.encode(), environment(self.worker.process.pid))
        self.show_children(self.worker)

    def test_below_a_controller(self) -> None:
        """The same on the controller's side."""
        self.show_children(self.controller)


class WholeRun(Workshop):
    """Turns, tools, a terminal, refusals, a reveal and a restart; then everything is searched."""

    async def setUp(self) -> None:  # type: ignore[override]
        self.events: list[LogEvent] = []
        observer: Any = self.events.append
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        await super().setUp()
        self.said: list[str] = []

    async def used(self, *words: str, check: bool = True) -> str:
        """Use the command beside the worker; what it says is searched too."""
        done = await self.command(self.worker, *words, check=check)
        self.said.append(str(done))
        return done.out

    def secrets(self) -> dict[str, str]:
        record = self.controller.executors.registry.get(self.executor_id)
        assert record is not None
        return {
            "the link's secret": record.secret,
            "the worker's capability": self.worker.descriptor()["localCapability"],
            "the controller's capability": self.controller._capability,
        }

    async def test_nothing_secret_is_left_lying_about(self) -> None:
        """Not in any process's arguments, not in the environment of any child, not in what anything
        printed or logged; what was revealed on purpose is in that one answer alone.
        """
        hidden = self.secrets()
        project = str(self.fleet.project("project"))
        words = ("--agent", "scripted", "--model", "scripted", "--cwd", project)
        _, screen = await self.shell()
        await self.enter(screen, "garcon executor list --json; env; echo li''sted", "listed")
        await self.enter(screen, "sleep 48 & echo be''gan", "began")
        await self.used("start", *words, "run env; garcon list agents\nsay done")
        await self.used("executor", "connection", self.executor_id, check=False)
        await self.used("read", "nothing", "1", check=False)
        await self.ask(
            operations.UPDATE_EXECUTOR, {"allowExecutorManagement": True}, self.executor_id
        )
        revealed = await self.command(self.worker, "executor", "connection", self.executor_id)
        self.assertIn(hidden["the link's secret"], revealed.out)
        await self.used("executor", "list", "--json")
        await self.used("start-async", *words, "sleep 47\nrun sleep 47")
        await self.restart()
        await self.linked()
        hidden["the next controller's capability"] = self.controller._capability
        await self.used("start-async", *words, SLEEP)
        pid = self.worker.process.pid
        await self.eventually(lambda: {b"47", b"48"} <= sleeping(pid), "what runs below the worker")
        below = children(pid)
        for child in below:
            held = environment(child)
            for what, text in {**hidden, "the URL's variable": "GARCON_CONTROLLER_URL=w"}.items():
                self.assertNotIn(text.encode(), held, f"{what} in {arguments(child)}")
        searched = {
            "arguments": "\n".join(map(repr, map(arguments, (pid, *below)))),
            "the worker's output": self.fleet.logs(),
            "commands": "\n".join(self.said),
            "the terminal": screen.text,
            "the controller's log": "\n".join(map(eventAsText, self.events)),
            "the log's values": repr(self.events),
        }
        for where, text in searched.items():
            self.assertTrue(text, where)
            for what, secret in hidden.items():
                self.assertNotIn(secret, text, f"{what} in {where}")


def sleeping(pid: int) -> set[bytes]:
    """Return how long the processes below another sleep, of those that do nothing else."""
    found = set()
    for child in children(pid):
        try:
            words = arguments(child)
        except OSError:
            continue  # it ended meanwhile
        if len(words) == 2 and words[0] == b"sleep":
            found.add(words[1])
    return found
