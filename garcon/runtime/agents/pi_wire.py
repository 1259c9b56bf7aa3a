"""What is written to Pi's RPC mode and read from it, line by line, as values."""

from __future__ import annotations

from typing import Any

from garcon.contract.messages import Image
from garcon.runtime.agents.conversation import Output, Send

Message = dict[str, Any]
GATE = "garcon"
"""By which our extension (``pi_gate.mjs``) marks what it says."""


def command(command_id: str, kind: str, **members: Any) -> Output:
    """Return a command; its response repeats the id."""
    return Send({"id": command_id, "type": kind, **members})


def confirmed(request_id: Any, allowed: bool) -> Output:
    """Return the answer to a confirmation."""
    return Send({"type": "extension_ui_response", "id": request_id, "confirmed": allowed})


def entered(request_id: Any, value: str) -> Output:
    """Return the answer to a dialog that wants a text, or one of its choices."""
    return Send({"type": "extension_ui_response", "id": request_id, "value": value})


def cancelled(request_id: Any) -> Output:
    """Return the answer to a dialog that nobody answers."""
    return Send({"type": "extension_ui_response", "id": request_id, "cancelled": True})


def picture(image: Image) -> Message | None:
    """Return an attachment as part of a prompt, None for what is no picture."""
    head, _, data = image.data.partition(",")
    media_type = head.removeprefix("data:").partition(";")[0]
    if not media_type.startswith("image/"):
        return None
    return {"type": "image", "data": data, "mimeType": media_type}


def an_object(value: object) -> Message:
    """Return an object, empty where there is none."""
    return value if isinstance(value, dict) else {}


def objects(value: object) -> list[Message]:
    """Return the objects of a list, none where there is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: object) -> str:
    """Return a text, empty where there is none."""
    return value if isinstance(value, str) else ""


def texts(content: object) -> str:
    """Return the text of a content, which may be one."""
    if isinstance(content, str):
        return content
    return "\n".join(text_of(one.get("text")) for one in objects(content) if "text" in one)


def model_parts(model: str) -> tuple[str, str]:
    """Return provider and id of ``provider/id``; an id may have slashes in it."""
    provider, _, name = model.partition("/")
    return provider, name
