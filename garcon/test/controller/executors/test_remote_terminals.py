"""The façade of a worker's terminals, call by call, over a link that the test answers for."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from garcon.contract import rpc
from garcon.contract.limits import RETRY, TERMINAL_INPUT
from garcon.contract.terminals import (
    BACKPRESSURE,
    INTERNAL,
    LIMIT,
    NOT_ATTACHED,
    NOT_FOUND,
    OUTCOME_UNKNOWN,
    PROCESS_EXITED,
    TAKEOVER_REQUIRED,
    UNAVAILABLE,
    UNSUPPORTED,
    VALIDATION,
    TerminalAttached,
    TerminalAttachment,
    TerminalChunk,
    TerminalCreation,
    TerminalDetached,
    TerminalGone,
    TerminalInfo,
    TerminalInput,
    TerminalOutput,
    TerminalResize,
    TerminalSize,
    TerminalTakenOver,
    TerminalTermination,
)
from garcon.controller.executors.remote_terminals import TAKEN_CHUNKS, TAKEN_SIZE
from garcon.controller.executors.remote_typing import PIECE, SHORT, UNDER_WAY
from garcon.controller.executors.terminals import terminals_of
from garcon.errors import CallError, GarconError, LaneLost
from garcon.link import calls
from garcon.runtime.interfaces import ITerminalHost
from garcon.runtime.terminals.text import cost_of
from garcon.test.controller.executors.test_remote import RemoteCase
from garcon.testing.fake_pty import RecordingTerminalSink
from garcon.testing.fake_runtime import FakeExecutors, FakeRuntime
from garcon.testing.held_link import HeldCall

INFO = TerminalInfo(
    session_id="s",
    display_sequence=1,
    title=None,
    initial_working_directory="/srv",
    process_status="running",
    attachment_status="attached",
    created_at="2026-01-02T03:04:05.678Z",
    exit_code=None,
    latest_output_sequence=0,
)
ATTACHED = TerminalAttached(
    terminal=INFO, generation=1, first_sequence=1, replay_through=0, is_truncated=False
)
CREATION = TerminalCreation(principal_key="p", request_id="r")


def terminal_refusal(code: str, status: int = 409) -> CallError:
    """Return what a worker's refusal becomes on the link."""
    return CallError(code, "no", outcome="rejected", domain="terminal", status=status)


class Case(RemoteCase):
    """One ready executor and its terminals."""

    def setUp(self) -> None:
        super().setUp()
        assert ITerminalHost.providedBy(self.runtime)
        self.terminals = self.runtime.terminals
        self.screen = RecordingTerminalSink()

    def refused_call(self, d: Deferred[Any], code: str) -> GarconError:
        error = self.failureResultOf(d, GarconError).value
        assert isinstance(error, GarconError)
        self.assertEqual(error.code, code)
        return error

    def attach(self, name: str = "a") -> Deferred[TerminalAttached]:
        wish = TerminalAttachment(
            principal_key="p",
            session_id="s",
            attachment_id=name,
            client_id="c",
            after_sequence=0,
            intent="restore",
        )
        return self.terminals.attach(wish, self.screen)

    def attached(self, name: str = "a") -> None:
        d = self.attach(name)
        self.generation.waiting(rpc.ATTACH_TERMINAL).d.callback(ATTACHED)
        self.assertEqual(self.successResultOf(d), ATTACHED)

    def output(self, sequence: int, text: str = "x") -> TerminalOutput:
        return TerminalOutput(chunks=[TerminalChunk(sequence=sequence, data=text)])

    def typed(self) -> list[HeldCall]:
        """Return the inputs and sizes that were sent and not answered, oldest first."""
        methods = (rpc.TERMINAL_INPUT, rpc.RESIZE_TERMINAL)
        return [c for c in self.generation.calls if c.method in methods and not c.d.called]


