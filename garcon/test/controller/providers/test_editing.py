"""Making and changing profiles (control.md B.3), on templates (B.7)."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.providers import Capabilities, EndpointModel, ProfileInput
from garcon.controller.providers import editing
from garcon.controller.providers.editing import changed, created, executors_of, new_id
from garcon.controller.providers.profiles import Profile
from garcon.controller.providers.templates import (
    ANTHROPIC,
    OPENAI,
    TEMPLATES,
)
from garcon.errors import GarconError
from garcon.test.controller.providers.cast import AT, KEY, endpoint_body, profile_body

LATER = "2026-02-01T00:00:00.000Z"


class EditingCase(SynchronousTestCase):
    """Requests as clients send them."""

    def make(self, endpoint: dict[str, Any] | None = None, **more: Any) -> Profile:
        """Create a profile."""
        body = profile_body(endpoint, **more)
        return self.make_of({k: v for k, v in body.items() if v is not None})

    def make_of(self, body: dict[str, Any]) -> Profile:
        """Create a profile of just this."""
        return created(msgspec.convert(body, ProfileInput), "00beef", AT, ())

    def change(self, profile: Profile, body: dict[str, Any]) -> Profile:
        """Change a profile."""
        return changed(profile, msgspec.convert(body, ProfileInput), LATER)

    def refused(self, work: Any, *args: Any, **more: Any) -> GarconError:
        """Have something refused as invalid."""
        error: GarconError = self.assertRaises(GarconError, work, *args, **more)
        self.assertNotIn(KEY, error.text)
        return error

    def invalid(self, work: Any, *args: Any, **more: Any) -> None:
        """Have something refused as invalid."""
        error = self.refused(work, *args, **more)
        self.assertEqual((error.code, error.status), ("VALIDATION_FAILED", 400))


class CreateTests(EditingCase):
    """New profiles."""

    def test_a_profile(self) -> None:
        """Has one endpoint, revision 1 and two equal times."""
        profile = self.make()
        self.assertEqual((profile.id, profile.label), ("models_00beef", "Models"))
        self.assertEqual(profile.template_id, "custom")
        self.assertEqual((profile.revision, profile.created_at, profile.updated_at), (1, AT, AT))
        [endpoint] = profile.endpoints
        self.assertEqual(endpoint.id, "models_00beef_openai")
        self.assertEqual(endpoint.base_url, "https://models.example/v1")
        self.assertEqual((endpoint.api_key, endpoint.api_key_label), (KEY, "sk-0...cdef"))
        self.assertEqual(endpoint.capabilities, Capabilities(True, False))
        self.assertEqual([m.value for m in endpoint.models], ["m1", "m2"])
        self.assertFalse(endpoint.supports_images)
        self.assertEqual(endpoint.model_discovery, "openai-models")

    def test_ids(self) -> None:
        """A slug of the label and six digits, unless that is no id, for itself or its endpoint."""
        for label, expected in (
            ("My Models!", "my_models_a1b2c3"),
            ("  --Z.AI (2)--  ", "z_ai_2_a1b2c3"),
            ("2nd", "custom_a1b2c3"),
            ("日本", "custom_a1b2c3"),
            ("a", "a_a1b2c3"),
            ("x" * 47, "x" * 47 + "_a1b2c3"),
            ("x" * 48, "custom_a1b2c3"),
        ):
            self.assertEqual(new_id(label, ANTHROPIC, "a1b2c3"), expected, label)
        self.assertEqual(len("x" * 47 + "_a1b2c3_anthropic"), 64)

    def test_an_id_that_is_taken(self) -> None:
        """Is not used again."""
        request = msgspec.convert(profile_body(), ProfileInput)
        error = self.refused(created, request, "00beef", AT, ["models_00beef"])
        self.assertTrue(error.retryable)

    def test_the_label_is_required(self) -> None:
        """And trimmed."""
        self.assertEqual(self.make(label="  a b ").label, "a b")
        self.invalid(self.make, label="  ")
        self.invalid(self.make_of, {"endpoint": endpoint_body()})

    def test_the_endpoint_is_required(self) -> None:
        """With its protocol, its address and its default model."""
        self.invalid(self.make_of, {"label": "x"})
        for name, value in (
            ("protocol", "gemini"),
            ("protocol", None),
            ("baseUrl", ""),
            ("defaultModel", "  "),
        ):
            self.invalid(self.make, {name: value})
        for name in ("protocol", "baseUrl", "defaultModel"):
            endpoint = endpoint_body()
            del endpoint[name]
            self.invalid(self.make_of, {"label": "x", "endpoint": endpoint})

    def test_the_default_model_is_put_first_if_absent(self) -> None:
        """Present it stays where it is; an empty list becomes just the default."""
        for models, expected in (
            ([{"value": "a", "label": "A"}], ["d", "a"]),
            ([{"value": "a", "label": "A"}, {"value": "d", "label": "D"}], ["a", "d"]),
            ([], ["d"]),
        ):
            [endpoint] = self.make({"defaultModel": " d ", "models": models}).endpoints
            self.assertEqual([m.value for m in endpoint.models], expected)
            self.assertEqual(endpoint.default_model, "d")

    def test_rows_without_value_or_label_are_dropped(self) -> None:
        """Each value counts once; what a row says beside is kept."""
        rows = [
            {"value": " m1 ", "label": " One ", "supportsImages": True, "isLocal": False},
            {"value": "m1", "label": "again"},
            {"value": "m2", "label": " "},
            {"value": "", "label": "x"},
            {"label": "x"},
            {"value": "m3", "label": "3", "supportsImages": None},
        ]
        [endpoint] = self.make({"models": rows}).endpoints
        self.assertEqual(
            endpoint.models,
            [EndpointModel("m1", "One", True, False), EndpointModel("m3", "3", UNSET, UNSET)],
        )

    def test_capabilities(self) -> None:
        """Of ``openai-compatible`` only; both false is refused."""
        for said, expected in (
            (None, Capabilities(True, False)),
            ({}, Capabilities(True, False)),
            ({"responses": True}, Capabilities(True, True)),
            ({"chatCompletions": False, "responses": True}, Capabilities(False, True)),
        ):
            self.assertEqual(self.make({"capabilities": said}).endpoints[0].capabilities, expected)
        for said in ({"chatCompletions": False}, {"chatCompletions": False, "responses": False}):
            self.invalid(self.make, {"capabilities": said})
        other = self.make({"protocol": ANTHROPIC, "capabilities": {"responses": True}})
        self.assertIs(other.endpoints[0].capabilities, UNSET)
        self.assertEqual(other.endpoints[0].id, "models_00beef_anthropic")

    def test_discovery(self) -> None:
        """An unknown kind is the protocol's usual one."""
        for protocol, said, expected in (
            (OPENAI, "ollama-tags", "ollama-tags"),
            (OPENAI, "none", "none"),
            (OPENAI, "magic", "openai-models"),
            (OPENAI, None, "openai-models"),
            (ANTHROPIC, "magic", "none"),
            (ANTHROPIC, "anthropic-models", "anthropic-models"),
        ):
            made = self.make({"protocol": protocol, "modelDiscovery": said}, templateId=None)
            self.assertEqual(made.endpoints[0].model_discovery, expected, (protocol, said))

    def test_keys(self) -> None:
        """Trimmed; none at all is a profile without; what no header can carry is refused."""
        for typed, kept in ((f" {KEY}\n", KEY), ("", ""), (None, ""), ("  ", "")):
            self.assertEqual(self.make({"apiKey": typed}).endpoints[0].api_key, kept)
        for typed in (f"{KEY}\r\nX: y", f"{KEY} x", f"{KEY}é", f"{KEY}\0"):
            self.invalid(self.make, {"apiKey": typed})
        cleared = self.make({"clearApiKey": True}).endpoints[0]
        self.assertEqual((cleared.api_key, cleared.api_key_label), ("", ""))


