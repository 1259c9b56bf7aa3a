"""What a controller says of terminals, judged by somebody else: every message with exactly its
fields, in an order that leaves out nothing (server.md C.1, C.3 to C.7).
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from attrs import define, field

from garcon.testing.foreign_rules import (
    Shape,
    check,
    count,
    iso,
    maybe,
    need,
    positive,
    string,
    text,
)

Message = dict[str, Any]
Key = tuple[str, str | None]
"""A terminal, and the client's own id of an attachment to it."""

LARGEST, FRAGMENT = 65_536, 49_152
_BEGINNINGS = {"terminal-attach", "terminal-input", "terminal-resize", "terminal-detach"}
_CODES = {
    *("terminal-not-found", "terminal-limit", "terminal-validation", "terminal-unavailable"),
    *("terminal-takeover-required", "terminal-not-attached", "terminal-process-exited"),
    *("terminal-replay-sequence", "terminal-backpressure", "terminal-auth-expired"),
    *("terminal-internal", "terminal-unsupported", "terminal-outcome-unknown"),
    *("terminal-runtime-changed",),
}
_ENDS = {"terminal-unavailable", "terminal-backpressure", "terminal-auth-expired"}


def _name(value: Any) -> bool:
    return text(value) and len(value.encode()) <= 256


def _base64(value: Any) -> bool:
    if not isinstance(value, str) or len(value) % 4:
        return False
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error:
        return False
    return True


def _fragment(value: Any) -> bool:
    return _base64(value) and len(value) <= FRAGMENT


def _title(value: Any) -> bool:
    return text(value) and value == value.strip() and len(value) <= 120


TERMINAL: dict[str, Shape] = {
    "terminalId": _name,
    "displaySequence": positive,
    "title": maybe(_title),
    "initialWorkingDirectory": text,
    "processStatus": {"running", "exited"},
    "attachmentStatus": {"attached", "detached"},
    "createdAt": iso,
    "exitCode": maybe(count),
    "latestOutputSequence": count,
}
"""One terminal, of the routes as well."""

_SAID: dict[str, dict[str, Shape]] = {
    "terminal-attached": {
        "terminal": TERMINAL,
        "replay": [{"sequence": positive, "data": string}],
    },
    "terminal-output": {"terminalId": _name, "sequence": positive, "data": string},
    "terminal-replay-batch": {
        "terminalId": _name,
        "chunks": [{"sequence": positive, "dataBase64": _base64}],
    },
    "terminal-output-fragment": {
        "terminalId": _name,
        "sequence": positive,
        "fragmentIndex": count,
        "fragmentCount": positive,
        "dataBase64": _fragment,
    },
    "terminal-status": {"terminal": TERMINAL},
    "terminal-taken-over": {"terminalId": _name, "replacementClientId": _name},
    "terminal-terminated": {"terminalId": _name},
    "terminal-replay-truncated": {"terminalId": _name, "firstSequence": positive},
    "terminal-error": {"terminalId?": _name, "code": _CODES, "message": text},
}


def check_terminal(value: Any) -> None:
    """Raise `Malformed` unless something is a terminal with exactly its fields."""
    check(value, TERMINAL, "terminal")
    need(set(value) == set(TERMINAL), value, "no further fields")
    need((value["processStatus"] == "running") == (value["exitCode"] is None), value, "exit code")


