"""Who gets an endpoint with its key: this machine's agents, and workers by their link
(security.txt, control.md B.4, J.9).
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from zope.interface.verify import verifyObject

from garcon.contract import rpc
from garcon.contract.providers import (
    Assignments,
    ResolveCredential,
    ResolvedEndpoint,
)
from garcon.controller.executors.records import executor_unavailable
from garcon.controller.providers.credentials import CredentialService, LocalCredentials
from garcon.controller.providers.store import PROFILES_FILE
from garcon.errors import GarconError
from garcon.link.interfaces import CallContext, Guarded, Peer
from garcon.runtime.interfaces import ICredentials
from garcon.test.controller.providers.cast import KEY, OTHER, WORKER, StoreCase
from garcon.test.controller.providers.test_store import profiles_file

ASKED = "models_00beef", "models_00beef_openai"
_NO_SESSION: Any = None


@define(eq=False)
class _Links:
    """The link generations that are present."""

    present: set[tuple[str, str]] = field(factory=set)

    def require_current(self, executor_id: str, generation: str) -> None:
        """Know them."""
        if (executor_id, generation) not in self.present:
            raise executor_unavailable()


class CredentialCase(StoreCase):
    """One profile, assigned to one worker."""

    def setUp(self) -> None:
        super().setUp()
        self.put(PROFILES_FILE, profiles_file())
        self.open()
        self.assign(WORKER)
        self.links = _Links({(WORKER, "g1"), (OTHER, "g2")})
        self.service = CredentialService(self.store, self.links)

    def assign(self, *executor_ids: str) -> None:
        """Assign the profile to just these."""
        known = Assignments(1, {one: ["models_00beef"] for one in executor_ids})
        self.successResultOf(self.store.change_assignments(lambda before: known))

    def ask(self, executor_id: str, generation: str, *asked: str) -> Deferred[Guarded]:
        """Ask as a worker does over its link."""
        method = rpc.RESOLVE_CREDENTIAL
        assert method.lane is not None
        peer = Peer(executor_id, "runtime", "worker")
        context = CallContext(method, method.lane, peer, _NO_SESSION, generation)
        handler = self.service.reverse_handlers()[method.name]
        return handler(ResolveCredential(*(asked or ASKED)), context)

    def assert_code(self, error: Any, code: str) -> None:
        """Assert why nothing was given, without a key in it."""
        assert isinstance(error, GarconError)
        self.assertEqual(error.code, code)
        self.assertNotIn(KEY, error.text)


class WorkerTests(CredentialCase):
    """``credentials.resolve``."""

    def test_an_assigned_profile(self) -> None:
        """Is given to the worker whose link asks."""
        guarded = self.successResultOf(self.ask(WORKER, "g1"))
        found: ResolvedEndpoint = guarded.guard(100)
        self.assertEqual((found, found.api_key), (guarded.value, KEY))
        self.assertNotIn(KEY, repr(guarded))

    def test_identity_comes_from_the_link(self) -> None:
        """Another worker gets nothing, and neither does one that names what it may not have."""
        for executor_id, generation, asked in (
            (OTHER, "g2", ASKED),
            (WORKER, "g1", ("unknown", ASKED[1])),
            (WORKER, "g1", (ASKED[0], "unknown")),
        ):
            refused = self.failureResultOf(self.ask(executor_id, generation, *asked))
            self.assert_code(refused.value, "API_PROVIDER_UNAVAILABLE")

    def test_a_replaced_link(self) -> None:
        """Gets nothing, whatever was assigned to its executor."""
        refused = self.failureResultOf(self.ask(WORKER, "g0"))
        self.assert_code(refused.value, "EXECUTOR_UNAVAILABLE")

    def test_what_changes_before_the_answer_is_queued(self) -> None:
        """Counts: a lost link, a revoked assignment, a copy in doubt."""
        guarded = self.successResultOf(self.ask(WORKER, "g1"))
        self.links.present.clear()
        self.assert_code(self.assertRaises(GarconError, guarded.guard, 1), "EXECUTOR_UNAVAILABLE")
        self.links.present.add((WORKER, "g1"))
        self.assign("local")
        self.assert_code(
            self.assertRaises(GarconError, guarded.guard, 1), "API_PROVIDER_UNAVAILABLE"
        )
        self.assign(WORKER)
        self.assertEqual(guarded.guard(1), guarded.value)


class LocalTests(CredentialCase):
    """The controller's own machine."""

    def test_what_is_assigned_to_local(self) -> None:
        """And nothing else."""
        credentials = LocalCredentials(self.store)
        verifyObject(ICredentials, credentials)
        refused = self.failureResultOf(credentials.resolve(*ASKED))
        self.assert_code(refused.value, "API_PROVIDER_UNAVAILABLE")
        self.assign("local")
        self.assertEqual(self.successResultOf(credentials.resolve(*ASKED)).api_key, KEY)
