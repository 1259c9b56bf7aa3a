"""The cast of the tests of Claude Code's protocol: one process, played by the test."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.agents.claude_protocol import ClaudeConversation
from garcon.test.runtime.agents.replay import Taken
from garcon.testing.agent_runs import a_launch, a_response


class ClaudeCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.begin()

    def begin(self, mode: str = "default", **changes: Any) -> None:
        """Begin a turn in a fresh process."""
        self.taken, self.conversation = Taken(), ClaudeConversation()
        self.taken.take(self.conversation.open())
        self.hear("control_response", response={"subtype": "success", "request_id": "initialize"})
        self.prompt(mode, **changes)
        self.taken.sent.clear()

    def prompt(self, mode: str = "default", **changes: Any) -> None:
        """Begin a turn."""
        launch = a_launch("hi", permission_mode=mode, **changes)
        moment = self.taken.stamp()
        self.line_id = moment.fresh_id
        self.taken.take(self.conversation.prompt(launch, moment))

    def hear(self, kind: str, **message: Any) -> None:
        """Let the agent say something."""
        self.taken.take(self.conversation.received({"type": kind, **message}, self.taken.stamp()))

    def take_up(self) -> None:
        """Let the agent take up the user's line."""
        self.hear("user", uuid=self.line_id, isReplay=True, message={"content": "hi"})

    def result(self, **more: Any) -> None:
        """Let a turn of the agent's end."""
        self.hear("result", **({"is_error": False, "subtype": "success", "session_id": "s"} | more))

    def ask(self, tool: str = "Bash", given: dict[str, Any] | None = None, **more: Any) -> None:
        """Let the agent ask."""
        request = {
            "subtype": "can_use_tool",
            "tool_name": tool,
            "input": {"command": "x"} if given is None else given,
            "tool_use_id": "t",
            **more,
        }
        self.hear("control_request", request_id="q", request=request)

    def decide(self, **decision: Any) -> dict[str, Any]:
        """Decide what was asked last and return the answer that went out."""
        answer = a_response("run", self.taken.asked, **decision)
        outputs = self.conversation.decide(answer, self.taken.stamp())
        self.assertIsNotNone(outputs)
        self.taken.take(outputs)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The last answer to a control request."""
        found: dict[str, Any] = self.taken.sent[-1]["response"]["response"]
        return found
