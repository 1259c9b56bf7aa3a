"""A worker's agents get endpoints from the controller, each time anew (security.txt, control.md
J.9).
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from garcon.contract import rpc
from garcon.contract.limits import INTERACTIVE_WAIT
from garcon.contract.providers import ResolveCredential, ResolvedEndpoint
from garcon.errors import CallError, LaneLost
from garcon.runtime.interfaces import ICredentials
from garcon.test.worker.doubles import HeldLink
from garcon.worker.serving.credentials import AGAIN, LinkCredentials

FOUND = ResolvedEndpoint(
    protocol="openai-compatible", base_url="https://a.example", api_key="sk-secret", revision=1
)


class CredentialsTests(SynchronousTestCase):
    """Questions over sessions that come and go."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.link: HeldLink | None = HeldLink()
        self.credentials = LinkCredentials(self.clock)
        self.credentials.current = lambda: self.link

    def ask(self) -> Deferred[ResolvedEndpoint]:
        """Ask for an endpoint."""
        return self.credentials.resolve("p", "p_openai")

    def sent(self) -> Any:
        """Return the one call that was made on the present link, and begin another link's list."""
        assert self.link is not None
        [call] = self.link.calls
        return call

    def refusal(self, d: Deferred[Any]) -> CallError:
        """Return why it failed."""
        error = self.failureResultOf(d, CallError).value
        assert isinstance(error, CallError)
        return error

    def test_the_controller_is_asked(self) -> None:
        """By name of profile and endpoint, and its answer is handed on."""
        verifyObject(ICredentials, self.credentials)
        asking = self.ask()
        call = self.sent()
        self.assertIs(call.method, rpc.RESOLVE_CREDENTIAL)
        self.assertEqual(call.request, ResolveCredential("p", "p_openai"))
        self.assertEqual(call.deadline, INTERACTIVE_WAIT)
        call.reply.callback(FOUND)
        self.assertEqual(self.successResultOf(asking), FOUND)

    def test_nothing_is_kept(self) -> None:
        """The next session asks again."""
        for _ in range(2):
            self.link = HeldLink()
            asking = self.ask()
            self.sent().reply.callback(FOUND)
            self.successResultOf(asking)
        for text in (repr(self.credentials), repr(vars(self.credentials))):
            self.assertNotIn("sk-secret", text)

    def test_a_refusal_is_handed_on(self) -> None:
        """At once: asking again would not help."""
        asking = self.ask()
        refused = CallError("API_PROVIDER_UNAVAILABLE", "no", outcome="rejected", status=404)
        self.sent().reply.errback(refused)
        self.assertEqual(self.refusal(asking).code, "API_PROVIDER_UNAVAILABLE")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_session_that_is_lost_meanwhile(self) -> None:
        """Is replaced by the next one, on which it is asked again."""
        asking = self.ask()
        self.sent().reply.errback(LaneLost("cut"))
        self.link = None
        self.clock.advance(AGAIN)
        self.assertNoResult(asking)
        self.link = HeldLink()
        self.clock.advance(AGAIN)
        call = self.sent()
        self.assertEqual(call.deadline, INTERACTIVE_WAIT - 2 * AGAIN)
        call.reply.callback(FOUND)
        self.assertEqual(self.successResultOf(asking), FOUND)

    def test_a_session_that_is_not_active_yet(self) -> None:
        """Is asked again shortly after."""
        asking = self.ask()
        busy = CallError("EXECUTOR_BUSY", "not yet", outcome="not-dispatched", retryable=True)
        self.sent().reply.errback(busy)
        self.link = HeldLink()
        self.clock.advance(AGAIN)
        self.sent().reply.callback(FOUND)
        self.successResultOf(asking)

    def test_twenty_seconds_without_a_session(self) -> None:
        """And no longer."""
        self.link = None
        asking = self.ask()
        steps = int(INTERACTIVE_WAIT / AGAIN)
        for _ in range(steps - 2):
            self.clock.advance(AGAIN)
        self.assertNoResult(asking)
        for _ in range(2):
            self.clock.advance(AGAIN)
        error = self.refusal(asking)
        self.assertEqual((error.code, error.status), ("EXECUTOR_UNAVAILABLE", 503))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_nobody_waits_any_more(self) -> None:
        """The call is withdrawn, or the wait given up."""
        asking = self.ask()
        call = self.sent()
        asking.cancel()
        self.failureResultOf(asking, CancelledError)
        self.assertTrue(call.was_cancelled)
        self.link = None
        asking = self.ask()
        asking.cancel()
        self.failureResultOf(asking, CancelledError)
        self.assertEqual(self.clock.getDelayedCalls(), [])
