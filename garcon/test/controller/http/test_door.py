"""The controller's HTTP door as a client meets it, in memory, with small handlers behind it."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers

from garcon.contract import operations
from garcon.contract.decoding import PARTS
from garcon.controller.handlers import Reply
from garcon.controller.http.door import parse_body
from garcon.controller.principals import Principal
from garcon.errors import GarconError
from garcon.local.descriptors import proof
from garcon.test.controller.http.cast import INSTANCE, PATH, DoorCase, Response
from garcon.web.exchange import Incoming


class RoutingTests(DoorCase):
    """Exact paths and methods; everything else does not exist (chats.md 1.1, 5.20, 8.9)."""

    def test_a_listed_operation_is_served(self) -> None:
        """JSON, with the operation's status and caching rule."""
        response = self.ask("GET", f"{PATH}/executors")
        self.assertEqual(response.status, 200)
        self.assertEqual(response.headers["content-type"], "application/json")
        self.assertEqual(response.headers["cache-control"], "no-store")
        self.assertEqual(response.json, {"executors": []})

    def test_head_is_get_without_its_body(self) -> None:
        """The same headers."""
        response = self.ask("HEAD", f"{PATH}/executors")
        self.assertEqual((response.status, response.body), (200, b""))
        self.assertEqual(response.headers["content-length"], str(len(b'{"executors":[]}')))

    def test_unknown_paths_and_methods_are_not_found(self) -> None:
        """In plain text, with or without a token."""
        for method, path in (
            ("GET", "/"),
            ("GET", f"{PATH}/nothing"),
            ("GET", f"{PATH}/executors/"),
            ("GET", "/api/v2/executors"),
            ("PUT", f"{PATH}/executors"),
            ("OPTIONS", f"{PATH}/executors"),
            ("POST", "/livez"),
            ("GET", f"{PATH}/models"),
            ("PATCH", f"{PATH}/executors/a/b"),
            ("PATCH", f"{PATH}/executors//"),
            ("get", f"{PATH}/executors"),
        ):
            for headers in ({}, {"Authorization": ""}):
                response = self.ask(method, path, headers)
                self.assertEqual((response.status, response.body), (404, b"Not found"), path)
                self.assertTrue(response.headers["content-type"].startswith("text/plain"))
        self.assertEqual(self.calls, [])

    def test_the_executor_of_a_path_reaches_the_handler(self) -> None:
        """Its one variable segment."""
        self.ask("PATCH", f"{PATH}/executors/abc%20d", body=b"{}")
        self.assertEqual(self.calls[0].executor_id, "abc d")

    def test_the_query_reaches_the_handler(self) -> None:
        """By its contract names; a repeated one is refused."""
        self.ask("GET", f"{PATH}/chats/turn-receipt?chatId=1&turnId=t&other=x")
        self.assertEqual((self.calls[0].query.chat_id, self.calls[0].query.turn_id), ("1", "t"))
        response = self.ask("GET", f"{PATH}/chats/turn-receipt?chatId=1&chatId=2")
        self.assert_error(response, 400, "VALIDATION_FAILED", False)

    def test_the_suggested_base_is_the_requests_own(self) -> None:
        """Scheme and Host."""
        self.ask("GET", f"{PATH}/executors", {"Host": "garcon.example:81"})
        self.assertEqual(self.calls[0].base_url, "http://garcon.example:81")

    def test_the_commands_own_port_suggests_no_base(self) -> None:
        """A worker that dialled it would find nothing there."""
        self.site = self.make_site(None)
        self.ask("GET", f"{PATH}/executors")
        self.assertIsNone(self.calls[0].base_url)

    def test_a_handlers_error_is_the_envelope(self) -> None:
        """With its status and headers."""
        self.reply = GarconError("BUSY", "later", status=503, retryable=True, retry_after=3)
        response = self.ask("GET", f"{PATH}/executors")
        self.assert_error(response, 503, "BUSY", True)
        self.assertEqual(response.headers["retry-after"], "3")

    def test_an_unexpected_failure_is_hidden(self) -> None:
        """The log has it, the answer does not."""
        self.reply = RuntimeError("private")
        response = self.ask("GET", f"{PATH}/executors")
        self.assert_error(response, 500, "INTERNAL_ERROR", True)
        self.assertNotIn(b"private", response.body)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)


