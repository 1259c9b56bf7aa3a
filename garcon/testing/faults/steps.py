"""What can happen in a schedule, as values, and schedules made from a source of chance.

The source is `random.Random`, or Hypothesis' own, which can then make a failing schedule smaller.
Times are in the contract's seconds; a schedule that runs in real time has all of them scaled.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from attrs import evolve, frozen

from garcon.contract.limits import KIB, MIB
from garcon.link.settings import LinkSettings
from garcon.testing.faults.machine import Script


@frozen
class Elapse:
    """Nothing new for a while."""

    seconds: float


@frozen
class Stall:
    """Both processes stand still for a while."""

    seconds: float


@frozen
class Ask:
    """A call; `method` counts through those that there are."""

    method: int
    seconds: float = 0.0
    refuses: bool = False
    answer: int = 0
    padding: int = 0
    deadline: float | None = 60.0
    interactive: bool = False
    is_upward: bool = False
    """The worker asks the controller."""


@frozen
class Cancel:
    """The caller of an open call loses interest."""

    call: int


@frozen
class Begin:
    """A run is launched."""

    script: Script


@frozen
class CancelLaunch:
    """Whoever launched loses interest before the answer."""

    turn: int


@frozen
class Stop:
    """Somebody presses Stop."""

    turn: int


@frozen
class Decide:
    """Somebody answers a permission request."""

    turn: int


@frozen
class Cut:
    """A connection breaks; both ends learn of it.  -1 is all of them."""

    connection: int


@frozen
class CutAfter:
    """A connection breaks at a position: of messages in process, of bytes on a real one."""

    connection: int
    side: int
    position: int


@frozen
class HalfOpen:
    """A connection breaks; one end learns of it."""

    connection: int
    side: int


@frozen
class Hold:
    """What is sent to one end of a connection is not delivered before things are well again."""

    connection: int
    side: int


@frozen
class Full:
    """The socket at one end takes no more before things are well again."""

    connection: int
    side: int


@frozen
class Refuse:
    """New connections are refused before things are well again."""


@frozen
class Deafen:
    """New connections are never answered before things are well again."""


@frozen
class Replay:
    """Somebody repeats all that was said on a connection."""

    connection: int


@frozen
class Heal:
    """Things are well again."""


@frozen
class Restart:
    """The worker's process is killed, and another started."""


Fault = Cut | CutAfter | HalfOpen | Hold | Full | Refuse | Deafen | Replay
Step = Elapse | Stall | Ask | Cancel | Begin | CancelLaunch | Stop | Decide | Fault | Heal | Restart

SETTINGS = LinkSettings(grace=100.0, newer_grace=20.0)
"""The contract's times, but for a grace that a schedule can see the end of."""
SMALL_RETENTION, SMALL_JOURNAL = 8 * KIB, 2 * KIB


@frozen
class Schedule:
    """Steps, and the circumstances in which they are taken."""

    steps: tuple[Step, ...]
    worker_dials: bool = True
    retention: int | None = None
    """Bytes of output that the worker may keep; None is the contract's."""
    journal: int | None = None
    """Bytes of replies that it may keep; likewise."""

    def __str__(self) -> str:
        lines = "\n".join(f"    {step}," for step in self.steps)
        return (
            f"worker_dials={self.worker_dials} retention={self.retention} journal={self.journal}\n"
            f"{lines}"
        )


def seeded(seed: int) -> Schedule:
    """Return the schedule of a seed."""
    return made(Random(seed))


def made(chance: Random, longest: int = 48) -> Schedule:
    """Make a schedule by chance."""
    kinds = list(_MAKERS)
    weights = [weight for weight, _ in _MAKERS.values()]
    steps = [
        _MAKERS[kind][1](chance)
        for kind in chance.choices(kinds, weights, k=chance.randint(8, longest))
    ]
    return Schedule(
        tuple(steps),
        worker_dials=chance.random() < 0.6,
        retention=SMALL_RETENTION if chance.random() < 0.3 else None,
        journal=SMALL_JOURNAL if chance.random() < 0.2 else None,
    )


