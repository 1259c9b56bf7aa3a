"""Install the pinned Codex into a cache outside the tree, for the tests of its sandbox.

    python -m garcon.testing.codex

prints the path of its program.
"""

from __future__ import annotations

from garcon.testing.npm_programs import NpmProgram

VERSION = "0.156.0"
CODEX = NpmProgram(
    "@openai/codex",
    VERSION,
    "codex",
    "GARCON_CODEX_CACHE",
    ("@openai/codex-*/vendor/*/bin/codex",),
    f"codex-cli {VERSION}",
)

if __name__ == "__main__":
    CODEX.main()
