"""One connection from its first byte to its proofs: the shell around noise.py and handshake.py.

It owns its wire until the link takes the agreed lane over.  A peer is told why it is refused only
through the encrypted channel, after it has shown by a record of its own that it knows the secret.
"""

from __future__ import annotations

from os import urandom
from typing import Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

from garcon.contract.connection_url import secret_bytes
from garcon.contract.limits import HANDSHAKE_FRAME
from garcon.contract.rpc import Lane
from garcon.errors import GarconError
from garcon.link.causes import Cause, Stage, safe_notice
from garcon.link.fragments import WHOLE
from garcon.link.frames import Close, decode, encode
from garcon.link.handshake import (
    Agreed,
    Answering,
    Dialling,
    Judge,
    Mine,
    Refusal,
    Refused,
    Terms,
    version_told,
)
from garcon.link.noise import HANDSHAKE_MESSAGE, Cipher, HandshakeFailed
from garcon.link.settings import LinkSettings
from garcon.link.wire import IAttempt, ITicket, IWire, IWireUser

_TOO_LATE: dict[str, str] = {
    Stage.NAME: "the address's name was not resolved in time",
    Stage.TCP: "the address did not take the connection in time",
    Stage.PROXY: "the proxy did not connect in time",
    Stage.TLS: "TLS was not established in time",
    Stage.UPGRADE: "the WebSocket upgrade was not answered in time",
    Stage.NOISE: "the encrypted handshake was not finished in time",
    Stage.HELLO: "the other side did not prove itself in time",
}


class OpeningOwner(Protocol):
    """The link, as an opening sees it."""

    def lane_agreed(self, opening: Opening, agreed: Agreed, wire: IWire, cipher: Cipher) -> None:
        """Take the wire over, or raise `Refused`."""

    def opening_failed(self, opening: Opening, kind: str, text: str) -> None:
        """It is over without a lane; called once."""

    def opening_gone(self, opening: Opening) -> None:
        """Its socket is gone too."""


