"""The rounds of one agent in one place, and what is left after them.

Four kinds take turns: a turn that ends, one that is stopped in its tool, one whose agent is killed
there, and one that is stopped while it starts.  An agent without tools is stopped in its answer, or
killed at rest.  Only a later turn can be stopped while its agent starts: the first one of a chat is
answered when that has begun.

What an agent keeps running for its next turn is killed at the end of a round, the agent itself and
nothing else: the rest is for its executor to find.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Literal, get_args

from attrs import Factory, define, field, frozen

from garcon.runtime.agents.descendants import LOOK_EVERY
from garcon.runtime.agents.direct_http import CACHED_TIME
from garcon.testing.conformance.casts import Cast, Hold, Plan, Run
from garcon.testing.conformance.stage import Stage
from garcon.testing.fleet import Service, eventually, expect
from garcon.testing.leaks.footing import Footing, children, described, roots, running

Kind = Literal["ended", "stopped", "killed", "stopped while it starts"]
KINDS: tuple[Kind, ...] = get_args(Kind)
GONE = 20.0
"""Seconds until nothing may be left: an agent is asked politely first."""
SETTLED = 10.0
NOTED = 0.5
"""Seconds for a look at an agent's processes to be over."""
PATIENCE = 90.0
_OPENLY = ("--permissions", "manualBypass")
_LEAVES = "setsid {sleep} & env -i setsid {sleep} & echo $$ > {file}; {sleep}"
"""One that leaves the agent's session, one that also leaves its environment, and one that stays."""
_numbers = count(1)


def kinds_of(cast: Cast) -> list[Kind]:
    """Return the kinds of rounds that an agent has something for."""
    kinds: list[Kind] = ["ended"]
    if _is_held(cast):
        kinds.append("stopped")
    if "killed from outside" not in cast.not_offered:
        kinds.append("killed")
    return [*kinds, "stopped while it starts"]


def has_tools(cast: Cast) -> bool:
    """Whether it runs commands."""
    return "tool call" not in cast.not_offered


def _is_held(cast: Cast) -> bool:
    """Whether its turns can be made to go on until somebody ends them."""
    return cast.has_model or has_tools(cast)


@frozen
class Played:
    """One round: what is wrong after it, and the seconds that each part of it took."""

    kind: Kind
    wrong: Sequence[str]
    seconds: dict[str, float]

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self.seconds.values())

    def __str__(self) -> str:
        parts = ", ".join(f"{what} {took:.1f}" for what, took in self.seconds.items())
        return f"{self.kind}: {self.total:.1f} s ({parts})"