class Failures(Case):
    """The link's failures, in the words of terminals."""

    def test_the_terminals_own(self) -> None:
        """Stay as they are, with their status."""
        for code, status in ((LIMIT, 409), (VALIDATION, 422), (INTERNAL, 500)):
            d = self.terminals.create(CREATION)
            self.generation.waiting(rpc.CREATE_TERMINAL).d.errback(terminal_refusal(code, status))
            error = self.refused_call(d, code)
            self.assertEqual((error.status, error.retryable), (status, status >= 500))

    def test_the_links(self) -> None:
        """Each has one that a client can act by."""
        failures = (
            (LaneLost("cut"), OUTCOME_UNKNOWN),
            (LaneLost("cut", outcome="not-dispatched"), UNAVAILABLE),
            (calls.busy(), BACKPRESSURE),
            (calls.refusal(calls.MESSAGE_TOO_LARGE, "large", status=413), VALIDATION),
            (calls.refusal(calls.METHOD_UNKNOWN, "what?", outcome="rejected"), UNSUPPORTED),
            (calls.refusal(calls.DEADLINE_PASSED, "late", outcome="unknown"), OUTCOME_UNKNOWN),
            (calls.refusal(calls.DEADLINE_PASSED, "late"), UNAVAILABLE),
            (calls.call_error(calls.internal("1")), OUTCOME_UNKNOWN),
        )
        termination = TerminalTermination(principal_key="p", session_id="s", request_id="r")
        for failure, code in failures:
            created = self.terminals.create(CREATION)
            self.generation.waiting(rpc.CREATE_TERMINAL).d.errback(failure)
            self.refused_call(created, code)
            removed = self.terminals.terminate(termination)
            self.generation.waiting(rpc.TERMINATE_TERMINAL).d.errback(failure)
            self.refused_call(removed, code)

    def test_a_list_that_was_lost(self) -> None:
        """Has changed nothing: it is merely not to be had now."""
        d = self.terminals.list("p")
        self.generation.waiting(rpc.LIST_TERMINALS).d.errback(LaneLost("cut"))
        self.refused_call(d, UNAVAILABLE)

    def test_without_a_session(self) -> None:
        """Nothing is waited for."""
        self.link.lose()
        for d in (self.terminals.list("p"), self.terminals.create(CREATION), self.attach()):
            error = self.refused_call(d, UNAVAILABLE)
            self.assertEqual((error.status, error.retryable), (503, True))
        self.assertEqual(self.link.parked, [])


class Attachments(Case):
    """What is known here of them."""

    def test_one_whose_answer_was_lost(self) -> None:
        """May be there: the worker is told that it is not wanted."""
        d = self.attach()
        late = calls.refusal(calls.DEADLINE_PASSED, "late", outcome="unknown")
        self.generation.waiting(rpc.ATTACH_TERMINAL).d.errback(late)
        self.refused_call(d, UNAVAILABLE)
        self.assertEqual(self.link.detached, ["a"])
        self.link.tell("a", self.output(1))
        self.assertEqual(self.screen.events, [])

    def test_one_that_has_to_be_taken_over(self) -> None:
        """Hears of the terminal until it is detached."""
        d = self.attach()
        self.generation.waiting(rpc.ATTACH_TERMINAL).d.errback(terminal_refusal(TAKEOVER_REQUIRED))
        self.refused_call(d, TAKEOVER_REQUIRED)
        self.link.tell("a", TerminalGone())
        self.assertEqual(self.screen.events, [TerminalGone()])

    def test_one_that_is_detached_before_its_answer(self) -> None:
        """Is not attached, and the worker is told."""
        d = self.attach()
        self.terminals.detach("a")
        self.assertEqual(self.link.detached, ["a"])
        self.generation.waiting(rpc.ATTACH_TERMINAL).d.callback(ATTACHED)
        self.refused_call(d, NOT_ATTACHED)

    def test_the_end_comes_once(self) -> None:
        """From the worker or with the session, and after what waits for a full sink."""
        self.attached()
        self.screen.is_full = True
        self.link.tell("a", self.output(1))
        self.link.lose()
        self.assertEqual(self.screen.events, [])
        self.screen.is_full = False
        self.clock.advance(RETRY)
        self.assertEqual([type(e) for e in self.screen.events], [TerminalOutput, TerminalDetached])
        self.refused_call(self.terminals.input("a", "x"), NOT_ATTACHED)
        self.clock.advance(1)
        self.assertEqual(len(self.screen.events), 2)

    def test_a_sink_that_breaks(self) -> None:
        """Loses its attachment, and the link does not notice."""

        class Broken(RecordingTerminalSink):
            def offer(self, event: Any) -> bool:
                raise ZeroDivisionError

        self.screen = Broken()
        self.attached()
        self.link.tell("a", self.output(1))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual(self.link.detached, ["a"])
        self.link.tell("a", self.output(2))

    def test_detaching_is_told_once(self) -> None:
        """And nothing of an unknown one."""
        self.attached()
        for name in ("a", "a", "b"):
            self.terminals.detach(name)
        self.assertEqual(self.link.detached, ["a"])


