"""What the processes below a role can read in their own environments, while they run."""

from __future__ import annotations

from pathlib import Path

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

    def test_below_a_worker(self) -> None:
        """Nothing of the link and no capability; the worker itself was started with the URL."""
        self.assertIn(self.url.encode(), environment(self.worker.process.pid))
        self.show_children(self.worker)

    def test_below_a_controller(self) -> None:
        """The same on the controller's side."""
        self.show_children(self.controller)
