"""How programs that are Claude Code at heart are pointed at an endpoint by their environment."""

from __future__ import annotations

from attrs import frozen

from garcon.contract.catalogs import Protocol
from garcon.contract.providers import ResolvedEndpoint

NO_KEY = "none"
"""What an endpoint without a key gets: the agent sends nothing without one."""
_ACCOUNTS = (
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
)
_OTHER_MODELS = (
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
)


@frozen
class AnthropicVariables:
    """The variables by which the models of an endpoint are reached."""

    protocols: tuple[Protocol, ...] = ("anthropic-messages",)

    def filled(self, endpoint: ResolvedEndpoint, model: str) -> dict[str, str]:
        """Return those of one endpoint, and no others: those of an account that the user has are
        emptied.  The agent's own side requests go to the same model, as the endpoint need not have
        the small one that they are for.
        """
        headers = "\n".join(f"{name}: {value}" for name, value in endpoint.headers.items())
        return {
            "ANTHROPIC_BASE_URL": endpoint.base_url.rstrip("/").removesuffix("/v1"),
            "ANTHROPIC_API_KEY": endpoint.api_key or NO_KEY,
            "ANTHROPIC_CUSTOM_HEADERS": headers,
            **dict.fromkeys(_ACCOUNTS, ""),
            **dict.fromkeys(_OTHER_MODELS, model),
        }


ANTHROPIC = AnthropicVariables()
