"""What is known of calls: slots, sequence numbers, and how failures cross (pure; control.md J.4,
J.6, J.7).
"""

from __future__ import annotations

from attrs import define

from garcon.contract import limits
from garcon.contract.rpc import RECONCILE, Lane
from garcon.errors import BadMessage, CallError, GarconError
from garcon.link.frames import ErrorObject

DOMAIN = "executor"
PROVIDER_FAILURE = "PROVIDER_FAILURE"
EXECUTOR_BUSY = "EXECUTOR_BUSY"
"""A budget of the link is full; nothing was dispatched."""
METHOD_UNKNOWN = "METHOD_UNKNOWN"
WRONG_LANE = "WRONG_LANE"
MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"
REPLY_LOST = "REPLY_LOST"
"""The handler has ended, but its reply is too large or found no room."""
DEADLINE_PASSED = "EXECUTOR_TIMEOUT"

LARGEST_ERROR = 8 * limits.KIB
"""Error replies are always admitted, so they are small: the calls they answer are bounded."""
INSTALLATION_CALLS = 64
"""Installation calls at a time outside the budget; they must go through when it is full.  One more
takes an ordinary place, as a repetition does of one that has not ended.
"""


@define(eq=False)
class Slots:
    """How many calls run in one direction, over both lanes and all sessions of a link."""

    total: int = limits.CALLS
    bulk_total: int = limits.CALLS_BULK
    exempt_total: int = INSTALLATION_CALLS
    used: int = 0
    bulk_used: int = 0
    exempt_used: int = 0

    def take(self, lane: Lane, exempt: bool) -> bool:
        """Take a slot; False when there is none."""
        if exempt:
            if self.exempt_used >= self.exempt_total:
                return False
            self.exempt_used += 1
            return True
        bulk = lane is Lane.BULK
        if self.used >= self.total or (bulk and self.bulk_used >= self.bulk_total):
            return False
        self.used += 1
        self.bulk_used += bulk
        return True

    def free(self, lane: Lane, exempt: bool) -> None:
        """Give it back."""
        if exempt:
            self.exempt_used -= 1
            return
        self.used -= 1
        self.bulk_used -= lane is Lane.BULK


class Exemptions:
    """Which installation calls of one session run outside the budget: each pair of method and
    integration once at a time, on bulk only the reconciliation.
    """

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._pairs: set[tuple[str, str]] = set()

    def take(self, method: str, integration_id: str) -> bool:
        """Whether such a call is exempt now; `free` gives that back."""
        pair = (method, integration_id)
        if (
            pair in self._pairs
            or len(self._pairs) >= INSTALLATION_CALLS
            or (self._lane is Lane.BULK and method != RECONCILE.name)
        ):
            return False
        self._pairs.add(pair)
        return True

    def free(self, method: str, integration_id: str) -> None:
        """The call has ended."""
        self._pairs.discard((method, integration_id))


class Numbers:
    """The sequence numbers of the requests a session receives.

    A small request may pass one large one that is being assembled: while an assembly is open
    exactly one number may be missing, and the assembled message must bring it.
    """

    def __init__(self) -> None:
        self._expected = 1
        self._missing: int | None = None

    def request(self, seq: int, *, whole: bool, assembling: bool) -> None:
        """Take a request's number or raise `BadMessage`."""
        if not whole and self._missing is not None:
            if seq != self._missing:
                raise BadMessage("a request has a wrong number")
            self._missing = None
        elif seq == self._expected:
            self._expected += 1
        elif whole and assembling and self._missing is None and seq == self._expected + 1:
            self._missing = self._expected
            self._expected += 2
        else:
            raise BadMessage("a request has a wrong number")

    def has(self, seq: int) -> bool:
        """Whether the request of this number has come."""
        return 0 < seq < self._expected and seq != self._missing

    def assembled_other(self) -> None:
        """Something else than a request was assembled, so no number may be missing."""
        if self._missing is not None:
            raise BadMessage("a request's number is missing")


def error_object(error: GarconError) -> ErrorObject:
    """Return what crosses of an error that is meant for the caller."""
    outcome = error.outcome if isinstance(error, CallError) else "rejected"
    domain = error.domain if isinstance(error, CallError) else None
    status = error.status if 400 <= error.status <= 599 else 500
    return ErrorObject(
        code=error.code,
        message=error.text,
        retryable=error.retryable,
        domain=domain or DOMAIN,  # type: ignore[arg-type]  # one of the three; checked where it is read
        status=status,
        details=error.details,
        outcome=outcome,  # type: ignore[arg-type]  # likewise
    )


def call_error(error: ErrorObject) -> CallError:
    """Return what a caller gets for an error that crossed."""
    return CallError(
        error.code,
        error.message,
        outcome=error.outcome or "rejected",
        domain=error.domain,
        status=error.status or 500,
        retryable=error.retryable,
        details=error.details,
    )


def refusal(
    code: str,
    text: str,
    *,
    outcome: str = "not-dispatched",
    retryable: bool = False,
    status: int = 503,
) -> CallError:
    """Return an error that the link itself makes."""
    return CallError(code, text, outcome=outcome, domain=DOMAIN, status=status, retryable=retryable)


def busy() -> CallError:
    """Too much is under way on the link; nothing was dispatched."""
    return refusal(EXECUTOR_BUSY, "too much is under way on the executor link", retryable=True)


def shortened(error: ErrorObject) -> ErrorObject:
    """Return the same error without its details and with a shorter text."""
    return ErrorObject(
        code=error.code[:128],
        message=error.message[:1024],
        retryable=error.retryable,
        domain=error.domain,
        status=error.status,
        outcome=error.outcome,
    )


def internal(incident: str) -> ErrorObject:
    """What crosses of an unexpected failure; the log of the side that failed has it under the
    incident id.
    """
    return ErrorObject(
        code=PROVIDER_FAILURE,
        message=f"The other side failed; its log has the cause as incident {incident}.",
        retryable=False,
        outcome="unknown",
    )
