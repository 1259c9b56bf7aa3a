"""A client of the API as others have written them: plain JSON over one HTTP request at a time, ids
that it makes itself, and its own idea of every answer.

It finds a controller as commands of old do, by the descriptor of a named workspace, and believes it
only once it has proved itself (chats.md 6.3; server.md B.8).
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import re
import secrets
import stat
import threading
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

from attrs import Factory, define, field, frozen

from garcon.testing.foreign_answers import judge
from garcon.testing.foreign_rules import Malformed, check, iso, need, positive, text

API = "/api/v1"
CAPABILITY = re.compile(r"garcon_local_[A-Za-z0-9_-]{43}")


@frozen
class Reply:
    """An answer: status, headers by their names in lower case, and the body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Ids:
    """What a client makes: chat ids of sixteen digits that grow, and everything else."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def chat(self) -> str:
        """Return a chat id."""
        with self._lock:
            self._last = max(self._last + 1, time.time_ns() // 1_000)
            return str(self._last)


def command(**members: Any) -> dict[str, Any]:
    """Return a command's body with a request id of its own."""
    return {"clientRequestId": str(uuid4()), **members}


def message(**members: Any) -> dict[str, Any]:
    """Return the body of a command that brings an input."""
    return command(clientMessageId=str(uuid4()), **members)


