"""All pinned agents of the tests: installed side by side where needed.

    python -m garcon.testing.pinned_agents

prints where each one's program is, and fails where one is missing.  Only the standard library.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from garcon.testing.acp_agents import CLAUDE_CODE_ACP, GEMINI, OPENCODE
from garcon.testing.acp_example import EXAMPLE
from garcon.testing.claude_code import CLAUDE_CODE
from garcon.testing.codex_cli import CODEX
from garcon.testing.npm_agents import NotInstalled
from garcon.testing.pi_coding_agent import PI


class Pinned(Protocol):
    """One agent in one version."""

    @property
    def title(self) -> str:
        """What people call it."""

    def install(self) -> str:
        """Return the program's path, after installing it where needed.  Raises `NotInstalled`."""


AGENTS: tuple[Pinned, ...] = (CLAUDE_CODE, CODEX, PI, OPENCODE, GEMINI, CLAUDE_CODE_ACP, EXAMPLE)


def missing(agents: Sequence[Pinned] = AGENTS) -> list[str]:
    """Install them, say where they are, and return why not for each that is not there."""

    def install(agent: Pinned) -> str | None:
        try:
            print(agent.install(), flush=True)
        except NotInstalled as error:
            return f"{agent.title}: {error}"
        return None

    with ThreadPoolExecutor(len(agents)) as pool:
        return [why for why in pool.map(install, agents) if why is not None]


if __name__ == "__main__":
    sys.exit("\n".join(missing()) or 0)
