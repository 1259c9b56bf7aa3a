"""What a controller can be told about its surface."""

from __future__ import annotations

import io
import sys
from ipaddress import ip_network

from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.tap import Options


class OptionTests(SynchronousTestCase):
    """Options and variables."""

    def parse(self, *argv: str, **environment: str) -> Options:
        """Parse a command line."""
        options = Options(environment)
        options.parseOptions(list(argv))
        return options

    def refused(self, *argv: str, **environment: str) -> str:
        """Parse a wrong one and return what is said of it."""
        stderr, sys.stderr = sys.stderr, io.StringIO()
        try:
            with self.assertRaises(SystemExit) as caught:
                self.parse(*argv, **environment)
            self.assertEqual(caught.exception.code, 1)
            return sys.stderr.getvalue()
        finally:
            sys.stderr = stderr

    def test_trusted_proxies_are_none_by_default(self) -> None:
        """Nobody's word is taken unless it was said whose."""
        self.assertEqual(self.parse()["trusted-proxy"], [])

    def test_trusted_proxies(self) -> None:
        """Addresses and networks, as many as are named."""
        options = self.parse("--trusted-proxy", "10.0.0.0/8", "--trusted-proxy=::1")
        self.assertEqual(options["trusted-proxy"], [ip_network("10.0.0.0/8"), ip_network("::1")])
        self.assertIn("--trusted-proxy must be", self.refused("--trusted-proxy", "proxy.example"))

    def test_the_lifetime_of_tokens(self) -> None:
        """Thirty days, or what the variable says."""
        day = 86_400_000
        self.assertEqual(self.parse()["token-lifetime"], 30 * day)
        self.assertEqual(self.parse(GARCON_JWT_TOKEN_EXPIRY="")["token-lifetime"], 30 * day)
        self.assertEqual(self.parse(GARCON_JWT_TOKEN_EXPIRY="12h")["token-lifetime"], day // 2)
        self.assertEqual(self.parse(GARCON_JWT_TOKEN_EXPIRY="5000")["token-lifetime"], 5_000)
        self.assertIn(
            "GARCON_JWT_TOKEN_EXPIRY must be a time", self.refused(GARCON_JWT_TOKEN_EXPIRY="soon")
        )

    def test_the_bounds_of_browser_sockets(self) -> None:
        """The contract's numbers, or what the variables say; at least one of each."""
        names = ("sockets", "socket-idle", "socket-unsent", "socket-message")
        options = self.parse()
        self.assertEqual([options[name] for name in names], [128, 960, 2_097_152, 16_777_216])
        variables = (
            "GARCON_MAX_WS_CLIENTS",
            "GARCON_WS_IDLE_TIMEOUT_SECONDS",
            "GARCON_WS_BACKPRESSURE_LIMIT",
            "GARCON_WS_MAX_PAYLOAD_LENGTH",
        )
        options = self.parse(**dict.fromkeys(variables, "1"))
        self.assertEqual([options[name] for name in names], [1, 1, 1, 1])
        for variable in variables:
            for wrong in ("0", "-1", "many"):
                said = self.refused(**{variable: wrong})
                self.assertIn(f"{variable} must be a whole number", said)
