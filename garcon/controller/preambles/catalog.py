"""The catalog of preambles as a value: what may be in it, and every change of it (control.md D.2,
D.5).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct, field, structs

from garcon.contract.ids import is_executor_id, is_uuid4
from garcon.contract.preambles import (
    INVALID,
    Preamble,
    PreambleInput,
    Preambles,
    ProjectScope,
    Scope,
)
from garcon.controller.chats.fields import slug
from garcon.controller.preambles.matching import SEPARATOR, executor_of, together
from garcon.errors import GarconError

MOST, MOST_IDS = 100, 100_000
TITLE_POINTS, CONTENT_UNITS, COMBINED_UNITS = 120, 32_000, 64_000
RULES, AGENTS, TAGS, TAG_POINTS = 32, 32, 32, 64
FILE_CONTEXT = "\n\nReferenced file contents from @file mentions:\n\n"
"""What separates a prompt from the files it mentions; no preamble may look like it."""

_AGENT_ID = re.compile(r"[a-z][a-z0-9_-]{1,63}")
_LAST_REVISION = 2**53 - 1


class Catalog(Struct, frozen=True, kw_only=True):
    """All preambles in their order.  `ids` counts every one there ever was."""

    revision: int = 0
    ids: int = 0
    preambles: list[Preamble] = field(default_factory=list)

    def shown(self) -> Preambles:
        return Preambles(self.revision, list(self.preambles))

    def created(
        self, expected: int, given: PreambleInput, at: str, new_id: Callable[[], str]
    ) -> Catalog:
        """Return the catalog with one more, last in order."""
        self.must_be(expected)
        if len(self.preambles) >= MOST:
            raise _conflict("PREAMBLE_LIMIT_REACHED", f"There are {MOST} preambles already.")
        if self.ids >= MOST_IDS:
            raise _conflict(
                "PREAMBLE_ID_LIFETIME_LIMIT_REACHED", f"{MOST_IDS} preambles were made here."
            )
        preamble_id = new_id()
        if any(one.id == preamble_id for one in self.preambles):
            raise _conflict("PREAMBLE_ID_COLLISION", "The new id is taken; try again.")
        made = _made(preamble_id, given, at, at)
        return self._next([*self.preambles, made], ids=self.ids + 1)

    def replaced(self, expected: int, preamble_id: str, given: PreambleInput, at: str) -> Catalog:
        """Return the catalog with another text in the place of one."""
        number = self.number(expected, preamble_id)
        made = _made(preamble_id, given, self.preambles[number].created_at, at)
        return self._next([*self.preambles[:number], made, *self.preambles[number + 1 :]])

    def deleted(self, expected: int, preamble_id: str) -> Catalog:
        """Return the catalog without one."""
        number = self.number(expected, preamble_id)
        return self._next([*self.preambles[:number], *self.preambles[number + 1 :]])

    def reordered(self, expected: int, ids: list[str]) -> Catalog:
        """Return the catalog in another order; every id has to be named once."""
        self.must_be(expected)
        known = {one.id: one for one in self.preambles}
        if sorted(ids) != sorted(known):
            raise invalid("orderedPreambleIds must name every preamble once")
        return self._next([known[one] for one in ids])

    def must_be(self, expected: int) -> None:
        """Raise ``PREAMBLE_REVISION_CONFLICT`` (409) unless this is the revision expected."""
        if expected != self.revision:
            raise _conflict(
                "PREAMBLE_REVISION_CONFLICT", "The preambles have changed; read them again."
            )
        if self.revision >= _LAST_REVISION:
            raise _conflict("PREAMBLE_REVISION_EXHAUSTED", "No further change can be counted.")

    def number(self, expected: int, preamble_id: str) -> int:
        """Return the place of a preamble in the revision that is expected, or raise
        ``PREAMBLE_NOT_FOUND`` (404).
        """
        self.must_be(expected)
        for number, one in enumerate(self.preambles):
            if one.id == preamble_id:
                return number
        raise GarconError("PREAMBLE_NOT_FOUND", "No such preamble exists.", status=404)

    def _next(self, preambles: list[Preamble], ids: int | None = None) -> Catalog:
        _must_fit_together(preambles)
        return structs.replace(
            self,
            revision=self.revision + 1,
            ids=self.ids if ids is None else ids,
            preambles=preambles,
        )


def checked(given: PreambleInput) -> PreambleInput:
    """Return a preamble as it is kept, or raise ``PREAMBLE_VALIDATION_FAILED`` (400)."""
    title = given.title.strip()
    if not title or len(title) > TITLE_POINTS or len(title.splitlines()) != 1:
        raise invalid(f"title is one line of 1 to {TITLE_POINTS} characters")
    if not given.content.strip() or units(given.content) > CONTENT_UNITS:
        raise invalid(f"content is a text of at most {CONTENT_UNITS} characters that is not blank")
    # Nor may what it is put between, another preamble or a prompt, make up the mark with it.
    if FILE_CONTEXT in SEPARATOR + given.content + SEPARATOR:
        raise invalid("content holds the mark of referenced files, or would together with others")
    if len(given.agent_ids) > AGENTS or len(set(given.agent_ids)) != len(given.agent_ids):
        raise invalid(f"agentIds are at most {AGENTS}, each once")
    if not all(_AGENT_ID.fullmatch(one) for one in given.agent_ids):
        raise invalid("agentIds holds something that is no agent's id")
    tags = given.tag_filter.tags
    if len(tags) > TAGS or len(set(tags)) != len(tags):
        raise invalid(f"tagFilter.tags are at most {TAGS}, each once")
    if not all(tag and slug(tag) == tag and len(tag) <= TAG_POINTS for tag in tags):
        raise invalid("tagFilter.tags must be normalised")
    _check_scope(given.scope)
    return structs.replace(given, title=title)


def units(text: str) -> int:
    """Count UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def invalid(text: str) -> GarconError:
    """A preamble that cannot be kept."""
    return GarconError(INVALID, f"The preamble does not fit: {text}.")


def _check_scope(scope: Scope) -> None:
    if not isinstance(scope, ProjectScope):
        return
    rules = scope.rules
    if not 1 <= len(rules) <= RULES:
        raise invalid(f"scope.rules are 1 to {RULES}")
    for rule in rules:
        if not is_executor_id(executor_of(rule)):
            raise invalid("scope.rules names an executor that is neither local nor a UUID")
    keys = {(executor_of(rule), rule.project_path, rule.include_nested) for rule in rules}
    if len(keys) != len(rules):
        raise invalid("scope.rules holds a rule twice")


def _must_fit_together(preambles: list[Preamble]) -> None:
    for some in together(preambles):
        text = SEPARATOR.join(one.content for one in some)
        if units(text) > COMBINED_UNITS:
            raise GarconError(
                "PREAMBLE_COMBINED_LIMIT_EXCEEDED",
                f"Preambles that can apply together would be longer than {COMBINED_UNITS}"
                " characters.",
                status=422,
            )


def _made(preamble_id: str, given: PreambleInput, created_at: str, at: str) -> Preamble:
    assert is_uuid4(preamble_id)
    return Preamble(
        id=preamble_id,
        enabled=given.enabled,
        title=given.title,
        content=given.content,
        scope=given.scope,
        agent_ids=given.agent_ids,
        tag_filter=given.tag_filter,
        created_at=created_at,
        updated_at=at,
    )


def _conflict(code: str, text: str) -> GarconError:
    return GarconError(code, text, status=409)
