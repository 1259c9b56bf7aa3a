"""Install the pinned Claude Code into a cache outside the tree, for tests and demonstrations.

    python -m garcon.testing.claude_code

prints the path of its program.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from garcon.testing.npm_programs import NpmProgram

VERSION = "2.1.197"
CLAUDE_CODE = NpmProgram(
    "@anthropic-ai/claude-code",
    VERSION,
    "claude-code",
    "GARCON_CLAUDE_CODE_CACHE",
    # The native program needs no install script to have run; the launcher does.
    ("@anthropic-ai/claude-code-*/claude", ".bin/claude"),
    f"{VERSION} (Claude Code)",
)


def scripted_environment(directory: str | os.PathLike[str], port: int) -> dict[str, str]:
    """Return the variables with which Claude Code talks to a pretend model server and to nobody
    else.

    Its home is made in `directory`.  What its settings carry would not survive in a service's child
    environment, from which ``CLAUDE_CODE_*`` is taken.
    """
    home = Path(directory)
    home.mkdir(parents=True, exist_ok=True)
    variables = {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
    }
    (home / "settings.json").write_text(json.dumps({"env": variables}))
    return {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home),
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
        "ANTHROPIC_API_KEY": "scripted",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_TELEMETRY": "1",
    }


if __name__ == "__main__":
    CLAUDE_CODE.main()
