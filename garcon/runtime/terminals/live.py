"""The shell around one terminal: between its PTY, its session and the sinks of its attachments.

A consumer that keeps up slows the program down to its own pace, as over any remote shell.  One that
does not catch up within a second is not waited for: then, and while nobody is attached, the PTY is
drained into what is kept, no faster than is good for the machine.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from garcon.contract.limits import KIB, MIB, RETRY
from garcon.contract.terminals import (
    INTERNAL,
    TerminalAttached,
    TerminalAttachment,
    TerminalDetached,
    TerminalInfo,
    TerminalSize,
    terminal_error,
)
from garcon.errors import GarconError
from garcon.runtime.interfaces import ITerminalSink
from garcon.runtime.terminals.operations import Operation
from garcon.runtime.terminals.pty import Pty
from garcon.runtime.terminals.session import Session
from garcon.runtime.terminals.text import Decoder, pieces

HIGH, LOW = 256 * KIB, 64 * KIB
"""The program is held while more than this waits for the owner, until it is less than that."""
PATIENCE = 1.0
DRAIN_RATE, DRAIN_SLICE = 16 * MIB, 16 * KIB
"""Bytes in a second that are read for nobody, counted from slices of this size on."""
BURST = 4
"""Events given to one attachment in one turn."""


class LiveTerminal:
    """One terminal of the service, which owns it.  `gone` hears of attachments that have ended."""

    _log = Logger()

    def __init__(self, session: Session, clock: IReactorTime, gone: Callable[[str], None]) -> None:
        self.session = session
        self._clock = clock
        self._gone = gone
        self._pty: Pty | None = None
        self._decoder = Decoder()
        self._sinks: dict[str, ITerminalSink] = {}
        """Of attachments that may be told something."""
        self._unopened: dict[str, ITerminalSink] = {}
        """Of those whose attaching has not been answered yet."""
        self._pumping: IDelayedCall | None = None
        self._is_pumping = False
        self._expiry: IDelayedCall | None = None
        self._patience: IDelayedCall | None = None
        self._is_impatient = False
        self._drain: IDelayedCall | None = None

    def started(self, pty: Pty) -> None:
        """Its shell runs."""
        self._pty = pty

    # -- for the service

    def attach(self, wanted: TerminalAttachment, sink: ITerminalSink) -> TerminalAttached:
        """See `ITerminals`; whether there is an attachment in the end, `session` knows."""
        if wanted.attachment_id not in self.session.attachments:
            self._unopened[wanted.attachment_id] = sink
        try:
            return self.session.attach(wanted, self._clock.seconds())
        finally:
            if wanted.attachment_id not in self.session.attachments:
                self._unopened.pop(wanted.attachment_id, None)
            # The answer goes first, then its events.
            self._clock.callLater(0, self._open, wanted.attachment_id)
            self._after_change()

    def _open(self, attachment_id: str) -> None:
        sink = self._unopened.pop(attachment_id, None)
        if sink is not None:
            self._sinks[attachment_id] = sink
            self._pump()

    def detach(self, attachment_id: str) -> None:
        """See `ITerminals`."""
        self.session.detach(attachment_id)
        self._forget(attachment_id)
        self._after_change()

    def taken(self, attachment_id: str, sequence: int) -> None:
        """See `ITerminals`."""
        attachment = self.session.attachments.get(attachment_id)
        if attachment is not None:
            attachment.taken(sequence)
            self._pump()

    def type(self, attachment_id: str, data: str) -> Deferred[None]:
        """See `ITerminals.input`."""
        d: Deferred[None] = Deferred(lambda _: None)
        self.session.type(attachment_id, data, d, self._clock.seconds())
        self._work()
        if self._pty is not None:
            self._pty.look()
        return d

    def resize(self, attachment_id: str, size: TerminalSize) -> Deferred[None]:
        """See `ITerminals`."""
        d: Deferred[None] = Deferred(lambda _: None)
        self.session.resize(attachment_id, size, d, self._clock.seconds())
        self._work()
        return d

    def rename(self, title: str | None) -> TerminalInfo:
        """Change its title."""
        self.session.rename(title)
        self._pump()
        return self.session.info()

    def detach_all(self, end: TerminalDetached) -> None:
        """End every attachment."""
        self.session.detach_all(end)
        self._after_change()

    def terminate(self) -> Deferred[None]:
        """Tell everybody of the end, and end the process; fires when that is gone."""
        self.session.terminated()
        self._after_change()
        return self.end()

    def end(self) -> Deferred[None]:
        """End the process, if it runs."""
        return succeed(None) if self._pty is None else self._pty.end()

    # -- PtyOwner

    def output_received(self, data: bytes) -> None:
        """Number it, keep it, and give it to the owner."""
        self._output(self._decoder.feed(data))
        if len(data) >= DRAIN_SLICE and (self.session.owner is None or self._is_impatient):
            self._drain_slowly(len(data))

    def input_wanted(self) -> None:
        """There is room for more input."""
        self._work()

    def process_exited(self, code: int) -> None:
        """Everything it had to say was said."""
        self._output(self._decoder.end())
        self._pty = None
        self._stop_drain()
        self.session.exited(code)
        self._after_change()

    def _output(self, text: str) -> None:
        for piece, cost in pieces(text):
            self.session.output(piece, cost)
        if text:
            self._pump()

    # -- giving

    def _pump(self) -> None:
        """Give what may be given now; what is refused is offered again in a moment."""
        if self._is_pumping:
            return
        self._is_pumping = True
        try:
            waits = [wait for wait in map(self._give, list(self._sinks)) if wait is not None]
        finally:
            self._is_pumping = False
        if waits:
            self._pump_later(min(waits))
        self._pace()
        self._settle()

    def _pump_later(self, wait: float) -> None:
        if self._pumping is None:
            self._pumping = self._clock.callLater(wait, self._pump_again)
        elif self._pumping.getTime() > self._clock.seconds() + wait:
            self._pumping.reset(wait)

    def _pump_again(self) -> None:
        self._pumping = None
        self._pump()

    def _give(self, attachment_id: str) -> float | None:
        """Give one attachment some of its events; return when it can have more, if there is any."""
        for _ in range(BURST):
            attachment = self.session.attachments.get(attachment_id)
            sink = self._sinks.get(attachment_id)
            if attachment is None or sink is None:
                return None
            event = self.session.next_event(attachment)
            if event is None:
                return None
            try:
                is_taken = sink.offer(event)
            except Exception:
                # A client's trouble must not become the shell's, whose output is being read here.
                self._log.failure("an attachment of a terminal failed; it is given up")
                self.session.detach(attachment_id)
                self._forget(attachment_id)
                return None
            if not is_taken:
                return RETRY
            if self.session.attachments.get(attachment_id) is attachment:
                self.session.gave(attachment, event)
                if attachment.is_over:
                    self._forget(attachment_id)
        return 0.0

    def _forget(self, attachment_id: str) -> None:
        self._sinks.pop(attachment_id, None)
        self._unopened.pop(attachment_id, None)
        self._gone(attachment_id)

    def _after_change(self) -> None:
        """Who has it may have changed: tell, and do what is due for whoever has it now."""
        self._watch_expiry()
        self._pump()
        self._work()

    def _watch_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        due = self.session.next_expiry
        if due is not None:
            wait = max(0.0, due - self._clock.seconds())
            self._expiry = self._clock.callLater(wait, self._expire)

    def _expire(self) -> None:
        self._expiry = None
        self.session.expire(self._clock.seconds())
        self._after_change()

    # -- pace

    def _pace(self) -> None:
        """Hold the program while its owner catches up, and let it go on in time."""
        lag = 0 if self.session.owner is None else self.session.owner.lag
        if lag <= LOW:
            self._is_impatient = False
            self._stop_waiting()
        elif lag > HIGH and self._patience is None and not self._is_impatient:
            self._patience = self._clock.callLater(PATIENCE, self._lose_patience)
        self._hold()

    def _lose_patience(self) -> None:
        self._patience = None
        self._is_impatient = True
        self._hold()

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _drain_slowly(self, size: int) -> None:
        if self._drain is None:
            self._drain = self._clock.callLater(size / DRAIN_RATE, self._drain_on)
        self._hold()

    def _drain_on(self) -> None:
        self._drain = None
        self._hold()

    def _stop_drain(self) -> None:
        if self._drain is not None:
            self._drain.cancel()
            self._drain = None
        self._stop_waiting()

    def _hold(self) -> None:
        if self._pty is not None:
            self._pty.hold(self._patience is not None or self._drain is not None)

    # -- doing

    def _work(self) -> None:
        """Do what waits, as far as the PTY takes it."""
        while self._pty is not None and self._pty.is_writable:
            operation = self.session.next_operation(self._clock.seconds())
            if operation is None:
                break
            self.session.end(operation, self._done(self._pty, operation))
        self._settle()

    def _done(self, pty: Pty, operation: Operation) -> GarconError | None:
        try:
            if operation.data is not None:
                pty.write(operation.data)
            elif operation.size is not None:
                pty.resize(operation.size)
        except OSError:
            self._log.failure("an operation on a terminal failed")
            return terminal_error(INTERNAL, "The terminal could not be written to.")
        return None

    def _settle(self) -> None:
        """Tell of operations that have ended, last of all, as whoever hears it may come back."""
        settled, self.session.settled = self.session.settled, []
        for ticket, error in settled:
            if ticket.called:
                continue
            if error is None:
                ticket.callback(None)
            else:
                ticket.errback(error)
