"""The config root: fixed places, workspace names, and the folder reserved for a worker."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from garcon.errors import StartupError
from garcon.local.roots import ConfigRoot


class RootTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.base = os.path.realpath(self.mktemp())
        os.makedirs(self.base)
        self.root = ConfigRoot(self.base)

    def test_is_resolved_once(self) -> None:
        """A root reached through a link has its real path, so both spellings are one root."""
        link = self.base + "-link"
        os.symlink(self.base, link)
        self.assertEqual(self.base, ConfigRoot(link).path)

    def test_choice(self) -> None:
        """Option, else variable, else the home directory; an empty variable is unset."""
        environ = {"GARCON_CONFIG_DIR": self.base}
        self.assertEqual(self.base, ConfigRoot.chosen(None, environ).path)
        self.assertEqual("/x", ConfigRoot.chosen("/x", environ).path)
        default = os.path.realpath(os.path.expanduser("~/.garcon"))
        self.assertEqual(default, ConfigRoot.chosen(None, {"GARCON_CONFIG_DIR": ""}).path)

    def test_places(self) -> None:
        """The fixed paths are the contract's."""
        self.assertEqual(f"{self.base}/runtime.json", self.root.controller_descriptor)
        self.assertEqual(f"{self.base}/executor/runtime.json", self.root.executor_descriptor)
        self.assertEqual(f"{self.base}/executor/executor-secret.json", self.root.executor_secret)
        self.assertEqual(f"{self.base}/executor/listener.json", self.root.executor_listener)
        self.assertEqual(f"{self.base}/workspace-a b", self.root.workspace("a b"))

    def test_names(self) -> None:
        """Names that would leave the root are refused."""
        for name in ("", ".", "..", "a/b", "a\\b", "a\0b"):
            self.assertRaises(StartupError, self.root.workspace, name)
        self.assertEqual(f"{self.base}/workspace-..x", self.root.workspace("..x"))

    def test_the_executor_folder_is_reserved(self) -> None:
        """The folder itself and all below it are refused, before and after it exists."""
        for _ in range(2):
            for place in ("executor", "executor/x", "executor/../executor/x", "y/../executor"):
                path = os.path.join(self.base, place)
                self.assertRaises(StartupError, self.root.workspace_dir, path)
            os.makedirs(self.root.executor_dir, exist_ok=True)
        self.assertEqual(
            f"{self.base}/executor2", self.root.workspace_dir(f"{self.base}/executor2")
        )

    def test_aliases_are_seen_through(self) -> None:
        """A workspace that is a link into the folder, or a folder that is a link, is refused."""
        os.makedirs(os.path.join(self.root.executor_dir, "inner"))
        os.symlink(
            os.path.join(self.root.executor_dir, "inner"), os.path.join(self.base, "workspace-w")
        )
        self.assertRaises(StartupError, self.root.workspace, "w")
        elsewhere = self.base + "-elsewhere"
        os.makedirs(elsewhere)
        os.rename(self.root.executor_dir, self.base + "-moved")
        os.symlink(elsewhere, self.root.executor_dir)
        self.assertRaises(StartupError, self.root.workspace_dir, os.path.join(elsewhere, "w"))
