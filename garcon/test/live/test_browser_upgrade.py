"""The upgrade of the browser socket, its bounds and its end, over a running controller (server.md
A.1 to A.4).
"""

from __future__ import annotations

import json
import ssl
import time
from typing import Any

from garcon.contract.limits import MIB
from garcon.test.live.test_controller import API, ControllerCase, ask
from garcon.testing.certificates import make_authority
from garcon.testing.fleet import Service, eventually
from garcon.testing.websocket_client import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    Refused,
    WebSocketClient,
)

CREDENTIALS = {"username": "ann", "password": "correct horse"}


class SocketCase(ControllerCase):
    """A controller and clients of its socket."""

    controller: Service

    def open(self, **more: Any) -> WebSocketClient:
        """Open a socket that ends with the test."""
        client = WebSocketClient.open(self.controller.url, **more)
        self.addCleanup(client.close)
        return client

    def turned_away(self, **more: Any) -> tuple[int, bytes]:
        """Try to open one that is refused."""
        with self.assertRaises(Refused) as caught:
            self.open(**more)
        return caught.exception.status, caught.exception.body

    def ping(self, client: WebSocketClient, request_id: str = "p") -> None:
        """Ask whether the controller answers."""
        pong = client.ask({"type": "ws-ping", "clientRequestId": request_id, "sentAt": 7})
        self.assertEqual((pong["type"], pong["sentAt"]), ("ws-pong", 7))


class AccountTests(SocketCase):
    """Accounts are on: who may open a socket."""

    def setUp(self) -> None:
        super().setUp()
        self.controller = self.start()
        registered = ask(self.controller.url, "POST", f"{API}/auth/register", CREDENTIALS)
        self.token: str = registered.json["token"]

    def test_a_bearer(self) -> None:
        """For programs: nothing is selected where nothing was offered."""
        client = self.open(token=self.token)
        self.assertNotIn("sec-websocket-protocol", client.headers)
        self.ping(client)

    def test_a_token_among_the_subprotocols(self) -> None:
        """For browsers: only the application protocol comes back."""
        client = self.open(protocols=["garcon-v1", f"garcon-auth.{self.token}"])
        self.assertEqual(client.headers["sec-websocket-protocol"], "garcon-v1")
        self.ping(client)
        client = self.open(protocols=[f"garcon-auth.{self.token}", "", "garcon-v2"])
        self.assertNotIn("sec-websocket-protocol", client.headers)
        self.ping(client)

    def test_everybody_else_is_unauthorized(self) -> None:
        """No token, a wrong one, and one in the URL, wherever it stands there."""
        wanted = (401, b"Unauthorized")
        self.assertEqual(self.turned_away(), wanted)
        self.assertEqual(self.turned_away(token="wrong"), wanted)
        self.assertEqual(self.turned_away(protocols=["garcon-v1", "garcon-auth."]), wanted)
        for path in (f"/ws?token={self.token}", f"/ws?access_token={self.token}"):
            self.assertEqual(self.turned_away(path=path), wanted)

    def test_a_wrong_bearer_is_not_mended_by_a_subprotocol(self) -> None:
        """It is the credential, and it fails."""
        protocols = ["garcon-v1", f"garcon-auth.{self.token}"]
        self.assertEqual(
            self.turned_away(token="wrong", protocols=protocols), (401, b"Unauthorized")
        )
        self.ping(self.open(headers={"Authorization": "Basic eDp5"}, protocols=protocols))

    def test_the_local_capability_is_refused(self) -> None:
        """It opens every route and no socket."""
        capability = self.controller.descriptor()["localCapability"]
        self.assertEqual(
            ask(self.controller.url, "GET", f"{API}/chats", token=capability).status, 200
        )
        self.assertEqual(self.turned_away(token=capability), (401, b"Unauthorized"))
        protocols = ["garcon-v1", f"garcon-auth.{capability}"]
        self.assertEqual(self.turned_away(protocols=protocols), (401, b"Unauthorized"))

    def test_a_logout_closes_no_socket_but_opens_none(self) -> None:
        """What was judged at its upgrade stays; the token is good for no other."""
        client = self.open(token=self.token)
        ask(self.controller.url, "POST", f"{API}/auth/logout", token=self.token)
        self.ping(client)
        self.assertEqual(self.turned_away(token=self.token), (401, b"Unauthorized"))

    def test_a_socket_outlives_its_token(self) -> None:
        """Only its rights on terminals end (server.md C.7)."""
        self.assertEqual(self.controller.stop(), 0)
        self.controller = self.start(environment={"GARCON_JWT_TOKEN_EXPIRY": "2s"})
        login = ask(self.controller.url, "POST", f"{API}/auth/login", CREDENTIALS)
        token = login.json["token"]
        client = self.open(token=token)
        eventually(
            "the token's end",
            lambda: ask(self.controller.url, "GET", f"{API}/chats", token=token).status == 401,
        )
        self.ping(client)
        self.assertEqual(self.turned_away(token=token), (401, b"Unauthorized"))

    def test_no_token_is_in_the_log(self) -> None:
        """Neither of those who were let in nor of those who were not."""
        self.ping(self.open(protocols=["garcon-v1", f"garcon-auth.{self.token}"]))
        self.turned_away(protocols=["garcon-auth.not-the-token"])
        self.turned_away(path=f"/ws?token={self.token}")
        self.assertEqual(self.controller.stop(), 0)
        for secret in (self.token, "not-the-token"):
            self.assertNotIn(secret, self.fleet.logs())


