"""A conversation with Codex for tests: opened, in the midst of a turn, and told what Codex says."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.runs import Launch
from garcon.runtime.agents.codex_protocol import CodexConversation
from garcon.runtime.agents.codex_settings import USUAL_EFFORTS
from garcon.test.runtime.agents.replay import Taken
from garcon.testing.agent_runs import a_launch, a_response

THREAD, TURN = "thread-1", "turn-1"
USER_AGENT = "garcon/0.171.0 (Debian 12.0.0; x86_64) dumb (garcon; 0.1)"


class CodexCase(SynchronousTestCase):
    """`hear` lets Codex say something, `reply` lets it answer what was asked last."""

    def setUp(self) -> None:
        self.begin()

    def converse(self, resume: str | None = None, **changes: Any) -> None:
        """Make a conversation for a launch, and let Codex say who it is."""
        usual = {"model": "m", "project_path": "/srv/project"}
        self.launch: Launch = a_launch("hi", **(usual | changes))
        self.taken = Taken()
        self.conversation = CodexConversation(self.launch, resume, lambda _: USUAL_EFFORTS)
        self.taken.take(self.conversation.open())
        self.reply(userAgent=USER_AGENT)

    def begin(self, mode: str = "default", **changes: Any) -> None:
        """Have a turn run, in a new thread."""
        self.converse(permission_mode=mode, **changes)
        self.reply(thread={"id": THREAD}, model="gpt-x")
        self.prompt()

    def prompt(self, **changes: Any) -> None:
        """Begin a turn as the launch says, but for the changes, and let Codex name it."""
        if changes:
            changes = {"permission_mode": self.launch.permission_mode} | changes
            usual = {"model": "m", "project_path": "/srv/project"}
            self.launch = a_launch("hi", **(usual | changes))
        self.taken.take(self.conversation.prompt(self.launch, self.taken.stamp()))
        self.turn = self.sent
        self.reply(turn={"id": TURN})
        self.taken.story()

    @property
    def sent(self) -> dict[str, Any]:
        """What was written last."""
        return self.taken.sent[-1]

    def take(self, message: dict[str, Any]) -> None:
        """Let Codex say anything."""
        self.taken.take(self.conversation.received(message, self.taken.stamp()))

    def hear(self, method: str, **parameters: Any) -> None:
        """Let it tell something of this thread."""
        self.take({"method": method, "params": {"threadId": THREAD, **parameters}})

    def reply(self, **result: Any) -> None:
        """Let it answer what was asked last."""
        asked = [message for message in self.taken.sent if "method" in message and "id" in message]
        self.take({"id": asked[-1]["id"], "result": result})

    def refuse(self, text: str, **more: Any) -> None:
        """Let it refuse what was asked last."""
        asked = [message for message in self.taken.sent if "method" in message and "id" in message]
        self.take({"id": asked[-1]["id"], "error": {"code": -32600, "message": text, **more}})

    def item(self, kind: str, stage: str = "completed", **members: Any) -> None:
        """Let an item begin or end."""
        item = {"type": kind, "id": "item-1", **members}
        self.hear(f"item/{stage}", turnId=TURN, item=item)

    def ask(self, method: str, request_id: Any = 7, **parameters: Any) -> None:
        """Let it ask."""
        usual = {"threadId": THREAD, "turnId": TURN, "itemId": "item-1"}
        self.take({"method": method, "id": request_id, "params": {**usual, **parameters}})

    def complete(self, status: str = "completed", **more: Any) -> None:
        """Let the turn end."""
        self.hear("turn/completed", turn={"id": TURN, "status": status, **more})

    def decide(self, **decision: Any) -> dict[str, Any]:
        """Decide what was asked last, and return the answer that went out."""
        answer = a_response("run", self.taken.asked, **decision)
        outputs = self.conversation.decide(answer, self.taken.stamp())
        self.assertIsNotNone(outputs)
        self.taken.take(outputs)
        result: dict[str, Any] = self.sent["result"]
        return result
