"""What one browser socket asks and is answered: some of it at once, the rest side by side, within
bounds (server.md A.4).

A client that asks faster than it is answered is not read any further; only what had been read
already still comes.  Pages of transcripts go out one at a time and only to a socket that takes
them, so no socket is closed for what it asked for itself.  Reloads may take minutes: they are
counted apart, and one too many is refused, so that nothing waits for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine
from typing import Any, ClassVar, Protocol

from attrs import define, field
from msgspec import UNSET
from twisted.internet.defer import CancelledError, Deferred, DeferredLock, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from garcon.contract.events import (
    Answer,
    ClientRequestError,
    Fault,
    Pong,
    ProcessingSnapshot,
    ReconnectState,
)
from garcon.contract.limits import KIB, MIB
from garcon.controller.ws import requests
from garcon.controller.ws.interfaces import IAnswers, IReloading
from garcon.controller.ws.messages import as_older_snapshot
from garcon.controller.ws.progress import ReloadProgressTeller
from garcon.controller.ws.requests import (
    CancelReload,
    Ping,
    ReconnectQuery,
    Refused,
    Reload,
    Request,
    Subscribe,
    Terminal,
)
from garcon.errors import GarconError

AT_ONCE = 8
"""Requests of one socket that are worked on side by side."""
RELOADS = 8
"""Reloads of one socket that run beside those."""
WAITING, WAITING_BYTES = 64, MIB
"""What may wait behind them before no more is read."""
FLOOD, FLOOD_BYTES = 4 * KIB, 32 * MIB
"""What may wait at all: a whole read buffer of the smallest requests is less."""
ANSWER_TIME = 30.0
FAILED = "WebSocket operation failed"

_CODES = frozenset(
    {
        "REQUEST_VALIDATION_FAILED",
        "SESSION_NOT_FOUND",
        "CHAT_RUNNING",
        "HISTORY_LOAD_FAILED",
        "STALE_TRANSCRIPT_VIEW",
        "REQUEST_TIMEOUT",
        "REQUEST_CANCELLED",
    }
)
"""Codes that a failed request may be answered with; others are the history's, which failed."""

Brief = Subscribe | ReconnectQuery
Work = Brief | Reload


class IClient(Protocol):
    """The socket, as its conversation needs it."""

    @property
    def is_newer(self) -> bool:
        """Whether it understands what was added since the older protocol."""

    def answer(self, answer: Answer) -> None:
        """Send an answer."""

    def room(self) -> Deferred[None]:
        """Fire once nothing waits to be sent."""

    def hold_reading(self, is_held: bool) -> None:
        """Read no further, or go on."""

    def abort(self) -> None:
        """Close the socket at once."""

    def terminal_received(self, payload: bytes) -> None:
        """Hand a message to whoever handles terminals."""


