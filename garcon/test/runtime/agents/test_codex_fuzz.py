"""Codex's app server may say anything, in any order."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.agents.codex_protocol import CodexConversation
from garcon.runtime.agents.codex_settings import USUAL_EFFORTS
from garcon.runtime.agents.conversation import Output
from garcon.runtime.agents.stamps import Stamp
from garcon.test.runtime.agents.hostile import attack
from garcon.test.runtime.agents.replay import NOW, recorded
from garcon.testing.agent_runs import a_launch

INPUTS = 6_000


def a_conversation() -> CodexConversation:
    """Return a fresh one."""
    return CodexConversation(a_launch("hi"), None, lambda _: USUAL_EFFORTS)


class Opened(CodexConversation):
    """One that has the thread which most of the samples are of."""

    def open(self) -> list[Output]:
        outputs = super().open()
        stamp = Stamp(now=NOW, fresh_id="id-0")
        for number, result in enumerate(({}, {"thread": {"id": THREAD}, "model": "m"}), 1):
            outputs += self.received({"id": number, "result": result}, stamp)
        return outputs


THREAD = "01a22b76-25db-7d83-b77e-9148a21e9f85"


def an_opened_one() -> CodexConversation:
    """Return one that turns can begin in."""
    return Opened(a_launch("hi"), None, lambda _: USUAL_EFFORTS)


class Hostile(SynchronousTestCase):
    def test_nothing_it_says_breaks_a_conversation(self) -> None:
        """Thousands of messages made from the recordings, whole and broken."""
        samples = [
            message
            for name in ("codex-approvals.jsonl", "codex-turns.jsonl")
            for direction, message in recorded(name)
            if direction == "out"
        ]
        for make in (a_conversation, an_opened_one):
            heard = attack(make, samples, INPUTS, seed=7)
            self.assertGreater(heard, INPUTS // 2)
