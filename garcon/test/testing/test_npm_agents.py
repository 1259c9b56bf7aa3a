"""Agents from npm with known hashes, installed by an npm of the test's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.codex_cli import CODEX, scripted_environment
from garcon.testing.npm_agents import NotInstalled

NPM = """#!/bin/sh
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules/.bin"
printf '#!/bin/sh\\necho "codex-cli {version}"\\n' > "$2/node_modules/.bin/codex"
chmod +x "$2/node_modules/.bin/codex"
cp "{lock}" "$2/node_modules/.package-lock.json" 2>/dev/null
exit 0
"""


class Pinned(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = Path(self.mktemp()).absolute()
        (self.root / "bin").mkdir(parents=True)
        npm = self.root / "bin/npm"
        npm.write_text(NPM.format(version=CODEX.version, lock=self.root / "lock"))
        npm.chmod(0o755)
        self.environment = {"PATH": f"{npm.parent}:/usr/bin:/bin"}

    def brought(self, **hashes: Any) -> None:
        """Let npm say what it has installed."""
        packages = {f"node_modules/{name}": {"integrity": h} for name, h in hashes.items()}
        (self.root / "lock").write_text(json.dumps({"packages": packages}))

    def install(self) -> str:
        """Install into the test's own cache."""
        return CODEX.install(self.root / "cache", self.environment)

    def failure(self) -> str:
        """Why it was not installed."""
        return str(self.assertRaises(NotInstalled, self.install))

    def test_what_has_the_right_hash(self) -> None:
        """Packages that nobody pinned may come along."""
        self.brought(**CODEX.hashes, other="sha512-x")
        self.assertTrue(self.install().endswith("/node_modules/.bin/codex"))

    def test_what_has_another_hash_is_not_used(self) -> None:
        """Neither the wrapper nor what belongs to a kind of machine."""
        for name in CODEX.hashes:
            self.brought(**{**CODEX.hashes, name: "sha512-other"})
            self.assertIn(f"{name} is not the package that is pinned", self.failure())

    def test_what_npm_does_not_tell(self) -> None:
        """Without its word there is no hash to compare."""
        self.assertIn("does not say", self.failure())
        (self.root / "lock").write_text('{"packages": []}')
        self.assertIn("does not say", self.failure())
        self.brought(other="sha512-x")
        self.assertIn("did not install @openai/codex", self.failure())

    def test_environment_for_a_pretend_model(self) -> None:
        """Its home says where the model is."""
        variables = scripted_environment(self.root / "home", 4711)
        self.assertEqual(variables["CODEX_HOME"], str(self.root / "home"))
        config = (self.root / "home/config.toml").read_text()
        self.assertIn('base_url = "http://127.0.0.1:4711/v1"', config)
