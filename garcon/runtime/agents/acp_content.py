"""Pieces of content of the Agent Client Protocol: what a prompt is made of, and what an agent's
pieces say in words.
"""

from __future__ import annotations

from typing import Any

from garcon.contract.messages import Image
from garcon.contract.runs import Launch
from garcon.runtime.agents.acp_wire import an_object, text_of
from garcon.runtime.agents.history import preface

KINDS = frozenset({"audio", "image", "resource", "resource_link", "text"})


def prompt_of(launch: Launch, *, knows_history: bool) -> list[dict[str, Any]]:
    """Return the pieces of a prompt: what was said before, to an agent that does not know it, then
    the pictures, then the words.
    """
    earlier = None if knows_history else preface(launch)
    images = [part for image in launch.images if (part := image_part(image)) is not None]
    return [*([] if earlier is None else [a_text(earlier)]), *images, a_text(launch.prompt)]


def a_text(text: str) -> dict[str, Any]:
    """Return words as a piece."""
    return {"type": "text", "text": text}


def image_part(image: Image) -> dict[str, Any] | None:
    """Return an attachment as a piece, or None for what is no picture."""
    head, _, data = image.data.partition(",")
    mime_type = head.removeprefix("data:").partition(";")[0]
    if not mime_type.startswith("image/"):
        return None
    return {"type": "image", "mimeType": mime_type, "data": data}


def image_in(content: dict[str, Any]) -> Image | None:
    """Return the picture that a piece is, None where it is none."""
    kind, data = text_of(content.get("mimeType")), text_of(content.get("data"))
    if content.get("type") != "image" or not kind.startswith("image/") or not data:
        return None
    return Image(data=f"data:{kind};base64,{data}", mime_type=kind)


def words_of(content: dict[str, Any]) -> str:
    """Return what a piece says.  A row has words only: of a picture or a sound it says that there
    was one.
    """
    match content.get("type"):
        case "resource_link":
            uri = text_of(content.get("uri"))
            return f"[{text_of(content.get('name')) or uri}]({uri})"
        case "resource":
            inner = an_object(content.get("resource"))
            return text_of(inner.get("text")) or f"[{text_of(inner.get('uri')) or 'a resource'}]"
        case "image" | "audio" as kind:
            return f"[{kind}: {text_of(content.get('mimeType')) or 'of no known type'}]"
    return text_of(content.get("text"))
