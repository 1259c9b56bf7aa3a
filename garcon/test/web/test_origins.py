"""Whose pages may ask."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.web.origins import AllowedOrigins


class OriginTests(SynchronousTestCase):
    """The table of allowed origins."""

    def setUp(self) -> None:
        self.origins = AllowedOrigins(["Studio.example", "[fd00::7]"], "https://garcon.example/at/")

    def assert_allowed(self, host: str, *origins: str | None) -> None:
        """Assert that each may ask at a host."""
        for origin in origins:
            self.assertTrue(self.origins.allows(origin, host), (origin, host))

    def assert_refused(self, host: str | None, *origins: str) -> None:
        """Assert that none may."""
        for origin in origins:
            self.assertFalse(self.origins.allows(origin, host), (origin, host))

    def test_no_origin(self) -> None:
        """It is no page's request."""
        self.assert_allowed("192.168.1.5:8080", None)

    def test_pages_of_this_machine(self) -> None:
        """By any name of it, any port and scheme."""
        self.assert_allowed(
            "garcon.example",
            "http://localhost:5173",
            "https://127.0.0.1",
            "http://127.8.9.10:1",
            "http://[::1]:8080",
            "HTTP://LOCALHOST:1",
        )

    def test_digits_of_other_scripts_are_no_numbers(self) -> None:
        """A name that looks like an address is refused like any other."""
        self.assert_refused("localhost", "http://127.0.0.\u00b2", "http://127.0.\u0661.1")

    def test_pages_of_this_very_address(self) -> None:
        """The same host and port; the scheme may be a proxy's."""
        self.assert_allowed(
            "192.168.1.5:8080", "http://192.168.1.5:8080", "https://192.168.1.5:8080"
        )
        self.assert_allowed("proxied.example", "https://proxied.example", "http://proxied.example")
        self.assert_allowed("[fd00::5]:81", "http://[FD00::5]:81")
        self.assert_refused(
            "192.168.1.5:8080",
            "http://192.168.1.5:8081",
            "http://192.168.1.5",
            "http://192.168.1.6:8080",
        )

    def test_the_public_url(self) -> None:
        """Scheme, host and port of it, wherever it leads."""
        self.assert_allowed(
            "127.0.0.1:8080", "https://garcon.example", "https://garcon.example:443"
        )
        self.assert_refused(
            "127.0.0.1:8080",
            "http://garcon.example",
            "https://garcon.example:444",
            "https://garcon.example.evil.example",
        )

    def test_configured_names(self) -> None:
        """With any port and scheme."""
        self.assert_allowed("127.0.0.1", "http://studio.example:3000", "https://[fd00::7]")
        self.assert_refused("127.0.0.1", "http://my.studio.example")

    def test_everybody_else(self) -> None:
        """Foreign pages, opaque origins, other schemes, what is no origin, and several."""
        self.assert_refused(
            "127.0.0.1:8080",
            "http://evil.example",
            "https://localhost.evil.example",
            "http://127.0.0.1.evil.example",
            "http://127.0.0.999",
            "null",
            "",
            "file://",
            "chrome-extension://abcdef",
            "localhost",
            "http://user@localhost",
            "http://localhost/",
            "http://localhost, http://evil.example",
            "http://evil.example, http://localhost",
            "http://localhost:99999999",
        )
        self.assert_refused(None, "http://evil.example")