class Taking(Case):
    """How the worker learns that there is room."""

    def test_after_a_while(self) -> None:
        """Little is told together, by the highest number of each."""
        self.attached("a")
        self.attached("b")
        for sequence in (1, 2, 3):
            self.link.tell("a", self.output(sequence))
            self.terminals.taken("a", sequence)
        self.link.tell("b", self.output(7))
        self.terminals.taken("b", 7)
        self.assertEqual(self.link.taken, [])
        self.clock.advance(0.25)
        self.assertEqual(self.link.taken, [{"a": 3, "b": 7}])
        self.clock.advance(1)
        self.assertEqual(len(self.link.taken), 1)

    def test_much_is_told_at_once(self) -> None:
        """In bytes, or in chunks; one less waits."""
        self.attached()
        self.link.tell("a", self.output(1, "x" * (TAKEN_SIZE - 1)))
        self.terminals.taken("a", 1)
        self.assertEqual(self.link.taken, [])
        self.link.tell("a", self.output(2))
        self.terminals.taken("a", 2)
        self.assertEqual(self.link.taken, [{"a": 2}])
        for sequence in range(3, 3 + TAKEN_CHUNKS):
            self.assertEqual(len(self.link.taken), 1)
            self.link.tell("a", self.output(sequence))
            self.terminals.taken("a", sequence)
        self.assertEqual(self.link.taken[1:], [{"a": 2 + TAKEN_CHUNKS}])

    def test_of_one_that_has_ended(self) -> None:
        """Nothing is told, nor over another session."""
        self.attached()
        self.link.tell("a", self.output(1))
        self.terminals.taken("a", 1)
        self.terminals.detach("a")
        self.terminals.taken("a", 1)
        self.clock.advance(1)
        self.assertEqual(self.link.taken, [])
        self.attached("b")
        self.link.tell("b", self.output(1))
        self.terminals.taken("b", 1)
        self.link.lose()
        self.clock.advance(1)
        self.assertEqual(self.link.taken, [])


