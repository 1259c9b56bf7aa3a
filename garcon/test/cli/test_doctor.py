"""What `executor doctor` makes of a link's diagnostics."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli import leftovers
from garcon.cli.doctor import Examination, examine, figures

ID = "00000000-0000-4000-8000-000000000001"
STAGES = ("name", "tcp", "tls", "upgrade", "noise", "hello")


def a_lane(phase: str, **more: Any) -> dict[str, Any]:
    return {
        "phase": phase,
        "stage": None,
        "sessionSeconds": None,
        "roundTripMs": None,
        "silentSeconds": None,
        "queuedBytes": 0,
        "queuedMessages": 0,
        "oldestQueuedSeconds": None,
        "attempts": 0,
        "sessions": 0,
        "causes": {},
        "lastError": None,
        "redialSeconds": None,
    } | more


def an_error(kind: str, stage: str, message: str = "it failed", count: int = 1) -> dict[str, Any]:
    return {
        "kind": kind,
        "stage": stage,
        "message": message,
        "secondsAgo": 3.25,
        "count": count,
    }


def told(
    primary: dict[str, Any],
    bulk: dict[str, Any] | None = None,
    *,
    dialled_by: str = "controller",
    proxy: bool = False,
    peer_version: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    return {
        "id": ID,
        "label": "one",
        "enabled": True,
        "allowControllerCli": True,
        "allowExecutorManagement": False,
        "direction": "controller-connects",
        "availability": "offline",
        "lastError": None,
        "link": {
            "dialledBy": dialled_by,
            "throughProxy": proxy,
            "version": "1+protocol.1",
            "peerVersion": peer_version,
            "outgoingCalls": 0,
            "incomingCalls": 0,
            "primary": primary,
            "bulk": bulk or a_lane("offline"),
        },
    } | more


def ready(**more: Any) -> dict[str, Any]:
    lane = a_lane("connected", roundTripMs=0.42, silentSeconds=0.1, attempts=1, sessions=1)
    return told(lane, a_lane("ready"), **({"availability": "ready"} | more))


class DownTests(SynchronousTestCase):
    """A link that is down: what was reached, what failed, what to do."""

    def failed(self, kind: str, stage: str, **more: Any) -> Examination:
        lane = a_lane("waiting", lastError=an_error(kind, stage), redialSeconds=5.0)
        return examine(told(lane, **more))

    def states(self, found: Examination) -> dict[str, str]:
        return {finding.name: finding.state for finding in found.findings}

    def test_everything_before_the_failure_was_reached(self) -> None:
        """And nothing behind it."""
        found = self.failed("tls-failed", "tls")
        self.assertFalse(found.is_ready)
        self.assertEqual(
            [f"{f.name}: {f.state}" for f in found.findings[:7]],
            [
                "name resolution: ok",
                "TCP: ok",
                "TLS: failed",
                "WebSocket upgrade: not reached",
                "encryption: not reached",
                "identity: not reached",
                "version: not reached",
            ],
        )
        failure = found.findings[2]
        self.assertEqual(
            failure.line(),
            "TLS: failed: it failed (tls-failed, once by now, last 3.2 s ago)",
        )
        self.assertIn("next attempt: waiting: in 5.0 s", [f.line() for f in found.findings])
        self.assertIn("SSL_CERT_FILE", found.advice[0])

    def test_every_stage_has_advice_of_its_own(self) -> None:
        """Whoever dials."""
        for dialled_by in ("controller", "worker"):
            advices = set()
            for stage in (*STAGES, "session"):
                found = self.failed("connect-timeout", stage, dialled_by=dialled_by)
                (advice,) = found.advice
                self.assertGreater(len(advice), 60, stage)
                advices.add(advice)
            self.assertGreaterEqual(len(advices), 3 if dialled_by == "worker" else 6)

    def test_through_a_proxy_the_way_is_the_proxy(self) -> None:
        """Neither the name nor the connection behind it is ours to see."""
        found = self.failed("proxy-failed", "proxy", proxy=True)
        self.assertEqual(found.findings[0].name, "proxy")
        self.assertNotIn("TCP", self.states(found))
        self.assertIn("HTTPS_PROXY", found.advice[0])

    def test_versions(self) -> None:
        """Both are named, and identity was reached."""
        found = self.failed("version-mismatch", "hello", peer_version="0.9+protocol.0")
        states = self.states(found)
        self.assertEqual((states["identity"], states["version"]), ("ok", "failed"))
        self.assertIn("0.9+protocol.0", found.advice[0])
        self.assertIn("1+protocol.1", found.advice[0])

    def test_a_wrong_secret(self) -> None:
        """The way to the right one depends on who made it."""
        for dialled_by, command in (
            ("worker", f"`garcon executor connection {ID}`"),
            ("controller", "`garcon executor connection-url`"),
        ):
            found = self.failed("handshake-failed", "noise", dialled_by=dialled_by)
            self.assertIn(command, found.advice[0])

    def test_a_wrong_secret_of_a_worker_that_was_linked(self) -> None:
        """What ended its session is the last that is known of it; that something with another
        secret has come since is said, how often and when, and what to do if that is the worker.
        """
        lane = a_lane("listening", sessions=1, lastError=an_error("socket-closed", "session"))
        facts = told(lane, dialled_by="worker")
        self.assertEqual(len(examine(facts).advice), 1)
        for count, times in ((1, "once"), (3, "3 times")):
            facts["link"]["wrongSecrets"] = {"count": count, "secondsAgo": 90.0}
            found = examine(facts)
            self.assertIn(
                "wrong secrets: noted: something reached this controller's link for this executor"
                f" with a wrong secret {times}, last 2 min ago",
                [finding.line() for finding in found.findings],
            )
            self.assertEqual(self.states(found)["session"], "failed")
            self.assertIn("Start the worker", found.advice[0])
            self.assertIn(f"`garcon executor connection {ID}`", found.advice[1])

    def test_a_wrong_secret_is_said_once(self) -> None:
        """While nothing else is known it is the failure of the encryption."""
        lane = a_lane("listening", lastError=an_error("handshake-failed", "noise", count=3))
        facts = told(lane, dialled_by="worker")
        facts["link"]["wrongSecrets"] = {"count": 3, "secondsAgo": 90.0}
        found = examine(facts)
        self.assertEqual(self.states(found)["encryption"], "failed")
        self.assertNotIn("wrong secrets", self.states(found))
        self.assertEqual(len(found.advice), 1)

    def test_a_session_that_ended(self) -> None:
        """Everything had been reached."""
        found = self.failed("liveness-timeout", "session")
        states = self.states(found)
        self.assertEqual((states["version"], states["session"]), ("ok", "failed"))
        self.assertIn("fell silent", found.advice[0])

    def test_nobody_has_come(self) -> None:
        """Where the worker dials, nothing is visible before its first socket."""
        found = examine(told(a_lane("listening"), dialled_by="worker"))
        self.assertEqual(set(self.states(found).values()), {"not visible", "waiting"} | REST)
        self.assertIn("GARCON_CONTROLLER_URL", found.advice[0])

    def test_an_attempt_under_way(self) -> None:
        """It is said where it is."""
        lane = a_lane("connecting", stage="tls", lastError=an_error("connect-failed", "tcp"))
        lines = [f.line() for f in examine(told(lane)).findings]
        self.assertIn("next attempt: waiting: under way, at TLS", lines)

    def test_without_a_link(self) -> None:
        """Disabled is not broken."""
        found = examine(told(a_lane("offline"), enabled=False, link=None))
        self.assertEqual(found.advice, [f"Enable it: `garcon executor enable {ID}`."])
        found = examine(told(a_lane("offline"), link=None))
        self.assertIn("disk", found.advice[0])
        self.assertFalse(found.is_ready)


REST = {"not reached", "ok"}
"""The bulk lane's state and the grants'."""


class UpTests(SynchronousTestCase):
    """A link that is up."""

    def test_ready(self) -> None:
        """Everything is well and there is nothing to do."""
        found = examine(ready())
        self.assertTrue(found.is_ready)
        self.assertEqual({f.state for f in found.findings}, {"ok"})
        self.assertEqual(found.advice, [])

    def test_linked_but_not_described(self) -> None:
        """The one phase between a session and work."""
        error = {"code": "EXECUTOR_UNAVAILABLE", "message": "It did not describe itself"}
        found = examine(ready(availability="offline", lastError=error))
        self.assertFalse(found.is_ready)
        self.assertIn("description: waiting: It did not describe itself", self.lines(found))
        self.assertEqual(len(found.advice), 1)

    def test_bulk_alone_is_down(self) -> None:
        """The executor is ready all the same."""
        bulk = a_lane("reconnecting", lastError=an_error("socket-closed", "session"))
        found = examine(told(a_lane("connected"), bulk, availability="ready"))
        self.assertTrue(found.is_ready)
        self.assertIn("bulk lane: waiting: reconnecting", "\n".join(self.lines(found)))

    def test_strangers(self) -> None:
        """With a link that is up they are told of, and nothing has to be done."""
        facts = ready()
        facts["link"]["wrongSecrets"] = {"count": 2, "secondsAgo": 5.0}
        found = examine(facts)
        self.assertTrue(found.is_ready)
        self.assertEqual(found.advice, [])
        self.assertIn("with a wrong secret 2 times", "\n".join(self.lines(found)))

    def test_grants(self) -> None:
        """Without command access its machine is told how to get it; it is ready regardless."""
        found = examine(ready(allowControllerCli=False))
        self.assertTrue(found.is_ready)
        self.assertIn("--allow-controller-cli true", found.advice[0])
        found = examine(ready(allowExecutorManagement=True))
        self.assertIn("manage executors", self.lines(found)[-1])

    def lines(self, found: Examination) -> list[str]:
        return [finding.line() for finding in found.findings]

    def test_figures(self) -> None:
        """The counters, a line for each lane."""
        lane = a_lane(
            "connected",
            attempts=3,
            sessions=2,
            roundTripMs=1.25,
            silentSeconds=90.0,
            queuedBytes=4096,
            queuedMessages=2,
            oldestQueuedSeconds=0.5,
            causes={"socket-closed": 1},
        )
        self.assertEqual(
            figures(told(lane)["link"]),
            [
                "primary: 3 attempts, 2 sessions; round trip 1.2 ms; last heard 2 min ago;"
                " 4096 bytes in 2 messages queued, the oldest for 0.5 s; socket-closed 1",
                "bulk: 0 attempts, 0 sessions",
            ],
        )


class LeftoverTests(SynchronousTestCase):
    """What is said of processes that are left over."""

    def told(self, count: int = 2) -> dict[str, Any]:
        one = {"pid": 7, "started": 5, "name": "sleep", "origin": "earlier", "seconds": 90.0}
        two = {"pid": 8, "started": 6, "name": "x", "origin": "orphan", "seconds": 1.25}
        return {"processes": [one, two], "count": count}

    def test_a_line_for_each(self) -> None:
        """With its age and where it comes from; those that are only counted are counted."""
        self.assertEqual(
            leftovers.lines(self.told(5)),
            [
                "left over: process 7 (sleep), for 2 min; an earlier process of this executor"
                " started it",
                "left over: process 8 (x), for 1.2 s; what it belonged to has ended",
                "left over: 3 more processes",
            ],
        )
        self.assertEqual(len(leftovers.lines(self.told())), 2)

    def test_none_and_not_known(self) -> None:
        """Nothing is said of none, and advice is given only where there is something."""
        none: dict[str, Any] = {"processes": [], "count": 0}
        self.assertEqual((leftovers.lines(none), leftovers.advice(ID, none)), ([], []))
        self.assertEqual(len(leftovers.lines(None)), 1)
        self.assertEqual(leftovers.advice(ID, None), [])
        self.assertIn(f"doctor {ID} --end PID", leftovers.advice(ID, self.told())[0])

    def test_pick(self) -> None:
        """By its id."""
        self.assertEqual((leftovers.pick(self.told(), 8) or {})["started"], 6)
        self.assertIsNone(leftovers.pick(self.told(), 9))