@define(eq=False)
class TerminalJudgement:
    """What one socket has asked and heard of terminals; `texts` and `last` are what a client would
    show of each and the number that it has come to.
    """

    texts: dict[str, str] = field(factory=dict)
    last: dict[str, int] = field(factory=dict)
    is_used: bool = False
    _wished: set[Key] = field(factory=set)
    _named: set[Key] = field(factory=set)
    _attached: set[Key] = field(factory=set)
    _over: set[Key] = field(factory=set)
    _fragments: dict[Key, list[str]] = field(factory=dict)
    _reached: dict[Key, int] = field(factory=dict)
    _current: dict[str, Key] = field(factory=dict)
    """What still comes of an attachment before is not shown."""
    _has_expired: bool = False

    def asked(self, message: Any) -> None:
        """The client said something."""
        kind = message.get("type")
        if kind not in _BEGINNINGS:
            return
        self.is_used = True
        name, attachment = message.get("terminalId"), message.get("attachmentId")
        self._named.add((name, attachment))
        if kind == "terminal-attach":
            self._wished.add((name, attachment))
            self._over.discard((name, attachment))
            self._attached.discard((name, attachment))
            self._fragments.pop((name, attachment), None)
            self._current[name] = (name, attachment)
            self._reach((name, attachment), message.get("afterSequence", 0))

    def _reach(self, key: Key, sequence: int) -> None:
        self._reached[key] = sequence
        if self._current[key[0]] == key:
            self.last[key[0]] = sequence

    def heard(self, raw: bytes, said: Message) -> None:
        """Take a message of terminals; raises `Malformed`."""
        kind = said.get("type")
        need(self.is_used, said, "a socket that has used terminals")
        need(not self._has_expired, said, "nothing after the end of the authority")
        need(kind in _SAID, said, "a known type")
        need(len(raw) <= LARGEST, said, "a message of at most 65,536 bytes")
        shape = _SAID[str(kind)]
        check(said, {**shape, "attachmentId?": _name}, str(kind))
        fields = {one.removesuffix("?") for one in shape} | {"type", "attachmentId"}
        need(set(said) <= fields, said, "no further fields")
        if "terminal" in said:
            check_terminal(said["terminal"])
        name = said.get("terminalId") or said.get("terminal", {}).get("terminalId")
        if name is None:
            need("attachmentId" not in said, said, "an attachment of a terminal")
            self._has_expired = said["code"] == "terminal-auth-expired"
            return
        key = (name, said.get("attachmentId"))
        need(key in self._named, said, "an attachment that the client has named")
        if kind != "terminal-error":
            need(key in self._wished, said, "an attachment that was wished for")
            need(key not in self._over, said, "nothing of an attachment that is over")
        self._relations(str(kind), key, said)

    def _relations(self, kind: str, key: Key, said: Message) -> None:
        match kind:
            case "terminal-replay-truncated":
                need(key not in self._attached, said, "before it is attached")
                first = said["firstSequence"]
                need(first > self._reached[key] + 1, said, "something is left out")
                self._reach(key, first - 1)
            case "terminal-attached":
                need(key not in self._attached, said, "attached once")
                self._attached.add(key)
                self.texts.setdefault(key[0], "")
                for chunk in said["replay"]:
                    self._chunk(key, chunk["sequence"], chunk["data"], said)
            case "terminal-output":
                self._chunk(key, said["sequence"], said["data"], said)
            case "terminal-replay-batch":
                need(said["chunks"], said, "some chunks")
                for chunk in said["chunks"]:
                    data = base64.b64decode(chunk["dataBase64"]).decode()
                    self._chunk(key, chunk["sequence"], data, said)
            case "terminal-output-fragment":
                self._fragment(key, said)
            case "terminal-terminated":
                self._over.add(key)
            case "terminal-error":
                if said["code"] in _ENDS:
                    self._over.add(key)

    def _chunk(self, key: Key, sequence: int, data: str, said: Message) -> None:
        need(key in self._attached, said, "output of what is attached")
        need(key not in self._fragments, said, "no other chunk between fragments")
        need(sequence == self._reached[key] + 1, said, f"the one after {self._reached[key]}")
        self._reach(key, sequence)
        if self._current[key[0]] == key:
            self.texts[key[0]] += data

    def _fragment(self, key: Key, said: Message) -> None:
        parts = self._fragments.setdefault(key, [])
        need(said["fragmentIndex"] == len(parts), said, "fragments in order")
        parts.append(said["dataBase64"])
        need(len(parts) <= said["fragmentCount"], said, "no fragment too many")
        if len(parts) == said["fragmentCount"]:
            del self._fragments[key]
            data = base64.b64decode("".join(parts)).decode()
            self._chunk(key, said["sequence"], data, said)
