"""One attachment of a socket: from what its executor tells of it to what the client is told (values
only; server.md C.3 to C.6).

What was kept of the output comes first, as output like any other.  It is collected until it is
known whether ``terminal-attached`` holds it; if not, that goes out without and the rest follows in
batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import define, field
from msgspec import UNSET, Struct
from twisted.internet.defer import Deferred

from garcon.contract.limits import TERMINAL_MESSAGE
from garcon.contract.terminals import (
    AttachedMessage,
    ErrorMessage,
    InputMessage,
    ReplayTruncatedMessage,
    ResizeMessage,
    StatusMessage,
    TakenOverMessage,
    Terminal,
    TerminalAttached,
    TerminalChunk,
    TerminalInfo,
    TerminatedMessage,
)
from garcon.controller.terminals import wording
from garcon.controller.terminals.wording import Id, worded
from garcon.runtime.interfaces import ITerminals

Worded = tuple[bytes, int]
"""A message, and the number that the output has come to with it; 0 for nothing new."""

_AROUND_CHUNK = 24
"""What JSON puts around one chunk of a replay, at least."""


@define(eq=False)
class Subscription:
    """One attachment.  `echo` is the client's own id of it, `attachment_id` ours."""

    terminal_id: str
    executor_id: str
    runtime_id: str
    attachment_id: str
    echo: Id
    terminals: ITerminals
    attaching: Deferred[Any] | None = None
    """Fires when it is known what became of the wish to attach; None from then on."""
    operations: deque[InputMessage | ResizeMessage] = field(factory=deque)
    """What the client asked for meanwhile."""
    operations_size: int = 0
    last: int = 0
    """The last number that came."""
    _shown: Terminal | None = None
    """As it was attached, while the client has not been told."""
    _collected: list[TerminalChunk] = field(factory=list)
    _collected_size: int = 0
    _replay_through: int = 0

    def is_meant(self, attachment_id: Id) -> bool:
        """Whether a client that names this attachment, or none, means this one."""
        return attachment_id is UNSET or attachment_id == self.echo

    def attached(self, attached: TerminalAttached) -> list[Worded]:
        """The executor has let it own the terminal."""
        self.last = attached.first_sequence - 1
        self._replay_through = attached.replay_through
        self._shown = self._show(attached.terminal)
        said: list[Worded] = []
        if attached.is_truncated:
            message = ReplayTruncatedMessage(
                terminal_id=self.terminal_id,
                first_sequence=attached.first_sequence,
                attachment_id=self.echo,
            )
            said.append((worded(message), 0))
        if attached.first_sequence > attached.replay_through:
            said += self._introduction()
        return said

    def output(self, chunks: Sequence[TerminalChunk]) -> list[Worded]:
        """The next chunks came, none of them before."""
        self.last = chunks[-1].sequence
        if chunks[0].sequence > self._replay_through:
            return self._live(chunks)
        kept = [chunk for chunk in chunks if chunk.sequence <= self._replay_through]
        said = self._replayed(kept)
        if len(kept) < len(chunks):
            said += self._live(chunks[len(kept) :])
        return said

    def changed(self, info: TerminalInfo) -> list[Worded]:
        """The terminal is another than it was."""
        return self._said(StatusMessage(terminal=self._show(info), attachment_id=self.echo))

    def taken_over(self, replacement: str) -> list[Worded]:
        """Somebody else owns it."""
        return self._said(
            TakenOverMessage(
                terminal_id=self.terminal_id,
                replacement_client_id=replacement,
                attachment_id=self.echo,
            )
        )

    def terminated(self) -> list[Worded]:
        """There is no such terminal any more."""
        return self._said(TerminatedMessage(terminal_id=self.terminal_id, attachment_id=self.echo))

    def failed(self, code: str, text: str) -> list[Worded]:
        """Something went wrong with it."""
        return self._said(
            ErrorMessage(
                code=code, message=text, terminal_id=self.terminal_id, attachment_id=self.echo
            )
        )

    def _said(self, message: Struct) -> list[Worded]:
        said = [] if self._shown is None else self._introduction()
        said.append((worded(message), 0))
        return said

    def _show(self, info: TerminalInfo) -> Terminal:
        return info.shown(self.executor_id, self.runtime_id)

    # -- the replay

    def _replayed(self, chunks: list[TerminalChunk]) -> list[Worded]:
        if self._shown is None:
            return list(self._batches(chunks))
        self._collected += chunks
        self._collected_size += sum(len(chunk.data) + _AROUND_CHUNK for chunk in chunks)
        is_whole = self._collected[-1].sequence >= self._replay_through
        if is_whole or self._collected_size > TERMINAL_MESSAGE:
            return self._introduction(is_whole=is_whole)
        return []

    def _introduction(self, *, is_whole: bool = False) -> list[Worded]:
        """Tell that it is attached, with the whole replay where that is small."""
        assert self._shown is not None
        terminal, chunks = self._shown, self._collected
        self._shown, self._collected, self._collected_size = None, [], 0
        if is_whole:
            message = AttachedMessage(terminal=terminal, replay=chunks, attachment_id=self.echo)
            text = worded(message)
            if len(text) <= TERMINAL_MESSAGE:
                return [(text, chunks[-1].sequence)]
        empty = AttachedMessage(terminal=terminal, replay=[], attachment_id=self.echo)
        return [(worded(empty), 0), *self._batches(chunks)]

    def _batches(self, chunks: Sequence[TerminalChunk]) -> Iterator[Worded]:
        return wording.batches(self.terminal_id, chunks, self.echo)

    def _live(self, chunks: Sequence[TerminalChunk]) -> list[Worded]:
        return [
            (text, chunk.sequence)
            for chunk in chunks
            for text in wording.output(self.terminal_id, chunk, self.echo)
        ]