@define(eq=False)
class Rounds:
    """Plays on a stage that is open; whoever opened it closes it."""

    stage: Stage
    tell: Callable[[Played], object] = lambda _: None
    played: list[Played] = field(factory=list)
    _before: dict[str, Footing] = field(factory=dict)
    _sleep: list[str] = Factory(lambda: ["sleep", f"36{next(_numbers):02d}.{os.getpid()}"])
    _agents: set[int] = field(factory=set)
    """Those that this round has seen."""
    _parts: dict[str, float] = field(factory=dict)

    def play(self, rounds: int, warm: int | None = None) -> list[str]:
        """Play so many rounds after those to warm up (threads are made, modules loaded, caches
        filled), which are one of each kind if nothing else is said, and say what is wrong.
        """
        self._several(len(kinds_of(self.stage.cast)) if warm is None else warm)
        self._before = {service.name: self._footing(service) for service in self.stage.services}
        self._several(rounds)
        wrong = [f"{played.kind}: {text}" for played in self.played for text in played.wrong]
        for service in self.stage.services:
            wrong += [f"{service.name}: {text}" for text in self._settled(service)]
        return wrong

    def figures(self) -> list[str]:
        """Return what the services hold now, and held after the warm-up, in lines."""
        return [
            f"{service.name}: {self._footing(service)}; before: {self._before[service.name]}"
            for service in self.stage.services
        ]

    def _several(self, rounds: int) -> None:
        kinds, first = kinds_of(self.stage.cast), len(self.played)
        for number in range(first, first + rounds):
            self._parts, self._agents = {}, set()
            kind = kinds[number % len(kinds)]
            wrong: list[str] = []
            try:
                self._round(kind, waits=number // len(kinds) % 2 == 1)
            except Exception as error:
                wrong.append(f"{type(error).__name__}: {error}")
            finally:
                wrong += self._swept()
            self.played.append(Played(kind, wrong, self._parts))
            self.tell(self.played[-1])

    # -- one round

    def _round(self, kind: Kind, *, waits: bool) -> None:
        """Play it.  `waits`: what is stopped while it starts has its process by then."""
        stage, cast = self.stage, self.stage.cast
        if cast.has_model:
            stage.fresh()
        file = stage.project / f"tool-{next(_numbers)}"
        with self._part("start"):
            chat, turn = self._start(kind, str(file))
        if kind == "stopped while it starts":
            with self._part("first turn"):
                expect(stage.wait(chat, turn).status == 0, "its first turn failed")
                self._kill(self._look())
                self._gone()
                self._agents.clear()
                cast.before_reload(stage.home)
            with self._part("start again"):
                turn = self._start_again(chat, waits=waits and "killed" in kinds_of(cast))
        elif kind != "ended":
            with self._part("work"):
                self._begun(kind, str(file), chat, turn)
        with self._part("over"):
            self._end(kind, chat)
            done = stage.wait(chat, turn)
        expect(done.status in self._statuses(kind), f"its turn ended otherwise: {done}")
        with self._part("gone"):
            if kind != "killed":
                self._kill(self._agents or self._look())
            self._gone()

    def _start(self, kind: Kind, file: str) -> tuple[str, str]:
        cast = self.stage.cast
        plan: Plan = [["part ", Hold()]]
        if kind in ("ended", "stopped while it starts") or not _is_held(cast):
            plan = [["done"]]
        elif has_tools(cast):
            command = _LEAVES.format(sleep=" ".join(self._sleep), file=file)
            plan = [[Run(command)], ["never"]]
        options = _OPENLY if has_tools(cast) else ()
        return self.stage.start(self.stage.prompt(plan), *options)

    def _start_again(self, chat: str, *, waits: bool) -> str:
        """Begin another turn, which needs another process, and return its id."""
        stage = self.stage
        prompt = stage.prompt([["part ", Hold()]] if _is_held(stage.cast) else [["done"]])
        begun = stage.fleet.garcon(stage.service, "resume-async", chat, prompt)
        if waits:
            eventually("its process", self._look, PATIENCE)
        return begun.out.partition("turn id: ")[2].split()[0]

    def _statuses(self, kind: Kind) -> tuple[int, ...]:
        """How the command that waits for the turn may end."""
        if kind == "ended" or (kind == "killed" and not _is_held(self.stage.cast)):
            return (0,)
        if kind == "killed":
            return (1,)
        return (4,) if _is_held(self.stage.cast) else (0, 4)

    def _begun(self, kind: Kind, file: str, chat: str, turn: str) -> None:
        """The turn is where it is to be stopped or killed."""
        if has_tools(self.stage.cast):
            eventually("the tool runs", lambda: os.path.exists(file), PATIENCE)
        elif kind == "stopped":
            eventually("the model's request", self.stage.asked, PATIENCE)
        else:
            expect(self.stage.wait(chat, turn).status == 0, "its turn failed")
        self._look()
        if kind == "killed" and has_tools(self.stage.cast):
            # Until then what left its environment is known to nobody, should its parent end too.
            time.sleep(LOOK_EVERY + NOTED)

    def _end(self, kind: Kind, chat: str) -> None:
        if kind.startswith("stopped"):
            self.stage.stop(chat)
        elif kind == "killed":
            expect(self._agents, "there is no agent to kill")
            self._kill(self._agents)

    def _gone(self) -> None:
        """Nothing is left, once the agent is gone."""
        deadline = time.monotonic() + GONE
        while left := self._left():
            told = "; ".join(map(described, left))
            expect(time.monotonic() < deadline, f"still there after {GONE:g} s: {told}")
            time.sleep(0.05)

    # -- processes

    def _look(self) -> set[int]:
        """Note the agents that run, so that what one has left is not taken for it."""
        self._agents.update(roots(self.stage.agents()))
        return self._agents

    def _left(self) -> list[int]:
        """What agents have left running or uncollected."""
        own = [pid for service in self.stage.services for pid in children(service.process.pid)]
        return sorted({*own, *self.stage.agents(), *running(self._sleep)})

    def _swept(self) -> list[str]:
        """End what a round that went wrong has left, so that the next one begins afresh."""
        self._kill(set(self._left()))
        try:
            eventually("the end of what was left", lambda: not self._left(), GONE)
        except AssertionError:
            return [f"cannot be ended: {described(pid)}" for pid in self._left()]
        return []

    def _kill(self, pids: set[int]) -> None:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended by itself

    # -- figures

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._parts[name] = time.monotonic() - began

    def _footing(self, service: Service) -> Footing:
        return Footing.of(service, self.stage.fleet.root / "tmp")

    def _settled(self, service: Service) -> list[str]:
        """Give what has just ended a moment to be collected."""
        before, seconds = self._before[service.name], SETTLED
        if self.stage.cast.endpoint is not None:
            seconds += CACHED_TIME  # each chat may keep its connection to the model as long
        try:
            eventually(
                "as it was",
                lambda: not self._footing(service).exceeds(before),
                seconds=seconds,
                every=0.5,
            )
        except AssertionError:
            return self._footing(service).exceeds(before)
        return []
