"""The transcript of one chat: its current view, rows without a gap, pages, and input nobody
answered yet.

Ordinals belong to rows only once a commit has kept them: a commit that fails leaves no gap, because
the rows that come next take the same numbers.  One commit of a view runs at a time and takes
everything that came meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from attrs import frozen
from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from garcon.contract.chats import ResendCandidate
from garcon.contract.runs import HistoryMessage
from garcon.controller.transcripts import replay, resend
from garcon.controller.transcripts.conversation import conversation
from garcon.controller.transcripts.pages import Page, span
from garcon.controller.transcripts.replay import Stretch
from garcon.controller.transcripts.resend import Candidate
from garcon.controller.transcripts.rows import Draft, Input, displayed, input_of, preview_of
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError
from garcon.store.interfaces import Damaged, IStore
from garcon.store.records import AppendRows, Change, Row

_CHUNK = 100
"""How many rows at a time are looked through for unanswered input."""

Committed = Callable[[str, tuple[Row, ...]], None]

Late = Callable[[], Change]
"""A change made up only when it is on its way: of what others may change while it waits."""


@frozen
class _Unit:
    drafts: tuple[Draft, ...]
    before: tuple[Change | Late, ...]
    after: tuple[Change, ...]
    done: Deferred[tuple[Row, ...]]


class Transcript:
    """One chat's current view.  Reads show committed rows only, so nothing seen can be lost.

    `fenced` names the damage once some was met; every later read fails the same way.
    """

    def __init__(
        self,
        store: IStore,
        view_id: str,
        last_ordinal: int,
        *,
        committed: Committed,
        fenced: Damaged | None = None,
    ) -> None:
        self.view_id = view_id
        self.last_ordinal = last_ordinal
        self.fenced = fenced
        self._store = store
        self._on_committed = committed
        self._queued: list[_Unit] = []
        self._writing = False
        self._retired: GarconError | None = None
        self._unanswered: dict[int, ResendCandidate] | None = {} if last_ordinal == 0 else None

    def append(
        self,
        drafts: Sequence[Draft],
        *,
        before: Sequence[Change | Late] = (),
        after: Sequence[Change] = (),
    ) -> Deferred[tuple[Row, ...]]:
        """Add rows; fires with them once they, and the changes around them, are durable.

        A change that is `Late` is asked for at the moment of the write, and must not raise.  Fails
        with `NotStored`, or as `retired`, and then nothing was added.  Cannot be cancelled.
        """
        if self._retired is not None:
            return fail(self._retired)
        unit = _Unit(tuple(drafts), tuple(before), tuple(after), Deferred())
        self._queued.append(unit)
        if not self._writing:
            self._begin_writing()
        return unit.done

    def retire(self, why: GarconError) -> None:
        """Take no more rows, those that wait for their commit included: they fail with `why`."""
        self._retired = why
        waiting, self._queued = self._queued, []
        for unit in waiting:
            unit.done.errback(why)

    def restore(self) -> None:
        """Take rows again after all."""
        self._retired = None

    @returns_deferred
    async def page(self, limit: int, before: int | None = None) -> Page:
        """Read the page of `limit` raw rows that ends below `before`, or at the end; fails with
        `Damaged`.
        """
        last_ordinal = self.last_ordinal
        wanted = span(last_ordinal, limit, before)
        rows = await self._rows(wanted.first, wanted.last)
        with self._fencing():
            found = [displayed(self.view_id, row) for row in rows]
        messages = [shown for shown in found if shown is not None]
        oldest = messages[0].ordinal if messages else 0
        return Page(messages, last_ordinal, oldest, wanted.last, wanted.next_before)

    @returns_deferred
    async def unanswered(self) -> list[Candidate]:
        """Read the inputs that count as unanswered, oldest first; fails with `Damaged`."""
        wanted = list(await self._known_unanswered())
        found: list[Candidate] = []
        while wanted:
            first = wanted[0]
            near = [ordinal for ordinal in wanted if ordinal < first + _CHUNK]
            rows = await self._rows(first, near[-1])
            found += [
                resend.candidate(ordinal, self._input(rows[ordinal - first])) for ordinal in near
            ]
            del wanted[: len(near)]
        return found

    @returns_deferred
    async def resend_candidates(self) -> list[ResendCandidate]:
        """Return the same as readers are shown it; fails with `Damaged`."""
        return list((await self._known_unanswered()).values())

    @property
    def resend_candidates_now(self) -> list[ResendCandidate]:
        """The same at this instant.  Known from the first commit on, and before that none."""
        return list((self._unanswered or {}).values())

    @returns_deferred
    async def stretch(self, after: int, through: int) -> Stretch:
        """Read what a page of a replay may hold; fails with `Damaged`."""
        self._must_be_sound()
        with self._fencing():
            return await replay.stretch(self.view_id, self.raw, after, through)

    @returns_deferred
    async def conversation(self, without: Collection[int] = ()) -> list[HistoryMessage]:
        """Read what was said so far, for an agent that has to be told; fails with `Damaged`."""
        with self._fencing():
            return await conversation(
                lambda first, last: Deferred.fromCoroutine(self._rows(first, last)),
                self.view_id,
                self.last_ordinal,
                without,
            )

    @returns_deferred
    async def activity(self, through: int) -> tuple[str | None, str]:
        """Read the time of the last conversational row up to an ordinal, and the last text a
        preview would show; fails with `Damaged`.
        """
        at: str | None = None
        while through > 0:
            first = max(1, through - _CHUNK + 1)
            for row in reversed(await self._rows(first, through)):
                text = preview_of(row)
                if text is None:
                    continue
                at = at or row.at
                if text:
                    return at, text
            through = first - 1
        return at, ""

    @returns_deferred
    async def find(self, client_message_id: str) -> Row | None:
        """Return the row that has this message identity in the view; fails with `Damaged`."""
        self._must_be_sound()
        with self._fencing():
            return await self._store.find_message(self.view_id, client_message_id)

    def input_of(self, row: Row) -> Input:
        """Return the input that a ``user-input`` row holds; raises `Damaged`."""
        return self._input(row)

    async def _known_unanswered(self) -> dict[int, ResendCandidate]:
        while self._unanswered is None:
            last_ordinal = self.last_ordinal
            found = await self._count_back(last_ordinal)
            if last_ordinal == self.last_ordinal:
                self._unanswered = found
        return self._unanswered

    async def _count_back(self, last: int) -> dict[int, ResendCandidate]:
        found: dict[int, ResendCandidate] = {}
        while last > 0:
            first = max(1, last - _CHUNK + 1)
            rows = await self._rows(first, last)
            earlier, answered = resend.counted_back(rows)
            found = {n: self._candidate(rows[n - first]) for n in earlier} | found
            if answered:
                break
            last = first - 1
        return found

    def _candidate(self, row: Row) -> ResendCandidate:
        with self._fencing():
            return resend.shown_candidate(self.view_id, row)

    @returns_deferred
    async def raw(self, first: int, last: int, most_bytes: int) -> list[Row]:
        """Read raw rows, as far as so many bytes go; fails with `Damaged`."""
        return await self._rows(first, last, most_bytes)

    async def _rows(self, first: int, last: int, most_bytes: int | None = None) -> list[Row]:
        self._must_be_sound()
        if first > last:
            return []
        with self._fencing():
            return await self._store.read_rows(self.view_id, first, last, most_bytes)

    def _input(self, row: Row) -> Input:
        with self._fencing():
            return input_of(self.view_id, row)

    @contextmanager
    def _fencing(self) -> Iterator[None]:
        """Remember the damage that is met inside."""
        try:
            yield
        except Damaged as damage:
            self.fenced = damage
            raise

    def _must_be_sound(self) -> None:
        if self.fenced is not None:
            raise Damaged(self.view_id, self.fenced.text)

    def _begin_writing(self) -> None:
        """Write; but first learn what is unanswered, as whoever is told of the rows is told that
        too.  What cannot be read is met again by whoever needs it.
        """
        if self._unanswered is not None or self.fenced is not None:
            self._write_next()
            return
        self._writing = True
        known = Deferred.fromCoroutine(self._known_unanswered())
        known.addErrback(lambda f: None).addCallback(lambda _: self._write_next())

    def _write_next(self) -> None:
        units, self._queued = self._queued, []
        self._writing = True
        changes: list[Change] = []
        kept: list[tuple[Row, ...]] = []
        ordinal = self.last_ordinal
        for unit in units:
            rows = tuple(draft.placed(ordinal + n) for n, draft in enumerate(unit.drafts, 1))
            ordinal += len(rows)
            kept.append(rows)
            changes.extend(one() if callable(one) else one for one in unit.before)
            if rows:
                changes.append(AppendRows(self.view_id, rows))
            changes.extend(unit.after)
        self._store.write(changes).addCallbacks(
            lambda _: self._written(units, kept), lambda f: self._not_written(units, f)
        )

    def _written(self, units: list[_Unit], kept: list[tuple[Row, ...]]) -> None:
        rows = tuple(row for some in kept for row in some)
        self._writing = False
        if rows:
            self.last_ordinal = rows[-1].ordinal
            if self._unanswered is not None:
                self._unanswered = self._still_unanswered(self._unanswered, rows)
            self._on_committed(self.view_id, rows)
        for unit, some in zip(units, kept, strict=True):
            unit.done.callback(some)
        self._go_on()

    def _still_unanswered(
        self, known: dict[int, ResendCandidate], rows: Sequence[Row]
    ) -> dict[int, ResendCandidate]:
        left = resend.after(list(known), rows)
        new = {row.ordinal: row for row in rows if row.ordinal in left}
        return {n: known[n] if n in known else self._candidate(new[n]) for n in left}

    def _not_written(self, units: list[_Unit], failure: Failure) -> None:
        self._writing = False
        for unit in units:
            unit.done.errback(Failure(failure.value))
        self._go_on()

    def _go_on(self) -> None:
        if self._queued and not self._writing:
            self._write_next()
