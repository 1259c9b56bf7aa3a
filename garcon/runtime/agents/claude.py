"""Claude Code on this machine: how it is found, shown in the catalog, and started for a turn."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from uuid import uuid4

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThreadPool
from zope.interface import implementer

from garcon.contract.agents import AgentAuth
from garcon.contract.catalogs import AgentEntry, AgentSettings, Generation, Model
from garcon.contract.providers import ResolvedEndpoint
from garcon.contract.runs import Launch, NativeSession, SessionPoint
from garcon.deferreds import returns_deferred
from garcon.runtime.agents import claude_auth, claude_history
from garcon.runtime.agents.anthropic_variables import ANTHROPIC
from garcon.runtime.agents.claude_protocol import ClaudeConversation
from garcon.runtime.agents.claude_settings import Settings
from garcon.runtime.agents.conversation import Invocation
from garcon.runtime.agents.endpoints import endpoint_of, model_of
from garcon.runtime.agents.entries import program_entry
from garcon.runtime.agents.native_history import hand_over
from garcon.runtime.agents.question import ask_program
from garcon.runtime.agents.scrubbing import Secrets
from garcon.runtime.agents.session import AgentSession
from garcon.runtime.interfaces import (
    IAgent,
    IAgentAuth,
    IAgentDrift,
    IAgentHistory,
    IAgentSession,
    ICredentials,
    TakeRows,
)

T = TypeVar("T")

MODELS = tuple(
    Model(value=value, label=value.title(), supports_images=True)
    for value in ("opus", "sonnet", "haiku", "fable")
)
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
"""How long its answer to the handshake is waited for, once it has read that: it answers in some
milliseconds then, and a program in its place may have no handshake.
"""
LOOK_AGAIN, LOOKS = 0.3, 10
"""How long, and how often, it is waited for a session's file that may still be written to."""
_FLAGS = (
    "--print",
    *("--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
    *("--permission-prompt-tool", "stdio", "--replay-user-messages"),
)


@implementer(IAgent, IAgentAuth, IAgentDrift, IAgentHistory)
class ClaudeAgent:
    """Found by ``CLAUDE_BINARY``, else as ``claude`` on the path; absent from the catalog where
    there is none.
    """

    id = "claude"

    def __init__(
        self,
        reactor: Any,
        environment: Mapping[str, str],
        credentials: ICredentials | None = None,
    ) -> None:
        self._reactor = reactor
        self._credentials = credentials
        self._program = environment.get("CLAUDE_BINARY") or "claude"
        self._path = environment.get("PATH", os.defpath)

    def is_installed(self) -> bool:
        """Whether its program is found."""
        return shutil.which(self._program, path=self._path) is not None

    def entry(self, environment: Mapping[str, str]) -> Deferred[AgentEntry | None]:
        """The catalog entry, or None where Claude Code is not installed."""
        if not self.is_installed():
            return succeed(None)
        return succeed(
            program_entry(
                self.id,
                "Claude",
                "Claude Code by Anthropic",
                MODELS,
                supports_images=True,
                accepts_api_provider_endpoints=self._credentials is not None,
                supported_protocols=["anthropic-messages"],
                settings=[THINKING_SETTING],
                default_settings=AgentSettings(
                    owner_id=self.id, schema_version=1, values={"claudeThinkingMode": "auto"}
                ),
                generation=Generation(priority=10, model="haiku"),
            )
        )

    def auth(self, environment: Mapping[str, str]) -> Deferred[AgentAuth]:
        """Ask Claude Code for its account."""
        command = [self._program, *claude_auth.COMMAND]
        d = ask_program(self._reactor, command, environment, claude_auth.TIME)
        return d.addCallback(claude_auth.read_status)

    def read_history(
        self, session: NativeSession, environment: Mapping[str, str], take: TakeRows
    ) -> Deferred[None]:
        """Read a session's file, piece by piece, once it is at rest: what was said a moment ago is
        written a little later.
        """
        return Deferred.fromCoroutine(self._read(session, environment, take))

    async def _read(
        self, session: NativeSession, environment: Mapping[str, str], take: TakeRows
    ) -> None:
        for _ in range(LOOKS):
            await self._a_moment()
            changed = await self._in_thread(claude_history.changed, session, environment)
            if changed and abs(time.time() - changed) > LOOK_AGAIN:
                break
        await hand_over(self._reactor, lambda: claude_history.pieces(session, environment), take)

    def has_moved_on(self, point: SessionPoint, environment: Mapping[str, str]) -> Deferred[bool]:
        """Look at a session's file."""
        return self._in_thread(claude_history.has_moved_on, point, environment)

    def open(self, launch: Launch, environment: Mapping[str, str]) -> IAgentSession:
        """Make a session for a chat; nothing is started before `run`."""
        forking: list[bool] = []

        @returns_deferred
        async def invoke(launch: Launch, resume: str | None) -> Invocation:
            endpoint = await endpoint_of(launch, self._credentials)
            # A fork that cannot be made is a session of its own, which is told what was said.
            forks = resume is None and await self._can_fork(launch, environment)
            forking[:] = [forks]
            return invocation(self._program, launch, resume, endpoint, forks=forks)

        def converse(launch: Launch, resume: str | None) -> ClaudeConversation:
            return ClaudeConversation(forks=forking[0])

        # SIGINT ends it together with the command it runs; SIGTERM would leave that behind.
        return AgentSession(self._reactor, environment, "INT", invoke, converse, PATIENCE)

    async def _can_fork(self, launch: Launch, environment: Mapping[str, str]) -> bool:
        point = launch.fork_from
        if point is None:
            return False
        for _ in range(LOOKS):
            found = await self._in_thread(
                claude_history.can_fork, point, launch.project_path, environment
            )
            if found != "not yet":
                return found == "yes"
            await self._a_moment()
        return False

    def _in_thread(self, f: Callable[..., T], *args: Any) -> Deferred[T]:
        d: Deferred[T] = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), f, *args)
        return d

    def _a_moment(self) -> Deferred[None]:
        moment: Deferred[None] = deferLater(self._reactor, LOOK_AGAIN, lambda: None)
        return moment


