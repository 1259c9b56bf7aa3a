"""The agents' sessions that an executor keeps: one for each chat, so many at once, each closed when
it has been idle for long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from garcon.contract.runs import Launch
from garcon.deferreds import Waiters
from garcon.runtime.agents.process import launch_failed
from garcon.runtime.interfaces import IAgentSession
from garcon.runtime.runs import Run

Own = Callable[[str, Deferred[Any]], Deferred[None]]
"""Keeps work that nobody else waits for; fires when it is over, whatever came of it."""


@define(eq=False)
class Slot:
    """One chat's session, and the run that has it now."""

    agent_id: str
    directory: str
    session: IAgentSession
    agent_session_id: str | None = None
    run: Run | None = None
    idle_since: float = 0.0
    timer: IDelayedCall | None = None

    def wake(self, run: Run | None) -> None:
        """The session is in use, or given up: it no longer waits to be closed for idleness."""
        self.run = run
        if self.timer is not None and self.timer.active():
            self.timer.cancel()
        self.timer = None

    def suits(self, launch: Launch) -> bool:
        """Whether this is the very session that a launch wants to go on with."""
        return (
            self.agent_id == launch.agent_id
            and self.directory == launch.project_path
            and launch.agent_session_id is not None
            and self.agent_session_id == launch.agent_session_id
        )


@define(eq=False)
class Sessions:
    """At most `most`; one that has been idle for `idle_time` seconds is closed.

    A chat has one at a time: the next one is opened when the processes of the last are gone.
    """

    _clock: IReactorTime
    _own: Own
    _most: int
    _idle_time: float
    _slots: dict[str, Slot] = field(factory=dict)
    _ending: dict[str, Waiters[None]] = field(factory=dict)
    """The chats whose session was given up and still has processes."""

    def find(self, chat_id: str) -> Slot | None:
        """Return a chat's session, if it has one."""
        return self._slots.get(chat_id)

    def of(self, run: Run | None) -> Slot | None:
        """Return where a run that goes on goes on."""
        slot = self._slots.get(run.launch.chat_id) if run is not None else None
        if run is None or run.has_ended or slot is None or slot.run is not run:
            return None
        return slot

    async def take(self, run: Run, open: Callable[[], IAgentSession]) -> IAgentSession:
        """Return the session for a run: the chat's own where it suits, else one that `open` makes.

        It waits until the one before is gone; without a free place it fails.
        """
        launch = run.launch
        slot = self._slots.get(launch.chat_id)
        if slot is None or not slot.suits(launch):
            await self.close(launch.chat_id)
            await self._make_room()
            slot = Slot(
                agent_id=launch.agent_id,
                directory=launch.project_path,
                session=open(),
                agent_session_id=launch.agent_session_id,
            )
            self._slots[launch.chat_id] = slot
        slot.wake(run)
        return slot.session

    async def _make_room(self) -> None:
        """Have a place free at the moment of return; while one waits for it, others may take it."""
        while len(self._slots) >= self._most:
            idle = [chat_id for chat_id, slot in self._slots.items() if slot.run is None]
            if not idle:
                raise launch_failed(f"The executor runs {self._most} agent sessions already.")
            await self.close(min(idle, key=lambda chat_id: self._slots[chat_id].idle_since))

    def rest(self, slot: Slot, chat_id: str) -> None:
        """Its run is over."""
        slot.run = None
        slot.idle_since = self._clock.seconds()
        slot.timer = self._clock.callLater(self._idle_time, self.close, chat_id)

    def close(self, chat_id: str) -> Deferred[None]:
        """Give a chat's session up; fires when its processes are gone, or those of one that was
        given up before.
        """
        slot = self._slots.pop(chat_id, None)
        if slot is not None:
            slot.wake(None)
            self._ending[chat_id] = Waiters()
            over = self._own("ending an agent", slot.session.close())
            over.addCallback(lambda _: self._ending.pop(chat_id).fire(None))
        ending = self._ending.get(chat_id)
        return succeed(None) if ending is None else ending.wait()

    def close_all(self) -> None:
        """Give all of them up."""
        for chat_id in list(self._slots):
            self.close(chat_id)
