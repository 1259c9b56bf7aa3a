"""The upgrade of the browser socket, its bounds and its end, over a running controller (server.md
A.1 to A.4).
"""

from __future__ import annotations

import ssl
import time
from typing import Any

from twisted.internet import reactor as installed

from garcon.test.live.browser import SocketCase
from garcon.test.live.test_controller import API, ask
from garcon.testing.certificates import make_authority
from garcon.testing.fleet import eventually
from garcon.testing.websocket_client import (
    CLOSE,
    PING,
    PONG,
    Refused,
    WebSocketClient,
)

reactor: Any = installed

CREDENTIALS = {"username": "ann", "password": "correct horse"}


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
