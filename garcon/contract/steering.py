"""Further input for a turn that runs: what crosses to its executor, and what became of it (chats.md
5.11).
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class SteerTarget(Struct, frozen=True, rename="camel", kw_only=True):
    """The turn that is to be steered.  `turn` is the agent's own name for what it does now, and
    empty where it has none.
    """

    run_id: str
    turn: str = ""


class SteerCapture(Struct, frozen=True, rename="camel", kw_only=True):
    """Whether a run can be steered now; `target` is set when and only when it can.

    ``unsupported``: its agent never can.  ``not-steerable``: what it does just now cannot be, such
    as a compaction.  ``turn-unavailable``: there is no such run, or not any more.
    """

    outcome: Literal["captured", "unsupported", "not-steerable", "turn-unavailable"]
    target: SteerTarget | None = None
    text: str = ""


class Steer(Struct, frozen=True, rename="camel", kw_only=True):
    """One input for a captured turn.  `content` is what the agent gets, file mentions expanded."""

    target: SteerTarget
    client_message_id: str
    content: str


class MentioningText(Struct, frozen=True, rename="camel"):
    """A text that may mention files of a project."""

    project_path: str
    text: str


class ResolvedText(Struct, frozen=True, rename="camel"):
    """The same text with what those files hold."""

    text: str


SteerOutcome = Literal[
    "delivered",
    "invalid",
    "rejected",
    "not-steerable",
    "turn-changed",
    "turn-unavailable",
    "not-delivered",
    "unknown",
]


class Steered(Struct, frozen=True, rename="camel", kw_only=True):
    """What became of a steer; `text` says why, for people, where it was not delivered.

    ``delivered``: the agent has it, as part of the turn.  ``invalid``: it judged the input bad;
    ``rejected``: it does not want it.  ``turn-changed``: it does something else than when it was
    captured; ``turn-unavailable``: the run is over.  ``not-delivered``: it failed before it could
    reach the agent; ``unknown``: it may have reached it.
    """

    outcome: SteerOutcome
    text: str = ""
