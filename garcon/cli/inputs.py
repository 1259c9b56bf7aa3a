"""What several commands read from the command line, checked the same way everywhere."""

from __future__ import annotations

from garcon.cli.client import is_chat_id, is_executor_id
from garcon.cli.failures import bad_arguments
from garcon.contract.limits import CLIENT_ID_BYTES, TITLE_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.options import Parsed

_HEX = frozenset("0123456789abcdef")
_TAG = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")
_MESSAGE_TITLE = 120


def chat_id(text: str, what: str = "the chat") -> str:
    """Return a chat id."""
    if not is_chat_id(text):
        raise bad_arguments(f"{what} must be a chat id: 16 digits")
    return text


def executor_id(text: str) -> str:
    """Return an executor id: ``local`` or a UUID."""
    if not is_executor_id(text):
        raise bad_arguments(
            "an executor is named by local or its UUID (see `garcon executor list`)"
        )
    return text


def required(parsed: Parsed, name: str) -> str:
    """Return an option that must be there and say something."""
    value = parsed.text(name)
    if value is None:
        raise bad_arguments(f"--{name} is required")
    return said(value, name)


def optional(parsed: Parsed, name: str) -> str | None:
    """Return an option that must say something if it is there."""
    value = parsed.text(name)
    return None if value is None else said(value, name)


def said(value: str, name: str) -> str:
    """Return an option's text, which must not be blank."""
    if not value.strip():
        raise bad_arguments(f"--{name} is blank")
    return _utf8(value, name)


def operand(value: str, what: str) -> str:
    """Return a positional argument, which must say something."""
    if not value.strip():
        raise bad_arguments(f"{what} is blank")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise bad_arguments(f"{what} is not valid UTF-8") from None
    return value


def title(parsed: Parsed) -> str | None:
    """Return the chat's title, trimmed."""
    value = optional(parsed, "title")
    if value is None:
        return None
    value = value.strip()
    if len(value.encode()) > TITLE_BYTES:
        raise bad_arguments(f"--title is longer than {TITLE_BYTES} bytes")
    return value


def turn_id(parsed: Parsed) -> str:
    """Return the turn to wait for."""
    value = required(parsed, "turn")
    if value != value.strip() or len(value.encode()) > CLIENT_ID_BYTES:
        raise bad_arguments("--turn must be a turn id as `garcon start-async` printed it")
    return value


def tags(parsed: Parsed) -> list[str]:
    """Return a new chat's tags: ``cli`` and what was asked for, normalised."""
    found = {"cli"}
    return sorted(found | {tag(text) for text in parsed.texts("tag")})


def tag(text: str) -> str:
    """Return a tag, normalised; something must be left of it."""
    normal = normal_tag(text)
    if not normal:
        raise bad_arguments(f"--tag {text!r} has no letter or digit")
    return normal


def normal_tag(text: str) -> str:
    """Return a tag as the server stores it (control.md D.4)."""
    slug = "".join(c for c in "-".join(text.lower().split()) if c in _TAG)
    while "--" in slug:
        slug = slug.replace("--", "-")
    return slug.removeprefix("-").removesuffix("-")


def preambles(parsed: Parsed) -> list[str] | None:
    """Return the explicit preamble ids, or None for the defaults."""
    ids = parsed.texts("preamble")
    if parsed.flag("no-preamble"):
        if ids:
            raise bad_arguments("--no-preamble and --preamble exclude each other")
        return []
    return [said(text, "preamble") for text in ids] if ids else None


def presentation(parsed: Parsed) -> dict[str, Any] | None:
    """Return how the message is shown, or None when nothing was said about it."""
    heading, style = optional(parsed, "message-title"), parsed.text("message-style")
    color, collapsible = parsed.text("color"), parsed.flag("collapsible")
    if heading is None and style is None and color is None and not collapsible:
        return None
    if color is not None and style not in (None, "custom"):
        raise bad_arguments("--color goes with --message-style custom only")
    if color is None and style == "custom":
        raise bad_arguments("--message-style custom needs --color")
    shown: dict[str, Any] = {"style": "custom" if color is not None else style or "notice"}
    if color is not None:
        shown["customStyle"] = accents(color)
    whole: dict[str, Any] = {
        "presentation": shown,
        "bodyDisclosure": "collapsed" if collapsible else "expanded",
    }
    if heading is not None:
        if len(heading.splitlines()) != 1 or len(heading) > _MESSAGE_TITLE:
            raise bad_arguments(
                f"--message-title must be one line of at most {_MESSAGE_TITLE} characters"
            )
        whole["title"] = heading.strip()
    return whole


def accents(color: str) -> dict[str, str]:
    """Return the colours of a custom style: one for both backgrounds, or one for each."""
    light, comma, dark = color.partition(",")
    return {"lightAccent": _color(light), "darkAccent": _color(dark if comma else light)}


def _color(text: str) -> str:
    digits = text.lower().removeprefix("#")
    if len(digits) != 6 or not _HEX.issuperset(digits):
        raise bad_arguments(
            "--color takes six hexadecimal digits, or two such separated by a comma"
        )
    return f"#{digits}"


def is_absolute_anywhere(path: str) -> bool:
    """Whether a path is absolute on some system: POSIX, a Windows drive, or a Windows share."""
    drive = len(path) > 2 and path[0].isascii() and path[0].isalpha() and path[1] == ":"
    return path.startswith(("/", "\\\\")) or (drive and path[2] in "/\\")


def _utf8(value: str, name: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise bad_arguments(f"--{name} is not valid UTF-8") from None
    return value
