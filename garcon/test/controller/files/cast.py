"""The file routes with two executors whose files are on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec
from attrs import frozen
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from garcon.contract.ids import LOCAL
from garcon.contract.operations import Operation
from garcon.controller.files.operations import FileOperations
from garcon.controller.handlers import Answer, Form, Handlers
from garcon.controller.principals import LOCAL_PRINCIPAL
from garcon.errors import GarconError
from garcon.runtime.files.service import LocalFiles
from garcon.runtime.interfaces import IFileHost, IFiles
from garcon.testing.fake_runtime import FakeExecutors, FakeRuntime
from garcon.testing.inline_threads import InlinePool

WORKER = "11111111-1111-4111-8111-111111111111"
BARE = "22222222-2222-4222-8222-222222222222"
"""An executor without files."""
CHAT = "1767000000000001"


@implementer(IFileHost)
class Host(FakeRuntime):
    """An executor with files."""

    files: IFiles


@implementer(IReactorFromThreads)
class Reactor(Clock):
    """Time, and threads that are none."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = InlinePool()

    def getThreadPool(self) -> InlinePool:
        return self.pool

    def callFromThread(self, callable: Callable[..., Any], *args: Any, **more: Any) -> None:
        callable(*args, **more)


@frozen
class Said:
    """An answer."""

    status: int
    raw: bytes
    headers: dict[str, str]

    @property
    def body(self) -> Any:
        return msgspec.json.decode(self.raw)

    @property
    def failure(self) -> tuple[int, str, bool]:
        """Status, code and retryability; the envelope is whole."""
        body = self.body
        assert body["success"] is False and body["error"]
        return self.status, body["errorCode"], body["retryable"]


class FileRoutesCase(SynchronousTestCase):
    """Two bases: Local's and a worker's."""

    def setUp(self) -> None:
        self.reactor = Reactor()
        self.held: list[tuple[Callable[[], Any], Deferred[Any]]] | None = None
        """What threads have to do, where they are held."""
        top = os.path.realpath(self.mktemp())
        self.base, self.theirs = os.path.join(top, "local"), os.path.join(top, "worker")
        runtimes: dict[str, FakeRuntime] = {BARE: FakeRuntime()}
        for where, base in ((LOCAL, self.base), (WORKER, self.theirs)):
            os.makedirs(os.path.join(base, "project"))
            host = runtimes[where] = Host()
            host.files = LocalFiles(self.reactor, base, base, in_thread=self.in_thread)
        self.project = os.path.join(self.base, "project")
        self.executors = FakeExecutors(runtimes)
        self.chats = {CHAT: (WORKER, os.path.join(self.theirs, "project"))}
        self.handlers = Handlers()
        FileOperations(self.reactor, self.executors, self.place).register(self.handlers)

    def in_thread(self, work: Callable[[], Any]) -> Deferred[Any]:
        """Do what blocks at once, or when the test says so."""
        if self.held is None:
            return maybeDeferred(work)
        d: Deferred[Any] = Deferred()
        self.held.append((work, d))
        return d

    def release(self) -> None:
        """Do what was held, and go on without holding."""
        held, self.held = self.held or [], None
        for work, d in held:
            maybeDeferred(work).chainDeferred(d)

    def place(self, chat_id: str) -> tuple[str, str]:
        if chat_id not in self.chats:
            raise GarconError("SESSION_NOT_FOUND", "No such chat exists.", status=404)
        return self.chats[chat_id]

    def write(self, path: str, content: bytes = b"old", base: str | None = None) -> str:
        full = os.path.join(base or self.base, "project", path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as file:
            file.write(content)
        return full

    def content(self, path: str) -> bytes:
        with open(os.path.join(self.project, path), "rb") as file:
            return file.read()

    def asking(
        self,
        operation: Operation,
        query: dict[str, str] | list[tuple[str, str]],
        body: dict[str, Any] | None = None,
        form: Form | None = None,
    ) -> Deferred[Answer]:
        """Ask, and perhaps wait."""
        pairs = list(query.items()) if isinstance(query, dict) else query
        return self.handlers.run(operation, LOCAL_PRINCIPAL, query=pairs, body=body, form=form)

    def heard(self, d: Deferred[Answer]) -> Said:
        answer = self.successResultOf(d)
        return Said(answer.status, answer.body, answer.headers)

    def ask(
        self,
        operation: Operation,
        query: dict[str, str] | list[tuple[str, str]] | None = None,
        body: dict[str, Any] | None = None,
        form: Form | None = None,
    ) -> Said:
        """Ask and be answered at once."""
        return self.heard(self.asking(operation, query or {}, body, form))

    def file(self, path: str, **more: str) -> dict[str, str]:
        """Return the query that names a file of Local's project."""
        return {"projectPath": self.project, "path": path} | more