@define(eq=False)
class ForeignClient:
    """Talks to one controller.  Every answer is judged; `do` wants success, `refused` does not."""

    url: str
    token: str | None = None
    ids: Ids = Factory(Ids)
    answers: list[str] = field(factory=list, repr=False)
    """The bodies of all answers, to look for what may not be in them."""

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        /,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> Reply:
        """Send one request below the API's path; the answer is judged."""
        sent = {"Accept": "application/json", **(headers or {})}
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token}"
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        target = API + path + (f"?{urlencode(query)}" if query else "")
        reply = self.raw(method, target, content, sent)
        kind = reply.headers.get("content-type", "")
        need(kind.startswith("application/json"), (reply, kind), target)
        need(not 300 <= reply.status < 400, reply, "no redirect")
        judge(method, path, query, reply.status, reply.json)
        return reply

    def raw(
        self,
        method: str,
        target: str,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """Send a request as it is; its answer is not judged."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        try:
            connection.request(method, target, content, headers or {})
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        self.answers.append(body.decode(errors="replace"))
        found = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, found, body)

    def do(self, method: str, path: str, body: Any = None, /, **query: Any) -> Any:
        """Ask for what must succeed; returns the JSON."""
        reply = self.ask(method, path, body, **query)
        need(reply.status < 300, (reply.status, reply.json), f"{method} {path}")
        if isinstance(body, dict) and "clientRequestId" in body:
            for name in ("clientRequestId", "chatId"):
                if name in body and name in reply.json:
                    need(reply.json[name] == body[name], reply.json, f"{name} is echoed")
        return reply.json

    def refused(
        self, method: str, path: str, body: Any = None, /, **query: Any
    ) -> tuple[int, str, bool]:
        """Ask for what must be refused; returns status, code and whether to try again."""
        reply = self.ask(method, path, body, **query)
        need(reply.status >= 400, (reply.status, reply.json), f"{method} {path} is not refused")
        return reply.status, reply.json["errorCode"], reply.json["retryable"]

    # Reading

    def chats(self) -> list[dict[str, Any]]:
        """Return the list."""
        found: list[dict[str, Any]] = self.do("GET", "/chats")["sessions"]
        return found

    def entry(self, chat_id: str) -> dict[str, Any]:
        """Return how a chat is listed."""
        return next(one for one in self.chats() if one["id"] == chat_id)

    def history(self, chat_id: str, **query: Any) -> dict[str, Any]:
        """Return a page of a chat."""
        found: dict[str, Any] = self.do(
            "GET", "/chats/messages", chatId=chat_id, **({"limit": 200} | query)
        )
        return found

    def rows(self, chat_id: str) -> list[tuple[int, str, Any]]:
        """Return the newest rows of a chat: ordinal, type and text."""
        return [
            (row["ordinal"], row["message"]["type"], row["message"].get("content"))
            for row in self.history(chat_id)["messages"]
        ]

    def said(self, chat_id: str) -> list[tuple[str, Any]]:
        """Return the newest rows of a chat: type and text."""
        return [(kind, content) for _, kind, content in self.rows(chat_id)]

    def view(self, chat_id: str) -> str:
        """Return the name of a chat's current view."""
        view: str = self.do("GET", "/chats/rows", chatId=chat_id)["transcriptViewId"]
        return view

    def queue(self, chat_id: str) -> dict[str, Any]:
        """Return what is queued in a chat."""
        found: dict[str, Any] = self.control(chat_id)["queue"]
        return found

    def control(self, chat_id: str) -> dict[str, Any]:
        """Return a chat's execution control."""
        found: dict[str, Any] = self.do("GET", "/chats/queue", chatId=chat_id)["control"]
        return found

    def receipt(self, turn: dict[str, Any]) -> dict[str, Any]:
        """Return a turn's receipt as it is now."""
        found: dict[str, Any] = self.do(
            "GET", "/chats/turn-receipt", chatId=turn["chatId"], turnId=turn["turnId"]
        )
        return found

    def settled(self, turn: dict[str, Any], seconds: float = 20.0) -> dict[str, Any]:
        """Wait for a turn's receipt to be terminal."""
        deadline = time.monotonic() + seconds
        delay = 0.02
        while (found := self.receipt(turn))["state"] == "pending":
            need(time.monotonic() < deadline, found, "the receipt stays pending")
            time.sleep(delay)
            delay = min(2 * delay, 0.5)
        return found

    # Turns

    def run(self, chat_id: str, text: str, **more: Any) -> dict[str, Any]:
        """Begin a turn of a chat that is idle."""
        body = message(chatId=chat_id, transcriptViewId=self.view(chat_id), command=text)
        found: dict[str, Any] = self.do("POST", "/chats/run", body | more)
        return found

    def enqueue(self, chat_id: str, text: str, **more: Any) -> dict[str, Any]:
        """Put an input into a chat's queue."""
        body = message(chatId=chat_id, transcriptViewId=self.view(chat_id), content=text)
        found: dict[str, Any] = self.do("POST", "/chats/queue/entries", body | more)
        return found

    def stop(self, chat_id: str) -> dict[str, Any]:
        """Stop a chat's turn."""
        found: dict[str, Any] = self.do("POST", "/chats/stop", command(chatId=chat_id))
        return found


# Finding a controller


def prove(url: str, capability: str, instance: str) -> None:
    """Have the process at a URL prove that it is the one of a descriptor."""
    challenge = urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=").decode()
    reply = ForeignClient(url).ask("GET", "/runtime", challenge=challenge)
    need(reply.status == 200 and reply.headers["cache-control"] == "no-store", reply, "runtime")
    need(set(reply.json) == {"schemaVersion", "instanceId", "proof"}, reply.json, "only these")
    said = "\0".join(("garcon-runtime-proof-v1", instance, challenge)).encode()
    digest = hmac.new(capability.encode(), said, hashlib.sha256).digest()
    wanted = urlsafe_b64encode(digest).rstrip(b"=").decode()
    need(reply.json["instanceId"] == instance, reply.json, "the instance")
    need(hmac.compare_digest(reply.json["proof"], wanted), reply.json, "the proof")


def discover(config: Path, workspace: str) -> tuple[ForeignClient, dict[str, Any]]:
    """Find the controller of a named workspace; returns a client that is let in by its capability,
    and the descriptor.
    """
    folder = (config / f"workspace-{workspace}").resolve(strict=True)
    need(folder.parent == config.resolve(), folder, "a workspace is in its config directory")
    path = folder / "server-runtime.json"
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor) as opened:
        found = os.fstat(opened.fileno())
        need(stat.S_ISREG(found.st_mode) and not found.st_mode & 0o077, oct(found.st_mode), "mode")
        need(found.st_uid == os.geteuid(), found.st_uid, "the owner")
        said = json.load(opened)
    check(
        said,
        {
            "schemaVersion": {1},
            "instanceId": text,
            "workspaceDir": text,
            "startedAt": iso,
            "pid": positive,
            "baseUrl": text,
            "localCapability": text,
        },
        "descriptor",
    )
    need(said["workspaceDir"] == str(folder), said, "the workspace's real path")
    need(CAPABILITY.fullmatch(said["localCapability"]), "capability", "its pattern")
    parts = urlsplit(said["baseUrl"])
    if parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise Malformed(f"the URL {said['baseUrl']}")
    need(not (parts.path or parts.query or parts.fragment or parts.username), said, "a bare URL")
    prove(said["baseUrl"], said["localCapability"], said["instanceId"])
    return ForeignClient(said["baseUrl"], said["localCapability"]), said
