"""Recorded talks with opencode 1.18.33, Gemini CLI 0.61.0, Claude Code by ACP 0.16.2 and an agent
of the PyPI package 0.12.1, played to conversations: what these make of each turn stands in
``*.stories.jsonl``, one turn a line, and nothing in them is unknown.
"""

from __future__ import annotations

import json
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.runs import ForkPoint
from garcon.runtime.agents.acp_protocol import AcpConversation, AcpWays
from garcon.runtime.agents.conversation import Output
from garcon.runtime.agents.stamps import Stamp
from garcon.test.runtime.agents.acp_replay import Player
from garcon.test.runtime.agents.hostile import attack
from garcon.test.runtime.agents.replay import NOW, recorded

NAMES = (
    *("acp-opencode", "acp-gemini", "acp-claude", "acp-python"),
    *("acp-opencode-cancels", "acp-gemini-cancels", "acp-claude-cancels"),
)
INPUTS = 6_000
SESSION = "ses_dd48802e2ffeJNeRS1TYfmlaCW"
WAYS = AcpWays(modes={"default": "build", "plan": "plan"}, compact="/compact")


def stories(name: str) -> list[list[str]]:
    """Return what a recording's turns are to become."""
    text = Path(__file__).with_name(f"{name}.stories.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


class GoldenTests(SynchronousTestCase):
    def test_recordings(self) -> None:
        """Every turn of every agent: plain ones, permissions, cancels, and failures."""
        for name in NAMES:
            player = Player()
            self.assertEqual(player.play(f"{name}.jsonl"), stories(name), name)
            self.assertEqual(player.unknown, [], name)


class Opened(AcpConversation):
    """One that has the session which many of the samples are of."""

    def open(self) -> list[Output]:
        outputs = super().open()
        stamp = Stamp(now=NOW, fresh_id="id-0")
        said = {"loadSession": True, "sessionCapabilities": {"fork": {}}}
        itself = {"protocolVersion": 1, "agentCapabilities": said}
        for number, result in enumerate((itself, {"sessionId": SESSION}), 1):
            outputs += self.received({"id": number, "result": result}, stamp)
        return outputs


class HostileTests(SynchronousTestCase):
    def test_nothing_an_agent_says_breaks_a_conversation(self) -> None:
        """Thousands of messages made from the recordings, whole and broken."""
        samples = [
            message
            for name in NAMES
            for direction, message in recorded(f"{name}.jsonl")
            if direction == "out"
        ]
        point = ForkPoint(agent_session_id="old")
        for make in (
            lambda: AcpConversation("/p", None, WAYS),
            lambda: AcpConversation("/p", "old", WAYS),
            lambda: AcpConversation("/p", None, WAYS, point),
            lambda: Opened("/p", None, WAYS),
        ):
            heard = attack(make, samples, INPUTS, seed=7)
            self.assertGreater(heard, INPUTS // 2)