class TemplateTests(EditingCase):
    """Profiles on templates."""

    def test_the_templates(self) -> None:
        """Are the thirteen of the contract, each with its default model among its presets."""
        self.assertEqual(
            sorted(TEMPLATES),
            sorted(
                [
                    *(("alibaba-cloud", p) for p in (ANTHROPIC, OPENAI)),
                    *(("custom", p) for p in (ANTHROPIC, OPENAI)),
                    *(("fireworks", p) for p in (ANTHROPIC, OPENAI)),
                    ("gemini", OPENAI),
                    *(("ollama", p) for p in (ANTHROPIC, OPENAI)),
                    ("openrouter", OPENAI),
                    ("together", OPENAI),
                    *(("zai", p) for p in (ANTHROPIC, OPENAI)),
                ]
            ),
        )
        for template in TEMPLATES.values():
            values = [model.value for model in template.models]
            if values:
                self.assertIn(template.default_model, values)
            self.assertEqual(template.capabilities is None, template.protocol == ANTHROPIC)

    def test_a_template_is_for_its_protocols(self) -> None:
        """An unknown one, or one without this protocol, is refused."""
        self.invalid(self.make, templateId="unknown")
        self.invalid(self.make, {"protocol": ANTHROPIC}, templateId="openrouter")

    def test_what_is_not_said_is_the_templates(self) -> None:
        """Address, models, capabilities, images and discovery."""
        for (template_id, protocol), template in TEMPLATES.items():
            if template_id == "custom":
                continue
            body = {
                "label": template.label,
                "templateId": template_id,
                "endpoint": {"protocol": protocol, "apiKey": KEY},
            }
            [endpoint] = self.make_of(body).endpoints
            self.assertEqual(endpoint.base_url, template.base_url)
            self.assertEqual(endpoint.default_model, template.default_model)
            presets = [m.value for m in template.models] or [template.default_model]
            self.assertEqual([m.value for m in endpoint.models], presets)
            self.assertEqual(endpoint.supports_images, template.supports_images)
            self.assertEqual(endpoint.model_discovery, template.discovery)
            expected = UNSET if template.capabilities is None else template.capabilities
            self.assertEqual(endpoint.capabilities, expected)

    def test_what_is_said_counts(self) -> None:
        """More than the template."""
        [endpoint] = self.make(
            {
                "capabilities": {"responses": False},
                "models": [],
                "modelDiscovery": "none",
                "supportsImages": False,
            },
            templateId="openrouter",
        ).endpoints
        self.assertEqual(endpoint.capabilities, Capabilities(True, False))
        self.assertEqual([m.value for m in endpoint.models], ["m1"])
        self.assertEqual((endpoint.model_discovery, endpoint.supports_images), ("none", False))


