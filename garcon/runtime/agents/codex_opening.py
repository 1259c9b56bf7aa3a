"""How a thread of Codex is opened, as values: begun, resumed, or forked from another one.

A thread belongs to the provider that it was begun with, and cannot be resumed with another one; but
it can be forked with it.
"""

from __future__ import annotations

import re
from typing import Any

from attrs import define

from garcon.contract.runs import Launch
from garcon.runtime.agents.codex_wire import (
    INITIALIZE,
    INITIALIZED,
    Calls,
    an_object,
    error_of,
    name_of,
    text_of,
)
from garcon.runtime.agents.conversation import Output, Ready, Refused, Send, Version
from garcon.runtime.agents.endpoints import model_of

PROVIDER = "garcon"
"""What Codex calls the endpoint of a profile."""
BUILT_IN = "openai"
"""The provider where the user has configured none."""
PURPOSES = frozenset({"initialize", "config", "read", "start", "resume", "fork"})
_RELEASE = re.compile(r"/(\d\S*)")


@define(eq=False)
class Opening:
    """Ask until there is a thread.  `thread_id` and `model` are known then."""

    _launch: Launch
    _resume: str | None
    _calls: Calls
    thread_id: str = ""
    model: str = ""
    is_fork: bool = False
    """It began as a fork, of another session or of its own one: it has all that was said there."""
    _provider: str | None = None

    def begin(self) -> list[Output]:
        """Say what is written first."""
        return [self._calls.ask("initialize", "initialize", INITIALIZE)]

    def answered(self, purpose: str, message: dict[str, Any]) -> list[Output]:
        """Take the answer to one of `PURPOSES`."""
        error = error_of(message)
        result = an_object(message.get("result"))
        match purpose:
            case "initialize" if error is None:
                return [*_version(result), Send(INITIALIZED), self._after_initialize()]
            case "config":
                # Where it cannot be read, the thread is tried as it is.
                configured = text_of(an_object(result.get("config")).get("model_provider"))
                self._provider = (configured or BUILT_IN) if error is None else None
                return [self._continue()]
            case "read":
                return [self._go_on(text_of(an_object(result.get("thread")).get("modelProvider")))]
            case "fork" if error is not None and self._resume is None:
                # What was said is told instead.
                return [self._start()]
        if error is not None:
            return [Refused(f"the agent could not {_TRIED[purpose]}: {error}")]
        return self._opened(purpose, result)

    def _after_initialize(self) -> Output:
        if self._launch.model_endpoint_id is not None:
            self._provider = PROVIDER
        if self._resume is None and self._launch.fork_from is None:
            return self._start()
        if self._provider is None:
            return self._calls.ask("config", "config/read", {"includeLayers": False})
        return self._continue()

    def _continue(self) -> Output:
        """Go on with a thread that there is."""
        if self._resume is not None:
            return self._calls.ask("read", "thread/read", {"threadId": self._resume})
        point = self._launch.fork_from
        assert point is not None
        parameters = {"threadId": point.agent_session_id, "lastTurnId": point.anchor}
        return self._fork(parameters)

    def _go_on(self, provider: str) -> Output:
        assert self._resume is not None
        thread = {"threadId": self._resume}
        if provider and self._provider is not None and provider != self._provider:
            return self._fork(thread)
        return self._ask("resume", {**thread, "excludeTurns": True})

    def _start(self) -> Output:
        provider = {} if self._provider is None else {"modelProvider": self._provider}
        return self._ask("start", provider)

    def _fork(self, parameters: dict[str, Any]) -> Output:
        whose = {**parameters, "modelProvider": self._provider, "excludeTurns": True}
        return self._ask("fork", whose)

    def _ask(self, purpose: str, parameters: dict[str, Any]) -> Output:
        where = {"cwd": self._launch.project_path, "model": model_of(self._launch) or None}
        return self._calls.ask(purpose, f"thread/{purpose}", {**where, **parameters})

    def _opened(self, purpose: str, result: dict[str, Any]) -> list[Output]:
        self.thread_id = name_of(an_object(result.get("thread")).get("id"))
        self.model = text_of(result.get("model"))
        self.is_fork = purpose == "fork"
        if not self.thread_id:
            return [Refused("the agent named no thread")]
        return [Ready()]


_TRIED = {
    "initialize": "start",
    "start": "begin a session",
    "resume": "resume its session",
    "fork": "go on with its session",
}


def _version(result: dict[str, Any]) -> list[Output]:
    """Return its release: what it would call itself for us begins with our name."""
    found = _RELEASE.search(text_of(result.get("userAgent")))
    return [] if found is None else [Version(found[1])]
