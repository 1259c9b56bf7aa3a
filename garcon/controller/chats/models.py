"""Which model and modes a turn runs with, and whether its agent allows them (chats.md 3.4, 3.5,
4.15).
"""

from __future__ import annotations

from typing import Any

from attrs import frozen
from msgspec import UNSET

from garcon.contract.catalogs import AgentEntry, Model
from garcon.errors import GarconError, validation


@frozen
class Selection:
    """A model and the endpoint it is reached by."""

    model: str
    api_provider_id: str | None = None
    model_endpoint_id: str | None = None
    model_protocol: str | None = None

    @classmethod
    def of(cls, body: Any) -> Selection | None:
        """Read what a command chooses for its turn, or None; routing needs a model."""
        routing = [
            value if isinstance(value, str) else None
            for value in (body.api_provider_id, body.model_endpoint_id, body.model_protocol)
        ]
        if body.model is UNSET:
            if any(routing):
                raise validation("a routing field needs model")
            return None
        if not body.model.strip():
            raise validation("model is required")
        if routing[1] is not None and routing[0] is None:
            raise validation("modelEndpointId needs apiProviderId")
        return cls(body.model.strip(), *routing)

    def stored(self) -> dict[str, str | None]:
        """Return the attributes of a chat that keep this selection."""
        return {
            "model": self.model,
            "api_provider_id": self.api_provider_id,
            "model_endpoint_id": self.model_endpoint_id,
            "model_protocol": self.model_protocol,
        }

    def routing(self) -> dict[str, Any]:
        """Return the members of a launch that say how its model is reached."""
        return {
            "api_provider_id": self.api_provider_id,
            "model_endpoint_id": self.model_endpoint_id,
            "model_protocol": self.model_protocol,
        }


def must_be_offered(entry: AgentEntry, selection: Selection) -> None:
    """Raise ``VALIDATION_FAILED`` (422) unless the agent can run this model this way."""
    if (selection.api_provider_id is None) != (selection.model_endpoint_id is None):
        raise _unfit("apiProviderId and modelEndpointId belong together.")
    protocol = selection.model_protocol
    if protocol is not None and protocol not in entry.supported_protocols:
        raise _unfit(f"The agent {entry.id} does not speak {protocol}.")
    listed = _listed(entry, selection)
    if selection.api_provider_id is not None:
        if listed is None:
            raise _unfit("The endpoint does not exist or does not offer this model to the agent.")
        if protocol not in (None, listed.protocol):
            raise _unfit(f"The endpoint does not speak {protocol}.")
    elif listed is None and _lives_on_endpoints(entry):
        raise _unfit(f"The agent {entry.id} needs a model of an API provider's endpoint.")
    if entry.requires_strict_model_discovery and listed is None:
        raise _unfit(f"The agent {entry.id} does not offer the model {selection.model}.")


def takes_pictures(entry: AgentEntry, selection: Selection) -> bool:
    """Whether pictures may be attached: an endpoint's model decides for itself, else the agent
    does.
    """
    if selection.api_provider_id is None:
        return entry.supports_images
    listed = _listed(entry, selection)
    return listed is not None and listed.supports_images is True


def must_support_modes(entry: AgentEntry, permission_mode: str, thinking_mode: str) -> None:
    """Raise ``VALIDATION_FAILED`` (422) unless the agent has these modes; the plain ones need no
    support.
    """
    if permission_mode != "default" and permission_mode not in entry.supported_permission_modes:
        raise _unfit(f"The agent {entry.id} has no permission mode {permission_mode}.")
    if thinking_mode != "none" and thinking_mode not in entry.supported_thinking_modes:
        raise _unfit(f"The agent {entry.id} has no reasoning effort {thinking_mode}.")


def is_local(entry: AgentEntry, selection: Selection) -> bool | None:
    """Whether a model runs on the executor's own machine; None for one that is not listed."""
    listed = _listed(entry, selection)
    return None if listed is None else listed.is_local is True


def _lives_on_endpoints(entry: AgentEntry) -> bool:
    """Whether an agent has no model of its own, so that nothing answers to a bare name."""
    return entry.accepts_api_provider_endpoints and all(
        model.endpoint_id is not UNSET for model in entry.models
    )


def _listed(entry: AgentEntry, selection: Selection) -> Model | None:
    provider, endpoint = selection.api_provider_id, selection.model_endpoint_id
    for model in entry.models:
        if (model.api_provider_id or None, model.endpoint_id or None) == (provider, endpoint) and (
            selection.model in (model.value, model.raw_model)
        ):
            return model
    return None


def _unfit(text: str) -> GarconError:
    return validation(text, status=422)