class IdentityTests(DoorCase):
    """Who may ask (chats.md 1.1)."""

    def test_the_capability_is_the_local_principal(self) -> None:
        """Its holder has this machine's authority."""
        self.ask("GET", f"{PATH}/executors")
        self.assertEqual(self.calls[0].principal, Principal("local", "local", "local"))

    def test_everyone_else_is_refused(self) -> None:
        """Without a token, and with any other."""
        for value in (
            "",
            "Bearer",
            "Bearer ",
            self.capability,
            f"bearer {self.capability}",
            f"Bearer {self.capability}x",
            f"Bearer {self.capability[:-1]}",
            f"Bearer  {self.capability}",
            f"Bearer {self.capability}, Bearer {self.capability}",
            "Bearer \xff",
        ):
            response = self.ask("GET", f"{PATH}/executors", {"Authorization": value})
            self.assert_error(response, 401, "VALIDATION_FAILED", False)
            self.assertEqual(response.headers["cache-control"], "no-store")
        self.assertEqual(self.calls, [])

    def test_a_stranger_uploads_nothing(self) -> None:
        """The refusal comes from the headers alone."""
        response = self.ask(
            "POST", f"{PATH}/chats/stop", {"Authorization": "", "Content-Length": "50"}
        )
        self.assertEqual(response.status, 401)
        self.assertEqual(response.headers["connection"], "close")


class OpenDoorTests(DoorCase):
    """Accounts switched off."""

    disable_auth = True

    def test_everyone_is_the_local_principal(self) -> None:
        """Whatever token is sent."""
        for value in ("", "Bearer x"):
            response = self.ask("GET", f"{PATH}/executors", {"Authorization": value})
            self.assertEqual(response.status, 200)
        self.assertEqual(self.calls[1].principal.kind, "local")


class FenceTests(DoorCase):
    """The instance header, the Host header and the end."""

    def test_another_instance_is_refused_before_its_body(self) -> None:
        """It is not this controller that the invocation began with."""
        response = self.ask(
            "POST",
            f"{PATH}/chats/stop",
            {"X-Garcon-Server-Instance": "other", "Content-Length": "50"},
        )
        self.assert_error(response, 409, "CLI_CONTROLLER_CHANGED", False)
        self.assertEqual(self.calls, [])

    def test_this_instance_and_none_pass(self) -> None:
        """The header is checked when it is sent."""
        for headers in ({"X-Garcon-Server-Instance": INSTANCE}, {}):
            self.assertEqual(self.ask("GET", f"{PATH}/executors", headers).status, 200)

    def test_the_fence_is_no_credential(self) -> None:
        """Knowing the instance opens nothing."""
        headers = {"X-Garcon-Server-Instance": INSTANCE, "Authorization": ""}
        self.assertEqual(self.ask("GET", f"{PATH}/executors", headers).status, 401)

    def test_foreign_hosts_are_refused(self) -> None:
        """A page that resolves its name to this machine gets nothing, not even a proof."""
        for host, status in (
            ("garcon.example", 200),
            ("127.0.0.1:9", 200),
            ("evil.example", 403),
            ("", 403),
        ):
            response = self.ask("GET", f"{PATH}/openapi.json", {"Host": host})
            self.assertEqual(response.status, status, host)

    def test_foreign_origins_are_refused(self) -> None:
        """A page of another site gets nothing, whatever it asks for, and nothing of it is read."""
        for origin, status in (
            ("http://localhost:5173", 200),
            ("http://localhost:1", 200),
            ("https://garcon.example", 200),
            ("http://named.example:3000", 200),
            ("http://garcon.example", 403),
            ("https://evil.example", 403),
            ("null", 403),
        ):
            for path in (f"{PATH}/openapi.json", f"{PATH}/executors", "/livez"):
                response = self.ask("GET", path, {"Origin": origin})
                self.assertEqual(response.status, status, (origin, path))
        self.calls.clear()
        headers = {"Origin": "https://evil.example", "Content-Length": "50"}
        self.assert_error(
            self.ask("POST", f"{PATH}/chats/stop", headers), 403, "VALIDATION_FAILED", False
        )
        self.assertEqual(self.calls, [])

    def test_a_page_of_the_very_address_may_ask(self) -> None:
        """It is the one that this door served."""
        for origin, status in (
            ("https://garcon.example:81", 200),
            ("http://garcon.example:82", 403),
        ):
            headers = {"Host": "garcon.example:81", "Origin": origin}
            self.assertEqual(self.ask("GET", f"{PATH}/executors", headers).status, status)

    def test_workers_sockets_are_exempt(self) -> None:
        """Their pre-shared key decides; a plain request there is no route."""
        path = f"/executor/{INSTANCE}"
        self.assertEqual(self.ask("GET", path, {"Host": "evil.example"}).status, 404)
        upgrade = {
            "Host": "evil.example",
            "Origin": "https://evil.example",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
        }
        response = self.ask("GET", path, upgrade)
        # The resource of this test has no child, and says so in its own way.
        self.assertNotEqual(response.body, b"Not found")

    def test_the_commands_own_port_takes_no_workers(self) -> None:
        """The path does not exist there."""
        self.site = self.make_site(None)
        response = self.ask("GET", f"/executor/{INSTANCE}", {"Upgrade": "websocket"})
        self.assertEqual((response.status, response.body), (404, b"Not found"))

    def test_a_stopping_controller_says_so(self) -> None:
        """And the client may come again."""
        self.stopping = True
        self.assert_error(self.ask("GET", f"{PATH}/executors"), 503, "SERVER_SHUTTING_DOWN", True)
        self.assertEqual(self.calls, [])

    def test_bodies_of_the_limit_and_one_more(self) -> None:
        """N bytes are taken, N+1 are a bare 413 (chats.md 1.1)."""
        body = b"{" + b" " * 98 + b"}"
        self.assertEqual(self.ask("PUT", f"{PATH}/app/settings", body=body).status, 200)
        for more in ({}, {"Expect": "100-continue"}):
            response = self.ask("PUT", f"{PATH}/app/settings", more, body + b" ")
            self.assertEqual((response.status, response.body), (413, b""))


