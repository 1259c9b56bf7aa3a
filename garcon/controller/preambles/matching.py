"""Which preambles apply to a chat, and what they say together (control.md D.3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from attrs import frozen
from msgspec import UNSET

from garcon.contract.ids import LOCAL
from garcon.contract.preambles import Preamble, ProjectRule, ProjectScope, TagFilter

CHAT_ID = "{{chat_id}}"
SEPARATOR = "\n\n"

Reason = str
"""``missing``, ``disabled`` or ``out-of-scope``: why an explicit one cannot apply."""


@frozen
class Place:
    """Where a chat works: its executor and its project's canonical path."""

    executor_id: str
    project_path: str


def defaults(
    preambles: Iterable[Preamble], place: Place, agent_id: str, tags: Sequence[str]
) -> list[str]:
    """Return the ids that a new chat has by itself, in the order of the catalog."""
    return [
        one.id
        for one in preambles
        if one.enabled
        and in_scope(one, place)
        and (not one.agent_ids or agent_id in one.agent_ids)
        and _tagged(one.tag_filter, tags)
    ]


def unfit(preambles: Iterable[Preamble], ids: Iterable[str], place: Place) -> dict[str, Reason]:
    """Return, of an explicit selection, those that cannot apply there and why."""
    known = {one.id: one for one in preambles}
    found: dict[str, Reason] = {}
    for preamble_id in ids:
        one = known.get(preamble_id)
        if one is None:
            found[preamble_id] = "missing"
        elif not one.enabled:
            found[preamble_id] = "disabled"
        elif not in_scope(one, place):
            found[preamble_id] = "out-of-scope"
    return found


def text_of(
    preambles: Iterable[Preamble], ids: Iterable[str], place: Place, chat_id: str
) -> str | None:
    """Return what a selection says at this place now, or None; what does not apply is left out."""
    known = {one.id: one for one in preambles if one.enabled and in_scope(one, place)}
    said = [known[one].content for one in ids if one in known]
    return SEPARATOR.join(said).replace(CHAT_ID, chat_id) if said else None


def in_scope(preamble: Preamble, place: Place) -> bool:
    """Whether a preamble may apply at a place."""
    scope = preamble.scope
    if not isinstance(scope, ProjectScope):
        return True
    return any(_covers(rule, place) for rule in scope.rules)


def together(preambles: Iterable[Preamble]) -> Iterator[list[Preamble]]:
    """Yield every set that can apply at one place: everywhere, and at the path of each rule."""
    enabled = [one for one in preambles if one.enabled]
    everywhere = {one.id for one in enabled if not isinstance(one.scope, ProjectScope)}
    exact: dict[Place, set[str]] = defaultdict(set)
    nested: dict[Place, set[str]] = defaultdict(set)
    for one in enabled:
        for rule in one.scope.rules if isinstance(one.scope, ProjectScope) else ():
            place = Place(executor_of(rule), rule.project_path)
            exact[place].add(one.id)
            if rule.include_nested:
                nested[place].add(one.id)
    yield [one for one in enabled if one.id in everywhere]
    for place, there in exact.items():
        ids = everywhere | there
        for parent in PurePosixPath(place.project_path).parents:
            ids |= nested.get(Place(place.executor_id, str(parent)), set())
        yield [one for one in enabled if one.id in ids]


def executor_of(rule: ProjectRule) -> str:
    """Return the executor a rule is about."""
    return LOCAL if rule.executor_id is UNSET else rule.executor_id


def _covers(rule: ProjectRule, place: Place) -> bool:
    if executor_of(rule) != place.executor_id:
        return False
    if rule.project_path == place.project_path:
        return True
    path = PurePosixPath(place.project_path)
    return rule.include_nested and path.is_relative_to(PurePosixPath(rule.project_path))


def _tagged(wanted: TagFilter, tags: Sequence[str]) -> bool:
    if not wanted.tags:
        return True
    met = [tag in tags for tag in wanted.tags]
    return all(met) if wanted.mode == "all" else any(met)
