"""The endpoint that a launch wants its model from, for agents that have a program of their own."""

from __future__ import annotations

from garcon.contract.providers import ResolvedEndpoint
from garcon.contract.runs import Launch
from garcon.errors import GarconError
from garcon.runtime.agents.process import launch_failed
from garcon.runtime.interfaces import ICredentials


async def endpoint_of(launch: Launch, credentials: ICredentials | None) -> ResolvedEndpoint | None:
    """Look the endpoint up, key included; None for a model that the agent reaches by itself.

    It is asked for at each turn, and kept nowhere but in the process that it is started for.
    """
    profile, endpoint = launch.api_provider_id, launch.model_endpoint_id
    if profile is None or endpoint is None:
        return None
    if credentials is None:
        text = "This executor knows no API providers."
        raise GarconError("OPERATION_UNSUPPORTED", text, status=422)
    found = await credentials.resolve(profile, endpoint)
    if launch.model_protocol is not None and found.protocol != launch.model_protocol:
        raise launch_failed("The endpoint does not speak what the chat's model was chosen for.")
    return found


def model_of(launch: Launch) -> str:
    """Return the model as its own side calls it: an endpoint's is named with the endpoint."""
    if launch.model_endpoint_id is None:
        return launch.model
    return launch.model.removeprefix(f"{launch.model_endpoint_id}:")
