"""The pinned Codex for tests.

    python -m garcon.testing.codex_cli

installs it where needed, and prints the path of its program: the wrapper, as npm puts it on a path.
"""

from __future__ import annotations

import os
from pathlib import Path

from garcon.testing.npm_agents import NpmAgent

PACKAGE, VERSION = "@openai/codex", "0.171.0"


def _programs(modules: Path) -> list[Path]:
    return [modules / ".bin" / "codex"]


CODEX = NpmAgent(
    title="Codex",
    package=PACKAGE,
    version=VERSION,
    folder="codex",
    variable="GARCON_CODEX_CACHE",
    programs=_programs,
    hashes={
        "@openai/codex": "sha512-1IOFzL2Xg86tLdw6kDo3GoKbkQENgQi7TI6rlEvN132R7ngSw7SNOIQoTcnKzSZZ8"
        "kf9N9GynCweSoaFbqk2Eg==",
        "@openai/codex-linux-x64": "sha512-l66NZkQgdk2C3pbcfULDz42yEUB581MVA6I+Y43Wp4OIqEy73HCdmZ0G"
        "TjeAHY2ycuH4N00d9VsLrwT1jxshTw==",
        "@openai/codex-linux-arm64": "sha512-9z17t4bbUJ9UCIb49O4PoA+ki+45q3rd8nZ8PeH6sYnlKkBld/Xpo/"
        "OS3h3Ti954+foshX4o7k5TCU8N7zzqQA==",
    },
)


CONFIG = """\
model = "{model}"
model_provider = "scripted"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "Scripted"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 1
stream_max_retries = 1
"""
MODEL = "gpt-5.5"
"""One that is offered a plain set of tools; others expect what no script can say."""


def scripted_environment(directory: str | os.PathLike[str], port: int) -> dict[str, str]:
    """Return the variables with which Codex talks to a pretend model server and to nobody else.

    Its home is made in `directory`.
    """
    home = Path(directory)
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(CONFIG.format(model=MODEL, port=port))
    return {"HOME": str(home), "CODEX_HOME": str(home), "SCRIPTED_KEY": "scripted"}


if __name__ == "__main__":
    CODEX.main()
