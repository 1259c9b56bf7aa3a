"""An agent of the Agent Client Protocol that is added by configuration alone; those that Garcon
ships are in the table of agents.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from twisted.internet import reactor
from twisted.trial.unittest import SkipTest

from garcon.contract.runs import RunEnded
from garcon.runtime.agents.configured import path_in, read
from garcon.runtime.executor import LocalRuntime
from garcon.runtime.shipped import agents_for
from garcon.testing.acp_example import EXAMPLE
from garcon.testing.local_runtimes import RuntimeCase
from garcon.testing.npm_agents import NotInstalled


class ExampleTurn(RuntimeCase):
    """The agent of the PyPI package, added by configuration alone."""

    timeout = 320

    def setUp(self) -> None:
        super().setUp()
        try:
            program = EXAMPLE.install()
        except NotInstalled as error:
            if os.environ.get("GARCON_REQUIRE_AGENTS") == "1":
                raise
            raise SkipTest(f"{EXAMPLE.title} cannot be had here: {error}") from None
        path = path_in(str(self.project))
        Path(path).write_text(f"[agents.example]\ncommand = [{json.dumps(program)}]\n")
        self.configured = read(path)

    async def test_two_turns(self) -> None:
        """It repeats what it is told, and keeps its process."""
        agents = agents_for(
            reactor,
            self.environment,
            str(self.project),
            False,
            sys.executable,
            configured=self.configured,
        )
        runtime = LocalRuntime(
            reactor,
            "instance",
            str(self.project),
            self.environment,
            "controller",
            str(self.project / "config"),
            agents,
        )
        self.addCleanup(runtime.stop)
        usual = {"agent_id": "acp-example", "model": "default"}
        first = await self.turn(runtime, "hello ä漢", **usual)
        self.assertEqual(first.texts, ["Client sent:hello ä漢"])
        self.assertEqual(first.of(RunEnded)[0].agent_version, "0.1.0")
        again = await self.turn(runtime, "again", agent_session_id=first.session_id, **usual)
        self.assertEqual(again.texts, ["Client sent:again"])
