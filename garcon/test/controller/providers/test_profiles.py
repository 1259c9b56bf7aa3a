"""Profiles as they are kept and as they are shown (control.md B.4, B.8)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import UNSET
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.providers import Capabilities, EndpointInput, ProfileInput
from garcon.controller.providers.editing import created
from garcon.controller.providers.profiles import (
    Profile,
    decode,
    encode,
    is_id,
    key_label,
    resolved,
    shown,
)
from garcon.controller.providers.templates import HOME_PAGE
from garcon.test.controller.providers.cast import AT, KEY, profile_body


def a_profile(endpoint: dict[str, Any] | None = None, **more: Any) -> Profile:
    """Return a profile."""
    request = msgspec.convert(profile_body(endpoint, **more), ProfileInput)
    return created(request, "00beef", AT, ())


def a_row(**more: Any) -> dict[str, Any]:
    """Return a row of the file, as it is written."""
    row: dict[str, Any] = json.loads(encode({"p": a_profile()}))["apiProviders"][0]
    return row | more


class ShownTests(SynchronousTestCase):
    """What anyone may see."""

    def test_neither_key_nor_headers(self) -> None:
        """Only that there is a key, and a label of it."""
        profile = a_profile(templateId="openrouter")
        raw = json.loads(msgspec.json.encode(shown(profile)))
        [endpoint] = raw["endpoints"]
        self.assertNotIn("apiKey", endpoint)
        self.assertNotIn("headers", endpoint)
        self.assertNotIn(KEY, json.dumps(raw))
        self.assertEqual((endpoint["hasApiKey"], endpoint["apiKeyLabel"]), (True, "sk-0...cdef"))

    def test_labels(self) -> None:
        """Short keys are not shown at all."""
        for key, label in (
            ("", ""),
            ("k", "****"),
            ("12345678", "****"),
            ("123456789", "1234...6789"),
        ):
            self.assertEqual(key_label(key), label)
        self.assertFalse(shown(a_profile({"apiKey": ""})).endpoints[0].has_api_key)

    def test_no_representation_shows_a_key(self) -> None:
        """Of whatever holds one."""
        profile = a_profile(templateId="openrouter")
        found = resolved(profile, profile.endpoints[0])
        self.assertEqual(found.api_key, KEY)
        asked = EndpointInput(protocol="x", api_key=KEY)
        request = ProfileInput(endpoint=asked)
        for one in (profile, profile.endpoints[0], found, asked, request, [profile]):
            for text in (repr(one), str(one), f"{one}"):
                self.assertNotIn(KEY, text)
                self.assertNotIn(HOME_PAGE, text)

    def test_what_an_executor_gets(self) -> None:
        """The endpoint with its key, and the headers that its service wants; own ones win."""
        profile = a_profile(templateId="openrouter")
        endpoint = msgspec.structs.replace(
            profile.endpoints[0], headers={"X-OpenRouter-Title": "Mine"}
        )
        found = resolved(profile, endpoint)
        self.assertEqual(found.headers, {"HTTP-Referer": HOME_PAGE, "X-OpenRouter-Title": "Mine"})
        self.assertEqual(
            (found.protocol, found.base_url, found.revision),
            ("openai-compatible", "https://models.example/v1", 1),
        )
        plain = a_profile({"protocol": "anthropic-messages", "apiKey": ""})
        found = resolved(plain, plain.endpoints[0])
        self.assertEqual((found.api_key, found.capabilities, found.headers), (None, None, {}))

    def test_ids(self) -> None:
        """Two to 64 characters of the contract's."""
        for text in ("ab", "a" * 64, "a1_-b"):
            self.assertTrue(is_id(text), text)
        for text in ("a", "a" * 65, "1a", "Ab", "a.b", "a b", "", "ab\n"):
            self.assertFalse(is_id(text), text)