def invocation(
    program: str,
    launch: Launch,
    resume: str | None,
    endpoint: ResolvedEndpoint | None = None,
    *,
    forks: bool = False,
) -> Invocation:
    """Return the command line of a turn.  A session's id is ours to choose; one that exists is
    resumed, or forked where that is asked for and can be done.
    """
    settings = Settings.of(launch)
    options = ["--model", settings.model] if settings.model else []
    options += ["--permission-mode", settings.mode]
    if settings.effort:
        options += ["--effort", settings.effort]
    thinking: list[str] = []
    match launch.agent_settings.values.get("claudeThinkingMode"):
        case "on":
            thinking = ["--settings", '{"alwaysThinkingEnabled": true}']
        case "off":
            thinking = ["--settings", '{"alwaysThinkingEnabled": false}']
    point = launch.fork_from
    if resume:
        session = ["--resume", resume]
    elif forks and point is not None:
        session = ["--resume", point.agent_session_id, "--fork-session"]
        session += ["--session-id", str(uuid4())]
        session += ["--resume-session-at", point.anchor] if point.anchor else []
    else:
        session = ["--session-id", str(uuid4())]
    # It can be told to bypass permissions only if it was started so, and not how to think.
    may_bypass = launch.permission_mode == "bypassPermissions"
    return Invocation(
        command=[program, *_FLAGS, *options, *thinking, *session],
        environment={
            "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
            **(ANTHROPIC.filled(endpoint, model_of(launch)) if endpoint is not None else {}),
        },
        key=(launch.project_path, *thinking, may_bypass, endpoint, endpoint and settings.model),
        secrets=Secrets.of(endpoint),
        settings=(settings.model, settings.effort, settings.mode),
    )
