"""Hostile input for everything that decodes what a peer sends: records, WebSocket frames,
fragments, hellos, frames, and the requests and results of the methods.

A target refuses an input in the one way that it has for that, or takes it; anything else is a
`Surprise` that carries what is needed to see it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from attrs import frozen

from garcon.contract.connection_url import secret_bytes
from garcon.contract.limits import FRAGMENT, KIB
from garcon.contract.messages import AssistantMessage
from garcon.contract.rpc import METHODS, Lane, ProducerFrame, produced
from garcon.contract.runs import LaunchSettled, RelayedEvent, RowProduced, RunEnded
from garcon.contract.terminals import (
    TerminalChunk,
    TerminalDetach,
    TerminalNotification,
    TerminalOutput,
)
from garcon.errors import BadMessage
from garcon.link import frames
from garcon.link.causes import safe_notice
from garcon.link.fragments import LAST, MORE, WHOLE, Joiner
from garcon.link.framing import begins, framed, unframed
from garcon.link.handshake import Answering, Dialling, Mine, Refused, Terms, parse, version_told
from garcon.link.noise import Cipher, HandshakeFailed

SECRET = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
EXECUTOR = "7b1b8b3e-6a53-4f0e-9d5e-000000000001"
CALL = "c1de4c62-9c2d-4d0c-8f0a-000000000020"
SESSION = "c1de4c62-9c2d-4d0c-8f0a-000000000010"
VECTORS = Path(__file__).parents[2] / "test" / "link" / "vectors" / "wire.json"

_TOKENS = (
    *(b"null", b"true", b"[]", b"{}", b'""', b"0", b"-1", b"1e999", b"NaN", b"Infinity", b"-"),
    *(b"9" * 30, b"9" * 5_000, b"0.1", b"1E400", b"00", b'"\\ud800"', b'"\\u0000"', b"\\", b'"'),
    *(b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x00", b"\r\n\r\n"),
    *(b"[" * 3_000, b'{"a":' * 3_000, b"," * 50, b"]", b"}", b'"type":"ping"', b'"seq":1'),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31, 2**63, 2**64, 10**40, 1.5, 1e308, "", "x" * 300, "\0", "\ud7ff"),
    *([], {}, [[]], [None] * 1_100, {"type": "request"}, {"": ""}, CALL, "request", "primary"),
)


class Surprise(Exception):
    """A target did something else with an input than it may."""


@frozen
class Target:
    """One decoder: what it usually gets, and how it says no."""

    name: str
    samples: tuple[bytes, ...]
    take: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]


class Mutator:
    """Makes hostile inputs from sound ones by chance."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def mutated(self, samples: tuple[bytes, ...]) -> bytes:
        """Return an input made from one of the samples, or from nothing."""
        chance = self._chance
        if chance.random() < 0.03:
            return chance.randbytes(chance.randrange(200))
        text = chance.choice(samples)
        if chance.random() < 0.3:
            text = self._other_value(text)
        for _ in range(chance.choice((0, 1, 1, 1, 2, 5))):
            text = self._changed(text, samples)
        return text

    def _changed(self, text: bytes, samples: tuple[bytes, ...]) -> bytes:
        chance = self._chance
        at = chance.randrange(len(text) + 1)
        end = min(len(text), at + chance.choice((1, 1, 2, 8, 100)))
        match chance.randrange(8):
            case 0 if text:
                at = min(at, len(text) - 1)
                return text[:at] + bytes([text[at] ^ (1 << chance.randrange(8))]) + text[at + 1 :]
            case 1:
                return text[:at] + text[end:]
            case 2:
                return text[:end] + text[at:]
            case 3:
                return text[:at]
            case 4:
                return text[:at] + chance.choice(_TOKENS) + text[end:]
            case 5:
                return text[:at] + chance.randbytes(chance.randrange(1, 9)) + text[at:]
            case 6:
                other = chance.choice(samples)
                return text[:at] + other[chance.randrange(len(other) + 1) :]
            case _:
                return text[:at] + text[at:end] * chance.choice((2, 30, 500)) + text[end:]

    def _other_value(self, text: bytes) -> bytes:
        """Change one value of a JSON text, or leave what is none."""
        try:
            value = json.loads(text)
        except ValueError:
            return text
        return json.dumps(self._altered(value)).encode("utf-8", "surrogatepass")

    def _altered(self, value: Any) -> Any:
        chance = self._chance
        if isinstance(value, dict) and value and chance.random() < 0.85:
            name = chance.choice(list(value))
            match chance.randrange(6):
                case 0:
                    return {k: v for k, v in value.items() if k != name}
                case 1:
                    return {**value, chance.choice(("more", "type", "id", name + "s")): value[name]}
                case _:
                    return {**value, name: self._altered(value[name])}
        if isinstance(value, list) and value and chance.random() < 0.7:
            at = chance.randrange(len(value))
            return [*value[:at], self._altered(value[at]), *value[at + 1 :]]
        return chance.choice(_VALUES)


