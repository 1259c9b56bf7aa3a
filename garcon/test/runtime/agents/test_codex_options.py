"""What Codex is told of a profile's endpoint and of the path, and by what way."""

from __future__ import annotations

import tomllib
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.providers import ResolvedEndpoint
from garcon.runtime.agents.codex_options import path_options, told


def an_endpoint(**changes: Any) -> ResolvedEndpoint:
    """Return one without anything secret."""
    usual: dict[str, Any] = {
        "protocol": "openai-compatible",
        "base_url": "https://models.example/v1",
        "revision": 1,
    }
    return ResolvedEndpoint(**(usual | changes))


def configured(options: list[str]) -> dict[str, Any]:
    """Read options as Codex does."""
    assert options[::2] == ["-c"] * (len(options) // 2)
    found: dict[str, Any] = tomllib.loads("\n".join(options[1::2]))
    return found


class EndpointTests(SynchronousTestCase):
    def test_the_provider_is_there_without_an_endpoint(self) -> None:
        """Else a thread that was begun with it could not be opened; but it is not used."""
        without = told(None)
        config = configured(without.options)
        self.assertIn("garcon", config["model_providers"])
        self.assertNotIn("model_provider", config)
        self.assertEqual(without.environment, {})

    def test_what_is_secret_goes_by_variables(self) -> None:
        """The options can be seen by everybody on the machine."""
        given = told(an_endpoint(api_key="sk-secret", headers={"X-Team": "t-secret", "X-B": "b"}))
        self.assertNotIn("secret", " ".join(given.options))
        config = configured(given.options)
        self.assertEqual(config["model_provider"], "garcon")
        self.assertEqual(
            config["model_providers"]["garcon"],
            {
                "name": "Garcon",
                "base_url": "https://models.example/v1",
                "wire_api": "responses",
                "env_key": "GARCON_CODEX_KEY",
                "env_http_headers": {
                    "X-Team": "GARCON_CODEX_HEADER_1",
                    "X-B": "GARCON_CODEX_HEADER_2",
                },
            },
        )
        self.assertEqual(
            given.environment,
            {
                "GARCON_CODEX_KEY": "sk-secret",
                "GARCON_CODEX_HEADER_1": "t-secret",
                "GARCON_CODEX_HEADER_2": "b",
            },
        )
        self.assertNotIn("secret", repr(given.options))

    def test_an_endpoint_without_a_key(self) -> None:
        """None is asked for."""
        config = configured(told(an_endpoint()).options)
        self.assertNotIn("env_key", config["model_providers"]["garcon"])

    def test_addresses(self) -> None:
        """One without a path is completed, as for every other agent; any is spelt as TOML."""
        for base, address in (
            ("https://models.example", "https://models.example/v1"),
            ("https://models.example/api/", "https://models.example/api"),
            ('https://x.example/"a\\b\x7f\u00fc', 'https://x.example/"a\\b\x7f\u00fc'),
        ):
            config = configured(told(an_endpoint(base_url=base)).options)
            self.assertEqual(config["model_providers"]["garcon"]["base_url"], address)


class PathTests(SynchronousTestCase):
    def test_the_path_is_that_of_the_environment(self) -> None:
        """Beside whatever else the user has set."""
        config = configured(path_options({"PATH": '/a b:/c"d'}))
        self.assertEqual(config, {"shell_environment_policy": {"set": {"PATH": '/a b:/c"d'}}})
        self.assertEqual(path_options({}), [])
