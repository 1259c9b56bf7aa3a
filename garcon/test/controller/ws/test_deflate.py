"""Agreements on compression, and messages that are compressed once for all (RFC 7692)."""

from __future__ import annotations

import os
import zlib

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.events import ProcessingChat, ProcessingSnapshot, ProcessingUpdated
from garcon.controller.ws.deflate import Compressor, Deflate, agree, level_of
from garcon.controller.ws.messages import Broadcast, Message, as_older_snapshot

TAIL = b"\x00\x00\xff\xff"


def inflate(payload: bytes, window: int = 15) -> bytes:
    """Read a message as a client without a window of its own does."""
    return zlib.decompressobj(-window).decompress(payload + TAIL)


class Agreements(SynchronousTestCase):
    """What comes of an offer."""

    def test_what_is_offered_is_taken(self) -> None:
        """Bare, as browsers offer it, and with every parameter."""
        for header in (
            "permessage-deflate",
            "permessage-deflate; client_max_window_bits",
            "permessage-deflate; client_max_window_bits=8",
            " permessage-deflate ;client_no_context_takeover; server_no_context_takeover ",
            'permessage-deflate; server_max_window_bits="15"',
            "x-webkit-deflate-frame, permessage-deflate",
        ):
            self.assertEqual(agree(header), Deflate(15), header)

    def test_a_narrower_window_is_kept(self) -> None:
        """As far as there is one; the next offer is looked at where it is not."""
        self.assertEqual(agree("permessage-deflate; server_max_window_bits=9"), Deflate(9))
        self.assertEqual(agree("permessage-deflate; server_max_window_bits=8"), None)
        both = "permessage-deflate; server_max_window_bits=8, permessage-deflate"
        self.assertEqual(agree(both), Deflate(15))

    def test_what_cannot_be_kept_is_declined(self) -> None:
        """The socket is then one without compression, not a refused one."""
        for parameter in (
            *("unknown", "server_max_window_bits", "server_max_window_bits=16"),
            *(
                "server_max_window_bits=010",
                "server_max_window_bits=abc",
                "server_max_window_bits=",
            ),
            *("client_max_window_bits=7", "server_no_context_takeover=1", "=1", "a b"),
            "client_max_window_bits; client_max_window_bits",
        ):
            self.assertEqual(agree(f"permessage-deflate; {parameter}"), None, parameter)
        for header in (None, "", "permessage-bzip2", ";", ","):
            self.assertEqual(agree(header), None, header)

    def test_blanks_are_skipped_once(self) -> None:
        """However many: a header full of them takes no longer than another one."""
        blanks = " " * 30_000
        self.assertEqual(
            agree(f"permessage-deflate;{blanks}server_max_window_bits{blanks}={blanks}10{blanks}"),
            Deflate(10),
        )
        for text in (f"a{blanks}b", f"a{blanks}", f"{blanks}@", f"a{blanks}={blanks}", blanks):
            self.assertEqual(agree(f"permessage-deflate;{text}"), None)

    def test_an_agreement_is_the_answer_to_its_own_offer(self) -> None:
        """What is handed to the WebSocket library says exactly what was agreed on."""
        for window in range(9, 16):
            self.assertEqual(agree(Deflate(window).offer), Deflate(window))