@define(eq=False)
class Conversation:
    """One socket's requests.  Owned by the socket, which says when it is over."""

    _log: ClassVar[Logger] = Logger()

    _client: IClient
    _answers: IAnswers
    _clock: IReactorTime
    _waiting: deque[tuple[Brief, int]] = field(factory=deque)
    _waiting_bytes: int = 0
    _running: set[Deferred[None]] = field(factory=set)
    _reloading: set[Deferred[None]] = field(factory=set)
    _reloads: dict[CancelReload, IReloading] = field(factory=dict)
    _pages: DeferredLock = field(factory=DeferredLock)
    _is_held: bool = False
    _is_over: bool = False

    def received(self, payload: bytes) -> None:
        """Take a message."""
        if self._is_over:
            return
        try:
            request = requests.read(payload)
            if request is not None:
                self._take(request, len(payload))
        except Exception:
            self._log.failure("a message on a browser socket went wrong")
            self._client.answer(Fault(error=FAILED))

    def end(self) -> None:
        """The socket is gone: nobody waits for an answer any more."""
        self._is_over = True
        self._waiting.clear()
        for reload in list(self._reloads.values()):
            reload.stop()
        for work in [*self._running, *self._reloading]:
            work.cancel()

    def _take(self, request: Request, size: int) -> None:
        match request:
            case Terminal(payload=payload):
                self._client.terminal_received(payload)
            case Refused(answer):
                self._client.answer(answer)
            case Ping():
                self._pong(request)
            case CancelReload():
                reload = self._reloads.get(request)
                if reload is not None:
                    reload.stop()
            case Reload():
                self._begin_reload(request)
            case Subscribe() | ReconnectQuery():
                self._queue(request, size)

    def _pong(self, ping: Ping) -> None:
        self._client.answer(
            Pong(
                client_request_id=ping.request_id,
                sent_at=ping.sent_at,
                server_time=self._answers.now(),
                processing=self._processing(),
                server_instance_id=self._answers.server_instance_id,
            )
        )

    def _processing(self) -> ProcessingSnapshot:
        try:
            snapshot = self._answers.processing()
        except Exception:
            self._log.failure("what the chats do could not be said")
            return ProcessingSnapshot(outcome="unavailable")
        return snapshot if self._client.is_newer else as_older_snapshot(snapshot)

    # Requests that take their time

    def _begin_reload(self, request: Reload) -> None:
        if len(self._reloading) < RELOADS:
            self._spawn(self._serve(request), self._reloading)
            return
        error = GarconError(
            "HISTORY_LOAD_FAILED", "Too many reloads of this socket run already.", retryable=True
        )
        self._client.answer(self._failure(request, error))

    def _queue(self, request: Brief, size: int) -> None:
        self._waiting.append((request, size))
        self._waiting_bytes += size
        self._begin()
        if len(self._waiting) > FLOOD or self._waiting_bytes > FLOOD_BYTES:
            self._log.warn("a browser socket that asked too much at once was closed")
            self._client.abort()

    def _begin(self) -> None:
        while self._waiting and len(self._running) < AT_ONCE and not self._is_over:
            request, size = self._waiting.popleft()
            self._waiting_bytes -= size
            self._spawn(self._serve(request), self._running)
        is_full = len(self._waiting) > WAITING or self._waiting_bytes > WAITING_BYTES
        if is_full != self._is_held and not self._is_over:
            self._is_held = is_full
            self._client.hold_reading(is_full)

    def _spawn(self, work: Coroutine[Deferred[Any], Any, None], among: set[Deferred[None]]) -> None:
        d: Deferred[None] = Deferred.fromCoroutine(work)
        among.add(d)

        def ended(result: object) -> None:
            among.discard(d)
            self._begin()

        d.addErrback(lambda f: f.trap(CancelledError))
        d.addErrback(lambda f: self._log.failure("a socket's request went wrong", failure=f))
        d.addBoth(ended)

    async def _serve(self, request: Work) -> None:
        try:
            match request:
                case ReconnectQuery():
                    await self._within(ANSWER_TIME, self._reconnect(request))
                case Subscribe():
                    await self._within(ANSWER_TIME, self._page(request))
                case Reload():
                    await self._reload(request)
        except CancelledError:
            raise
        except Exception as error:
            self._client.answer(self._failure(request, error))

    def _within(self, seconds: float, work: Coroutine[Deferred[Any], Any, None]) -> Deferred[None]:
        return Deferred.fromCoroutine(work).addTimeout(seconds, self._clock)

    async def _reconnect(self, query: ReconnectQuery) -> None:
        await self._client.room()
        results = self._answers.controls(query.chat_ids)
        self._client.answer(
            ReconnectState(
                processing=self._processing(),
                control_results=results,
                server_instance_id=self._answers.server_instance_id,
                client_request_id=UNSET if query.request_id is None else query.request_id,
            )
        )

    async def _page(self, request: Subscribe) -> None:
        await self._pages.acquire()
        try:
            await self._client.room()
            if self._is_over:
                return
            # Nothing may come between a page and its way out: what it says holds for that instant.
            self._client.answer(await self._answers.page(request))
        finally:
            self._pages.release()

    async def _reload(self, request: Reload) -> None:
        key = CancelReload(request.request_id, request.chat_id)
        progress = ReloadProgressTeller(self._client, self._clock, request)
        reload = self._answers.reload(request, progress.told)
        self._reloads.setdefault(key, reload)
        try:
            self._client.answer(await reload.done)
        finally:
            progress.end()
            if self._reloads.get(key) is reload:
                del self._reloads[key]

    def _failure(self, request: Work, error: Exception) -> Fault | ClientRequestError:
        code, text, retryable = self._explained(error)
        if isinstance(request, ReconnectQuery):
            if request.request_id is None:
                return Fault(error=text)
            return requests.error(
                *(request.request_id, "reconnect-state-query", code, text, None),
                retryable=retryable,
            )
        if code not in _CODES:
            code = "HISTORY_LOAD_FAILED"
        kind = "chat-subscribe" if isinstance(request, Subscribe) else "chat-reload"
        return requests.error(
            *(request.request_id, kind, code, text, request.chat_id), retryable=retryable
        )

    def _explained(self, error: Exception) -> tuple[str, str, bool]:
        if isinstance(error, GarconError):
            return error.code, error.text, error.retryable
        if isinstance(error, TimeoutError):
            return "REQUEST_TIMEOUT", "The request took too long.", True
        self._log.failure("a socket's request failed")
        return "INTERNAL_ERROR", "Something went wrong inside Garcon.", True
