"""Agents that are nothing but a model: they need no program, only a profile's endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, succeed
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from garcon.contract.catalogs import (
    PERMISSION_MODES,
    THINKING_MODES,
    AgentEntry,
    AgentSettings,
    Generation,
)
from garcon.contract.runs import Launch
from garcon.runtime.agents.direct_anthropic import AnthropicMessages
from garcon.runtime.agents.direct_chat import ChatCompletions
from garcon.runtime.agents.direct_http import Deadlines, ModelClient
from garcon.runtime.agents.direct_messages import PDF, TEXTS
from garcon.runtime.agents.direct_responses import Responses
from garcon.runtime.agents.direct_retry import Patience
from garcon.runtime.agents.direct_session import DirectSession
from garcon.runtime.agents.direct_wire import Wire
from garcon.runtime.interfaces import IAgent, IAgentSession, ICredentials


@frozen(kw_only=True)
class DirectKind:
    """One of these agents as the catalog shows it, and the API it speaks (control.md A.6)."""

    id: str
    label: str
    description: str
    priority: int
    wire: Wire
    takes_pdf: bool = False


KINDS = (
    DirectKind(
        id="direct-anthropic-compatible",
        label="Direct (Anthropic)",
        description="A model behind an Anthropic compatible endpoint, without tools",
        priority=20,
        wire=AnthropicMessages(),
        takes_pdf=True,
    ),
    DirectKind(
        id="direct-openai-responses-compatible",
        label="Direct (Responses)",
        description="A model behind an endpoint with OpenAI's Responses API, without tools",
        priority=40,
        wire=Responses(),
        takes_pdf=True,
    ),
    DirectKind(
        id="direct-openai-compatible",
        label="Direct (Chat Completions)",
        description="A model behind an endpoint with OpenAI's Chat Completions, without tools",
        priority=50,
        wire=ChatCompletions(),
    ),
)


@implementer(IAgent)
class DirectAgent:
    """One of them; there on every machine."""

    def __init__(
        self,
        reactor: Any,
        kind: DirectKind,
        credentials: ICredentials,
        endpoints: IAgentEndpointFactory,
        deadlines: Deadlines | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.id = kind.id
        self._reactor = reactor
        self._kind = kind
        self._credentials = credentials
        self._endpoints = endpoints
        self._deadlines = deadlines
        self._patience = patience

    def is_installed(self) -> bool:
        """It has no program."""
        return True

    def entry(self, environment: Mapping[str, str]) -> Deferred[AgentEntry | None]:
        """The catalog entry; its models are those of the endpoints, which are not known here."""
        kind = self._kind
        return succeed(
            AgentEntry(
                id=kind.id,
                label=kind.label,
                description=kind.description,
                supports_update_project_path=True,
                supports_steering=True,
                needs_history=True,
                supports_images=True,
                file_attachment_mime_types=[*TEXTS, *([PDF] if kind.takes_pdf else [])],
                accepts_api_provider_endpoints=True,
                supported_protocols=[kind.wire.speech],
                supported_permission_modes=[mode for mode in PERMISSION_MODES if mode != "plan"],
                supported_thinking_modes=list(THINKING_MODES),
                default_settings=AgentSettings(owner_id=kind.id, schema_version=1, values={}),
                generation=Generation(priority=kind.priority, model=""),
                default_model="",
                models=[],
            )
        )

    def open(self, launch: Launch, environment: Mapping[str, str]) -> IAgentSession:
        """Make a session for a chat; nothing is connected before `run`."""
        client = ModelClient(self._reactor, self._endpoints, self._deadlines)
        return DirectSession(
            self._reactor, self._kind.wire, self._credentials, client, self._patience
        )


def direct_agents(
    reactor: Any, credentials: ICredentials, endpoints: IAgentEndpointFactory
) -> list[IAgent]:
    """Make all of them."""
    return [DirectAgent(reactor, kind, credentials, endpoints) for kind in KINDS]
