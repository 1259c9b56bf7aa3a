"""The process of a service: its clock and environment, an orderly start and end, and running in the
foreground or under twistd.  What it can be told is in options.py.

Nothing here knows a role.  Importing this module chooses no reactor; running does.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn, Protocol

from twisted.application.service import MultiService
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.logger import Logger, LoggingFile, globalLogBeginner
from twisted.python import usage
from twisted.python.failure import Failure

from garcon.allocation import keep_freed_memory, keep_what_is_there
from garcon.contract.connection_url import redact
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError, StartupError
from garcon.log_lines import LineLog
from garcon.orphans import adopt
from garcon.stalls import watch

STOP_WITHIN = 13.0
"""A stop that takes longer is given up: whoever stops us waits 15 s (existing-clients.md)."""


def use_monotonic_clock(reactor: Any) -> None:
    """Make every timer run on the monotonic clock; call it before anything else uses the reactor.

    Twisted's default is the wall clock, and a step of that fires or freezes timers
    (decisions.md 37).
    """
    reactor.seconds = time.monotonic


def prepare(reactor: Any) -> None:
    """Make a process of ours out of this one, before anything else uses the reactor."""
    use_monotonic_clock(reactor)
    watch(reactor)
    keep_freed_memory(os.environ)


def fail_to_start(text: str, scope: str = "server") -> NoReturn:
    """Say in one line why there is no service, and end with status 1."""
    _complain(scope, text)
    raise SystemExit(1)


def _complain(scope: str, text: str) -> None:
    line = f"[{scope}] Failed to start {scope}: {redact(' '.join(text.split()))}"
    print(line, file=sys.stderr, flush=True)
    operator = sys.__stderr__
    if operator is None or operator is sys.stderr or not isinstance(sys.stderr, LoggingFile):
        return
    # twistd has made standard error a part of its log; whoever started it looks here.
    try:
        print(line, file=operator, flush=True)
    except (OSError, ValueError):
        return


# Environment


def require_free_port(host: str, port: int) -> None:
    """Raise `StartupError` where nobody could listen now.

    The port is opened only at start, when a daemon's first process has left already: its operator
    would see status 0 and would have to find the reason in the log.
    """
    if port == 0:
        return
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            # As the listener itself does: what a predecessor's connections left is no hindrance.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(address)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StartupError(f"Couldn't listen on {host}:{port}: {reason}.") from None


def environment_snapshot(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the service's environment as it is now; children are given what is made from it."""
    return dict(os.environ if environment is None else environment)


def take_variable(name: str) -> str | None:
    """Take a variable out of this process's environment, so that no child can inherit it.

    An empty one counts as unset.
    """
    return os.environ.pop(name, "").strip() or None


# Running


class Parts(Protocol):
    """What a role's process is made of, in the order in which it starts and ends."""

    def start_up(self) -> Deferred[Sequence[str]]:
        """Start everything; fires with the lines that say so on standard output."""

    def shut_down(self) -> Deferred[bool]:
        """End everything, also what a failed or cancelled start left; called once.

        Fires with whether all of it went well.
        """


