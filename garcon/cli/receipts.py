"""Waiting for a turn by asking for its receipt, and getting all of its answer (chats.md 6.4)."""

from __future__ import annotations

from garcon.cli.client import access_lost, denied, restarted
from garcon.cli.failures import (
    DONE,
    OPERATIONAL,
    POLLING,
    RECOVERY,
    STOPPED,
    TURN_FAILED,
    ApiError,
    CommandFailure,
    RuntimeReplaced,
    TransportFailure,
    failure_of,
)
from garcon.contract.routes import TURN_RECEIPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.client import GarconClient
    from garcon.errors import GarconError

FIRST_DELAY, LONGEST_DELAY = 0.25, 2.0
VERIFY_EVERY = 30.0
MOST_FAILURES, LONGEST_FAILING = 8, 30.0

_SETTLED = ("completed", "failed", "interrupted")
_RETRYABLE_STATUSES = frozenset({408, 425, 429})


class Turn:
    """Which turn is awaited.  `request_id` is known when this invocation submitted it."""

    __slots__ = ("chat_id", "message_id", "request_id", "turn_id")

    def __init__(
        self,
        chat_id: str,
        turn_id: str,
        request_id: str | None = None,
        message_id: str | None = None,
    ) -> None:
        self.chat_id = chat_id
        self.turn_id = turn_id
        self.request_id = request_id
        self.message_id = message_id


class Patience:
    """Know how long to wait and when to give up; time is handed in.

    Pending answers are asked for ever less often.  Failures are borne until there were eight in a
    row or they have lasted 30 s.
    """

    def __init__(self, now: float) -> None:
        self._delay = FIRST_DELAY
        self._failures = 0
        self._failing_since = now
        self._verified = now

    def pending(self, now: float) -> float:
        """The receipt is there and pending: return the delay until the next look."""
        self._failures = 0
        self._failing_since = now
        return self._grow()

    def failed(self, now: float, retry_after: int | None) -> float | None:
        """A look failed: return the delay until the next one, or None to give up."""
        if self._failures == 0:
            self._failing_since = now
        self._failures += 1
        if self._failures >= MOST_FAILURES or now - self._failing_since >= LONGEST_FAILING:
            return None
        return max(self._grow(), float(retry_after or 0))

    def wants_verification(self, now: float) -> bool:
        """Whether the runtime is to be verified now: after a failure, and every 30 s."""
        return self._failures > 0 or now - self._verified >= VERIFY_EVERY

    def verified(self, now: float) -> None:
        self._verified = now

    def _grow(self) -> float:
        delay = self._delay
        self._delay = min(delay * 2, LONGEST_DELAY)
        return delay


def await_receipt(client: GarconClient, turn: Turn) -> dict[str, Any]:
    """Return the turn's settled receipt, however long it takes."""
    system = client.system
    patience = Patience(system.clock())
    while True:
        try:
            if patience.wants_verification(system.clock()):
                client.verify()
                patience.verified(system.clock())
            receipt = client.call(
                TURN_RECEIPT, [("chatId", turn.chat_id), ("turnId", turn.turn_id)]
            )
            check_receipt(receipt, turn)
            if receipt["state"] in _SETTLED:
                return receipt
            delay = patience.pending(system.clock())
        except RuntimeReplaced:
            raise restarted() from None
        except (ApiError, TransportFailure) as e:
            if not may_retry(e):
                raise _final(client, turn, e) from None
            longer = patience.failed(system.clock(), e.retry_after)
            if longer is None:
                text = f"Garcon cannot be asked for the turn's receipt: {_said(e)}"
                raise CommandFailure(RECOVERY, text, OPERATIONAL, e.code) from None
            delay = longer
        system.sleep(delay * system.jitter())


def may_retry(error: ApiError | TransportFailure) -> bool:
    """Whether a failed look says nothing about the turn."""
    if isinstance(error, TransportFailure):
        return True
    if access_lost(error):
        return False
    return error.retryable or error.status in _RETRYABLE_STATUSES or error.status >= 500


