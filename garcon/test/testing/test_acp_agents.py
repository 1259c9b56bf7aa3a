"""The environments in which agents of the Agent Client Protocol talk to pretend models."""

from __future__ import annotations

import json
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.acp_agents import (
    CLAUDE_CODE_ACP,
    OPENCODE,
    gemini_environment,
    opencode_environment,
)

NPM = """#!/bin/sh
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules/.bin"
printf '#!/bin/sh\\nexit 3\\n' > "$2/node_modules/.bin/claude-code-acp"
chmod +x "$2/node_modules/.bin/claude-code-acp"
cp "{lock}" "$2/node_modules/.package-lock.json"
"""


class Environments(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = Path(self.mktemp()).absolute()

    def test_opencode(self) -> None:
        """One provider, and no way to a registry."""
        variables = opencode_environment(self.root / "home", 4711)
        config = json.loads(variables["OPENCODE_CONFIG_CONTENT"])
        options = config["provider"]["scripted"]["options"]
        self.assertEqual(options["baseURL"], "http://127.0.0.1:4711/v1")
        self.assertEqual(variables["npm_config_registry"], "http://127.0.0.1:9")
        self.assertTrue((self.root / "home").is_dir())

    def test_gemini(self) -> None:
        """A key is chosen already, and nothing is told to anybody."""
        variables = gemini_environment(self.root / "home", 4711)
        self.assertEqual(variables["GOOGLE_GEMINI_BASE_URL"], "http://127.0.0.1:4711")
        settings = json.loads((self.root / "home/.gemini/settings.json").read_text())
        self.assertEqual(settings["security"]["auth"]["selectedType"], "gemini-api-key")

    def test_native_program_goes_before_the_launcher(self) -> None:
        """Of whichever kind of machine."""
        native = self.root / "opencode-linux-x64/bin/opencode"
        native.parent.mkdir(parents=True)
        native.touch()
        self.assertEqual(OPENCODE.programs(self.root), [native, self.root / ".bin/opencode"])

    def test_program_that_has_no_version(self) -> None:
        """Is not asked for it, as it would wait for a client."""
        (self.root / "bin").mkdir(parents=True)
        told = {f"node_modules/{n}": {"integrity": h} for n, h in CLAUDE_CODE_ACP.hashes.items()}
        (self.root / "lock").write_text(json.dumps({"packages": told}))
        npm = self.root / "bin/npm"
        npm.write_text(NPM.format(lock=self.root / "lock"))
        npm.chmod(0o755)
        found = CLAUDE_CODE_ACP.install(self.root / "c", {"PATH": f"{npm.parent}:/usr/bin:/bin"})
        self.assertTrue(found.endswith("/.bin/claude-code-acp"))
