"""The services that profiles are made for, as the contract lists them (control.md B.7)."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from garcon.contract.catalogs import Protocol
from garcon.contract.providers import Capabilities, DiscoveryKind, EndpointModel

HOME_PAGE = "https://pypi.org/project/garcon-fleet/"
"""What services that rank their callers are told of us."""

ANTHROPIC: Protocol = "anthropic-messages"
OPENAI: Protocol = "openai-compatible"


@frozen
class Template:
    """What a new endpoint of one service starts from, over one protocol."""

    id: str
    protocol: Protocol
    label: str
    base_url: str
    needs_key: bool
    discovery: DiscoveryKind
    default_model: str
    models: tuple[EndpointModel, ...] = ()
    capabilities: Capabilities | None = None
    supports_images: bool = False
    headers: dict[str, str] = field(factory=dict)


_CHAT = Capabilities(chat_completions=True, responses=False)
_BOTH = Capabilities(chat_completions=True, responses=True)
_QWEN = ("qwen-plus", "qwen3-coder-plus", "qwen3-max-preview")
_FIREWORKS = (
    "accounts/fireworks/models/deepseek-v3p2",
    "accounts/fireworks/models/kimi-k2p5",
)


def _presets(values: Iterable[str]) -> tuple[EndpointModel, ...]:
    return tuple(EndpointModel(value=value, label=value) for value in values)


_ALL = (
    Template(
        "alibaba-cloud",
        ANTHROPIC,
        "Alibaba Cloud",
        "https://dashscope-intl.aliyuncs.com/apps/anthropic",
        True,
        "anthropic-models",
        "qwen-plus",
        _presets(_QWEN),
    ),
    Template(
        "alibaba-cloud",
        OPENAI,
        "Alibaba Cloud",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        True,
        "openai-models",
        "qwen-plus",
        _presets(_QWEN),
        _BOTH,
    ),
    Template("custom", ANTHROPIC, "", "", False, "none", ""),
    Template("custom", OPENAI, "", "", False, "openai-models", "", (), _CHAT),
    Template(
        "fireworks",
        ANTHROPIC,
        "Fireworks.ai",
        "https://api.fireworks.ai/inference",
        True,
        "anthropic-models",
        _FIREWORKS[1],
        _presets(_FIREWORKS),
    ),
    Template(
        "fireworks",
        OPENAI,
        "Fireworks.ai",
        "https://api.fireworks.ai/inference/v1",
        True,
        "openai-models",
        _FIREWORKS[1],
        _presets(_FIREWORKS),
        _BOTH,
    ),
    Template(
        "gemini",
        OPENAI,
        "Gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        True,
        "openai-models",
        "gemini-3-flash-preview",
        _presets(
            (
                "gemini-2.5-flash",
                "gemini-2.5-pro",
                "gemini-3-flash-preview",
                "gemini-3-pro-preview",
            )
        ),
        _CHAT,
        True,
    ),
    Template(
        "ollama", ANTHROPIC, "Ollama", "http://localhost:11434", False, "ollama-tags", "llama3"
    ),
    Template(
        "ollama",
        OPENAI,
        "Ollama",
        "http://localhost:11434/v1",
        False,
        "ollama-tags",
        "llama3",
        (),
        _BOTH,
    ),
    Template(
        "openrouter",
        OPENAI,
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        True,
        "openrouter-models",
        "anthropic/claude-sonnet-4.6",
        _presets(
            (
                "anthropic/claude-opus-4.6",
                "anthropic/claude-sonnet-4.6",
                "openai/gpt-5.4",
                "openai/gpt-5.4-mini",
                "google/gemini-3.1-pro-preview",
                "google/gemini-2.5-flash",
                "x-ai/grok-4.20",
                "deepseek/deepseek-v3.2",
                "deepseek/deepseek-r1",
                "meta-llama/llama-4-maverick",
                "qwen/qwen3.6-plus",
            )
        ),
        _BOTH,
        True,
        {"HTTP-Referer": HOME_PAGE, "X-OpenRouter-Title": "Garcon"},
    ),
    Template(
        "together",
        OPENAI,
        "Together.ai",
        "https://api.together.ai/v1",
        True,
        "openai-models",
        "openai/gpt-oss-20b",
        _presets(("openai/gpt-oss-20b",)),
        _CHAT,
    ),
    Template(
        "zai",
        ANTHROPIC,
        "Z.AI",
        "https://api.z.ai/api/anthropic",
        True,
        "none",
        "glm-5.1",
        _presets(("glm-5.1",)),
    ),
    Template(
        "zai",
        OPENAI,
        "Z.AI",
        "https://api.z.ai/api/coding/paas/v4",
        True,
        "none",
        "glm-5.1",
        _presets(("glm-5.1",)),
        _CHAT,
    ),
)
TEMPLATES = {(template.id, template.protocol): template for template in _ALL}
TEMPLATE_IDS = frozenset(template.id for template in _ALL)


def headers_of(template_id: str, protocol: Protocol) -> dict[str, str]:
    """Return what calls to a service carry beside their key; nothing for an unknown one."""
    template = TEMPLATES.get((template_id, protocol))
    return {} if template is None else dict(template.headers)
