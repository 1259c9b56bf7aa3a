"""API providers: what profiles of endpoints look like to clients, executors and agents (control.md
A.4, B).
"""

from __future__ import annotations

from msgspec import Struct, field

from garcon.contract.catalogs import Protocol


class Capabilities(Struct, frozen=True, rename="camel"):
    """Which of OpenAI's interfaces an ``openai-compatible`` endpoint speaks (control.md B.3)."""

    chat_completions: bool = True
    responses: bool = False


class ResolvedEndpoint(Struct, frozen=True, rename="camel", kw_only=True):
    """An endpoint with its credential, for the one session that talks to it now.

    Never written down and never logged: its representation shows neither key nor headers.
    `api_key` None: the endpoint has none stored and is called without.  `headers` go along with
    each call (control.md B.7), and `revision` is that of the profile.  `capabilities` are None for
    ``anthropic-messages``.
    """

    protocol: Protocol
    base_url: str
    api_key: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    capabilities: Capabilities | None = None
    revision: int

    def __repr__(self) -> str:
        return f"<ResolvedEndpoint {self.protocol} revision {self.revision}>"
