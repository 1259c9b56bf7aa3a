"""An agent without a process or a model: for benches of what is around an agent, and for tests of a
whole controller that need many turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from zope.interface import implementer

from garcon.contract.catalogs import AgentEntry, AgentSettings, Model
from garcon.contract.messages import AssistantMessage
from garcon.contract.runs import (
    Delivery,
    Launch,
    PermissionResponse,
    RowProduced,
    RunEnded,
    SessionStarted,
)
from garcon.contract.steering import Steer, SteerCapture, Steered
from garcon.runtime.interfaces import IAgent, IAgentSession, IRunSink

QUICK = "quick"
AT = "2026-01-02T03:04:05.678Z"


@implementer(IAgent)
class QuickAgent:
    """Ends each turn at once, unless the last line of its prompt is ``say N`` (N rows, one every
    millisecond) or ``hold`` (until it is interrupted).
    """

    id = QUICK

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock

    def is_installed(self) -> bool:
        """It has no program."""
        return True

    def entry(self, environment: Mapping[str, str]) -> Deferred[AgentEntry | None]:
        """The catalog entry."""
        return succeed(
            AgentEntry(
                id=QUICK,
                label="Quick",
                supported_permission_modes=["default"],
                supported_thinking_modes=["none"],
                default_settings=AgentSettings(owner_id=QUICK, schema_version=1, values={}),
                default_model=QUICK,
                models=[Model(QUICK, "Quick")],
            )
        )

    def open(self, launch: Launch, environment: Mapping[str, str]) -> IAgentSession:
        """Make a session."""
        return QuickSession(self._clock)


@implementer(IAgentSession)
class QuickSession:
    """Runs the turns of one chat."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._sink: IRunSink | None = None
        self._next: IDelayedCall | None = None

    def run(self, launch: Launch, sink: IRunSink) -> Deferred[None]:
        """Begin a turn."""
        self._sink = sink
        words = launch.prompt.rpartition("\n")[2].split()
        match words:
            case ["hold"]:
                pass
            case ["say", count]:
                if launch.agent_session_id is None:
                    sink.event(SessionStarted(agent_session_id=f"quick {launch.chat_id}"))
                self._say(launch.prompt, int(count))
            case _:
                self._end("finished")
        return succeed(None)

    def _say(self, prompt: str, left: int) -> None:
        if self._sink is None:
            return
        if left == 0:
            self._end("finished")
            return
        text = f"{left} to go: {prompt[-200:]}"
        self._sink.event(RowProduced(message=AssistantMessage(timestamp=AT, content=text)))
        self._next = self._clock.callLater(0.001, self._say, prompt, left - 1)

    def _end(self, outcome: Any) -> None:
        sink, self._sink = self._sink, None
        if self._next is not None and self._next.active():
            self._next.cancel()
        if sink is not None:
            sink.event(RunEnded(outcome=outcome))

    def interrupt(self) -> Deferred[None]:
        """End the turn that runs."""
        self._end("interrupted")
        return succeed(None)

    def respond(self, response: PermissionResponse) -> Delivery:
        """Nothing is ever asked."""
        return "not-delivered"

    def capture_steering(self) -> SteerCapture:
        """No turn takes more input."""
        return SteerCapture(outcome="unsupported")

    def steer(self, steer: Steer) -> Deferred[Steered]:
        """See `capture_steering`."""
        return succeed(Steered(outcome="turn-unavailable"))

    def close(self) -> Deferred[None]:
        """Forget everything."""
        self._sink = None
        self._end("interrupted")
        return succeed(None)
