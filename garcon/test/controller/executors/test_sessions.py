"""Sessions of a remote executor: availability, status, authority (control.md E.2, E.7)."""

from __future__ import annotations

from attrs import define, field
from twisted.internet.defer import Deferred
from zope.interface import implementer
from zope.interface.verify import verifyObject

from garcon.contract import operations, rpc
from garcon.contract.connection_url import new_secret
from garcon.contract.limits import GRACE
from garcon.controller.executors.interfaces import IExecutorWatcher
from garcon.controller.executors.remote_executor import availability, bulk_availability
from garcon.errors import CallError, GarconError, LaneLost
from garcon.test.controller.executors.cast import INSTANCE, ExecutorsCase
from garcon.testing.held_link import DESCRIPTION

UNKNOWN = "99999999-9999-4999-8999-999999999999"


class AvailabilityTests(ExecutorsCase):
    """Ready, reconnecting, offline."""

    def setUp(self) -> None:
        super().setUp()
        self.executor_id = self.create()
        self.link = self.links[self.executor_id]

    def test_as_values(self) -> None:
        """Disabled is offline whatever else holds; without a session it is waited for in grace."""
        for enabled, ready, in_grace, expected in (
            (True, True, False, "ready"),
            (True, True, True, "ready"),
            (True, False, True, "reconnecting"),
            (True, False, False, "offline"),
            (False, True, True, "offline"),
        ):
            shown = availability(enabled=enabled, ready=ready, in_grace=in_grace)
            self.assertEqual(shown, expected)

    def test_local(self) -> None:
        """Always there, with every service and both grants."""
        local = self.snapshot("local")
        self.assertEqual((local["label"], local["kind"]), ("Local", "local"))
        self.assertEqual((local["availability"], local["enabled"]), ("ready", True))
        self.assertEqual((local["bulk"], local["direction"], local["lastError"]), (None,) * 3)
        self.assertEqual(local["instanceId"], INSTANCE)
        self.assertEqual(local["projectBasePath"], "/local/projects")
        self.assertTrue(all(local["machineServices"].values()))
        self.assertTrue(local["allowControllerCli"] and local["allowExecutorManagement"])

    def test_never_connected(self) -> None:
        """Offline, nothing known."""
        shown = self.snapshot(self.executor_id)
        self.assertEqual((shown["availability"], shown["instanceId"]), ("offline", None))
        self.assertEqual(shown["bulk"], {"availability": "offline", "lastError": None})
        self.assertFalse(any(shown["machineServices"].values()))

    def test_ready_only_after_the_description(self) -> None:
        """An authenticated session alone is not ready; its description makes it so."""
        installed = self.link.install("g1")
        self.assertEqual(installed.made(), ["executor.describe"])
        self.assertEqual(self.executors.availability(self.executor_id), "offline")
        error = self.assertRaises(GarconError, self.executors.runtime, self.executor_id)
        self.assertEqual(
            (error.code, error.status, error.retryable), ("EXECUTOR_UNAVAILABLE", 503, True)
        )
        installed.waiting(rpc.DESCRIBE).d.callback(DESCRIPTION)
        shown = self.snapshot(self.executor_id)
        self.assertEqual((shown["availability"], shown["instanceId"]), ("ready", "worker-instance"))
        self.assertEqual(shown["projectBasePath"], "/projects")
        self.assertEqual(
            shown["machineServices"], {"files": True, "git": False, "gh": False, "terminals": True}
        )
        described = self.executors.runtime(self.executor_id).describe()
        self.assertEqual(self.successResultOf(described), DESCRIPTION)

    def test_failed_description_is_asked_again(self) -> None:
        """While the same session lasts; the failure is shown meanwhile."""
        installed = self.link.install("g1")
        failed = CallError("PROVIDER_FAILURE", "no", outcome="rejected")
        installed.waiting(rpc.DESCRIBE).d.errback(failed)
        shown = self.snapshot(self.executor_id)
        self.assertEqual(shown["availability"], "offline")
        self.assertEqual(shown["lastError"]["code"], "EXECUTOR_UNAVAILABLE")
        self.clock.advance(5)
        installed.waiting(rpc.DESCRIBE).d.callback(DESCRIPTION)
        shown = self.snapshot(self.executor_id)
        self.assertEqual((shown["availability"], shown["lastError"]), ("ready", None))

    def test_description_of_a_lost_session_is_void(self) -> None:
        """It is not taken for the next one's."""
        self.link.install("g1")
        self.link.lose()
        self.assertEqual(self.executors.availability(self.executor_id), "offline")
        self.clock.advance(5)
        second = self.link.install("g2")
        self.assertEqual(second.made(), ["executor.describe"])

    def test_lost_session(self) -> None:
        """It is waited for; what was learned of the machine stays known, its instance does not, and
        no new work is taken.
        """
        self.link.ready("g1")
        self.link.lose()
        shown = self.snapshot(self.executor_id)
        self.assertEqual((shown["availability"], shown["instanceId"]), ("reconnecting", None))
        self.assertEqual(shown["projectBasePath"], "/projects")
        error = self.assertRaises(GarconError, self.executors.runtime, self.executor_id)
        self.assertEqual((error.code, error.status), ("EXECUTOR_UNAVAILABLE", 503))

    def test_grace_at_three_hours_and_before(self) -> None:
        """Then it is offline; another grace begins only when it was ready again."""
        self.link.ready("g1")
        self.link.lose()
        self.clock.advance(60)
        self.link.install("g2")
        self.link.lose()
        self.clock.advance(GRACE - 61)
        self.assertEqual(self.executors.availability(self.executor_id), "reconnecting")
        self.clock.advance(1)
        self.assertEqual(self.executors.availability(self.executor_id), "offline")
        self.link.ready("g3")
        self.link.lose()
        self.clock.advance(GRACE - 1)
        self.assertEqual(self.executors.availability(self.executor_id), "reconnecting")

    def test_changes_are_told(self) -> None:
        """Once each, after the fact."""
        installed = self.link.install("g1")
        self.assertEqual(self.use.changes, [])
        installed.waiting(rpc.DESCRIBE).d.callback(DESCRIPTION)
        self.assertEqual(self.use.changes, [self.executor_id])
        self.link.lose()
        self.link.install("g2")
        self.assertEqual(len(self.use.changes), 2)
        self.link.lose()
        self.clock.advance(GRACE)
        self.assertEqual(len(self.use.changes), 3)

    def test_installation_in_order(self) -> None:
        """Described, reconciled, active, and only then ready; asked again after a failure, but
        reconciled once.
        """
        installed = self.link.install("g1")
        self.assertFalse(installed.is_reconciled)
        installed.waiting(rpc.DESCRIBE).d.callback(DESCRIPTION)
        self.assertTrue(installed.is_reconciled and installed.is_active)
        self.assertEqual(installed.made(), ["executor.describe"])

    def test_lost_while_it_is_reconciled(self) -> None:
        """The next one begins from the start."""
        self.link.reconciling = Deferred()
        installed = self.link.install("g1")
        installed.waiting(rpc.DESCRIBE).d.callback(DESCRIPTION)
        self.link.lose()
        self.link.reconciling.errback(LaneLost("socket-closed"))
        self.link.reconciling = None
        self.assertFalse(installed.is_active)
        self.link.ready("g2")
        self.assertEqual(self.executors.availability(self.executor_id), "ready")
        self.clock.advance(10)

    def test_last_error_shows_only_while_disconnected(self) -> None:
        """With the failure's kind; it is cleared when the executor becomes ready."""
        self.link.events.link_failed("version-mismatch", "The worker runs another release.")
        shown = self.snapshot(self.executor_id)["lastError"]
        self.assertEqual(shown["code"], "EXECUTOR_UNAVAILABLE")
        self.assertIn("version-mismatch", shown["message"])
        self.link.install("g1").waiting(rpc.DESCRIBE).d.callback(DESCRIPTION)
        self.assertIsNone(self.snapshot(self.executor_id)["lastError"])
        self.link.lose()
        self.link.events.link_failed("socket-closed", "The worker went away.")
        self.link.install("g2")
        self.assertIsNone(self.snapshot(self.executor_id)["lastError"])
        self.link.lose()
        self.assertIsNone(self.snapshot(self.executor_id)["lastError"])

    def test_bulk_never_changes_availability(self) -> None:
        """It has a status and an error of its own."""
        self.link.ready("g1")
        self.link.bulk_phase = "preparing"
        self.link.events.link_failed("socket-closed", "bulk went away")
        shown = self.snapshot(self.executor_id)
        self.assertEqual((shown["availability"], shown["lastError"]), ("ready", None))
        self.assertEqual(shown["bulk"]["availability"], "connecting")
        self.assertIn("bulk went away", shown["bulk"]["lastError"]["message"])
        self.link.bulk_phase = "ready"
        self.link.events.bulk_changed("ready")
        self.assertEqual(
            self.snapshot(self.executor_id)["bulk"], {"availability": "ready", "lastError": None}
        )

    def test_bulk_phases(self) -> None:
        """What is on its way is connecting."""
        for phase in ("preparing", "connecting", "reconciling", "activating"):
            self.assertEqual(bulk_availability(phase), "connecting")
        for phase in ("offline", "ready", "reconnecting"):
            self.assertEqual(bulk_availability(phase), phase)

    def test_unknown_executors(self) -> None:
        """Not found, and offline."""
        for ask in (self.executors.runtime, self.executors.existing):
            error = self.assertRaises(GarconError, ask, "ffffffff-ffff-4fff-8fff-ffffffffffff")
            self.assertEqual((error.code, error.status), ("EXECUTOR_NOT_FOUND", 404))
        self.assertEqual(self.executors.availability("nobody"), "offline")

    def test_disabled(self) -> None:
        """Offline at once; its link is gone, and a new one comes with being enabled again."""
        self.link.ready("g1")
        self.updated(self.executor_id, enabled=False)
        shown = self.snapshot(self.executor_id)
        self.assertEqual((shown["availability"], shown["enabled"]), ("offline", False))
        self.assertEqual(self.link.closed, ["reconfigured"])
        self.assertEqual(len(self.opened), 1)
        self.updated(self.executor_id, enabled=True)
        self.assertEqual(len(self.opened), 2)

    def test_a_new_secret_is_perhaps_another_machine(self) -> None:
        """What was learned of the one before is forgotten; a TLS edit forgets nothing."""
        self.link.ready("g1")
        edit = {"direction": "executor-connects", "noTls": True}
        self.updated(self.executor_id, connection=edit)
        self.assertEqual(self.snapshot(self.executor_id)["projectBasePath"], "/projects")
        url = f"wss://h/#secret={new_secret(b's' * 32)}"
        self.updated(self.executor_id, connection=edit | {"connectionUrl": url})
        self.assertIsNone(self.snapshot(self.executor_id)["projectBasePath"])

    def test_a_replaced_link_waits_for_the_old_one_to_close(self) -> None:
        """There are never two; a link that does not close in time is not waited for for ever."""
        self.link.closing = Deferred()
        edit = {"direction": "executor-connects", "noTls": True}
        self.updated(self.executor_id, connection=edit)
        self.assertEqual(len(self.opened), 1)
        self.link.closing.callback(None)
        self.assertEqual(len(self.opened), 2)
        self.opened[1].closing = Deferred()
        self.updated(self.executor_id, connection=edit | {"noTls": False})
        self.clock.advance(4.99)
        self.assertEqual(len(self.opened), 2)
        self.clock.advance(0.0100001)
        self.assertEqual(len(self.opened), 3)
        # It is said, but it is nobody's fault that a log should show.
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_a_retired_link_is_not_heard(self) -> None:
        """Whatever it still tells."""
        old = self.link
        self.updated(self.executor_id, connection={"direction": "executor-connects", "noTls": True})
        old.events.link_failed("socket-error", "late")
        old.install("g9")
        self.assertIsNone(self.snapshot(self.executor_id)["lastError"])
        self.assertEqual(self.executors.availability(self.executor_id), "offline")


