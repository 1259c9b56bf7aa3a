"""Hello and proof: who is at the other end and for which lane (pure; control.md J.2).

Each proof covers both hellos exactly as exchanged, the signer's role, and the Noise handshake hash,
so that it is good for this one connection only.  A side proves itself only after the peer's hello
passed every check.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from enum import StrEnum
from hashlib import sha256
from typing import Literal

import msgspec
from attrs import field, frozen
from msgspec import Struct

from garcon.contract.ids import is_uuid4
from garcon.contract.limits import HANDSHAKE_FRAME
from garcon.contract.rpc import Lane
from garcon.contract.version import LINK_VERSION
from garcon.errors import GarconError
from garcon.link.interfaces import Peer

Role = Literal["controller", "worker"]

_VERSION = re.compile(r"[A-Za-z0-9.+_-]{1,100}")
_TOLD = re.compile(rf"one side is version ({_VERSION.pattern}) and ")
_NONCE = re.compile(r"[0-9a-f]{64}")
_NAME = 128


class Refusal(StrEnum):
    """Why a handshake is refused; both sides learn it where that is safe."""

    MALFORMED = "malformed-hello"
    VERSION_MISMATCH = "version-mismatch"
    WRONG_ROLE = "wrong-role"
    WRONG_EXECUTOR = "wrong-executor"
    WRONG_LANE = "wrong-lane"
    WRONG_SESSION = "wrong-session"
    STALE_PRIMARY = "stale-primary"
    SECOND_PRIMARY = "second-primary"
    SECOND_BULK = "second-bulk"
    NOT_GRANTED = "bulk-not-granted"
    RUNTIME_MISMATCH = "runtime-mismatch"
    BAD_PROOF = "bad-proof"
    FULL = "link-full"


class Refused(GarconError):
    """This handshake ends here."""

    def __init__(self, kind: Refusal, text: str, peer_version: str | None = None) -> None:
        super().__init__("HANDSHAKE_REFUSED", text)
        self.kind = kind
        self.peer_version = peer_version


class Hello(
    Struct, frozen=True, rename="camel", tag_field="type", tag="hello", forbid_unknown_fields=True
):
    """What a side says of itself; the order of fields is part of the contract."""

    version: str
    role: Role
    executor_id: str | None
    runtime_id: str
    nonce: str
    lane: Lane
    session_id: str | None
    primary_session_id: str | None


class Proof(
    Struct, frozen=True, rename="camel", tag_field="type", tag="proof", forbid_unknown_fields=True
):
    signature: str


class _AnyHello(Struct, frozen=True):
    """What can be read of a hello of any version."""

    type: str
    version: str


@frozen
class Mine:
    """What a process says of itself on every connection of a link."""

    role: Role
    executor_id: str | None
    runtime_id: str
    secret: str = field(repr=False)
    version: str = LINK_VERSION


@frozen
class Terms:
    """Which lane and sessions a connection is for; ids are None where the controller has yet to
    say.
    """

    lane: Lane
    session_id: str | None = None
    primary_session_id: str | None = None


@frozen
class Agreed:
    """A proven connection."""

    lane: Lane
    session_id: str
    primary_session_id: str | None
    peer: Peer

    @property
    def generation(self) -> str:
        """The primary session this lane belongs to, or is."""
        return self.primary_session_id or self.session_id


def parse(text: bytes | memoryview) -> Hello | Proof:
    """Return the hello or proof that `text` is, in exactly the form of the contract."""
    if len(text) > HANDSHAKE_FRAME:
        raise Refused(Refusal.MALFORMED, "a handshake message is too large")
    try:
        message = msgspec.json.decode(text, type=Hello | Proof)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Refused(Refusal.MALFORMED, "a handshake message is malformed") from None
    if isinstance(message, Hello):
        # Re-encoding shows whether exactly these fields came in exactly this order.
        if msgspec.json.encode(message) != text or not _is_sound(message):
            raise Refused(Refusal.MALFORMED, "a hello is malformed")
    elif _NONCE.fullmatch(message.signature) is None:
        raise Refused(Refusal.MALFORMED, "a proof is malformed")
    return message


def check_version(text: bytes | memoryview, version: str) -> None:
    """Refuse a hello of another version, whose other fields may be anything."""
    if len(text) > HANDSHAKE_FRAME:
        raise Refused(Refusal.MALFORMED, "a handshake message is too large")
    try:
        hello = msgspec.json.decode(text, type=_AnyHello)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Refused(Refusal.MALFORMED, "a handshake message is malformed") from None
    if hello.type == "hello" and hello.version != version:
        raise Refused(
            Refusal.VERSION_MISMATCH,
            f"one side is version {version} and the other is not;"
            " upgrade controller and workers together",
            hello.version if _VERSION.fullmatch(hello.version) else "unreadable",
        )


def version_told(text: str) -> str | None:
    """Return the version that a peer's refusal of ours names as its own."""
    found = _TOLD.match(text)
    return None if found is None else found[1]


def _is_sound(hello: Hello) -> bool:
    names = [hello.version, hello.runtime_id]
    if hello.executor_id is not None:
        names.append(hello.executor_id)
    ids = [i for i in (hello.session_id, hello.primary_session_id) if i is not None]
    on_primary = hello.lane is Lane.PRIMARY
    may_be_unknown = hello.role == "worker" and on_primary
    return (
        all(1 <= len(name) <= _NAME for name in names)
        and _NONCE.fullmatch(hello.nonce) is not None
        and all(is_uuid4(i) for i in ids)
        and (may_be_unknown or (hello.executor_id is not None and hello.session_id is not None))
        and (hello.primary_session_id is None) == on_primary
    )


