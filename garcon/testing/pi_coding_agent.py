"""The pinned Pi for tests, with a Node of its own: it needs one that is newer than many machines
have.

    python -m garcon.testing.pi_coding_agent

installs it where needed, and prints the path of its program.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from garcon.testing.npm_agents import NpmAgent

PACKAGE, VERSION = "@earendil-works/pi-coding-agent", "1.6.0"
NODE_VERSION = "22.23.3"
MODEL, OTHER_MODEL = "scripted/m1", "scripted/m2"
ASKING_TOOL = "ask"
_ASKS = """
export default function (pi) {
  pi.registerTool({
    name: "ask",
    label: "Ask",
    description: "Ask the user.",
    parameters: {
      type: "object",
      properties: {
        question: { type: "string" },
        options: { type: "array", items: { type: "string" } },
      },
      required: ["question", "options"],
    },
    async execute(_id, given, _signal, _update, ctx) {
      const said = await ctx.ui.select(given.question, given.options);
      return { content: [{ type: "text", text: said ?? "no answer" }], details: {} };
    },
  });
}
"""


def _programs(modules: Path) -> list[Path]:
    return [modules / ".bin" / "pi"]


PI = NpmAgent(
    title="Pi",
    package=PACKAGE,
    version=VERSION,
    folder="pi",
    variable="GARCON_PI_CACHE",
    programs=_programs,
    hashes={
        PACKAGE: "sha512-zX1BVEsshx7A2MRuQ6jfr3RJGWw4Wn+vLq5ZfmlvS1RskhRmByaSZVXH/zcwRrWHO7qPgs98pN"
        "CbPOEti/t0fQ==",
        "node": "sha512-DefCzy9Twv55AA4RQcOnUd6iQtqmnsJ6twWGasZ33F7BKJEMUJ1KVoumiVSRRNVRHKhBtso"
        "PTvNKMxsE1TG0+Q==",
    },
    # The machine's own Node may be too old to say anything.
    tells_version=False,
    beside=(f"node@{NODE_VERSION}",),
)


def found_by(program: str) -> dict[str, str]:
    """Return the variables by which Garcon finds it, and the Node that came with it."""
    node = Path(program).parents[1] / "node" / "bin" / "node"
    return {"GARCON_PI_BINARY": program, "GARCON_PI_NODE": str(node)}


def scripted_environment(directory: str | os.PathLike[str], port: int) -> dict[str, str]:
    """Return the variables with which Pi talks to a pretend model server and to nobody else.

    Its home is made in `directory`.
    """
    home = Path(directory)
    own = home / ".pi" / "agent"
    own.mkdir(parents=True, exist_ok=True)
    models = [
        {"id": name.partition("/")[2], "reasoning": True, "input": ["text", "image"]}
        for name in (MODEL, OTHER_MODEL)
    ]
    provider = {
        "baseUrl": f"http://127.0.0.1:{port}/v1",
        "api": "openai-completions",
        "apiKey": "$SCRIPTED_KEY",
        "models": models,
    }
    (own / "models.json").write_text(json.dumps({"providers": {"scripted": provider}}))
    settings = {"defaultProvider": "scripted", "defaultModel": models[0]["id"]}
    retry = {"maxRetries": 2, "baseDelayMs": 100}
    # What is kept word for word is a few thousand tokens of a real conversation.
    compaction = {"keepRecentTokens": 1, "reserveTokens": 1000}
    (own / "settings.json").write_text(
        json.dumps({**settings, "retry": retry, "compaction": compaction})
    )
    return {
        "HOME": str(home),
        "SCRIPTED_KEY": "scripted",
        "PI_OFFLINE": "1",
        "PI_TELEMETRY": "0",
    }


def add_extension(environment: Mapping[str, str], name: str, source: str = _ASKS) -> None:
    """Give Pi an extension of its user's: one with a tool that asks the user, or another."""
    folder = Path(environment["HOME"]) / ".pi" / "agent" / "extensions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.js").write_text(source)


if __name__ == "__main__":
    PI.main()
