"""The error tree: what went wrong, in the words that may cross a boundary.

Nothing here knows HTTP or the link; `status` and `retryable` are the contract's own (chats.md 1.3,
control.md E.8, F.6).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Importing typing takes 10 ms, which every start of the command would pay.
    from typing import Any


class GarconError(Exception):
    """A failure with a contract code, meant for the caller.

    `status` is the HTTP status it is answered with, `retryable` whether the same logical request
    can succeed later, `details` optional further text and `extra` further members of the error body
    (chats.md 1.2).  `headers` are sent with an HTTP answer (only ``Retry-After`` is ever needed).
    """

    def __init__(
        self,
        code: str,
        text: str,
        *,
        status: int = 400,
        retryable: bool = False,
        details: str | None = None,
        extra: dict[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.status = status
        self.retryable = retryable
        self.details = details
        self.extra = extra or {}
        self.retry_after = retry_after

    def body(self) -> dict[str, Any]:
        """Return the standard error envelope (chats.md 1.2)."""
        envelope: dict[str, Any] = {
            "success": False,
            "error": self.text,
            "errorCode": self.code,
            "retryable": self.retryable,
        }
        if self.details is not None:
            envelope["details"] = self.details
        return envelope | self.extra


class CallError(GarconError):
    """A call over the link failed; `outcome` says what is known of it (control.md J.7).

    ``not-dispatched``: never reached the handler.  ``rejected``: refused by it.  ``unknown``: may
    have run.  `lost_launch`: what became of it will be told on the producer relay.
    """

    lost_launch = False

    def __init__(
        self, code: str, text: str, *, outcome: str, domain: str | None = None, **more: Any
    ) -> None:
        super().__init__(code, text, **more)
        self.outcome = outcome
        self.domain = domain


class LaneLost(CallError):
    """The peer is gone.  A call already sent has outcome ``unknown``, one never sent
    ``not-dispatched``.
    """

    def __init__(self, reason: str, *, outcome: str = "unknown") -> None:
        super().__init__(
            "EXECUTOR_UNAVAILABLE",
            f"the executor link is down ({reason})",
            outcome=outcome,
            status=503,
            retryable=True,
        )
        self.reason = reason


class LaunchLost(LaneLost):
    """The session of a launch ended after it was sent; its handler goes on, if the worker has it,
    and the producer relay tells what became of it (control.md J.8).
    """

    lost_launch = True


class BadMessage(GarconError):
    """The peer broke the protocol; the lane that carried the message is closed."""

    def __init__(self, text: str) -> None:
        super().__init__("PROTOCOL_ERROR", text)


class LimitExceeded(GarconError):
    """A bound of the contract would be passed; nothing was done."""


class StartupError(GarconError):
    """A service cannot start; `text` is the one line its operator reads."""

    def __init__(self, text: str, code: str = "STARTUP_FAILED") -> None:
        super().__init__(code, text)


def validation(text: str, *, status: int = 400, details: str | None = None) -> GarconError:
    """A request breaks the contract: ``VALIDATION_FAILED``, never retryable."""
    return GarconError("VALIDATION_FAILED", text, status=status, details=details)
