"""The order in which a run is judged (chats.md 3.5)."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from garcon.contract.catalogs import AgentSettings
from garcon.store.records import PutChat
from garcon.test.controller.chats.cast import CHAT, ChatsTestCase
from garcon.testing.fake_runtime import agent_entry

PICTURE = {"data": "data:image/png;base64,AAAA"}
FOREIGN = {"ownerId": "other", "schemaVersion": 1, "values": {}}


class OrderTests(ChatsTestCase):
    """A chat that runs, whose record lacks what it should have, and a run that is wrong in
    everything.
    """

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        [stored] = self.successResultOf(self.store.load())
        record = structs.replace(
            stored.record,
            model=None,
            permission_mode="bypassPermissions",
            agent_settings=AgentSettings("other", 1, {}),
        )
        self.successResultOf(self.store.write([PutChat(record)]))
        self.restart()
        self.local.agents = [agent_entry(supports_images=False)]
        self.body: dict[str, Any] = {
            "clientRequestId": "r",
            "clientMessageId": "m-start",
            "chatId": CHAT,
            "transcriptViewId": "old",
            "command": " ",
            "expectedAgentId": "other",
            "permissionFallbackPolicy": "require-explicit-bypass",
            "agentSettings": FOREIGN,
            "thinkingMode": "ultra",
        }

    def step(self, code: str, status: int = 422, **fixed: Any) -> None:
        """The first thing that is wrong is what is said; then it is put right."""
        answer = self.run_chat(self.view, **self.body)
        self.assertEqual((answer.status, answer.code), (status, code), answer.body)
        self.body |= fixed

    def test_one_thing_after_the_other(self) -> None:
        """View, content, agent, model, attachments, bypass, settings' owner, settings, modes, a
        chat that is free, and at last whether its message is another's.
        """
        self.step("STALE_TRANSCRIPT_VIEW", 409, transcriptViewId=self.view)
        self.step("VALIDATION_FAILED", 400, command="x", images=[PICTURE])
        self.step("EXPECTED_AGENT_MISMATCH", 409, expectedAgentId="scripted")
        self.step("INCOMPLETE_EXECUTION_CONFIG", model="scripted")
        self.step("UNSUPPORTED_AGENT", images=[])
        self.step("EXPLICIT_BYPASS_REQUIRED", permissionMode="bypassPermissions")
        self.step("VALIDATION_FAILED", 400)
        del self.body["agentSettings"]
        self.step("INCOMPLETE_EXECUTION_CONFIG", agentSettings=FOREIGN | {"ownerId": "scripted"})
        self.step("VALIDATION_FAILED", thinkingMode="high")
        good = self.body | {"clientMessageId": "m", "clientRequestId": "first"}
        self.assertEqual(self.run_chat(self.view, **good).status, 202)
        self.step("SESSION_BUSY", 409)
        self.local.last.finish()
        self.step("IDEMPOTENCY_CONFLICT", 409, clientMessageId="n", clientRequestId="s")
        self.assertEqual(self.run_chat(self.view, **self.body).status, 202)

    def test_a_replay_comes_right_after_the_view(self) -> None:
        """Whatever else has become wrong since."""
        body = self.body | {
            "transcriptViewId": self.view,
            "command": "x",
            "clientMessageId": "m",
            "expectedAgentId": "scripted",
            "model": "scripted",
            "permissionMode": "bypassPermissions",
            "agentSettings": FOREIGN | {"ownerId": "scripted"},
            "thinkingMode": "high",
        }
        self.assertEqual(self.run_chat(self.view, **body).body["status"], "accepted")
        self.local.agents = []
        self.clock.advance(61)
        self.assertEqual(self.run_chat(self.view, **body).body["status"], "duplicate")
        stale = self.run_chat(self.view, **(body | {"transcriptViewId": "old"}))
        self.assertEqual(stale.code, "STALE_TRANSCRIPT_VIEW")
