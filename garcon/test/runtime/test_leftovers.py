"""What outlived what it was started for: who counts, read from a made-up ``/proc``."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime import marks
from garcon.runtime.leftovers import Leftover, find
from garcon.runtime.marks import Mark, Marks
from garcon.test.runtime.made_up_proc import MadeUpProc

OURS = Marks("owner", "now")
ME = 50
BEFORE = 1_000


def marked(generation: str, tree: str = "", owner: str = "owner") -> bytes:
    """Return the environment of one that was started by a generation."""
    above = Marks(owner, generation).put_into({})
    return marks.variable(above) + (f".{tree}" if tree else "").encode() + b"\0B=2\0"


class MarkTests(SynchronousTestCase):
    def test_owner_is_a_role_with_its_config_root(self) -> None:
        """The same for each generation of it, another for any other; and it names neither."""
        first, second = Marks.of("executor", "/root/c"), Marks.of("executor", "/root/c")
        self.assertEqual(first.owner, second.owner)
        self.assertNotEqual(first.generation, second.generation)
        self.assertNotEqual(first.owner, Marks.of("controller", "/root/c").owner)
        self.assertNotEqual(first.owner, Marks.of("executor", "/root/d").owner)
        self.assertNotIn("root", str(first))

    def test_each_tree_has_a_mark_of_its_own(self) -> None:
        """Which says whose it is, and replaces what the service itself was started with."""
        environment = OURS.put_into({"A": "1", "GARCON_AGENT_TREE": "other.gone.tree"})
        one, two = marks.branch(environment), marks.branch(environment)
        self.assertEqual((one["A"], set(one)), ("1", {"A", "GARCON_AGENT_TREE"}))
        self.assertNotEqual(one, two)
        found = marks.read([b"A=1", marks.variable(one), b""])
        self.assertEqual(found, Mark(marks.variable(one), "owner", "now"))
        self.assertNotIn("GARCON_AGENT_TREE", marks.variable(marks.branch({})).decode()[18:])

    def test_what_is_no_mark(self) -> None:
        """Nothing of ours can be read from it."""
        self.assertIsNone(marks.read([b"A=GARCON_AGENT_TREE=owner.now", b""]))
        for text in (b"", b"owner", b".", b"\xff\xfe", b"0123abc"):
            found = marks.read([b"GARCON_AGENT_TREE=" + text])
            assert found is not None
            self.assertNotEqual((found.owner, found.generation), ("owner", "now"))


class FindTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.proc = MadeUpProc.at(Path(self.mktemp()))
        self.process = self.proc.process
        self.process(1, 0)
        self.process(40, 1)
        self.process(ME, 40)

    def find(self, *own: int) -> list[Leftover]:
        return find(OURS, own, BEFORE, ME, str(self.proc))

    def found(self, *own: int) -> dict[int, str]:
        return {one.seen.process.pid: one.origin for one in self.find(*own)}

    def test_of_an_earlier_generation(self) -> None:
        """Whatever carries its mark, with what hangs on it; nobody else's."""
        self.process(100, 1, environment=marked("before", "a"))
        self.process(101, 100)
        self.process(102, 1, environment=marked("before"))
        self.process(103, 1, environment=marked("before", "a", owner="another"))
        self.process(104, 1, environment=b"GARCON_AGENT_TREE=0123\0")
        self.process(105, 1)
        self.assertEqual(self.found(), {100: "earlier", 101: "earlier", 102: "earlier"})

    def test_of_this_generation(self) -> None:
        """A tree is in use while one of our children belongs to it; what is left of another is an
        orphan, wherever it hangs.
        """
        self.process(100, ME, environment=marked("now", "a"))
        self.process(101, 100, environment=marked("now", "a"))
        self.process(102, ME, environment=marked("now", "a"))
        self.process(103, 1, environment=marked("now", "a"))
        self.process(104, ME, environment=marked("now", "b"))
        self.process(105, 1, environment=marked("now", "b"))
        self.process(106, 105)
        self.assertEqual(self.found(100), {104: "orphan", 105: "orphan", 106: "orphan"})

    def test_that_came_home_without_a_mark(self) -> None:
        """It hangs on us, and we did not start it; one that we started meanwhile is not taken for
        it.
        """
        self.process(100, ME, started=BEFORE - 1)
        self.process(101, ME, started=BEFORE)
        self.process(102, ME, started=BEFORE - 1)
        self.process(103, 100)
        self.assertEqual(self.found(102), {100: "orphan", 103: "orphan"})

    def test_the_service_and_those_above_it_are_none(self) -> None:
        """Also where it was started from a terminal of an earlier one."""
        self.process(40, 1, environment=marked("before", "a"))
        self.process(ME, 40, environment=marked("before", "a"))
        self.process(41, 40, environment=marked("before", "a"))
        self.process(100, ME, environment=marked("now", "b"))
        self.assertEqual(self.found(100), {41: "earlier"})

    def test_a_child_in_use_below_a_left_over_one(self) -> None:
        """A mark of its own says better what it is than its parent."""
        self.process(100, 1, environment=marked("before", "a"))
        self.process(101, 100, environment=marked("now", "b"))
        self.process(102, ME, environment=marked("now", "b"))
        self.assertEqual(self.found(102), {100: "earlier"})

    def test_ended_ones_are_left_out(self) -> None:
        """One that only waits to be collected needs no ending."""
        self.process(100, 1, environment=marked("before", "a"), state="Z")
        self.process(101, ME, state="Z")
        self.assertEqual(self.found(), {})

    def test_the_oldest_comes_first(self) -> None:
        """With its name, whatever that holds."""
        self.process(100, 1, environment=marked("before", "a"), started=9, name="a) b")
        self.process(101, 1, environment=marked("before", "a"), started=8)
        found = self.find()
        self.assertEqual([one.seen.process.pid for one in found], [101, 100])
        self.assertEqual(found[1].seen.name, "a) b")

    def test_machine_without_proc(self) -> None:
        """There is nothing to be found, and that is no error."""
        self.assertEqual(find(OURS, (), BEFORE, ME, str(self.proc.path / "gone")), [])
