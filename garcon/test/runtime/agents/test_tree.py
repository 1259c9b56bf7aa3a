"""Who descends from an agent, read from a made-up ``/proc``."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.agents.tree import Process, find, running

MARK = b"GARCON_AGENT_TREE=mark"


class Finding(SynchronousTestCase):
    def setUp(self) -> None:
        self.proc = Path(self.mktemp())
        self.proc.mkdir(parents=True)
        (self.proc / "self").mkdir()

    def process(
        self,
        pid: int,
        parent: int,
        *,
        session: int = 1,
        started: int = 5,
        state: str = "S",
        environment: bytes = b"A=1\0",
        name: str = "sh",
    ) -> None:
        """Write one process."""
        place = self.proc / str(pid)
        place.mkdir(exist_ok=True)
        fields = [state, parent, session, session, *[0] * 15, started, 0]
        (place / "stat").write_text(f"{pid} ({name}) {' '.join(map(str, fields))}\n")
        (place / "environ").write_bytes(environment)

    def found(self, root: int = 100) -> set[int]:
        return {process.pid for process in find(root, MARK, str(self.proc))}

    def test_children_and_their_children(self) -> None:
        """Whoever hangs on the agent, in whatever session; the agent itself is not its own."""
        self.process(100, 1)
        self.process(101, 100, session=101)
        self.process(102, 101, session=102)
        self.process(200, 1)
        self.assertEqual(self.found(), {101, 102})

    def test_orphans(self) -> None:
        """Those whose parents are gone are known by their session or their mark, with children."""
        self.process(101, 1, session=100)
        self.process(102, 1, environment=b"A=1\0" + MARK + b"\0B=2\0")
        self.process(103, 102)
        self.process(104, 1, environment=MARK + b"-of-another\0")
        self.assertEqual(self.found(), {101, 102, 103})

    def test_ended_ones_are_left_out(self) -> None:
        """A zombie needs no ending."""
        self.process(101, 100, state="Z")
        self.assertEqual(self.found(), set())

    def test_names_may_hold_anything(self) -> None:
        """A name with a bracket and a space does not shift the fields."""
        self.process(101, 100, name=") S 1 (", started=77)
        self.assertEqual(find(100, MARK, str(self.proc)), {Process(pid=101, started=77)})

    def test_same_id_at_another_time_is_another_process(self) -> None:
        """Only what still is the process that was recorded runs."""
        self.process(101, 100, started=5)
        self.process(102, 100, state="Z")
        recorded = {Process(101, 5), Process(101, 6), Process(102, 5), Process(103, 5)}
        self.assertEqual(running(recorded, str(self.proc)), {Process(101, 5)})

    def test_machine_without_proc(self) -> None:
        """There is nothing to be found, and that is no error."""
        self.assertEqual(find(100, MARK, str(self.proc / "gone")), set())
