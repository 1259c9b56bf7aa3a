"""Choosing from a catalog: models, routes, modes and settings."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli.failures import CommandFailure
from garcon.cli.selection import (
    Catalog,
    Defaults,
    choose_model,
    permission_mode,
    reasoning_effort,
)


def an_agent(**more: Any) -> dict[str, Any]:
    return {
        "id": "claude",
        "label": "Claude",
        "defaultModel": "opus",
        "acceptsApiProviderEndpoints": True,
        "requiresStrictModelDiscovery": False,
        "supportedPermissionModes": ["default", "acceptEdits", "bypassPermissions"],
        "supportedThinkingModes": ["none", "high"],
        "supportedProtocols": ["anthropic-messages"],
        "defaultSettings": {"ownerId": "claude", "schemaVersion": 1, "values": {"x": 1}},
        "models": [
            {"value": "opus", "label": "Opus"},
            endpoint_model("e1", "p1", "big"),
            endpoint_model("e1", "p1", "twin"),
            endpoint_model("e2", "p1", "twin"),
        ],
    } | more


def endpoint_model(endpoint: str, provider: str, raw: str) -> dict[str, Any]:
    return {
        "value": f"{endpoint}:{raw}",
        "label": raw,
        "rawModel": raw,
        "apiProviderId": provider,
        "endpointId": endpoint,
        "protocol": "anthropic-messages",
    }


def a_catalog(*agents: dict[str, Any], providers: list[dict[str, Any]] | None = None) -> Catalog:
    profiles = (
        providers
        if providers is not None
        else [
            {"id": "p1", "label": "Mine", "endpoints": [{"id": "e1"}, {"id": "e2"}]},
            {"id": "p2", "label": "Twin", "endpoints": []},
            {"id": "p3", "label": "Twin", "endpoints": []},
            {"id": "p4", "label": "p1", "endpoints": []},
        ]
    )
    return Catalog({"catalog": {"agents": list(agents or (an_agent(),)), "apiProviders": profiles}})


def settings(**defaults: Any) -> dict[str, Any]:
    names = (
        "version features ui uiEffective paths pinnedChatIds recentAgentSettings"
        " projectBasePath telegram"
    )
    stored = {
        "global": {"permissionMode": "default", "thinkingMode": "none", "agentSettingsById": {}},
        "byAgent": {},
    }
    return dict.fromkeys(names.split()) | {"executionDefaults": stored | defaults}


class ModelTests(SynchronousTestCase):
    def refused(self, *args: Any) -> str:
        error: CommandFailure = self.assertRaises(CommandFailure, choose_model, *args)
        self.assertEqual(("catalog resolution", 2), (error.phase, error.exit_status))
        return error.text

    def test_by_value_then_by_raw_name(self) -> None:
        """A value is exact; a raw name serves when no value matches; the route comes with it."""
        catalog, agent = a_catalog(), an_agent()
        self.assertEqual(
            {
                "model": "opus",
                "apiProviderId": None,
                "modelEndpointId": None,
                "modelProtocol": None,
            },
            choose_model(catalog, agent, "opus").fields(),
        )
        routed = {
            "model": "big",
            "apiProviderId": "p1",
            "modelEndpointId": "e1",
            "modelProtocol": "anthropic-messages",
        }
        self.assertEqual(routed, choose_model(catalog, agent, "e1:big").fields())
        self.assertEqual(routed, choose_model(catalog, agent, "big").fields())

    def test_ambiguity(self) -> None:
        """Several hits are refused until the endpoint decides."""
        self.assertIn("e1:twin, e2:twin", self.refused(a_catalog(), an_agent(), "twin"))
        self.refused(a_catalog(), an_agent(), "twin", "p1")
        found = choose_model(a_catalog(), an_agent(), "twin", "p1", "e2")
        self.assertEqual("e2", found.endpoint_id)

    def test_unknown_models(self) -> None:
        """Sent as typed, without a route, unless a filter or strict discovery forbids it."""
        self.assertEqual({"model": "new"}, choose_model(a_catalog(), an_agent(), "new").fields())
        self.refused(a_catalog(), an_agent(), "new", "p1")
        strict = an_agent(requiresStrictModelDiscovery=True)
        self.refused(a_catalog(strict), strict, "new")

    def test_providers(self) -> None:
        """An id wins over a label; a label must be exact and unique."""
        catalog = a_catalog()
        self.assertEqual("p1", catalog.provider("p1")["id"])
        self.assertEqual("p1", catalog.provider("Mine")["id"])
        for name in ("mine", "Twin", "nobody"):
            self.assertRaises(CommandFailure, catalog.provider, name)
        self.refused(catalog, an_agent(), "big", "p1", "e9")

    def test_unknown_agents_are_told_the_known_ones(self) -> None:
        """The refusal lists what there is."""
        error = self.assertRaises(CommandFailure, a_catalog().agent, "codex")
        self.assertIn("claude", error.text)
        self.assertEqual(2, error.exit_status)

    def test_a_catalog_is_checked(self) -> None:
        """A malformed entry is the server's fault: exit 3."""
        for change in (
            {"models": None},
            {"models": [{"value": 1}]},
            {"defaultModel": None},
            {"supportedProtocols": None},
            {"acceptsApiProviderEndpoints": None},
            {"defaultSettings": {"ownerId": "other"}},
        ):
            error = self.assertRaises(CommandFailure, a_catalog, an_agent(**change))
            self.assertEqual(3, error.exit_status)
        self.assertRaises(CommandFailure, a_catalog, providers=[{"id": "p"}])
        self.assertRaises(CommandFailure, Catalog, {})


