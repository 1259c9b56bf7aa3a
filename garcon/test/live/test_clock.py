"""Every way to start a role runs its timers on the monotonic clock."""

from __future__ import annotations

import subprocess
import sys

from garcon.test.live.fleets import FleetTestCase
from garcon.testing.fleet import free_port

_PREPARED = """
import sys, time
from twisted.internet import reactor
before = reactor.seconds is time.monotonic
from garcon.process import prepare
prepare(reactor)
print(before, reactor.seconds is time.monotonic)
"""

_PLUGIN = """
import sys, time
from garcon.{role}.tap import Options, makeService
options = Options()
options.parseOptions(sys.argv[1:])
makeService(options)
from twisted.internet import reactor
print(reactor.seconds is time.monotonic)
"""

_FOREGROUND = """
import sys, time
from twisted.internet import reactor
def look():
    print("clock", reactor.seconds is time.monotonic, flush=True)
    reactor.stop()
reactor.callWhenRunning(look)
from garcon.{role}.tap import main
raise SystemExit(main(sys.argv[1:]))
"""


class RootTests(FleetTestCase):
    """Both roles, in the foreground and as twistd makes them."""

    def run_role(self, program: str, role: str) -> str:
        """Run a program that composes a role; return what it printed."""
        config = self.fleet.root / role
        options = {
            "controller": ("--port", "0", "--bind-address", "127.0.0.1"),
            "worker": ("--listen", str(free_port()), "--no-tls"),
        }[role]
        done = subprocess.run(
            [
                *(sys.executable, "-c", program.format(role=role), *options),
                *("--config-dir", str(config), "--project-base-dir", str(self.fleet.projects)),
            ],
            env=self.fleet.environment(),
            capture_output=True,
            text=True,
            timeout=30,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_prepared(self) -> None:
        """Twisted's clock is the wall clock before `prepare`, and the monotonic one after."""
        done = subprocess.run(
            [sys.executable, "-c", _PREPARED],
            env=self.fleet.environment(),
            capture_output=True,
            text=True,
            timeout=30,
        )
        self.assertEqual((done.stdout, done.returncode), ("False True\n", 0), done.stderr)

    def test_as_a_plugin_of_twistd(self) -> None:
        """`makeService` has set the clock by the time it returns."""
        for role in ("controller", "worker"):
            self.assertEqual(self.run_role(_PLUGIN, role), "True\n", role)

    def test_in_the_foreground(self) -> None:
        """`main` has set it by the time the reactor runs."""
        for role in ("controller", "worker"):
            self.assertIn("clock True\n", self.run_role(_FOREGROUND, role), role)
