"""Everything that decodes what a peer sends, under hostile input made from sound input by chance
(`garcon.testing.faults.fuzz`); the long run is the soak's.
"""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.rpc import METHODS
from garcon.testing.faults.fuzz import Mutator, Surprise, Target, attack, sound_frames, targets
from garcon.testing.faults.impostor import Impostor

INPUTS = 400
"""For each decoder."""


class Decoders(SynchronousTestCase):
    """A decoder takes an input or refuses it in its one way."""

    def test_each_refuses_in_its_one_way(self) -> None:
        """Nothing but the one refusal ever leaves a decoder, and nothing is taken that the other
        side has not proven.
        """
        for number, target in enumerate(targets()):
            attack(target, Random(number), INPUTS)

    def test_sound_input_is_taken(self) -> None:
        """What the inputs are made from is not refused, so that what is changed in it matters."""
        for target in targets():
            if target.name in ("records", "answering", "dialling"):
                continue  # Theirs belong to one channel and one order.
            for sample in target.samples:
                try:
                    target.take(sample)
                except target.refusals as error:
                    if sample != b"{}":
                        self.fail(f"{target.name} refuses {sample[:200]!r}: {error}")

    def test_every_method_is_attacked(self) -> None:
        """Requests and results of every method there is are among the targets."""
        names = {target.name for target in targets()}
        for method in METHODS.values():
            if method.request is not None:
                self.assertIn(f"request of {method.name}", names)
            if method.result is not None:
                self.assertIn(f"result of {method.name}", names)


class Sealed(SynchronousTestCase):
    """A peer that knows the secret and says anything."""

    def test_it_costs_a_lane_at_most(self) -> None:
        """Nothing is logged as a failure, and the pair links again each time."""
        impostor = Impostor(Random(1))
        impostor.attack(1_000)
        self.assertGreater(impostor.lost["protocol-error"], 100)


class Harness(SynchronousTestCase):
    """The means of proof prove something."""

    def test_a_surprise_is_told(self) -> None:
        """A decoder that breaks is found, with what broke it."""

        def take(text: bytes) -> None:
            if b"\xff" in text:
                raise ZeroDivisionError

        target = Target("brittle", sound_frames(), take, ())
        error = self.assertRaises(Surprise, attack, target, Random(1), 5_000)
        self.assertIn("brittle", str(error))
        self.assertIn("ZeroDivisionError", str(error))

    def test_a_seed_makes_the_same_inputs(self) -> None:
        """An input is found again by its seed and its number."""
        made = [
            [Mutator(Random(seed)).mutated(sound_frames()) for _ in range(20)] for seed in (1, 1, 2)
        ]
        self.assertEqual(made[0], made[1])
        self.assertNotEqual(made[0], made[2])
