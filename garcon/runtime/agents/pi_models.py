"""The models of an installed Pi: those that its account can use, asked of it and remembered for a
while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field
from msgspec import UNSET

from garcon.contract.agents import DISCOVERY_FAILED
from garcon.contract.catalogs import Model
from garcon.errors import GarconError
from garcon.runtime.agents.pi_question import ask
from garcon.runtime.agents.pi_wire import Message, an_object, objects, text_of
from garcon.runtime.agents.remembered import Remembered

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
    _told: Remembered[tuple[Model, ...] | str] = field(init=False)
    """Or why there are none."""

    def __attrs_post_init__(self) -> None:
        self._told = Remembered(self._reactor, ())

    async def models(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[Model, ...]:
        """Return the models.  Raises `GarconError` where Pi does not tell, with its reason.
        Cancelling ends the question; whoever waits for it asks again.
        """

        async def find_out() -> tuple[tuple[Model, ...] | str, float]:
            told = await self._ask(command, environment)
            return told, FAILED_KEPT if isinstance(told, str) else KEPT

        told = await self._told.get(tuple(command), find_out)
        if isinstance(told, str):
            raise GarconError(DISCOVERY_FAILED, told, status=503, retryable=True)
        return told

    async def _ask(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[Model, ...] | str:
        try:
            return read(*await ask(self._reactor, command, environment))
        except GarconError as error:
            return f"Pi does not tell its models: {error.text}"