@implementer(IWireUser)
class Opening:
    """A connection whose peer is not proven yet.  A dialler has `terms`; a listener gets them
    from `judge`.
    """

    def __init__(
        self,
        owner: OpeningOwner,
        clock: IReactorTime,
        settings: LinkSettings,
        mine: Mine,
        judge: Judge,
        *,
        terms: Terms | None = None,
        ticket: ITicket | None = None,
    ) -> None:
        self._owner = owner
        self._clock = clock
        self._settings = settings
        self._mine = mine
        self.terms = terms
        self._judge = judge
        self.ticket = ticket
        self.attempt: IAttempt | None = None
        self.is_over = False
        self.is_proven = terms is not None
        """Whether the peer is whom this link is for: it was dialled, or has shown the secret."""
        self.is_stranger = False
        """Whether the peer has dialled with another secret."""
        self.peer_version: str | None = None
        """The peer's version, where it was seen not to be ours."""
        self._wire: IWire | None = None
        self._side: Dialling | Answering | None = None
        self._cipher: Cipher | None = None
        self._timer: IDelayedCall | None = None
        self._ended_in: str | None = None
        if terms is not None:
            self._timer = clock.callLater(
                settings.connect_time, self._too_late, Cause.CONNECT_TIMEOUT
            )

    @property
    def lane(self) -> Lane | None:
        """Which lane it is to become, as far as that is known."""
        if self.terms is not None:
            return self.terms.lane
        hello = None if self._side is None else self._side.peer_hello
        return None if hello is None else hello.lane

    @property
    def stage(self) -> str:
        """How far it has come, or had come when it failed."""
        if self._ended_in is not None:
            return self._ended_in
        if self._wire is None:
            return Stage.UPGRADE if self.attempt is None else self.attempt.stage
        return Stage.HELLO if self._side is not None else Stage.NOISE

    def wire_opened(self, wire: IWire) -> None:
        """Begin the encrypted handshake; the whole of it has one deadline."""
        self._stop_timer()
        self._wire = wire
        if self.is_over:
            wire.abort()
            return
        self._timer = self._clock.callLater(
            self._settings.handshake_time, self._too_late, Cause.HANDSHAKE_TIMEOUT
        )
        self._cipher = Cipher(
            secret_bytes(self._mine.secret),
            initiator=self.terms is not None,
            records=self._settings.records_per_key,
        )
        if self.terms is not None:
            wire.send(self._cipher.write_handshake())

    def wire_writable(self) -> None:
        """A handshake is small enough to ignore the socket's pressure."""

    def record_received(self, record: bytes) -> None:
        """Take the next handshake message."""
        if self.is_over:
            return
        try:
            self._take(record)
        except Refused as refused:
            self.peer_version = refused.peer_version
            self.refuse(refused.kind, refused.text)
        except HandshakeFailed:
            self.fail(
                Cause.HANDSHAKE_FAILED,
                "the encrypted handshake failed; the two sides may have different secrets",
            )
        except GarconError as error:
            self.fail(Cause.PROTOCOL_ERROR, error.text)

    def _take(self, record: bytes) -> None:
        cipher = self._cipher
        assert cipher is not None and self._wire is not None
        if not cipher.is_ready:
            if len(record) != HANDSHAKE_MESSAGE:
                raise HandshakeFailed
            try:
                cipher.read_handshake(record)
            except HandshakeFailed:
                self.is_stranger = self.terms is None
                raise
            if self.ticket is not None:
                self.ticket.keyed()
            if self.terms is None:
                self._wire.send(cipher.write_handshake())
            self._begin_hello(cipher)
            return
        plaintext = cipher.open(record)
        self.is_proven = True
        if self.ticket is not None:
            self.ticket.proven()
        if plaintext[:1] != WHOLE or len(plaintext) > HANDSHAKE_FRAME + 1:
            raise Refused(Refusal.MALFORMED, "a handshake message has a wrong form")
        text = memoryview(plaintext)[1:]
        if text[:15].tobytes() == b'{"type":"close"':
            self._close_received(text)
            return
        assert self._side is not None
        answers, agreed = self._side.take(text)
        for answer in answers:
            self._wire.send(cipher.seal(WHOLE + answer))
        if agreed is not None:
            self._agree(agreed, cipher)

    def _begin_hello(self, cipher: Cipher) -> None:
        nonce = urandom(32)
        if self.terms is not None:
            dialling = Dialling(self._mine, self.terms, self._judge, cipher.handshake_hash, nonce)
            self._side = dialling
            assert self._wire is not None
            self._wire.send(cipher.seal(WHOLE + dialling.begin()))
        else:
            self._side = Answering(self._mine, self._judge, cipher.handshake_hash, nonce)

    def _agree(self, agreed: Agreed, cipher: Cipher) -> None:
        if self.ticket is not None and not self.ticket.established(agreed.lane.value):
            raise Refused(Refusal.FULL, "the controller has no room for one more link")
        self._stop_timer()
        assert self._wire is not None
        self._owner.lane_agreed(self, agreed, self._wire, cipher)
        self.is_over = True

    def _close_received(self, text: memoryview) -> None:
        notice = decode(text)
        assert isinstance(notice, Close)
        if notice.kind == Refusal.VERSION_MISMATCH:
            self.peer_version = version_told(notice.text)
        self.fail(*safe_notice(notice.kind, notice.text))

    def refuse(self, kind: Refusal, text: str) -> None:
        """End the handshake and tell the peer why."""
        if self._cipher is not None and self._cipher.is_ready and self._wire is not None:
            notice = encode(Close(kind=kind.value, text=text))
            self._wire.send(self._cipher.seal(WHOLE + notice, last=True))
        self.fail(kind.value, text)

    def fail(self, kind: str, text: str) -> None:
        """End the handshake, saying no more to the peer."""
        if self.is_over:
            return
        self._ended_in = self.stage
        self.is_over = True
        self._stop_timer()
        if self._wire is not None:
            self._wire.close()
        elif self.attempt is not None:
            self.attempt.abandon()
        self._owner.opening_failed(self, kind, text)

    def abandon(self) -> None:
        """End it at once because nobody wants it any more; not a failure."""
        self.is_over = True
        self._stop_timer()
        if self._wire is not None:
            self._wire.abort()
        elif self.attempt is not None:
            self.attempt.abandon()

    def wire_closed(self, kind: str, text: str) -> None:
        """The socket went away or never came."""
        self._stop_timer()
        if not self.is_over:
            self.is_over = True
            if self._cipher is not None and not self._cipher.is_ready:
                kind, text = (
                    Cause.HANDSHAKE_FAILED,
                    "the other side ended the encrypted handshake; the secret may be wrong",
                )
            self._owner.opening_failed(self, kind, text)
        if self.ticket is not None:
            self.ticket.release()
        self._owner.opening_gone(self)

    def _too_late(self, cause: Cause) -> None:
        self._timer = None
        self.fail(cause, _TOO_LATE[self.stage])

    def _stop_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
