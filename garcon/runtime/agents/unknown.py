"""What an agent says that we do not know: found, counted, and kept as it came, all in one place.

Agents add messages and fields in every release.  None of that may stop a turn, and none of it may
vanish: somebody will want to know what it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from attrs import define, field

from garcon.contract.limits import UNKNOWN_RAW
from garcon.contract.runs import UnknownEvent
from garcon.runtime.agents.conversation import Output, Unknown
from garcon.runtime.agents.scrubbing import Secrets

KINDS = 64
"""That are told apart in one process of an agent; what comes then counts as `OTHERS`."""
OTHERS = "others"
NAME = 100
"""Characters of a kind's name."""
NONE = Secrets()


def new_fields(kind: str, message: Mapping[str, Any], known: Collection[str]) -> list[Output]:
    """Return what is to be said of a known message's fields that are not known."""
    return [Unknown(f"{kind}.{name}", message) for name in message if name not in known]


@define
class UnknownKinds:
    """What one process of an agent said: the first of each kind is kept, later ones are counted and
    told together, at the end of a turn.
    """

    _kept: set[str] = field(factory=set)
    _counted: dict[str, int] = field(factory=dict)
    _waiting: list[UnknownEvent] = field(factory=list)

    def take(
        self, agent_id: str, version: str | None, unknown: Unknown, secrets: Secrets = NONE
    ) -> None:
        """Note the next one, without those secrets: what is cut would hold parts of them."""
        kind = secrets.out_of(unknown.kind[: 2 * NAME])[:NAME]
        if kind not in self._kept:
            kind = kind if len(self._kept) < KINDS else OTHERS
        if kind in self._kept:
            self._counted[kind] = self._counted.get(kind, 0) + 1
            return
        self._kept.add(kind)
        self._waiting.append(
            UnknownEvent(
                agent_id=agent_id,
                kind=kind,
                raw=_raw(unknown.message, secrets),
                agent_version=version,
            )
        )

    def first(self) -> list[UnknownEvent]:
        """Return what is the first of its kind and was not told yet."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def rest(self, agent_id: str, version: str | None) -> list[UnknownEvent]:
        """Return how often more of known kinds came since the last call."""
        counted, self._counted = self._counted, {}
        return [
            UnknownEvent(agent_id=agent_id, kind=kind, count=count, agent_version=version)
            for kind, count in counted.items()
        ]


def _raw(message: Any, secrets: Secrets) -> str:
    try:
        text = msgspec.json.encode(message)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        text = repr(type(message)).encode()
    raw = _beginning(text)
    clean = secrets.out_of(raw) if len(text) <= UNKNOWN_RAW else secrets.out_of_start(raw)
    return _beginning(clean.encode())


def _beginning(text: bytes) -> str:
    return text[:UNKNOWN_RAW].decode("utf-8", "ignore")