class AuthorityTests(ExecutorsCase):
    """Who may use the controller over which generation."""

    def setUp(self) -> None:
        super().setUp()
        self.executor_id = self.create(allowControllerCli=True)
        self.link = self.links[self.executor_id]
        self.link.ready("g1")

    def refused(self, generation: str, code: str) -> None:  # type: ignore[override]
        error = self.assertRaises(CallError, self.executors.lease, self.executor_id, generation)
        self.assertEqual(error.code, code)

    def test_granted(self) -> None:
        """One lease for one generation, with the second grant in it."""
        lease = self.executors.lease(self.executor_id, "g1")
        self.assertIs(self.executors.lease(self.executor_id, "g1"), lease)
        self.assertFalse(lease.management)
        self.updated(self.executor_id, allowExecutorManagement=True)
        self.assertIsNotNone(lease.ended)
        self.assertTrue(self.executors.lease(self.executor_id, "g1").management)

    def test_no_grant(self) -> None:
        """Default off; the link stays up when it is taken away."""
        lease = self.executors.lease(self.executor_id, "g1")
        self.updated(self.executor_id, allowControllerCli=False)
        self.assertIsNotNone(lease.ended)
        self.refused("g1", "CLI_ACCESS_DENIED")
        self.assertEqual(self.link.closed, [])
        self.assertEqual(self.executors.availability(self.executor_id), "ready")

    def test_revoked_and_enabled_again(self) -> None:
        """The old lease stays dead."""
        lease = self.executors.lease(self.executor_id, "g1")
        self.updated(self.executor_id, allowControllerCli=False)
        self.updated(self.executor_id, allowControllerCli=True)
        self.assertIsNotNone(lease.ended)
        self.assertIsNot(self.executors.lease(self.executor_id, "g1"), lease)

    def test_label_changes_end_nothing(self) -> None:
        """They are presentation."""
        lease = self.executors.lease(self.executor_id, "g1")
        self.updated(self.executor_id, label="other")
        self.assertIsNone(lease.ended)

    def test_stale_generation(self) -> None:
        """Only the current one has authority."""
        lease = self.executors.lease(self.executor_id, "g1")
        self.link.lose()
        self.assertIsNotNone(lease.ended)
        self.refused("g1", "CLI_CONTROLLER_UNAVAILABLE")
        self.link.ready("g2")
        self.refused("g1", "CLI_CONTROLLER_UNAVAILABLE")
        self.executors.lease(self.executor_id, "g2")

    def test_not_ready(self) -> None:
        """A session whose description is missing has none yet."""
        self.link.lose()
        self.link.install("g2")
        self.refused("g2", "CLI_CONTROLLER_UNAVAILABLE")

    def test_disabled_deleted_unknown(self) -> None:
        """Each ends the lease for good."""
        lease = self.executors.lease(self.executor_id, "g1")
        self.updated(self.executor_id, enabled=False)
        self.assertIsNotNone(lease.ended)
        self.refused("g1", "CLI_CONTROLLER_UNAVAILABLE")
        self.ask(operations.DELETE_EXECUTOR, None, self.executor_id)
        self.refused("g1", "CLI_ACCESS_DENIED")

    def test_stopping(self) -> None:
        """Every lease ends and none is given."""
        lease = self.executors.lease(self.executor_id, "g1")
        self.executors.quiesce()
        self.assertIsNotNone(lease.ended)
        self.refused("g1", "CLI_CONTROLLER_UNAVAILABLE")


