"""One worker process: its gateway, its runtime and its link, brought up and taken down in order.

The gateway comes first, because a child that inherits this role must find its descriptor or
nothing at all; the descriptor goes first at the end, and the lease last, whatever fails in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from zope.interface import implementer

from garcon.contract.terminals import TerminalNotification
from garcon.deferreds import returns_deferred
from garcon.errors import StartupError
from garcon.link.interfaces import Handler, ICapturedLink, ILink, ILinkEvents, ITerminalEvents
from garcon.local.leases import Lease
from garcon.runtime.interfaces import IExecutorRuntime
from garcon.worker.gateway.listener import Gateway
from garcon.worker.listener import LinkListener
from garcon.worker.serving.serving import Serving

LinkFactory = Callable[[ILinkEvents, Mapping[str, Handler]], ILink]
"""Opens the worker's end of its link; a dialling one begins to dial."""

LAST_WORDS = 0.5
"""How long a stopping worker waits for its controller to take the ends of its runs."""


@implementer(ILinkEvents, ITerminalEvents)
class Worker:
    """Everything of the process but its options.  `start_up` and `shut_down` come once each."""

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        lease: Lease,
        descriptor_path: str,
        wall_clock: Callable[[], float],
        runtime: IExecutorRuntime,
        start_runtime: Callable[[], None],
        end_runtime: Callable[[], Deferred[None]],
        open_link: LinkFactory,
        listen: Callable[[ILink], LinkListener] | None = None,
    ) -> None:
        self._reactor = reactor
        self._lease = lease
        self._start_runtime = start_runtime
        self._end_runtime = end_runtime
        self._open_link = open_link
        self._listen = listen
        self._link: ILink | None = None
        self._listener: LinkListener | None = None
        self.serving = Serving(reactor, runtime, self._offer, tell=self._tell)
        self.gateway = Gateway(reactor, reactor, self.current, descriptor_path, wall_clock)

    @returns_deferred
    async def start_up(self) -> Sequence[str]:
        """Bring everything up; fires with what to tell about it.

        A gateway that cannot start is only a warning: the executor serves without it, and the
        commands of its children fail instead of finding another controller.
        """
        # The process may have become a daemon since the lease was taken.
        self._lease.restate()
        self._start_runtime()
        try:
            self.gateway.start()
            lines = [f"Started at {self.gateway.base_url}"]
        except StartupError as error:
            self._log.warn("commands on this machine will not work: {why}", why=error.text)
            lines = ["Started without a command gateway"]
        link = self._open_link(self, self.serving.handlers())
        self._link = link
        if self._listen is not None:
            self._listener = self._listen(link)
            lines.append(f"Listening at {self._listener.start()}")
        return lines

    @returns_deferred
    async def shut_down(self) -> bool:
        """Take everything down, also what a failed start left; fires with whether all went well.

        Only our own descriptor is removed, and that first; runs are ended while the controller can
        still hear of it.
        """
        self.gateway.retract()
        went_well = True
        try:
            for what, step in (
                ("the gateway", self.gateway.stop),
                ("the listener", self._close_listener),
                ("the runtime", self._end_runs),
                ("the link", self._close_link),
                ("serving", self.serving.stop),
            ):
                try:
                    await step()
                except CancelledError:
                    raise
                except Exception:
                    self._log.failure("stopping {what} failed", what=what)
                    went_well = False
        finally:
            self._lease.release()
        return went_well

    @returns_deferred
    async def _close_listener(self) -> None:
        if self._listener is not None:
            await self._listener.stop()

    @returns_deferred
    async def _end_runs(self) -> None:
        await self._end_runtime()
        if self.current() is not None:
            await self.serving.delivered(LAST_WORDS)

    @returns_deferred
    async def _close_link(self) -> None:
        if self._link is not None:
            await self._link.close("local-close")

    def current(self) -> ICapturedLink | None:
        """The session with the controller that is connected now."""
        return None if self._link is None else self._link.current()

    def _offer(self, seq: int, frame: Struct) -> bool:
        return self._link is not None and self._link.send_producer(seq, frame)

    def _tell(self, notification: TerminalNotification) -> bool:
        return self._link is not None and self._link.send_terminal(notification)

    # ILinkEvents

    def primary_installed(self, captured: ICapturedLink) -> None:
        """The controller is there, and may resume what an earlier session has started; the gateway
        asks for it with each request.
        """
        self.serving.session_started(captured)

    def primary_lost(self, captured: ICapturedLink, cause: str) -> None:
        """The controller is gone; what this session has started is decided by the continuity."""
        self.serving.session_lost(captured)

    def bulk_changed(self, phase: str) -> None:
        """Whoever calls on bulk waits for it there."""

    def link_failed(self, kind: str, text: str) -> None:
        """The link has said so in the log, and tries again."""

    def producer_received(self, binding_id: str, seq: int, frame: Any) -> None:
        """Only a controller receives these."""

    def producer_acknowledged(self, acknowledgements: dict[str, int]) -> None:
        """The controller has these frames."""
        self.serving.acknowledged(acknowledgements)

    # ITerminalEvents

    def terminal_received(self, notification: TerminalNotification) -> None:
        """Only a controller receives these."""

    def terminal_detached(self, attachment_id: str) -> None:
        """An attachment is not wanted any more."""
        if self.serving.terminals is not None:
            self.serving.terminals.detached(attachment_id)

    def terminals_taken(self, taken: dict[str, int]) -> None:
        """There is room for more output."""
        if self.serving.terminals is not None:
            self.serving.terminals.taken(taken)
