"""A terminal's session against a model, over any order of output, attaching, giving, detaching,
taking over, typing, expiry and exit.

What must hold: no output comes twice, none is left out without saying so, none comes to who has
lost the terminal, the exit comes after all output, and nothing is done that was asked for under an
ownership that is over.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.terminals import (
    AUTH_EXPIRED,
    BACKPRESSURE,
    REPLAY_SEQUENCE,
    TAKEOVER_REQUIRED,
    TerminalAttachment,
    TerminalChanged,
    TerminalDetached,
    TerminalEvent,
    TerminalGone,
    TerminalOutput,
    TerminalSize,
    TerminalTakenOver,
)
from garcon.errors import GarconError
from garcon.runtime.terminals.scrollback import Scrollback
from garcon.runtime.terminals.session import Session

TAIL, LAG, WINDOW = 20, 40, 15

PLACES = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.just("out"), st.integers(1, 25)),
    st.tuples(
        st.just("attach"),
        st.integers(0, 2),
        st.sampled_from(["restore", "takeover"]),
        st.sampled_from(["zero", "latest", "ahead", "seen"]),
        st.sampled_from([None, None, None, 3.0]),
    ),
    st.tuples(st.just("detach"), PLACES),
    st.tuples(st.just("give"), PLACES),
    st.tuples(st.just("give"), PLACES),
    st.tuples(st.just("take"), PLACES),
    st.tuples(st.just("type"), PLACES),
    st.tuples(st.just("resize"), PLACES),
    st.tuples(st.just("do")),
    st.tuples(st.just("rename")),
    st.tuples(st.just("wait"), st.integers(1, 2)),
    st.tuples(st.just("exit")),
    st.tuples(st.just("terminate")),
)


@define(eq=False)
class Hearer:
    """One attachment as the model has it."""

    id: str
    client: int
    owns: bool = False
    next: int = 0
    """The number of the output that must come next."""
    seen: int = 0
    is_over: bool = False
    expires: float | None = None
    end: str | None = None
    """What its last event must be, once that is certain."""
    replacement: str | None = None


@define(eq=False)
class Model:
    """Plays steps on a session and knows what must come of each."""

    case: SynchronousTestCase
    session: Session = field(
        factory=lambda: Session(
            "s", 1, "/", "at", lag_limit=LAG, window=WINDOW, scrollback=Scrollback(TAIL)
        )
    )
    written: list[str] = field(factory=list)
    hearers: list[Hearer] = field(factory=list)
    owner: Hearer | None = None
    now: float = 0.0
    has_exited: bool = False
    is_terminated: bool = False
    asked: list[tuple[str, int]] = field(factory=list)
    """Tickets of what was asked for and has not ended, with the ownership it was asked under."""
    ownership: int = 0
    tickets: int = 0

    def play(self, step: tuple[Any, ...]) -> None:
        """Do one step, and check what can be checked at once."""
        getattr(self, step[0])(*step[1:])
        self.settle()
        owner = self.session.owner
        self.case.assertEqual(
            None if owner is None else owner.id, None if self.owner is None else self.owner.id
        )

    # -- steps

    def out(self, size: int) -> None:
        if self.has_exited or self.is_terminated:
            return
        text = chr(ord("a") + len(self.written) % 26) * size
        self.written.append(text)
        waiting = 0
        if self.owner is not None:
            waiting = sum(map(len, self.written[self.owner.next - 1 :]))
        self.session.output(text, size)
        if self.owner is not None and waiting > LAG:
            self.lose(self.owner, BACKPRESSURE)

    def attach(self, client: int, intent: Any, after: str, expires: float | None) -> None:
        if self.is_terminated:
            return
        latest = len(self.written)
        seen = max((h.seen for h in self.hearers), default=0)
        number = {"zero": 0, "latest": latest, "ahead": latest + 1, "seen": seen}[after]
        hearer = Hearer(f"a{len(self.hearers)}", client)
        wanted = TerminalAttachment(
            principal_key="p",
            session_id="s",
            attachment_id=hearer.id,
            client_id=str(client),
            after_sequence=number,
            intent=intent,
            expires_in=expires,
        )
        try:
            attached = self.session.attach(wanted, self.now)
        except GarconError as error:
            if number > latest:
                self.case.assertEqual(error.code, REPLAY_SEQUENCE)
                return
            self.case.assertEqual(error.code, TAKEOVER_REQUIRED)
            assert self.owner is not None and self.owner.client != client
            self.case.assertEqual(intent, "restore")
            self.hearers.append(hearer)
            hearer.expires = None if expires is None else self.now + expires
            return
        self.case.assertLessEqual(number, latest)
        if self.owner is not None:
            is_other = self.owner.client != client
            self.case.assertTrue(intent == "takeover" or not is_other)
            self.owner.owns = False
            self.owner.replacement = str(client) if is_other else None
        first = max(number + 1, self.first_kept())
        self.case.assertEqual(
            (attached.first_sequence, attached.replay_through, attached.is_truncated),
            (first, latest, first > number + 1),
        )
        hearer.owns, hearer.next, hearer.seen = True, first, first - 1
        hearer.expires = None if expires is None else self.now + expires
        self.hearers.append(hearer)
        self.owner = hearer
        self.ownership += 1
        self.case.assertEqual(attached.generation, self.ownership)

    def first_kept(self) -> int:
        """The oldest number that a mere list would have kept."""
        size, first = 0, len(self.written) + 1
        while first > 1 and size + len(self.written[first - 2]) <= TAIL:
            first -= 1
            size += len(self.written[first - 1])
        return first

    def detach(self, place: int) -> None:
        hearer = self.at(place)
        if hearer is None:
            return
        self.session.detach(hearer.id)
        self.drop(hearer)
        hearer.is_over, hearer.replacement = True, None

    def give(self, place: int) -> None:
        hearer = self.at(place)
        attachment = None if hearer is None else self.session.attachments.get(hearer.id)
        if hearer is None or attachment is None:
            return
        event = self.session.next_event(attachment)
        if event is not None:
            # Asking alone changes nothing.
            self.case.assertEqual(self.session.next_event(attachment), event)
            self.heard(hearer, event)
            self.session.gave(attachment, event)

    def take(self, place: int) -> None:
        hearer = self.at(place)
        attachment = None if hearer is None else self.session.attachments.get(hearer.id)
        if hearer is not None and attachment is not None:
            attachment.taken(hearer.seen)

    def type(self, place: int) -> None:
        self.ask(place, is_input=True)

    def resize(self, place: int) -> None:
        self.ask(place, is_input=False)

    def ask(self, place: int, *, is_input: bool) -> None:
        hearer = self.at(place)
        if hearer is None:
            return
        self.tickets += 1
        ticket = f"{'input' if is_input else 'size'}-{self.tickets}"
        try:
            if is_input:
                self.session.type(hearer.id, ticket, ticket, self.now)
            else:
                size = TerminalSize(cols=self.tickets, rows=1)
                self.session.resize(hearer.id, size, ticket, self.now)
        except GarconError:
            self.case.assertTrue(not hearer.owns or (is_input and self.has_exited))
            return
        self.case.assertTrue(hearer.owns)
        if not self.has_exited:
            self.asked.append((ticket, self.ownership))

    def do(self) -> None:
        operation = self.session.next_operation(self.now)
        if operation is None:
            return
        first, ownership = self.asked[0]
        assert self.owner is not None
        self.case.assertEqual((operation.tickets[0], operation.generation), (first, ownership))
        self.case.assertEqual(ownership, self.ownership)
        if operation.data is not None:
            self.case.assertEqual(operation.data.decode(), first)
        self.session.end(operation, None)

    def rename(self) -> None:
        if not self.is_terminated:
            self.session.rename(f"title {len(self.written)}")

    def wait(self, seconds: int) -> None:
        self.now += seconds
        self.session.expire(self.now)
        for hearer in self.hearers:
            is_due = hearer.expires is not None and hearer.expires <= self.now
            if is_due and not hearer.is_over and hearer.end is None:
                self.lose(hearer, AUTH_EXPIRED)

    def exit(self) -> None:
        if not (self.has_exited or self.is_terminated):
            self.has_exited = True
            self.session.exited(0)

    def terminate(self) -> None:
        if self.is_terminated:
            return
        self.is_terminated = True
        self.session.terminated()
        for hearer in self.hearers:
            if not hearer.is_over and hearer.end is None:
                self.lose(hearer, "gone")

    # -- what must hold

    def heard(self, hearer: Hearer, event: TerminalEvent) -> None:
        """Check one event against what may come now."""
        case = self.case
        case.assertFalse(hearer.is_over)
        match event:
            case TerminalOutput():
                case.assertTrue(hearer.owns)
                for chunk in event.chunks:
                    case.assertEqual(chunk.sequence, hearer.next)
                    case.assertEqual(chunk.data, self.written[chunk.sequence - 1])
                    hearer.next += 1
                    hearer.seen = chunk.sequence
            case TerminalChanged():
                if event.terminal.process_status == "exited" and hearer.owns:
                    case.assertEqual(hearer.next, len(self.written) + 1)
            case TerminalTakenOver():
                case.assertFalse(hearer.owns)
                case.assertEqual(event.replacement_client_id, hearer.replacement)
                hearer.replacement = None
            case TerminalGone():
                case.assertEqual(hearer.end, "gone")
                hearer.is_over = True
            case TerminalDetached():
                case.assertEqual(event.code, hearer.end)
                hearer.is_over = True

    def settle(self) -> None:
        """What has ended was asked for, in order, and once."""
        settled, self.session.settled = self.session.settled, []
        asked = dict(self.asked)
        for ticket, error in settled:
            if ticket in asked:
                # Of an input, only the exit is told as a failure.
                self.case.assertTrue(error is None or (ticket[:5] == "input" and self.has_exited))
                del asked[ticket]
        self.asked = [(ticket, of) for ticket, of in self.asked if ticket in asked]

    def lose(self, hearer: Hearer, end: str) -> None:
        hearer.end = end
        self.drop(hearer)

    def drop(self, hearer: Hearer) -> None:
        hearer.owns = False
        if self.owner is hearer:
            self.owner = None

    def at(self, place: int) -> Hearer | None:
        """Return one that can still hear something; the latest are the likeliest."""
        alive = [hearer for hearer in self.hearers if not hearer.is_over]
        return alive[-1 - place] if place < len(alive) else None

    def finish(self) -> None:
        """Give everybody all there is: then nothing is missing."""
        for hearer in self.hearers:
            attachment = self.session.attachments.get(hearer.id)
            while attachment is not None:
                attachment.taken(hearer.seen)
                event = self.session.next_event(attachment)
                if event is None:
                    break
                self.heard(hearer, event)
                self.session.gave(attachment, event)
            if hearer.end is None:
                self.case.assertIsNone(hearer.replacement)
            if hearer.end is not None:
                self.case.assertTrue(hearer.is_over)
        if self.owner is not None:
            self.case.assertEqual(self.owner.next, len(self.written) + 1)
        while self.session.next_operation(self.now) is not None:
            pass


class Interleavings(SynchronousTestCase):
    """Any order of steps."""

    @settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(STEPS, max_size=60))
    def test_any_order(self, steps: list[tuple[Any, ...]]) -> None:
        """Keeps what the module says."""
        model = Model(self)
        for step in steps:
            model.play(step)
        model.finish()

    def test_the_model_can_fail(self) -> None:
        """An output that was given and is given again is found."""
        model = Model(self)
        for step in (("attach", 0, "takeover", "zero", None), ("out", 3), ("give", 0)):
            model.play(step)
        model.hearers[0].next = 1
        model.session.output("x", 1)
        self.assertRaises(AssertionError, model.give, 0)
