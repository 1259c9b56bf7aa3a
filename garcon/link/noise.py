"""The encryption layer as a value: handshake and sealing of one physical connection (control.md
J.1).

The only importer of `noise`, which is unmaintained and keeps keys in ordinary objects, so that it
can be replaced here. Whatever goes wrong with a peer's bytes is one `HandshakeFailed`: telling a
wrong secret from a damaged message would help only an attacker.
"""

from __future__ import annotations

import warnings
from typing import Any

from noise.connection import Keypair, NoiseConnection

from garcon.contract.limits import RECORD_PLAINTEXT, RECORDS_PER_KEY
from garcon.errors import GarconError

PATTERN = b"Noise_NNpsk0_25519_AESGCM_SHA256"
CONTEXT = b"garcon-executor/v1"
HANDSHAKE_MESSAGE = 48
"""Each handshake message is one ephemeral key and one tag; it never carries a payload on the
link.
"""


class HandshakeFailed(GarconError):
    """The encrypted channel could not be made, or a record did not open; the connection is dead."""

    def __init__(self) -> None:
        super().__init__("HANDSHAKE_FAILED", "the encrypted handshake failed")


class RecordLimit(GarconError):
    """A key has sealed or opened as many records as it may; the connection must be replaced."""

    def __init__(self) -> None:
        super().__init__("RECORD_LIMIT", "the key of this connection is used up")


class Cipher:
    """One connection's Noise state.  The dialler is the initiator and writes first.

    `records` bounds what each key seals; its last record is kept for the notice that ends the
    connection.  `ephemeral` and `prologue` are for test vectors only.
    """

    def __init__(
        self,
        psk: bytes,
        *,
        initiator: bool,
        records: int = RECORDS_PER_KEY,
        prologue: bytes = CONTEXT,
        ephemeral: bytes | None = None,
    ) -> None:
        self._noise = NoiseConnection.from_name(PATTERN)
        self._noise.set_psks(psk)
        self._noise.set_prologue(prologue)
        if initiator:
            self._noise.set_as_initiator()
        else:
            self._noise.set_as_responder()
        with warnings.catch_warnings():
            if ephemeral is not None:
                # The library warns of a fixed key, which is the point of a vector.
                warnings.simplefilter("ignore")
                self._noise.set_keypair_from_private_bytes(Keypair.EPHEMERAL, ephemeral)
            self._noise.start_handshake()
        self.initiator = initiator
        self.handshake_hash = b""
        self._seal: Any = None
        self._open: Any = None
        self._records = records
        self._sealed = 0
        self._opened = 0

    @property
    def is_ready(self) -> bool:
        """Whether records can be sealed and opened."""
        return self._seal is not None

    def write_handshake(self, payload: bytes = b"") -> bytes:
        """Return the next handshake message."""
        message = bytes(self._noise.write_message(payload))
        self._check_finished()
        return message

    def read_handshake(self, message: bytes) -> bytes:
        """Take the peer's handshake message and return its payload."""
        try:
            payload = bytes(self._noise.read_message(message))
        except Exception as error:
            raise HandshakeFailed from error
        self._check_finished()
        return payload

    def _check_finished(self) -> None:
        if self._noise.handshake_finished:
            self.handshake_hash = self._noise.get_handshake_hash()
            protocol = self._noise.noise_protocol
            # Bound methods of the two keys: NoiseConnection's own wrappers check the same things
            # once more.
            self._seal = protocol.cipher_state_encrypt.encrypt_with_ad
            self._open = protocol.cipher_state_decrypt.decrypt_with_ad

    def seal(self, plaintext: bytes, *, last: bool = False) -> bytes:
        """Return one record.  `last` may use the record that is kept back for the closing
        notice.
        """
        # The library would seal up to 65535 bytes into a record that nobody can open, with the
        # nonce already spent.
        assert len(plaintext) <= RECORD_PLAINTEXT, len(plaintext)
        if self._sealed >= self._records - (0 if last else 1):
            raise RecordLimit
        self._sealed += 1
        sealed: bytes = self._seal(None, plaintext)
        return sealed

    def open(self, record: bytes) -> bytes:
        """Return the plaintext of the peer's next record."""
        if self._opened >= self._records:
            raise RecordLimit
        try:
            plaintext: bytes = self._open(None, record)
        except Exception as error:
            raise HandshakeFailed from error
        self._opened += 1
        return plaintext
