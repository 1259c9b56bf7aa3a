"""Messages of terminals as JSON that is never larger than a message may be (values only; server.md
C.6).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct, UnsetType

from garcon.contract.limits import TERMINAL_FRAGMENT, TERMINAL_MESSAGE
from garcon.contract.terminals import (
    EncodedChunk,
    OutputFragmentMessage,
    OutputMessage,
    ReplayBatchMessage,
    TerminalChunk,
)

Id = str | UnsetType

_encode = msgspec.json.Encoder().encode
_AROUND_CHUNK = 64
"""What JSON puts around one encoded chunk of a batch, at most."""


def worded(message: Struct) -> bytes:
    """Return a message that is small enough as it is."""
    return _encode(message)


def output(terminal_id: str, chunk: TerminalChunk, attachment_id: Id) -> list[bytes]:
    """Return a chunk as one message, or as fragments where that would be too large."""
    text = _encode(
        OutputMessage(
            terminal_id=terminal_id,
            sequence=chunk.sequence,
            data=chunk.data,
            attachment_id=attachment_id,
        )
    )
    if len(text) <= TERMINAL_MESSAGE:
        return [text]
    return list(_fragments(terminal_id, chunk.sequence, _base64(chunk), attachment_id))


def batches(
    terminal_id: str, chunks: Iterable[TerminalChunk], attachment_id: Id
) -> Iterator[tuple[bytes, int]]:
    """Return chunks of a replay in as few messages as they need, in order, each with the last
    number in it.
    """
    empty = ReplayBatchMessage(terminal_id=terminal_id, chunks=[], attachment_id=attachment_id)
    room = TERMINAL_MESSAGE - len(_encode(empty))
    batch: list[EncodedChunk] = []
    size = 0
    for chunk in chunks:
        data = _base64(chunk)
        cost = len(data) + _AROUND_CHUNK
        if batch and size + cost > room:
            yield _batch(terminal_id, batch, attachment_id), batch[-1].sequence
            batch, size = [], 0
        if cost > room:
            for text in _fragments(terminal_id, chunk.sequence, data, attachment_id):
                yield text, chunk.sequence
            continue
        batch.append(EncodedChunk(sequence=chunk.sequence, data_base64=data))
        size += cost
    if batch:
        yield _batch(terminal_id, batch, attachment_id), batch[-1].sequence


def _batch(terminal_id: str, batch: Sequence[EncodedChunk], attachment_id: Id) -> bytes:
    return _encode(
        ReplayBatchMessage(terminal_id=terminal_id, chunks=list(batch), attachment_id=attachment_id)
    )


def _fragments(terminal_id: str, sequence: int, data: str, attachment_id: Id) -> Iterator[bytes]:
    count = -(-len(data) // TERMINAL_FRAGMENT)
    for index in range(count):
        yield _encode(
            OutputFragmentMessage(
                terminal_id=terminal_id,
                sequence=sequence,
                fragment_index=index,
                fragment_count=count,
                data_base64=data[index * TERMINAL_FRAGMENT : (index + 1) * TERMINAL_FRAGMENT],
                attachment_id=attachment_id,
            )
        )


def _base64(chunk: TerminalChunk) -> str:
    return b64encode(chunk.data.encode("utf-8", "replace")).decode("ascii")
