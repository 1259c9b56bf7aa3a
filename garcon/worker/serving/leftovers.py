"""The methods by which a controller sees and ends what is left over on a worker's machine."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred

from garcon.contract import rpc
from garcon.contract.leftovers import EndProcess, LeftoverProcesses
from garcon.deferreds import returns_deferred
from garcon.link.interfaces import CallContext, Handler
from garcon.runtime.interfaces import ILeftovers


class LeftoverServing:
    """One worker's leftovers, as the controller may ask for them."""

    def __init__(self, leftovers: ILeftovers) -> None:
        self._leftovers = leftovers

    def handlers(self) -> Mapping[str, Handler]:
        """Return both methods, by name."""
        return {rpc.LEFTOVERS.name: self.read, rpc.END_LEFTOVER.name: self.end}

    def read(self, request: rpc.Nothing, context: CallContext) -> Deferred[LeftoverProcesses]:
        """Look for them."""
        return self._leftovers.read()

    @returns_deferred
    async def end(self, request: EndProcess, context: CallContext) -> rpc.Nothing:
        """End one."""
        await self._leftovers.end(request)
        return rpc.Nothing()
