"""All terminals of an executor's process (server.md C): whose they are, how many, and what was
answered to whom.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from uuid import uuid4

from attrs import define, field
from twisted.internet.defer import (
    CancelledError,
    Deferred,
    DeferredList,
    DeferredLock,
    TimeoutError,
    fail,
    succeed,
)
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.contract.limits import CLIENT_ID_BYTES, TERMINAL_TITLE_CHARACTERS, TERMINALS
from garcon.contract.runs import ProjectInspection
from garcon.contract.terminals import (
    INTERNAL,
    LIMIT,
    NOT_ATTACHED,
    NOT_FOUND,
    RUNTIME_CHANGED,
    UNAVAILABLE,
    VALIDATION,
    TerminalAttached,
    TerminalAttachment,
    TerminalCreation,
    TerminalDetached,
    TerminalInfo,
    TerminalRenaming,
    TerminalSize,
    TerminalsListed,
    TerminalTermination,
    terminal_error,
)
from garcon.deferreds import Tasks, Waiters, returns_deferred
from garcon.errors import GarconError
from garcon.runtime import projects
from garcon.runtime.agents.stamps import stamp
from garcon.runtime.environment import shell_of, terminal_environment
from garcon.runtime.interfaces import ITerminals, ITerminalSink
from garcon.runtime.marks import branch
from garcon.runtime.terminals.live import LiveTerminal
from garcon.runtime.terminals.pty import OpenPty
from garcon.runtime.terminals.results import Key, Results
from garcon.runtime.terminals.session import Session

FIRST_SIZE = TerminalSize(cols=80, rows=24)
STOP_WAIT = 8.0
"""How long a stopping service waits for what it was asked for before: an end takes five."""
STOPPING = "This executor is stopping."
_KEPT = frozenset({LIMIT, VALIDATION, INTERNAL})
"""Failures that a repeated request gets again."""

Answer = TerminalInfo | GarconError | None
_Work = Callable[[], Coroutine[Deferred[Any], Any, TerminalInfo | None]]


@define(eq=False)
class _Principal:
    """What one principal has.  The numbers go on when the terminals are gone."""

    terminals: dict[str, LiveTerminal] = field(factory=dict)
    last_number: int = 0
    lock: DeferredLock = field(factory=DeferredLock)
    """Held by the creation or termination under way."""


@implementer(ITerminals)
class Terminals:
    """See `ITerminals`.  Owned by the runtime, which ends it with `stop`.

    `environment` is the service's own; shells get what `terminal_environment` makes of `children`.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        project_base: str,
        environment: Mapping[str, str],
        children: Mapping[str, str],
        open_pty: OpenPty,
        *,
        now: Callable[[], str] = lambda: stamp().now,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self._reactor = reactor
        self._base = project_base
        self._shell = shell_of(environment)
        self._environment = terminal_environment(children)
        self._open_pty = open_pty
        self._now = now
        self._new_id = new_id
        self.runtime_id = new_id()
        self._epoch = new_id()
        self._principals: defaultdict[str, _Principal] = defaultdict(_Principal)
        self._attachments: dict[str, LiveTerminal] = {}
        self._results: Results[tuple[Answer]] = Results()
        self._waiting: dict[Key, Waiters[TerminalInfo | None]] = {}
        self._tasks = Tasks()
        self._is_stopping = False

    # -- ITerminals

    def list(self, principal_key: str) -> Deferred[TerminalsListed]:
        """See `ITerminals`."""
        principal = self._principals.get(principal_key, _Principal())
        infos = [live.session.info() for live in principal.terminals.values()]
        return succeed(
            TerminalsListed(
                terminals=sorted(infos, key=lambda info: info.display_sequence),
                terminal_runtime_id=self.runtime_id,
                attachment_epoch=self._epoch,
            )
        )

    def create(self, wanted: TerminalCreation) -> Deferred[TerminalInfo]:
        """See `ITerminals`."""
        expected = wanted.expected_terminal_runtime_id
        if expected is not None and expected != self.runtime_id:
            text = "The executor's process is another one; list its terminals again."
            return fail(terminal_error(RUNTIME_CHANGED, text))
        key = (wanted.principal_key, "create", wanted.request_id)
        return self._once(key, lambda: self._create(wanted))  # type: ignore[return-value]  # made

    def terminate(self, wanted: TerminalTermination) -> Deferred[TerminalInfo | None]:
        """See `ITerminals`."""
        if not self._is_meant(wanted.terminal_runtime_id):
            return succeed(None)
        key = (wanted.principal_key, "terminate", wanted.session_id, wanted.request_id)
        return self._once(key, lambda: self._terminate(wanted))

    @returns_deferred
    async def rename(self, wanted: TerminalRenaming) -> TerminalInfo:
        """See `ITerminals`."""
        title = _title(wanted.title)
        found = self._find(wanted.principal_key, wanted.session_id, wanted.terminal_runtime_id)
        return found.rename(title)

    @returns_deferred
    async def attach(self, wanted: TerminalAttachment, sink: ITerminalSink) -> TerminalAttached:
        """See `ITerminals`."""
        if self._is_stopping:
            raise terminal_error(UNAVAILABLE, STOPPING)
        if wanted.attachment_epoch not in (None, self._epoch):
            raise terminal_error(
                UNAVAILABLE, "All attachments have ended since the terminals were listed."
            )
        if not wanted.attachment_id or wanted.attachment_id in self._attachments:
            raise terminal_error(VALIDATION, "An attachment needs an id of its own.")
        _require_ids(wanted.client_id, wanted.attachment_id)
        live = self._find(wanted.principal_key, wanted.session_id, wanted.terminal_runtime_id)
        self._attachments[wanted.attachment_id] = live
        try:
            return live.attach(wanted, sink)
        finally:
            if wanted.attachment_id not in live.session.attachments:
                self._gone(wanted.attachment_id)

    def taken(self, attachment_id: str, sequence: int) -> None:
        """See `ITerminals`."""
        live = self._attachments.get(attachment_id)
        if live is not None:
            live.taken(attachment_id, sequence)

    def input(self, attachment_id: str, data: str) -> Deferred[None]:
        """See `ITerminals`."""
        try:
            return self._attached(attachment_id).type(attachment_id, data)
        except GarconError as error:
            return fail(error)

    def resize(self, attachment_id: str, size: TerminalSize) -> Deferred[None]:
        """See `ITerminals`."""
        try:
            return self._attached(attachment_id).resize(attachment_id, size)
        except GarconError as error:
            return fail(error)

    def detach(self, attachment_id: str) -> None:
        """See `ITerminals`."""
        live = self._attachments.get(attachment_id)
        if live is not None:
            live.detach(attachment_id)

    # -- the owner's side

    @returns_deferred
    async def stop(self) -> None:
        """Let go of everybody who is attached, and end every shell."""
        self._is_stopping = True
        terminals = self._all()
        for live in terminals:
            live.detach_all(TerminalDetached(code=UNAVAILABLE, message=STOPPING))
        try:
            await self._tasks.settled().addTimeout(STOP_WAIT, self._reactor)
        except TimeoutError:
            self._log.warn("requests for terminals did not end in time")
        await self._tasks.stopService()
        ends = [live.end() for live in self._all()]
        for succeeded, result in await DeferredList(ends, consumeErrors=True):
            if not succeeded and isinstance(result, Failure):
                self._log.failure("ending a terminal failed", failure=result)

    def _all(self) -> tuple[LiveTerminal, ...]:
        return tuple(live for one in self._principals.values() for live in one.terminals.values())

    # -- requests that may come again

    def _once(self, key: Key, work: _Work) -> Deferred[TerminalInfo | None]:
        """Do what a request wants, once; whoever repeats it gets the answer of the first."""
        try:
            _require_ids(*key)
            known = self._results.find(key, self._reactor.seconds())
            if known is not None and known.answer is not None:
                return _given(known.answer[0])
            if known is None:
                self._results.begin(key, self._reactor.seconds())
                self._waiting[key] = Waiters()
                # It waits for its place, and nobody who gives up can stop it any more.
                answer = self._waiting[key].wait()
                self._tasks.spawn("a request for a terminal", self._answer(key, work))
                return answer
        except GarconError as error:
            return fail(error)
        return self._waiting[key].wait()

    async def _answer(self, key: Key, work: _Work) -> None:
        request = self._results.find(key, self._reactor.seconds())
        assert request is not None
        answer: Answer = terminal_error(UNAVAILABLE, STOPPING)
        try:
            answer = await self._principals[key[0]].lock.run(work)
        except GarconError as error:
            answer = error
        except CancelledError:
            raise
        except Exception:
            self._log.failure("a request for a terminal failed")
            answer = terminal_error(INTERNAL, "The terminal failed; the executor's log says why.")
        finally:
            if isinstance(answer, GarconError) and answer.code not in _KEPT:
                self._results.forget(request)
            else:
                self._results.settle(request, (answer,), self._reactor.seconds())
            waiters = self._waiting.pop(key)
            if isinstance(answer, GarconError):
                waiters.fail(answer)
            else:
                waiters.fire(answer)

    async def _create(self, wanted: TerminalCreation) -> TerminalInfo:
        principal = self._principals[wanted.principal_key]
        if len(principal.terminals) >= TERMINALS:
            raise terminal_error(
                LIMIT, f"There are {TERMINALS} terminals already; end one of them first."
            )
        directory = await self._directory(wanted.directory)
        command = shutil.which(self._shell, path=self._environment.get("PATH", os.defpath))
        if command is None:
            raise terminal_error(INTERNAL, f"The shell {self._shell!r} was not found.")
        if self._is_stopping:
            raise terminal_error(UNAVAILABLE, STOPPING)
        number = principal.last_number + 1
        session = Session(self._new_id(), number, directory, self._now())
        live = LiveTerminal(session, self._reactor, self._gone)
        try:
            pty = self._open_pty(
                live, [os.path.abspath(command)], branch(self._environment), directory, FIRST_SIZE
            )
        except OSError as error:
            self._log.failure("a terminal could not be opened")
            raise terminal_error(
                INTERNAL, f"The terminal could not be opened: {error.strerror}."
            ) from None
        live.started(pty)
        principal.last_number = number
        principal.terminals[session.session_id] = live
        return session.info()

    async def _directory(self, wanted: str | None) -> str:
        path = "." if wanted is None else wanted
        try:
            inspection: ProjectInspection = await deferToThreadPool(
                self._reactor, self._reactor.getThreadPool(), projects.inspect, path, self._base
            )
        except GarconError as error:
            raise terminal_error(VALIDATION, error.text, status=422) from None
        return inspection.project_path

    async def _terminate(self, wanted: TerminalTermination) -> TerminalInfo | None:
        live = self._principals[wanted.principal_key].terminals.pop(wanted.session_id, None)
        if live is None:
            return None
        info = live.session.info()
        await live.terminate()
        return info

    # -- finding

    def _is_meant(self, runtime_id: str | None) -> bool:
        return runtime_id in (None, self.runtime_id)

    def _find(
        self, principal_key: str, session_id: str, runtime_id: str | None = None
    ) -> LiveTerminal:
        principal = self._principals.get(principal_key)
        live = None if principal is None else principal.terminals.get(session_id)
        if live is None or not self._is_meant(runtime_id):
            raise terminal_error(NOT_FOUND, "There is no such terminal.")
        return live

    def _attached(self, attachment_id: str) -> LiveTerminal:
        live = self._attachments.get(attachment_id)
        if live is None:
            raise terminal_error(NOT_ATTACHED, "This terminal is not attached here.")
        return live

    def _gone(self, attachment_id: str) -> None:
        self._attachments.pop(attachment_id, None)


def _title(title: str | None) -> str | None:
    """Return a title as it is kept, None for a blank one."""
    if title is None:
        return None
    title = title.strip()
    try:
        length = len(title.encode("utf-16-le")) // 2
    except UnicodeEncodeError:
        raise terminal_error(VALIDATION, "The title is not valid text.") from None
    if length > TERMINAL_TITLE_CHARACTERS or any(c < " " or c == "\x7f" for c in title):
        raise terminal_error(
            VALIDATION,
            f"A title has at most {TERMINAL_TITLE_CHARACTERS} characters, none of them a control"
            " character.",
        )
    return title or None


def _require_ids(*ids: str) -> None:
    for each in ids:
        if not each or len(each.encode("utf-8", "replace")) > CLIENT_ID_BYTES:
            raise terminal_error(VALIDATION, f"An id has 1 to {CLIENT_ID_BYTES} bytes.")


def _given(answer: Answer) -> Deferred[TerminalInfo | None]:
    """Give an answer once more."""
    return fail(answer) if isinstance(answer, GarconError) else succeed(answer)
