"""Further input for the turn that runs (chats.md 3.12, 3.19, 5.11).

A steer goes through these steps in the order of arrival: it waits until the turn's launch is over,
takes its identity, captures its target, is admitted, and is delivered.  Identity and admission are
under the chat's lock; what waits for an agent is not, so that a stop never does.  Its row is kept
the moment its delivery is known, before anything that the agent says to it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from attrs import define, field, frozen
from msgspec import to_builtins
from twisted.internet.defer import CancelledError, Deferred, TimeoutError, succeed
from twisted.logger import Logger

from garcon.contract.limits import INTERACTIVE_READ, INTERACTIVE_WAIT
from garcon.contract.messages import Presentation
from garcon.contract.queue_commands import EntrySteered, SteerAccepted, SteerChat, SteerEntry
from garcon.contract.steering import Steer, Steered, SteerTarget
from garcon.controller.chats import fields, steer_errors
from garcon.controller.chats.admission import NewInput, is_repeated
from garcon.controller.chats.chat import Chat, no_such_chat
from garcon.controller.chats.delivery import Asker, Delivery
from garcon.controller.chats.lanes import Lanes
from garcon.controller.chats.ledger import STEER, Record, failed_again, fingerprint
from garcon.controller.chats.queues import at_least, entry_id, queued_content
from garcon.controller.chats.run import stale_view
from garcon.controller.chats.state import State, answer_to
from garcon.controller.chats.steer_source import Direct, FromQueue, Source
from garcon.controller.chats.steered import SteeredInput
from garcon.controller.chats.turns import Turn
from garcon.controller.handlers import Call
from garcon.controller.transcripts import rows
from garcon.errors import CallError, GarconError

MENTIONS_WAIT = 2.0
"""Seconds that reading the mentioned files may take; the text then goes as it is."""
PLAIN = frozenset(
    {"VALIDATION_FAILED", "IDEMPOTENCY_CONFLICT", "STALE_TRANSCRIPT_VIEW", "SESSION_NOT_FOUND"}
)
"""Refusals that say nothing of a delivery (chats.md 3.19)."""


@frozen
class _Wish:
    """One steer whose fields are in order."""

    chat_id: str
    request_id: str
    view_id: str
    mark: bytes
    source: Source
    presentation: Presentation | None = None


@define(eq=False)
class _Taken:
    """A steer that was admitted, or seen before; `settled` fires when its fate is known."""

    record: Record
    status: str
    settled: Deferred[None] = field(factory=lambda: succeed(None))


@define(eq=False)
class Steering:
    """Serves ``POST /chats/steer`` and ``POST /chats/queue/entries/steer``."""

    _log: ClassVar[Logger] = Logger()

    _state: State
    _arrivals: Lanes
    _deliveries: Lanes

    async def steer(self, call: Call[Any, SteerChat]) -> SteerAccepted:
        """Put an input into the turn that runs; answered when the agent has it."""
        body = call.body
        fields.no_answers_member(body)
        request_id = fields.client_id(body.client_request_id, "clientRequestId")
        message_id = fields.client_id(body.client_message_id, "clientMessageId")
        view_id = fields.required(body.transcript_view_id, "transcriptViewId")
        content = queued_content(body.content)
        compared = {"transcriptViewId": view_id, "clientMessageId": message_id, "content": content}
        wish = _Wish(
            fields.chat_id(body.chat_id),
            request_id,
            view_id,
            fingerprint(compared),
            Direct(self._state, message_id, content),
            fields.presentation(body.user_message_presentation),
        )
        record, status = await self._served(wish)
        chat = self._state.registry.find(wish.chat_id)
        parent = None if chat is None else chat.parent()
        return SteerAccepted(**answer_to(record, status), parent_chat=parent)

    async def steer_entry(self, call: Call[Any, SteerEntry]) -> EntrySteered:
        """Put the queue's first message into the turn that runs."""
        body = call.body
        fields.no_answers_member(body)
        view_id = fields.required(body.transcript_view_id, "transcriptViewId")
        source = FromQueue(
            self._state,
            entry_id(body.entry_id),
            at_least(body.expected_revision, 1, "expectedRevision"),
            at_least(body.expected_reorder_revision, 0, "expectedReorderRevision"),
        )
        wish = _Wish(
            fields.chat_id(body.chat_id),
            fields.client_id(body.client_request_id, "clientRequestId"),
            view_id,
            fingerprint({"transcriptViewId": view_id, "source": source.compared()}),
            source,
        )
        instance = self._state.server_instance_id
        try:
            record, status = await self._served(wish)
        except GarconError as error:
            if error.code in PLAIN and "deliveryOutcome" not in error.extra:
                raise
            error.extra.setdefault("deliveryOutcome", "not-sent")
            error.extra["serverInstanceId"] = instance
            if self._state.registry.find(wish.chat_id) is not None:
                error.extra["control"] = to_builtins(self._state.control(wish.chat_id))
            raise
        steered: dict[str, Any] = answer_to(record, status)
        if self._state.registry.find(wish.chat_id) is not None:
            steered["control"] = self._state.control(wish.chat_id)
        return EntrySteered(**steered, server_instance_id=instance)

    async def _served(self, wish: _Wish) -> tuple[Record, str]:
        taken = await self._arrivals.run(wish.chat_id, lambda: self._arrived(wish))
        await taken.settled
        if taken.record.error is not None:
            raise failed_again(taken.record.error)
        return taken.record, taken.status

    # Admission

    async def _arrived(self, wish: _Wish) -> _Taken:
        """See a steer to its delivery, in its turn among those of its chat."""
        while True:
            chat = self._state.registry.get(wish.chat_id)
            if chat.turn is not None:
                await chat.turn.launched()
            taken = await self._state.lanes.run(wish.chat_id, lambda: self._accepted(wish))
            if isinstance(taken, _Taken):
                return taken
            if taken is not None:
                return await self._handed_over(wish, *taken)

    async def _accepted(self, wish: _Wish) -> tuple[Chat, Record, Turn] | _Taken | None:
        """Take a new steer's identity and find the turn that it is for; None while another launch
        has begun.
        """
        state = self._state
        chat = state.registry.get(wish.chat_id)
        if wish.view_id != chat.transcript.view_id:
            raise stale_view()
        record = state.ledger.replayed(STEER, chat.id, wish.request_id, wish.mark)
        if record is not None:
            return self._replayed(chat, record, wish.source)
        if state.is_shutting_down:
            raise steer_errors.stopping()
        if chat.turn is not None and chat.turn.is_launching:
            return None
        self._deliveries.must_have_room(chat.id)
        record = state.ledger.accept(STEER, chat.id, wish.request_id, wish.mark, state.now())
        try:
            wish.source.input(chat)
            turn = _steerable(chat)
        except GarconError as error:
            self._settle(record, error)
            raise
        record.turn_id = turn.run_id
        return chat, record, turn

    async def _handed_over(self, wish: _Wish, chat: Chat, record: Record, turn: Turn) -> _Taken:
        """Capture the target, without the chat's lock, and let it be delivered."""
        try:
            target = await self._captured(chat, turn)
            return await self._state.lanes.run(
                chat.id,
                lambda: self._admitted(wish, chat, record, turn, target),
                is_bounded=False,
            )
        except GarconError as error:
            self._settle(record, error)
            raise
        except BaseException:
            self._settle(record, steer_errors.not_delivered())
            raise

    def _replayed(self, chat: Chat, record: Record, source: Source) -> _Taken:
        """One that is still under way has an unknown outcome for whoever repeats it, and for good
        (chats.md 3.12).  Its row is kept from then on, whatever comes of its delivery.
        """
        if not record.is_terminal:
            self._settle(record, source.concluded(chat, steer_errors.unknown()))
        return _Taken(record, "duplicate")

    async def _admitted(
        self, wish: _Wish, chat: Chat, record: Record, turn: Turn, target: SteerTarget
    ) -> _Taken:
        """Mark what is steered and begin its delivery, if all is as it was.  An input that is in
        the transcript already is not sent again; one that is on its way is waited for.
        """
        if self._state.registry.find(chat.id) is not chat:
            raise no_such_chat()
        message_id, content = wish.source.input(chat)
        known = chat.steer_under_way(message_id)
        if known is None or known.input.content != content:
            if await is_repeated(chat, NewInput(message_id, content), is_steer=True):
                wish.source.consumed(chat)
                self._settle(record, None)
                return _Taken(record, "accepted")
            if chat.turn is not turn or turn.takes_no_more:
                raise steer_errors.of(_missed(chat, turn))
        wish.source.begin(chat)
        record.state = "running"
        asker = Asker(record, wish.source)
        if known is not None:
            known.askers.append(asker)
        else:
            draft = rows.user_input(
                record.accepted_at, content, [], message_id, wish.presentation, is_steer=True
            )
            steered, resolved = SteeredInput(draft, content), self._resolved(chat, content)
            delivery = Delivery(chat, turn, target, steered, [asker], resolved)
            chat.steers[message_id] = delivery
            # Whoever asked may give up; what was admitted is seen through all the same.
            self._state.tasks.spawn("delivering a steer", self._see_through(delivery))
        return _Taken(record, "accepted", asker.settled)

    async def _captured(self, chat: Chat, turn: Turn) -> SteerTarget:
        try:
            runtime = self._state.executors.existing(chat.record.executor_id)
            capture = await runtime.capture_steering(turn.run_id).addTimeout(
                INTERACTIVE_READ, self._state.clock
            )
        except TimeoutError:
            raise steer_errors.not_delivered("The executor did not answer in time.") from None
        except GarconError as error:
            raise steer_errors.not_delivered(error.text) from None
        if capture.target is None:
            raise steer_errors.of(capture.outcome, capture.text)
        return capture.target

    def _resolved(self, chat: Chat, content: str) -> Deferred[str]:
        """Begin to read the files that a text mentions; fires with the text itself where that
        fails or takes too long.
        """
        if "@" not in content:
            return succeed(content)
        try:
            runtime = self._state.executors.existing(chat.record.executor_id)
        except GarconError:
            return succeed(content)
        resolving = runtime.resolve_mentions(chat.record.project_path, content)
        d: Deferred[str] = resolving.addTimeout(MENTIONS_WAIT, self._state.clock)
        return d.addErrback(lambda _: content)

    # Delivery

    async def _see_through(self, delivery: Delivery) -> None:
        try:
            await self._deliveries.run(delivery.chat.id, lambda: self._deliver(delivery))
        finally:
            if not delivery.has_begun:
                # The controller stops, and its turn among the deliveries never came.
                self._conclude(delivery, Steered(outcome="not-delivered"))

    async def _deliver(self, delivery: Delivery) -> None:
        """Hand an admitted steer to the agent, and see to what becomes of it."""
        delivery.has_begun = True
        outcome = Steered(outcome="not-delivered")
        try:
            content = await delivery.resolved
            if delivery.turn.takes_no_more or self._state.is_shutting_down:
                outcome = Steered(outcome=_missed(delivery.chat, delivery.turn))
            else:
                outcome = Steered(outcome="unknown")
                outcome = await self._sent(delivery, content)
            self._keep_promise(delivery)
            if delivery.input.is_kept:
                await delivery.turn.flushed()
        finally:
            self._conclude(delivery, outcome)

    async def _sent(self, delivery: Delivery, content: str) -> Steered:
        turn, steered = delivery.turn, delivery.input
        steer = Steer(target=delivery.target, client_message_id=steered.message_id, content=content)
        outcome = Steered(outcome="unknown")
        turn.steering(steered)
        try:
            outcome = await self._asked(delivery.chat, steer)
        finally:
            turn.steered(steered, is_kept=delivery.is_wanted(outcome))
        return outcome

    def _keep_promise(self, delivery: Delivery) -> None:
        """Where it was never sent, its row is kept behind the end, and the next run carries it."""
        if delivery.is_promised and not delivery.input.is_kept:
            delivery.turn.keep(delivery.input)

    async def _asked(self, chat: Chat, steer: Steer) -> Steered:
        try:
            runtime = self._state.executors.existing(chat.record.executor_id)
            return await runtime.steer(steer).addTimeout(INTERACTIVE_WAIT, self._state.clock)
        except CancelledError:
            raise
        except TimeoutError:
            return Steered(outcome="unknown")
        except CallError as error:
            is_unknown = error.outcome == "unknown"
            return Steered(outcome="unknown" if is_unknown else "not-delivered", text=error.text)
        except GarconError as error:
            return Steered(outcome="not-delivered", text=error.text)
        except Exception:
            self._log.failure("a steer of {run} went wrong", run=steer.target.run_id)
            return Steered(outcome="unknown")

    def _conclude(self, delivery: Delivery, outcome: Steered) -> None:
        self._keep_promise(delivery)
        # Its identity is free again before the queue goes on, whose next entry it may be.
        steers, message_id = delivery.chat.steers, delivery.input.message_id
        if steers.get(message_id) is delivery:
            del steers[message_id]
        for asker in delivery.askers:
            error = self._concluded(delivery, outcome, asker.source)
            if not asker.record.is_terminal:
                self._settle(asker.record, error)
        for asker in delivery.askers:
            if not asker.settled.called:
                asker.settled.callback(None)

    def _concluded(
        self, delivery: Delivery, outcome: Steered, source: Source
    ) -> GarconError | None:
        """Return what one of those who asked is told; None for a success."""
        chat, steered = delivery.chat, delivery.input
        if outcome.outcome == "delivered":
            return source.concluded(chat, None) if steered.is_durable else source.not_kept(chat)
        if steered.is_kept and not source.is_kept(outcome):
            # Its turn ended while it was on its way, or it was promised: it does not go back.
            return source.concluded(chat, steer_errors.unknown())
        return source.concluded(chat, steer_errors.of(outcome.outcome, outcome.text))

    def _settle(self, record: Record, error: GarconError | None) -> None:
        record.error = error
        self._state.ledger.settle(record, "finished" if error is None else "failed")


def _steerable(chat: Chat) -> Turn:
    """Return the turn that takes input now, or raise ``STEER_TURN_UNAVAILABLE`` (409)."""
    turn = chat.turn
    if turn is None or turn.takes_no_more:
        raise steer_errors.unavailable()
    return turn


def _missed(chat: Chat, turn: Turn) -> Literal["turn-unavailable", "turn-changed"]:
    """The turn is over: another one, if there is one, is not the one that was meant."""
    return "turn-unavailable" if chat.turn in (None, turn) else "turn-changed"
