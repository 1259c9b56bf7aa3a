"""The conversation that a model is given, and how attachments become part of it, as values."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence
from typing import Any, Literal

from attrs import frozen
from msgspec import UNSET

from garcon.contract.messages import Image
from garcon.contract.runs import HistoryMessage, Launch

MESSAGES = 200
"""The most that a model is given, prompt included (chats.md 5.1.4)."""
PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
TEXTS = ("text/markdown", "text/plain")
PDF = "application/pdf"
_DRAWING = "image/svg+xml"
"""A picture to people, but no model API takes it as one: it is sent as the text that it is."""

_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]*)*?;base64,")


@frozen
class Attachment:
    """One attachment: its type, and its content in base64."""

    name: str
    mime_type: str
    content: str

    @property
    def url(self) -> str:
        """The content as a ``data:`` URL that names the type."""
        return f"data:{self.mime_type};base64,{self.content}"


@frozen
class Message:
    """One message of the conversation."""

    role: Literal["user", "assistant"]
    text: str
    attachments: tuple[Attachment, ...] = ()

    @property
    def says_something(self) -> bool:
        """Whether there is anything in it; servers refuse messages without."""
        return bool(self.attachments) or bool(self.text.strip())


Part = dict[str, Any]


def conversation(launch: Launch) -> list[Message]:
    """Return all that was said, oldest first, and then the prompt."""
    said = [*launch.history, HistoryMessage("user", launch.prompt, launch.images)]
    messages = [
        Message(one.role, one.content, tuple(attachment(image) for image in one.images))
        for one in said
    ]
    return [message for message in messages if message.says_something]


def newest(messages: Sequence[Message]) -> Sequence[Message]:
    """Return as many as a model is given."""
    return messages[-MESSAGES:]


def attachment(image: Image) -> Attachment:
    """Return an attachment as it came from the client, its type as the controller judged it."""
    head = _DATA_URL.match(image.data)
    name = "attachment" if image.name is UNSET else image.name
    said = image.mime_type if image.mime_type is not UNSET else head[1] if head is not None else ""
    content = image.data[head.end() :] if head is not None else ""
    return Attachment(name, said.strip().lower(), content)


def content(
    message: Message,
    text: Callable[[str], Part],
    picture: Callable[[Attachment], Part],
    document: Callable[[Attachment], Part] | None = None,
) -> str | list[Part]:
    """Return a message's content: its text alone, or parts, attachments first.

    Texts that are attached become text.  What this API has no part for is named, so that the model
    knows of it: an earlier message may hold what another agent was given.
    """
    if not message.attachments:
        return message.text
    parts: list[Part] = []
    for one in message.attachments:
        if one.mime_type in PICTURES:
            parts.append(picture(one))
        elif one.mime_type == PDF and document is not None:
            parts.append(document(one))
        elif one.mime_type in TEXTS or one.mime_type == _DRAWING:
            parts.append(text(f"Attached file {one.name} ({one.mime_type}):\n\n{_text(one)}"))
        else:
            parts.append(
                text(f"[The attached file {one.name} ({one.mime_type}) is not shown here.]")
            )
    if message.text.strip():
        parts.append(text(message.text))
    return parts


def _text(one: Attachment) -> str:
    try:
        content = b64decode(one.content)
    except Base64Error:
        content = b""
    return content.decode("utf-8", "replace").removeprefix("\ufeff")