class Role(MultiService):
    """The root service of one process: an orderly start, a ready line, an orderly stop."""

    _log = Logger()

    def __init__(self, reactor: Any, parts: Parts, scope: str = "server") -> None:
        super().__init__()
        self.reactor = reactor
        self.parts = parts
        self.scope = scope
        self.exit_status = 0
        self.gave_up = False
        self._starting: Deferred[None] | None = None
        self._stopping: Deferred[None] | None = None

    def startService(self) -> None:
        """Begin once the reactor runs."""
        super().startService()
        self.reactor.callWhenRunning(self._begin)

    def _begin(self) -> None:
        if self._stopping is None:
            self._starting = self._start()
            self._starting.addErrback(self._failed)

    @returns_deferred
    async def _start(self) -> None:
        lines = await self.parts.start_up()
        keep_what_is_there()
        for line in lines:
            say(f"[{self.scope}] {line}")

    def _failed(self, failure: Failure) -> None:
        if failure.check(CancelledError):
            return
        self.exit_status = 1
        _complain(self.scope, self._reason(failure))
        if self._stopping is None:
            self.reactor.callLater(0, _stop_reactor, self.reactor)

    def _reason(self, failure: Failure) -> str:
        error = failure.value
        if isinstance(error, GarconError):
            return error.text
        if isinstance(error, OSError) or failure.check("twisted.internet.error.CannotListenError"):
            return str(error)
        self._log.failure("{scope} could not start", failure=failure, scope=self.scope)
        return f"{type(error).__name__}: {error}"

    def stopService(self) -> Deferred[None]:
        """Stop in order, within a bound; fires when it is over either way."""
        if self._stopping is None:
            self._stopping = self._stop()
        return self._stopping

    @returns_deferred
    async def _stop(self) -> None:
        super().stopService()
        if self._starting is not None:
            self._starting.cancel()
        ending = self.parts.shut_down()
        ending.addTimeout(STOP_WITHIN, self.reactor)
        try:
            if not await ending:
                self.exit_status = 1
        except TimeoutError:
            self._log.error("stopping took more than {seconds} s", seconds=STOP_WITHIN)
            self.exit_status = 1
            self.gave_up = True
        except Exception:
            self._log.failure("stopping failed")
            self.exit_status = 1


def say(text: str) -> None:
    """Print a line on standard output, if anybody reads it."""
    try:
        print(text, flush=True)
    except (OSError, ValueError):
        # Nobody reads our standard output; that is no reason not to serve.
        _abandon_stdout()


def _abandon_stdout() -> None:
    """Lead standard output nowhere, so that the interpreter does not complain about it at its
    end.
    """
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return


def _stop_reactor(reactor: Any) -> None:
    if reactor.running:
        reactor.stop()


class _StopSignals:
    """SIGTERM, SIGINT and SIGHUP stop the reactor, once; later ones are ignored.

    Twisted's own handlers would complain about a second signal, and it installs them as the
    reactor starts, so ours are installed again after that.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._told = False
        self._running = False

    def install(self) -> None:
        """Take the signals now and again when the reactor runs."""
        self._take()
        self._reactor.callWhenRunning(self._started)

    def _take(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
            # Under nohup it is ignored, and stays so.
            signal.signal(signal.SIGHUP, self._stop)

    def _started(self) -> None:
        self._take()
        self._running = True
        if self._told:
            _stop_reactor(self._reactor)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if not self._told:
            self._told = True
            if self._running:
                self._reactor.callFromThread(_stop_reactor, self._reactor)


def run_in_foreground(
    options: usage.Options,
    make_service: Callable[[Any, Any], Role],
    argv: Sequence[str],
    reactor: Any,
) -> int:
    """Run a role until it is told to stop, and return its exit status.

    `make_service` takes the parsed options and the reactor.  No pid file is written, standard
    input is never read.
    """
    options.parseOptions(list(argv))
    prepare(reactor)
    log = LineLog(sys.stdout, sys.stderr, options["log-level"])
    globalLogBeginner.beginLoggingTo([log], redirectStandardIO=False)
    service = make_service(options, reactor)
    reactor.addSystemEventTrigger("before", "shutdown", service.stopService)
    reactor.callWhenRunning(adopt, reactor)
    _StopSignals(reactor).install()
    service.startService()
    reactor.run()
    if service.gave_up:
        # A thread that hangs would keep the interpreter from ending.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(service.exit_status)
    return service.exit_status


def under_twistd(service: Role) -> Role:
    """Return the service as twistd runs it: a failed start ends the process with status 1.

    twistd itself knows no exit status of a service, so the interpreter's last act sets it, after
    the pid file is gone.
    """

    def leave() -> None:
        if service.exit_status:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(service.exit_status)

    service.reactor.callWhenRunning(adopt, service.reactor)
    atexit.register(leave)
    return service
