"""Steering an agent of the Agent Client Protocol by our extension (chats.md 5.11)."""

from __future__ import annotations

from typing import Any

from garcon.contract.messages import AssistantMessage
from garcon.contract.runs import RowProduced
from garcon.contract.steering import Steer, SteerCapture, Steered, SteerTarget
from garcon.runtime.agents.acp_steering import METHOD
from garcon.runtime.agents.conversation import SteerSettled
from garcon.test.runtime.agents.test_acp_protocol import AcpCase

OFFER = {"_meta": {"garcon": {"steer": True}}}


def a_steer(content: str = "more", message_id: str = "m") -> Steer:
    return Steer(target=SteerTarget(run_id="run"), client_message_id=message_id, content=content)


class SteeringTests(AcpCase):
    """An agent that offers it."""

    def setUp(self) -> None:
        super().setUp()
        self.converse(capabilities=OFFER)
        self.prompt()
        self.prompt_id = self.last_id()
        self.taken.other.clear()

    def steer(self, **changes: Any) -> None:
        self.taken.take(self.conversation.steer(a_steer(**changes)))

    @property
    def settled(self) -> list[tuple[str, str]]:
        return [
            (one.message_id, one.steered.outcome)
            for one in self.taken.other
            if isinstance(one, SteerSettled)
        ]

    def end(self) -> None:
        result = {"stopReason": "end_turn"}
        self.hear({"jsonrpc": "2.0", "id": self.prompt_id, "result": result})

    def test_a_turn_that_runs_can_be_steered(self) -> None:
        """And no other."""
        capture = self.conversation.capture_steering()
        self.assertEqual(capture.outcome, "captured")
        self.end()
        self.assertEqual(
            self.conversation.capture_steering(), SteerCapture(outcome="turn-unavailable")
        )
        self.steer()
        self.assertEqual(self.settled, [("m", "turn-unavailable")])

    def test_what_is_asked(self) -> None:
        """Session, identity and text."""
        self.steer(content="now")
        self.assertEqual(self.taken.sent[-1]["method"], METHOD)
        self.assertEqual(
            self.taken.sent[-1]["params"],
            {"sessionId": "s", "messageId": "m", "prompt": [{"type": "text", "text": "now"}]},
        )

    def test_what_is_answered(self) -> None:
        """By outcome, or by error; the turn goes on whatever it is."""
        answers: tuple[tuple[dict[str, Any], Steered], ...] = (
            ({"result": {"outcome": "delivered"}}, Steered(outcome="delivered")),
            ({"result": {"outcome": "turn-unavailable"}}, Steered(outcome="turn-unavailable")),
            (
                {"error": {"code": -32602, "message": "bad"}},
                Steered(outcome="invalid", text="bad"),
            ),
            (
                {"error": {"code": -32000, "message": "no"}},
                Steered(outcome="rejected", text="no"),
            ),
        )
        for answer, steered in answers:
            self.steer()
            self.hear({"jsonrpc": "2.0", "id": self.last_id(), **answer})
            self.assertEqual(self.taken.other[-1], SteerSettled("m", steered))
        strange: tuple[dict[str, Any], ...] = ({"result": {"outcome": "perhaps"}}, {"result": []})
        for odd in strange:
            self.steer()
            self.hear({"jsonrpc": "2.0", "id": self.last_id(), **odd})
            self.assertEqual(self.settled[-1], ("m", "unknown"))
        self.say("still here")
        self.end()
        (row,) = [event for event in self.taken.events if isinstance(event, RowProduced)]
        assert isinstance(row.message, AssistantMessage)
        self.assertEqual(row.message.content, "still here")

    def test_each_answer_finds_its_steer(self) -> None:
        """In whatever order they come."""
        self.steer(message_id="one")
        first = self.last_id()
        self.steer(message_id="two")
        for call, outcome in ((self.last_id(), "delivered"), (first, "turn-unavailable")):
            self.hear({"jsonrpc": "2.0", "id": call, "result": {"outcome": outcome}})
        self.assertEqual(self.settled, [("two", "delivered"), ("one", "turn-unavailable")])

    def test_an_interrupted_turn(self) -> None:
        """It takes no more."""
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))
        self.assertEqual(self.conversation.capture_steering().outcome, "turn-unavailable")
        self.steer()
        self.assertEqual(self.settled, [("m", "turn-unavailable")])


class OtherAgentTests(AcpCase):
    """Agents without it."""

    def test_not_offered(self) -> None:
        """Nor offered in another way."""
        odd: tuple[dict[str, Any], ...] = (
            {},
            {"_meta": None},
            {"_meta": {"garcon": {"steer": "yes"}}},
            {"_meta": {"garcon": True}},
        )
        for capabilities in odd:
            self.converse(capabilities=capabilities)
            self.prompt()
            self.assertEqual(
                self.conversation.capture_steering(), SteerCapture(outcome="unsupported")
            )
