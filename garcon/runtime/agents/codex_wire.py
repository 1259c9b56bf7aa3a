"""The JSON-RPC of Codex's app server, as values: one object a line, without a version field."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from garcon.contract.version import VERSION
from garcon.runtime.agents.conversation import Send

METHOD_NOT_FOUND = -32601
NAME = 200
"""Characters of a name; Codex takes 36."""
INITIALIZE: dict[str, Any] = {
    "clientInfo": {"name": "garcon", "title": "Garcon", "version": VERSION},
    "capabilities": {
        "experimentalApi": True,
        "requestAttestation": False,
        # Rows are made of what is finished, and these can be many.
        "optOutNotificationMethods": [
            "account/rateLimits/updated",
            "item/agentMessage/delta",
            "item/commandExecution/outputDelta",
            "item/fileChange/outputDelta",
            "item/fileChange/patchUpdated",
            "item/mcpToolCall/progress",
            "item/plan/delta",
            "item/reasoning/summaryPartAdded",
            "item/reasoning/summaryTextDelta",
            "item/reasoning/textDelta",
            "rawResponse/completed",
            "rawResponseItem/completed",
            "thread/readState/changed",
            "thread/status/changed",
            "turn/diff/updated",
        ],
    },
}
"""What we say of ourselves.  Cleaning up what runs in the background is experimental there."""
INITIALIZED: dict[str, Any] = {"method": "initialized"}


@define
class Calls:
    """Our requests, and what each of those that are open is for."""

    _last: int = 0
    _open: dict[int, str] = field(factory=dict)

    def ask(self, purpose: str, method: str, parameters: dict[str, Any]) -> Send:
        """Return a request."""
        self._last += 1
        self._open[self._last] = purpose
        return Send({"id": self._last, "method": method, "params": parameters})

    def answered(self, message: dict[str, Any]) -> str | None:
        """Return what an answer is to, once; None where nothing was asked."""
        number = message.get("id")
        return self._open.pop(number, None) if type(number) is int else None


def answer(request_id: Any, result: dict[str, Any]) -> Send:
    """Answer a request."""
    return Send({"id": request_id, "result": result})


def refusal(request_id: Any, code: int, text: str) -> Send:
    """Answer a request by an error."""
    return Send({"id": request_id, "error": {"code": code, "message": text}})


def error_of(message: dict[str, Any]) -> str | None:
    """Return why a request failed, None for one that did not."""
    if message.get("error") is None:
        return None
    text = an_object(message["error"]).get("message")
    return text if isinstance(text, str) and text else "an error without a message"


def an_object(value: object) -> dict[str, Any]:
    """Return a value that should be an object, and an empty one for any other."""
    return value if isinstance(value, dict) else {}


def objects_of(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts_of(value: object) -> list[str]:
    """Return the texts of a list, but for empty ones."""
    return [text for one in value if (text := text_of(one))] if isinstance(value, list) else []


def name_of(value: object) -> str:
    """Return a name by which something is asked for again, and an empty one for what is none."""
    text = text_of(value)
    return text if len(text) <= NAME else ""


def text_of(value: object) -> str:
    """Return a text, and an empty one for anything else."""
    return value if isinstance(value, str) else ""
