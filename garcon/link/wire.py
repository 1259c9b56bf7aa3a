"""A wire: one connection that carries whole binary records.  WebSockets and the in-process pair
implement it.
"""

from __future__ import annotations

from typing import Any

from zope.interface import Attribute, Interface


class IWire(Interface):
    """Carries records in order; knows nothing of what they hold."""

    user: Any = Attribute("The `IWireUser` that is told of what happens.")
    is_writable: bool = Attribute("Whether the socket asks for more.")
    buffered: int = Attribute("Bytes given to the socket since it last was empty.")

    def send(record: bytes, *, soon: bool = False) -> None:
        """Send one record; nothing happens on a wire that has ended.

        What is to be sent `soon` need not leave before the end of this turn of the reactor, so that
        many records leave together.
        """

    def hold_reading(is_held: bool) -> None:
        """Take nothing more from the network for now, but for what was read already; or go on."""

    def close() -> None:
        """Send what was given, within a short time, and end."""

    def abort() -> None:
        """End at once."""


class IWireUser(Interface):
    """Is told of one wire's events; `wire_closed` comes exactly once, also when it never opened."""

    def wire_opened(wire: IWire) -> None:
        """Records may be sent."""

    def record_received(record: bytes) -> None:
        """One record came."""

    def wire_writable() -> None:
        """The socket asks for more."""

    def wire_closed(kind: str, text: str) -> None:
        """The connection is gone, or never was; both say why, without addresses or payloads."""


class IDialler(Interface):
    """Can reach one peer, over and over."""

    is_proxied: bool = Attribute("Whether a proxy lies on the way.")

    def dial(reactor: Any, user: IWireUser, close_time: float) -> IAttempt:
        """Begin to connect; `user` hears how it went, never before this returns.

        It takes as long as it takes: the user abandons the attempt when its time is over.
        """


class IAttempt(Interface):
    """A connection being made."""

    stage: str = Attribute("How far it has come: a `causes.Stage` up to the upgrade.")

    def abandon() -> None:
        """End the attempt, or the wire it made; `wire_closed` follows."""


class ITicket(Interface):
    """An accepted socket's place among all accepted sockets (admission.py)."""

    def keyed() -> None:
        """The peer has said something that was made with the secret, if perhaps by another."""

    def proven() -> None:
        """The peer knows the secret."""

    def established(lane: str) -> bool:
        """The handshake is done; False when there is no room for one more lane of this kind."""

    def release() -> None:
        """The socket is gone."""