class JsonTests(DoorCase):
    """What counts as a body (chats.md 1.1)."""

    def body_of(self, content_type: str, body: bytes) -> Any:
        """Send a settings patch and return what the handler saw, or the answer."""
        self.calls.clear()
        response = self.ask("PUT", f"{PATH}/app/settings", {"Content-Type": content_type}, body)
        return self.calls[0].body.ui if self.calls else response

    def test_json_by_its_content_type(self) -> None:
        """In any case and with parameters."""
        for kind in ("application/json", "Application/JSON; charset=utf-8"):
            self.assertEqual(self.body_of(kind, b'{"ui":{"a":1}}'), {"a": 1})

    def test_everything_else_is_an_empty_object(self) -> None:
        """Another type, or nothing at all."""
        self.assertIsNone(self.body_of("text/plain", b'{"ui":{"a":1}}'))
        self.ask("PUT", f"{PATH}/app/settings")
        self.assertIsNone(self.calls[-1].body.ui)

    def test_a_type_that_web_pages_may_send_unasked_is_not_json(self) -> None:
        """The media type decides; what follows it does not."""
        for kind in ("text/plain;application/json", "text/plain; x=application/json"):
            self.assertIsNone(self.body_of(kind, b'{"ui":{"a":1}}'))

    def test_broken_json(self) -> None:
        """The fixed text of the contract."""
        for body in (b"{", b'{"a":\xff}', b"[" * 90):
            response = self.body_of("application/json", body)
            self.assert_error(response, 400, "VALIDATION_FAILED", False)
            self.assertEqual(response.json["error"], "Malformed JSON")

    def test_json_of_very_many_parts(self) -> None:
        """It would take seconds to read, and is answered as broken."""
        headers = Headers({"Content-Type": ["application/json"]})
        for parts in (PARTS, PARTS + 1):
            # The object and the list in it are two.
            body = b'{"ui":[' + b"[]," * (parts - 3) + b"[]]}"
            incoming = Incoming("PUT", PATH, (), headers, len(body), "", False, body=body)
            if parts == PARTS:
                self.assertEqual(len(parse_body(incoming)["ui"]), PARTS - 2)
                continue
            error = self.assertRaises(GarconError, parse_body, incoming)
            self.assertEqual((error.status, error.text), (400, "Malformed JSON"))

    def test_json_that_is_no_object(self) -> None:
        """No operation takes one."""
        for body in (b"[]", b"null", b"3"):
            response = self.body_of("application/json", body)
            self.assert_error(response, 400, "VALIDATION_FAILED", False)


