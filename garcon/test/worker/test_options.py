"""What a worker can be told, and what it refuses with one line."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.connection_url import new_secret
from garcon.worker.tap import CONTROLLER_URL, Options

SECRET = new_secret(b"s" * 32)
WSS = f"wss://controller.example/executor/x#secret={SECRET}"
WS = f"ws://127.0.0.1:9/executor/x#secret={SECRET}"
PAIR = ["--tls-cert", "c.pem", "--tls-private-key", "k.pem"]


def parsed(*argv: str, **variables: str) -> Options:
    """Parse a command line in an environment."""
    options = Options(dict(variables))
    options.parseOptions(list(argv))
    return options


class Accepted(SynchronousTestCase):
    """The combinations that make sense."""

    def test_dialling(self) -> None:
        """The connection URL comes from its variable and is taken out of the environment."""
        environment = {CONTROLLER_URL: WSS}
        options = Options(environment)
        self.assertEqual(environment, {})
        options.parseOptions([])
        assert options.dial is not None
        self.assertEqual(options.dial.secret, SECRET)
        self.assertNotIn(SECRET, repr(options.dial) + repr(dict(options)) + str(options))

    def test_dialling_without_tls(self) -> None:
        """A ws: address needs the explicit choice."""
        self.assertIsNotNone(parsed("--no-tls", **{CONTROLLER_URL: WS}).dial)

    def test_dialling_unverified(self) -> None:
        """The outer certificate can be left unverified."""
        options = parsed("--allow-unverified-tls", **{CONTROLLER_URL: WSS})
        self.assertTrue(options["allow-unverified-tls"])

    def test_listening(self) -> None:
        """A listener binds to loopback unless told otherwise, and any port may be asked for."""
        options = parsed("--listen", "0", "--no-tls")
        self.assertEqual((options["listen"], options["bind-address"]), (0, "127.0.0.1"))
        options = parsed("--listen", "65535", "--bind-address", "::", *PAIR)
        self.assertEqual((options["listen"], options["bind-address"]), (65535, "::"))

    def test_advertised_address(self) -> None:
        """A flag wins over the variable, and an empty variable is unset."""
        flag, variable = "wss://a.example/executor", "wss://b.example/executor"
        listen = ["--listen", "0", "--no-tls"]
        name = "GARCON_EXECUTOR_ADVERTISE_URL"
        self.assertEqual(
            parsed(*listen, "--advertise-url", flag, **{name: variable})["advertise-url"].url, flag
        )
        self.assertEqual(parsed(*listen, **{name: variable})["advertise-url"].url, variable)
        self.assertIsNone(parsed(*listen, **{name: ""})["advertise-url"])

    def test_common_settings(self) -> None:
        """Both roles take the config root, the project base and the scripted agent."""
        options = parsed(
            "--listen",
            "0",
            "--no-tls",
            "--enable-scripted-agent",
            GARCON_CONFIG_DIR="/srv/config",
            GARCON_PROJECT_BASE_DIR="/srv/src",
        )
        self.assertEqual(options["config-dir"], "/srv/config")
        self.assertEqual(options["project-base-dir"], "/srv/src")
        self.assertTrue(options["enable-scripted-agent"])


class Refused(SynchronousTestCase):
    """Wrong combinations end the process with one clear line and no secret in it."""

    def refused(self, argv: list[str], url: str, says: str) -> None:
        """Check that a command line is refused, and how."""
        said = io.StringIO()
        with redirect_stderr(said):
            error = self.assertRaises(SystemExit, parsed, *argv, **{CONTROLLER_URL: url})
        self.assertEqual(error.code, 1)
        text = said.getvalue()
        self.assertEqual(text.count("\n"), 1, text)
        self.assertIn(says, text)
        self.assertNotIn(SECRET, text)
        self.assertNotIn("controller.example", text)

    def test_table(self) -> None:
        """Each row: options, connection URL, and what the line says."""
        listen = ["--listen", "1"]
        for argv, url, says in (
            ([], "", "a worker needs its controller"),
            ([], "  ", "a worker needs its controller"),
            (listen, WSS, "exclude each other"),
            (listen, "", "--tls-cert and --tls-private-key, or --no-tls"),
            ([*listen, *PAIR, "--no-tls"], "", "--no-tls contradicts"),
            ([*listen, *PAIR[:2]], "", "go together"),
            ([*listen, *PAIR[2:]], "", "go together"),
            ([*listen, *PAIR[2:], "--no-tls"], "", "go together"),
            ([*listen, "--no-tls", "--allow-unverified-tls"], "", "--allow-unverified-tls needs"),
            (["--listen", "65536", "--no-tls"], "", "--listen must be"),
            (["--listen", "-1", "--no-tls"], "", "--listen must be"),
            (["--listen", "x", "--no-tls"], "", "--listen must be"),
            (["--no-tls"], WSS, "--no-tls contradicts"),
            ([], WS, "needs --no-tls"),
            (["--allow-unverified-tls", "--no-tls"], WS, "--allow-unverified-tls needs a wss:"),
            (["--tls-cert", "c.pem"], WSS, "--tls-cert needs --listen"),
            (["--tls-private-key", "k.pem"], WSS, "--tls-private-key needs --listen"),
            (["--bind-address", "127.0.0.1"], WSS, "--bind-address needs --listen"),
            ([], "wss://controller.example/x", CONTROLLER_URL),
            ([], "https://controller.example/x#secret=" + SECRET, CONTROLLER_URL),
            ([], WSS + "x", CONTROLLER_URL),
            ([], "wss://0.0.0.0/x#secret=" + SECRET, CONTROLLER_URL),
            ([*listen, "--no-tls", "--advertise-url", WSS], "", "without a secret"),
            ([*listen, "--no-tls", "--advertise-url", "http://x/"], "", "--advertise-url is no"),
            ([*listen, "--no-tls", "more"], "", "unexpected argument"),
            (["--connect", "x"], "", "connect"),
        ):
            self.refused(argv, url, says)

    def test_help_names_the_variable(self) -> None:
        """How to dial is said where options are listed; nothing is started."""
        said = io.StringIO()
        self.patch(sys, "stdout", said)
        self.assertRaises(SystemExit, parsed, "--help")
        self.assertIn(CONTROLLER_URL, said.getvalue())
