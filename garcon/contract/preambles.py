"""Preambles: texts that agents are given ahead of a chat's first input (control.md D)."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

INVALID = "PREAMBLE_VALIDATION_FAILED"
"""The code of a preamble that is not one, in its shape or in what it says (D.5)."""


class _Part(
    Struct,
    frozen=True,
    rename="camel",
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    pass


class ProjectRule(_Part, frozen=True, kw_only=True):
    """A directory of an executor, absent being Local, and perhaps everything below it."""

    project_path: str
    include_nested: bool
    executor_id: str | UnsetType = UNSET


class GlobalScope(Struct, frozen=True, tag_field="type", tag="global", forbid_unknown_fields=True):
    pass


class ProjectScope(
    Struct,
    frozen=True,
    tag_field="type",
    tag="project-paths",
    forbid_unknown_fields=True,
):
    rules: list[ProjectRule]


Scope = GlobalScope | ProjectScope


class TagFilter(Struct, frozen=True, forbid_unknown_fields=True):
    mode: Literal["any", "all"] = "any"
    tags: list[str] = field(default_factory=list)


class PreambleInput(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """What a person writes of a preamble (control.md D.2)."""

    enabled: bool
    title: str
    content: str
    scope: Scope
    agent_ids: list[str] = field(default_factory=list)
    tag_filter: TagFilter = TagFilter()


class Preamble(Struct, frozen=True, rename="camel", kw_only=True):
    """One preamble as everybody reads it."""

    id: str
    enabled: bool
    title: str
    content: str
    scope: Scope
    agent_ids: list[str]
    tag_filter: TagFilter
    created_at: str
    updated_at: str


class Preambles(Struct, frozen=True, rename="camel"):
    """The catalog, in its order; `revision` grows by one with every change."""

    revision: int
    preambles: list[Preamble] = field(default_factory=list)


class _Change(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    expected_revision: int


class CreatePreamble(_Change, frozen=True, kw_only=True):
    preamble: PreambleInput


class ReplacePreamble(_Change, frozen=True, kw_only=True):
    id: str
    preamble: PreambleInput


class DeletePreamble(_Change, frozen=True, kw_only=True):
    id: str


class ReorderPreambles(_Change, frozen=True, kw_only=True):
    ordered_preamble_ids: list[str]


class PreamblesChanged(Struct, frozen=True, rename="camel", kw_only=True):
    success: bool = True
    snapshot: Preambles
