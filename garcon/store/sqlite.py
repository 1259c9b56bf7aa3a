"""The store in one SQLite file: one thread, one connection, write-ahead log, group commit.

A commit that reaches the disk costs the same whether it holds one row or a hundred, so writes that
come while one runs wait and share the next.  Where one of them is refused the transaction is begun
again with a savepoint for each: one that is refused leaves its neighbours alone.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from attrs import frozen
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

from garcon.deferreds import returns_deferred
from garcon.errors import StartupError
from garcon.store.interfaces import Damaged, IStore, NotStored
from garcon.store.records import Change, PutSetting, Row, StoredChat
from garcon.store.schema import SCHEMA_VERSION, Tables, create, is_damage

T = TypeVar("T")

_BUSY_SECONDS = 5.0
_COMMIT_WRITES = 1_024
_READS, _READ_BYTES = 32, 262_144
"""Reads that are done together, and after how many bytes of rows no more: whoever asked is answered
in one step.
"""
_LOG_PAGES = 4_096
"""How long the log may become before it is folded in: pages that many inputs change are then
written once for all of them.
"""


@frozen
class _Write:
    changes: Sequence[Change]
    done: Deferred[None]


@implementer(IStore)
class SqliteStore:
    """One workspace's memory in the file `path`.  See `IStore`: writes cannot be cancelled, and all
    calls are idempotent.
    """

    _log = Logger()

    def __init__(
        self, path: str, reactor: IReactorFromThreads, pool: ThreadPool | None = None
    ) -> None:
        self._path = Path(path)
        self._reactor = reactor
        self._pool = ThreadPool(1, 1, "store") if pool is None else pool
        self._connection: sqlite3.Connection | None = None
        self._tables: Tables | None = None
        self._chats: list[StoredChat] | None = None
        """Read when the file was judged, for the first who asks: a process reads its chats once."""
        self._asked: deque[tuple[Callable[[Tables], Any], Deferred[Any]]] = deque()
        self._reading = False
        self._queued: list[_Write] = []
        self._committing = False
        self._closing = False
        self._idle: list[Deferred[None]] = []
        self.commits = self.failed_commits = 0
        self.trouble: str | None = None
        """Why the last commit failed; None when it did not."""

    @returns_deferred
    async def open(self) -> None:
        self._pool.start()
        try:
            await self._in_thread(self._open)
        except BaseException:
            self._closing = True
            self._pool.stop()
            raise

    def check(self) -> None:
        """Raise the `StartupError` that `open` would; make nothing where there is no file.

        This blocks: it is for composition, while the process still has its operator's attention.
        Nobody else may change the file from then on; `open` and `load` rely on what was read.
        """
        if os.path.lexists(self._path):
            self._open()
            self._close()

    @returns_deferred
    async def close(self) -> None:
        if self._closing or self._tables is None:
            self._closing = True
            return
        self._closing = True
        if self._committing:
            idle: Deferred[None] = Deferred()
            self._idle.append(idle)
            await idle
        try:
            await self._in_thread(self._close)
        finally:
            self._pool.stop()

    def load(self) -> Deferred[list[StoredChat]]:
        chats, self._chats = self._chats, None
        if chats is None or self._closing or self._tables is None:
            return self._read(Tables.chats)
        return succeed(chats)

    def settings(self) -> Deferred[dict[str, str]]:
        return self._read(Tables.settings)

    def read_rows(
        self, view_id: str, first: int, last: int, most_bytes: int | None = None
    ) -> Deferred[list[Row]]:
        return self._read(
            lambda tables: _of_view(view_id, lambda: tables.read(view_id, first, last, most_bytes))
        )

    def find_message(self, view_id: str, client_message_id: str) -> Deferred[Row | None]:
        return self._read(
            lambda tables: _of_view(view_id, lambda: tables.find(view_id, client_message_id))
        )

    def write(self, changes: Sequence[Change]) -> Deferred[None]:
        if self._closing or self._tables is None:
            return fail(NotStored("it is not open"))
        if not all(isinstance(change, PutSetting) for change in changes):
            self._chats = None
        done: Deferred[None] = Deferred()
        self._queued.append(_Write(tuple(changes), done))
        if not self._committing:
            self._commit_next()
        return done

    def _commit_next(self) -> None:
        batch, self._queued = self._queued[:_COMMIT_WRITES], self._queued[_COMMIT_WRITES:]
        self._committing = True
        d = self._in_thread(lambda: self._commit([write.changes for write in batch]))
        d.addBoth(self._committed, batch)

    def _committed(
        self, outcome: list[NotStored | Damaged | None] | Failure, batch: list[_Write]
    ) -> None:
        self.commits += 1
        self.trouble = None
        if isinstance(outcome, Failure):
            self.failed_commits += 1
            self.trouble = outcome.getErrorMessage()
            if outcome.check(sqlite3.Error):
                reason = outcome.getErrorMessage()
                self._log.error("the store could not commit: {reason}", reason=reason)
            else:
                self._log.failure("a commit failed", failure=outcome)
            outcome = [NotStored(outcome.getErrorMessage())] * len(batch)
        self._committing = False
        if self._queued:
            self._commit_next()
        for write, error in zip(batch, outcome, strict=True):
            if error is None:
                write.done.callback(None)
            else:
                write.done.errback(error)
        if not self._committing:
            idle, self._idle = self._idle, []
            for d in idle:
                d.callback(None)

    def _read(self, read: Callable[[Tables], T]) -> Deferred[T]:
        tables = self._tables
        if self._closing or tables is None:
            return fail(NotStored("it is not open"))
        d: Deferred[T] = Deferred()
        self._asked.append((read, d))
        if not self._reading:
            self._read_next()
        return d

    def _read_next(self) -> None:
        self._reading = True
        self._in_thread(self._read_some).addCallback(self._have_read)

    def _have_read(self, found: list[tuple[Deferred[Any], Any]]) -> None:
        self._reading = False
        if self._asked:
            self._read_next()
        for d, result in found:
            # A failure calls the errbacks.  Who has given up has his answer already.
            if not d.called:
                d.callback(result)

    def _in_thread(self, work: Callable[[], T]) -> Deferred[T]:
        d: Deferred[Any] = deferToThreadPool(self._reactor, self._pool, work)
        return d

    # Everything below runs in the store's thread.

    def _open(self) -> None:
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            connection = sqlite3.connect(
                self._path,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        except (OSError, sqlite3.Error) as error:
            raise StartupError(f"cannot open the store {self._path}: {error}") from None
        try:
            tables = self._prepare(connection)
            if self._chats is None:
                self._chats = tables.chats()
        except sqlite3.Error as error:
            connection.close()
            if is_damage(error):
                raise self._set_aside(error) from None
            raise StartupError(f"cannot use the store {self._path}: {error}") from None
        except BaseException:
            connection.close()
            raise
        self._connection, self._tables = connection, tables

    def _prepare(self, connection: sqlite3.Connection) -> Tables:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise StartupError(
                f"the store {self._path} was written by a newer version"
                f" (schema {version}, this one knows {SCHEMA_VERSION})"
            )
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        if version == 0:
            create(connection)
        return Tables(connection)

    def _set_aside(self, error: sqlite3.Error) -> StartupError:
        kept = self._path.with_name(f"{self._path.name}.unreadable-{time.time_ns()}")
        for suffix in ("", "-wal", "-shm"):
            source = Path(f"{self._path}{suffix}")
            if source.exists():
                source.rename(f"{kept}{suffix}")
        return StartupError(
            f"the store {self._path} is unreadable ({error}); it was set aside as {kept},"
            " and the next start begins with an empty one"
        )

    def _read_some(self) -> list[tuple[Deferred[Any], Any]]:
        """Do what waits, as much as may be done together."""
        assert self._tables is not None
        tables = self._tables
        enough = tables.bytes_read + _READ_BYTES
        found: list[tuple[Deferred[Any], Any]] = []
        while self._asked and len(found) < _READS and tables.bytes_read < enough:
            read, d = self._asked.popleft()
            if d.called:
                # Whoever gives up a read leaves no work behind, however often.
                continue
            try:
                found.append((d, read(tables)))
            except Exception:
                found.append((d, Failure()))
        return found

    def _commit(self, writes: list[Sequence[Change]]) -> list[NotStored | Damaged | None]:
        assert self._connection is not None and self._tables is not None
        db, tables = self._connection, self._tables
        try:
            db.execute("BEGIN IMMEDIATE")
            try:
                for changes in writes:
                    tables.apply(changes)
                outcome: list[NotStored | Damaged | None] = [None] * len(writes)
            except (NotStored, Damaged, sqlite3.IntegrityError):
                db.execute("ROLLBACK")
                tables.forget()
                db.execute("BEGIN IMMEDIATE")
                outcome = [self._applied(db, tables, changes) for changes in writes]
            db.execute("COMMIT")
        except BaseException:
            tables.forget()
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        return outcome

    def _applied(
        self, db: sqlite3.Connection, tables: Tables, changes: Sequence[Change]
    ) -> NotStored | Damaged | None:
        """Make a write's changes, or none of them."""
        refusal: NotStored | Damaged | None = None
        db.execute("SAVEPOINT one")
        try:
            tables.apply(changes)
        except (NotStored, Damaged) as error:
            refusal = error
        except sqlite3.IntegrityError as error:
            refusal = NotStored(str(error))
        if refusal is not None:
            db.execute("ROLLBACK TO one")
            tables.forget()
        db.execute("RELEASE one")
        return refusal

    def _close(self) -> None:
        if self._connection is not None:
            connection, self._connection, self._tables = self._connection, None, None
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except sqlite3.Error as error:
                # Nothing is lost: the next one to open it reads the log, as after a crash.
                self._log.warn("the store's log could not be folded in: {why}", why=str(error))
            finally:
                connection.close()


def _of_view(view_id: str, read: Callable[[], T]) -> T:
    """A page of the file that cannot be read damages the view that wanted it."""
    try:
        return read()
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise Damaged(view_id, str(error)) from None
        raise