class UpgradeTests(SocketCase):
    """Accounts are off: everybody on this machine may open a socket."""

    def setUp(self) -> None:
        super().setUp()
        self.controller = self.start(
            "--public-url",
            "https://garcon.example:8443",
            "--allow-host",
            "other.example",
            auth=False,
            environment={"GARCON_MAX_WS_CLIENTS": "3", "GARCON_WS_IDLE_TIMEOUT_SECONDS": "4"},
        )

    def test_no_token_is_looked_at(self) -> None:
        """Also a wrong one is let in."""
        for more in ({}, {"token": "wrong"}, {"protocols": ["garcon-v1", "garcon-auth.x"]}):
            client = self.open(**more)
            self.ping(client)
            client.close()

    def test_one_path_can_be_upgraded(self) -> None:
        """Exactly that; its query is ignored."""
        self.ping(self.open(path="/ws?a=b"))
        for path in ("/", "/ws/", "/ws2", "/WS", f"{API}/chats", "/livez", "/socket"):
            self.assertEqual(self.turned_away(path=path), (404, b"Not found"), path)

    def test_what_is_no_handshake_is_refused(self) -> None:
        """And costs no place: there are three, and afterwards three can be had."""
        for headers in (
            {"Sec-WebSocket-Key": "short"},
            {"Sec-WebSocket-Version": "12"},
            {"Upgrade": "other"},
            {"Upgrade": ""},
            {"Connection": "keep-alive"},
        ):
            self.assertEqual(self.turned_away(headers=headers), (400, b"WebSocket upgrade failed"))
        for _ in range(3):
            self.ping(self.open())

    def test_there_are_so_many_places_and_no_more(self) -> None:
        """One more is refused by its name, and let in when one has gone."""
        clients = [self.open() for _ in range(3)]
        self.assertEqual(self.turned_away(), (503, b"hard-capacity"))
        clients[0].close()
        client = eventually("a free place", self._try)
        self.ping(client)
        self.assertEqual(self.turned_away(), (503, b"hard-capacity"))

    def _try(self) -> WebSocketClient | None:
        try:
            return self.open()
        except Refused:
            return None

    def test_pages_of_ours_may_open_sockets(self) -> None:
        """Those of this machine, of the public address and of configured names; no other page."""
        port = self.controller.port
        for host, origin in (
            *(("", f"http://127.0.0.1:{port}"), ("", "http://localhost:5173"), ("", "")),
            ("garcon.example:8443", "https://garcon.example:8443"),
            ("other.example", "https://other.example"),
        ):
            client = self.open(headers=self._names(host, origin))
            self.ping(client)
            client.close()
        for host, origin in (
            *(("", "http://evil.example"), ("", "null"), ("", "file://"), ("evil.example", "")),
            ("evil.example", "http://evil.example"),
        ):
            status, _ = self.turned_away(headers=self._names(host, origin))
            self.assertEqual(status, 403, f"{host} {origin}")

    def _names(self, host: str, origin: str) -> dict[str, str]:
        return {"Origin": origin, **({"Host": host} if host else {})}

    def test_a_silent_client_is_pinged_and_dropped(self) -> None:
        """One that answers pings stays; the idle time is four seconds here."""
        silent, good = self.open(), self.open()
        began = time.monotonic()
        while time.monotonic() - began < 6:
            frame = good.frame()
            self.assertEqual(frame.opcode, PING)
            good.send_frame(PONG, frame.payload)
        self.assertEqual(silent.ended(), "dropped")
        self.ping(good)

    def test_a_goodbye_is_answered(self) -> None:
        """Whatever code it has."""
        for code in (1000, 1001, 3000, 4999):
            client = self.open()
            client.send_frame(CLOSE, code.to_bytes(2, "big") + b"bye")
            self.assertEqual(client.ended(), "closed 1000 ")

    def test_the_end_of_the_controller_drops_all_at_once(self) -> None:
        """Without waiting for anybody, and with status 0."""
        clients = [self.open() for _ in range(3)]
        began = time.monotonic()
        self.assertEqual(self.controller.stop(), 0)
        self.assertLess(time.monotonic() - began, 5)
        for client in clients:
            self.assertEqual(client.ended(), "dropped")


class CommandEndpoint(SocketCase):
    """A controller whose public port is TLS."""

    def test_both_ports_take_sockets(self) -> None:
        """The public one over TLS, and the command's own on loopback (decisions.md 7)."""
        authority = make_authority(self.fleet.root / "tls")
        certificate, key = authority.issue("localhost", "127.0.0.1")
        self.controller = self.start(
            *("--tls-cert", str(certificate), "--tls-private-key", str(key)), auth=False
        )
        command = WebSocketClient.open(self.controller.descriptor()["baseUrl"])
        self.addCleanup(command.close)
        self.ping(command)
        trust = ssl.create_default_context(cafile=str(authority.certificate))
        public = self.open(trust=trust)
        self.ping(public)
        self.assertEqual(self.controller.stop(), 0)
        self.assertEqual(public.ended(), "dropped")


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
