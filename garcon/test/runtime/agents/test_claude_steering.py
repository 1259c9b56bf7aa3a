"""Further input for a turn of Claude Code, and settings that change between turns."""

from __future__ import annotations

from typing import Any

from garcon.contract.runs import RunEnded
from garcon.contract.steering import Steer, Steered, SteerTarget
from garcon.runtime.agents.conversation import SteerSettled
from garcon.test.runtime.agents.claude_cast import ClaudeCase

CALL = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "x"}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "done"}


class Steering(ClaudeCase):
    """A turn that is going on."""

    def setUp(self) -> None:
        super().setUp()
        self.take_up()

    def steer(self, content: str = "more", message_id: str = "m") -> dict[str, Any]:
        """Hand in further input and return its line."""
        before = len(self.taken.sent)
        steer = Steer(
            target=SteerTarget(run_id="run"), client_message_id=message_id, content=content
        )
        self.taken.take(self.conversation.steer(steer))
        line, self.question = self.taken.sent[before:]
        return line

    def comes_back(self, line: dict[str, Any]) -> None:
        """Let the agent take a line up."""
        self.hear("user", uuid=line["uuid"], isReplay=True, message=line["message"])

    def has_it(self) -> None:
        """Let the agent answer the question after the last line."""
        answer = {"subtype": "success", "request_id": self.question["request_id"]}
        self.hear("control_response", response=answer)

    def outcomes(self) -> list[str]:
        """What became of inputs so far."""
        return [one.steered.outcome for one in self.taken.other if isinstance(one, SteerSettled)]

    def idle(self) -> None:
        """Let the agent come to rest."""
        self.hear("system", subtype="session_state_changed", state="idle")

    def test_while_the_model_speaks_it_is_heard_at_once(self) -> None:
        """What the model said so far ends with a result, and the turn goes on."""
        line = self.steer()
        self.assertEqual(line["priority"], "now")
        self.assertEqual(line["message"]["content"], [{"type": "text", "text": "more"}])
        self.result(terminal_reason="aborted_streaming")
        self.assertNotIn("finished", self.taken.story())
        self.comes_back(line)
        self.assertEqual(self.outcomes(), ["delivered"])
        self.result()
        self.assertEqual(self.taken.story(), ["finished"])

    def test_while_a_tool_runs_it_waits_for_its_end(self) -> None:
        """The tool is not ended by it."""
        self.hear("assistant", message={"content": [CALL]})
        line = self.steer()
        self.assertNotIn("priority", line)
        self.hear("user", message={"content": [RESULT]})
        self.comes_back(line)
        self.result()
        self.assertEqual(self.outcomes(), ["delivered"])
        self.assertEqual(self.taken.story()[-1], "finished")

    def test_it_is_delivered_when_the_agent_has_it(self) -> None:
        """Though it takes it up much later; and once."""
        self.hear("assistant", message={"content": [CALL]})
        line = self.steer()
        self.has_it()
        self.assertEqual(self.outcomes(), ["delivered"])
        self.comes_back(line)
        self.has_it()
        self.assertEqual(self.outcomes(), ["delivered"])

    def test_one_that_crosses_the_end_makes_the_turn_longer(self) -> None:
        """The agent had come to rest before it read it: what it says then belongs to the turn."""
        line = self.steer()
        self.result()
        self.idle()
        self.assertNotIn("finished", self.taken.story())
        self.has_it()
        self.comes_back(line)
        self.result()
        self.assertEqual(self.taken.story(), ["finished"])

    def test_one_that_the_agent_had_and_forgot(self) -> None:
        """Does not keep the turn for ever."""
        self.steer()
        self.has_it()
        self.result()
        self.assertNotIn("finished", self.taken.story())
        self.idle()
        self.assertEqual(self.taken.story(), ["finished"])

    def test_several_are_each_waited_for(self) -> None:
        """The turn ends with the result after the last of them."""
        first, second = self.steer("a", "1"), self.steer("b", "2")
        self.assertNotEqual(first["uuid"], second["uuid"])
        self.comes_back(first)
        self.result()
        self.assertNotIn("finished", self.taken.story())
        self.comes_back(second)
        self.result()
        self.assertEqual(self.outcomes(), ["delivered", "delivered"])
        self.assertEqual(self.taken.story(), ["finished"])

    def test_the_same_input_is_the_same_line(self) -> None:
        """The agent drops one that it has seen."""
        self.assertEqual(self.steer()["uuid"], self.steer()["uuid"])

    def test_what_waits_is_taken_back_by_a_stop(self) -> None:
        """It would run after the interrupt."""
        self.hear("assistant", message={"content": [CALL]})
        line = self.steer()
        self.taken.sent.clear()
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))
        self.assertEqual(
            [message["request"] for message in self.taken.sent],
            [
                {"subtype": "cancel_async_message", "message_uuid": line["uuid"]},
                {"subtype": "interrupt"},
            ],
        )
        self.result(is_error=True)
        self.assertEqual(self.taken.story()[-1], "interrupted")

    def test_what_is_refused(self) -> None:
        """Nothing to say, and a turn that is being stopped or is over."""
        steer = Steer(target=SteerTarget(run_id="run"), client_message_id="m", content=" ")
        (settled,) = self.conversation.steer(steer)
        assert isinstance(settled, SteerSettled)
        self.assertEqual(settled.steered.outcome, "invalid")
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))
        self.assertEqual(self.conversation.capture_steering().outcome, "turn-unavailable")
        gone = SteerSettled("m", Steered(outcome="turn-unavailable"))
        self.assertEqual(self.conversation.steer(steer), [gone])
        self.result(is_error=True)
        self.assertEqual(self.conversation.capture_steering().outcome, "turn-unavailable")
        self.assertEqual(self.conversation.steer(steer), [gone])

    def test_when_it_can_be_steered(self) -> None:
        """Once the agent has said anything of what it takes up: a stand-in that never does would
        leave it open whether it has.
        """
        self.assertEqual(self.conversation.capture_steering().outcome, "captured")
        self.begin()
        self.assertEqual(self.conversation.capture_steering().outcome, "not-steerable")
        self.hear("system", subtype="session_state_changed", state="running")
        self.assertEqual(self.conversation.capture_steering().outcome, "captured")


