"""The chats of one workspace: loaded at start, served through the operations' handlers, stopped in
order.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

from twisted.internet.defer import Deferred, DeferredList, TimeoutError
from twisted.internet.interfaces import IReactorThreads, IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from garcon.contract import operations
from garcon.controller.chats import upkeep
from garcon.controller.chats.agents import Agents
from garcon.controller.chats.chat import Chat
from garcon.controller.chats.compact import Compactions
from garcon.controller.chats.draining import Draining
from garcon.controller.chats.following import Following
from garcon.controller.chats.forks import Forks
from garcon.controller.chats.lanes import Lanes
from garcon.controller.chats.moves import PinsAt
from garcon.controller.chats.paths import ProjectPaths, looking
from garcon.controller.chats.permissions import Permissions
from garcon.controller.chats.preambles import KeepsPreambles
from garcon.controller.chats.queues import Queues
from garcon.controller.chats.reading import Readings
from garcon.controller.chats.reload import Reloads
from garcon.controller.chats.run import Runs
from garcon.controller.chats.start import Starts
from garcon.controller.chats.state import State
from garcon.controller.chats.steering import Steering
from garcon.controller.chats.stop import Stops
from garcon.controller.chats.turns import Turn
from garcon.controller.events import Publisher
from garcon.controller.executors.interfaces import IExecutors, IExecutorUse
from garcon.controller.handlers import Handlers
from garcon.controller.providers.offers import Offers
from garcon.controller.transcripts.transcript import Transcript
from garcon.deferreds import Tasks, returns_deferred
from garcon.errors import GarconError
from garcon.store.interfaces import Damaged, IStore
from garcon.store.records import Change, ChatRecord, RemoveChat, StoredChat

STOP_WAIT = 3.0
"""Seconds that running turns have to end when the controller stops (decisions.md 21)."""
COMMANDS_WAIT = 1.0
"""Seconds that commands have then to end as well; nothing that begins a turn outlives them."""


@implementer(IExecutorUse)
class Chats:
    """All chats of a workspace.  `store` is open before `load` and closed after `shut_down`, by its
    owner.
    """

    _log = Logger()

    def __init__(
        self,
        store: IStore,
        executors: IExecutors,
        server_instance_id: str,
        reactor: IReactorTime,
        project_base: str,
        *,
        publisher: Publisher | None = None,
        threads: IReactorThreads | None = None,
        offers: Offers | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._tasks = Tasks()
        self.pins_at: Callable[[], PinsAt] = lambda: "top"
        """Where a chat goes that is pinned (`ui.pinnedInsertPosition`); whoever keeps the settings
        says so.
        """
        self._state = State(
            store=store,
            executors=executors,
            server_instance_id=server_instance_id,
            clock=reactor,
            wall_clock=wall_clock,
            agents=Agents(executors, reactor, offers),
            paths=ProjectPaths(looking(project_base, threads), reactor, self._tasks),
            tasks=self._tasks,
            lanes=Lanes(self._tasks),
            publisher=publisher or Publisher(),
        )
        self._draining = Draining(self._state)
        self._state.drain = self._draining.wanted

    @returns_deferred
    async def load(self) -> None:
        """Take up the chats of earlier processes.  Nothing is executed again (chats.md 5.5.8), and
        a copy that one of them did not finish is removed.
        """
        unfinished: list[Change] = []
        for stored in await self._state.store.load():
            if stored.record.is_unfinished:
                unfinished.append(RemoveChat(stored.record.chat_id))
            else:
                self._state.registry.add(self._loaded(stored))
        if unfinished:
            await self._state.store.write(unfinished)

    def register(self, handlers: Handlers) -> None:
        """Serve the chats' operations."""
        state = self._state
        readings = Readings(state)
        handlers.register(operations.MESSAGES, readings.messages)
        handlers.register(operations.SNAPSHOT, readings.snapshot)
        handlers.register(operations.TURN_RECEIPT, readings.receipt)
        handlers.register(operations.START_CHAT, Starts(state).start)
        handlers.register(operations.RUN_CHAT, Runs(state).run)
        forks = Forks(state)
        handlers.register(operations.FORK, forks.fork)
        handlers.register(operations.FORK_RUN, forks.fork_run)
        handlers.register(operations.HANDOFF_RUN, forks.handoff_run)
        handlers.register(operations.COMPACT, Compactions(state).compact)
        decisions = Permissions(state, Lanes(self._tasks))
        handlers.register(operations.PERMISSION_DECISION, decisions.decide)
        self._register_control(handlers)
        upkeep.register(handlers, state, lambda: self.pins_at())

    def _register_control(self, handlers: Handlers) -> None:
        """Serve what stops turns, and what waits for them to end."""
        stops, queues = Stops(self._state), Queues(self._state)
        steering = Steering(self._state, Lanes(self._tasks), Lanes(self._tasks))
        for operation, handler in (
            (operations.STOP_CHAT, stops.stop),
            (operations.INTERRUPT_AND_SEND, stops.interrupt_and_send),
            (operations.STEER, steering.steer),
            (operations.STEER_ENTRY, steering.steer_entry),
            (operations.READ_QUEUE, queues.read),
            (operations.CREATE_ENTRY, queues.create),
            (operations.REPLACE_ENTRY, queues.replace),
            (operations.DELETE_ENTRY, queues.delete),
            (operations.MOVE_ENTRY, queues.move),
            (operations.PAUSE_QUEUE, queues.pause),
            (operations.RESUME_QUEUE, queues.resume),
            (operations.CLEAR_QUEUE, queues.clear),
        ):
            handlers.register(operation, handler)

    def answers(self) -> Following:
        """Return what the browser sockets ask."""
        return Following(self._state, Reloads(self._state))

    def pinned_ids(self) -> list[str]:
        """Return the ids of the pinned chats, in order (`pinnedChatIds` of the settings)."""
        return self._state.registry.order.of("pinned")

    def place(self, chat_id: str) -> tuple[str, str]:
        """Return the executor and the project directory of a chat, or raise
        ``SESSION_NOT_FOUND`` (404).
        """
        record = self._state.registry.get(chat_id).record
        return record.executor_id, record.project_path

    def using_profile(self, profile_id: str) -> list[str]:
        """Return the ids of the chats whose model is reached through a profile."""
        return [
            chat.id
            for chat in self._state.registry.all()
            if chat.record.api_provider_id == profile_id
        ]

    def __len__(self) -> int:
        return len(self._state.registry)

    def phases(self) -> Counter[str]:
        """Return how many chats are in each phase of a turn."""
        phases = (self._state.phase(chat) for chat in self._state.registry.all())
        return Counter(phase for phase in phases if phase is not None)

    def unknown_events(self) -> Mapping[str, float]:
        """Return how often each agent said what this version does not know."""
        return self._state.unknown.counts()

    def use_preambles(self, preambles: KeepsPreambles) -> None:
        """Ask `preambles` what agents are told ahead of a chat's first input."""
        self._state.preambles = preambles

    def follow_starts(self, follower: Callable[[ChatRecord], None]) -> None:
        """Tell `follower` of every chat that was started, once its agent has begun."""
        self._state.started.append(follower)

    def running_on(self, executor_id: str) -> list[str]:
        """Return the ids of this executor's chats that have a turn, admitted or running."""
        return [
            chat.id
            for chat in self._state.registry.all()
            if chat.turn is not None and chat.record.executor_id == executor_id
        ]

    def availability_changed(self, executor_id: str) -> None:
        """Show what the chats of this executor do now."""
        self._state.registry.touch()
        self._state.agents.forget(executor_id)
        for chat in self._state.registry.all():
            if chat.turn is not None and chat.record.executor_id == executor_id:
                chat.turn.executor_changed()
                self._state.phase_changed(chat)
        self._draining.executor_changed(executor_id)

    @returns_deferred
    async def shut_down(self) -> None:
        """Refuse new work, interrupt what runs for at most 3 s, and fire when every row is
        durable.
        """
        self._state.is_shutting_down = True
        turns = self._turns()
        ends = [Deferred.fromCoroutine(turn.interrupt()) for turn in turns]
        try:
            await DeferredList(ends, consumeErrors=True).addTimeout(STOP_WAIT, self._state.clock)
        except TimeoutError:
            self._log.warn("{count} turns did not stop in time", count=len(turns))
        for turn in turns:
            turn.end_now()
        try:
            await self._tasks.settled().addTimeout(COMMANDS_WAIT, self._state.clock)
        except TimeoutError:
            self._log.warn("some commands did not end in time")
        await self._tasks.stopService()
        late = [turn for turn in self._turns() if turn not in turns]
        for turn in late:
            turn.end_now()
        await self._flush([*turns, *late])

    def _turns(self) -> list[Turn]:
        return [chat.turn for chat in self._state.registry.all() if chat.turn is not None]

    async def _flush(self, turns: list[Turn]) -> None:
        settled = [Deferred.fromCoroutine(turn.settled()) for turn in turns]
        try:
            await DeferredList(settled, consumeErrors=True).addTimeout(STOP_WAIT, self._state.clock)
            # An empty write is durable only after everything before it.
            await self._state.store.write(())
        except (GarconError, TimeoutError) as error:
            self._log.error("not everything could be kept: {why}", why=str(error))

    def _loaded(self, stored: StoredChat) -> Chat:
        chat_id = stored.record.chat_id
        view_id = stored.view_id
        damage = None
        if view_id is None:
            view_id = f"pending:{stored.record.agent_ownership_epoch}"
            damage = Damaged(view_id, "its view is gone")
        elif stored.damaged:
            damage = Damaged(view_id, "its record")
        elif stored.last_ordinal is None:
            damage = Damaged(view_id, "its rows")
        transcript = Transcript(
            self._state.store,
            view_id,
            stored.last_ordinal or 0,
            committed=lambda view, rows: self._state.rows_committed(chat_id, view, rows),
            fenced=damage,
        )
        if damage is not None:
            self._log.warn("{chat} is fenced: {why}", chat=chat_id, why=damage.text)
        return Chat(
            stored.record,
            transcript,
            stored.last_activity_at,
            stored.last_message,
            is_legible=not stored.damaged,
        )
