"""How a program is pointed at an endpoint by variables of its environment: each a template with
``{url}``, ``{key}`` and ``{model}`` in it.

A template that is JSON stays JSON whatever is put into its strings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from garcon.contract.catalogs import Protocol
from garcon.contract.providers import ResolvedEndpoint

PLACES = ("{url}", "{key}", "{model}")


@frozen
class EndpointVariables:
    """The protocols of the endpoints that the program can use, and its variables."""

    protocols: tuple[Protocol, ...]
    templates: Mapping[str, str]

    def filled(self, endpoint: ResolvedEndpoint, model: str) -> dict[str, str]:
        """Return the variables for one endpoint and a model as that calls it.  Where it has no key,
        there is nothing in its place.
        """
        values = dict(zip(PLACES, (endpoint.base_url, endpoint.api_key or "", model), strict=True))
        return {name: _fill(template, values) for name, template in self.templates.items()}


def _fill(template: str, values: Mapping[str, str]) -> str:
    try:
        shape = json.loads(template)
    except ValueError:
        shape = None
    if isinstance(shape, dict | list):
        return json.dumps(_fill_in(shape, values), ensure_ascii=False)
    return _put(template, values)


def _fill_in(shape: Any, values: Mapping[str, str]) -> Any:
    if isinstance(shape, str):
        return _put(shape, values)
    if isinstance(shape, list):
        return [_fill_in(part, values) for part in shape]
    if isinstance(shape, dict):
        return {_put(name, values): _fill_in(part, values) for name, part in shape.items()}
    return shape


def _put(text: str, values: Mapping[str, str]) -> str:
    """Put the values into a text, each once: what a value holds is no place."""
    parts: list[str] = []
    while text:
        found = [(at, place) for place in values if (at := text.find(place)) >= 0]
        if not found:
            break
        at, place = min(found)
        parts += [text[:at], values[place]]
        text = text[at + len(place) :]
    return "".join([*parts, text])
