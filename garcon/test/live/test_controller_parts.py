"""A controller composed in this process: that its parts fit, and that its end always cleans up."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail, maybeDeferred
from twisted.trial.unittest import TestCase

from garcon.contract.operations import OPERATIONS, RUNTIME
from garcon.controller.bridge.dispatcher import Dispatcher
from garcon.controller.http.listener import Address
from garcon.controller.service import Config, Controller
from garcon.deferreds import returns_deferred
from garcon.link.endpoints import Trust
from garcon.local.files import private_directory
from garcon.local.leases import Lease, LeaseHeld
from garcon.local.roots import ConfigRoot, older_descriptor, workspace_lease
from garcon.store.interfaces import NotStored
from garcon.store.records import Change
from garcon.store.sqlite import SqliteStore


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
        controller = kind(self.reactor, self.config, lambda credentials: (), held)
        # A test that fails on its way must not leave a thread that keeps the process from ending.
        self.addCleanup(controller.store.close)
        return controller


class Raising:
    """A part of which one method raises, once it is asked to; everything else is the real one's."""

    def __init__(self, real: Any, method: str) -> None:
        self._real = real
        self._method = method
        self.arguments: tuple[Any, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return self._raise if name == self._method else getattr(self._real, name)

    def _raise(self, *arguments: Any) -> None:
        self.arguments = arguments
        raise ZeroDivisionError


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


class FailingDispatcher(Dispatcher):
    """Its end fails."""

    def close(self) -> Deferred[None]:
        """Fail, as a part with a fault does."""
        return fail(OSError("no end"))


class RaisingDispatcher(Dispatcher):
    """It does not even begin to end."""

    def close(self) -> Deferred[None]:
        """Raise, as a part with a bug does."""
        raise OSError("no beginning of the end")


class HangingDispatcher(Dispatcher):
    """Its end never comes."""

    def close(self) -> Deferred[None]:
        """Return what never fires."""
        return Deferred()


class EndlessStore(SqliteStore):
    """A store that closes, and never says so."""

    def __init__(self, real: SqliteStore) -> None:
        self._real = real
        self.closed: Deferred[None] = Deferred()

    def open(self) -> Deferred[None]:
        """Open the real one."""
        return self._real.open()

    def settings(self) -> Deferred[dict[str, str]]:
        """Ask the real one."""
        return self._real.settings()

    def write(self, changes: Sequence[Change]) -> Deferred[None]:
        """Let the real one keep them."""
        return self._real.write(changes)

    def close(self) -> Deferred[None]:
        """Close the real one, and tell only the test."""
        self._real.close().chainDeferred(self.closed)
        return Deferred()


class EndTests(ComposedTestCase):
    """However a part of it ends, a controller takes back what it published and frees its leases."""

    @returns_deferred
    async def end_with(self, kind: type[Dispatcher]) -> Controller:
        """Start a controller with another dispatcher, end it, and look at what is left."""
        controller = self.compose()
        controller.dispatcher = kind(
            self.reactor,
            controller.handlers,
            controller.executors,
            controller.instance_id,
            self.config.workspace,
        )
        await controller.start_up()
        for path in self.descriptors:
            self.assertTrue(os.path.exists(path), path)
        for path in self.leases:
            self.assertRaises(LeaseHeld, Lease.acquire, path)
        went_well = await controller.shut_down()
        self.assertEqual(went_well, kind is Dispatcher)
        self.assert_nothing_left()
        return controller

    def assert_nothing_left(self) -> None:
        """Assert that a successor would find nothing of this one."""
        for path in self.descriptors:
            self.assertFalse(os.path.exists(path), path)
        for path in self.leases:
            Lease.acquire(path).release()

    @returns_deferred
    async def test_all_goes_well(self) -> None:
        """Both descriptors go, both leases are free."""
        await self.end_with(Dispatcher)

    @returns_deferred
    async def test_a_step_fails(self) -> None:
        """The same, the steps after it are taken, and the end counts as a bad one, whether it fails
        later or at once.
        """
        for kind in (FailingDispatcher, RaisingDispatcher):
            controller = await self.end_with(kind)
            self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
            await self.assertFailure(controller.store.load(), NotStored)

    @returns_deferred
    async def test_each_step_raises(self) -> None:
        """Whichever it is, all the others are taken, and nothing is left."""
        parts = (
            ("executors", "quiesce"),
            ("listeners", "stop_listening"),
            ("listeners", "drop"),
            ("chats", "shut_down"),
            ("door", "under_way"),
            ("accounts", "stop"),
            ("executors", "stop"),
            ("local", "stop"),
            ("store", "close"),
        )
        for name, method in parts:
            controller = self.compose()
            await controller.start_up()
            real = getattr(controller, name)
            raising = Raising(real, method)
            setattr(controller, name, raising)
            self.assertFalse(await controller.shut_down(), name)
            self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1, name)
            self.assert_nothing_left()
            await maybeDeferred(getattr(real, method), *raising.arguments)
            await self.assertFailure(controller.store.load(), NotStored)

    @returns_deferred
    async def test_a_step_hangs(self) -> None:
        """It is given up when its time is over."""
        controller = await self.end_with(HangingDispatcher)
        await self.assertFailure(controller.store.load(), NotStored)

    @returns_deferred
    async def test_the_end_is_given_up(self) -> None:
        """Whoever cancels the end, as `Role` does when it takes too long, gets the clean-up too."""
        controller = self.compose()
        store = controller.store = EndlessStore(controller.store)
        await controller.start_up()
        ending = controller.shut_down()
        await store.closed
        ending.cancel()
        with self.assertRaises(CancelledError):
            await ending
        self.assert_nothing_left()
