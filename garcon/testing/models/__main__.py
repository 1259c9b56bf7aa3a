"""``python -m garcon.testing.models``: serve a wire, or all of them, as the options say."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from twisted.internet import task
from twisted.internet.defer import Deferred, ensureDeferred

from garcon.testing.models.anthropic import AnthropicMessages
from garcon.testing.models.gemini import Gemini
from garcon.testing.models.judges import AnthropicJudge, ChatJudge, ResponsesJudge
from garcon.testing.models.openai_chat import ChatCompletions
from garcon.testing.models.openai_responses import Responses
from garcon.testing.models.script import Script, script_from_json
from garcon.testing.models.server import Judge, Wire, port_of, serve

WIRES: dict[str, Callable[[], Wire]] = {
    "anthropic": AnthropicMessages,
    "gemini": Gemini,
    "openai-chat": ChatCompletions,
    "openai-responses": Responses,
}
JUDGES: dict[str, Callable[..., Judge]] = {
    "anthropic": AnthropicJudge,
    "openai-chat": ChatJudge,
    "openai-responses": ResponsesJudge,
}


async def _main(
    reactor: object, port: int, script: Script, wires: list[Wire], judge: Judge | None
) -> None:
    """Listen, print the port as one JSON line, then serve until stopped."""
    listening = await serve(reactor, script, wires, port, judge)
    forever: Deferred[None] = Deferred()
    print(json.dumps({"port": port_of(listening)}), flush=True)
    await forever


def main(argv: list[str]) -> None:
    """Parse the command line and run the reactor."""
    parser = argparse.ArgumentParser(prog="garcon.testing.models", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path)
    parser.add_argument("--wire", choices=sorted(WIRES))
    parser.add_argument(
        "--strict",
        metavar="KEY",
        help="judge every request as one of the wire's direct agent with this key, below /v1",
    )
    given = parser.parse_args(argv)
    if given.strict and given.wire not in JUDGES:
        parser.error(f"--strict needs --wire with one of {', '.join(sorted(JUDGES))}")
    script = script_from_json(given.script.read_text()) if given.script else Script()
    names = [given.wire] if given.wire else sorted(WIRES)
    wires: list[Wire] = [WIRES[name]() for name in names]
    judge: Judge | None = JUDGES[given.wire](base="/v1", key=given.strict) if given.strict else None
    task.react(lambda reactor: ensureDeferred(_main(reactor, given.port, script, wires, judge)))


if __name__ == "__main__":
    main(sys.argv[1:])
