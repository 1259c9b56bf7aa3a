"""The fields of command bodies: trimmed, bounded and normalised, or refused (chats.md 1.1, 2, 3,
4.14 to 4.16).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from garcon.contract.catalogs import (
    PERMISSION_MODES,
    THINKING_ALIASES,
    THINKING_MODES,
    AgentSettings,
    PermissionMode,
    ThinkingMode,
)
from garcon.contract.chats import CommandBody
from garcon.contract.forks import ForkChat
from garcon.contract.ids import LOCAL, is_chat_id, is_executor_id
from garcon.contract.limits import CLIENT_ID_BYTES, TITLE_BYTES
from garcon.contract.messages import Presentation, Style
from garcon.errors import validation

NEW_SESSION = "New Session"
PRESENTATION_TITLE_CHARACTERS = 120

_SPACES = re.compile(r"\s+")
_NOT_SLUG = re.compile(r"[^a-z0-9-]")
_HYPHENS = re.compile(r"-+")
_DIGITS = re.compile(r"[0-9]{1,1000}")
_COLOUR = re.compile(r"#[0-9a-f]{6}")


def required(value: str, name: str) -> str:
    """Return a trimmed text that is not empty."""
    trimmed = value.strip()
    if not trimmed:
        raise validation(f"{name} is required")
    return trimmed


def client_id(value: str, name: str) -> str:
    """Return a client's identity: 1 to 256 bytes once trimmed."""
    trimmed = required(value, name)
    if len(trimmed.encode()) > CLIENT_ID_BYTES:
        raise validation(f"{name} is longer than {CLIENT_ID_BYTES} bytes")
    return trimmed


def chat_id(value: str, name: str = "chatId") -> str:
    """Return a well-formed chat id."""
    trimmed = value.strip()
    if not is_chat_id(trimmed):
        raise validation(f"{name} is not a chat id")
    return trimmed


def no_answers_member(body: CommandBody | ForkChat) -> None:
    """Refuse ``parentChat``: answers carry it, no request may (decisions.md 27)."""
    if body.parent_chat is not UNSET:
        raise validation("parentChat is a member of answers; a start names parentChatId")


def executor_id(value: str | None) -> str:
    """Return the executor that is meant; absent is Local."""
    if value is None:
        return LOCAL
    if not is_executor_id(value):
        raise validation("executorId is neither local nor a UUID")
    return value


def optional(value: str | None, name: str) -> str | None:
    """Return a trimmed text or None; an empty one is refused."""
    return None if value is None else required(value, name)


def positive(value: str | None, name: str) -> int | None:
    """Return a query's positive number, or None where it is absent."""
    number = natural(value, name)
    if number == 0:
        raise validation(f"{name} is not a positive integer")
    return number


def natural(value: str | None, name: str) -> int | None:
    """Return a query's number, decimal digits only, or None where it is absent."""
    if value is None:
        return None
    if _DIGITS.fullmatch(value) is None:
        raise validation(f"{name} is not a number")
    return int(value)


def ordinals(values: list[int] | None) -> list[int]:
    """Return positive ordinals, each once, ascending."""
    if any(value < 1 for value in values or ()):
        raise validation("excludedResendOrdinals holds something other than positive integers")
    return sorted(set(values or ()))


def slug(tag: str) -> str:
    """Normalise one tag; nothing may be left of it."""
    hyphened = _SPACES.sub("-", tag.strip().lower())
    kept = _HYPHENS.sub("-", _NOT_SLUG.sub("", hyphened))
    return kept.removeprefix("-").removesuffix("-")


def tags(values: Any) -> list[str]:
    """Normalise a list of tags; what is no list is none, what is no text is left out."""
    if not isinstance(values, list):
        return []
    return merged_tags((), (value for value in values if isinstance(value, str)))


def merged_tags(present: Iterable[str], added: Iterable[str]) -> list[str]:
    """Return both together, normalised."""
    return sorted({made for tag in (*present, *added) if (made := slug(tag))})


def permission_mode(value: Any) -> PermissionMode:
    """Read a mode leniently: anything unknown is ``default``."""
    return value if isinstance(value, str) and value in PERMISSION_MODES else "default"


def thinking_mode(value: Any) -> ThinkingMode:
    """Read an effort leniently: old names are mapped, anything unknown is ``none``."""
    name = THINKING_ALIASES.get(value, value) if isinstance(value, str) else None
    return name if isinstance(name, str) and name in THINKING_MODES else "none"


def exact_mode(value: str | UnsetType, known: tuple[str, ...], name: str) -> str | None:
    """Read a mode strictly; absent is None."""
    if value is UNSET:
        return None
    if value not in known:
        raise validation(f"{name} is unknown")
    return value


def agent_settings(settings: AgentSettings) -> AgentSettings:
    """Check an agent settings envelope's own form."""
    if not settings.owner_id.strip() or settings.schema_version < 1:
        raise validation("agentSettings is malformed")
    return settings


def title(value: str) -> str:
    """Return a chat's new name: at most 4 KiB once trimmed."""
    name = required(value, "title")
    if len(name.encode()) > TITLE_BYTES:
        raise validation(f"title is longer than {TITLE_BYTES} bytes")
    return name


def first_line(text: str, limit: int = TITLE_BYTES) -> str:
    """Return the first line of a text, trimmed and cut between characters."""
    line = text.strip().split("\n", 1)[0].strip()
    encoded = line.encode()
    return line if len(encoded) <= limit else encoded[:limit].decode(errors="ignore").rstrip()


def presentation(value: dict[str, Any] | None) -> Presentation | None:
    """Return how an input is to be shown; a malformed wish is refused."""
    if value is None:
        return None
    try:
        wish = msgspec.convert(value, Presentation)
    except msgspec.ValidationError as error:
        raise validation(f"userMessagePresentation is malformed: {error}") from None
    style(wish.presentation, "userMessagePresentation")
    if wish.title is not UNSET and not _is_title_line(wish.title):
        raise validation("userMessagePresentation has a title that is blank, long or not one line")
    return wish


def style(wish: Style, name: str) -> Style:
    """Return a style whose colours, if it is to have any, are in order."""
    colours = wish.custom_style
    if (wish.style == "custom") != (colours is not UNSET):
        raise validation(f"{name} needs customStyle with the style custom only")
    if colours is not UNSET and not (
        _COLOUR.fullmatch(colours.light_accent) and _COLOUR.fullmatch(colours.dark_accent)
    ):
        raise validation(f"{name} has a colour that is not #rrggbb in lower case")
    return wish


def _is_title_line(text: str) -> bool:
    return (
        bool(text.strip())
        and len(text) <= PRESENTATION_TITLE_CHARACTERS
        and (len(text.splitlines()) == 1)
    )
