"""A controller with accounts on, as clients of others meet it: set-up, login, a bearer on HTTP and
on the socket, and what is refused without one (server.md A.1, B; I, CLI).
"""

from __future__ import annotations

import json
import re
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.test.live.foreign import Provider, Stage
from garcon.testing.foreign_client import ForeignClient, discover, message
from garcon.testing.foreign_socket import ForeignSocket
from garcon.testing.websocket_client import Refused, WebSocketClient

DENIED = (401, "VALIDATION_FAILED", False)
ANN = {"username": " ann ", "password": "correct horse"}


class AccountTests(SynchronousTestCase):
    """One controller of its own for each test."""

    def setUp(self) -> None:
        self.stage = Stage.get()
        self.config = self.stage.folder()
        self.service = self.stage.start(self.config, "--workspace", "private", accounts=True)
        self.addCleanup(self.service.kill)
        self.url = self.service.url
        self.nobody = ForeignClient(self.url)

    def open(self, **more: Any) -> ForeignSocket:
        """Open a socket that is well to its end."""
        socket = ForeignSocket(self.url, **more)
        self.addCleanup(socket.close)
        return socket

    def turned_away(self, **more: Any) -> tuple[int, bytes]:
        """Try to open a socket that is refused."""
        with self.assertRaises(Refused) as caught:
            WebSocketClient.open(self.url, **more)
        return caught.exception.status, caught.exception.body

    def test_from_set_up_to_logout(self) -> None:
        """Each state as `/auth/status` tells it; one account; a wrong name and a wrong password say
        the same (B.1).
        """
        self.assertEqual(
            self.nobody.do("GET", "/auth/status"),
            {"needsSetup": True, "isAuthenticated": False, "authDisabled": False},
        )
        for body in ({}, ANN | {"username": " "}, ANN | {"password": "short"}, {"username": "x"}):
            self.assertEqual(self.nobody.ask("POST", "/auth/register", body).status, 400, body)
        made = self.nobody.do("POST", "/auth/register", ANN)
        self.assertEqual(made["user"], {"id": "ann", "username": "ann"})
        self.assertEqual(self.nobody.ask("POST", "/auth/register", ANN).status, 409)
        self.assertEqual(
            self.nobody.do("GET", "/auth/status"),
            {"needsSetup": False, "isAuthenticated": False, "authDisabled": False},
        )
        login = {"username": "ann", "password": ANN["password"]}
        wrong = [
            self.nobody.ask("POST", "/auth/login", login | change)
            for change in ({"password": "wrong horse"}, {"username": "bob"}, {"username": " ann "})
        ]
        self.assertEqual({one.status for one in wrong}, {401})
        self.assertEqual(len({one.body for one in wrong}), 1)
        self.assertEqual(self.nobody.ask("POST", "/auth/login", {}).status, 400)
        token = self.nobody.do("POST", "/auth/login", login)["token"]
        ann = ForeignClient(self.url, token)
        self.assertEqual(ann.do("GET", "/auth/user")["user"]["username"], "ann")
        ann.do("POST", "/auth/logout")
        self.assertEqual(ann.ask("GET", "/auth/user").status, 401)
        self.assertEqual(ForeignClient(self.url, made["token"]).chats(), [])
        stored = (self.config / "auth.json").read_text()
        for secret in (ANN["password"], token, made["token"]):
            self.assertNotIn(secret, stored + self.service.output.text())

    def test_who_is_let_in(self) -> None:
        """Whoever brings a token, over HTTP and on the socket, as a bearer or as a subprotocol; the
        capability over HTTP alone; nobody else (A.1, B.4, B.7).
        """
        line = re.compile(r"^\[server\] Authentication: ENABLED$")
        self.assertIsNotNone(self.service.output.wait_for(line, 20))
        token = self.nobody.do("POST", "/auth/register", ANN)["token"]
        self.assertRegex(token, r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
        for path in ("/chats", "/models", "/app/settings", "/chats/snapshot", "/auth/user"):
            reply = self.nobody.ask("GET", path)
            self.assertEqual(reply.status, 401, path)
            bad = ForeignClient(self.url, "wrong").ask("GET", path)
            self.assertEqual(bad.status, 401, path)
        self.assertEqual(self.nobody.refused("GET", "/chats"), DENIED)
        self.assertEqual(ForeignClient(self.url, "x").refused("POST", "/chats/start", {}), DENIED)
        for header in (f"bearer {token}", f"Bearer  {token}", token, f"Basic {token}"):
            reply = self.nobody.ask("GET", "/chats", headers={"Authorization": header})
            self.assertEqual(reply.status, 401, header)
        for place in (f"/api/v1/chats?token={token}", f"/api/v1/chats?access_token={token}"):
            self.assertEqual(self.nobody.raw("GET", place).status, 401)
        self.assertEqual(ForeignClient(self.url, token).chats(), [])
        command, found = discover(self.config, "private")
        self.assertEqual(command.chats(), [])
        self.assertEqual(command.do("GET", "/auth/user")["user"]["username"], "ann")

        self.assertEqual(self.turned_away(), (401, b"Unauthorized"))
        capability = found["localCapability"]
        for more in (
            {"token": "wrong"},
            {"token": capability},
            {"protocols": ["garcon-v1", f"garcon-auth.{capability}"]},
            {"protocols": ["garcon-v1", "garcon-auth."]},
            {"path": f"/ws?token={token}"},
            {"token": "wrong", "protocols": ["garcon-v1", f"garcon-auth.{token}"]},
        ):
            self.assertEqual(self.turned_away(**more), (401, b"Unauthorized"), more)
        bearer = self.open(token=token)
        self.assertNotIn("sec-websocket-protocol", bearer.connection.headers)
        offered = self.open(protocols=["garcon-v1", f"garcon-auth.{token}"])
        self.assertEqual(offered.connection.headers["sec-websocket-protocol"], "garcon-v1")
        for socket in (bearer, offered):
            socket.ping()

    def test_a_turn_behind_an_account(self) -> None:
        """With nothing but a bearer, from a profile to the reply."""
        token = self.nobody.do("POST", "/auth/register", ANN)["token"]
        client, socket = ForeignClient(self.url, token), self.open(token=token)
        self.stage.models[0].control("", {"sides_take_turns": True})
        provider = Provider.make(client, self.stage.models[0])
        body = message(
            chatId=client.ids.chat(),
            projectPath=str(self.stage.fleet.project("project")),
            command="hello",
        )
        turn = client.do("POST", "/chats/start", body | provider.chosen())
        self.assertEqual(socket.turn_ended(turn)["type"], "agent-run-finished")
        self.assertEqual(client.settled(turn)["output"]["assistantMessages"], ["ok"])
        self.assertEqual(self.service.stop(), 0)
        self.assertNotIn(token, json.dumps(client.answers) + self.service.output.text())

    def test_the_eleventh_attempt_in_a_minute(self) -> None:
        """429, before anything of it is read; set-ups are counted apart (B.1)."""
        for _ in range(10):
            self.assertEqual(self.nobody.ask("POST", "/auth/login", {}).status, 400)
        limited = (429, "RATE_LIMITED", True)
        self.assertEqual(self.nobody.refused("POST", "/auth/login", {}), limited)
        self.assertEqual(self.nobody.do("POST", "/auth/register", ANN)["user"]["id"], "ann")


class DisabledTests(SynchronousTestCase):
    """Without accounts."""

    def test_everybody_is_local(self) -> None:
        """Whatever token is brought; there is nothing to set up and nobody to log in (B.5)."""
        stage = Stage.get()
        service = stage.start(stage.folder(), "--workspace", "open")
        self.addCleanup(service.kill)
        for client in (ForeignClient(service.url), ForeignClient(service.url, "whatever")):
            self.assertEqual(
                client.do("GET", "/auth/status"),
                {"needsSetup": False, "isAuthenticated": True, "authDisabled": True},
            )
            self.assertEqual(
                client.do("GET", "/auth/user"), {"user": {"id": "local", "username": "local"}}
            )
            for path in ("register", "login"):
                self.assertEqual(client.ask("POST", f"/auth/{path}", ANN).status, 403)
        socket = ForeignSocket(service.url, token="whatever")
        socket.ping()
        socket.close()