class Settings(ClaudeCase):
    """Turns with other settings, in the same process."""

    def setUp(self) -> None:
        super().setUp()
        self.take_up()
        self.result()
        self.taken.sent.clear()
        self.taken.story()

    def answer_all(self, **more: Any) -> None:
        """Answer what the agent was told."""
        for message in list(self.taken.sent):
            if message["type"] == "control_request":
                answer = {"subtype": "success", "request_id": message["request_id"], **more}
                self.hear("control_response", response=answer)

    def test_they_are_told_ahead_of_the_line(self) -> None:
        """Only those that changed, and the line waits until the agent has taken them."""
        self.prompt("acceptEdits", model="opus", thinking_mode="high", agent_session_id="s")
        self.assertEqual(
            [message["request"] for message in self.taken.sent],
            [
                {"subtype": "set_model", "model": "opus"},
                {"subtype": "apply_flag_settings", "settings": {"effortLevel": "high"}},
                {"subtype": "set_permission_mode", "mode": "acceptEdits"},
            ],
        )
        self.answer_all()
        self.assertEqual(self.taken.sent[-1]["uuid"], self.line_id)
        self.take_up()
        self.result()
        self.taken.sent.clear()
        self.prompt("acceptEdits", model="opus", thinking_mode="high", agent_session_id="s")
        self.assertEqual([message["type"] for message in self.taken.sent], ["user"])

    def test_one_that_is_refused_fails_the_turn(self) -> None:
        """Nothing runs in a mode that nobody chose, and the next turn tells everything again."""
        self.prompt("plan", agent_session_id="s")
        self.answer_all(subtype="error", error="no plans")
        self.assertEqual([message["type"] for message in self.taken.sent], ["control_request"])
        self.assertEqual(
            self.taken.story(),
            ["failed: the agent refused a setting: set_permission_mode: no plans"],
        )
        self.taken.sent.clear()
        self.prompt("default", agent_session_id="s")
        told = [message["request"]["subtype"] for message in self.taken.sent]
        self.assertEqual(told, ["set_model", "apply_flag_settings", "set_permission_mode"])

    def test_a_stop_while_it_waits(self) -> None:
        """The line is never sent, and the turn is over when the agent has answered."""
        self.prompt("plan", agent_session_id="s")
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))
        self.assertEqual(self.taken.story(), [])
        self.answer_all()
        self.assertEqual(self.taken.events[-1], RunEnded(outcome="interrupted"))
        self.assertEqual([message["type"] for message in self.taken.sent], ["control_request"])

    def test_what_was_granted_lasts_until_another_mode_is_chosen(self) -> None:
        """The user's own answer is not taken back by the next turn."""
        self.prompt("default", agent_session_id="s")
        self.ask(permission_suggestions=[{"type": "setMode", "mode": "acceptEdits"}])
        self.decide(always_allow=True)
        self.hear("system", subtype="status", permissionMode="acceptEdits")
        self.take_up()
        self.result()
        for mode, told in (("default", 0), ("plan", 1), ("default", 1)):
            self.taken.sent.clear()
            self.prompt(mode, agent_session_id="s")
            requests = [m for m in self.taken.sent if m["type"] == "control_request"]
            self.assertEqual(len(requests), told, mode)
            self.answer_all()
            self.take_up()
            self.result()
