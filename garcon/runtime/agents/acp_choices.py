"""What an agent of this protocol lets its client choose: mode, model and effort, each by the way it
offers.

An agent that lists a choice as a configuration option is asked that way; else by the method of its
own, where the session's answer listed the values.  Only listed values are ever asked for: agents
accept others without a word.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field

from garcon.contract.catalogs import Model
from garcon.runtime.agents.acp_wire import an_object, objects_of, text_of

MODE, MODEL, THOUGHT_LEVEL = "mode", "model", "thought_level"
USUAL = frozenset({"default", "none"})
"""What stands for the agent's own choice, where it has no value of that name."""
_LISTS = {
    MODE: ("modes", "availableModes", "id", "currentModeId", "session/set_mode", "modeId"),
    MODEL: (
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
    """One thing to choose, with the request that chooses it: values by their labels."""

    method: str
    parameter: str
    values: dict[str, str]
    current: str
    first: str
    """What it was when the session was opened."""
    fixed: dict[str, Any] = field(factory=dict)

    def meant(self, value: str) -> str:
        """Return the agent's own value for one of ours, an empty text where it has none."""
        if value in self.values:
            return value
        return self.first if value in USUAL else ""


@define(eq=False)
class Choices:
    """The choices of one session, kept up to date."""

    _by_category: dict[str, Choice] = field(factory=dict)

    def opened(self, result: dict[str, Any]) -> None:
        """Take the answer that opened the session."""
        self._by_category.clear()
        for category, (holder, names, key, current, method, parameter) in _LISTS.items():
            if isinstance(listed := result.get(holder), dict):
                now = text_of(listed.get(current))
                values = _values(listed.get(names), key)
                self._by_category[category] = Choice(method, parameter, values, now, now)
        self.configured(result)

    def configured(self, said: dict[str, Any]) -> None:
        """Take a list of configuration options; they go before the older lists.  It is whole: what
        is missing, as the effort of a model that has none, is no choice any more.
        """
        if not isinstance(said.get("configOptions"), list):
            return
        before_all = self._by_category
        self._by_category = {
            category: choice for category, choice in before_all.items() if choice.method != _OPTION
        }
        for option in objects_of(said.get("configOptions")):
            category, now = option.get("category"), text_of(option.get("currentValue"))
            if isinstance(category, str):
                before = before_all.get(category)
                is_known = before is not None and before.method == _OPTION
                self._by_category[category] = Choice(
                    _OPTION,
                    "value",
                    _values(_flat(option.get("options")), "value"),
                    now,
                    before.first if before is not None and is_known else now,
                    {"configId": option.get("id")},
                )

    def mode_changed(self, mode: str) -> None:
        """The agent says that it is in another mode now."""
        if MODE in self._by_category:
            self._by_category[MODE].current = mode

    def first(self, category: str) -> str:
        """Return what it was when the session was opened, an empty text where it is no choice."""
        choice = self._by_category.get(category)
        return "" if choice is None else choice.first

    def offers(self, category: str, value: str | None) -> bool:
        """Whether a value can be chosen."""
        choice = self._by_category.get(category)
        return choice is not None and value in choice.values

    def lacks(self, category: str, value: str, is_own: bool) -> bool:
        """Whether a value cannot be had: it is not listed, and not the present one.  Where none is
        listed only the agent's own choice can be had, which `is_own` says that it is.
        """
        choice = self._by_category.get(category)
        if choice is None or not choice.values:
            return not is_own and value not in USUAL
        if value in (choice.current, choice.first):
            return False
        return not choice.meant(value)

    def models(self) -> tuple[Model, ...]:
        """The models that are listed."""
        choice = self._by_category.get(MODEL)
        listed = choice.values.items() if choice is not None else ()
        return tuple(Model(value=value, label=label) for value, label in listed)

    def request(self, category: str, value: str) -> tuple[str, dict[str, Any]] | None:
        """Return method and parameters to choose a value, None where it is not offered or is the
        present one.
        """
        choice = self._by_category.get(category)
        meant = choice.meant(value) if choice is not None else ""
        if choice is None or not meant or meant == choice.current:
            return None
        choice.current = meant
        return choice.method, {**choice.fixed, choice.parameter: meant}

    def lost(self) -> None:
        """A request failed: the present values are not known, so that all are asked for again."""
        for choice in self._by_category.values():
            choice.current = ""


_OPTION = "session/set_config_option"


def _flat(options: object) -> list[dict[str, Any]]:
    """Return options out of their groups, where they are in groups."""
    found = objects_of(options)
    return [one for part in found for one in (objects_of(part.get("options")) or [part])]


def _values(options: object, key: str) -> dict[str, str]:
    named = ((text_of(one.get(key)), one) for one in objects_of(options))
    return {value: text_of(an_object(one).get("name")) or value for value, one in named if value}