def scaled(schedule: Schedule, factor: float) -> Schedule:
    """Return a schedule with all of its times multiplied."""
    return evolve(schedule, steps=tuple(_scaled(step, factor) for step in schedule.steps))


def _scaled(step: Step, factor: float) -> Step:
    match step:
        case Elapse() | Stall():
            return evolve(step, seconds=step.seconds * factor)
        case Ask():
            deadline = None if step.deadline is None else step.deadline * factor
            return evolve(step, seconds=step.seconds * factor, deadline=deadline)
        case Begin(script):
            times = {
                "setup": script.setup * factor,
                "pace": script.pace * factor,
                "abort": script.abort * factor,
            }
            return Begin(Script(**{name: getattr(script, name) for name in _KEPT} | times))
        case _:
            return step


_KEPT = ("refuses", "rows", "size", "asks", "fails")


def _elapse(chance: Random) -> Step:
    return Elapse(chance.choice((0.0, 0.0, 0.01, 0.25, 1.0, 3.0, 6.0, 16.0, 31.0)))


def _ask(chance: Random) -> Step:
    return Ask(
        chance.randrange(4),
        seconds=chance.choice((0.0, 0.0, 0.5, 4.0, 20.0, 50.0)),
        refuses=chance.random() < 0.1,
        answer=_size(chance),
        padding=_size(chance),
        deadline=chance.choice((None, 60.0, 60.0, 5.0, 0.5)),
        interactive=chance.random() < 0.2,
    )


def _ask_upward(chance: Random) -> Step:
    return Ask(
        chance.randrange(2),
        seconds=chance.choice((0.0, 0.5, 4.0)),
        refuses=chance.random() < 0.1,
        answer=_size(chance),
        padding=_size(chance),
        deadline=chance.choice((60.0, 5.0)),
        is_upward=True,
    )


def _size(chance: Random) -> int:
    return chance.choice((0, 0, 0, 0, 0, 100, 100, 40 * KIB, 100 * KIB, MIB // 2))


def _begin(chance: Random) -> Step:
    return Begin(
        Script(
            setup=chance.choice((0.0, 0.0, 0.5, 3.0, 15.0, 30.0)),
            refuses=chance.random() < 0.1,
            rows=chance.randint(0, 12),
            size=chance.choice((50, 50, 1000, 3000, 40 * KIB)),
            pace=chance.choice((0.0, 0.1, 1.0, 4.0)),
            asks=chance.random() < 0.25,
            fails=chance.random() < 0.1,
            abort=chance.choice((0.0, 0.2, 10.0)),
        )
    )


def _cut_after(chance: Random) -> Step:
    return CutAfter(chance.randrange(4), chance.randrange(2), chance.randrange(12))


def _pair(kind: Callable[[int, int], Step]) -> Callable[[Random], Step]:
    return lambda chance: kind(chance.randrange(4), chance.randrange(2))


def _one(kind: Callable[[int], Step]) -> Callable[[Random], Step]:
    return lambda chance: kind(chance.randrange(8))


_MAKERS: dict[str, tuple[int, Callable[[Random], Step]]] = {
    "elapse": (30, _elapse),
    "ask": (22, _ask),
    "ask upward": (4, _ask_upward),
    "cancel": (4, _one(Cancel)),
    "begin": (9, _begin),
    "cancel launch": (1, _one(CancelLaunch)),
    "stop": (3, _one(Stop)),
    "decide": (4, _one(Decide)),
    "cut": (4, _one(Cut)),
    "cut all": (2, lambda chance: Cut(-1)),
    "cut after": (5, _cut_after),
    "half open": (2, _pair(HalfOpen)),
    "hold": (3, _pair(Hold)),
    "full": (2, _pair(Full)),
    "refuse": (1, lambda chance: Refuse()),
    "deafen": (1, lambda chance: Deafen()),
    "replay": (1, _one(Replay)),
    "heal": (8, lambda chance: Heal()),
    "restart": (1, lambda chance: Restart()),
    "stall": (1, lambda chance: Stall(chance.choice((2.0, 20.0, 150.0)))),
}
