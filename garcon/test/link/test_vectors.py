"""The vectors of the wire, read by an implementation that shares nothing with ours but the
cryptography: what their README and the Noise specification say is enough.
"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from twisted.trial.unittest import SynchronousTestCase

from garcon.link import frames
from garcon.link.fragments import Joiner

VECTORS: Any = json.loads((Path(__file__).parent / "vectors" / "wire.json").read_text())
NAME = b"Noise_NNpsk0_25519_AESGCM_SHA256"
PROLOGUE = b"garcon-executor/v1"


def hkdf(chaining: bytes, material: bytes, count: int) -> list[bytes]:
    """The Noise specification's HKDF."""
    key = hmac.digest(chaining, material, "sha256")
    outputs = [b""]
    for number in range(1, count + 1):
        outputs.append(hmac.digest(key, outputs[-1] + bytes([number]), "sha256"))
    return outputs[1:]


class Key:
    """A key and how often it was used."""

    def __init__(self, key: bytes) -> None:
        self._key = AESGCM(key)
        self._used = 0

    def seal(self, plaintext: bytes, associated: bytes = b"") -> bytes:
        nonce = bytes(4) + self._used.to_bytes(8, "big")
        self._used += 1
        return self._key.encrypt(nonce, plaintext, associated)


class Handshake:
    """Both sides of NNpsk0 at once, since both ephemeral keys are known."""

    def __init__(self, psk: bytes, dialler: bytes, listener: bytes) -> None:
        self._hash = self._chaining = NAME
        self._mix_hash(PROLOGUE)
        self._chaining, hashed, key = hkdf(self._chaining, psk, 3)
        self._mix_hash(hashed)
        self._key = Key(key)
        one, other = (X25519PrivateKey.from_private_bytes(key) for key in (dialler, listener))
        self.messages = [self._message(one), self._message(other, one.public_key())]
        self.hash = self._hash
        self.dialler, self.listener = (Key(key) for key in hkdf(self._chaining, b"", 2))

    def _mix_hash(self, data: bytes) -> None:
        self._hash = sha256(self._hash + data).digest()

    def _mix_key(self, material: bytes) -> None:
        self._chaining, key = hkdf(self._chaining, material, 2)
        self._key = Key(key)

    def _message(self, own: X25519PrivateKey, peer: X25519PublicKey | None = None) -> bytes:
        public = own.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self._mix_hash(public)
        self._mix_key(public)
        if peer is not None:
            self._mix_key(own.exchange(peer))
        tag = self._key.seal(b"", self._hash)
        self._mix_hash(tag)
        return public + tag


class Handshakes(SynchronousTestCase):
    """Connections from their first byte on."""

    def handshake(self, vector: Any) -> Handshake:
        """Shake hands as a vector has it."""
        return Handshake(
            urlsafe_b64decode(vector["secret"] + "="),
            bytes.fromhex(vector["diallerEphemeral"]),
            bytes.fromhex(vector["listenerEphemeral"]),
        )

    def test_noise(self) -> None:
        """The messages and the hash follow from the keys."""
        for vector in VECTORS["handshakes"]:
            made = self.handshake(vector)
            self.assertEqual([message.hex() for message in made.messages], vector["messages"])
            self.assertEqual(made.hash.hex(), vector["handshakeHash"])

    def test_records(self) -> None:
        """Every record follows from its plaintext and its place in its direction."""
        for vector in VECTORS["handshakes"]:
            made = self.handshake(vector)
            keys = {"dialler": made.dialler, "listener": made.listener}
            senders = ("dialler", "listener", "listener", "dialler")
            for sender, text, record in zip(
                senders, vector["texts"], vector["records"], strict=True
            ):
                self.assertEqual(keys[sender].seal(b"\x02" + text.encode()).hex(), record)
            large = bytes(n % 251 for n in range(32_769))
            fragments = iter((b"\x00" + large[:32_768], b"\x01" + large[32_768:]))
            for said in vector["dialogue"]:
                if "plaintext" in said:
                    plaintext = bytes.fromhex(said["plaintext"])
                    if plaintext[0] == 1:
                        next(fragments)
                else:
                    plaintext = next(fragments)
                self.assertEqual(sha256(plaintext).hexdigest(), said["plaintextSha256"])
                sealed = keys[said["from"]].seal(plaintext)
                if "record" in said:
                    self.assertEqual(sealed.hex(), said["record"])
                else:
                    self.assertEqual(sha256(sealed).hexdigest(), said["recordSha256"])

    def test_proofs(self) -> None:
        """Each proof signs both hellos, the controller's first, and the channel."""
        for vector in VECTORS["handshakes"]:
            first, second, *proofs = vector["texts"]
            roles = [json.loads(hello)["role"] for hello in (first, second)]
            hellos = dict(zip(roles, (first, second), strict=True))
            both = f"[{hellos['controller']},{hellos['worker']}]"
            for role, proof in zip(reversed(roles), proofs, strict=True):
                message = f'["garcon-executor","{role}",{both},"{vector["handshakeHash"]}"]'
                expected = hmac.digest(vector["secret"].encode(), message.encode(), "sha256")
                self.assertEqual(json.loads(proof), {"type": "proof", "signature": expected.hex()})


class Texts(SynchronousTestCase):
    """What the records carry, read by our own decoders."""

    def test_fragments_join(self) -> None:
        """The records of a dialogue carry its texts, the small one before the large one's end."""
        joiner, large = Joiner(), bytes(n % 251 for n in range(32_769))
        first, small, last = b"\x00" + large[:-1], b"\x02" + frames.PING, b"\x01" + large[-1:]
        self.assertEqual(joiner.take(first), None)
        self.assertEqual(joiner.take(small), (frames.PING, True))
        self.assertEqual(joiner.take(last), (large, False))

    def test_every_frame_is_there_and_reads(self) -> None:
        """Each kind of frame has its vector, and is what it is called."""
        named = set()
        for name, text in VECTORS["frames"].items():
            frame = frames.decode(text.encode())
            kind = type(frame).__struct_config__.tag
            self.assertEqual(name.split(" ")[0], kind)
            named.add(kind)
        kinds = {one.__struct_config__.tag for one in frames.Frame.__subclasses__()}
        self.assertEqual(named, kinds)
