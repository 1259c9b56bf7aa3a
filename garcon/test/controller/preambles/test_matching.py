"""Which preambles apply where (control.md D.3)."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.preambles import GlobalScope, Preamble, TagFilter
from garcon.controller.preambles.matching import Place, defaults, text_of, unfit
from garcon.test.controller.preambles.test_catalog import AT, WORKER, there


def preamble(name: str, **more: Any) -> Preamble:
    """Return a preamble whose id and text are its name."""
    fields: dict[str, Any] = {
        "id": name,
        "enabled": True,
        "title": name,
        "content": name,
        "scope": GlobalScope(),
        "agent_ids": [],
        "tag_filter": TagFilter(),
        "created_at": AT,
        "updated_at": AT,
    }
    return Preamble(**(fields | more))


HERE = Place("local", "/work/app")


class DefaultTests(SynchronousTestCase):
    """What a new chat has by itself."""

    def chosen(self, *preambles: Preamble, agent: str = "claude", **more: Any) -> list[str]:
        return defaults(preambles, more.get("place", HERE), agent, more.get("tags", []))

    def test_order_and_switch(self) -> None:
        """The catalog's order; nothing that is off."""
        found = self.chosen(preamble("b"), preamble("off", enabled=False), preamble("a"))
        self.assertEqual(found, ["b", "a"])

    def test_directories(self) -> None:
        """Itself, or what lies below where that is wanted; a name alike is another directory."""
        cases = {
            "exact": ("/work/app", False, True),
            "above": ("/work", False, False),
            "above-nested": ("/work", True, True),
            "alike": ("/work/ap", True, False),
            "below": ("/work/app/x", True, False),
        }
        for name, (path, nested, applies) in cases.items():
            found = self.chosen(preamble(name, scope=there(path, nested)))
            self.assertEqual(bool(found), applies, name)

    def test_executors(self) -> None:
        """A rule without one is about Local."""
        elsewhere = Place(WORKER, "/work/app")
        local = preamble("l", scope=there("/work/app"))
        worker = preamble("w", scope=there("/work/app", executor_id=WORKER))
        self.assertEqual(self.chosen(local, worker), ["l"])
        self.assertEqual(self.chosen(local, worker, place=elsewhere), ["w"])

    def test_agents_and_tags(self) -> None:
        """Any of the agents; any or all of the tags."""
        either = preamble("any", tag_filter=TagFilter("any", ["a", "b"]))
        every = preamble("all", tag_filter=TagFilter("all", ["a", "b"]))
        codex = preamble("codex", agent_ids=["codex"])
        self.assertEqual(self.chosen(either, every, codex, tags=["a"]), ["any"])
        self.assertEqual(self.chosen(either, every, tags=["b", "a"]), ["any", "all"])
        self.assertEqual(self.chosen(either, every), [])
        self.assertEqual(self.chosen(codex, agent="codex"), ["codex"])


class SelectionTests(SynchronousTestCase):
    """A selection that is named."""

    def test_why_one_cannot_apply(self) -> None:
        """Missing, disabled or out of scope; agents and tags do not matter."""
        preambles = [
            preamble("fine", agent_ids=["codex"], tag_filter=TagFilter("all", ["x"])),
            preamble("off", enabled=False),
            preamble("far", scope=there("/elsewhere")),
        ]
        self.assertEqual(
            unfit(preambles, ["fine", "off", "far", "gone"], HERE),
            {"off": "disabled", "far": "out-of-scope", "gone": "missing"},
        )

    def test_what_it_says(self) -> None:
        """In the order named, the chat's id in its place; what no longer applies is left out."""
        preambles = [preamble("a", content="chat {{chat_id}}"), preamble("b")]
        self.assertEqual(text_of(preambles, ["b", "gone", "a"], HERE, "17"), "b\n\nchat 17")
        self.assertIsNone(text_of(preambles, ["gone"], HERE, "17"))
