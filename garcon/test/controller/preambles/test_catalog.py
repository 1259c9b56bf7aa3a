"""What may be in a catalog of preambles, and how it changes (control.md D.2, D.5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from msgspec import structs
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.preambles import (
    GlobalScope,
    PreambleInput,
    ProjectRule,
    ProjectScope,
    TagFilter,
)
from garcon.controller.preambles.catalog import (
    COMBINED_UNITS,
    CONTENT_UNITS,
    FILE_CONTEXT,
    MOST,
    MOST_IDS,
    Catalog,
    checked,
)
from garcon.errors import GarconError

AT, LATER = "2026-01-02T03:04:05.678Z", "2026-01-02T03:04:06.678Z"
WORKER = "0f8b9d52-6a3e-4e0e-9d07-7a3c5d9a1b11"


def given(content: str = "Be brief.", **more: Any) -> PreambleInput:
    """Return what a person writes."""
    fields: dict[str, Any] = {
        "enabled": True,
        "title": "Brief",
        "content": content,
        "scope": GlobalScope(),
    }
    return PreambleInput(**(fields | more))


def there(path: str, nested: bool = False, **more: Any) -> ProjectScope:
    """Return a scope of one directory."""
    return ProjectScope([ProjectRule(project_path=path, include_nested=nested, **more)])


def numbered() -> Callable[[], str]:
    """Return a maker of ids."""
    count = iter(range(1, 10**6))
    return lambda: str(UUID(int=next(count) + (4 << 76) + (8 << 60), version=4))


class CatalogTestCase(SynchronousTestCase):
    """Catalogs as values."""

    def setUp(self) -> None:
        self.new_id = numbered()

    def grown(self, catalog: Catalog, one: PreambleInput) -> Catalog:
        return catalog.created(catalog.revision, one, AT, self.new_id)

    def refusal(self, act: Callable[[], Any]) -> tuple[int, str]:
        error = self.assertRaises(GarconError, act)
        return error.status, error.code


class ChangeTests(CatalogTestCase):
    """Every change needs the revision and makes the next one."""

    def test_a_preamble_from_its_making_to_its_end(self) -> None:
        """Its id and its first time stay; the revision grows by one each."""
        catalog = self.grown(Catalog(), given())
        (one,) = catalog.preambles
        self.assertEqual((catalog.revision, one.created_at, one.updated_at), (1, AT, AT))
        catalog = catalog.replaced(1, one.id, given("Be long."), LATER)
        (two,) = catalog.preambles
        self.assertEqual(
            (two.id, two.content, two.created_at, two.updated_at),
            (one.id, "Be long.", AT, LATER),
        )
        catalog = catalog.deleted(2, one.id)
        self.assertEqual((catalog.revision, catalog.preambles, catalog.ids), (3, [], 1))

    def test_a_stale_revision(self) -> None:
        """Is refused for every change."""
        catalog = self.grown(Catalog(), given())
        one = catalog.preambles[0].id
        for act in (
            lambda: catalog.created(0, given(), AT, self.new_id),
            lambda: catalog.replaced(2, one, given(), AT),
            lambda: catalog.deleted(0, one),
            lambda: catalog.reordered(0, [one]),
        ):
            self.assertEqual(self.refusal(act), (409, "PREAMBLE_REVISION_CONFLICT"))

    def test_one_that_is_not_there(self) -> None:
        """Is not found."""
        for act in (
            lambda: Catalog().replaced(0, "x", given(), AT),
            lambda: Catalog().deleted(0, "x"),
        ):
            self.assertEqual(self.refusal(act), (404, "PREAMBLE_NOT_FOUND"))

    def test_another_order(self) -> None:
        """Names every one, once."""
        catalog = self.grown(self.grown(Catalog(), given("a")), given("b"))
        first, second = (one.id for one in catalog.preambles)
        turned = catalog.reordered(2, [second, first])
        self.assertEqual([one.content for one in turned.preambles], ["b", "a"])
        wrongs = ([first], [first, first], [first, second, second])
        for wrong in wrongs:
            failure = self.refusal(partial(catalog.reordered, 2, list(wrong)))
            self.assertEqual(failure, (400, "PREAMBLE_VALIDATION_FAILED"))

    def test_a_hundred(self) -> None:
        """Are taken; one more is not."""
        catalog = Catalog()
        for n in range(MOST):
            catalog = self.grown(catalog, given(f"{n}"))
        failure = self.refusal(lambda: self.grown(catalog, given()))
        self.assertEqual(failure, (409, "PREAMBLE_LIMIT_REACHED"))

    def test_ids_over_the_lifetime(self) -> None:
        """The last one is given; then no more."""
        catalog = self.grown(Catalog(ids=MOST_IDS - 1), given())
        failure = self.refusal(lambda: self.grown(catalog, given()))
        self.assertEqual(failure, (409, "PREAMBLE_ID_LIFETIME_LIMIT_REACHED"))

    def test_the_last_revision(self) -> None:
        """Takes no further change."""
        catalog = Catalog(revision=2**53 - 1)
        failure = self.refusal(lambda: self.grown(catalog, given()))
        self.assertEqual(failure, (409, "PREAMBLE_REVISION_EXHAUSTED"))

    def test_an_id_that_is_taken(self) -> None:
        """Is noticed."""
        catalog = self.grown(Catalog(), given())
        taken = catalog.preambles[0].id
        failure = self.refusal(lambda: catalog.created(1, given(), AT, lambda: taken))
        self.assertEqual(failure, (409, "PREAMBLE_ID_COLLISION"))


class CombinedTests(CatalogTestCase):
    """What can apply together has a bound."""

    def test_64000_units_everywhere(self) -> None:
        """Fit, the blank line between them counted; one more does not."""
        half = "x" * CONTENT_UNITS
        catalog = self.grown(Catalog(), given(half))
        rest = COMBINED_UNITS - CONTENT_UNITS - 2
        self.grown(catalog, given("y" * rest))
        failure = self.refusal(lambda: self.grown(catalog, given("y" * (rest + 1))))
        self.assertEqual(failure, (422, "PREAMBLE_COMBINED_LIMIT_EXCEEDED"))

    def test_what_never_meets_is_not_added_up(self) -> None:
        """Other directories, other executors, or switched off."""
        big = "x" * CONTENT_UNITS
        catalog = self.grown(Catalog(), given(big, scope=there("/a", nested=True)))
        catalog = self.grown(catalog, given(big, scope=there("/b")))
        catalog = self.grown(catalog, given(big, scope=there("/a", executor_id=WORKER)))
        catalog = self.grown(catalog, given(big, enabled=False))
        catalog = self.grown(catalog, given("small"))
        failure = self.refusal(lambda: self.grown(catalog, given(big, scope=there("/a/b/c"))))
        self.assertEqual(failure, (422, "PREAMBLE_COMBINED_LIMIT_EXCEEDED"))


class FieldTests(CatalogTestCase):
    """Each field for itself."""

    def assertTaken(self, **fields: Any) -> None:
        checked(structs.replace(given(), **fields))

    def assertRefused(self, **fields: Any) -> None:
        failure = self.refusal(lambda: checked(structs.replace(given(), **fields)))
        self.assertEqual(failure, (400, "PREAMBLE_VALIDATION_FAILED"))

    def test_title(self) -> None:
        """One line of 120 characters once trimmed."""
        self.assertEqual(checked(given(title=" a ")).title, "a")
        self.assertTaken(title="é" * 120)
        for wrong in ("é" * 121, " ", "a\nb", "a\u2028b"):
            self.assertRefused(title=wrong)

    def test_content(self) -> None:
        """32,000 UTF-16 units, not blank, without the mark of files."""
        self.assertTaken(content="\U0001f600" * 16_000)
        for wrong in ("\U0001f600" * 16_000 + "x", " \n", f"a{FILE_CONTEXT}b"):
            self.assertRefused(content=wrong)

    def test_the_mark_of_files_is_not_made_up_together_with_others(self) -> None:
        """Neither with the text before nor with the one after, whichever these are."""
        self.assertTaken(content=f"a {FILE_CONTEXT.strip()} b")
        for wrong in (FILE_CONTEXT.strip(), FILE_CONTEXT.rstrip(), f"{FILE_CONTEXT.lstrip()}b"):
            self.assertRefused(content=wrong)

    def test_agents(self) -> None:
        """32 ids, each once."""
        self.assertTaken(agent_ids=[f"agent{n}" for n in range(32)])
        for wrong in ([f"agent{n}" for n in range(33)], ["claude", "claude"], ["Not one"]):
            self.assertRefused(agent_ids=wrong)

    def test_tags(self) -> None:
        """32 normalised ones of 64 characters, each once."""
        self.assertTaken(tag_filter=TagFilter(tags=[f"t{n}" for n in range(32)]))
        self.assertTaken(tag_filter=TagFilter(tags=["t" * 64]))
        for wrong in ([f"t{n}" for n in range(33)], ["a", "a"], ["A b"], [""], ["t" * 65]):
            self.assertRefused(tag_filter=TagFilter(tags=wrong))

    def test_rules(self) -> None:
        """1 to 32, each once, of executors that could be."""
        rules = [ProjectRule(project_path=f"/{n}", include_nested=False) for n in range(33)]
        self.assertTaken(scope=ProjectScope(rules[:32]))
        elsewhere = ProjectRule(project_path="/", include_nested=True, executor_id="elsewhere")
        for wrong in ([], rules, rules[:1] * 2, [elsewhere]):
            self.assertRefused(scope=ProjectScope(wrong))
