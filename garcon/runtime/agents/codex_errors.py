"""What Codex says of failures, in words: with the status of a failed model request among them."""

from __future__ import annotations

from typing import Any

from garcon.runtime.agents.codex_wire import an_object, text_of

_STATUS = {"internalServerError": 500, "unauthorized": 401}
"""Causes that are a status by another name."""


def failure_text(error: dict[str, Any]) -> str:
    """Return why a turn failed."""
    text = text_of(error.get("message")).strip() or "the agent failed and did not say why"
    status = status_of(error.get("codexErrorInfo"))
    if status is not None and str(status) not in text:
        text = f"{text} (HTTP {status})"
    return text


def retry_text(error: dict[str, Any]) -> str:
    """Return what is to be said of a failure after which Codex tries again."""
    text = failure_text(error)
    details = text_of(error.get("additionalDetails")).strip()
    return f"{text}: {details}" if details else text


def status_of(info: object) -> int | None:
    """Return the HTTP status that a cause names, if any."""
    if isinstance(info, str):
        return _STATUS.get(info)
    for about in an_object(info).values():
        status = an_object(about).get("httpStatusCode")
        if type(status) is int:
            return status
    return None
