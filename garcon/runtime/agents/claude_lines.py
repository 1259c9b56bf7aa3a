"""What is written to Claude Code, line by line, as values."""

from __future__ import annotations

from typing import Any

from garcon.contract.messages import Image
from garcon.runtime.agents.conversation import Output, Send

Message = dict[str, Any]
NAME = 200
"""Characters of a name; Claude Code takes 36."""


def user_line(content: list[Message], line_id: str, *, at_once: bool = False) -> Output:
    """Return a line of the user's.  The agent takes it up when it comes to it, or drops what it
    does for one that is to be heard `at_once`.
    """
    line: Message = {
        "type": "user",
        "message": {"role": "user", "content": content},
        "uuid": line_id,
    }
    if at_once:
        line["priority"] = "now"
    return Send(line)


def text_block(text: str) -> Message:
    """Return a text as part of a line."""
    return {"type": "text", "text": text}


def image_block(image: Image) -> Message | None:
    """Return a picture as part of a line, None for what is none."""
    head, _, data = image.data.partition(",")
    media_type = head.removeprefix("data:").partition(";")[0]
    if not media_type.startswith("image/"):
        return None
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


def request(request_id: str, body: Message) -> Output:
    """Return a request of ours."""
    return Send({"type": "control_request", "request_id": request_id, "request": body})


def allow(request_id: str, given: Message, rules: list[Message]) -> Output:
    """Return the permission to do what was asked for; `rules` are what is to last of it."""
    # `updatedInput` is not optional: without it the agent calls the answer malformed and the tool
    # fails.
    answer: Message = {"behavior": "allow", "updatedInput": given}
    if rules:
        answer["updatedPermissions"] = rules
    return _answer(request_id, answer)


def deny(request_id: str, text: str) -> Output:
    """Return a refusal; the agent goes on."""
    return _answer(request_id, {"behavior": "deny", "message": text})


def error(request_id: str, text: str) -> Output:
    """Return the answer to a request that we do not know."""
    answer = {"subtype": "error", "request_id": request_id, "error": text}
    return Send({"type": "control_response", "response": answer})


def _answer(request_id: str, response: Message) -> Output:
    answer = {"subtype": "success", "request_id": request_id, "response": response}
    return Send({"type": "control_response", "response": answer})


def as_object(value: object) -> Message:
    """Return an object, empty where there is none."""
    return value if isinstance(value, dict) else {}


def objects(value: object) -> list[Message]:
    """Return the objects of a list, none where there is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def number(value: object) -> int | float | None:
    """Return a number that can be counted with, None for anything else: JSON has no end to its
    integers, and programs write numbers that are none.
    """
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_one and abs(value) < 2**53 else None  # type: ignore[arg-type,return-value]


def name(value: object) -> str:
    """Return a name by which something is asked for again, and an empty one for what is none."""
    return value if isinstance(value, str) and len(value) <= NAME else ""


def words(value: object) -> str:
    """Return a text that says something, else an empty one."""
    return value if isinstance(value, str) and value.strip() else ""
