"""How endpoints are asked which models they have, and how their answers are read (control.md B.6).

Pure: a request's address and headers out, an answer's JSON in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

from attrs import field, frozen
from msgspec import UNSET

from garcon.contract.providers import DiscoverModels, EndpointModel

PAGES = 5
"""How many pages of one list are read."""
PAGE_MODELS = 1_000
MODELS = 5_000
"""How many models one answer may name."""
NAME = 1_024
"""Longer names are no names of models."""
ANTHROPIC_VERSION = "2023-06-01"


class NotAList(ValueError):
    """What was answered is no list of models."""


@frozen
class Ask:
    """One call.  `headers` may hold a key."""

    url: str
    headers: dict[str, str] = field(factory=dict, repr=False)


@frozen
class Page:
    """What one answer told, and the name after which the list goes on."""

    models: list[EndpointModel]
    after: str | None = None


def ask(wanted: DiscoverModels, after: str | None = None) -> Ask:
    """Return the call for a list of models, or for its page after a name."""
    headers = {"Accept": "application/json", **wanted.headers}
    if wanted.kind == "anthropic-models":
        if wanted.api_key:
            headers["x-api-key"] = wanted.api_key
        headers["anthropic-version"] = ANTHROPIC_VERSION
        query = {"limit": str(PAGE_MODELS)} | ({} if after is None else {"after_id": after})
        return Ask(f"{_anthropic(wanted.base_url)}?{urlencode(query)}", headers)
    if wanted.api_key:
        headers["Authorization"] = f"Bearer {wanted.api_key}"
    if wanted.kind == "ollama-tags":
        return Ask(f"{wanted.base_url.removesuffix('/v1')}/api/tags", headers)
    return Ask(_openai(wanted.base_url), headers)


def read(wanted: DiscoverModels, answer: Any) -> Page:
    """Read an answer; raises `NotAList`."""
    if wanted.kind == "ollama-tags":
        return Page(list(_ollama(_rows(answer, "models"))))
    if wanted.kind == "anthropic-models":
        last = answer.get("last_id") if isinstance(answer, dict) else None
        goes_on = isinstance(last, str) and last and answer.get("has_more") is True
        return Page(list(_named(_rows(answer, "data"))), last if goes_on else None)
    rows = answer if isinstance(answer, list) else _rows(answer, "data")
    return Page(list(_named(rows)))


def distinct(models: Iterable[EndpointModel]) -> list[EndpointModel]:
    """Return each model once, and no more than `MODELS`."""
    found: dict[str, EndpointModel] = {}
    for model in models:
        if len(found) >= MODELS:
            break
        found.setdefault(model.value, model)
    return list(found.values())


def _openai(base: str) -> str:
    return f"{base}/models" if urlsplit(base).path else f"{base}/v1/models"


def _anthropic(base: str) -> str:
    return f"{base}/models" if base.endswith("/v1") else f"{base}/v1/models"


def _rows(answer: Any, member: str) -> list[Any]:
    rows = answer.get(member) if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise NotAList
    return rows


def _named(rows: Iterable[Any]) -> Iterator[EndpointModel]:
    for row in rows:
        if isinstance(row, dict) and (value := _text(row.get("id"))):
            label = _text(row.get("display_name")) or _text(row.get("name")) or value
            yield EndpointModel(value, label)


def _ollama(rows: Iterable[Any]) -> Iterator[EndpointModel]:
    for row in rows:
        if isinstance(row, dict) and (value := _text(row.get("name"))):
            yield EndpointModel(value, f"{value} (local)", UNSET, True)


def _text(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else ""
    return text if len(text) <= NAME else ""