class ChangeTests(EditingCase):
    """Changes of a profile."""

    def setUp(self) -> None:
        self.profile = self.make()

    def endpoint(self, **said: Any) -> Any:
        """Change the endpoint, and return it."""
        after = self.change(self.profile, {"endpoint": said})
        self.assertEqual((after.revision, after.updated_at), (2, LATER))
        self.assertEqual((after.created_at, after.id), (AT, self.profile.id))
        return after.endpoints[0]

    def test_each_member_for_itself(self) -> None:
        """The others stay as they are."""
        before = self.profile.endpoints[0]
        for said, name, expected in (
            ({"baseUrl": "https://b.example/"}, "base_url", "https://b.example"),
            ({"supportsImages": True}, "supports_images", True),
            ({"models": [{"value": "m1", "label": "x"}]}, "models", [EndpointModel("m1", "x")]),
        ):
            after = self.endpoint(**said)
            self.assertEqual(after, msgspec.structs.replace(before, **{name: expected}))
        renamed = self.change(self.profile, {"label": " New "})
        self.assertEqual((renamed.label, renamed.endpoints), ("New", self.profile.endpoints))
        self.assertEqual(self.change(self.profile, {"templateId": "ollama"}).template_id, "ollama")

    def test_a_change_of_nothing_is_none(self) -> None:
        """The revision stays."""
        bodies: list[dict[str, Any]] = [
            {},
            {"label": "Models"},
            {"endpoint": {}},
            {"endpoint": {"apiKey": ""}},
            {"endpoint": {"apiKey": KEY, "baseUrl": "https://models.example/v1/"}},
        ]
        for body in bodies:
            self.assertIs(self.change(self.profile, body), self.profile)

    def test_a_stale_revision(self) -> None:
        """Is a conflict; the present one and none at all are taken."""
        for revision in (None, 1):
            body = {"label": "x", "revision": revision}
            self.assertEqual(self.change(self.profile, body).label, "x")
        error = self.refused(self.change, self.profile, {"label": "x", "revision": 2})
        self.assertEqual((error.code, error.status), ("API_PROVIDER_CONFIGURATION_CHANGED", 409))
        self.invalid(self.change, self.profile, {"label": "x", "revision": 0})

    def test_keys(self) -> None:
        """An empty one changes nothing, a cleared one is gone with its label, and wins."""
        self.assertEqual(self.endpoint(apiKey="another-key-1").api_key_label, "anot...ey-1")
        for said in ({"clearApiKey": True}, {"clearApiKey": True, "apiKey": "another-key-1"}):
            after = self.endpoint(**said)
            self.assertEqual((after.api_key, after.api_key_label), ("", ""))
        self.assertEqual(self.endpoint(apiKey="", supportsImages=True).api_key, KEY)

    def test_the_protocol_is_required_with_what_depends_on_it(self) -> None:
        """And stays what it is."""
        for said in ({"capabilities": {"responses": True}}, {"modelDiscovery": "none"}):
            self.invalid(self.change, self.profile, {"endpoint": said})
            self.endpoint(protocol=OPENAI, **said)
        self.invalid(self.change, self.profile, {"endpoint": {"protocol": ANTHROPIC}})
        self.invalid(self.change, self.profile, {"endpoint": {"protocol": "x"}})

    def test_capabilities(self) -> None:
        """One that is not said stays; both cannot be false in the end."""
        after = self.endpoint(protocol=OPENAI, capabilities={"responses": True})
        self.assertEqual(after.capabilities, Capabilities(True, True))
        body = {"endpoint": {"protocol": OPENAI, "capabilities": {"chatCompletions": False}}}
        self.invalid(self.change, self.profile, body)

    def test_the_default_model_is_always_listed(self) -> None:
        """Put first where it is absent."""
        after = self.endpoint(defaultModel="new")
        self.assertEqual([m.value for m in after.models], ["new", "m1", "m2"])
        after = self.endpoint(models=[])
        self.assertEqual([m.value for m in after.models], ["m1"])
        self.invalid(self.change, self.profile, {"endpoint": {"defaultModel": " "}})

    def test_an_endpoint_is_picked_by_its_id(self) -> None:
        """The first one without; an unknown one is an error."""
        second = msgspec.structs.replace(self.profile.endpoints[0], id="second")
        profile = msgspec.structs.replace(self.profile, endpoints=[*self.profile.endpoints, second])
        after = self.change(profile, {"endpoint": {"id": "second", "supportsImages": True}})
        self.assertEqual([e.supports_images for e in after.endpoints], [False, True])
        after = self.change(profile, {"endpoint": {"supportsImages": True}})
        self.assertEqual([e.supports_images for e in after.endpoints], [True, False])
        self.invalid(self.change, profile, {"endpoint": {"id": "third"}})

    def test_other_members(self) -> None:
        """Are checked as in a new profile."""
        for body in ({"label": " "}, {"templateId": "unknown"}):
            self.invalid(self.change, self.profile, body)
        self.invalid(self.change, self.profile, {"endpoint": {"baseUrl": "ftp://x"}})


class ExecutorIdsTests(EditingCase):
    """Lists of executors."""

    def test_each_once_and_well_formed(self) -> None:
        """None at all is a list too."""
        self.assertEqual(executors_of(["local"]), ["local"])
        self.assertEqual(executors_of([]), [])
        self.invalid(executors_of, ["local", "local"])
        self.invalid(executors_of, ["LOCAL"])

    def test_1024_and_no_more(self) -> None:
        """The bound of a request."""
        many = [f"11111111-1111-4111-8111-{n:012x}" for n in range(editing.EXECUTORS)]
        self.assertEqual(executors_of(many), many)
        self.invalid(executors_of, [*many, "local"])
