"""A controller composed in this process: that its parts fit, and that its end always cleans up."""

from __future__ import annotations

import os
from typing import Any

from twisted.trial.unittest import TestCase

from garcon.contract.operations import OPERATIONS, RUNTIME
from garcon.controller.http.listener import Address
from garcon.controller.service import Config, Controller
from garcon.deferreds import returns_deferred
from garcon.link.endpoints import Trust
from garcon.local.files import private_directory
from garcon.local.leases import Lease
from garcon.local.roots import ConfigRoot, older_descriptor, workspace_lease


class ComposedTestCase(TestCase):
    """A composed controller on real sockets, files and leases."""

    def setUp(self) -> None:
        from twisted.internet import reactor

        self.reactor: Any = reactor
        root = ConfigRoot(os.path.abspath(self.mktemp()))
        directory = root.workspace("default")
        private_directory(root.path)
        private_directory(directory)
        self.config = Config(
            root=root,
            workspace="default",
            workspace_dir=directory,
            project_base=directory,
            address=Address("127.0.0.1", 0),
            trust=Trust.from_environment(None, None),
            environment={},
        )
        self.leases = (root.controller_lease, workspace_lease(directory))
        self.descriptors = (root.controller_descriptor, older_descriptor(directory))

    def compose(self, kind: type[Controller] = Controller) -> Controller:
        """Return a controller that holds its leases and is not started."""
        held = [Lease.acquire(path) for path in self.leases]
        return kind(self.reactor, self.config, (), held)


class HandlerTests(ComposedTestCase):
    """Every operation of the contract is served, by one handler."""

    @returns_deferred
    async def test_every_operation_has_its_handler(self) -> None:
        """Nothing of the contract is left out, and nothing is served twice."""
        controller = self.compose()
        await controller.start_up()
        try:
            missing = [
                o.route.key for o in OPERATIONS if not controller.handlers.serves(o.route.key)
            ]
            self.assertEqual(missing, [])
            with self.assertRaisesRegex(ValueError, "two handlers"):
                controller.handlers.register(RUNTIME, lambda call: None)
        finally:
            self.assertTrue(await controller.shut_down())
