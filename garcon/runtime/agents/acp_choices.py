"""What an agent of this protocol lets its client choose: mode, model and effort, each by the way it
offers.

An agent that lists a choice as a configuration option is asked that way; else by the method of its
own, where the session's answer listed the values.  Only listed values are ever asked for: agents
accept others without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import define, field

THOUGHT_LEVEL = "thought_level"
_LISTS = {
    "mode": ("modes", "availableModes", "id", "currentModeId", "session/set_mode", "modeId"),
    "model": (
        "models",
        "availableModels",
        "modelId",
        "currentModelId",
        "session/set_model",
        "modelId",
    ),
}


@define
class Choice:
    """One thing to choose, with the request that chooses it."""

    method: str
    parameter: str
    values: frozenset[str]
    current: str
    fixed: dict[str, Any] = field(factory=dict)


@define(eq=False)
class Choices:
    """The choices of one session, kept up to date."""

    _by_category: dict[str, Choice] = field(factory=dict)

    def opened(self, result: dict[str, Any]) -> None:
        """Take the answer that opened the session."""
        self._by_category.clear()
        for category, (holder, names, key, current, method, parameter) in _LISTS.items():
            listed = result.get(holder)
            if isinstance(listed, dict):
                values = _values(listed.get(names), key)
                self._by_category[category] = Choice(
                    method, parameter, values, str(listed.get(current, ""))
                )
        self.configured(result)

    def configured(self, said: dict[str, Any]) -> None:
        """Take a list of configuration options; they go before the older lists."""
        options = said.get("configOptions")
        for option in options if isinstance(options, list) else []:
            if isinstance(option, dict) and isinstance(option.get("category"), str):
                self._by_category[option["category"]] = Choice(
                    "session/set_config_option",
                    "value",
                    _values(option.get("options"), "value"),
                    str(option.get("currentValue", "")),
                    {"configId": option.get("id")},
                )

    def mode_changed(self, mode: str) -> None:
        """The agent says that it is in another mode now."""
        if "mode" in self._by_category:
            self._by_category["mode"].current = mode

    def offers(self, category: str, value: str | None) -> bool:
        """Whether a value can be chosen."""
        choice = self._by_category.get(category)
        return choice is not None and value in choice.values

    def requests(self, wanted: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield method and parameters for each wanted value that is offered and not the present
        one.
        """
        for category, value in wanted.items():
            choice = self._by_category.get(category)
            if choice is not None and value in choice.values and value != choice.current:
                choice.current = value
                yield choice.method, {**choice.fixed, choice.parameter: value}

    def lost(self) -> None:
        """A request failed: the present values are not known, so that all are asked for again."""
        for choice in self._by_category.values():
            choice.current = ""


def _values(options: object, key: str) -> frozenset[str]:
    if not isinstance(options, list):
        return frozenset()
    return frozenset(str(o[key]) for o in options if isinstance(o, dict) and key in o)
