"""The config root: where each process keeps what, and which names and places are refused."""

from __future__ import annotations

import os

from garcon.errors import StartupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from garcon.local.files import Path

EXECUTOR_FOLDER = "executor"
WORKSPACE_LEASE = ".garcon-workspace.lock"
OLDER_DESCRIPTOR = "server-runtime.json"


class ConfigRoot:
    """One config root, resolved once; the paths below it are plain attributes."""

    def __init__(self, path: Path) -> None:
        self.path = os.path.realpath(os.path.expanduser(os.fspath(path)))
        self.controller_descriptor = os.path.join(self.path, "runtime.json")
        self.controller_lease = os.path.join(self.path, ".garcon-controller.lock")
        self.tokens = os.path.join(self.path, "tokens")
        self.executor_dir = os.path.join(self.path, EXECUTOR_FOLDER)
        self.executor_descriptor = os.path.join(self.executor_dir, "runtime.json")
        self.executor_lease = os.path.join(self.executor_dir, ".garcon-executor.lock")
        self.executor_secret = os.path.join(self.executor_dir, "executor-secret.json")
        self.executor_listener = os.path.join(self.executor_dir, "listener.json")

    @classmethod
    def chosen(cls, option: str | None, environ: Mapping[str, str]) -> ConfigRoot:
        """Return the root of an option, else of ``GARCON_CONFIG_DIR`` unless empty, else
        ``~/.garcon``.
        """
        return cls(option or environ.get("GARCON_CONFIG_DIR") or "~/.garcon")

    def descriptor(self, role: str) -> str:
        """Return the path of the descriptor of ``controller`` or ``executor``."""
        return self.controller_descriptor if role == "controller" else self.executor_descriptor

    def workspace(self, name: str) -> str:
        """Return the resolved directory of a named workspace; it need not exist."""
        check_workspace_name(name)
        return self.workspace_dir(os.path.join(self.path, f"workspace-{name}"))

    def workspace_dir(self, path: Path) -> str:
        """Return an explicit workspace directory, resolved; `StartupError` when it is reserved for
        a worker.
        """
        resolved = os.path.realpath(os.path.expanduser(os.fspath(path)))
        if self._is_reserved(resolved):
            raise StartupError(
                f"the workspace {os.fspath(path)} lies in {self.executor_dir},"
                " which is reserved for a worker"
            )
        return resolved

    def _is_reserved(self, resolved: str) -> bool:
        reserved = {self.executor_dir, os.path.realpath(self.executor_dir)}
        place = resolved
        while True:
            # samefile also sees a bind mount, which no path comparison does.
            if place in reserved or _same(place, self.executor_dir):
                return True
            parent = os.path.dirname(place)
            if parent == place:
                return False
            place = parent


def check_workspace_name(name: str) -> None:
    """Raise `StartupError` unless `name` can name a workspace (server.md F.1)."""
    if not name or name in (".", "..") or any(c in name for c in "/\\\0"):
        raise StartupError(f"{name!r} is not a workspace name (no '.', '..', '/', '\\' or NUL)")


def workspace_lease(workspace: Path) -> str:
    """Return the path of a workspace's lease."""
    return os.path.join(os.fspath(workspace), WORKSPACE_LEASE)


def older_descriptor(workspace: Path) -> str:
    """Return the path where a named workspace also publishes the older descriptor."""
    return os.path.join(os.fspath(workspace), OLDER_DESCRIPTOR)


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
