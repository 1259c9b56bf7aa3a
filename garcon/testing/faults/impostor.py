"""A peer that knows the secret and says anything: hostile texts through the sealed channel of a
linked pair in process, to either side and on either lane.

Whatever it says costs it that lane at most: nothing breaks, nothing is logged as a failure, and the
pair links again.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from garcon.contract.limits import FRAGMENT, RECORD_PLAINTEXT
from garcon.link.fragments import LAST, MORE, WHOLE
from garcon.testing.faults.failures import logged_failures
from garcon.testing.faults.fuzz import Mutator, Surprise, sound_frames
from garcon.testing.faults.in_process import InProcess
from garcon.testing.faults.steps import Schedule

RELINK = 40.0
"""Longer than the longest delay between two attempts."""


class Impostor:
    """Attacks one pair after the other; `lost` counts how lanes ended."""

    def __init__(self, chance: Random, texts_per_pair: int = 500) -> None:
        self.lost: Counter[str] = Counter()
        self._chance = chance
        self._mutator = Mutator(chance)
        self._samples = sound_frames()
        self._texts_per_pair = texts_per_pair

    def attack(self, count: int) -> None:
        """Say so many hostile texts.  Raises `Surprise`."""
        with logged_failures() as failures:
            while count > 0:
                self._attack_pair(min(count, self._texts_per_pair), failures)
                count -= self._texts_per_pair

    def _attack_pair(self, count: int, failures: list[str]) -> None:
        stage = InProcess(Schedule(()))
        stage.elapse(0.0)
        for _ in range(count):
            self._relink(stage)
            speaker = self._chance.choice((stage.controller.link, stage.worker.link))
            captured: Any = speaker.current()
            session = captured.primary
            if captured.bulk is not None and self._chance.random() < 0.3:
                session = captured.bulk
            said = self._plaintext()
            session._wire.send(session._cipher.seal(said))
            stage.elapse(0.0)
            if failures:
                raise Surprise(f"{said[:2000]!r} broke something: {failures[0]}")
        self._relink(stage)
        for end in (stage.controller, stage.worker):
            end.stop()
        stage.elapse(0.0)
        if stage.clock.getDelayedCalls() or stage.network.wires:
            raise Surprise("something is left of a pair")

    def _relink(self, stage: InProcess) -> None:
        link = stage.controller.link
        if link.current() is not None and stage.worker.link.current() is not None:
            return
        for one in (link, stage.worker.link):
            self.lost[str(one.last_error and one.last_error[0])] += 1
        stage.elapse(RELINK)
        if link.current() is None:
            raise Surprise(f"the pair does not link again: {link.last_error}")

    def _plaintext(self) -> bytes:
        chance = self._chance
        text = self._mutator.mutated(self._samples)
        kind = chance.random()
        if kind < 0.75:
            return (WHOLE + text)[: FRAGMENT + 1]
        if kind < 0.9:
            return chance.choice((MORE, LAST)) + text[:FRAGMENT].ljust(
                FRAGMENT if chance.random() < 0.5 else 0, b" "
            )
        return self._mutator.mutated((WHOLE + text, LAST + text))[:RECORD_PLAINTEXT]
