"""What a link tells of itself."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.diagnostics import LinkDiagnostics
from garcon.contract.rpc import Lane
from garcon.link.causes import Cause
from garcon.link.diagnostics import LaneHistory, RoundTrip
from garcon.link.handshake import Refusal, Refused, check_version, version_told
from garcon.link.queue import Kind, LaneQueue, SendBudget
from garcon.test.link.cast import OTHER_SECRET, SECRET
from garcon.test.link.pairs import PairCase


class Cores(SynchronousTestCase):
    """The values behind it."""

    def test_a_history_counts_by_kind(self) -> None:
        """The last one is told with its own count and age."""
        history = LaneHistory()
        self.assertIsNone(history.last_error(1.0))
        history.failed("a", "tcp", "first", 1.0)
        history.failed("b", "tls", "second", 2.0)
        history.failed("a", "noise", "third", 4.0)
        last = history.last_error(6.5)
        assert last is not None
        self.assertEqual(
            (last.kind, last.stage, last.message, last.seconds_ago, last.count),
            ("a", "noise", "third", 2.5, 2),
        )
        self.assertEqual(dict(history.causes), {"a": 2, "b": 1})

    def test_a_round_trip_counts_from_the_first_open_ping(self) -> None:
        """A second ping does not make the peer look quicker; a stray answer counts for nothing."""
        trip = RoundTrip()
        trip.answered(1.0)
        self.assertIsNone(trip.latest)
        trip.asked(2.0)
        trip.asked(3.0)
        self.assertTrue(trip.is_open)
        trip.answered(3.5)
        self.assertEqual((trip.latest, trip.is_open), (1.5, False))

    def test_a_queue_knows_its_oldest(self) -> None:
        """Removed ones count for nothing, and a large one until its last fragment has gone."""
        queue = LaneQueue(Lane.PRIMARY, SendBudget())
        self.assertEqual((queue.messages, queue.oldest), (0, None))
        first = queue.offer(b"x", Kind.ORDINARY, now=1.0)
        queue.offer(b"y" * 70_000, Kind.ORDINARY, now=2.0)
        assert first is not None
        self.assertEqual((queue.messages, queue.oldest), (2, 1.0))
        queue.remove(first)
        self.assertEqual((queue.messages, queue.oldest), (1, 2.0))
        for _ in range(2):
            queue.next_record()
        self.assertEqual(queue.oldest, 2.0)
        queue.next_record()
        self.assertEqual((queue.messages, queue.oldest), (0, None))

    def test_a_peers_version(self) -> None:
        """Both sides of a refusal know it; an unreadable one is not repeated."""
        hello = b'{"type":"hello","version":"%b"}'
        told = self.assertRaises(Refused, check_version, hello % b"0.9+protocol.0", "1+protocol.1")
        self.assertEqual(
            (told.kind, told.peer_version), (Refusal.VERSION_MISMATCH, "0.9+protocol.0")
        )
        self.assertEqual(version_told(told.text), "1+protocol.1")
        told = self.assertRaises(Refused, check_version, hello % b"<script>", "1+protocol.1")
        self.assertEqual(told.peer_version, "unreadable")
        self.assertIsNone(version_told("one side is version a b c and d"))


class Case(PairCase):
    """What both ends tell."""

    def told(self) -> tuple[LinkDiagnostics, LinkDiagnostics]:
        return self.controller.diagnostics(), self.worker.diagnostics()

    def session(self, link: Any, lane: Lane = Lane.PRIMARY) -> Any:
        captured: Any = link.current()
        return captured.primary if lane is Lane.PRIMARY else captured.bulk


class Phases(Case):
    """From nothing to a session and back."""

    def test_before_and_after_the_link(self) -> None:
        """Listening and waiting, then connected, each attempt counted on its lane."""
        controller, worker = self.told()
        self.assertEqual((controller.primary.phase, worker.primary.phase), ("listening", "waiting"))
        self.assertEqual(worker.primary.redial_seconds, 0.0)
        self.assertEqual((controller.dialled_by, worker.dialled_by), ("worker", "worker"))
        self.assertFalse(controller.through_proxy or worker.through_proxy)
        self.clock.advance(0)
        self.clock.advance(2.5)
        for told in self.told():
            self.assertEqual((told.primary.phase, told.bulk.phase), ("connected", "ready"))
            for lane in (told.primary, told.bulk):
                self.assertEqual((lane.attempts, lane.sessions, lane.causes), (1, 1, {}))
                self.assertEqual(lane.session_seconds, 2.5)
                self.assertIsNone(lane.redial_seconds)
                self.assertIsNone(lane.last_error)

    def test_a_lost_session(self) -> None:
        """The cause, how long ago, and when it is tried again."""
        self.clock.advance(0)
        self.network.cut()
        self.clock.advance(2.0)
        worker = self.worker.diagnostics()
        self.assertEqual((worker.primary.phase, worker.bulk.phase), ("waiting", "offline"))
        self.assertEqual(worker.primary.redial_seconds, 3.0)
        self.assertIsNone(worker.primary.session_seconds)
        error = worker.primary.last_error
        assert error is not None
        self.assertEqual(
            (error.kind, error.stage, error.seconds_ago, error.count),
            ("socket-closed", "session", 2.0, 1),
        )
        self.assertEqual(worker.primary.causes, {"socket-closed": 1})
        self.assertEqual((worker.primary.attempts, worker.primary.sessions), (1, 1))

    def test_bulk_alone(self) -> None:
        """Its own counters; the next attempt is the controller's to time."""
        self.clock.advance(0)
        self.clock.advance(20)
        self.session(self.worker, Lane.BULK).end(Cause.PROTOCOL_ERROR, "a test")
        controller, worker = self.told()
        self.assertEqual((controller.primary.phase, controller.bulk.phase)[0], "connected")
        self.assertEqual(controller.bulk.phase, "reconnecting")
        self.assertIsNotNone(controller.bulk.redial_seconds)
        self.assertIsNone(worker.bulk.redial_seconds)
        self.assertEqual(controller.bulk.causes, {"protocol-error": 1})
        self.assertEqual(controller.primary.causes, {})

    def test_closed(self) -> None:
        """For good."""
        self.clock.advance(0)
        self.worker.close("a test")
        self.assertEqual(self.worker.diagnostics().primary.phase, "offline")


