"""Whether Pi can reach models of its own, as the contract shows it: by a login or a key, wherever
Pi finds one.  It lists no model of a provider that it has neither for.
"""

from __future__ import annotations

from garcon.contract.agents import AgentAuth
from garcon.runtime.agents.pi_wire import Message, an_object, objects, text_of

UNKNOWN = AgentAuth(authenticated=False, label="Pi does not say", source="agent")
_SHOWN = 3
"""Providers that are named."""


def read_status(state: Message, told: Message) -> AgentAuth:
    """Read the providers, the one of the model that Pi uses by itself first."""
    listed = (text_of(one.get("provider")) for one in objects(told.get("models")))
    names = sorted({name for name in listed if name})
    if not names:
        return AgentAuth(authenticated=False, label="Not signed in", source="agent")
    first = text_of(an_object(state.get("model")).get("provider"))
    names.sort(key=lambda name: name != first)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return AgentAuth(authenticated=True, label=", ".join(names[:_SHOWN]) + more, source="agent")
