"""The filter language for chats (control.md I.4): what a person types, as a test of list entries.

Nothing here asks anybody: text in, a decision about each entry out.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from garcon.cli.failures import bad_arguments
from garcon.cli.inputs import normal_tag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Entry = dict[str, Any]
    Test = Callable[[Entry], bool]
    Character = tuple[str, bool]

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)")
_WORDS = {
    "status": ("active", "unread"),
    "is": ("pinned", "normal", "archived", "!pinned", "!normal", "!archived"),
}


def parse(text: str) -> Test:
    """Return the test that a filter means; an empty one lets every chat through."""
    tests: list[Test] = []
    alternatives: dict[str, list[str]] = {}
    for token in _tokens(text):
        operator, value = _operator(token)
        if operator is None:
            tests.append(_bare("".join(character for character, _ in value).lower()))
            continue
        values = _alternatives(operator, value)
        if operator in ("agent", "model", "project"):
            # The one kind whose clauses widen the filter instead of narrowing it.
            alternatives.setdefault(operator, []).extend(values)
        else:
            tests.append(_clause(operator, values))
    for operator, values in alternatives.items():
        tests.append(_clause(operator, values))
    return lambda entry: all(test(entry) for test in tests)


def activity(entry: Entry) -> str:
    """Return when a chat was last active, for ordering: made counts where nothing was said."""
    times = entry["activity"]
    return times.get("lastActivityAt") or times.get("createdAt") or ""


def _tokens(text: str) -> list[list[Character]]:
    """Split at spaces outside double quotes; each character knows whether it was quoted."""
    tokens: list[list[Character]] = []
    token: list[Character] = []
    quoted = is_token = False
    for character in text:
        if character == '"':
            quoted, is_token = not quoted, True
        elif character.isspace() and not quoted:
            if is_token:
                tokens.append(token)
            token, is_token = [], False
        else:
            token.append((character, quoted))
            is_token = True
    if quoted:
        raise bad_arguments("--filter has a quotation mark too few")
    return [*tokens, token] if is_token else tokens


def _operator(token: list[Character]) -> tuple[str | None, list[Character]]:
    """Part a token into its operator, where it has one, and the rest."""
    for place, (character, quoted) in enumerate(token):
        if quoted:
            break
        if character == ":":
            name = "".join(c for c, _ in token[:place]).lower()
            return (name, token[place + 1 :]) if name in _TESTS else (None, token)
    return None, token


def _alternatives(operator: str, value: list[Character]) -> list[str]:
    found = [""]
    for character, quoted in value:
        if character == "|" and not quoted:
            found.append("")
        else:
            found[-1] += character
    values = [one.strip() for one in found]
    if not all(values):
        raise bad_arguments(f"--filter has {operator}: without a value")
    known = _WORDS.get(operator)
    for one in values:
        if known is not None and one.lower() not in known:
            raise bad_arguments(f"--filter knows {operator}: {', '.join(known)}; not {one}")
    return values


def _clause(operator: str, values: list[str]) -> Test:
    tests = [_TESTS[operator](value) for value in values]
    return lambda entry: any(test(entry) for test in tests)


def _bare(term: str) -> Test:
    if not term.strip():
        raise bad_arguments("--filter has an empty term")

    def holds(entry: Entry) -> bool:
        preview = entry["preview"]
        places = (
            entry["title"],
            entry["projectPath"],
            preview.get("firstMessage", ""),
            preview.get("lastMessage", ""),
            *entry["tags"],
        )
        return any(term in place.lower() for place in places)

    return holds


def _within(name: str) -> Callable[[str], Test]:
    def make(value: str) -> Test:
        wanted = value.lower()
        return lambda entry: wanted in (entry.get(name) or "").lower()

    return make


def _equal(read: Callable[[Entry], object]) -> Callable[[str], Test]:
    return lambda value: lambda entry: read(entry) == value


def _tag(value: str) -> Test:
    wanted = normal_tag(value)
    return lambda entry: wanted in entry["tags"]


def _parent(entry: Entry) -> object:
    parent = entry.get("parentChat")
    return parent.get("chatId") if isinstance(parent, dict) else None


def _status(value: str) -> Test:
    name = "isActive" if value.lower() == "active" else "isUnread"
    return lambda entry: entry.get(name) is True


def _is(value: str) -> Test:
    group, wanted = value.lower().removeprefix("!"), not value.startswith("!")

    def holds(entry: Entry) -> bool:
        placed = "pinned" if entry["isPinned"] else "archived" if entry["isArchived"] else "normal"
        return (placed == group) is wanted

    return holds


def _instant(text: str) -> datetime:
    """Read a date, which is midnight in UTC, or a time that says where it is."""
    if _DATE.fullmatch(text) or _TIME.fullmatch(text):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    raise bad_arguments(
        f"--filter has {text!r} where a date (2026-01-31) or a time with Z or an offset"
        " (2026-01-31T12:00Z) should be"
    )


def _compare(read: Callable[[Entry], str], *, before: bool) -> Callable[[str], Test]:
    def make(value: str) -> Test:
        limit = _instant(value)

        def holds(entry: Entry) -> bool:
            at = read(entry)
            if not at:
                return False
            moment = datetime.fromisoformat(at)
            return moment < limit if before else moment > limit

        return holds

    return make


def _created(entry: Entry) -> str:
    return entry["activity"].get("createdAt") or ""


_TESTS: dict[str, Callable[[str], Test]] = {
    "title": _within("title"),
    "tag": _tag,
    "agent": _equal(lambda entry: entry["agentId"]),
    "model": _within("model"),
    "project": _within("projectPath"),
    "id": _equal(lambda entry: entry["id"]),
    "parent": _equal(_parent),
    "created-before": _compare(_created, before=True),
    "created-after": _compare(_created, before=False),
    "updated-before": _compare(activity, before=True),
    "updated-after": _compare(activity, before=False),
    "status": _status,
    "is": _is,
}
