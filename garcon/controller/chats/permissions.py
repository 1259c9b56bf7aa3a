"""Decisions on live permission requests: each delivered at most once, its row only when delivery is
confirmed.

chats.md 3.24 and 5.12; decisions.md 31.
"""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import define
from msgspec import to_builtins
from twisted.internet.defer import CancelledError, TimeoutError
from twisted.logger import Logger

from garcon.contract.chats import CommandAccepted, DecidePermission
from garcon.contract.limits import INTERACTIVE_WAIT
from garcon.contract.runs import Delivery, PermissionResponse
from garcon.controller.chats import fields
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.lanes import Lanes
from garcon.controller.chats.ledger import fingerprint
from garcon.controller.chats.state import State, answer_to
from garcon.controller.chats.turns import Turn
from garcon.controller.handlers import Call
from garcon.errors import CallError, GarconError, validation

COMMAND = "permission-decision"


@define(eq=False)
class Permissions:
    """Serves ``POST /chats/permissions/decision``.

    Decisions have lanes of their own: one that waits for its agent must not hold up a stop.
    """

    _log: ClassVar[Logger] = Logger()

    _state: State
    _lanes: Lanes

    async def decide(self, call: Call[Any, DecidePermission]) -> CommandAccepted:
        """Deliver a decision; answered once its fate is known."""
        body = call.body
        fields.no_answers_member(body)
        request_id = fields.client_id(body.client_request_id, "clientRequestId")
        chat_id = fields.chat_id(body.chat_id)
        occurrence = fields.required(body.permission_occurrence_id, "permissionOccurrenceId")
        control = body.control
        for value in (control.server_instance_id, control.run_id):
            fields.required(value, "control")
        if (control.chat_id.strip(), control.permission_occurrence_id.strip()) != (
            chat_id,
            occurrence,
        ):
            raise validation("control names another chat or permission")
        self._state.must_be_open()
        return await self._lanes.run(chat_id, lambda: self._decide(body, request_id, chat_id))

    async def _decide(
        self, body: DecidePermission, request_id: str, chat_id: str
    ) -> CommandAccepted:
        state = self._state
        chat = state.registry.get(chat_id)
        mark = _fingerprint(body)
        record = state.ledger.replayed(COMMAND, chat_id, request_id, mark)
        if record is not None:
            if record.error is not None:
                raise record.error
            return CommandAccepted(**answer_to(record, "duplicate"))
        turn = self._actionable(chat, body)
        record = state.ledger.accept(COMMAND, chat_id, request_id, mark, state.now())
        try:
            await self._deliver(chat, turn, body)
        except GarconError as error:
            state.ledger.fail(record, error)
            raise
        state.ledger.settle(record, "finished")
        return CommandAccepted(**answer_to(record))

    def _actionable(self, chat: Chat, body: DecidePermission) -> Turn:
        control, turn = body.control, chat.turn
        run_id = chat.permissions.run_of(control.permission_occurrence_id.strip())
        if (
            turn is None
            or turn.has_ended
            or control.server_instance_id != self._state.server_instance_id
            or run_id != control.run_id
            or run_id != turn.run_id
        ):
            raise not_actionable()
        return turn

    async def _deliver(self, chat: Chat, turn: Turn, body: DecidePermission) -> None:
        occurrence = body.permission_occurrence_id.strip()
        response = PermissionResponse(
            run_id=turn.run_id,
            permission_occurrence_id=occurrence,
            allow=body.allow,
            always_allow=body.always_allow,
            response=body.response,
        )
        turn.deciding(occurrence)
        delivery: Delivery = "unknown"
        try:
            delivery = await self._respond(chat, response)
        finally:
            turn.decided(
                occurrence,
                body.allow if delivery == "confirmed" else None,
                stays=delivery == "not-delivered",
            )
        if delivery == "unknown":
            raise GarconError(
                "PERMISSION_DECISION_OUTCOME_UNKNOWN",
                "Whether the decision reached the agent is not known.",
                status=503,
            )
        if delivery == "not-delivered":
            raise not_delivered()
        await turn.flushed()

    async def _respond(self, chat: Chat, response: PermissionResponse) -> Delivery:
        try:
            runtime = self._state.executors.existing(chat.record.executor_id)
            return await runtime.respond(response).addTimeout(INTERACTIVE_WAIT, self._state.clock)
        except CancelledError:
            raise
        except TimeoutError:
            return "unknown"
        except CallError as error:
            return "unknown" if error.outcome == "unknown" else "not-delivered"
        except GarconError:
            return "not-delivered"
        except Exception:
            self._log.failure("a decision for {run} went wrong", run=response.run_id)
            return "unknown"


def not_actionable() -> GarconError:
    """The request is not live under these controls, and never will be again."""
    return GarconError(
        "PERMISSION_NOT_ACTIONABLE", "This permission request is no longer live.", status=409
    )


def not_delivered() -> GarconError:
    """The agent did not get the decision: the request is still pending, and may be decided
    again.
    """
    return GarconError(
        "PERMISSION_NOT_ACTIONABLE",
        "The decision could not be delivered; the request is still pending.",
        status=409,
        retryable=True,
    )


def _fingerprint(body: DecidePermission) -> bytes:
    return fingerprint(
        {
            "allow": body.allow,
            "alwaysAllow": body.always_allow,
            "control": to_builtins(body.control),
            "response": body.response,
        }
    )
