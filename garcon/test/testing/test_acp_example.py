"""Installing the example agent of the PyPI package, with a pip that finds nothing."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.acp_example import EXAMPLE, VERSION
from garcon.testing.npm_agents import NotInstalled


class Installing(SynchronousTestCase):
    def setUp(self) -> None:
        self.cache = Path(self.mktemp()).absolute()

    def test_finished_one_is_found(self) -> None:
        """Without anything being installed."""
        place = self.cache / VERSION
        place.mkdir(parents=True)
        (place / "agent").touch(0o755)
        (place / "finished").write_text("agent")
        self.assertEqual(EXAMPLE.install(self.cache, {}), str(place / "agent"))

    def test_failure_says_which_step(self) -> None:
        """And nothing that is not finished counts as there."""
        environment = {
            "PATH": os.environ["PATH"],
            "PIP_NO_INDEX": "1",
            "PIP_CONFIG_FILE": "/dev/null",
        }
        for _ in range(2):
            error = self.assertRaises(NotInstalled, EXAMPLE.install, self.cache, environment)
            self.assertIn("-m pip", str(error))

    def test_place(self) -> None:
        """As the variable says, else among the user's caches."""
        named = EXAMPLE.cache_directory({EXAMPLE.variable: "/x"})
        self.assertEqual(named, Path("/x"))
        usual = EXAMPLE.cache_directory({"XDG_CACHE_HOME": "/caches"})
        self.assertEqual(usual, Path("/caches/garcon-tests/acp-example"))
