"""The model and the effort of a turn as Pi takes them: it can be told of both while it runs."""

from __future__ import annotations

from attrs import define

from garcon.contract.catalogs import ThinkingMode
from garcon.contract.runs import Launch
from garcon.runtime.agents.endpoints import model_of
from garcon.runtime.agents.pi_wire import GATE, Message, an_object, model_parts, text_of

EFFORTS: dict[ThinkingMode, str] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
    "ultra": "max",
}
"""Pi takes the next lower one that its model has; ``none`` leaves the choice to Pi."""


@define
class Settings:
    """What is in force in one process, as far as it is known."""

    model: tuple[str, str] | None = None
    effort: str | None = None
    _first: tuple[tuple[str, str] | None, str | None] = (None, None)

    def read(self, state: Message) -> None:
        """Take what Pi says of itself when it was started."""
        model = an_object(state.get("model"))
        parts = text_of(model.get("provider")), text_of(model.get("id"))
        self.model = parts if all(parts) else None
        self.effort = text_of(state.get("thinkingLevel")) or None
        self._first = self.model, self.effort

    def forget(self) -> None:
        """One was refused: the next turn says all of them again."""
        self.model = self.effort = None

    def changes(self, launch: Launch) -> list[tuple[str, Message]]:
        """Return the commands that a turn needs ahead of it.  Another model may come with another
        effort, so that is said again behind it.
        """
        steps: list[tuple[str, Message]] = []
        first_model, first_effort = self._first
        model = wanted_model(launch) or first_model
        if model is not None and model != self.model:
            self.model, self.effort = model, None
            steps.append(("set_model", {"provider": model[0], "modelId": model[1]}))
        effort = EFFORTS.get(launch.thinking_mode) or first_effort
        if effort is not None and effort != self.effort:
            self.effort = effort
            steps.append(("set_thinking_level", {"level": effort}))
        return steps


def wanted_model(launch: Launch) -> tuple[str, str] | None:
    """Return provider and id of a launch's model; None leaves the choice to Pi."""
    model = model_of(launch)
    if launch.model_endpoint_id is not None:
        return GATE, model
    return model_parts(model) if model else None