class Versions(Case):
    """Two versions that do not go together."""

    def test_both_sides_tell_the_others(self) -> None:
        """One has read it in the hello, the other in the refusal."""
        self.worker._settings = evolve(self.settings, version="0.9+protocol.0")
        self.clock.advance(0)
        controller, worker = self.told()
        self.assertEqual(controller.peer_version, "0.9+protocol.0")
        self.assertEqual(
            (worker.version, worker.peer_version), ("0.9+protocol.0", controller.version)
        )
        error = controller.primary.last_error
        assert error is not None
        self.assertEqual((error.kind, error.stage), ("version-mismatch", "hello"))
        self.worker._settings = self.settings
        self.clock.advance(5)
        for told in self.told():
            self.assertIsNone(told.peer_version)
            self.assertEqual((told.primary.attempts, told.primary.sessions), (2, 1))


class Secrets(Case):
    """A peer without the secret."""

    def test_the_stage_is_the_encryption(self) -> None:
        """On both sides, and nothing of the secret is told."""
        self.worker.close("it is not about this one")
        other = self.stranger()
        for told in (self.controller.diagnostics(), other.diagnostics()):
            error = told.primary.last_error
            assert error is not None
            self.assertEqual((error.kind, error.stage), ("handshake-failed", "noise"))
            for secret in (SECRET, OTHER_SECRET):
                self.assertNotIn(secret, repr(told))


class Probes(Case):
    """A sign of life on demand."""

    def setUp(self) -> None:
        super().setUp()
        self.clock.advance(0)

    def test_both_lanes_are_asked(self) -> None:
        """It fires when both have answered; how long that took is told from then on."""
        self.network.hold()
        d = self.controller.probe()
        again = self.controller.probe()
        self.clock.advance(0.25)
        self.assertNoResult(d)
        self.network.release()
        self.successResultOf(d)
        self.successResultOf(again)
        told = self.controller.diagnostics()
        self.assertEqual((told.primary.round_trip_ms, told.bulk.round_trip_ms), (250.0, 250.0))

    def test_a_lost_session_answers_nothing_and_keeps_nobody(self) -> None:
        """Its end ends the question."""
        self.network.hold()
        d = self.controller.probe()
        self.network.cut()
        self.successResultOf(d)

    def test_without_a_session_there_is_nobody_to_ask(self) -> None:
        """It fires at once."""
        self.network.cut()
        self.successResultOf(self.controller.probe())

    def test_a_cancelled_question_is_forgotten(self) -> None:
        """The answer may come all the same."""
        self.network.hold()
        d = self.controller.probe()
        d.addErrback(lambda f: None)
        d.cancel()
        self.network.release()
        self.successResultOf(self.controller.probe())

    def test_what_waits(self) -> None:
        """Bytes, messages and the age of the oldest, while the socket takes nothing."""
        session = self.session(self.worker)
        session._wire.set_writable(False)
        session.send_frame(b'{"type":"ping"}', Kind.SMALL)
        self.clock.advance(1.5)
        session.send_frame(b'{"type":"ping"}', Kind.SMALL)
        told = self.worker.diagnostics().primary
        self.assertEqual(
            (told.queued_bytes, told.queued_messages, told.oldest_queued_seconds), (30, 2, 1.5)
        )
        session._wire.set_writable(True)
        told = self.worker.diagnostics().primary
        self.assertEqual((told.queued_bytes, told.oldest_queued_seconds), (0, None))