class FileTests(SynchronousTestCase):
    """``api-providers.json``."""

    def read(self, *rows: Any) -> dict[str, Profile]:
        """Read a file of these rows."""
        return decode(json.dumps({"version": 1, "apiProviders": rows}).encode())

    def test_round_trip(self) -> None:
        """What is written is read again; its form is the contract's."""
        profile = a_profile()
        content = encode({profile.id: profile})
        self.assertEqual(decode(content), {profile.id: profile})
        raw = json.loads(content)
        self.assertEqual(raw["version"], 1)
        [row] = raw["apiProviders"]
        self.assertEqual(
            set(row),
            {"id", "label", "templateId", "revision", "createdAt", "updatedAt", "endpoints"},
        )
        self.assertEqual(row["endpoints"][0]["apiKey"], KEY)
        self.assertNotIn("hasApiKey", row["endpoints"][0])

    def test_a_row_without_a_valid_endpoint_is_dropped(self) -> None:
        """The others stay."""
        good = a_row()
        endpoint = good["endpoints"][0]
        for broken in (
            {},
            "text",
            {**endpoint, "id": "X"},
            {**endpoint, "protocol": "gemini"},
            {**endpoint, "baseUrl": "ftp://x"},
            {**endpoint, "defaultModel": " "},
            {**endpoint, "models": "none"},
        ):
            other = {**good, "id": "other", "endpoints": [broken]}
            self.assertEqual(list(self.read(other, good)), [good["id"]], broken)
            both = {**good, "endpoints": [broken, endpoint]}
            self.assertEqual(len(self.read(both)[good["id"]].endpoints), 1)
        self.assertEqual(self.read({**good, "endpoints": []}), {})

    def test_a_broken_row_is_dropped(self) -> None:
        """Whatever is wrong with it; an id counts once."""
        good = a_row()
        for more in ({"id": "X"}, {"label": " "}, {"revision": 0}, {"createdAt": 1}):
            self.assertEqual(self.read({**good, **more}), {}, more)
        for row in ("text", None, 3, {}, {**good, "endpoints": {}}):
            self.assertEqual(self.read(row), {})
        self.assertEqual(self.read(good, {**good, "label": "again"})[good["id"]].label, "Models")

    def test_endpoint_ids_count_once_in_the_whole_file(self) -> None:
        """As models are named by them."""
        good = a_row()
        self.assertEqual(len(self.read(good, {**good, "id": "other"})), 1)

    def test_what_older_programs_wrote(self) -> None:
        """Is brought into the present form."""
        [endpoint] = a_row()["endpoints"]
        for name in ("models", "supportsImages", "apiKeyLabel", "capabilities"):
            del endpoint[name]
        endpoint |= {"baseUrl": "https://a.example/", "modelDiscovery": "magic", "more": 1}
        row = a_row(endpoints=[endpoint], templateId="gone", more=2)
        for name in ("revision", "createdAt", "updatedAt"):
            del row[name]
        [profile] = self.read(row).values()
        self.assertEqual((profile.revision, profile.created_at), (1, "1970-01-01T00:00:00.000Z"))
        self.assertIs(profile.template_id, UNSET)
        [found] = profile.endpoints
        self.assertEqual(found.base_url, "https://a.example")
        self.assertEqual(found.model_discovery, "openai-models")
        self.assertEqual([m.value for m in found.models], ["m1"])
        self.assertEqual(found.api_key_label, "sk-0...cdef")
        self.assertIs(found.capabilities, UNSET)
        other = {
            **endpoint,
            "protocol": "anthropic-messages",
            "capabilities": {"responses": True},
        }
        [profile] = self.read(a_row(endpoints=[other])).values()
        self.assertIs(profile.endpoints[0].capabilities, UNSET)

    def test_what_is_no_such_file(self) -> None:
        """Is told without a word of its content."""
        for content in (
            b"",
            b"secret",
            b"[]",
            b'{"version": 1}',
            b'{"version": 1, "apiProviders": {}}',
            b'{"version": 2, "apiProviders": []}',
            b'{"version": true, "apiProviders": []}',
            b'{"apiProviders": []}',
            b"\xff",
        ):
            error = self.assertRaises(ValueError, decode, content)
            self.assertNotIn("secret", str(error))

    def test_capabilities_survive(self) -> None:
        """As they were chosen."""
        profile = a_profile({"capabilities": {"responses": True, "chatCompletions": False}})
        [found] = decode(encode({profile.id: profile})).values()
        self.assertEqual(found.endpoints[0].capabilities, Capabilities(False, True))
