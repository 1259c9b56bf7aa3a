"""What Pi says of itself where no turn runs: a process of its own is asked, and ended again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime

from garcon.contract.runs import RunFailure
from garcon.errors import GarconError
from garcon.runtime.agents.pi_wire import Message, an_object
from garcon.runtime.agents.process import AgentProcess, Exit

ANSWER_TIME = 15.0


async def ask(
    reactor: Any, command: Sequence[str], environment: Mapping[str, str]
) -> tuple[Message, Message]:
    """Return Pi's state and the models that it can use, as it says them.  Raises `GarconError`
    with its reason; cancelling ends the question.
    """
    question = _Question(reactor)
    try:
        return await question.ask(command, environment)
    except TimeoutError:
        text = f"it gave no answer within {ANSWER_TIME:g} seconds"
        raise GarconError("AGENT_FAILED", text, status=504) from None
    finally:
        await question.close()


class _Question:
    """One process."""

    def __init__(self, reactor: Any) -> None:
        self._clock: IReactorTime = reactor
        self._state: Message = {}
        self._answer: Deferred[tuple[Message, Message]] = Deferred()
        self._process = AgentProcess(reactor, self._received, self._ended, self._exceeded)

    async def ask(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[Message, Message]:
        self._process.start([*command, "--mode", "rpc", "--no-session"], environment, "/")
        self._process.send({"id": "state", "type": "get_state"})
        self._process.send({"id": "models", "type": "get_available_models"})
        return await self._answer.addTimeout(ANSWER_TIME, self._clock)

    async def close(self) -> None:
        if self._process.pid:
            await self._process.end("TERM")

    def _received(self, message: dict[str, Any]) -> None:
        if message.get("type") != "response" or self._answer.called:
            return
        if message.get("id") == "state":
            self._state = an_object(message.get("data"))
        elif message.get("id") == "models":
            self._answer.callback((self._state, an_object(message.get("data"))))

    def _ended(self, exit: Exit) -> None:
        self._fail(f"Pi {exit}: {self._process.stderr_tail()}")

    def _exceeded(self, failure: RunFailure) -> None:
        self._fail(failure.message)

    def _fail(self, text: str) -> None:
        if not self._answer.called:
            self._answer.errback(GarconError("AGENT_FAILED", text, status=502))