class ModeTests(SynchronousTestCase):
    def test_agents_own_default_wins(self) -> None:
        """The agent's stored mode, else the global one, else the first supported one."""
        own = Defaults(settings(byAgent={"claude": {"permissionMode": "acceptEdits"}}))
        self.assertEqual("acceptEdits", permission_mode(an_agent(), None, own))
        self.assertEqual("none", reasoning_effort(an_agent(), None, own))
        everywhere = Defaults(settings(**{"global": {"permissionMode": "plan"}}))
        self.assertEqual("default", permission_mode(an_agent(), None, everywhere))
        nothing = an_agent(supportedPermissionModes=[], supportedThinkingModes=[])
        self.assertEqual("default", permission_mode(nothing, None, everywhere))
        self.assertEqual("none", reasoning_effort(nothing, None, everywhere))

    def test_bypass_is_never_inherited(self) -> None:
        """A stored bypass, or one that is merely the first supported mode, must be said."""
        stored = Defaults(settings(byAgent={"claude": {"permissionMode": "bypassPermissions"}}))
        error = self.assertRaises(CommandFailure, permission_mode, an_agent(), None, stored)
        self.assertIn("--permissions bypassPermissions", error.text)
        self.assertEqual(2, error.exit_status)
        only = an_agent(supportedPermissionModes=["manualBypass"])
        self.assertRaises(CommandFailure, permission_mode, only, None, Defaults(settings()))
        self.assertEqual(
            "bypassPermissions", permission_mode(an_agent(), "bypassPermissions", stored)
        )

    def test_unsupported_modes_are_refused(self) -> None:
        """An explicit mode must be one of the agent's."""
        for choose, asked in ((permission_mode, "plan"), (reasoning_effort, "ultra")):
            error = self.assertRaises(CommandFailure, choose, an_agent(), asked, None)
            self.assertEqual(2, error.exit_status)

    def test_agent_settings(self) -> None:
        """The agent's override, else the global envelope, else the default; never a foreign one."""

        def stored(value: int) -> dict[str, Any]:
            envelope = {"ownerId": "claude", "schemaVersion": 1, "values": {"x": value}}
            return {"agentSettingsById": {"claude": envelope}}

        both = Defaults(settings(**{"global": stored(2)}, byAgent={"claude": stored(3)}))
        self.assertEqual({"x": 3}, both.agent_settings(an_agent())["values"])
        one = Defaults(settings(**{"global": stored(2)}))
        self.assertEqual({"x": 2}, one.agent_settings(an_agent())["values"])
        foreign = {"agentSettingsById": {"claude": {"ownerId": "codex", "values": {}}}}
        none = Defaults(settings(**{"global": foreign}))
        self.assertEqual({"x": 1}, none.agent_settings(an_agent())["values"])

    def test_settings_are_checked(self) -> None:
        """Settings without one of their parts are not settings: exit 3."""
        for name in settings():
            partial = {k: v for k, v in settings().items() if k != name}
            error = self.assertRaises(CommandFailure, Defaults, partial)
            self.assertEqual(3, error.exit_status)
