"""Where Codex's own program is, behind what is on the path."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.agents.codex_program import program_behind

VENDOR = "vendor/x86_64-unknown-linux-musl"


class ProgramTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = Path(self.mktemp()).absolute()
        self.wrapper = self.a_file("node_modules/@openai/codex/bin/codex.js", "#!/usr/bin/env node")
        self.command = self.root / "bin/codex"
        self.command.parent.mkdir(parents=True)
        self.command.symlink_to(self.wrapper)

    def a_file(self, at: str, text: str = "\x7fELF", mode: int = 0o755) -> Path:
        """Make a program."""
        path = self.root / at
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def found(self, machine: str = "x86_64") -> str:
        """What the command starts."""
        return program_behind(str(self.command), machine)

    def test_a_program_is_itself(self) -> None:
        """Whatever its name."""
        native = self.a_file("codex")
        self.assertEqual(program_behind(str(native)), str(native))

    def test_beside_the_wrapper(self) -> None:
        """As npm and pnpm lay them."""
        native = self.a_file(f"node_modules/@openai/codex-linux-x64/{VENDOR}/bin/codex")
        self.assertEqual(self.found(), str(native))

    def test_inside_the_wrapper(self) -> None:
        """As npm lays them when it installs for everybody; that one goes first."""
        self.a_file(f"node_modules/@openai/codex-linux-x64/{VENDOR}/bin/codex")
        inside = "node_modules/@openai/codex/node_modules/@openai/codex-linux-x64"
        native = self.a_file(f"{inside}/{VENDOR}/bin/codex")
        self.assertEqual(self.found(), str(native))

    def test_in_the_wrappers_own_package(self) -> None:
        """As older releases have it."""
        native = self.a_file(f"node_modules/@openai/codex/{VENDOR}/codex/codex")
        self.assertEqual(self.found(), str(native))

    def test_where_there_is_none_the_wrapper_does(self) -> None:
        """For another machine, for one that nobody builds for, or one that cannot be run."""
        self.a_file(f"node_modules/@openai/codex-linux-x64/{VENDOR}/bin/codex", mode=0o644)
        for machine in ("x86_64", "aarch64", "riscv64"):
            self.assertEqual(self.found(machine), str(self.command))

    def test_a_script_that_is_no_wrapper(self) -> None:
        """It may set things up that are needed."""
        script = self.a_file("elsewhere/codex", "#!/bin/sh\nexec codex\n")
        self.assertEqual(program_behind(str(script)), str(script))
        self.assertEqual(program_behind(str(self.root / "none")), str(self.root / "none"))
