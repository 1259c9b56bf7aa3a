"""Changed executors are told of at once, and then in an even pace (control.md E.2)."""

from __future__ import annotations

from msgspec import structs
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.events import ExecutorsChanged
from garcon.contract.executors import ExecutorSnapshot, MachineServices
from garcon.controller.executors.notices import ExecutorNotices

SNAPSHOT = ExecutorSnapshot(
    id="local",
    label="a",
    kind="local",
    enabled=True,
    allow_controller_cli=True,
    allow_executor_management=True,
    direction=None,
    availability="ready",
    bulk=None,
    instance_id=None,
    project_base_path=None,
    last_error=None,
    machine_services=MachineServices(files=True, git=True, gh=True, terminals=True),
)


class NoticesTests(SynchronousTestCase):
    """One executor whose label changes."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.label = "a"
        self.told: list[str] = []
        self.notices = ExecutorNotices(self.clock, self.shown, self.tell)

    def shown(self) -> list[ExecutorSnapshot]:
        """The executor as it is."""
        return [structs.replace(SNAPSHOT, label=self.label)]

    def tell(self, event: ExecutorsChanged) -> None:
        """Remember it."""
        self.told.append(event.executors[0].label)

    def change(self, label: str) -> None:
        """Change it, and let the turn end."""
        self.label = label
        self.notices.changed()
        self.clock.advance(0)

    def test_at_once(self) -> None:
        """With the state at the end of the turn that changed it."""
        self.notices.changed()
        self.label = "b"
        self.clock.advance(0)
        self.assertEqual(self.told, ["b"])

    def test_at_most_once_a_second(self) -> None:
        """What happens meanwhile is told together, with its last state."""
        for label in "bcd":
            self.change(label)
        self.clock.advance(0.9)
        self.assertEqual(self.told, ["b"])
        self.clock.advance(0.1)
        self.assertEqual(self.told, ["b", "d"])
        self.clock.advance(1)
        self.change("e")
        self.assertEqual(self.told, ["b", "d", "e"])

    def test_what_is_the_same_is_not_told(self) -> None:
        """Also where it changed and changed back within the second."""
        self.change("b")
        self.change("c")
        self.change("b")
        self.clock.advance(1)
        self.change("b")
        self.assertEqual(self.told, ["b"])

    def test_after_its_end_nothing_is_told(self) -> None:
        """And no timer is left."""
        self.change("b")
        self.label = "c"
        self.notices.changed()
        self.notices.stop()
        self.notices.changed()
        self.assertEqual((self.clock.getDelayedCalls(), self.told), ([], ["b"]))
