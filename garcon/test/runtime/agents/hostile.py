"""Hostile messages for conversations with agents: made by chance from sound ones, in any order.

Whatever comes, a conversation takes it or says that it does not know it; what it says itself can be
written, and the events of a turn end with its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import msgspec

from garcon.contract.runs import RunEnded
from garcon.runtime.agents.conversation import Conversation, Emit, Output, Send
from garcon.runtime.agents.lines import decode, encode
from garcon.test.runtime.agents.replay import Taken
from garcon.testing.agent_runs import a_launch
from garcon.testing.faults.fuzz import Mutator

TALK = 40
"""Messages that one conversation hears."""


def attack(
    make: Callable[[], Conversation], samples: Sequence[dict[str, Any]], count: int, seed: int
) -> int:
    """Let conversations hear `count` hostile messages, and return how many were messages at all."""
    chance = Random(seed)
    mutator = Mutator(chance)
    sound = tuple(encode(sample) for sample in samples)
    heard = 0
    for first in range(0, count, TALK):
        victim = _Victim(make(), chance, f"seed {seed}, talk {first // TALK}")
        for _ in range(min(TALK, count - first)):
            line = chance.choice(sound) if chance.random() < 0.4 else mutator.mutated(sound)
            message = decode(line.partition(b"\n")[0])
            if message is not None:
                heard += 1
                victim.hears(message)
    return heard


class _Victim:
    """One conversation, now and then in a turn."""

    def __init__(self, conversation: Conversation, chance: Random, where: str) -> None:
        self._conversation = conversation
        self._chance = chance
        self._where = where
        self._taken = Taken()
        self._in_turn = False
        self._check(conversation.open())

    def hears(self, message: dict[str, Any]) -> None:
        """Take a message, and sometimes do something besides."""
        stamp = self._taken.stamp()
        try:
            self._check(self._conversation.received(self._addressed(message), stamp))
            match self._chance.randrange(6):
                case 0 if not self._in_turn:
                    self._in_turn = True
                    self._check(self._conversation.prompt(a_launch("go"), stamp))
                case 1 if self._in_turn:
                    self._check(self._conversation.interrupt(stamp))
                case 2:
                    self._conversation.capture_steering()
                case 3 if self._chance.random() < 0.2:
                    self._check(self._conversation.ended("it is gone", stamp))
        except Exception as error:
            raise AssertionError(f"{self._where}: {message!r}") from error

    def _addressed(self, message: dict[str, Any]) -> dict[str, Any]:
        """Let many an answer be to what was asked last: nobody hears the others."""
        asked = [one["id"] for one in self._taken.sent if "method" in one and "id" in one]
        if asked and "id" in message and "method" not in message and self._chance.random() < 0.8:
            return {**message, "id": asked[-1]}
        return message

    def _check(self, outputs: Iterable[Output]) -> None:
        said = list(outputs)
        self._taken.take(said)
        for output in said:
            match output:
                case Send(written):
                    encode(written)
                case Emit(event):
                    assert self._in_turn, f"{event!r} outside a turn"
                    msgspec.json.encode(event)
                    if isinstance(event, RunEnded):
                        self._in_turn = False
