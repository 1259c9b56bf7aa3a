"""A process to be killed: it serves chats from a real store and says which inputs were accepted.

``python -m garcon.testing.crash_writer FILE BASE ROUND`` starts chats and runs turns in them as
fast as it can, each answered by an agent of its own, and prints one line for every acceptance,
after it: the chat and the message identity.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from zope.interface import implementer

from garcon.contract import operations
from garcon.contract.messages import AssistantMessage
from garcon.contract.operations import Operation
from garcon.contract.runs import Launch, Launched, RowProduced, RunEnded, SessionStarted
from garcon.controller.chats.service import Chats
from garcon.controller.handlers import Handlers
from garcon.controller.principals import LOCAL_PRINCIPAL
from garcon.deferreds import returns_deferred
from garcon.runtime.interfaces import IExecutorRuntime, IRunSink
from garcon.store.sqlite import SqliteStore
from garcon.testing.fake_runtime import AT, FakeExecutors, FakeRuntime

CHATS, ROWS = 4, 5
LIFE = 20.0
"""Seconds after which it ends by itself, should nobody kill it."""


@implementer(IExecutorRuntime)
class EchoRuntime(FakeRuntime):
    """An executor whose agent answers by itself, a little later."""

    def __init__(self, base: str, reactor: Any) -> None:
        super().__init__(base)
        self._reactor = reactor

    def launch(self, launch: Launch, sink: IRunSink) -> Deferred[Launched]:
        self._reactor.callLater(0, self._answer, launch, sink)
        d: Deferred[Launched] = Deferred()
        d.callback(Launched(launch.run_id))
        return d

    def _answer(self, launch: Launch, sink: IRunSink) -> None:
        sink.event(SessionStarted(agent_session_id=f"session of {launch.chat_id}"))
        for n in range(ROWS):
            text = f"{n}: {launch.prompt}"
            sink.event(RowProduced(message=AssistantMessage(timestamp=AT, content=text)))
        sink.event(RunEnded(outcome="finished"))


class Writer:
    """Keeps some chats busy."""

    def __init__(self, reactor: Any, path: str, base: str, number: int) -> None:
        self._reactor = reactor
        self._base = base
        self._number = number
        self._store = SqliteStore(path, reactor)
        executors = FakeExecutors({"local": EchoRuntime(base, reactor)})
        self._chats = Chats(self._store, executors, f"instance-{number}", reactor, base)
        self._handlers = Handlers()

    @returns_deferred
    async def run(self) -> None:
        """Write until killed."""
        await self._store.open()
        await self._chats.load()
        self._chats.register(self._handlers)
        for n in range(CHATS):
            Deferred.fromCoroutine(
                self._converse(f"17670000000{self._number:02}{n:03}")
            ).addErrback(self._gone_wrong)

    async def _converse(self, chat_id: str) -> None:
        body = {
            "agentId": "scripted",
            "projectPath": self._base,
            "model": "scripted",
            "agentSettings": {"ownerId": "scripted", "schemaVersion": 1, "values": {}},
        }
        await self._say(operations.START_CHAT, chat_id, 0, body)
        query = (("chatId", chat_id), ("limit", "1"))
        page = await self._handlers.run(operations.MESSAGES, LOCAL_PRINCIPAL, query=query)
        view = msgspec.json.decode(page.body)["transcriptViewId"]
        for n in range(1, 1_000_000):
            await self._say(operations.RUN_CHAT, chat_id, n, {"transcriptViewId": view})

    async def _say(self, operation: Operation, chat_id: str, n: int, more: dict[str, Any]) -> None:
        message = f"{chat_id}-{n}"
        body = {
            "clientRequestId": f"r-{message}",
            "clientMessageId": message,
            "chatId": chat_id,
            "command": f"input {message}",
        } | more
        while True:
            answer = await self._handlers.run(operation, LOCAL_PRINCIPAL, body=body)
            if answer.status == 202:
                os.write(1, f"{chat_id} {message}\n".encode())
                return
            if answer.status != 409:
                raise AssertionError(answer.body)
            # The turn before has not ended.
            await deferLater(self._reactor, 0.001)

    def _gone_wrong(self, failure: Any) -> None:
        os.write(2, failure.getTraceback().encode())
        self._reactor.stop()


def main() -> None:
    """Run until killed."""
    from twisted.internet import reactor as chosen

    reactor: Any = chosen
    path, base, number = sys.argv[1:]
    writer = Writer(reactor, path, base, int(number))
    reactor.callWhenRunning(writer.run)
    reactor.callLater(LIFE, reactor.stop)
    reactor.run()


if __name__ == "__main__":
    main()