class Compression(SynchronousTestCase):
    """One compressor for everybody."""

    def setUp(self) -> None:
        self.compressor = Compressor()

    def test_every_message_is_read_by_itself(self) -> None:
        """None refers to one before it, though one compressor made them all; every size and every
        window is read back.
        """
        texts = [b"{}", b"abc" * 100, b"abc" * 100, os.urandom(70_000), b"x" * 40_000, b"abc" * 100]
        for window in range(9, 16):
            for text in texts:
                payload = self.compressor.compress(text, Deflate(window))
                self.assertEqual(inflate(payload, window), text)

    def test_a_client_with_a_window_reads_them_too(self) -> None:
        """One that keeps its inflater from message to message gets the same."""
        inflater = zlib.decompressobj(-15)
        for text in (b"abc" * 9, b"abc" * 9, b"abc" * 9):
            payload = self.compressor.compress(text, Deflate())
            self.assertEqual(inflater.decompress(payload + TAIL), text)

    def test_a_repeated_message_is_the_same_bytes(self) -> None:
        """Nothing of another message is in it, so nothing can be learnt from its length."""
        secret = self.compressor.compress(b"secret-4711", Deflate())
        self.compressor.compress(b"secret-4711 secret-4711", Deflate())
        self.assertEqual(self.compressor.compress(b"secret-4711", Deflate()), secret)

    def test_larger_messages_are_compressed_less(self) -> None:
        """Levels change at their bounds; beyond the last a message is only wrapped."""
        bounds = [(16_384, 6), (16_385, 1), (2_097_152, 1), (2_097_153, 0)]
        for size, level in bounds:
            self.assertEqual(level_of(size), level)
            self.assertEqual(inflate(self.compressor.compress(bytes(size), Deflate())), bytes(size))


class Frames(SynchronousTestCase):
    """A message as it goes out."""

    def setUp(self) -> None:
        self.compressor = Compressor()

    def test_a_frame_has_its_length_in_the_shortest_form(self) -> None:
        """At every bound of RFC 6455, 5.2."""
        for size, head in (
            (125, b"\x81\x7d"),
            (126, b"\x81\x7e\x00\x7e"),
            (65_535, b"\x81\x7e\xff\xff"),
            (65_536, b"\x81\x7f" + (65_536).to_bytes(8, "big")),
        ):
            frame = Message(b"x" * size, self.compressor).frame(None)
            self.assertEqual(frame, head + b"x" * size)

    def test_a_compressed_frame_says_so(self) -> None:
        """The first reserved bit, and nothing of the tail that every message would end with."""
        frame = Message(b"abc" * 30, self.compressor).frame(Deflate())
        self.assertEqual(frame[0], 0xC1)
        self.assertEqual(frame[1], len(frame) - 2)
        self.assertEqual(inflate(frame[2:]), b"abc" * 30)
        self.assertFalse(frame.endswith(TAIL))

    def test_a_frame_is_made_once_for_all_who_agreed_on_the_same(self) -> None:
        """Sockets share the bytes themselves."""
        message = Message(b"abc", self.compressor)
        self.assertIs(message.frame(Deflate()), message.frame(Deflate(15)))
        self.assertIs(message.frame(None), message.frame(None))
        self.assertIsNot(message.frame(Deflate(9)), message.frame(Deflate()))

    def test_older_clients_see_a_chat_that_waits_for_its_executor_as_running(self) -> None:
        """Everything else they share with newer ones, encoded once (decisions.md 14)."""
        waits = Broadcast(ProcessingUpdated(chat_id="1", phase="reconnecting"), self.compressor)
        older, newer = waits.form(False), waits.form(True)
        assert older is not None and newer is not None
        self.assertIn(b'"phase":"running"', older.text)
        self.assertIn(b'"phase":"reconnecting"', newer.text)
        runs = Broadcast(ProcessingUpdated(chat_id="1", phase="running"), self.compressor)
        self.assertIs(runs.form(False), runs.form(True))

    def test_a_snapshot_for_older_clients(self) -> None:
        """The same, chat by chat."""
        snapshot = ProcessingSnapshot(
            chats=[ProcessingChat("1", "reconnecting"), ProcessingChat("2", "stopping")]
        )
        older = as_older_snapshot(snapshot)
        wanted = [ProcessingChat("1", "running"), ProcessingChat("2", "stopping")]
        self.assertEqual(older.chats, wanted)
        unavailable = ProcessingSnapshot(outcome="unavailable")
        self.assertIs(as_older_snapshot(unavailable), unavailable)
