"""What the browser sockets ask of whoever knows the chats, and the terminals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from garcon.contract.events import ControlResult, ProcessingSnapshot, Reloaded, Subscribed
from garcon.controller.ws.requests import Reload, Subscribe

ReloadPhase = Literal["reading", "saving"]
Progress = Callable[[ReloadPhase, int], None]
"""Takes a reload's phase and how many rows it has so far."""


class IReloading(Interface):
    """A reload under way."""

    done: Deferred[Reloaded] = Attribute("Fires once.  Cancelling it stops nothing.")

    def stop() -> None:
        """Stop it, so that it fails with ``REQUEST_CANCELLED``; too late once it saves, or is
        over.
        """


class IAnswers(Interface):
    """The chats, as sockets ask about them.  What is returned goes out before anything else can
    happen, so it may be a picture of one instant.

    Failures are `GarconError`s with a code of server.md A.8, or any other for a history that cannot
    be loaded.
    """

    server_instance_id: str = Attribute("This process.")

    def now() -> str:
        """Return this instant as the contract spells it."""

    def processing() -> ProcessingSnapshot:
        """Return every chat that is not idle, by its id; `reconnecting` is a phase of its own."""

    def controls(chat_ids: Sequence[str]) -> list[ControlResult]:
        """Return what is known of each chat's execution control, in that order."""

    def page(request: Subscribe) -> Deferred[Subscribed]:
        """Read one page of a replay."""

    def reload(request: Reload, progress: Progress) -> IReloading:
        """Make the chat's transcript anew from its agent's history."""


class ITerminalTalk(Interface):
    """What one socket says about terminals, and is told of them (server.md C).  Owned by the
    socket.
    """

    def received(payload: bytes) -> None:
        """Take a message whose type is one of terminals', whatever else is wrong with it.  Never
        raises.
        """

    def room() -> None:
        """The socket takes messages again."""

    def end() -> None:
        """The socket takes nothing more: let go of its terminals."""


class ITerminalDoor(Interface):
    """The terminals, as sockets use them."""

    def meet(client: Any) -> ITerminalTalk:
        """Begin, with the first message about terminals of a socket
        (`garcon.controller.terminals.stream.ITerminalClient`).
        """
