"""The pinned Claude Code for tests and demonstrations.

    python -m garcon.testing.claude_code

installs it where needed, and prints the path of its program.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from garcon.testing.npm_agents import NpmAgent

PACKAGE, VERSION = "@anthropic-ai/claude-code", "2.1.197"


def _programs(modules: Path) -> list[Path]:
    """The native program needs no install script to have run; the launcher does."""
    native = sorted((modules / "@anthropic-ai").glob("claude-code-*/claude"))
    return [*native, modules / ".bin" / "claude"]


CLAUDE_CODE = NpmAgent(
    title="Claude Code",
    package=PACKAGE,
    version=VERSION,
    folder="claude-code",
    variable="GARCON_CLAUDE_CODE_CACHE",
    programs=_programs,
)
cache_directory, install = CLAUDE_CODE.cache_directory, CLAUDE_CODE.install


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
