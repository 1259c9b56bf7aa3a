"""What is left over on an executor behind its link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from twisted.internet.defer import Deferred
from zope.interface import implementer

from garcon.contract import rpc
from garcon.contract.leftovers import EndProcess, LeftoverProcesses
from garcon.deferreds import returns_deferred
from garcon.runtime.interfaces import ILeftovers

Ask = Callable[[rpc.Method, Struct], "Deferred[Any]"]


@implementer(ILeftovers)
class RemoteLeftovers:
    """Those of one remote executor.  `ask` calls its worker."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def read(self) -> Deferred[LeftoverProcesses]:
        return self._ask(rpc.LEFTOVERS, rpc.Nothing())

    @returns_deferred
    async def end(self, wanted: EndProcess) -> None:
        await self._ask(rpc.END_LEFTOVER, wanted)