def _final(client: GarconClient, turn: Turn, error: ApiError | TransportFailure) -> CommandFailure:
    lost = isinstance(error, ApiError) and error.code == "TURN_RECEIPT_NOT_FOUND"
    if lost or (isinstance(error, ApiError) and access_lost(error)):
        try:
            client.verify()
        except RuntimeReplaced:
            return restarted()
        except (ApiError, TransportFailure) as e:
            if lost:
                return CommandFailure(RECOVERY, f"{error.text}; {_said(e)}", OPERATIONAL, e.code)
    where = client.context.workspace()
    if lost:
        text = (
            f"turn {turn.turn_id} of chat {turn.chat_id} has no receipt in {where}:"
            " receipts live only as long as the controller"
        )
        return CommandFailure(POLLING, text, OPERATIONAL, error.code)
    if isinstance(error, ApiError) and access_lost(error):
        return denied(error)
    if error.code == "TURN_RESULT_EXPIRED":
        text = (
            f"the result of turn {turn.turn_id} has expired in {where};"
            f" chat {turn.chat_id} holds its messages"
        )
        return CommandFailure(POLLING, text, OPERATIONAL, error.code)
    failure = failure_of(error, POLLING)
    failure.exit_status = OPERATIONAL
    return failure


def check_receipt(receipt: dict[str, Any], turn: Turn) -> None:
    """Raise `CommandFailure` unless this is a well-formed receipt of `turn`."""
    if receipt.get("chatId") != turn.chat_id or receipt.get("turnId") != turn.turn_id:
        raise _malformed("names another turn")
    if turn.request_id is not None and receipt.get("clientRequestId") != turn.request_id:
        raise _malformed("names another request")
    for name in ("clientRequestId", "acceptedAt", "updatedAt"):
        if not _text(receipt.get(name)):
            raise _malformed(f"has no {name}")
    state = receipt.get("state")
    if state == "pending":
        return
    if state not in _SETTLED or not _text(receipt.get("settledAt")):
        raise _malformed("has no state")
    if state == "failed" and not _text(receipt.get("error")):
        raise _malformed("has no error")
    if state == "interrupted" and receipt.get("reason") not in ("user-stop", "chat-deleted"):
        raise _malformed("has no reason")
    if not _is_output(receipt.get("output")):
        raise _malformed("has no output")


def _is_output(output: object) -> bool:
    if not isinstance(output, dict):
        return False
    if output.get("availability") == "unavailable":
        return _text(output.get("reason"))
    messages = output.get("assistantMessages")
    has_messages = isinstance(messages, list) and all(isinstance(m, str) for m in messages)
    return (
        output.get("availability") == "available"
        and output.get("completeness") in ("complete", "best-effort")
        and (isinstance(output.get("text"), str) or has_messages)
    )


def output_text(output: dict[str, Any]) -> str:
    """Return an available output's text; an older controller sends only the messages."""
    text = output.get("text")
    if isinstance(text, str):
        return text
    return join_messages(output["assistantMessages"])


def join_messages(messages: list[str]) -> str:
    """Return a turn's assistant messages as one text."""
    return "\n\n".join(message for message in messages if message.strip())


def outcome(receipt: dict[str, Any]) -> CommandFailure | None:
    """Return how a settled receipt ends the command badly, or None when it is an answer."""
    state, output = receipt["state"], receipt["output"]
    if state == "failed":
        text = f"agent turn failed: {receipt['error']}"
        return CommandFailure(POLLING, text, TURN_FAILED)
    if state == "interrupted":
        how = "the turn was stopped" if receipt["reason"] == "user-stop" else "the chat was deleted"
        return CommandFailure(POLLING, f"agent turn interrupted: {how}", STOPPED)
    if output["availability"] == "available":
        return None
    if output["reason"] == "no-final-response":
        text = "the turn completed without a final answer (no-final-response)"
        return CommandFailure(POLLING, text, TURN_FAILED)
    text = (
        f"the turn completed, but its answer is not available ({output['reason']});"
        f" chat {receipt['chatId']} holds its messages"
    )
    return CommandFailure(POLLING, text, OPERATIONAL)


def envelope_of(receipt: dict[str, Any]) -> dict[str, Any]:
    """Return a settled receipt as automation reads it: exactly one `text` (control.md I.7)."""
    names = ("chatId", "turnId", "clientRequestId", "acceptedAt", "updatedAt", "state", "settledAt")
    shown = {name: receipt[name] for name in names}
    for name in ("error", "reason"):
        if name in receipt:
            shown[name] = receipt[name]
    output = receipt["output"]
    if output["availability"] == "available":
        shown["output"] = {
            "availability": "available",
            "completeness": output["completeness"],
            "text": output_text(output),
        }
    else:
        shown["output"] = {"availability": "unavailable", "reason": output["reason"]}
    return shown


def exit_status(receipt: dict[str, Any]) -> int:
    """Return the exit status that a settled receipt stands for."""
    ended = outcome(receipt)
    return DONE if ended is None else ended.exit_status


def _malformed(how: str) -> CommandFailure:
    return CommandFailure(POLLING, f"the receipt {how}", OPERATIONAL)


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _said(error: GarconError) -> str:
    return error.said() if isinstance(error, ApiError) else error.text
