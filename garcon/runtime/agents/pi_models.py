"""The models of an installed Pi: those that its account can use, asked of it and remembered for a
while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define
from msgspec import UNSET
from twisted.internet.interfaces import IReactorTime

from garcon.contract.agents import DISCOVERY_FAILED
from garcon.contract.catalogs import Model
from garcon.deferreds import Waiters
from garcon.errors import GarconError
from garcon.runtime.agents.pi_question import ask
from garcon.runtime.agents.pi_wire import Message, an_object, objects, text_of

KEPT = 300.0
"""Seconds for which a list is good: it changes with what Pi is signed in to."""
FAILED_KEPT = 30.0


def read(state: Message, told: Message) -> tuple[Model, ...]:
    """Read the list, the one that Pi uses by itself first."""
    default = _name(an_object(state.get("model")))
    found: dict[str, Model] = {}
    for one in objects(told.get("models")):
        name, takes = _name(one), one.get("input")
        if not name:
            continue
        label = text_of(one.get("name")) or text_of(one.get("id"))
        images = "image" in takes if isinstance(takes, list) else UNSET
        found[name] = Model(
            value=name, label=f"{label} ({one['provider']})", supports_images=images
        )
    return tuple(sorted(found.values(), key=lambda model: model.value != default))


def _name(model: Message) -> str:
    provider, name = text_of(model.get("provider")), text_of(model.get("id"))
    return f"{provider}/{name}" if provider and name else ""


@define(eq=False)
class ModelList:
    """Asks one process at a time, whoever wants to know."""

    _reactor: Any
    _environment: Mapping[str, str]
    _kept: tuple[Model, ...] | str = ()
    """Or why there are none."""
    _of: object = None
    _until: float = 0.0
    _asking: Waiters[None] | None = None

    async def models(self, command: Sequence[str]) -> tuple[Model, ...]:
        """Return the models.  Raises `GarconError` where Pi does not tell, with its reason.
        Cancelling ends the question; whoever waits for it asks again.
        """
        clock: IReactorTime = self._reactor
        of = tuple(command)
        while self._asking is not None:
            await self._asking.wait()
        if self._of != of or clock.seconds() >= self._until:
            self._asking = Waiters()
            try:
                self._kept = await self._ask(command)
                self._of = of
                is_good = not isinstance(self._kept, str)
                self._until = clock.seconds() + (KEPT if is_good else FAILED_KEPT)
            finally:
                asking, self._asking = self._asking, None
                asking.fire(None)
        if isinstance(self._kept, str):
            raise GarconError(DISCOVERY_FAILED, self._kept, status=503, retryable=True)
        return self._kept

    async def _ask(self, command: Sequence[str]) -> tuple[Model, ...] | str:
        try:
            return read(*await ask(self._reactor, command, self._environment))
        except GarconError as error:
            return f"Pi does not tell its models: {error.text}"