class DiscoveryTests(DoorCase):
    """What a client learns before and after it shows its token (chats.md 3.39)."""

    CHALLENGE = "A" * 43

    def test_the_proof_needs_no_token(self) -> None:
        """It shows that this process wrote its descriptor."""
        response = self.ask(
            "GET", f"{PATH}/runtime?challenge={self.CHALLENGE}", {"Authorization": ""}
        )
        self.assertEqual(response.status, 200)
        self.assertEqual(response.headers["cache-control"], "no-store")
        self.assertEqual(
            response.json,
            {
                "schemaVersion": 1,
                "instanceId": INSTANCE,
                "proof": proof(self.capability, INSTANCE, self.CHALLENGE),
            },
        )

    def test_a_bad_challenge(self) -> None:
        """Anything but 43 base64url characters is 400, and not cached either."""
        for challenge in ("", "A" * 42, "A" * 44, "A" * 42 + "%2B", "A" * 42 + "%3D"):
            response = self.ask("GET", f"{PATH}/runtime?challenge={challenge}")
            self.assertEqual(response.status, 400)
            self.assertEqual(list(response.json), ["error"])
            self.assertEqual(response.headers["cache-control"], "no-store")

    def test_the_context(self) -> None:
        """The instance, Local as the default executor, the workspace's name."""
        response = self.ask("GET", f"{PATH}/cli/context")
        self.assertEqual(
            response.json,
            {
                "serverInstanceId": INSTANCE,
                "defaultExecutorId": "local",
                "workspaceName": "default",
            },
        )
        self.assertEqual(response.headers["cache-control"], "no-store")
        self.assertEqual(self.ask("GET", f"{PATH}/cli/context", {"Authorization": ""}).status, 401)

    def test_the_description_is_open(self) -> None:
        """And lists every operation."""
        response = self.ask("GET", f"{PATH}/openapi.json", {"Authorization": ""})
        paths = response.json["paths"]
        listed = {path: methods for path, methods in paths.items() if path.startswith(f"{PATH}/")}
        self.assertEqual(
            sum(len(methods) for methods in listed.values()), len(operations.OPERATIONS)
        )
        self.assertIn("patch", paths["/api/v1/executors/{executorId}"])

    def test_health(self) -> None:
        """Alive, ready, and why not: the reasons are for a principal only."""
        no_token = {"Authorization": ""}
        self.assertEqual(self.ask("GET", "/livez", no_token).body, b"ok")
        self.assertEqual(self.ask("GET", "/readyz", no_token).status, 200)
        self.assertEqual(self.ask("GET", "/readyz?verbose", no_token).status, 401)
        self.stopping = True
        self.assertEqual(self.ask("GET", "/livez", no_token).status, 200)
        self.assertEqual(self.ask("GET", "/readyz", no_token).status, 503)
        verbose = self.ask("GET", "/readyz?verbose")
        self.assertEqual(verbose.json, {"ready": False, "reasons": ["stopping"]})


class MutationTests(DoorCase):
    """A client that leaves does not undo what it began."""

    STOP = b'{"clientRequestId":"a","chatId":"b"}'

    def test_a_read_is_cancelled(self) -> None:
        """Nobody else needs it."""
        cancelled: list[bool] = []
        self.reply = Deferred(lambda d: cancelled.append(True))
        channel, _ = self.begin("GET", f"{PATH}/executors")
        channel.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(cancelled, [True])

    def test_a_mutation_runs_to_its_end(self) -> None:
        """And is known to be under way until then."""
        cancelled: list[bool] = []
        work = self.reply = Deferred(lambda d: cancelled.append(True))
        channel, transport = self.begin("POST", f"{PATH}/chats/stop", body=self.STOP)
        channel.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(cancelled, [])
        self.assertEqual(len(self.door.under_way()), 1)
        work.callback(Reply(None))
        self.assertEqual(self.door.under_way(), [])
        self.assertEqual(transport.value(), b"")

    def test_a_mutation_that_is_cut_short_may_have_been_done(self) -> None:
        """Only the end of the process cancels one, and it says no more than it knows."""
        self.reply = Deferred()
        _, transport = self.begin("POST", f"{PATH}/chats/stop", body=self.STOP)
        for work in self.door.under_way():
            work.cancel()
        answer = transport.value()
        self.assertTrue(answer.startswith(b"HTTP/1.1 500 "), answer)
        self.assertIn(b"it may have been done", answer)

    def test_nor_is_it_kept_where_nothing_is(self) -> None:
        """Whatever such an operation is answered with, no cache may have it (chats.md 1.1)."""
        self.handlers.register(operations.ADD_ROW, lambda call: Deferred())
        row = b'{"clientRequestId":"a","clientMessageId":"b","chatId":"c","transcriptViewId":"d",'
        _, transport = self.begin("POST", f"{PATH}/chats/rows", body=row + b'"content":"e"}')
        for work in self.door.under_way():
            work.cancel()
        response = Response(transport.value())
        self.assertEqual((response.status, response.headers["cache-control"]), (500, "no-store"))

    def test_a_mutation_answers_who_waits(self) -> None:
        """The ordinary case."""
        work = self.reply = Deferred()
        _, transport = self.begin("POST", f"{PATH}/chats/stop", body=self.STOP)
        work.callback(Reply({"a": 1}))
        self.assertEqual(Response(transport.value()).json, {"a": 1})
