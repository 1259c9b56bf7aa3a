"""What is logged of an event loop that stands still."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define, field
from twisted.internet.protocol import Protocol
from twisted.trial.unittest import SynchronousTestCase

from garcon.stalls import LongStep, LongTurn, Stalls, Turns, Watch, name_of, name_of_socket, watch


class TurnsTests(SynchronousTestCase):
    """The decisions, from times handed in."""

    def setUp(self) -> None:
        self.turns = Turns()
        self.now = 100.0

    def step(self, seconds: float, what: str = "a step") -> LongStep | None:
        return self.turns.stepped(seconds, lambda: what, lambda: self.now)

    def test_steps_from_50_ms_on(self) -> None:
        """A shorter one is not even named."""
        self.assertIsNone(self.turns.stepped(0.0499, self.unasked, self.unasked))
        self.assertEqual(self.step(0.05), LongStep("a step", 0.05, 0))

    def unasked(self) -> Any:
        self.fail("nobody needs this of a short step")

    def test_turns_from_250_ms_on(self) -> None:
        """Many short steps make a long turn as one long step does."""
        for _ in range(6):
            self.step(0.04)
        self.assertIsNone(self.turns.turned(self.now))
        for _ in range(25):
            self.step(0.01)
        long = self.turns.turned(self.now)
        assert long is not None
        self.assertAlmostEqual(long.seconds, 0.25)
        self.assertEqual(long.what, "many short steps")

    def test_a_turn_names_its_longest_steps(self) -> None:
        """Three of them, the longest first; the next turn begins anew."""
        for number, seconds in enumerate((0.06, 0.09, 0.07, 0.08)):
            self.step(seconds, f"step {number}")
        long = self.turns.turned(self.now)
        assert long is not None
        self.assertEqual(long.what, "step 1 90 ms, step 3 80 ms, step 2 70 ms")
        self.assertIsNone(self.turns.turned(self.now + 10))

    def test_every_long_one_is_counted(self) -> None:
        """Whether a line says so or not: steps from 50 ms on, turns from 250 ms on."""
        for seconds in (0.0499, 0.05, 0.1, 0.1):
            self.step(seconds)
        self.turns.turned(self.now)
        for _ in range(2):
            self.step(0.25)
            self.turns.turned(self.now)
        self.assertEqual(self.turns.seen, Stalls(steps=5, turns=3))

    def test_at_most_one_line_a_second(self) -> None:
        """Those in between are counted in the next."""
        self.assertIsNotNone(self.step(0.1))
        for _ in range(3):
            self.assertIsNone(self.step(0.1))
        self.now += 1.0
        self.assertEqual(self.step(0.1), LongStep("a step", 0.1, 3))
        self.now += 0.99
        self.assertIsNone(self.step(0.1))
        self.now += 0.01
        self.assertEqual(self.step(0.1), LongStep("a step", 0.1, 1))


@define(eq=False, slots=False)
class Loop:
    """As much of a reactor as is watched, on a clock that only its steps move."""

    now: float = 0.0
    due: list[Callable[[], None]] = field(factory=list)
    handed_over: float = 0.0

    def seconds(self) -> float:
        return self.now

    def callLater(self, delay: float, called: Any, *arguments: Any, **more: Any) -> str:
        self.due.append(lambda: called(*arguments, **more))
        return "a delayed call"

    def runUntilCurrent(self) -> None:
        self.now += self.handed_over
        due, self.due = self.due, []
        for called in due:
            called()

    def _doReadOrWrite(self, selectable: Socket, descriptor: int, event: int) -> None:
        self.now += selectable.seconds


@define(eq=False)
class Socket:
    """A selectable whose serving takes time."""

    protocol: Any
    seconds: float


class Slow(Protocol):
    """Whose socket it is."""


class WatchTests(SynchronousTestCase):
    """The shell around a reactor."""

    def setUp(self) -> None:
        self.loop = Loop()
        self.told: list[LongStep | LongTurn] = []
        Watch(self.loop, self.told.append)

    def sleep(self, seconds: float) -> None:
        self.loop.now += seconds

    def test_a_delayed_call(self) -> None:
        """It runs with its arguments, and is named without them."""
        self.assertEqual(self.loop.callLater(1, self.sleep, seconds=0.3), "a delayed call")
        self.loop.runUntilCurrent()
        self.loop.runUntilCurrent()
        name = f"{__name__}.WatchTests.sleep"
        step, turn = self.told
        assert isinstance(step, LongStep) and isinstance(turn, LongTurn)
        self.assertEqual((step.what, round(step.seconds, 6)), (name, 0.3))
        self.assertEqual(turn.what, f"{name} 300 ms")

    def test_a_socket(self) -> None:
        """Named by its protocol."""
        self.loop._doReadOrWrite(Socket(Slow(), 0.06), 5, 1)
        (step,) = self.told
        assert isinstance(step, LongStep)
        self.assertEqual(step.what, f"a socket of {__name__}.Slow")

    def test_what_threads_hand_over(self) -> None:
        """What no delayed call accounts for."""
        self.loop.handed_over = 0.07
        self.loop.callLater(0, self.sleep, 0.02)
        self.loop.runUntilCurrent()
        (step,) = self.told
        assert isinstance(step, LongStep)
        self.assertEqual(step.what, "calls handed over by threads")
        self.assertAlmostEqual(step.seconds, 0.07)

    def test_a_step_that_fails(self) -> None:
        """It is timed, and fails as it would."""

        def fail() -> None:
            self.loop.now += 0.1
            raise ZeroDivisionError

        self.loop.callLater(0, fail)
        self.assertRaises(ZeroDivisionError, self.loop.runUntilCurrent)
        self.assertEqual(len(self.told), 1)

    def test_a_reactor_without_these_steps_is_left_alone(self) -> None:
        """Nothing is wrapped, nothing fails."""
        watch(object())


class Names(SynchronousTestCase):
    """What is said of a step: code, never data."""

    def test_calls(self) -> None:
        """Functions, methods, partials and objects."""
        name = f"{__name__}.Names.test_calls"
        self.assertEqual(name_of(self.test_calls), name)
        self.assertEqual(name_of(partial(partial(print, "secret"), 1)), "builtins.print")
        self.assertEqual(name_of(Slow()), f"{__name__}.Slow")

    def test_sockets(self) -> None:
        """The innermost protocol, or the socket's own kind."""
        wrapped = Socket(Socket(None, 0), 0)
        wrapped.protocol = type("Wrapping", (), {"_wrappedProtocol": Slow()})()
        self.assertEqual(name_of_socket(wrapped), f"a socket of {__name__}.Slow")
        self.assertEqual(name_of_socket(Socket(None, 0)), f"a socket of {__name__}.Socket")
