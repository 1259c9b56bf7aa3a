"""Lend the local terminal to a remote one, until either lets go (server.md C).

One loop waits for the keyboard, the screen, the socket and signals.  Whatever one side does not
take is not read from the other: what waits is bounded.  While the socket is gone, or the executor,
the terminal is attached again from what was shown on, for `PATIENCE` at most.  What is typed
meanwhile is refused with a bell: it might mean something else when it arrives.
"""

from __future__ import annotations

import os
import select
import signal

from garcon.cli.attachment import Attached, Ended, Lost, Shown, Told
from garcon.cli.door import Opening
from garcon.cli.failures import (
    DONE,
    INTERRUPTED,
    OPERATIONAL,
    RECOVERY,
    CommandFailure,
    TransportFailure,
    visible,
)
from garcon.cli.screen import Modes, replayed
from garcon.cli.terminal import ENDING
from garcon.cli.websocket import ProtocolError
from garcon.errors import GarconError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from garcon.cli.attachment import Attachment, Event
    from garcon.cli.door import Door, OpenSocket
    from garcon.cli.keyboard import Keyboard
    from garcon.cli.system import System
    from garcon.cli.terminal import LocalTerminal

PATIENCE = 120.0
"""How long a terminal that was attached is tried again: a restart of the controller, and a worker's
longest pause between two dials, fit in.
"""
FIRST_DELAY, LONGEST_DELAY = 0.25, 2.0
ANSWER_TIME = 30.0
"""How long an answer to an attach is waited for."""
LAST_OUTPUT_TIME = 10.0
"""How long a screen may take for the last of a shell's output."""
SCREEN_BYTES, SOCKET_BYTES = 256 * 1024, 256 * 1024
"""More than this waits for neither; only what was read at once comes on top."""
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL
_KEYS, _BITE = 16 * 1024, 16 * 1024


