"""How endpoints are asked for their models, and how their answers are read (control.md B.6)."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from msgspec import UNSET
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.providers import DiscoverModels, EndpointModel
from garcon.runtime.model_lists import MODELS, NAME, NotAList, ask, distinct, read


def wanted(kind: Any, base: str = "https://api.example", key: str | None = "k") -> DiscoverModels:
    """Return a discovery."""
    return DiscoverModels(kind=kind, base_url=base, api_key=key)


class AskTests(SynchronousTestCase):
    """Where a list is asked for, and with what."""

    def test_openai(self) -> None:
        """Below the base, which is `/v1` where it has no path; the key is a bearer token."""
        for kind in ("openai-models", "openrouter-models"):
            one = ask(wanted(kind))
            self.assertEqual(one.url, "https://api.example/v1/models")
            self.assertEqual(one.headers["Authorization"], "Bearer k")
            self.assertNotIn("x-api-key", one.headers)
            there = ask(wanted(kind, "https://api.example/some/api"))
            self.assertEqual(there.url, "https://api.example/some/api/models")

    def test_anthropic(self) -> None:
        """Below `/v1`, once; its own headers; page after page."""
        for base in ("https://api.example", "https://api.example/v1"):
            one = ask(wanted("anthropic-models", base))
            self.assertEqual(one.url, "https://api.example/v1/models?limit=1000")
        self.assertEqual(one.headers["x-api-key"], "k")
        self.assertEqual(one.headers["anthropic-version"], "2023-06-01")
        self.assertNotIn("Authorization", one.headers)
        more = ask(wanted("anthropic-models"), "a&b")
        query = parse_qs(urlsplit(more.url).query)
        self.assertEqual(query, {"limit": ["1000"], "after_id": ["a&b"]})

    def test_ollama(self) -> None:
        """Beside `/v1`."""
        for base in ("http://localhost:11434", "http://localhost:11434/v1"):
            self.assertEqual(
                ask(wanted("ollama-tags", base)).url, "http://localhost:11434/api/tags"
            )

    def test_without_a_key(self) -> None:
        """Nothing stands in its place."""
        for kind in ("openai-models", "anthropic-models", "ollama-tags", "openrouter-models"):
            headers = ask(wanted(kind, key=None)).headers
            self.assertFalse({"Authorization", "x-api-key"} & headers.keys(), kind)

    def test_further_headers_go_along(self) -> None:
        """As a service wants them."""
        more = DiscoverModels(
            kind="openrouter-models", base_url="https://o.example/v1", headers={"X-Title": "G"}
        )
        self.assertEqual(ask(more).headers["X-Title"], "G")

    def test_no_representation_shows_a_key(self) -> None:
        """Neither of what is wanted nor of the call for it."""
        one = DiscoverModels(
            kind="openai-models",
            base_url="https://a.example",
            api_key="sk-secret",
            headers={"X": "sk-other"},
        )
        for text in (repr(one), str(one), repr(ask(one))):
            self.assertNotIn("sk-", text)


class ReadTests(SynchronousTestCase):
    """What the answers say."""

    def models(self, kind: Any, answer: Any) -> list[EndpointModel]:
        """Read an answer's models."""
        return read(wanted(kind), answer).models

    def test_openai(self) -> None:
        """An array or its `data`; the label is the display name, else the name, else the id."""
        rows = [
            {"id": "a", "display_name": "A!", "name": "no"},
            {"id": "b", "name": "B"},
            {"id": "c"},
            {"name": "without id"},
            {"id": 7},
            "text",
        ]
        listed = [EndpointModel("a", "A!"), EndpointModel("b", "B"), EndpointModel("c", "c")]
        for kind in ("openai-models", "openrouter-models"):
            self.assertEqual(self.models(kind, rows), listed)
            self.assertEqual(self.models(kind, {"data": rows}), listed)

    def test_anthropic_pages(self) -> None:
        """The list goes on after its last id as long as there is more."""
        kind = wanted("anthropic-models")
        rows = [{"id": "a", "display_name": "A"}]
        page = read(kind, {"data": rows, "has_more": True, "last_id": "a"})
        self.assertEqual((page.models, page.after), ([EndpointModel("a", "A")], "a"))
        for ended in ({"has_more": False, "last_id": "a"}, {"has_more": True}, {"last_id": "a"}):
            self.assertIsNone(read(kind, {"data": rows, **ended}).after)

    def test_ollama(self) -> None:
        """Every model is a local one, and says so."""
        self.assertEqual(
            self.models("ollama-tags", {"models": [{"name": "llama3"}, {}]}),
            [EndpointModel("llama3", "llama3 (local)", UNSET, True)],
        )

    def test_what_is_no_list(self) -> None:
        """Is refused as such."""
        for kind in ("openai-models", "anthropic-models", "ollama-tags"):
            for answer in ({}, {"data": {}, "models": 1}, "text", None, 3):
                self.assertRaises(NotAList, read, wanted(kind), answer)

    def test_names_have_a_bound(self) -> None:
        """One character more is no name of a model."""
        rows = [{"id": "a" * NAME}, {"id": "b" * (NAME + 1)}]
        self.assertEqual([m.value[0] for m in self.models("openai-models", rows)], ["a"])

    def test_each_model_once_and_so_many_at_most(self) -> None:
        """The first row of a name counts; the bound is on what is left."""
        some = [EndpointModel("a", "1"), EndpointModel("a", "2"), EndpointModel("b", "3")]
        self.assertEqual(distinct(some), [some[0], some[2]])
        many = [EndpointModel(str(n), "x") for n in range(MODELS)]
        self.assertEqual(distinct(many), many)
        self.assertEqual(distinct([*many, EndpointModel("over", "x")]), many)
