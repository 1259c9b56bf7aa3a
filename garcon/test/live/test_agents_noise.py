"""Lines of an agent's output that are no messages: kept and counted, and nothing stops for them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from garcon.contract.runs import Launch, RunEnded, UnknownEvent
from garcon.runtime.agents.acp_protocol import AcpConversation, AcpWays
from garcon.runtime.agents.conversation import Invocation
from garcon.runtime.agents.session import AgentSession
from garcon.testing.agent_runs import RecordingSink, a_launch

NOISE = "echo 'Warning: old'; echo; echo '  '; echo '[1]'; echo '{\"half\": '"


class Noise(TestCase):
    timeout = 60

    async def test_a_program_that_logs_to_its_output(self) -> None:
        """The first such line is kept as it came, those after it are counted, and blank ones are
        nothing; the turn is as ever.
        """
        directory = Path(self.mktemp()).absolute()
        directory.mkdir(parents=True)
        environment = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": os.getcwd()}
        agent = f"{sys.executable} -m garcon.testing.scripted_agent"

        def invoke(launch: Launch, resume: str | None) -> Invocation:
            command = ["sh", "-c", f"{NOISE}; cd {os.getcwd()}; exec {agent}"]
            return Invocation(command, {}, key=launch.project_path)

        def converse(launch: Launch, resume: str | None) -> AcpConversation:
            return AcpConversation(launch.project_path, resume, AcpWays(model=launch.model))

        session = AgentSession(reactor, environment, "TERM", invoke, converse)
        self.addCleanup(session.close)
        sink = RecordingSink(reactor)
        await session.run(
            a_launch("say hi", agent_id="scripted", project_path=str(directory)), sink
        )
        await sink.ended()
        self.assertEqual(sink.texts, ["hi"])
        self.assertEqual([end.outcome for end in sink.of(RunEnded)], ["finished"])
        told = [(one.kind, one.raw, one.count) for one in sink.of(UnknownEvent)]
        self.assertEqual(told, [("line", '"Warning: old"', 1), ("line", "", 2)])
