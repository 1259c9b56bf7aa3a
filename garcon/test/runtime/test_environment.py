"""The environment that an executor's children start with."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.runtime.environment import child_environment, command_directory

SERVICE = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/user",
    "ANTHROPIC_API_KEY": "users-own",
    "SSH_AUTH_SOCK": "/run/agent",
    "GARCON_CONTROLLER_URL": "wss://host#secret=hidden",
    "GARCON_WORKSPACE": "w",
    "GARCON_WORKSPACE_DIR": "/w",
    "GARCON_CONFIG_DIR": "/old",
    "GARCON_RUNTIME": "controller",
    "GARCON_PORT": "1",
    "CLAUDECODE": "1",
    "CLAUDE_CODE_SESSION_ID": "s",
    "CLAUDE_CONFIG_DIR": "/claude",
}


class ChildEnvironment(SynchronousTestCase):
    def test_exactly_this_much_is_passed_on(self) -> None:
        """Users' own stays; ours and other agents' marks go; root and role are this service's."""
        python = self.mktemp()
        self.assertEqual(
            child_environment(SERVICE, "executor", "/root", python),
            {
                "PATH": "/usr/bin:/bin",
                "HOME": "/home/user",
                "ANTHROPIC_API_KEY": "users-own",
                "SSH_AUTH_SOCK": "/run/agent",
                "CLAUDE_CONFIG_DIR": "/claude",
                "GARCON_CONFIG_DIR": "/root",
                "GARCON_RUNTIME": "executor",
            },
        )

    def test_the_service_keeps_its_own(self) -> None:
        """The mapping handed in is left alone."""
        before = dict(SERVICE)
        child_environment(SERVICE, "executor", "/root")
        self.assertEqual(SERVICE, before)

    def test_command_of_this_installation_is_found_last(self) -> None:
        """The directory of the command is appended, once, and only where the command is."""
        directory = Path(self.mktemp()).absolute()
        directory.mkdir(parents=True)
        python = str(directory / "python")
        self.assertIsNone(command_directory(python))
        (directory / "garcon").write_text("#!/bin/sh\n")
        (directory / "garcon").chmod(0o755)
        found = child_environment(SERVICE, "controller", "/root", python)
        self.assertEqual(found["PATH"], f"/usr/bin:/bin:{directory}")
        again = child_environment(found, "controller", "/root", python)
        self.assertEqual(again["PATH"], found["PATH"])
        without = child_environment({}, "controller", "/root", python)
        self.assertEqual(without["PATH"], f"{os.defpath}:{directory}")
