"""The real agents of the Agent Client Protocol with the model of a profile's endpoint, on a second
pretend server (`tox run -e agents`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet import reactor

from garcon.contract.catalogs import Protocol
from garcon.contract.providers import ResolvedEndpoint
from garcon.runtime.interfaces import ICredentials
from garcon.test.runtime.agents.direct_shell import FakeCredentials
from garcon.testing import local_runtimes as cases
from garcon.testing.acp_agents import OPENCODE_MODEL
from garcon.testing.agent_runs import RecordingSink, a_launch
from garcon.testing.models.anthropic import AnthropicMessages
from garcon.testing.models.script import Call, Script, said
from garcon.testing.models.server import Wire

KEY, TEAM = "sk-profile-key-1", "team-token-2"
MODEL = "the-model"


class EndpointPromises:
    """Mixed into a case that says how its agent runs a command."""

    agent_id: str
    own_model: str
    protocol: Protocol
    key_header: str
    key_value = KEY
    shell: str
    given: dict[str, str]
    speaks: Callable[[], Wire] | None = None
    """The wire of the second server, where it is not the agent's own."""
    profiles: ICredentials | None

    def with_endpoint(self: Any) -> None:
        """Start a second server, and a runtime that knows it."""
        self.elsewhere = Script()
        port = self.a_model_server(self.elsewhere, type(self).speaks)
        endpoint = ResolvedEndpoint(
            protocol=self.protocol,
            base_url=f"http://127.0.0.1:{port}/v1",
            api_key=KEY,
            headers={"X-Team": TEAM},
            revision=1,
        )
        self.profiles = FakeCredentials(endpoint)
        self.runtime = self.a_runtime()

    async def whole(self: Any, prompt: str, **changes: Any) -> RecordingSink:
        """Run a whole turn."""
        usual = {
            "agent_id": self.agent_id,
            "model": self.own_model,
            "permission_mode": "manualBypass",
        }
        launch = a_launch(prompt, **(usual | {"project_path": str(self.project)} | changes))
        sink = RecordingSink(reactor, 120.0)
        await self.runtime.launch(launch, sink)
        await sink.ended()
        return sink

    async def test_the_model_is_reached_there(self: Any) -> None:
        """With the profile's key and headers, which are in that process's environment alone, and
        which nobody hears of.
        """
        self.with_endpoint()
        (entry,) = await self.runtime.catalog(self.agent_id)
        self.assertTrue(entry.accepts_api_provider_endpoints)
        self.assertIn(self.protocol, entry.supported_protocols)
        command = "env | grep -e sk-profile -e team-token"
        call = Call(self.shell, {"command": command, **self.given})
        self.elsewhere.push(said(call), f"it is {KEY}")
        sink = await self.whole(
            "hi",
            model=f"end:{MODEL}",
            api_provider_id="profile",
            model_endpoint_id="end",
            model_protocol=self.protocol,
        )
        self.assertEqual(sink.texts, ["it is [secret]"])
        self.assertNotIn(KEY, repr(sink.events))
        self.assertNotIn(TEAM, repr(sink.events))
        self.assertIn("[secret]", sink.results[0][0])
        asked = [one for one in self.elsewhere.asked if one.tools]
        self.assertEqual({one.model for one in asked}, {MODEL})
        self.assertEqual(asked[0].headers[self.key_header], self.key_value)
        self.assertEqual(asked[0].headers["x-team"], TEAM)
        self.assertEqual([one for one in self.script.asked if one.tools], [])
        (slot,) = self.runtime._sessions._slots.values()
        process = Path(f"/proc/{slot.session.process_id}")
        self.assertIn(KEY.encode(), (process / "environ").read_bytes())
        self.assertNotIn(KEY.encode(), (process / "cmdline").read_bytes())
        self.script.push("from here")
        own = await self.whole("hi", chat_id="1700000000000002")
        self.assertEqual(own.texts, ["from here"])


class OpencodeChatEndpoint(EndpointPromises, cases.OpencodeRuntimeCase):
    agent_id, own_model, protocol = "opencode", OPENCODE_MODEL, "openai-compatible"
    key_header, key_value = "authorization", f"Bearer {KEY}"
    shell, given = "bash", {"description": "show"}


class OpencodeMessagesEndpoint(EndpointPromises, cases.OpencodeRuntimeCase):
    agent_id, own_model, protocol = "opencode", OPENCODE_MODEL, "anthropic-messages"
    key_header = "x-api-key"
    shell, given = "bash", {"description": "show"}
    speaks = AnthropicMessages


class ClaudeCodeAcpEndpoint(EndpointPromises, cases.ClaudeCodeAcpRuntimeCase):
    agent_id, own_model, protocol = "claude-code-acp", "default", "anthropic-messages"
    key_header = "x-api-key"
    shell, given = "Bash", {"description": "show"}
