"""Installing Claude Code, with an npm of the test's own."""

from __future__ import annotations

import json
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.claude_code import (
    VERSION,
    cache_directory,
    install,
    scripted_environment,
)
from garcon.testing.npm_agents import NotInstalled

NPM = """#!/bin/sh
# A stand-in for npm: counts its calls and lays the package where npm would.
echo "$@" >> "{calls}"
while [ "$1" != --prefix ]; do shift; done
for at in {programs}; do
    mkdir -p "$(dirname "$2/node_modules/$at")"
    printf '#!/bin/sh\\necho "{version} (Claude Code)"\\n' > "$2/node_modules/$at"
    chmod +x "$2/node_modules/$at"
done
exit {status}
"""
NATIVE, LAUNCHER = "@anthropic-ai/claude-code-linux-x64/claude", ".bin/claude"


class Installing(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = Path(self.mktemp()).absolute()
        self.root.mkdir(parents=True)
        self.calls = self.root / "calls"
        self.environment = {"PATH": "/nowhere"}

    def an_npm(self, programs: str, version: str = VERSION, status: int = 0) -> None:
        """Put an npm first on the path."""
        npm = self.root / "bin" / "npm"
        npm.parent.mkdir(exist_ok=True)
        npm.write_text(
            NPM.format(calls=self.calls, programs=programs, version=version, status=status)
        )
        npm.chmod(0o755)
        self.environment = {"PATH": f"{npm.parent}:/usr/bin:/bin"}

    def install(self) -> str:
        """Install into the test's own cache."""
        return install(self.root / "cache", self.environment)

    def test_installs_once(self) -> None:
        """The native program is preferred, and a second call finds it without npm."""
        self.an_npm(f"{LAUNCHER} {NATIVE}")
        program = self.install()
        self.assertTrue(program.endswith(NATIVE))
        self.environment = {"PATH": "/nowhere"}
        self.assertEqual(self.install(), program)
        self.assertEqual(len(self.calls.read_text().splitlines()), 1)
        self.assertIn(f"@anthropic-ai/claude-code@{VERSION}", self.calls.read_text())

    def test_launcher_does_where_there_is_no_native_program(self) -> None:
        """Whatever runs and is of the right version."""
        self.an_npm(LAUNCHER)
        self.assertTrue(self.install().endswith(LAUNCHER))

    def test_failures_say_why_and_leave_nothing_that_counts(self) -> None:
        """No npm, a failing npm, and a package whose program does not run."""
        self.assertIn("npm is not installed", self.failure())
        self.an_npm(LAUNCHER, status=1)
        self.assertIn("npm failed", self.failure())
        self.an_npm(LAUNCHER, version="0.0.1")
        self.assertIn("none of its programs", self.failure())
        self.an_npm(LAUNCHER)
        self.assertTrue(self.install().endswith(LAUNCHER))

    def failure(self) -> str:
        return str(self.assertRaises(NotInstalled, self.install))

    def test_where_it_is_kept(self) -> None:
        """A variable of our own, the user's caches, or the default; never the tree."""
        self.assertEqual(cache_directory({"GARCON_CLAUDE_CODE_CACHE": "/a"}), Path("/a"))
        caches = cache_directory({"XDG_CACHE_HOME": "/c"})
        self.assertEqual(caches, Path("/c/garcon-tests/claude-code"))
        home = Path("~/.cache/garcon-tests/claude-code").expanduser()
        self.assertEqual(cache_directory({}), home)

    def test_environment_for_a_pretend_model(self) -> None:
        """What a service's child environment would lose is in the settings."""
        variables = scripted_environment(self.root / "home", 4711)
        self.assertEqual(variables["ANTHROPIC_BASE_URL"], "http://127.0.0.1:4711")
        self.assertEqual([name for name in variables if name.startswith("CLAUDE_CODE_")], [])
        settings = json.loads((self.root / "home" / "settings.json").read_text())
        self.assertEqual(settings["env"]["CLAUDE_CODE_MAX_RETRIES"], "1")
