"""Scripts: what a pretend model answers, request by request.

A :class:`Script` holds a queue of :class:`Turn` objects. Every main request
takes the next turn; *rules* answer requests that must not take one (title
generation, summaries, probes). Steps inside a turn are played in order, so a
turn can stream slowly, stop at a named gate until a test releases it, or cut
the connection half way.

Nothing in here knows about a wire format; see the sibling modules for those.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from attrs import Factory, define, field, frozen
from twisted.internet.defer import Deferred


@frozen
class Text:
    """Visible text, sent in ``chunks`` pieces with ``delay`` seconds between."""

    text: str
    chunks: int = 1
    delay: float = 0.0

    def pieces(self) -> list[str]:
        """The text cut into at most ``chunks`` non-empty pieces."""
        size = max(1, -(-len(self.text) // max(1, self.chunks)))
        return [self.text[i : i + size] for i in range(0, len(self.text), size)]


@frozen
class Think:
    """Reasoning text, on the wires that have a place for it."""

    text: str


@frozen
class Call:
    """A tool call with JSON arguments."""

    name: str
    args: dict[str, Any] = Factory(dict)
    id: str | None = None


@frozen
class FreeCall:
    """A tool call whose input is plain text (Responses ``custom_tool_call``)."""

    name: str
    input: str
    id: str | None = None


@frozen
class Sleep:
    """Keep the stream open and silent for ``seconds``."""

    seconds: float


@frozen
class Hold:
    """Keep the stream open and silent until ``Script.release(gate)``."""

    gate: str


@frozen
class Cut:
    """Drop the TCP connection without finishing the stream."""


@frozen
class StreamError:
    """An error reported inside a stream that began with status 200."""

    kind: str = "overloaded_error"
    message: str = "scripted stream error"


@frozen
class Raw:
    """Bytes of the stream's own, whatever they are."""

    data: bytes


@frozen
class Stop:
    """End the answer in good order, but without what this wire ends its streams with."""


@frozen
class Fail:
    """Answer with an HTTP error instead of a stream. Must be a turn's only step."""

    status: int
    kind: str = "api_error"
    message: str = "scripted failure"
    headers: dict[str, str] = Factory(dict)


Step = Text | Think | Call | FreeCall | Sleep | Hold | Cut | StreamError | Raw | Stop | Fail


@frozen
class Turn:
    """One model answer. ``usage`` is (input tokens, output tokens)."""

    steps: tuple[Step, ...]
    usage: tuple[int, int] = (10, 5)

    @property
    def failure(self) -> Fail | None:
        """The HTTP failure this turn stands for, if it is one."""
        return next((s for s in self.steps if isinstance(s, Fail)), None)

    @property
    def calls_tools(self) -> bool:
        """Whether any step is a tool call."""
        return any(isinstance(s, (Call, FreeCall)) for s in self.steps)


@define
class Asked:
    """One request as the server saw it, also the journal entry for it."""

    wire: str
    path: str
    model: str
    stream: bool
    system: str
    last_user: str
    tools: tuple[str, ...]
    body: dict[str, Any] = field(repr=False)
    headers: dict[str, str] = field(repr=False, factory=dict)
    outcome: str = "open"

    @property
    def is_side(self) -> bool:
        """Requests that offer no tools are titles, summaries or probes."""
        return not self.tools


Answer = Turn | Callable[[Asked], Turn]


@frozen
class Rule:
    """Answers every request that ``when`` accepts, without taking a turn."""

    when: Callable[[Asked], bool]
    answer: Answer


def said(*steps: Step | str) -> Turn:
    """A turn from steps; a bare string is a :class:`Text`."""
    return Turn(tuple(Text(s) if isinstance(s, str) else s for s in steps))


