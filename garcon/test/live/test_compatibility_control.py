"""Catalogs, profiles and preambles as clients of others use them (control.md A, B, D; server.md
F.8, B.9).
"""

from __future__ import annotations

import json
from typing import Any

from garcon.test.live.foreign import INVALID, KEY, ForeignCase
from garcon.testing.foreign_client import API
from garcon.testing.foreign_rules import check, iso, positive, text
from garcon.testing.websocket_client import WebSocketClient

PREAMBLE: dict[str, Any] = {
    "enabled": True,
    "title": "T",
    "content": "Be kind.",
    "scope": {"type": "global"},
    "agentIds": [],
    "tagFilter": {"mode": "any", "tags": []},
}


class ControlTests(ForeignCase):
    """What chats are chosen from."""

    def test_the_catalog(self) -> None:
        """Is told apart by its tag, which a change of a profile changes, and is the same under
        another path (A.1, A.7).
        """
        first = self.client.ask("GET", "/models")
        self.assertEqual(first.headers["cache-control"], "private, no-cache")
        tag = first.headers["etag"]
        self.assertRegex(tag, r'^W/"model-catalog:[A-Za-z0-9_-]{43}"$')
        for given in (tag, f'"x", {tag}', "*"):
            same = self.client.raw("GET", f"{API}/models", None, {"If-None-Match": given})
            self.assertEqual((same.status, same.body, same.headers["etag"]), (304, b"", tag))
        ids = [one["id"] for one in first.json["catalog"]["agents"]]
        for provider in self.providers:
            self.assertIn(provider.agent, ids)
        self.assertNotIn("scripted", ids)
        bare = self.client.raw("GET", f"{API}/agents").json
        self.assertEqual([one["id"] for one in bare["agents"]], ids)
        made = self.client.do("POST", "/api-providers", self.models[0].profile())
        changed = self.client.ask("GET", "/models", headers={"If-None-Match": tag})
        self.assertEqual(changed.status, 200)
        self.assertNotEqual(changed.headers["etag"], tag)
        query = {"id": made["id"], "acknowledgeSharedImpact": "true"}
        self.client.do("DELETE", "/api-providers", **query)
        self.assertEqual(self.client.ask("GET", "/models").json, first.json)
        for path in ("/agents/auth", "/agents/readiness"):
            states = self.client.raw("GET", API + path).json
            self.assertEqual(set(states), set(ids))

    def test_profiles(self) -> None:
        """Are made, changed and removed; a revision that is old, one in use, and a removal that
        nobody answers for are refused (B.1, B.3, B.9).
        """
        reply = self.client.ask("POST", "/api-providers", self.models[2].profile())
        self.assertEqual(reply.status, 201)
        made = reply.json
        check(made, {"revision": positive, "createdAt": iso, "templateId": text}, "profile")
        self.assertEqual(made["assignment"]["status"], "assigned")
        [endpoint] = made["endpoints"]
        self.assertEqual(endpoint["id"], f"{made['id']}_anthropic")
        self.assertEqual(endpoint["apiKeyLabel"], f"{KEY[:4]}...{KEY[-4:]}")
        query = {"id": made["id"]}
        body: dict[str, Any] = {"label": "New", "revision": made["revision"], "endpoint": {}}
        changed = self.client.do("PUT", "/api-providers", body, **query)
        self.assertEqual((changed["label"], changed["endpoints"][0]["hasApiKey"]), ("New", True))
        self.assertEqual(
            self.client.refused("PUT", "/api-providers", body, **query),
            (409, "API_PROVIDER_CONFIGURATION_CHANGED", False),
        )
        cleared = {"endpoint": {"clearApiKey": True, "apiKey": "ignored"}}
        changed = self.client.do("PUT", "/api-providers", cleared, **query)
        self.assertEqual(changed["endpoints"][0]["apiKeyLabel"], "")
        self.assertEqual(self.client.refused("DELETE", "/api-providers", **query), INVALID)
        self.client.do("DELETE", "/api-providers", acknowledgeSharedImpact="true", **query)
        self.client.do("DELETE", "/api-providers", acknowledgeSharedImpact="true", **query)
        self.chat()
        used: dict[str, Any] = {"id": self.providers[0].id, "acknowledgeSharedImpact": "true"}
        self.assertEqual(self.client.ask("DELETE", "/api-providers", **used).status, 400)
        wrong = self.models[0].profile()
        wrong["endpoint"]["capabilities"] = {"chatCompletions": False, "responses": False}
        self.assertEqual(self.client.refused("POST", "/api-providers", wrong), INVALID)
        for base in ("ftp://x", "https://x?y=1", "https://x#y", ""):
            wrong = self.models[0].profile()
            wrong["endpoint"]["baseUrl"] = base
            self.assertEqual(self.client.refused("POST", "/api-providers", wrong), INVALID, base)

    def test_models_are_asked_for(self) -> None:
        """With the key that is kept, at its own place only; a failure is an answer (B.6)."""
        for provider in self.providers:
            api = provider.model.api
            asked = {
                "protocol": api.protocol,
                "baseUrl": provider.model.service.url + api.path,
                "endpointId": provider.endpoint_id,
                "apiProviderId": provider.id,
            }
            found = self.client.do("POST", "/api-providers/models", asked)
            self.assertTrue(found["success"], found)
            self.assertEqual([one["value"] for one in found["models"]], ["scripted"])
            elsewhere = asked | {"baseUrl": "http://127.0.0.1:9/v1"}
            path = "/api-providers/models"
            self.assertEqual(self.client.refused("POST", path, elsewhere), INVALID)
            typed = {"protocol": api.protocol, "baseUrl": elsewhere["baseUrl"], "apiKey": "k"}
            found = self.client.do("POST", path, typed)
            self.assertEqual((found["success"], "models" in found), (False, False))

    def test_preambles(self) -> None:
        """Are ahead of what is said first, for whom they are meant, and never in the transcript;
        their list has one revision (D).
        """

        def change(method: str, path: str, body: Any, status: int = 200) -> Any:
            sent = {"Content-Type": "application/json"}
            reply = self.client.raw(method, f"{API}/preambles{path}", encoded(body), sent)
            self.assertEqual(reply.status, status, reply.body)
            return reply.json

        revision = self.client.raw("GET", f"{API}/preambles").json["revision"]
        made = change("POST", "", {"expectedRevision": revision, "preamble": PREAMBLE}, 201)
        [kept] = made["snapshot"]["preambles"]
        stale = change("POST", "", {"expectedRevision": revision, "preamble": PREAMBLE}, 409)
        self.assertEqual(stale["errorCode"], "PREAMBLE_REVISION_CONFLICT")
        extra = {"expectedRevision": revision + 1, "preamble": PREAMBLE | {"x": 1}}
        self.assertEqual(change("POST", "", extra, 400)["errorCode"], "PREAMBLE_VALIDATION_FAILED")
        chat_id = self.chat("hello")
        self.ended(self.client.run(chat_id, "more"))
        self.chat("without", orderedPreambleIds=[])
        bodies = [self.providers[0].model.told(number) for number in (1, 2, 3)]
        self.assertIn("Be kind.", bodies[0][0][1])
        self.assertTrue(bodies[0][0][1].endswith("hello"))
        self.assertEqual(bodies[2], [("user", "without")])
        self.assertEqual(self.client.said(chat_id)[0], ("user-message", "hello"))
        gone = {"expectedRevision": revision + 1, "id": kept["id"]}
        snapshot = change("DELETE", "", gone)["snapshot"]
        self.assertEqual((snapshot["revision"], snapshot["preambles"]), (revision + 2, []))

    def test_older_sockets_hear_nothing_new(self) -> None:
        """Of executors only those are told that say they know of them (decisions.md 14)."""
        newer = WebSocketClient.open(
            self.actor.service.url, protocols=["garcon-v1", "garcon-v2"], deflate=None
        )
        self.addCleanup(newer.close)
        older = self.open_socket(protocols=["garcon-v1"])
        sent = {"Content-Type": "application/json"}
        body = {"label": "w", "direction": "executor-connects", "noTls": True}
        made = self.client.raw("POST", f"{API}/executors", encoded(body), sent)
        self.assertEqual(made.status, 200, made.body)
        kind = json.loads(newer.message())["type"]
        self.assertTrue(kind.startswith("executor"), kind)
        executor_id = made.json["id"]
        gone = self.client.raw("DELETE", f"{API}/executors/{executor_id}")
        self.assertEqual(gone.status, 200, gone.body)
        for socket in (self.socket, older):
            socket.ping()
            self.assertEqual({one["type"] for one in socket.messages}, {"ws-pong"})

    def test_whom_one_speaks_to(self) -> None:
        """The context names the process; a request meant for another one does not run (B.9)."""
        context = self.client.raw("GET", f"{API}/cli/context").json
        instance = self.socket.ping()["serverInstanceId"]
        self.assertEqual(
            context,
            {
                "serverInstanceId": instance,
                "defaultExecutorId": "local",
                "workspaceName": "black-box",
            },
        )
        body = self.start_body(self.providers[0], "x")
        fence = {"X-Garcon-Server-Instance": "another"}
        reply = self.client.ask("POST", "/chats/start", body, headers=fence)
        self.assertEqual((reply.status, reply.json["errorCode"]), (409, "CLI_CONTROLLER_CHANGED"))
        self.assertEqual(self.client.chats(), [])
        fence = {"X-Garcon-Server-Instance": instance}
        reply = self.client.ask("POST", "/chats/start", body, headers=fence)
        self.assertEqual(self.ended(reply.json)[0], "completed")

    def test_a_body_that_is_too_large(self) -> None:
        """Is answered with a bare 413, which its sender gets to see; the largest one is read (1.1;
        server.md F.8).
        """
        largest = 52_428_800
        said = {"Content-Type": "application/json"}
        body = b'{"x": "' + b"x" * (largest - 9) + b'"}'
        self.assertEqual(len(body), largest)
        reply = self.client.raw("POST", f"{API}/chats/stop", body, said)
        self.assertEqual((reply.status, reply.json["errorCode"]), INVALID[:2])
        reply = self.client.raw("POST", f"{API}/chats/stop", body + b" ", said)
        self.assertEqual((reply.status, reply.body), (413, b""))

    def test_large_answers_are_compressed(self) -> None:
        """By what the client prefers, ours first where it prefers nothing; `br` is not spoken
        (F.8; chats.md 1.1).
        """
        plain = self.client.raw("GET", f"{API}/models")
        self.assertGreater(len(plain.body), 1_024)
        for accepted, used in (
            ("gzip", "gzip"),
            ("zstd, gzip;q=0.5", "zstd"),
            ("gzip;q=0, deflate", "deflate"),
            ("br, deflate, zstd, gzip", "gzip"),
            ("br", None),
            ("identity", None),
        ):
            headers = {"Accept-Encoding": accepted}
            reply = self.client.raw("GET", f"{API}/models", None, headers)
            self.assertEqual(reply.headers.get("content-encoding"), used, accepted)
            self.assertIn("Accept-Encoding", reply.headers["vary"])
        small = self.client.raw("GET", f"{API}/auth/status", None, {"Accept-Encoding": "gzip"})
        self.assertNotIn("content-encoding", small.headers)


def encoded(body: Any) -> bytes:
    """Return a body as it is sent."""
    return json.dumps(body).encode()
