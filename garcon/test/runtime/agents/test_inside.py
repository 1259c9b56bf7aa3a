"""Which files lie in a project."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.agents.inside import is_inside


class InsideTests(SynchronousTestCase):
    def setUp(self) -> None:
        base = Path(self.mktemp()).resolve()
        self.project, self.outside = base / "project", base / "projects"
        (self.project / "deep" / "deeper").mkdir(parents=True)
        self.outside.mkdir()

    def is_inside(self, path: str | Path) -> bool:
        """Ask it of this project."""
        return is_inside(str(path), str(self.project))

    def test_by_its_name(self) -> None:
        """Whole or from the project on, and whether it is there or not."""
        for path in ("a", "./a", "new/a", "new/../a", self.project / "a", self.project / "deep"):
            self.assertTrue(self.is_inside(path), path)
        for path in ("..", "../a", "new/../../a", "../projects/a", self.outside / "a", "/etc/a"):
            self.assertFalse(self.is_inside(path), path)

    def test_the_project_itself(self) -> None:
        """Is no file of it."""
        for path in ("", ".", self.project, f"{self.project}/"):
            self.assertFalse(self.is_inside(path), path)

    def test_links_count_for_where_they_lead(self) -> None:
        """Those of the parents, the file's own, and those on the way to the project."""
        (self.project / "out").symlink_to(self.outside)
        (self.project / "file").symlink_to(self.outside / "not there")
        (self.project / "in").symlink_to("deep")
        (self.outside / "back").symlink_to(self.project)
        for path in ("out/a", "out/new/a", "file"):
            self.assertFalse(self.is_inside(path), path)
        for path in ("in/a", str(self.outside / "back" / "a")):
            self.assertTrue(self.is_inside(path), path)
        self.assertTrue(is_inside("a", str(self.outside / "back")))

    def test_a_way_back_through_a_link(self) -> None:
        """It has to stay inside by its names, and by the directories."""
        (self.project / "link").symlink_to("deep/deeper")
        (self.project / "out").symlink_to(self.outside)
        self.assertTrue(self.is_inside("link/../a"))
        self.assertFalse(self.is_inside("link/../../a"))
        self.assertFalse(self.is_inside("out/../a"))

    def test_what_is_no_path(self) -> None:
        """Is nowhere."""
        for path in ("a\0b", "a\ud800"):
            self.assertFalse(self.is_inside(path))
        self.assertFalse(is_inside("a", "\0"))
