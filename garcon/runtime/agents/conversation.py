"""What every agent protocol looks like to the shell that runs it: messages in, messages and facts
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from attrs import Factory, field, frozen

from garcon.contract.messages import ProviderRow, TranscriptNotice
from garcon.contract.runs import Launch, PermissionResponse, RowProduced, RunEvent
from garcon.contract.steering import Steer, SteerCapture, Steered
from garcon.runtime.agents.scrubbing import Secrets
from garcon.runtime.agents.stamps import Stamp


@frozen
class Send:
    """Write this message to the agent."""

    message: dict[str, Any]


@frozen
class Emit:
    """A fact of the turn that runs; `RunEnded` is its last."""

    event: RunEvent


@frozen
class Ready:
    """The agent's session is open; a turn can begin.  `adapts`: it can be told of other settings
    (`Invocation.settings`) while it runs.
    """

    adapts: bool = False


@frozen
class Refused:
    """The agent will not open its session; `text` says why."""

    text: str


@frozen
class SteerSettled:
    """What became of a steer."""

    message_id: str
    steered: Steered


@frozen
class Version:
    """What the agent calls its own release."""

    text: str


@frozen
class Unknown:
    """Something that we do not know: `kind` names it, `message` is all of it (`unknown.py`)."""

    kind: str
    message: Any


def row(message: ProviderRow, anchor: str | None = None) -> Emit:
    """Return a row of the transcript; `anchor` names the point behind it."""
    return Emit(RowProduced(message=message, anchor=anchor))


def notice(text: str, stamp: Stamp) -> Emit:
    """Return a row that tells people something."""
    return row(TranscriptNotice(timestamp=stamp.now, content=text))


Output = Send | Emit | Ready | Refused | SteerSettled | Version | Unknown


class Conversation(Protocol):
    """One agent process's side of the protocol, as values.  It lives as long as the process."""

    def open(self) -> list[Output]:
        """Say what is written first."""

    def received(self, message: dict[str, Any], stamp: Stamp) -> list[Output]:
        """Take the agent's next message."""

    def prompt(self, launch: Launch, stamp: Stamp) -> list[Output]:
        """Begin a turn; no other is running."""

    def interrupt(self, stamp: Stamp) -> list[Output]:
        """Ask the agent to stop its turn."""

    def decide(self, response: PermissionResponse, stamp: Stamp) -> list[Output] | None:
        """Answer a live permission request; None when there is no such."""

    def capture_steering(self) -> SteerCapture:
        """Say whether the turn that runs takes further input."""

    def steer(self, steer: Steer) -> list[Output]:
        """Give the turn further input; `SteerSettled` follows, unless the turn ends before."""

    def ended(self, text: str, stamp: Stamp) -> list[Output]:
        """The process is gone; `text` says how.  Ends the turn that runs, if any."""


@frozen
class Invocation:
    """How a process is started for a launch, and for which later launches it can be kept: where
    `key` is equal, and `settings` as well, unless it can be told of others while it runs.

    `secrets` are in its environment, and taken out of all that it says.
    """

    command: Sequence[str]
    environment: dict[str, str] = field(repr=False)
    key: object
    secrets: Secrets = Factory(Secrets)
    settings: object = None
