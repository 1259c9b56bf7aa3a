"""The models of an installed Codex, with their efforts: asked of it, and remembered for a while."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field, frozen
from msgspec import UNSET
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from garcon.contract.catalogs import Model
from garcon.errors import GarconError
from garcon.runtime.agents.codex_client import CodexClient, CodexFailed
from garcon.runtime.agents.codex_settings import USUAL_EFFORTS
from garcon.runtime.agents.codex_wire import objects_of, text_of
from garcon.runtime.agents.remembered import Remembered

KEPT = 3600.0
"""Seconds for which a list is good: it changes with the program, and with the account."""
FAILED_KEPT = 60.0
PAGES = 10


@frozen
class Models:
    """What can be chosen; the first one is used unless another is."""

    models: tuple[Model, ...]
    efforts: Mapping[str, tuple[str, ...]] = field(factory=dict)

    def efforts_of(self, model: str) -> tuple[str, ...]:
        """Return which efforts a model takes, from the least to the most."""
        return self.efforts.get(model, USUAL_EFFORTS)


def _well_known(*names: str) -> tuple[Model, ...]:
    return tuple(Model(value=name, label=_label(name), supports_images=True) for name in names)


def _label(name: str) -> str:
    family, _, rest = name.partition("-")
    return f"{family.upper()}-{rest.title()}"


WELL_KNOWN = Models(
    (
        *_well_known("gpt-5.5", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna", "gpt-5.4"),
        *_well_known("gpt-5.3-codex"),
        Model(
            value="gpt-5.3-codex-spark", label=_label("gpt-5.3-codex-spark"), supports_images=False
        ),
    )
)
"""Shown for a Codex that does not tell (control.md A.6)."""


def read(rows: Sequence[dict[str, Any]]) -> Models | None:
    """Read the list that it tells, its default first; None where there is nothing in it."""
    shown = [row for row in rows if row.get("hidden") is not True and text_of(row.get("model"))]
    shown.sort(key=lambda row: row.get("isDefault") is not True)
    models = []
    efforts = {}
    for row in shown:
        name = text_of(row["model"])
        modalities = row.get("inputModalities")
        models.append(
            Model(
                value=name,
                label=text_of(row.get("displayName")) or name,
                supports_images="image" in modalities if isinstance(modalities, list) else UNSET,
            )
        )
        told = objects_of(row.get("supportedReasoningEfforts"))
        efforts[name] = tuple(text_of(one.get("reasoningEffort")) for one in told)
    return Models(tuple(models), efforts) if models else None


@define(eq=False)
class ModelList:
    """Asks one process at a time, whoever wants to know."""

    _reactor: Any
    _told: Remembered[Models] = field(init=False)
    _log = Logger()

    def __attrs_post_init__(self) -> None:
        self._told = Remembered(self._reactor, WELL_KNOWN)

    def known(self) -> Models:
        """Return what was told last, without asking."""
        return self._told.value

    async def models(self, program: str, environment: Mapping[str, str]) -> Models:
        """Return the models of a program.  Cancelling ends the question; whoever waits for it asks
        again.
        """

        async def ask() -> tuple[Models, float]:
            told = await self._ask(program, environment)
            return told or WELL_KNOWN, FAILED_KEPT if told is None else KEPT

        return await self._told.get(_identity(program), ask)

    async def _ask(self, program: str, environment: Mapping[str, str]) -> Models | None:
        client = CodexClient(self._reactor)
        rows: list[dict[str, Any]] = []
        try:
            await client.open([program, "app-server"], environment, "/")
            cursor: str | None = None
            for _ in range(PAGES):
                page = await client.call("model/list", {"cursor": cursor})
                rows += objects_of(page.get("data"))
                cursor = text_of(page.get("nextCursor")) or None
                if cursor is None:
                    break
        except CancelledError:
            raise
        except (CodexFailed, GarconError) as error:
            self._log.warn("Codex does not tell its models: {why}", why=error.text)
            return None
        finally:
            await client.close()
        return read(rows)


def _identity(program: str) -> object:
    """Return what changes when another version is installed."""
    try:
        found = os.stat(program)
    except OSError:
        return program
    return program, found.st_ino, found.st_size, found.st_mtime_ns