@define
class Script:
    """The queue of turns, the rules, the gates and the journal."""

    turns: deque[Answer] = Factory(deque)
    rules: list[Rule] = Factory(list)
    fallback: Turn = Factory(lambda: said("ok"))
    side: Turn = Factory(lambda: said("Scripted title"))
    sides_take_turns: bool = False
    asked: list[Asked] = Factory(list)
    violations: list[str] = Factory(list)
    """What a judge found wrong with requests; a test that uses one ends by looking here."""
    _gates: dict[str, list[Deferred[None]]] = Factory(dict)
    _open_gates: set[str] = Factory(set)

    def push(self, *answers: Answer | str) -> None:
        """Append turns; a bare string is a text turn."""
        self.turns.extend(said(a) if isinstance(a, str) else a for a in answers)

    def answer(self, asked: Asked) -> Turn:
        """Journal the request and choose the turn that answers it."""
        self.asked.append(asked)
        for rule in self.rules:
            if rule.when(asked):
                return _resolve(rule.answer, asked)
        if asked.is_side and not self.sides_take_turns:
            return self.side
        if self.turns:
            return _resolve(self.turns.popleft(), asked)
        return self.fallback

    def wait(self, gate: str) -> Deferred[None]:
        """A deferred that fires when ``gate`` is released (at once if it was)."""
        waiting: Deferred[None] = Deferred()
        if gate in self._open_gates:
            waiting.callback(None)
        else:
            self._gates.setdefault(gate, []).append(waiting)
        return waiting

    def release(self, gate: str) -> int:
        """Open ``gate`` for good; the number of streams it let go."""
        self._open_gates.add(gate)
        held = self._gates.pop(gate, [])
        for waiting in held:
            if not waiting.called:
                waiting.callback(None)
        return len(held)


def _resolve(answer: Answer, asked: Asked) -> Turn:
    """A turn from a turn or from a function of the request."""
    return answer if isinstance(answer, Turn) else answer(asked)


# -- the JSON form ---------------------------------------------------------

_STEP_KEYS: dict[str, Callable[[dict[str, Any]], Step]] = {
    "text": lambda d: Text(d["text"], d.get("chunks", 1), d.get("delay", 0.0)),
    "think": lambda d: Think(d["think"]),
    "tool": lambda d: Call(d["tool"], d.get("args", {}), d.get("id")),
    "free": lambda d: FreeCall(d["free"], d["input"], d.get("id")),
    "sleep": lambda d: Sleep(d["sleep"]),
    "hold": lambda d: Hold(d["hold"]),
    "cut": lambda d: Cut(),
    "raw": lambda d: Raw(d["raw"].encode()),
    "stop": lambda d: Stop(),
    "stream_error": lambda d: StreamError(d["stream_error"], d.get("message", "")),
    "error": lambda d: Fail(
        d["error"],
        d.get("kind", "api_error"),
        d.get("message", "scripted failure"),
        d.get("headers", {}),
    ),
}


def step_from_json(data: str | dict[str, Any]) -> Step:
    """One step from its JSON form; a string is text."""
    if isinstance(data, str):
        return Text(data)
    for key, make in _STEP_KEYS.items():
        if key in data:
            return make(data)
    raise ValueError(f"unknown step: {data!r}")


def turn_from_json(data: Any) -> Turn:
    """A turn from a step, a list of steps, or ``{"steps": [...], "usage": [i, o]}``."""
    usage = (10, 5)
    if isinstance(data, dict) and "steps" in data:
        usage = tuple(data.get("usage", usage))
        data = data["steps"]
    steps: Iterable[Any] = data if isinstance(data, list) else [data]
    return Turn(tuple(step_from_json(s) for s in steps), usage)


def script_from_json(text: str) -> Script:
    """A script from ``{"turns": [...], "rules": [{"match": RE, "turn": T}], ...}``.

    ``match`` is searched in the system prompt and the last user text.
    """
    data = json.loads(text)
    script = Script(deque(turn_from_json(t) for t in data.get("turns", [])))
    for rule in data.get("rules", []):
        script.rules.append(Rule(_matcher(rule["match"]), turn_from_json(rule["turn"])))
    if "fallback" in data:
        script.fallback = turn_from_json(data["fallback"])
    if "side" in data:
        script.side = turn_from_json(data["side"])
    script.sides_take_turns = data.get("sides_take_turns", False)
    return script


def _matcher(pattern: str) -> Callable[[Asked], bool]:
    """A predicate: ``pattern`` occurs in the system prompt or last user text."""
    regex = re.compile(pattern)
    return lambda a: bool(regex.search(a.system) or regex.search(a.last_user))
