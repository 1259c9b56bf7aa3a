"""The encryption layer: the public vector, its limits, and one error for everything a peer can
do wrong.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import RECORD_PLAINTEXT
from garcon.link.noise import CONTEXT, HANDSHAKE_MESSAGE, Cipher, HandshakeFailed, RecordLimit
from garcon.test.link import golden

PSK = bytes(range(32))
VECTORS = Path(__file__).parent / "vectors"


def pair(**more: Any) -> tuple[Cipher, Cipher]:
    """Return both ends after their handshake."""
    one, other = Cipher(PSK, initiator=True, **more), Cipher(PSK, initiator=False, **more)
    other.read_handshake(one.write_handshake())
    one.read_handshake(other.write_handshake())
    return one, other


class PublicVector(SynchronousTestCase):
    """The pattern, against values that others made."""

    def test_every_message_of_it(self) -> None:
        """Handshake, hash and transport messages come out byte for byte."""
        (vector,) = json.loads((VECTORS / "noise-nnpsk0.json").read_text())
        ends = [
            Cipher(
                bytes.fromhex(vector[f"{side}_psks"][0]),
                initiator=side == "init",
                prologue=bytes.fromhex(vector[f"{side}_prologue"]),
                ephemeral=bytes.fromhex(vector[f"{side}_ephemeral"]),
            )
            for side in ("init", "resp")
        ]
        for n, message in enumerate(vector["messages"]):
            writer, reader = ends[n % 2], ends[1 - n % 2]
            payload = bytes.fromhex(message["payload"])
            if n < 2:
                written = writer.write_handshake(payload)
                self.assertEqual(reader.read_handshake(written), payload)
            else:
                written = writer.seal(payload)
                self.assertEqual(reader.open(written), payload)
            self.assertEqual(written.hex(), message["ciphertext"])
        for end in ends:
            self.assertEqual(end.handshake_hash.hex(), vector["handshake_hash"])


class OurVectors(SynchronousTestCase):
    """The wire does not change by accident."""

    def test_golden(self) -> None:
        """Handshakes, fragments and frames are as the file has them; a change is a new revision."""
        self.assertEqual(golden.golden(), json.loads(golden.FILE.read_text()))


class Handshakes(SynchronousTestCase):
    """Making the channel."""

    def test_both_ends_agree(self) -> None:
        """Both have the same hash, and each message has its one size."""
        one, other = pair()
        self.assertEqual(one.handshake_hash, other.handshake_hash)
        self.assertEqual(len(one.handshake_hash), 32)
        fresh = Cipher(PSK, initiator=True)
        self.assertEqual(len(fresh.write_handshake()), HANDSHAKE_MESSAGE)

    def test_each_connection_has_fresh_keys(self) -> None:
        """The same secret never gives the same channel twice."""
        self.assertNotEqual(pair()[0].handshake_hash, pair()[0].handshake_hash)

    def test_whatever_is_wrong_is_one_error(self) -> None:
        """Key, context, length and content of a message all fail alike."""
        good = Cipher(PSK, initiator=True).write_handshake()
        cases = {
            "psk": Cipher(bytes(32), initiator=True).write_handshake(),
            "prologue": Cipher(PSK, initiator=True, prologue=b"other").write_handshake(),
            "short": good[:20],
            "empty": b"",
            "key": bytes(32) + good[32:],
            "tag": good[:-1] + bytes([good[-1] ^ 1]),
        }
        texts = set()
        for message in cases.values():
            end = Cipher(PSK, initiator=False)
            texts.add(self.assertRaises(HandshakeFailed, end.read_handshake, message).text)
        self.assertEqual(len(texts), 1)
        self.assertEqual(CONTEXT, b"garcon-executor/v1")

    def test_an_impostor_listener_fails_too(self) -> None:
        """A dialler does not accept an answer made without the secret."""
        one = Cipher(PSK, initiator=True)
        one.write_handshake()
        self.assertRaises(HandshakeFailed, one.read_handshake, bytes(range(48)))


class Records(SynchronousTestCase):
    """Sealing and opening."""

    def test_the_largest_record(self) -> None:
        """65519 bytes cross; one more is a bug of ours, found before a nonce is spent on it."""
        one, other = pair()
        largest = bytes(RECORD_PLAINTEXT)
        self.assertEqual(RECORD_PLAINTEXT, 65_519)
        self.assertEqual(other.open(one.seal(largest)), largest)
        self.assertRaises(AssertionError, one.seal, bytes(RECORD_PLAINTEXT + 1))
        self.assertEqual(other.open(one.seal(b"next")), b"next")

    def test_changed_repeated_and_missing_records_fail(self) -> None:
        """A record opens once, unchanged, in its turn."""
        one, other = pair()
        first, second = one.seal(b"first"), one.seal(b"second")
        self.assertRaises(HandshakeFailed, other.open, second)
        self.assertRaises(HandshakeFailed, other.open, first[:-1] + b"?")
        other.open(first)
        self.assertRaises(HandshakeFailed, other.open, first)
        self.assertRaises(HandshakeFailed, other.open, b"")

    def test_a_key_seals_only_so_many(self) -> None:
        """Of N records the last is kept for the closing notice; both ends count alike."""
        one, other = pair(records=3)
        sealed = [one.seal(b"1"), one.seal(b"2")]
        self.assertRaises(RecordLimit, one.seal, b"3")
        sealed.append(one.seal(b"bye", last=True))
        self.assertRaises(RecordLimit, one.seal, b"4", last=True)
        self.assertEqual([other.open(s) for s in sealed], [b"1", b"2", b"bye"])
        self.assertRaises(RecordLimit, other.open, b"anything")
