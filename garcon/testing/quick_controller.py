"""A controller as it is, on loopback and without accounts, but with `QuickAgent` only:
``python -m garcon.testing.quick_controller --config-dir D --workspace-dir D --project-base-dir D``.

Where ``QUICK_FLUSH_MS`` is set, each commit takes so many milliseconds more, as it does on a disk
whose cache forgets what it holds when the power goes.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from garcon.controller.http.listener import Address
from garcon.controller.service import Config, Controller
from garcon.controller.tap import Options
from garcon.link.endpoints import Trust
from garcon.local.files import private_directory
from garcon.local.leases import Lease
from garcon.local.roots import ConfigRoot, workspace_lease
from garcon.process import Role, environment_snapshot, run_in_foreground
from garcon.testing.quick_agent import QuickAgent


def make(options: Any, reactor: Any) -> Role:
    """Compose it as `garcon.controller.tap` does."""
    root = ConfigRoot(options["config-dir"])
    workspace_dir = root.workspace_dir(options["workspace-dir"])
    config = Config(
        root=root,
        workspace=None,
        workspace_dir=workspace_dir,
        project_base=options["project-base-dir"],
        address=Address("127.0.0.1", options["port"], None),
        trust=Trust.from_environment(None, None),
        environment=environment_snapshot(),
        disable_auth=True,
        sessions=sys.maxsize,
    )
    private_directory(workspace_dir)
    leases = [
        Lease.acquire(root.controller_lease, 3.0, "config"),
        Lease.acquire(workspace_lease(workspace_dir), 3.0, "workspace"),
    ]
    controller = Controller(reactor, config, lambda _: [QuickAgent(reactor)], leases)
    flush = float(os.environ.get("QUICK_FLUSH_MS", "0")) / 1e3
    if flush:
        commit = controller.store._commit

        def flushed(writes: Any) -> Any:
            outcome = commit(writes)
            time.sleep(flush)
            return outcome

        controller.store._commit = flushed  # type: ignore[method-assign]
    return Role(reactor, controller)


def main(arguments: list[str]) -> int:
    """Serve until told to stop."""
    from twisted.internet import reactor

    os.umask(0o077)
    return run_in_foreground(Options(), make, ["--port", "0", *arguments], reactor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