def check_pair(controller: Hello, worker: Hello) -> None:
    """The identity checks that need only the two hellos; both sides make them."""
    if worker.lane is not controller.lane:
        raise Refused(Refusal.WRONG_LANE, "the two sides mean different lanes")
    if worker.executor_id not in (None, controller.executor_id):
        raise Refused(Refusal.WRONG_EXECUTOR, "the worker belongs to another executor")
    if worker.session_id not in (None, controller.session_id):
        raise Refused(Refusal.WRONG_SESSION, "the two sides mean different sessions")
    if worker.primary_session_id != controller.primary_session_id:
        raise Refused(Refusal.STALE_PRIMARY, "the two sides mean different primary sessions")


def signature(
    secret: str, signer: Role, controller: bytes, worker: bytes, handshake_hash: bytes
) -> str:
    """Return a proof's signature over both hellos as exchanged and the channel they came over."""
    message = b'["garcon-executor","%b",[%b,%b],"%b"]' % (
        signer.encode(),
        controller,
        worker,
        handshake_hash.hex().encode(),
    )
    return hmac.new(secret.encode(), message, sha256).hexdigest()


class _Side:
    """What both sides of a handshake share."""

    def __init__(self, mine: Mine, handshake_hash: bytes, nonce: bytes) -> None:
        self._mine = mine
        self._hash = handshake_hash
        self._nonce = nonce.hex()
        self._own = b""
        self._theirs = b""
        self.peer_hello: Hello | None = None
        self.own_hello: Hello | None = None

    def _say_hello(self, terms: Terms) -> bytes:
        mine = self._mine
        self.own_hello = Hello(
            mine.version,
            mine.role,
            mine.executor_id,
            mine.runtime_id,
            self._nonce,
            terms.lane,
            terms.session_id,
            terms.primary_session_id,
        )
        self._own = msgspec.json.encode(self.own_hello)
        return self._own

    def _hear_hello(self, text: bytes | memoryview) -> Hello:
        check_version(text, self._mine.version)
        hello = parse(text)
        if not isinstance(hello, Hello):
            raise Refused(Refusal.MALFORMED, "a proof came before its hello")
        if hello.role == self._mine.role:
            raise Refused(Refusal.WRONG_ROLE, f"both sides are a {hello.role}")
        self._theirs = bytes(text)
        self.peer_hello = hello
        return hello

    def _pair(self) -> tuple[Hello, Hello]:
        assert self.own_hello is not None and self.peer_hello is not None
        if self._mine.role == "controller":
            return self.own_hello, self.peer_hello
        return self.peer_hello, self.own_hello

    def _prove(self) -> bytes:
        return msgspec.json.encode(Proof(self._sign(self._mine.role)))

    def _sign(self, signer: Role) -> str:
        own_first = self._mine.role == "controller"
        controller, worker = (self._own, self._theirs) if own_first else (self._theirs, self._own)
        return signature(self._mine.secret, signer, controller, worker, self._hash)

    def _hear_proof(self, text: bytes | memoryview) -> Agreed:
        proof = parse(text)
        assert self.peer_hello is not None
        if not isinstance(proof, Proof) or not hmac.compare_digest(
            proof.signature, self._sign(self.peer_hello.role)
        ):
            raise Refused(Refusal.BAD_PROOF, "the other side's proof is wrong")
        controller, _ = self._pair()
        assert controller.session_id is not None and controller.executor_id is not None
        return Agreed(
            controller.lane,
            controller.session_id,
            controller.primary_session_id,
            Peer(controller.executor_id, self.peer_hello.runtime_id, self.peer_hello.role),
        )


Judge = Callable[[Hello], Terms]
"""Says what a listener answers to a peer's hello, or raises `Refused`; a dialler only asks
whether it does.
"""


class Dialling(_Side):
    """The dialler's side: hello, then wait for hello and proof, then proof."""

    def __init__(
        self, mine: Mine, terms: Terms, judge: Judge, handshake_hash: bytes, nonce: bytes
    ) -> None:
        super().__init__(mine, handshake_hash, nonce)
        self._terms = terms
        self._judge = judge

    def begin(self) -> bytes:
        """Return the first text to send."""
        return self._say_hello(self._terms)

    def take(self, text: bytes | memoryview) -> tuple[list[bytes], Agreed | None]:
        """Take the peer's next text; return what to send and, at the end, what was agreed."""
        if self.peer_hello is None:
            hello = self._hear_hello(text)
            check_pair(*self._pair())
            self._judge(hello)
            return [], None
        agreed = self._hear_proof(text)
        return [self._prove()], agreed


class Answering(_Side):
    """The listener's side: wait for a hello, judge it, answer with hello and proof, then wait
    for the proof.
    """

    def __init__(self, mine: Mine, judge: Judge, handshake_hash: bytes, nonce: bytes) -> None:
        super().__init__(mine, handshake_hash, nonce)
        self._judge = judge

    def take(self, text: bytes | memoryview) -> tuple[list[bytes], Agreed | None]:
        """Take the peer's next text; return what to send and, at the end, what was agreed."""
        if self.peer_hello is None:
            hello = self._hear_hello(text)
            own = self._say_hello(self._judge(hello))
            check_pair(*self._pair())
            return [own, self._prove()], None
        return [], self._hear_proof(text)
