"""What Garcon adds to a turn of an agent, and how fast an agent's rows reach the transcript.

The scripted agent runs the same turn three ways, in turn: driven by hand over its own pipes, by a
controller on its own machine, and by a worker behind the link.  A turn through Garcon begins with
its HTTP request and ends when a browser's socket hears that it has ended; what that takes longer
than by hand is the overhead.  Rows are counted from the request to the settled receipt.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import count
from typing import Any
from urllib.parse import urlencode

from attrs import define, field

from garcon.testing.bench.keep_alive import Connection, get, post
from garcon.testing.bench.report import Bound, Samples, percentile, report
from garcon.testing.bench.tunnel import say
from garcon.testing.fleet import Fleet
from garcon.testing.websocket_client import WebSocketClient

BY_HAND, LOCAL, WORKER = "by hand", "Local", "a worker"
SMALL = "say done"
POLL = 0.05
PATIENCE = 120.0
AIMS = (
    Bound("agents.overhead_p50", LOCAL, "overhead p50 ms", "ms", 10.0),
    Bound("agents.overhead_p50_worker", WORKER, "overhead p50 ms", "ms", 10.0),
    Bound("agents.rows_per_s", WORKER, "rows /s", "/s", 5_000.0, least=True),
)


class ByHand:
    """The agent as a child, spoken to as its protocol says and no more."""

    def __init__(self, directory: str, environment: dict[str, str]) -> None:
        argv = [sys.executable, "-m", "garcon.testing.scripted_agent"]
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=environment)
        self._numbers = count(1)
        self._ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        opened = self._ask("session/new", {"cwd": directory, "mcpServers": []})
        self._session = opened["sessionId"]

    def turn(self, prompt: str) -> float:
        """Run one; return how long it took, in milliseconds."""
        began = time.perf_counter()
        text = [{"type": "text", "text": prompt}]
        self._ask("session/prompt", {"sessionId": self._session, "prompt": text})
        return (time.perf_counter() - began) * 1e3

    def close(self) -> None:
        """End it."""
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.close()
        self._child.wait(10)
        self._child.stdout.close()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._child.stdin is not None and self._child.stdout is not None
        number = next(self._numbers)
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self._child.stdin.write(json.dumps(request).encode() + b"\n")
        self._child.stdin.flush()
        for line in self._child.stdout:
            said = json.loads(line)
            if said.get("id") == number:
                result: dict[str, Any] = said["result"]
                return result
        raise AssertionError("the agent has ended")


@define(eq=False)
class Driven:
    """The agent in a chat of one executor."""

    _url: str
    _executor_id: str
    _project: str
    _chat_id: str
    _names: count[int] = field(factory=count)
    _connection: Connection = field(init=False)
    _socket: WebSocketClient = field(init=False)
    _view: dict[str, str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._connection = Connection(self._url)
        self._socket = WebSocketClient.open(self._url, deflate=None)
        body = {
            "agentId": "scripted",
            "model": "scripted",
            "projectPath": self._project,
            "executorId": self._executor_id,
            "agentSettings": {"ownerId": "scripted", "schemaVersion": 1, "values": {}},
        }
        self._connection.ask(self._request("start", SMALL, body), 202)
        self._await_end()
        page = get(f"/api/v1/chats/messages?{urlencode({'chatId': self._chat_id, 'limit': 1})}")
        self._view = {
            "transcriptViewId": json.loads(self._connection.ask(page))["transcriptViewId"]
        }

    def turn(self, prompt: str) -> float:
        """Run one; return how long it took, in milliseconds, until a browser knew."""
        began = time.perf_counter()
        self._connection.ask(self._request("run", prompt, self._view), 202)
        self._await_end()
        return (time.perf_counter() - began) * 1e3

    def rows(self, number: int) -> float:
        """Return how many rows a second came into the transcript.  Nobody looks at them."""
        self._socket.close()
        began = time.perf_counter()
        request = self._request("run", f"emit {number}", self._view)
        accepted = json.loads(self._connection.ask(request, 202))
        query = urlencode({"chatId": self._chat_id, "turnId": accepted["turnId"]})
        asked = get(f"/api/v1/chats/turn-receipt?{query}")
        while (receipt := json.loads(self._connection.ask(asked)))["state"] == "pending":
            assert time.perf_counter() - began < PATIENCE, "the turn does not end"
            time.sleep(POLL)
        took = time.perf_counter() - began
        assert receipt["state"] == "completed", receipt.get("error")
        self._socket = WebSocketClient.open(self._url, deflate=None)
        return number / took

    def close(self) -> None:
        """Let the connections go; the chat goes with its controller."""
        self._connection.close()
        self._socket.close()

    def _request(self, command: str, prompt: str, more: dict[str, Any]) -> bytes:
        name = f"bench-{self._chat_id}-{next(self._names)}"
        body = {
            "chatId": self._chat_id,
            "clientRequestId": name,
            "clientMessageId": name,
            "command": prompt,
        }
        return post(f"/api/v1/chats/{command}", body | more)

    def _await_end(self) -> None:
        while True:
            said = self._socket.json(PATIENCE)
            assert said["type"] != "agent-run-failed", said
            if said["type"] == "agent-run-finished" and said["chatId"] == self._chat_id:
                return


def run(file: str | None, rounds: int = 7, *, turns: int = 60, rows: int = 20_000) -> int:
    """Measure and report; 0 whatever the verdict."""
    samples = Samples()
    with Fleet() as fleet:
        say("starting a controller, a worker and three agents")
        controller, _, executor_id = fleet.pair()
        project = str(fleet.project("bench"))
        by_hand = ByHand(project, fleet.environment())
        driven = {
            LOCAL: Driven(controller.url, "local", project, "1111111111111111"),
            WORKER: Driven(controller.url, executor_id, project, "2222222222222222"),
        }
        for number in range(rounds + 1):
            say(f"round {number} of {rounds}" if number else "warming up")
            _measure(samples if number else Samples(), by_hand, driven, turns, rows)
        by_hand.close()
        for one in driven.values():
            one.close()
    print(f"{rounds} rounds; in each {turns} turns each way, and a turn of {rows:,} rows")
    report("agents", samples, AIMS, file)
    return 0


def _measure(
    samples: Samples, by_hand: ByHand, driven: dict[str, Driven], turns: int, rows: int
) -> None:
    """Make one round, turn by turn."""
    ways = {BY_HAND: by_hand.turn} | {name: one.turn for name, one in driven.items()}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(turns):
        for name, turn in ways.items():
            taken[name].append(turn(SMALL))
    for name, times in taken.items():
        samples.add(name, "turn p50 ms", percentile(times, 0.5))
        if name != BY_HAND:
            over = [a - b for a, b in zip(times, taken[BY_HAND], strict=True)]
            samples.add(name, "overhead p50 ms", percentile(over, 0.5))
    for name, one in driven.items():
        samples.add(name, "rows /s", one.rows(rows))
