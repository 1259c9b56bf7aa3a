"""Making a chat's transcript anew from the history that its agent keeps (server.md A.7).

The chat is its alone while that lasts: it holds the chat's lane, and begins only where nothing owns
the chat.  The new view is whole before anything is written, and one commit puts it in the place of
the old one; whatever goes wrong before, the old view is as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from uuid import uuid4

from attrs import define
from twisted.internet.defer import CancelledError, Deferred, TimeoutError, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from garcon.contract.events import Reloaded, TranscriptReplaced
from garcon.contract.runs import NativeRow, NativeSession
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.run import stale_view
from garcon.controller.chats.state import State
from garcon.controller.transcripts.feed import LivePermissions
from garcon.controller.transcripts.pages import span
from garcon.controller.transcripts.pieces import in_pieces
from garcon.controller.transcripts.remade import RemadeView, inherited
from garcon.controller.transcripts.rows import displayed
from garcon.controller.transcripts.transcript import Transcript
from garcon.controller.ws.interfaces import IReloading, Progress
from garcon.controller.ws.requests import Reload
from garcon.errors import GarconError
from garcon.runtime.interfaces import INativeHistory
from garcon.store.records import AppendRows, PutView, Row

PAGE_ROWS = 100
"""Raw rows of the page that answers a reload."""
READ_TIME = 600.0
"""Seconds for an agent's history to be read."""


@define(eq=False)
class Reloads:
    """Begins reloads of one workspace's chats."""

    _state: State

    def begin(self, request: Reload, progress: Progress) -> IReloading:
        """Begin one; what keeps it from beginning is told by its end."""
        reloading = Reloading(self._state, request, progress)
        reloading.begin()
        return reloading


@implementer(IReloading)
class Reloading:
    """See `IReloading`."""

    _log: ClassVar[Logger] = Logger()

    def __init__(self, state: State, request: Reload, progress: Progress) -> None:
        self.done: Deferred[Reloaded] = Deferred()
        self._state = state
        self._request = request
        self._progress = progress
        self._reading: Deferred[tuple[Row, ...]] | None = None
        self._is_stopped = False

    def begin(self) -> None:
        """Begin, or fail at once."""
        state, chat_id = self._state, self._request.chat_id
        try:
            state.must_be_open()
            self._must_be_free(state.registry.get(chat_id))
        except GarconError as error:
            self.done.errback(error)
            return
        if state.lanes.is_busy(chat_id):
            self.done.errback(_running(retryable=True))
            return
        state.lanes.run(chat_id, self._run).addBoth(self._ended)

    def stop(self) -> None:
        """See `IReloading`."""
        self._is_stopped = True
        if self._reading is not None:
            self._reading.cancel()

    def _ended(self, result: Reloaded | Failure) -> None:
        # Whoever waited may have given up; then nobody has to know.
        if not self.done.called:
            self.done.callback(result)
        elif isinstance(result, Failure) and not result.check(GarconError, CancelledError):
            self._log.failure("a reload that nobody waits for failed", failure=result)

    async def _run(self) -> Reloaded:
        chat = self._state.registry.get(self._request.chat_id)
        self._must_be_free(chat)
        rows = await self._read(chat)
        self._progress("saving", len(rows))
        return await self._replace(chat, rows)

    def _must_be_free(self, chat: Chat) -> None:
        if chat.turn is not None or chat.is_deleting:
            raise _running(retryable=True)
        if chat.queue.entries:
            raise _running(retryable=False)

    async def _read(self, chat: Chat) -> tuple[Row, ...]:
        """Make the new view; ``REQUEST_CANCELLED`` when it is stopped meanwhile."""
        self._reading = Deferred.fromCoroutine(self._remade(chat))
        if self._is_stopped:
            self._reading.cancel()
        try:
            return await self._reading.addTimeout(READ_TIME, self._state.clock)
        except CancelledError:
            if not self._is_stopped:
                raise
            raise GarconError(
                "REQUEST_CANCELLED",
                "The reload was cancelled; the transcript is as it was.",
                retryable=True,
            ) from None
        except TimeoutError:
            raise GarconError(
                "HISTORY_LOAD_FAILED",
                f"The agent's history was not read within {READ_TIME:.0f} s.",
                status=504,
                retryable=True,
            ) from None
        finally:
            self._reading = None

    async def _remade(self, chat: Chat) -> tuple[Row, ...]:
        self._progress("reading", 0)
        history, session = self._source(chat)
        # The agent remembers what its tools have seen, keys in its environment included.
        secrets = await self._state.agents.secrets()
        view = RemadeView()
        await self._keep_inherited(chat, view)
        view.begin_session(self._state.now(), session.agent_session_id)

        def take(rows: Sequence[NativeRow]) -> Deferred[None]:
            view.take(map(secrets.out_of_row, rows))
            self._progress("reading", len(view))
            return succeed(None)

        await history.read_history(session, take)
        return view.placed()

    def _source(self, chat: Chat) -> tuple[INativeHistory, NativeSession]:
        record = chat.record
        runtime: Any = self._state.executors.runtime(record.executor_id)
        if (
            record.agent_session_id is None
            or not INativeHistory.providedBy(runtime)
            or not runtime.keeps_history(record.agent_id)
        ):
            raise GarconError(
                "HISTORY_LOAD_FAILED", "This chat has no history of its agent's own.", status=422
            )
        session = NativeSession(record.agent_id, record.agent_session_id, record.project_path)
        return runtime, session

    async def _keep_inherited(self, chat: Chat, view: RemadeView) -> None:
        """Take over what belongs to earlier owners, all up to the last change of hands, and what
        was there before the agent's session: what a fork has copied, for one.
        """
        last = chat.record.inherited
        async for some in in_pieces(chat.transcript, chat.transcript.last_ordinal):
            last = max(last, inherited(some) or 0)
        async for some in in_pieces(chat.transcript, last):
            view.keep(some)

    async def _replace(self, chat: Chat, rows: tuple[Row, ...]) -> Reloaded:
        state, old = self._state, chat.transcript
        view_id = str(uuid4())
        old.retire(stale_view())
        try:
            await state.store.write([PutView(chat.id, view_id), AppendRows(view_id, rows)])
        except BaseException:
            old.restore()
            raise
        chat.transcript = Transcript(
            state.store,
            view_id,
            len(rows),
            committed=lambda view, added: state.rows_committed(chat.id, view, added),
        )
        chat.permissions = LivePermissions()
        state.publish(
            TranscriptReplaced(
                chat_id=chat.id,
                previous_transcript_view_id=old.view_id,
                transcript_view_id=view_id,
            )
        )
        return self._newest(chat, rows)

    def _newest(self, chat: Chat, rows: tuple[Row, ...]) -> Reloaded:
        wanted = span(len(rows), PAGE_ROWS)
        page = rows[wanted.first - 1 : wanted.last]
        view_id = chat.transcript.view_id
        messages = [one for row in page if (one := displayed(view_id, row)) is not None]
        return Reloaded(
            client_request_id=self._request.request_id,
            chat_id=chat.id,
            transcript_view_id=view_id,
            messages=messages,
            last_ordinal=len(rows),
            page_oldest_ordinal=messages[0].ordinal if messages else 0,
            page_newest_ordinal=wanted.last,
            next_before_ordinal=wanted.next_before,
            has_more=wanted.next_before is not None,
        )


def _running(*, retryable: bool) -> GarconError:
    return GarconError(
        "CHAT_RUNNING",
        "The chat is in use." if retryable else "Messages wait in the chat's queue.",
        status=409,
        retryable=retryable,
    )
