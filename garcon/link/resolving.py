"""A reactor for one connection that says when the name it dials has been resolved.

Twisted's endpoint takes a name to a connection without a word in between, and a user must know on
which of the two it waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from attrs import frozen
from twisted.internet.interfaces import (
    IAddress,
    IHostnameResolver,
    IHostResolution,
    IReactorPluggableNameResolver,
    IResolutionReceiver,
)
from zope.interface import implementer


@implementer(IReactorPluggableNameResolver)
@frozen
class Resolving:
    """`reactor`, which calls `resolved` at the end of each resolution."""

    _reactor: Any
    _resolved: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def installNameResolver(self, resolver: IHostnameResolver) -> IHostnameResolver:
        """Install it in the reactor itself."""
        return cast(IHostnameResolver, self._reactor.installNameResolver(resolver))

    @property
    def nameResolver(self) -> IHostnameResolver:
        """The reactor's resolver, listened to."""
        return _Resolver(self._reactor.nameResolver, self._resolved)


@implementer(IHostnameResolver)
@frozen
class _Resolver:
    _resolver: IHostnameResolver
    _resolved: Callable[[], None]

    def resolveHostName(
        self, resolutionReceiver: IResolutionReceiver, *arguments: Any, **more: Any
    ) -> IHostResolution:
        receiver = _Receiver(resolutionReceiver, self._resolved)
        return self._resolver.resolveHostName(receiver, *arguments, **more)


@implementer(IResolutionReceiver)
@frozen
class _Receiver:
    _receiver: IResolutionReceiver
    _resolved: Callable[[], None]

    def resolutionBegan(self, resolutionInProgress: IHostResolution) -> None:
        self._receiver.resolutionBegan(resolutionInProgress)

    def addressResolved(self, address: IAddress) -> None:
        self._receiver.addressResolved(address)

    def resolutionComplete(self) -> None:
        self._resolved()
        self._receiver.resolutionComplete()
