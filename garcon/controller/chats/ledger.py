"""The command ledger: which commands this process has seen, so that each has one effect (chats.md
2.3).

In memory only: after a restart it is empty, and the message identities of the transcript take over.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal

import msgspec
from attrs import define, field
from msgspec import UNSET

from garcon.contract.limits import LEDGER_TERMINAL
from garcon.errors import GarconError, LimitExceeded

State = Literal["accepted", "scheduled", "running", "finished", "failed", "rejected"]
_TERMINAL = frozenset({"finished", "failed", "rejected"})

Key = tuple[str, str, str]

STEER = "steer"
STEERS = 10_000
"""Steers that one process takes.  None is ever forgotten, so that none is delivered twice."""


@define(eq=False)
class Record:
    """One command.  `answer` is what a replay repeats of its first answer, `error` how it
    failed.
    """

    command_type: str
    chat_id: str
    request_id: str
    fingerprint: bytes
    accepted_at: str
    turn_id: str | None = None
    state: State = "accepted"
    answer: Any = None
    error: GarconError | None = None

    @property
    def key(self) -> Key:
        return (self.command_type, self.chat_id, self.request_id)

    @property
    def is_terminal(self) -> bool:
        return self.state in _TERMINAL


@define(eq=False)
class Ledger:
    """All commands of this process; terminal ones beyond a thousand are forgotten, oldest first."""

    _records: dict[Key, Record] = field(factory=dict)
    _types: dict[tuple[str, str], str] = field(factory=dict)
    _settled: OrderedDict[Key, None] = field(factory=OrderedDict)
    _steers: int = 0

    def replayed(
        self, command_type: str, chat_id: str, request_id: str, fingerprint: bytes
    ) -> Record | None:
        """Return the record of the same command, None for a new one; another command under its id
        is a conflict.
        """
        known = self._types.get((chat_id, request_id))
        if known is None:
            return None
        if known != command_type:
            raise conflict("The request id was used for another kind of command.")
        record = self._records[command_type, chat_id, request_id]
        if record.fingerprint != fingerprint:
            raise conflict("The request id was used for a command with other content.")
        return record

    def accept(
        self,
        command_type: str,
        chat_id: str,
        request_id: str,
        fingerprint: bytes,
        at: str,
        turn_id: str | None = None,
    ) -> Record:
        """Record a new command; ``STEER_CAPACITY_EXHAUSTED`` (503) for a steer too many."""
        if command_type == STEER:
            if self._steers >= STEERS:
                text = f"This controller has taken {STEERS} steers; restart it to take more."
                raise LimitExceeded("STEER_CAPACITY_EXHAUSTED", text, status=503)
            self._steers += 1
        record = Record(command_type, chat_id, request_id, fingerprint, at, turn_id)
        assert record.key not in self._records, "a command is accepted once"
        self._records[record.key] = record
        self._types[chat_id, request_id] = command_type
        return record

    def settle(
        self, record: Record, state: Literal["finished", "failed", "rejected"], answer: Any = None
    ) -> None:
        """A command has ended; it stays known for as long as there is room."""
        record.state = state
        record.answer = answer
        if record.key not in self._records:
            return
        self._settled[record.key] = None
        while len(self._settled) > LEDGER_TERMINAL:
            oldest, _ = self._settled.popitem(last=False)
            self._drop(oldest)

    def fail(self, record: Record, error: Exception) -> None:
        """A command failed before it had any effect: one that may be tried again is forgotten.

        That is also one which met a bug of ours: its caller is told so, and nothing was begun.
        """
        record.error = error if isinstance(error, GarconError) else None
        if record.error is None or record.error.retryable:
            self._settled.pop(record.key, None)
            self._drop(record.key)
        else:
            self.settle(record, "rejected")

    def _drop(self, key: Key) -> None:
        if key[0] == STEER:
            return
        self._records.pop(key, None)
        self._types.pop((key[1], key[2]), None)


def failed_again(error: GarconError) -> GarconError:
    """Return the error of a command that failed, for one more caller."""
    return GarconError(
        error.code,
        error.text,
        status=error.status,
        retryable=error.retryable,
        details=error.details,
        extra=dict(error.extra),
    )


def conflict(text: str) -> GarconError:
    """``IDEMPOTENCY_CONFLICT``: an identity was used again with other content."""
    return GarconError("IDEMPOTENCY_CONFLICT", text, status=409)


def fingerprint(fields: Mapping[str, Any]) -> bytes:
    """Digest what makes a command the same one: key order and absent keys do not matter."""
    said = {name: value for name, value in fields.items() if value is not UNSET}
    return sha256(msgspec.json.encode(said, order="deterministic")).digest()


def digested(images: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """Return attachments with their base64 body replaced by its digest and length."""
    return [_digested(image) for image in images or ()]


def _digested(image: Mapping[str, Any]) -> dict[str, Any]:
    data = image.get("data")
    if not isinstance(data, str):
        return dict(image)
    head, comma, body = data.partition(",")
    digest = sha256(body.encode()).hexdigest()
    return {**image, "data": [head + comma, digest, len(body)]}
