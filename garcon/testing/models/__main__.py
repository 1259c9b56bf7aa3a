"""``python -m garcon.testing.models [--port N] [--script FILE]``: serve the Anthropic wire."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from twisted.internet import task
from twisted.internet.defer import Deferred, ensureDeferred

from garcon.testing.models.anthropic import AnthropicMessages
from garcon.testing.models.script import Script, script_from_json
from garcon.testing.models.server import port_of, serve


async def _main(reactor: object, port: int, script: Script) -> None:
    """Listen, print the port as one JSON line, then serve until stopped."""
    listening = await serve(reactor, script, [AnthropicMessages()], port)
    forever: Deferred[None] = Deferred()
    print(json.dumps({"port": port_of(listening)}), flush=True)
    await forever


def main(argv: list[str]) -> None:
    """Parse the command line and run the reactor."""
    parser = argparse.ArgumentParser(prog="garcon.testing.models", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path)
    given = parser.parse_args(argv)
    script = script_from_json(given.script.read_text()) if given.script else Script()
    task.react(lambda reactor: ensureDeferred(_main(reactor, given.port, script)))


if __name__ == "__main__":
    main(sys.argv[1:])
