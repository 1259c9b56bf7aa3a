"""A short talk with Codex's app server, beside its turns: ask it something, and have it gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from garcon.contract.runs import RunFailure
from garcon.runtime.agents.codex_wire import (
    INITIALIZE,
    INITIALIZED,
    METHOD_NOT_FOUND,
    Calls,
    an_object,
    error_of,
    refusal,
)
from garcon.runtime.agents.process import AgentProcess, Exit

ANSWER_TIME = 10.0
"""How long each answer may take: shorter than a launch, which may wait for one."""


class CodexFailed(Exception):
    """It did not answer, or by an error; `text` says why."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class CodexClient:
    """One process, ended by `close`."""

    _log = Logger()

    def __init__(self, reactor: Any, answer_time: float = ANSWER_TIME) -> None:
        self._clock: IReactorTime = reactor
        self._answer_time = answer_time
        self._calls = Calls()
        self._waiting: dict[str, Deferred[dict[str, Any]]] = {}
        self._number = 0
        self._process = AgentProcess(reactor, self._received, self._ended, self._exceeded)

    async def open(
        self, command: Sequence[str], environment: Mapping[str, str], directory: str
    ) -> dict[str, Any]:
        """Start it and return what it says of itself.  Raises `CodexFailed`, and `GarconError`
        where there is no such program.
        """
        self._process.start(command, environment, directory)
        said = await self.call("initialize", INITIALIZE)
        self._process.send(INITIALIZED)
        return said

    async def call(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Ask, and return the result.  Raises `CodexFailed`; cancelling forgets the question."""
        if not self._process.is_running:
            raise CodexFailed("Codex has ended")
        self._number += 1
        purpose = str(self._number)

        def forget(_: Deferred[dict[str, Any]]) -> None:
            self._waiting.pop(purpose, None)

        d: Deferred[dict[str, Any]] = Deferred(forget)
        self._waiting[purpose] = d
        self._process.send(self._calls.ask(purpose, method, parameters).message)
        late = self._clock.callLater(self._answer_time, self._late, purpose)
        try:
            return await d
        finally:
            if late.active():
                late.cancel()

    def close(self) -> Deferred[None]:
        """End it, if it was begun; fires when it is gone."""
        return self._process.end("TERM") if self._process.pid else succeed(None)

    def _late(self, purpose: str) -> None:
        self._fail(purpose, f"Codex did not answer within {self._answer_time:g} seconds")

    def _fail(self, purpose: str, text: str) -> None:
        if (d := self._waiting.pop(purpose, None)) is not None:
            d.errback(CodexFailed(text))

    def _received(self, message: dict[str, Any]) -> None:
        if "method" in message:
            if "id" in message:
                no = refusal(message["id"], METHOD_NOT_FOUND, "Nobody is asked anything here.")
                self._process.send(no.message)
            return
        purpose = self._calls.answered(message)
        d = None if purpose is None else self._waiting.pop(purpose, None)
        if d is None:
            return
        error = error_of(message)
        if error is None:
            d.callback(an_object(message.get("result")))
        else:
            d.errback(CodexFailed(error))

    def _ended(self, exit: Exit) -> None:
        tail = self._process.stderr_tail()
        self._fail_all(f"Codex {exit}: {tail}" if tail else f"Codex {exit}")

    def _exceeded(self, failure: RunFailure) -> None:
        self._fail_all(failure.message)

    def _fail_all(self, text: str) -> None:
        for purpose in list(self._waiting):
            self._fail(purpose, text)
