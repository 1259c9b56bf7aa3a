"""The agents of the Agent Client Protocol that Garcon knows by itself, as data: what each was seen
to do (opencode 1.18.33, Gemini CLI 0.61.0, Claude Code by ACP 0.16.2).

Each is found on the path, and absent where its program is not there.
"""

from __future__ import annotations

import json

from garcon.contract.catalogs import Generation, Model
from garcon.runtime.agents import gemini_store
from garcon.runtime.agents.acp import AcpManifest
from garcon.runtime.agents.acp_history import CLAUDES, GEMINIS, REPLAYED
from garcon.runtime.agents.anthropic_variables import ANTHROPIC
from garcon.runtime.agents.opencode_variables import OPENCODE_ENDPOINT

OPENCODE = AcpManifest(
    id="opencode",
    label="OpenCode",
    description="OpenCode, by ACP",
    command=("opencode", "acp"),
    models=(Model(value="default", label="Default", supports_images=True),),
    model_command=("opencode", "models"),
    learns_models=True,
    # Without this it asks for nothing at all, whatever the permission mode.
    environment={"OPENCODE_PERMISSION": json.dumps({"bash": "ask", "edit": "ask"})},
    modes={"default": "build", "plan": "plan"},
    endpoint=OPENCODE_ENDPOINT,
    thinking_modes=("none", "low", "medium", "high"),
    supports_images=True,
    compact="/compact",
    native_fork="session",
    history=REPLAYED,
    generation=Generation(priority=60, model=""),
)

GEMINI = AcpManifest(
    id="gemini",
    label="Gemini CLI",
    description="Gemini CLI by Google, by ACP",
    command=("gemini", "--acp", "--skip-trust"),
    models=(
        Model(value="auto", label="Auto", supports_images=True),
        Model(value="gemini-2.5-pro", label="gemini-2.5-pro", supports_images=True),
    ),
    learns_models=True,
    # One process, which ends when it is told to.
    environment={"GEMINI_CLI_NO_RELAUNCH": "true"},
    modes={
        "default": "default",
        "acceptEdits": "autoEdit",
        "bypassPermissions": "yolo",
        "plan": "plan",
    },
    thinking_modes=("none",),
    supports_images=True,
    history=GEMINIS,
    wait_before_load=gemini_store.wait_before_load,
)

CLAUDE_CODE_ACP = AcpManifest(
    id="claude-code-acp",
    label="Claude Code (ACP)",
    description="The Claude Code that Zed's adapter brings, by ACP",
    command=("claude-code-acp",),
    models=(
        Model(value="default", label="Default (recommended)", supports_images=True),
        Model(value="opus", label="Opus", supports_images=True),
        Model(value="haiku", label="Haiku", supports_images=True),
    ),
    learns_models=True,
    modes={
        "default": "default",
        "acceptEdits": "acceptEdits",
        # Listed by it for users that are not root only; else we allow what it asks for.
        "bypassPermissions": "bypassPermissions",
        "plan": "plan",
    },
    endpoint=ANTHROPIC,
    thinking_modes=("none",),
    supports_images=True,
    native_fork="session",
    history=CLAUDES,
)

SHIPPED = (OPENCODE, GEMINI, CLAUDE_CODE_ACP)
