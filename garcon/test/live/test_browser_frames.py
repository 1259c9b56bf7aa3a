"""What goes over an open browser socket: frames, compression, bounds (server.md A.2, A.4)."""

from __future__ import annotations

import json
from typing import Any

from autobahn.twisted.websocket import WebSocketClientFactory, WebSocketClientProtocol
from autobahn.websocket.compress import PerMessageDeflateOffer, PerMessageDeflateResponseAccept
from twisted.internet import reactor as installed
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from garcon.contract.limits import MIB
from garcon.test.live.browser import SocketCase
from garcon.testing.fleet import Fleet
from garcon.testing.websocket_client import BINARY, PING, PONG, TEXT

reactor: Any = installed


class FrameTests(SocketCase):
    """What goes over an open socket."""

    def setUp(self) -> None:
        super().setUp()
        self.controller = self.start(
            auth=False, environment={"GARCON_WS_MAX_PAYLOAD_LENGTH": str(MIB)}
        )

    def test_compression_is_as_agreed(self) -> None:
        """With every offer that can be kept; without one, and with one that cannot, plain."""
        agreed = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
        for offer, answer in (
            ("permessage-deflate", agreed),
            ("permessage-deflate; client_max_window_bits", agreed),
            (
                "permessage-deflate; server_max_window_bits=10",
                "permessage-deflate; server_no_context_takeover; server_max_window_bits=10;"
                " client_no_context_takeover",
            ),
            ("permessage-deflate; server_max_window_bits=8, permessage-deflate", agreed),
            ("permessage-deflate; unheard_of", None),
            ("x-other", None),
            (None, None),
        ):
            client = self.open(deflate=offer)
            self.assertEqual(client.headers.get("sec-websocket-extensions"), answer)
            for n in range(3):
                self.ping(client, f"p{n}")

    def test_every_message_is_compressed_and_no_control_frame(self) -> None:
        """The client judges every frame; here are some of each."""
        client = self.open()
        client.send_frame(PING, b"are you there")
        frame = client.frame()
        self.assertEqual((frame.opcode, frame.payload), (PONG, b"are you there"))
        client.send_frame(TEXT, b"{")
        self.assertEqual(client.json(), {"type": "ws-fault", "error": "Malformed JSON"})

    def test_text_and_binary_are_read_alike(self) -> None:
        """In one frame or several, compressed or not; what is no UTF-8 is malformed JSON."""
        client = self.open()
        text = json.dumps({"type": "ws-ping", "clientRequestId": "é", "sentAt": 1}).encode()
        client.send_frame(BINARY, text)
        self.assertEqual(client.json()["clientRequestId"], "é")
        client.send_compressed(text)
        self.assertEqual(client.json()["clientRequestId"], "é")
        client.send_frame(TEXT, text[:9], 0)
        client.send_frame(PING, b"between")
        client.send_frame(0, text[9:])
        self.assertEqual(client.frame().opcode, PONG)
        self.assertEqual(client.json()["clientRequestId"], "é")
        for opcode in (TEXT, BINARY):
            client.send_frame(opcode, b'{"type":"\xff"}')
            self.assertEqual(client.json(), {"type": "ws-fault", "error": "Malformed JSON"})

    def test_a_message_has_its_bound(self) -> None:
        """At it the message is read, one byte more drops the socket: plain, compressed, in pieces.

        It is a mebibyte here.
        """
        client = self.open()
        text = b'{"type":"ws-ping","clientRequestId":"p","x":"%s"}'
        whole = text % (b"x" * (MIB - len(text) + 2))
        self.assertEqual(len(whole), MIB)
        client.send_frame(TEXT, whole)
        self.assertEqual(client.json()["clientRequestId"], "p")
        client.send_compressed(whole)
        self.assertEqual(client.json()["clientRequestId"], "p")
        client.send_frame(TEXT, whole + b" ")
        self.assertEqual(client.ended(), "dropped")
        client = self.open()
        client.send_compressed(whole + b" ")
        self.assertEqual(client.ended(), "dropped")
        client = self.open()
        client.send_frame(TEXT, whole, 0)
        client.send_frame(0, b" ")
        self.assertEqual(client.ended(), "dropped")

    def test_a_broken_protocol_drops_the_socket(self) -> None:
        """A frame without a mask, a control frame that is long, a message within another."""
        for raw in (b"\x81\x02{}", b"\x89\xfe\x00\x7e" + bytes(130), b"\x01\x80" + bytes(4)):
            client = self.open()
            client.connection.sendall(raw + (b"\x81\x80" + bytes(4)))
            self.assertEqual(client.ended(), "dropped")

    def test_whoever_floods_with_pings_and_reads_nothing_costs_nothing(self) -> None:
        """What would be answered is not even kept; others are served meanwhile."""
        flood = self.open(receive_buffer=4_096)
        flood.connection.settimeout(2)
        ping = bytes((0x89, 0xFD)) + bytes(4) + bytes(125)
        try:
            for _ in range(400):
                flood.connection.sendall(ping * 1_000)
        except TimeoutError:
            pass  # it is not read any more, which is as good
        self.ping(self.open())
        status = (self.controller.process.pid, "status")
        with open(f"/proc/{status[0]}/{status[1]}") as file:
            (resident,) = [line for line in file if line.startswith("VmRSS")]
        self.assertLess(int(resident.split()[1]), 200 * 1024)


class Listener(WebSocketClientProtocol):
    """Autobahn's own client: asks once and keeps the answer."""

    factory: Any

    def onOpen(self) -> None:
        """Ask."""
        self.sendMessage(b'{"type":"ws-ping","clientRequestId":"p","sentAt":7}')

    def onMessage(self, payload: bytes, is_binary: bool) -> None:
        """Keep the answer and say goodbye."""
        self.factory.heard.append(payload)
        self.factory.extensions = self.websocket_extensions_in_use
        self.sendClose(1000)

    def onClose(self, was_clean: bool, code: int, reason: str) -> None:
        """It is over."""
        self.factory.over.callback((was_clean, code))


class InteroperationTests(TestCase):
    """A client of somebody else's."""

    async def test_autobahn_understands_us(self) -> None:
        """Upgrade, subprotocol, compression, message and goodbye."""
        with Fleet() as fleet:
            controller = await deferToThread(fleet.controller)
            factory: Any = WebSocketClientFactory(
                f"ws://127.0.0.1:{controller.port}/ws", protocols=["garcon-v1"], reactor=reactor
            )
            factory.protocol = Listener
            factory.heard, factory.over = [], Deferred()
            factory.setProtocolOptions(
                openHandshakeTimeout=0,
                closeHandshakeTimeout=0,
                serverConnectionDropTimeout=0,
                perMessageCompressionOffers=[PerMessageDeflateOffer()],
                perMessageCompressionAccept=PerMessageDeflateResponseAccept,
            )
            reactor.connectTCP("127.0.0.1", controller.port, factory)
            ended = await factory.over.addTimeout(20, reactor)
            self.assertEqual(ended, (True, 1000))
            self.assertEqual(json.loads(factory.heard[0])["type"], "ws-pong")
            (extension,) = factory.extensions
            self.assertTrue(extension.server_no_context_takeover)
            self.assertEqual(await deferToThread(controller.stop), 0)
