"""Plays a schedule: makes its calls and runs, lets its faults happen, and waits until all has come
to rest.  How time passes and how connections break is for a stage to know: in process, or over real
sockets.
"""

from __future__ import annotations

from typing import Any, Protocol
from uuid import UUID

import msgspec
from attrs import define
from twisted.python.failure import Failure

from garcon.contract.catalogs import AgentSettings
from garcon.contract.rpc import Continuity, Lane
from garcon.contract.runs import (
    Launch,
    PermissionRequested,
    PermissionResponse,
    PermissionWithdrawn,
)
from garcon.testing.faults.ends import ControllerEnd, WorkerEnd
from garcon.testing.faults.ledger import CANCELLED, Ledger, Response, Turn, ending
from garcon.testing.faults.machine import DOWN, UP, Script, Work
from garcon.testing.faults.steps import (
    Ask,
    Begin,
    Cancel,
    CancelLaunch,
    Decide,
    Fault,
    Heal,
    Restart,
    Step,
    Stop,
)


class Stage(Protocol):
    """Where a schedule is played."""

    controller: ControllerEnd
    worker: WorkerEnd

    def fault(self, fault: Fault) -> None:
        """Let it happen."""

    def heal(self) -> None:
        """Undo every fault that lasts."""

    def restart(self) -> None:
        """Kill the worker and start another."""


@define(eq=False)
class Play:
    """One schedule under way."""

    stage: Stage
    ledger: Ledger
    _number: int = 0
    keeps_replies: bool = True
    """Whether the worker has room for every reply."""

    def take(self, step: Step) -> None:
        """Take any step but those in which only time passes."""
        match step:
            case Ask():
                self._ask(step)
            case Cancel(number):
                call = _pick(self.ledger.open_calls(), number)
                if call is not None and call.is_counted:
                    call.d.cancel()
            case Begin(script):
                self._begin(script)
            case CancelLaunch(number):
                turn = _pick([t for t in self.ledger.turns.values() if not t.ends], number)
                if turn is not None and turn.d is not None:
                    turn.stops += 1
                    turn.d.cancel()
            case Stop(number):
                turn = _pick(self.ledger.open_turns(), number)
                if turn is not None:
                    self._stop(turn)
            case Decide(number):
                turn = _pick([t for t in self.ledger.open_turns() if _question(t)], number)
                if turn is not None:
                    self._decide(turn)
            case Heal():
                self.stage.heal()
            case Restart():
                self.stage.restart()
            case _:
                self.stage.fault(step)  # type: ignore[arg-type]  # the steps of time are not taken

    def _next(self, what: str) -> str:
        self._number += 1
        return f"{what}-{self._number}"

    def _ask(self, ask: Ask) -> None:
        token = self._next("call")
        work = Work(token, ask.seconds, ask.refuses, ask.answer, "." * ask.padding)
        if ask.is_upward:
            method = UP[ask.method % len(UP)]
            d = self.stage.worker.link.call(method, work, deadline=ask.deadline)
        else:
            method = DOWN[ask.method % len(DOWN)]
            d = self.stage.controller.link.call(
                method, work, deadline=ask.deadline, interactive=ask.interactive
            )
        self.ledger.asked(
            token,
            method.name,
            d,
            is_durable=self.keeps_replies
            and method.continuity is Continuity.JOURNALED
            and ask.deadline is None
            and not ask.interactive
            and method.lane is Lane.PRIMARY,
            is_of_session=method.continuity is Continuity.SESSION,
        )

    def _begin(self, script: Script) -> None:
        self._number += 1
        run_id = str(UUID(int=self._number, version=4))
        turn = self.ledger.turn(run_id)
        launch = Launch(
            chat_id=f"chat-{self._number}",
            run_id=run_id,
            binding_id=f"binding-{self._number}",
            agent_id="scripted",
            model="scripted",
            permission_mode="default",
            thinking_mode="none",
            agent_settings=AgentSettings("scripted", 1, {}),
            project_path="/projects",
            prompt=msgspec.json.encode(script).decode(),
        )
        self.ledger.launched(turn, self.stage.controller.runtime.launch(launch, turn))

    def _stop(self, turn: Turn) -> None:
        turn.stops += 1
        d = self.stage.controller.runtime.abort(turn.run_id)
        self.ledger.asked(self._next("stop"), "execution.abort", d, is_counted=False)

    def _decide(self, turn: Turn) -> None:
        occurrence_id = _question(turn)
        assert occurrence_id is not None
        response = Response(turn.run_id, occurrence_id)
        if any(r.occurrence_id == occurrence_id for r in self.ledger.responses):
            return  # A decision is made once.
        self.ledger.responses.append(response)
        d = self.stage.controller.runtime.respond(
            PermissionResponse(
                run_id=turn.run_id, permission_occurrence_id=occurrence_id, allow=True
            )
        )

        def answered(result: Any) -> None:
            response.delivery = ending(result) if isinstance(result, Failure) else result

        d.addBoth(answered)

    def wind_up(self) -> None:
        """Let what can end end: whoever still asks gets an answer, and what it cannot get is
        stopped.
        """
        for turn in self.ledger.open_turns():
            if _question(turn) is None:
                continue
            if any(r.run_id == turn.run_id for r in self.ledger.responses):
                self._stop(turn)
            else:
                self._decide(turn)


def _question(turn: Turn) -> str | None:
    """Return the permission request that a run has open, as its sink knows it."""
    if turn.end is not None or CANCELLED in turn.ends:
        return None
    asked = None
    for event in turn.events:
        if isinstance(event, PermissionRequested):
            asked = event.permission_occurrence_id
        elif isinstance(event, PermissionWithdrawn):
            asked = None
    return asked


def _pick(things: list[Any], number: int) -> Any:
    return things[number % len(things)] if things else None
