"""What tests of agents share: launches with the usual values, and a sink that can be waited for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

from attrs import define, field
from twisted.internet.defer import Deferred, TimeoutError, succeed
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from garcon.contract.catalogs import AgentSettings, PermissionMode
from garcon.contract.messages import AssistantMessage, ToolResult
from garcon.contract.runs import (
    Launch,
    PermissionRequested,
    PermissionResponse,
    RowProduced,
    RunEnded,
    RunEvent,
    SessionStarted,
)
from garcon.runtime.interfaces import IRunSink

R = TypeVar("R")
_numbers = count(1)


def a_launch(prompt: str, **changes: Any) -> Launch:
    """Return a launch of the scripted agent with a run id of its own."""
    number = next(_numbers)
    mode: PermissionMode = "default"
    usual: dict[str, Any] = {
        "chat_id": "1700000000000001",
        "run_id": f"run-{number}",
        "binding_id": f"binding-{number}",
        "agent_id": "scripted",
        "model": "scripted",
        "permission_mode": mode,
        "thinking_mode": "none",
        "project_path": "/",
        "prompt": prompt,
    }
    values = usual | changes
    settings = AgentSettings(owner_id=values["agent_id"], schema_version=1, values={})
    return Launch(**({"agent_settings": settings} | values))


@implementer(IRunSink)
@define(eq=False)
class RecordingSink:
    """Keeps every event; a test waits until they show what it needs, for `patience` seconds unless
    it says else.
    """

    clock: IReactorTime
    patience: float = 20.0
    events: list[RunEvent] = field(factory=list)
    _waiting: list[tuple[Callable[[], bool], Deferred[None]]] = field(factory=list)

    def event(self, event: RunEvent) -> None:
        """Keep it and wake those whose condition holds now."""
        self.events.append(event)
        for waiting in list(self._waiting):
            if waiting[0]():
                self._waiting.remove(waiting)
                waiting[1].callback(None)

    def room(self) -> Deferred[None]:
        """Take whatever comes."""
        return succeed(None)

    async def until(
        self, holds: Callable[[], bool], what: str, seconds: float | None = None
    ) -> None:
        """Wait until a condition on the events holds, or fail with the last of them."""
        if holds():
            return
        d: Deferred[None] = Deferred()
        waiting = (holds, d)
        self._waiting.append(waiting)
        try:
            await d.addTimeout(self.patience if seconds is None else seconds, self.clock)
        except TimeoutError:
            self._waiting.remove(waiting)
            raise AssertionError(f"no {what}; the last there was: {self.events[-5:]}") from None

    async def ended(self, seconds: float | None = None) -> RunEnded:
        """Wait for the end of the run."""
        await self.until(lambda: bool(self.of(RunEnded)), "end of the run", seconds)
        return self.of(RunEnded)[0]

    async def asked(self, number: int = 1) -> PermissionRequested:
        """Wait for the `number`-th permission request."""
        await self.until(lambda: len(self.of(PermissionRequested)) >= number, "request")
        return self.of(PermissionRequested)[number - 1]

    async def row(self, kind: type[R], number: int = 1) -> R:
        """Wait for the `number`-th row of a kind."""
        await self.until(lambda: len(self.rows(kind)) >= number, f"row {kind.__name__}")
        return self.rows(kind)[number - 1]

    def of(self, kind: type[R]) -> list[R]:
        """The events of a kind that came so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def rows(self, kind: type[R]) -> list[R]:
        """The rows of a kind that came so far."""
        return [
            event.message
            for event in self.events
            if isinstance(event, RowProduced) and isinstance(event.message, kind)
        ]

    @property
    def texts(self) -> list[str]:
        """What the agent said."""
        return [row.content for row in self.rows(AssistantMessage)]

    @property
    def results(self) -> list[tuple[str, bool]]:
        """What its tools gave, and whether that was an error."""
        return [(row.content["text"], row.is_error) for row in self.rows(ToolResult)]

    @property
    def session_id(self) -> str:
        """The agent's name of the session."""
        return next(e.agent_session_id for e in self.events if isinstance(e, SessionStarted))


def a_response(run_id: str, asked: PermissionRequested, **changes: Any) -> PermissionResponse:
    """Return a decision that allows, unless changed."""
    usual: dict[str, Any] = {
        "run_id": run_id,
        "permission_occurrence_id": asked.permission_occurrence_id,
        "allow": True,
    }
    return PermissionResponse(**(usual | changes))
