"""Which executor of a workspace may use which profiles (control.md B.8), as values.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from garcon.contract.ids import is_executor_id
from garcon.contract.providers import Assignments
from garcon.controller.providers.profiles import VERSION, is_id
from garcon.errors import validation

EXECUTORS = 1_024
PROFILES = 1_024


def assigned(known: Assignments, executor_id: str, profile_id: str) -> Assignments:
    """Let one more executor use a profile."""
    return _with(known, _added(known, executor_id, profile_id))


def unassigned(known: Assignments, executor_id: str, profile_id: str) -> Assignments:
    """Let an executor use a profile no more."""
    kept = {**known.assignments}
    if executor_id in kept:
        kept[executor_id] = [one for one in kept[executor_id] if one != profile_id]
    return _with(known, kept)


def assigned_to(known: Assignments, executor_ids: Collection[str], profile_id: str) -> Assignments:
    """Let just these executors use a profile."""
    step = known
    for executor_id in known.assignments:
        if executor_id not in executor_ids:
            step = unassigned(step, executor_id, profile_id)
    for executor_id in executor_ids:
        step = assigned(step, executor_id, profile_id)
    return _with(known, step.assignments)


def pruned(
    known: Assignments, executor_ids: Collection[str] | None, profile_ids: Collection[str] | None
) -> Assignments:
    """Forget executors and profiles that are not among these; None knows them all."""
    kept = {
        executor_id: [one for one in profiles if profile_ids is None or one in profile_ids]
        for executor_id, profiles in known.assignments.items()
        if executor_ids is None or executor_id in executor_ids
    }
    return _with(known, kept)


def everything(executor_ids: Iterable[str], profile_ids: Iterable[str]) -> Assignments:
    """Let every executor use every profile: what a first upgrade does, within the bounds."""
    profiles = list(profile_ids)[:PROFILES]
    return Assignments(1, dict.fromkeys(list(executor_ids)[:EXECUTORS], profiles))


def _added(known: Assignments, executor_id: str, profile_id: str) -> dict[str, list[str]]:
    profiles = known.assignments.get(executor_id, [])
    if profile_id in profiles:
        return known.assignments
    if executor_id not in known.assignments and len(known.assignments) >= EXECUTORS:
        raise validation(f"More than {EXECUTORS} executors cannot have profiles.")
    if len(profiles) >= PROFILES:
        raise validation(f"An executor cannot have more than {PROFILES} profiles.")
    return {**known.assignments, executor_id: [*profiles, profile_id]}


def _with(known: Assignments, changed: dict[str, list[str]]) -> Assignments:
    """Return the changed map, of the next revision; the same when nothing is different."""
    kept = {executor_id: profiles for executor_id, profiles in changed.items() if profiles}
    if kept == {key: value for key, value in known.assignments.items() if value}:
        return known
    return Assignments(known.revision + 1, kept)


# -- the file --


class _File(Assignments, frozen=True, rename="camel"):
    version: int = VERSION


def encode(known: Assignments) -> bytes:
    """Return the content of ``api-provider-assignments.json``."""
    file = _File(known.revision, known.assignments)
    return msgspec.json.format(msgspec.json.encode(file), indent=2)


def decode(content: bytes) -> Assignments:
    """Read ``api-provider-assignments.json``.

    Raises `ValueError` for anything that is not exactly right: whoever cannot tell who may use a
    key lets nobody use it.
    """
    try:
        raw: Any = msgspec.json.decode(content)
        file = msgspec.convert(raw, _File)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError("it is not JSON of the right shape") from None
    if not {"version", "revision", "assignments"} <= raw.keys():
        raise ValueError("it lacks its version, its revision or its assignments")
    if file.version != VERSION or file.revision < 0:
        raise ValueError(f"its version is not {VERSION}, or its revision is below 0")
    if len(file.assignments) > EXECUTORS:
        raise ValueError("it names too many executors")
    for executor_id, profiles in file.assignments.items():
        if not is_executor_id(executor_id) or not all(is_id(one) for one in profiles):
            raise ValueError("it holds a malformed id")
        if len(set(profiles)) != len(profiles) or len(profiles) > PROFILES:
            raise ValueError("it lists profiles twice, or too many of them")
    return Assignments(file.revision, file.assignments)
