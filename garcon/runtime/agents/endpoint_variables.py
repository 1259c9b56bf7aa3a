"""How a program is pointed at an endpoint by variables of its environment: each a template with
``{url}``, ``{key}``, ``{model}`` and ``{headers}`` in it.

A template that is JSON stays JSON whatever is put into its strings.  Headers are one line each,
``Name: value``, or an object where a string of JSON is nothing but their place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from garcon.contract.catalogs import Protocol
from garcon.contract.providers import ResolvedEndpoint
from garcon.runtime.agents.process import launch_failed

PLACES = ("{url}", "{key}", "{model}", "{headers}")
HEADERS = PLACES[-1]


@frozen
class EndpointVariables:
    """The protocols of the endpoints that the program can use, and its variables."""

    protocols: tuple[Protocol, ...]
    templates: Mapping[str, str]

    def filled(self, endpoint: ResolvedEndpoint, model: str) -> dict[str, str]:
        """Return the variables for one endpoint and a model as that calls it.  Where it has no key,
        there is nothing in its place.  An endpoint whose headers have no place is refused: what it
        would answer without them says nothing of the cause.
        """
        headers = endpoint.headers
        if headers and not any(HEADERS in template for template in self.templates.values()):
            raise launch_failed(
                "The endpoint wants headers of its own, and nothing says how this agent is told"
                " them (endpoint.headers in agents.toml)."
            )
        lines = "\n".join(f"{name}: {value}" for name, value in headers.items())
        told = (endpoint.base_url, endpoint.api_key or "", model, lines)
        filling = _Filling(dict(zip(PLACES, told, strict=True)), dict(headers))
        return {name: filling.text(template) for name, template in self.templates.items()}


@frozen
class _Filling:
    """What is put in the places."""

    values: Mapping[str, str]
    headers: Mapping[str, str]

    def text(self, template: str) -> str:
        """Fill a template."""
        try:
            shape = json.loads(template)
        except (ValueError, RecursionError):
            shape = None
        if isinstance(shape, dict | list):
            return json.dumps(self._shape(shape), ensure_ascii=False)
        return _put(template, self.values)

    def _shape(self, shape: Any) -> Any:
        if shape == HEADERS:
            return self.headers
        if isinstance(shape, str):
            return _put(shape, self.values)
        if isinstance(shape, list):
            return [self._shape(part) for part in shape]
        if isinstance(shape, dict):
            values = self.values
            return {_put(name, values): self._shape(part) for name, part in shape.items()}
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