class Attaching:
    """One attach command at work."""

    def __init__(
        self,
        system: System,
        terminal: LocalTerminal,
        attachment: Attachment,
        door: Door,
        keyboard: Keyboard,
    ) -> None:
        self._system = system
        self._terminal = terminal
        self._attachment = attachment
        self._door = door
        self._keyboard = keyboard
        self._modes = Modes()
        self._screen = bytearray()
        self._socket: OpenSocket | None = None
        self._opening: Opening | None = None
        self._end: Ended | None = None
        self._signal = 0
        self._answer_by: float | None = None
        self._again_at: float | None = None
        self._away_since: float | None = None
        self._delay = FIRST_DELAY
        self._why = ""

    def run(self) -> Ended:
        """Return how it ended.  The local terminal is as it was, and a signal that asked for the
        end has been obeyed.
        """
        try:
            self._use(self._door.open())
            while self._end is None:
                self._turn()
            self._say_goodbye()
        finally:
            self._terminal.leave(self._modes.undo())
            if self._socket is not None:
                self._socket.close()
        for number in self._terminal.woken():
            if number in ENDING:
                self._signal = self._signal or number
        self._obey()
        return self._end

    def _obey(self) -> None:
        if self._signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self._signal:
            # So that whoever sent it sees that it was this that ended us.
            signal.signal(self._signal, signal.SIG_DFL)
            os.kill(os.getpid(), self._signal)

    # One turn of the loop

    def _turn(self) -> None:
        self._look_at_the_clock()
        if self._end is not None:
            return
        terminal, link = self._terminal, self._socket
        poll = select.poll()
        poll.register(terminal.wakes, select.POLLIN)
        if terminal.is_entered:
            has_room = link is None or link.unsent <= SOCKET_BYTES
            poll.register(terminal.reads, select.POLLIN if has_room else 0)
            poll.register(terminal.writes, select.POLLOUT if self._screen else 0)
        if link is not None:
            wanted = select.POLLOUT if link.unsent else 0
            if len(self._screen) <= SCREEN_BYTES and link.unsent <= SOCKET_BYTES:
                wanted |= select.POLLIN
            if wanted:
                poll.register(link, wanted)
        ready = dict(poll.poll(self._patience()))
        for number in terminal.woken():
            self._signalled(number)
        self._take_what_was_opened()
        if self._end is None and self._screen and terminal.writes in ready:
            self._show()
        if self._end is None and terminal.reads in ready:
            self._type()
        if self._end is None and ready.get(terminal.writes, 0) & _GONE:
            self._hung_up()
        if self._end is None and link is not None and link is self._socket:
            self._serve(link, ready.get(link.fileno(), 0))

    def _patience(self) -> float | None:
        times = [at for at in (self._answer_by, self._again_at, self._give_up_at()) if at]
        if not times:
            return None
        return max(min(times) - self._system.clock(), 0) * 1_000 + 1

    def _give_up_at(self) -> float | None:
        return None if self._away_since is None else self._away_since + PATIENCE

    def _look_at_the_clock(self) -> None:
        now = self._system.clock()
        give_up_at = self._give_up_at()
        if give_up_at is not None and now >= give_up_at:
            text = f"the terminal could not be reached for {PATIENCE:g} s: {self._why}"
            self._end = Ended(RECOVERY, text, OPERATIONAL)
        elif self._answer_by is not None and now >= self._answer_by:
            self._lose_socket("the controller does not answer")
        elif self._again_at is not None and now >= self._again_at:
            self._again_at = None
            if self._socket is not None:
                self._ask(self._socket)
            elif self._opening is None:
                self._opening = Opening(self._door, self._terminal.wake)

    # The socket

    def _use(self, link: OpenSocket) -> None:
        self._socket = link
        self._ask(link)
        try:
            self._take(link.texts())
        except ProtocolError as error:
            self._lose_socket(str(error))

    def _ask(self, link: OpenSocket) -> None:
        link.send(self._attachment.attach())
        self._answer_by = self._system.clock() + ANSWER_TIME

    def _serve(self, link: OpenSocket, ready: int) -> None:
        try:
            if ready & select.POLLOUT:
                link.write()
            if ready & ~select.POLLOUT:
                self._take(link.read())
            if link.closed is not None and self._end is None:
                raise ProtocolError(f"the controller {link.closed}")
        except (OSError, ProtocolError) as error:
            text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self._lose_socket(text)

    def _take(self, texts: list[str]) -> None:
        for text in texts:
            for event in self._attachment.received(text):
                self._happened(event)
                if self._end is not None:
                    return

    def _take_what_was_opened(self) -> None:
        opening = self._opening
        if opening is None or opening.result is None:
            return
        self._opening = None
        result = opening.result
        if not isinstance(result, GarconError):
            self._use(result)
        elif isinstance(result, CommandFailure) and not isinstance(result, TransportFailure):
            self._end = Ended(result.phase, result.text, result.exit_status)
        else:
            self._lost(result.text)

    def _lose_socket(self, why: str) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._attachment.lost()
        if not self._terminal.is_entered:
            # Nothing has begun that could go on.
            self._end = Ended(RECOVERY, f"the connection was lost: {why}", OPERATIONAL)
            return
        self._lost(why)

    def _lost(self, why: str) -> None:
        now = self._system.clock()
        self._why = why = why.removesuffix(".")
        self._answer_by = None
        if self._away_since is None:
            self._away_since = now
            self._delay = FIRST_DELAY
            leaves = " or ".join(name for name in (self._keyboard.key.name, "Ctrl-C") if name)
            self._tell(
                f"not connected: {why}; the last keys may not have arrived. Trying again for"
                f" {PATIENCE:g} s; nothing that is typed now is sent, {leaves} leaves"
            )
        self._again_at = now + self._delay * self._system.jitter()
        self._delay = min(self._delay * 2, LONGEST_DELAY)

    # What the terminal says

    def _happened(self, event: Event) -> None:
        if isinstance(event, Shown):
            self._screen += replayed(event.data) if event.is_replayed else event.data
        elif isinstance(event, Attached):
            self._begin(event.is_first)
        elif isinstance(event, Told):
            self._tell(event.text)
        elif isinstance(event, Lost):
            self._answer_by = None
            if event.is_soon and self._socket is not None:
                self._tell(f"{event.text} Attaching again.")
                self._ask(self._socket)
            else:
                self._lost(event.text)
        else:
            self._end = event

    def _begin(self, is_first: bool) -> None:
        self._answer_by = self._again_at = None
        if is_first:
            try:
                self._terminal.enter()
            except OSError:
                self._hung_up()
                return
        elif self._away_since is not None:
            self._tell("connected again")
        self._away_since = None
        self._resize()

    def _tell(self, text: str) -> None:
        self._screen += f"\r\n[garcon: {visible(text)}]\r\n".encode("utf-8", "replace")

    def _resize(self) -> None:
        if self._socket is not None and self._attachment.is_attached:
            self._socket.send(self._attachment.resized(*self._terminal.size()))

    # The local terminal

    def _show(self) -> None:
        data = bytes(self._screen[:_BITE])
        try:
            size = self._terminal.write(data)
        except OSError:
            self._hung_up()
            return
        self._modes.follow(data[:size])
        del self._screen[:size]

    def _type(self) -> None:
        data = self._terminal.read(_KEYS)
        if data is None:
            return
        if not data:
            self._hung_up()
        elif self._socket is not None and self._attachment.is_attached:
            text, leaves = self._keyboard.read(data)
            for message in self._attachment.typed(text):
                self._socket.send(message)
            if leaves:
                self._detach()
        elif self._keyboard.leaves(data):
            self._detach()
        elif not self._screen.endswith(b"\a"):
            self._screen += b"\a"

    def _detach(self) -> None:
        if self._socket is not None and self._attachment.is_attached:
            self._socket.send(self._attachment.detach())
        self._end = Ended("", "detached", DONE)

    def _hung_up(self) -> None:
        # As the signal says that mostly comes with it.
        self._signal = self._signal or signal.SIGHUP
        self._end = Ended(RECOVERY, "the local terminal is gone", OPERATIONAL)

    def _signalled(self, number: int) -> None:
        if number in ENDING:
            self._signal = self._signal or number
            self._end = Ended(RECOVERY, "interrupted", INTERRUPTED)
            return
        try:
            if number == signal.SIGTSTP:
                self._terminal.suspend(self._modes.undo())
                self._screen[:0] = self._modes.again()
            elif number == signal.SIGCONT:
                self._terminal.renew()
        except OSError:
            self._hung_up()
            return
        self._resize()

    def _say_goodbye(self) -> None:
        """Show what is left of a shell's output."""
        assert self._end is not None
        deadline = self._system.clock() + LAST_OUTPUT_TIME
        poll = select.poll()
        poll.register(self._terminal.wakes, select.POLLIN)
        poll.register(self._terminal.writes, select.POLLOUT)
        while self._end.has_exited and self._screen and not self._signal:
            left = deadline - self._system.clock()
            if left <= 0:
                return
            ready = dict(poll.poll(left * 1_000))
            self._signal = next((n for n in self._terminal.woken() if n in ENDING), 0)
            if self._terminal.writes in ready:
                self._show()
