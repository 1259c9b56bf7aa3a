"""Sending a command that must take effect at most once, over a connection that may break.

What is known of each attempt is a value (`judge`); `submit` repeats the identical bytes while that
is safe, checks the runtime in between, and never forgets an attempt that may have run.
"""

from __future__ import annotations

from garcon.cli.client import BUSY, access_lost, encode
from garcon.cli.failures import (
    OPERATIONAL,
    RECOVERY,
    SUBMISSION,
    ApiError,
    BadAnswer,
    CommandFailure,
    RuntimeReplaced,
    TransportFailure,
    failure_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from garcon.cli.client import GarconClient
    from garcon.contract.routes import Route
    from garcon.errors import GarconError

ATTEMPTS = 3

REFUSED = "refused"
"""A definite answer: it did not run, and asking again changes nothing."""
NOT_DISPATCHED = "not dispatched"
"""It did not run, and may be sent again."""
UNKNOWN = "unknown"
"""It may have run; the same identity may be sent again."""
UNKNOWN_FINAL = "unknown, final"
"""It may have run, and only inspection can tell."""

UNDISPATCHED_CODES = frozenset(
    {"CLI_CONTROLLER_UNAVAILABLE", "CLI_SERVICE_BUSY", "SERVER_SHUTTING_DOWN"}
)
OF_THE_BRIDGE = frozenset({"CLI_CONTROLLER_UNAVAILABLE", "CLI_SERVICE_BUSY", "CLI_OUTCOME_UNKNOWN"})
NOT_THE_LAST_WORD = "terminal-outcome-unknown"
"""The code of the controller's own that leaves open what became of a request."""
AMBIGUOUS_STATUSES = frozenset({408, 425, 429})


def judge(error: GarconError) -> str:
    """Return what an attempt that ended in `error` leaves known.

    A bridge's unknown outcome counts as a lost transport, before any rule of the operation.
    """
    if isinstance(error, TransportFailure):
        return UNKNOWN if error.sent else NOT_DISPATCHED
    if not isinstance(error, ApiError):
        return REFUSED
    if error.code == "CLI_OUTCOME_UNKNOWN":
        return UNKNOWN
    if error.code == "PERMISSION_DECISION_OUTCOME_UNKNOWN":
        return UNKNOWN_FINAL
    if error.code in UNDISPATCHED_CODES:
        return NOT_DISPATCHED
    if error.status in AMBIGUOUS_STATUSES or error.status >= 500:
        return UNKNOWN
    return REFUSED


def is_definite(error: GarconError) -> bool:
    """Whether a mutation that is never repeated surely did not happen (control.md I.6)."""
    if isinstance(error, ApiError):
        if error.code in UNDISPATCHED_CODES:
            return True
        return bool(error.code) and 400 <= error.status < 500
    return isinstance(error, RuntimeReplaced) or not getattr(error, "sent", True)


class Refused(CommandFailure):
    """A submission was refused for certain, and no earlier attempt of it may have run."""

    def __init__(self, failure: CommandFailure, error: GarconError) -> None:
        super().__init__(failure.phase, failure.text, failure.exit_status, failure.code)
        self.error = error


def submit(
    client: GarconClient,
    route: Route,
    body: dict[str, Any],
    answers: Callable[[dict[str, Any]], str | None],
    what: str,
    look: str,
    *,
    seconds: float | None = None,
    is_settled_by_any_code: bool = False,
) -> dict[str, Any]:
    """Send `body` until it is known what became of it; return the answer.

    `is_settled_by_any_code`: a coded error of the controller's own is its last word, whatever its
    status (a steer: chats.md 6.4).
    `answers` says what makes an answer not that of this command, or None.  Raises `Refused`, or a
    `CommandFailure` that says whether `what` may have been accepted, and then names the command to
    `look` with.
    """
    data = encode(body)
    uncertain = False
    for attempt in range(1, ATTEMPTS + 1):
        try:
            reply = client.send(route, data=data, seconds=seconds, patient=True)
            wrong = answers(reply)
            if wrong is None:
                return reply
            raise BadAnswer(f"the answer belongs to another command ({wrong})")
        except (ApiError, TransportFailure, RuntimeReplaced) as e:
            error = e
        verdict = judge(error)
        if is_settled_by_any_code and _is_controllers(error):
            verdict = REFUSED
        if verdict == REFUSED:
            if uncertain:
                raise _lost(what, look, f"a repetition was refused: {_said(error)}", True)
            raise Refused(failure_of(error, SUBMISSION), error)
        uncertain = uncertain or verdict in (UNKNOWN, UNKNOWN_FINAL)
        if verdict == UNKNOWN_FINAL or attempt == ATTEMPTS or error.code == BUSY:
            break
        client.system.sleep(max(0.1 * attempt, float(error.retry_after or 0)))
        _check(client, what, look, uncertain)
    raise _lost(what, look, _said(error), uncertain)


def _is_controllers(error: GarconError) -> bool:
    """Whether the controller itself said what became of the command, and not what is in between."""
    if not isinstance(error, ApiError) or not error.code:
        return False
    return error.code not in OF_THE_BRIDGE and error.code != NOT_THE_LAST_WORD


def _check(client: GarconClient, what: str, look: str, uncertain: bool) -> None:
    try:
        client.verify()
    except ApiError as e:
        reason = "access was lost" if access_lost(e) else "Garcon cannot be verified"
        raise _lost(what, look, f"{reason}: {e.said()}", uncertain) from None
    except (TransportFailure, RuntimeReplaced) as e:
        raise _lost(what, look, f"Garcon cannot be verified: {_said(e)}", uncertain) from None


def _said(error: GarconError) -> str:
    return error.said() if isinstance(error, ApiError) else error.text


def _lost(what: str, look: str, why: str, uncertain: bool) -> CommandFailure:
    if not uncertain:
        return CommandFailure(RECOVERY, f"{what} was not accepted; {why}", OPERATIONAL)
    text = f"{what} may have been accepted; {why} (look with: {look})"
    return CommandFailure(RECOVERY, text, OPERATIONAL, "CLI_OUTCOME_UNKNOWN")


def accepted_as(
    command_type: str, body: dict[str, Any], *more: str
) -> Callable[[dict[str, Any]], str | None]:
    """Return the check of a ledger command's answer: the same command, request and chat.

    `more` names text members that the answer must have.
    """

    def wrong(reply: dict[str, Any]) -> str | None:
        expected = {
            "commandType": command_type,
            "clientRequestId": body["clientRequestId"],
            "chatId": body["chatId"],
        }
        for name, value in expected.items():
            if reply.get(name) != value:
                return name
        if reply.get("status") not in ("accepted", "duplicate"):
            return "status"
        for name in ("acceptedAt", *more):
            if not isinstance(reply.get(name), str) or not reply[name]:
                return name
        return None

    return wrong
