"""JSON-RPC 2.0 as the Agent Client Protocol uses it: one object a message, with our own requests
numbered.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field

from garcon.runtime.agents.conversation import Output, Send

METHOD_NOT_FOUND = -32601
AUTH_REQUIRED = -32000


@define
class Calls:
    """Our requests that are open, by what they are for."""

    _last: int = 0
    _open: dict[int, str] = field(factory=dict)

    def ask(self, purpose: str, method: str, parameters: dict[str, Any]) -> Output:
        """Return a request; its answer is known by `purpose`."""
        self._last += 1
        self._open[self._last] = purpose
        return Send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": parameters})

    def answered(self, request_id: object) -> str | None:
        """Return what the request was for that is answered, None for none of ours."""
        # A truth is a number in Python, but no id of ours.
        if not isinstance(request_id, int) or isinstance(request_id, bool):
            return None
        return self._open.pop(request_id, None)


def notification(method: str, parameters: dict[str, Any]) -> Output:
    """Return a message that nobody answers."""
    return Send({"jsonrpc": "2.0", "method": method, "params": parameters})


def answer(request_id: Any, result: Any) -> Output:
    """Return the answer to an agent's request."""
    return Send({"jsonrpc": "2.0", "id": request_id, "result": result})


def refusal(request_id: Any, code: int, text: str) -> Output:
    """Return the answer to a request that is not granted."""
    error = {"code": code, "message": text}
    return Send({"jsonrpc": "2.0", "id": request_id, "error": error})


def error_text(error: object) -> str:
    """Return what an error says; where there are details, they say more."""
    said = an_object(error)
    text = text_of(said.get("message")) or "an error without a message"
    data = said.get("data")
    details = text_of(data) or text_of(an_object(data).get("details"))
    return f"{text}: {details}" if details else text


def an_object(value: object) -> dict[str, Any]:
    """Return a value that is an object, an empty one for any other."""
    return value if isinstance(value, dict) else {}


def objects_of(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list, none for what is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def text_of(value: object) -> str:
    """Return a value that is a text, an empty one for any other."""
    return value if isinstance(value, str) else ""