def attack(target: Target, chance: Random, count: int) -> int:
    """Give a target so many inputs; return how many it took.  Raises `Surprise`."""
    mutator, taken = Mutator(chance), 0
    for number in range(count):
        text = mutator.mutated(target.samples)
        try:
            target.take(text)
        except target.refusals:
            continue
        except Exception as error:
            raise Surprise(
                f"{target.name}: input {number} broke it with {error!r}: {text[:2000]!r}"
            ) from error
        taken += 1
    return taken


def targets() -> list[Target]:
    """Return every decoder there is."""
    golden = json.loads(VECTORS.read_text())
    hellos = tuple(text.encode() for shake in golden["handshakes"] for text in shake["texts"])
    return [
        Target("noise", _handshakes(golden), _take_noise, (HandshakeFailed,)),
        Target("records", _records(golden), _Records().take, (HandshakeFailed,)),
        Target("websocket", _websocket(), _take_websocket, ()),
        Target("fragments", _fragments(), _Fragments().take, (BadMessage,)),
        Target("hellos", hellos, parse, (Refused,)),
        Target("answering", hellos, _take_answering, (Refused,)),
        Target("dialling", hellos, _take_dialling, (Refused,)),
        Target("frames", sound_frames(), _take_frame, (BadMessage,)),
        Target("notices", (b"one side is version 1 and the other is not",), _take_notice, ()),
        *_methods(),
        Target(
            "producer frames",
            (msgspec.json.encode(_row()),),
            partial(msgspec.json.decode, type=ProducerFrame),
            _MSGSPEC,
        ),
        Target(
            "terminal events",
            (msgspec.json.encode(_output()),),
            partial(msgspec.json.decode, type=TerminalNotification),
            _MSGSPEC,
        ),
        Target(
            "events",
            tuple(msgspec.json.encode(event) for event in _events()),
            partial(msgspec.json.decode, type=RelayedEvent),
            _MSGSPEC,
        ),
    ]


