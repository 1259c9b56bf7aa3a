"""Values that no field should have, put into messages of agents one place after another.

A conversation may take such a message in whatever way it likes, as long as it raises nothing, what
it says can be written and read again, and its turn ends once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from attrs import define, field

from garcon.contract.runs import PermissionRequested, RunEnded, RunEvent
from garcon.runtime.agents.conversation import Conversation, Emit, Output, Send
from garcon.runtime.agents.lines import decode
from garcon.test.runtime.agents.replay import Taken
from garcon.testing.agent_runs import a_response

Message = dict[str, Any]
Place = tuple[Any, ...]

NAME = 200
"""Characters of what is stored to ask for it again."""
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 10**400, float("nan"), float("inf")),
    *("", "x", "y" * 1_000),
    *([], [None], [7, "x"], [[1]], [{}]),
    *({}, {"a": 1}, {"type": ["x"]}),
)
ANSWERS: tuple[Message | None, ...] = (
    None,
    {"answers": 7},
    {"answers": [{"questionId": ["x"], "selectedOptionIds": 7}, "x"]},
    {"answers": [{"questionId": "question-1", "selectedOptionIds": ["option-1", None]}]},
    {"outcome": "skipped", "reason": 7},
)


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Yield where something stands in a value."""
    members: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value[:3])
    for key, member in members:
        yield (*at, key)
        yield from places(member, (*at, key))


def put(value: Any, place: Place, new: Any) -> Any:
    """Return a value with something else in that place."""
    if not place:
        return new
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[place[0]] = put(value[place[0]], place[1:], new)
    return changed


def kinds(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield one message of each shape."""
    seen = set()
    for message in messages:
        shape = _shape(message)
        if shape not in seen:
            seen.add(shape)
            yield message


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        tags = (value.get("type"), value.get("subtype"), value.get("method"), value.get("name"))
        return repr(tags), tuple(sorted((key, _shape(member)) for key, member in value.items()))
    if isinstance(value, list):
        return tuple(sorted({repr(_shape(member)) for member in value}))
    return type(value).__name__


def as_read(message: Message) -> Message | None:
    """Return a message as it comes out of an agent's line."""
    return decode(json.dumps(message).encode())


@define(eq=False)
class Listener:
    """Has conversations hear anything; each is `make`'s, in the midst of a turn."""

    make: Callable[[], tuple[Conversation, Taken]]
    _conversation: Conversation = field(init=False)
    _taken: Taken = field(init=False)
    _ended: bool = False
    _asked: int = 0

    def __attrs_post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Take a fresh one."""
        self._conversation, self._taken = self.make()
        self._taken.events.clear()
        self._ended = False

    def hears(self, message: Message) -> None:
        """Have it hear a message, answer what it asks, and judge what comes of it."""
        try:
            self._judge(self._conversation.received(message, self._taken.stamp()))
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}: {message!r:.2000}") from error

    def goes(self) -> None:
        """End its process: the turn is over, once, whatever was said."""
        self._judge(self._conversation.ended("gone", self._taken.stamp()))
        assert self._ended, "the turn did not end"
        self.begin()

    def _judge(self, outputs: list[Output]) -> None:
        self._taken.take(outputs)
        for output in outputs:
            match output:
                case Send(message):
                    assert msgspec.json.decode(msgspec.json.encode(message)) is not None
                case Emit(event):
                    self._judge_event(event)

    def _judge_event(self, event: RunEvent) -> None:
        assert not self._ended, f"{event!r} after the end"
        read: Any = msgspec.json.decode(msgspec.json.encode(event), type=RunEvent)
        assert type(read) is type(event)
        for name in (getattr(event, "anchor", None), getattr(event, "agent_session_id", None)):
            assert name is None or 0 < len(name) <= NAME, f"a name of {len(name)} characters"
        if isinstance(event, RunEnded):
            self._ended = True
        elif isinstance(event, PermissionRequested):
            self._asked += 1
            allow, response = self._asked % 6 != 0, ANSWERS[self._asked % len(ANSWERS)]
            answer = a_response("run", event, allow=allow, response=response)
            self._judge(self._conversation.decide(answer, self._taken.stamp()) or [])
