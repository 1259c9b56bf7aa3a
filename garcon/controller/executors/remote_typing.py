"""What is typed into a worker's terminal, on its way there.

It leaves in one order, in pieces that keep their place on the link, a few at a time.  Each is
numbered, and the worker refuses what follows a piece that it refused: after the first refusal
nothing more is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import define, field
from msgspec import Struct
from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure

from garcon.contract import rpc
from garcon.contract.limits import KIB, TERMINAL_INPUT
from garcon.contract.terminals import (
    PROCESS_EXITED,
    VALIDATION,
    TerminalInput,
    TerminalResize,
    TerminalSize,
    terminal_error,
)
from garcon.errors import CallError, GarconError
from garcon.link.calls import EXECUTOR_BUSY
from garcon.runtime.terminals.operations import Operation, Operations
from garcon.runtime.terminals.text import pieces

PIECE = 24 * KIB
"""One input as JSON: a larger one might be overtaken on the link."""
SHORT = PIECE // 6
"""Bytes that fit into one piece whatever they are, as keys do: no character takes more than six."""
UNDER_WAY = 8
"""Pieces that were sent and not answered."""


@define(eq=False)
class _Piece:
    """A part of an operation."""

    content: str | TerminalSize
    operation: Operation
    is_last: bool


@define(eq=False)
class Typing:
    """One attachment's operations.  `again` asks for a `send` in a moment, `broken` hears of a
    refusal that is no answer of the terminal's.
    """

    _attachment_id: str
    _call: Callable[[rpc.Method, Struct], Deferred[Any]]
    _translate: Callable[[BaseException], GarconError]
    _again: Callable[[], None]
    _broken: Callable[[GarconError], None]
    _operations: Operations = field(factory=Operations)
    _pieces: deque[_Piece] = field(factory=deque)
    """Of the operation that is being sent."""
    _unanswered: dict[Deferred[None], None] = field(factory=dict)
    _under_way: int = 0
    _sent: int = 0
    _refusal: GarconError | None = None

    def type(self, data: str) -> Deferred[None]:
        """See `ITerminals.input`."""
        encoded = data.encode("utf-8", "replace")
        if len(encoded) > TERMINAL_INPUT:
            text = f"One input may have {TERMINAL_INPUT} bytes; nothing of it was typed."
            return fail(terminal_error(VALIDATION, text))
        if self._refusal is not None:
            return fail(self._refusal)
        if len(encoded) <= SHORT and self._is_idle:
            d: Deferred[None] = Deferred(self._forget)
            self._unanswered[d] = None
            operation = Operation(0, data=encoded, tickets=[d])
            self._pieces.append(_Piece(encoded.decode(), operation, True))
            self.send()
            return d
        return self._add(lambda d: self._operations.type(0, encoded, d))

    @property
    def _is_idle(self) -> bool:
        """Whether nothing waits, so that what is typed now is the next piece."""
        return not self._pieces and not self._operations and self._under_way < UNDER_WAY

    def resize(self, size: TerminalSize) -> Deferred[None]:
        """See `ITerminals.resize`."""
        if self._refusal is not None:
            has_exited = self._refusal.code == PROCESS_EXITED
            return succeed(None) if has_exited else fail(self._refusal)
        return self._add(lambda d: self._operations.resize(0, size, d))

    def _add(self, add: Callable[[Deferred[None]], None]) -> Deferred[None]:
        d: Deferred[None] = Deferred(self._forget)
        try:
            add(d)
        except GarconError as error:
            return fail(error)
        self._unanswered[d] = None
        self.send()
        return d

    def _forget(self, d: Deferred[None]) -> None:
        self._unanswered.pop(d, None)

    def send(self) -> None:
        """Send what waits, as far as it may be under way at once."""
        while self._refusal is None and self._under_way < UNDER_WAY:
            piece = self._next()
            if piece is None:
                return
            # Sending may be what ends the session, and this with it.
            self._pieces.popleft()
            self._sent += 1
            self._under_way += 1
            d = self._call(self._method(piece), self._request(piece))
            if _is_busy(d) and self._refusal is None:
                # The link takes nothing more for now; so nothing was sent.
                d.addErrback(lambda _: None)
                self._pieces.appendleft(piece)
                self._sent -= 1
                self._under_way -= 1
                self._again()
                return
            d.addBoth(self._answered, piece)

    def _next(self) -> _Piece | None:
        if not self._pieces:
            operation = self._operations.next()
            if operation is None:
                return None
            self._pieces.extend(_cut(operation))
        return self._pieces[0]

    def _method(self, piece: _Piece) -> rpc.Method:
        return rpc.TERMINAL_INPUT if isinstance(piece.content, str) else rpc.RESIZE_TERMINAL

    def _request(self, piece: _Piece) -> Struct:
        content, name = piece.content, self._attachment_id
        if isinstance(content, str):
            return TerminalInput(attachment_id=name, number=self._sent, data=content)
        return TerminalResize(attachment_id=name, number=self._sent, size=content)

    def _answered(self, result: Any, piece: _Piece) -> None:
        self._under_way -= 1
        if self._refusal is not None:
            return
        if isinstance(result, Failure):
            assert result.value is not None
            self._refused(result.value, piece.operation)
            return
        if piece.is_last:
            self._settle(piece.operation, None)
        self.send()

    def _refused(self, reason: BaseException, operation: Operation) -> None:
        error = self._translate(reason)
        is_own = isinstance(reason, CallError) and reason.domain == "terminal"
        self._refusal = error
        self._settle(operation, error)
        while is_own and (waiting := self._operations.next()) is not None:
            is_moot = waiting.data is None and error.code == PROCESS_EXITED
            self._settle(waiting, None if is_moot else error)
        self._drop()
        if not is_own:
            self._broken(error)

    def close(self, refusal: GarconError) -> None:
        """Send nothing more: the terminal is not had any more.  What waits is dropped."""
        if self._refusal is None:
            self._refusal = refusal
        self._drop()

    def _drop(self) -> None:
        self._pieces.clear()
        self._operations.drop(lambda _: True)
        unanswered, self._unanswered = self._unanswered, {}
        for d in unanswered:
            d.callback(None)

    def _settle(self, operation: Operation, error: GarconError | None) -> None:
        for d in operation.tickets:
            if d not in self._unanswered:
                continue
            del self._unanswered[d]
            if error is None:
                d.callback(None)
            else:
                d.errback(error)


def _cut(operation: Operation) -> list[_Piece]:
    if operation.data is None:
        assert operation.size is not None
        return [_Piece(operation.size, operation, True)]
    texts = [text for text, _ in pieces(operation.data.decode("utf-8"), PIECE)] or [""]
    last = len(texts) - 1
    return [_Piece(text, operation, place == last) for place, text in enumerate(texts)]


def _is_busy(d: Deferred[Any]) -> bool:
    """Whether a call has failed at once, for want of room on the link."""
    result = getattr(d, "result", None) if d.called else None
    return (
        isinstance(result, Failure)
        and isinstance(result.value, CallError)
        and result.value.code == EXECUTOR_BUSY
    )