class TypingTests(Case):
    """What is typed, on its way."""

    def test_pieces(self) -> None:
        """A large input leaves in pieces that a record holds, numbered, a few at a time; it is
        done when all of them are.
        """
        self.attached()
        text = "\x1b" * TERMINAL_INPUT
        d = self.terminals.input("a", text)
        self.assertEqual(len(self.typed()), UNDER_WAY)
        sent: list[TerminalInput] = []
        while self.typed():
            self.assertNoResult(d)
            call = self.typed()[0]
            assert isinstance(call.request, TerminalInput)
            sent.append(call.request)
            call.d.callback(rpc.Nothing())
        self.assertIsNone(self.successResultOf(d))
        self.assertEqual("".join(one.data for one in sent), text)
        self.assertEqual([one.number for one in sent], list(range(1, len(sent) + 1)))
        self.assertTrue(all(cost_of(one.data) <= PIECE for one in sent))

    def test_short_ones(self) -> None:
        """Are one piece whatever is in them, behind what waits already."""
        self.attached()
        for size, pieces in ((SHORT, 1), (SHORT + 1, 2)):
            d = self.terminals.input("a", "\x1b" * size)
            sent = self.typed()
            self.assertEqual(len(sent), pieces)
            for call in sent:
                assert isinstance(call.request, TerminalInput)
                self.assertLessEqual(cost_of(call.request.data), PIECE)
                call.d.callback(rpc.Nothing())
            self.assertIsNone(self.successResultOf(d))
        self.terminals.input("a", "\x1b" * TERMINAL_INPUT)
        self.terminals.input("a", "x")
        typed = ""
        while waiting := self.typed():
            assert isinstance(waiting[0].request, TerminalInput)
            typed += waiting[0].request.data
            waiting[0].d.callback(rpc.Nothing())
        self.assertEqual(typed, "\x1b" * TERMINAL_INPUT + "x")

    def test_sizes_between_inputs(self) -> None:
        """Are merged while they wait here too, and keep their place."""
        self.attached()
        for _ in range(UNDER_WAY):
            self.terminals.input("a", "x")
        done = [self.terminals.resize("a", TerminalSize(cols=n, rows=n)) for n in (1, 2)]
        self.terminals.input("a", "y")
        for call in self.typed():
            call.d.callback(rpc.Nothing())
        size, last = self.typed()
        assert isinstance(size.request, TerminalResize)
        assert isinstance(last.request, TerminalInput)
        self.assertEqual((size.request.size.cols, last.request.data), (2, "y"))
        self.assertEqual((size.request.number, last.request.number), (9, 10))
        size.d.callback(rpc.Nothing())
        for d in done:
            self.successResultOf(d)

    def test_after_a_refusal_nothing_is_sent(self) -> None:
        """And everything that waits fails alike; what is under way is not judged again."""
        self.attached()
        calls_made = [self.terminals.input("a", str(n)) for n in range(UNDER_WAY + 3)]
        first = self.typed()
        first[0].d.errback(terminal_refusal(PROCESS_EXITED))
        for d in (calls_made[0], *calls_made[UNDER_WAY:]):
            self.refused_call(d, PROCESS_EXITED)
        for call in first[1:]:
            call.d.errback(terminal_refusal(NOT_ATTACHED))
        for d in calls_made[1:UNDER_WAY]:
            self.assertIsNone(self.successResultOf(d))
        self.assertEqual(self.typed(), [])
        self.refused_call(self.terminals.input("a", "z"), PROCESS_EXITED)
        self.successResultOf(self.terminals.resize("a", TerminalSize(cols=1, rows=1)))
        self.assertEqual(self.link.detached, [])

    def test_a_failure_of_the_link(self) -> None:
        """May have left a hole: so the attachment ends, on both sides, and says so."""
        self.attached()
        first, second = self.terminals.input("a", "1"), self.terminals.input("a", "2")
        self.typed()[0].d.errback(calls.busy())
        self.refused_call(first, BACKPRESSURE)
        self.assertIsNone(self.successResultOf(second))
        self.assertEqual(self.link.detached, ["a"])
        (end,) = self.screen.events
        assert isinstance(end, TerminalDetached)
        self.assertEqual(end.code, BACKPRESSURE)
        self.refused_call(self.terminals.input("a", "3"), NOT_ATTACHED)

    def test_an_unknown_failure(self) -> None:
        """The same, as unavailable: only some codes end a client's subscription."""
        self.attached()
        d = self.terminals.input("a", "1")
        self.typed()[0].d.errback(calls.call_error(calls.internal("1")))
        self.failureResultOf(d, GarconError)
        (end,) = self.screen.events
        assert isinstance(end, TerminalDetached)
        self.assertEqual(end.code, UNAVAILABLE)

    def test_the_terminal_is_taken_over(self) -> None:
        """What waits is dropped silently, and no more is taken."""
        self.attached()
        waiting = [self.terminals.input("a", "x") for _ in range(UNDER_WAY + 1)]
        self.link.tell("a", TerminalTakenOver(replacement_client_id="d"))
        for d in waiting:
            self.assertIsNone(self.successResultOf(d))
        self.refused_call(self.terminals.input("a", "y"), NOT_ATTACHED)
        self.assertEqual(len(self.typed()), UNDER_WAY)

    def test_the_session_is_lost(self) -> None:
        """What was under way fails or is dropped, and is never sent again."""
        self.attached()
        waiting = [self.terminals.input("a", "x") for _ in range(UNDER_WAY + 1)]
        self.link.lose()
        self.refused_call(waiting[0], UNAVAILABLE)
        for d in waiting[1:]:
            self.assertIsNone(self.successResultOf(d))
        self.assertEqual([type(e) for e in self.screen.events], [TerminalDetached])
        self.generation = self.link.ready("g2")
        self.clock.advance(1)
        self.assertEqual(self.typed(), [])

    def test_unknown_terminals(self) -> None:
        """Are told by the worker, as ever."""
        d = self.attach()
        self.generation.waiting(rpc.ATTACH_TERMINAL).d.errback(terminal_refusal(NOT_FOUND, 404))
        error = self.refused_call(d, NOT_FOUND)
        self.assertEqual(error.status, 404)


class Whose(Case):
    """Which executor is meant."""

    def test_one_that_is_known(self) -> None:
        """In whatever state it is."""
        self.assertIs(terminals_of(self.executors, self.executor_id), self.terminals)
        self.link.lose()
        self.assertIs(terminals_of(self.executors, self.executor_id), self.terminals)

    def test_one_that_is_not(self) -> None:
        """Never falls back to Local."""
        other = "00000000-0000-4000-8000-00000000ffff"
        error = self.assertRaises(GarconError, terminals_of, self.executors, other)
        self.assertEqual((error.code, error.status), (UNAVAILABLE, 503))

    def test_one_without_terminals(self) -> None:
        """Says so; an absent id is Local."""
        executors = FakeExecutors({"local": FakeRuntime()})
        for executor_id in ("local", None):
            error = self.assertRaises(GarconError, terminals_of, executors, executor_id)
            self.assertEqual((error.code, error.status), (UNSUPPORTED, 501))