_MSGSPEC = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What the link catches where it decodes a payload."""


def _row() -> ProducerFrame:
    message = AssistantMessage(timestamp="2026-01-02T03:04:05.678Z", content="text")
    return produced("binding", RowProduced(message=message))


def _output() -> TerminalNotification:
    chunks = [TerminalChunk(sequence=n, data="$ ls\r\n") for n in (1, 2)]
    return TerminalNotification(attachment_id="a", event=TerminalOutput(chunks=chunks))


def _events() -> Iterable[Any]:
    yield RowProduced(
        message=AssistantMessage(timestamp="2026-01-02T03:04:05.678Z", content="text")
    )
    yield RunEnded(outcome="finished")
    yield LaunchSettled(run_id="run")


def sound_frames() -> tuple[bytes, ...]:
    """Return one of every frame."""
    error = frames.ErrorObject(code="C", message="m", retryable=False, outcome="unknown")
    large = b'{"text":"%b"}' % (b"x" * 70 * KIB)
    return (
        frames.numbered(frames.request_head(CALL, "executor.describe", "", b"{}"), 1),
        frames.numbered(frames.request_head(CALL, "catalog.snapshot", "i", large), 2),
        frames.result(CALL, b'{"text":"hello"}'),
        frames.result(CALL, large),
        frames.encode(frames.Error(id=CALL, error=error)),
        frames.encode(frames.Cancel(id=CALL)),
        frames.producer(1, msgspec.json.encode(_row())),
        frames.encode(frames.ProducerAck(acknowledgements=[frames.Acknowledgement("b", 1)])),
        frames.encode(frames.ReplyAck([CALL] * 3)),
        frames.terminal(msgspec.json.encode(_output())),
        frames.encode(frames.TerminalDetach(request=TerminalDetach(attachment_id="a"))),
        frames.encode(frames.TerminalTaken(taken=[frames.Taken("a", 1)] * 3)),
        *(
            frames.encode(kind(SESSION))
            for kind in (
                *(frames.BulkPrepare, frames.BulkPrepared, frames.BulkConnect),
                *(frames.BulkActivate, frames.BulkActive, frames.BulkLost),
            )
        ),
        frames.PING,
        frames.PONG,
        frames.encode(frames.Close(kind="local-close", text="bye")),
    )


def _take_frame(text: bytes) -> None:
    """A frame that was taken can be looked at, and its payload decoded."""
    frame = frames.decode(memoryview(text))
    payload = None
    match frame:
        case frames.Request():
            payload = frame.request
        case frames.Result():
            payload = frame.value
        case frames.Terminal():
            payload = frame.notification
    if payload is not None:
        try:
            msgspec.json.decode(payload)
        except _MSGSPEC:
            raise BadMessage("its receiver refuses the payload") from None


def _methods() -> Iterable[Target]:
    for method in METHODS.values():
        for kind, name in ((method.request, "request"), (method.result, "result")):
            if kind is not None:
                sample = msgspec.json.encode(sound(kind))
                # A sample that is not sound would prove less.
                msgspec.json.decode(sample, type=kind)
                yield Target(
                    f"{name} of {method.name}",
                    (sample, b"{}"),
                    partial(msgspec.json.decode, type=kind),
                    _MSGSPEC,
                )


def sound(kind: Any) -> Any:
    """Return a value of a type of ours, as JSON would hold it."""
    return _sound(msgspec.inspect.type_info(kind))


def _sound(info: Any) -> Any:
    match info:
        case msgspec.inspect.StructType():
            tag = {} if info.tag_field is None else {info.tag_field: info.tag}
            return tag | {field.encode_name: _sound(field.type) for field in info.fields}
        case msgspec.inspect.UnionType():
            return _sound(max(info.types, key=lambda one: not _is_nothing(one)))
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            return [_sound(info.item_type)]
        case msgspec.inspect.TupleType():
            return [_sound(item) for item in info.item_types]
        case msgspec.inspect.DictType():
            return {"key": _sound(info.value_type)}
        case msgspec.inspect.AnyType() | msgspec.inspect.RawType():
            return {"key": 1}
        case msgspec.inspect.LiteralType():
            return info.values[0]
        case msgspec.inspect.EnumType():
            return next(iter(info.cls)).value
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.IntType(ge=least) if least is not None:
            return least
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return max(1, info.ge or 0)
        case msgspec.inspect.StrType():
            return "text"
        case msgspec.inspect.BytesType():
            return "dGV4dA=="
        case _:
            return None


def _is_nothing(info: Any) -> bool:
    return isinstance(info, msgspec.inspect.NoneType)


def _handshakes(golden: Any) -> tuple[bytes, ...]:
    return tuple(bytes.fromhex(shake["messages"][0]) for shake in golden["handshakes"])


def _take_noise(text: bytes) -> None:
    Cipher(secret_bytes(SECRET), initiator=False).read_handshake(text)


def _records(golden: Any) -> tuple[bytes, ...]:
    return tuple(bytes.fromhex(text) for shake in golden["handshakes"] for text in shake["records"])


class _Records:
    """One channel that is never broken by what does not open."""

    def __init__(self) -> None:
        psk = secret_bytes(SECRET)
        self._one = Cipher(psk, initiator=True)
        self._other = Cipher(psk, initiator=False)
        self._other.read_handshake(self._one.write_handshake())
        self._one.read_handshake(self._other.write_handshake())

    def take(self, text: bytes) -> None:
        """Nothing that the other side has not sealed opens; what it has, does."""
        try:
            self._other.open(text)
        except HandshakeFailed:
            if self._other.open(self._one.seal(b"still")) != b"still":
                raise Surprise("the channel was broken") from None
            raise
        raise Surprise("a forged record was opened")


def _websocket() -> tuple[bytes, ...]:
    return tuple(
        framed(b"r" * size, masks) for size in (1, 125, 126, 300, 65_535) for masks in (True, False)
    )


def _take_websocket(text: bytes) -> None:
    for masked in (True, False):
        if text:
            begins(text, 0, masked)
            unframed(text, 0, masked)


def _fragments() -> tuple[bytes, ...]:
    return (MORE + bytes(FRAGMENT), LAST + b"end", WHOLE + b"{}", LAST + bytes(FRAGMENT))


class _Fragments:
    """One connection after the other; each ends with its first refusal."""

    largest = 8 * FRAGMENT

    def __init__(self) -> None:
        self._joiner = Joiner(self.largest)

    def take(self, text: bytes) -> None:
        try:
            taken = self._joiner.take(text)
        except BadMessage:
            self._joiner = Joiner(self.largest)
            raise
        if taken is not None and len(taken[0]) > self.largest:
            raise Surprise("a message is larger than may be")


def _mine(role: Any) -> Mine:
    return Mine(role, EXECUTOR, f"{role}-runtime", SECRET, "1.0.0+protocol.1")


def _take_answering(text: bytes) -> None:
    terms = Terms(Lane.PRIMARY, SESSION)
    side = Answering(_mine("controller"), lambda hello: terms, bytes(32), bytes(32))
    _, agreed = side.take(text)
    side.take(text)
    if agreed is not None:
        raise Surprise("somebody was agreed with who has proven nothing")


def _take_dialling(text: bytes) -> None:
    terms = Terms(Lane.PRIMARY, SESSION)
    side = Dialling(_mine("controller"), terms, lambda hello: terms, bytes(32), bytes(32))
    side.begin()
    side.take(text)
    if side.take(text)[1] is not None:
        raise Surprise("somebody was agreed with who has proven nothing")


def _take_notice(text: bytes) -> None:
    words = text.decode("utf-8", "replace")
    version_told(words)
    for kind in ("version-mismatch", words):
        shown = safe_notice(kind, words)[1]
        if not shown.isprintable() or len(shown) > 200:
            raise Surprise("a notice shows what it must not")
