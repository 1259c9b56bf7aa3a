"""What a steer that was not delivered answers (chats.md 1.3, 3.12, 3.19)."""

from __future__ import annotations

from garcon.errors import GarconError

_ERRORS = {
    "unsupported": (
        "OPERATION_UNSUPPORTED",
        422,
        "The chat's agent takes no input while it works.",
    ),
    "not-steerable": (
        "STEER_TURN_NOT_STEERABLE",
        409,
        "What the agent is doing takes no further input.",
    ),
    "turn-unavailable": ("STEER_TURN_UNAVAILABLE", 409, "No turn of this chat is running."),
    "turn-changed": ("STEER_TURN_CHANGED", 409, "The turn that was to be steered is over."),
    "rejected": ("STEER_PROVIDER_REJECTED", 409, "The agent did not take the input."),
    "invalid": ("VALIDATION_FAILED", 400, "The agent found the input invalid."),
    "not-delivered": ("STEER_NOT_DELIVERED", 500, "The input could not be delivered."),
    "unknown": (
        "STEER_OUTCOME_UNKNOWN",
        500,
        "Whether the input reached the agent is not known.",
    ),
}
"""Code, status and text of each outcome that is none; none of them may simply be tried again."""


def of(outcome: str, text: str = "") -> GarconError:
    """Return the error of an outcome, with whatever its executor said of it."""
    code, status, usual = _ERRORS[outcome]
    return GarconError(code, text or usual, status=status)


def unavailable() -> GarconError:
    """There is no turn to steer."""
    return of("turn-unavailable")


def not_delivered(text: str = "") -> GarconError:
    """It failed before it could reach the agent."""
    return of("not-delivered", text)


def unknown(text: str = "") -> GarconError:
    """It may have reached the agent."""
    return of("unknown", text)


def stopping() -> GarconError:
    """The controller stops; unlike other commands a steer is not to be repeated."""
    return GarconError("SERVER_SHUTTING_DOWN", "The controller is stopping.", status=503)


def finalization_failed() -> GarconError:
    """The agent has the input, and the queue has its entry again."""
    return GarconError(
        "QUEUE_STEER_FINALIZATION_FAILED",
        "The message was delivered, but could not be kept; the queue is paused.",
        status=500,
        extra={"deliveryOutcome": "accepted"},
    )
