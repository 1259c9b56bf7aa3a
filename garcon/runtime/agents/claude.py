"""Claude Code on this machine: how it is found, shown in the catalog, and started for a turn."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from garcon.contract.agents import AgentAuth
from garcon.contract.catalogs import (
    PERMISSION_MODES,
    THINKING_MODES,
    AgentEntry,
    AgentSettings,
    Generation,
    Model,
    ThinkingMode,
)
from garcon.contract.runs import Launch
from garcon.runtime.agents import claude_auth
from garcon.runtime.agents.claude_protocol import MODES, ClaudeConversation
from garcon.runtime.agents.conversation import Invocation
from garcon.runtime.agents.question import ask_program
from garcon.runtime.agents.session import AgentSession
from garcon.runtime.interfaces import IAgent, IAgentAuth, IAgentSession

MODELS = (("opus", "Opus"), ("sonnet", "Sonnet"), ("haiku", "Haiku"), ("fable", "Fable"))
EFFORTS: dict[ThinkingMode, str | None] = {
    "none": None,
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
    "ultra": "max",
}
THINKING_SETTING = {
    "key": "claudeThinkingMode",
    "label": "Thinking",
    "labelKey": "thinking",
    "type": "enum",
    "options": [
        {"value": "auto", "label": "Automatic", "labelKey": "automatic"},
        {"value": "on", "label": "On", "labelKey": "enabled"},
        {"value": "off", "label": "Off", "labelKey": "disabled"},
    ],
}
PATIENCE = 3.0
"""How long its answer to the handshake is waited for.  What is sent then is read all the same: by
one that is slow, and by a program in its place that has no handshake.
"""
_FLAGS = (
    "--print",
    *("--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
    *("--permission-prompt-tool", "stdio", "--replay-user-messages"),
)


@implementer(IAgent, IAgentAuth)
class ClaudeAgent:
    """Found by ``CLAUDE_BINARY``, else as ``claude`` on the path; absent from the catalog where
    there is none.
    """

    id = "claude"

    def __init__(self, reactor: Any, environment: Mapping[str, str]) -> None:
        self._reactor = reactor
        self._program = environment.get("CLAUDE_BINARY") or "claude"
        self._path = environment.get("PATH", os.defpath)

    def entry(self) -> Deferred[AgentEntry | None]:
        """The catalog entry, or None where Claude Code is not installed."""
        if shutil.which(self._program, path=self._path) is None:
            return succeed(None)
        return succeed(
            AgentEntry(
                id=self.id,
                label="Claude",
                description="Claude Code by Anthropic",
                supports_images=True,
                supports_update_project_path=True,
                supported_protocols=["anthropic-messages"],
                supported_permission_modes=list(PERMISSION_MODES),
                supported_thinking_modes=list(THINKING_MODES),
                settings=[THINKING_SETTING],
                default_settings=AgentSettings(
                    owner_id=self.id, schema_version=1, values={"claudeThinkingMode": "auto"}
                ),
                generation=Generation(priority=10, model="haiku"),
                default_model=MODELS[0][0],
                models=[
                    Model(value=value, label=label, supports_images=True) for value, label in MODELS
                ],
            )
        )

    def auth(self, environment: Mapping[str, str]) -> Deferred[AgentAuth]:
        """Ask Claude Code for its account."""
        command = [self._program, *claude_auth.COMMAND]
        d = ask_program(self._reactor, command, environment, claude_auth.TIME)
        return d.addCallback(claude_auth.read_status)

    def open(self, launch: Launch, environment: Mapping[str, str]) -> IAgentSession:
        """Make a session for a chat; nothing is started before `run`."""

        def invoke(launch: Launch, resume: str | None) -> Invocation:
            return invocation(self._program, launch, resume)

        def converse(launch: Launch, resume: str | None) -> ClaudeConversation:
            return ClaudeConversation()

        # SIGINT ends it together with the command it runs; SIGTERM would leave that behind.
        return AgentSession(self._reactor, environment, "INT", invoke, converse, PATIENCE)


def invocation(program: str, launch: Launch, resume: str | None) -> Invocation:
    """Return the command line of a turn.  A session's id is ours to choose; one that exists is
    resumed.
    """
    options = ["--model", launch.model] if launch.model else []
    options += ["--permission-mode", MODES[launch.permission_mode]]
    if effort := EFFORTS[launch.thinking_mode]:
        options += ["--effort", effort]
    match launch.agent_settings.values.get("claudeThinkingMode"):
        case "on":
            options += ["--settings", '{"alwaysThinkingEnabled": true}']
        case "off":
            options += ["--settings", '{"alwaysThinkingEnabled": false}']
    session = ["--resume", resume] if resume else ["--session-id", str(uuid4())]
    return Invocation(
        command=[program, *_FLAGS, *options, *session],
        environment={"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"},
        key=(launch.project_path, *options),
    )