@implementer(IExecutorWatcher)
@define(eq=False)
class Watcher:
    """Notes what it is told."""

    changes: list[str] = field(factory=list)
    removed: list[str] = field(factory=list)

    def availability_changed(self, executor_id: str) -> None:
        self.changes.append(executor_id)

    def executor_removed(self, executor_id: str) -> None:
        self.removed.append(executor_id)


class WatcherTests(ExecutorsCase):
    """Whoever keeps something by executor hears what becomes of them."""

    def test_changes_and_deletions_are_told(self) -> None:
        """Each once; a deleted one is not known any more when that is told."""
        watcher = Watcher()
        verifyObject(IExecutorWatcher, watcher)
        self.executors.watchers.append(watcher)
        executor_id = self.create()
        link = self.links[executor_id]
        link.ready("g1")
        self.assertEqual(watcher.changes, [executor_id])
        link.lose()
        link.ready("g2")
        self.assertEqual(watcher.changes, [executor_id] * 3)
        self.assertEqual(watcher.removed, [])
        self.ask(operations.DELETE_EXECUTOR, None, executor_id)
        self.assertEqual(watcher.removed, [executor_id])


class CurrentLinkTests(ExecutorsCase):
    """Which link generation may ask for what is assigned to its executor."""

    def setUp(self) -> None:
        super().setUp()
        self.executor_id = self.create()
        self.link = self.links[self.executor_id]

    def assert_refused(self, generation: str) -> None:
        """Assert that a generation is not the present one."""
        error = self.assertRaises(
            GarconError, self.executors.require_current, self.executor_id, generation
        )
        self.assertEqual((error.code, error.status), ("EXECUTOR_UNAVAILABLE", 503))

    def test_the_present_one(self) -> None:
        """Needs no grant, and no other one has its rights."""
        self.assert_refused("g1")
        self.link.ready("g1")
        self.executors.require_current(self.executor_id, "g1")
        self.assert_refused("g0")
        self.link.lose()
        self.assert_refused("g1")
        self.link.ready("g2")
        self.executors.require_current(self.executor_id, "g2")

    def test_disabled_and_stopping(self) -> None:
        """Neither may ask for anything."""
        self.link.ready("g1")
        self.updated(self.executor_id, enabled=False)
        self.assert_refused("g1")
        self.updated(self.executor_id, enabled=True)
        self.links[self.executor_id].ready("g2")
        self.executors.require_current(self.executor_id, "g2")
        self.executors.quiesce()
        self.assert_refused("g2")

    def test_unknown(self) -> None:
        """There is no such executor."""
        error = self.assertRaises(GarconError, self.executors.require_current, UNKNOWN, "g1")
        self.assertEqual(error.code, "EXECUTOR_NOT_FOUND")
