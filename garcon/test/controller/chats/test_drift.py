"""Sessions that were gone on with outside of their chats (chats.md 3.23)."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from garcon.contract import operations
from garcon.contract.events import OperationalNotice
from garcon.contract.limits import INTERACTIVE_WAIT
from garcon.contract.runs import NativeSession, SessionPoint
from garcon.errors import GarconError
from garcon.runtime.interfaces import INativeDrift
from garcon.test.controller.chats.cast import CHAT, ChatsTestCase
from garcon.testing.fake_runtime import FakeRuntime


@implementer(INativeDrift)
@define(eq=False)
class Drifting(FakeRuntime):
    """An executor whose sessions may have been gone on with."""

    points: list[SessionPoint] = field(factory=list)
    answers: list[Deferred[bool]] = field(factory=list)
    """What the next questions meet; yes where nothing is prepared."""

    def has_moved_on(self, point: SessionPoint) -> Deferred[bool]:
        self.points.append(point)
        return self.answers.pop(0) if self.answers else succeed(True)


class DriftTests(ChatsTestCase):
    """A chat whose last turn ended at a known place."""

    def setUp(self) -> None:
        super().setUp()
        self.start()
        self.local.last.session("session")
        self.local.last.say("hi")
        self.local.last.finish(anchor="end")
        self.told.clear()

    def open_process(self, *args: Any) -> None:
        super().open_process(*args)
        self.drifting = self.local = Drifting(self.base)
        self.executors.runtimes["local"] = self.drifting

    def open_chat(self) -> dict[str, Any]:
        """Open the chat as a client does."""
        query = {"chatId": CHAT, "purpose": "activation"}
        answer = self.asked(operations.MESSAGES, query=query)
        self.assertEqual(answer.status, 200)
        body: dict[str, Any] = answer.body
        return body

    def notices(self) -> list[OperationalNotice]:
        """What clients were told."""
        return [event for event in self.told if isinstance(event, OperationalNotice)]

    def test_whoever_opens_it_is_told_each_time(self) -> None:
        """By a warning; the answer is as it always was, and nothing is stored."""
        plain = self.messages().body
        for count in (1, 2):
            self.assertEqual(self.open_chat(), plain)
            self.assertEqual(len(self.notices()), count)
        notice = self.notices()[0]
        self.assertEqual((notice.chat_id, notice.notice_type), (CHAT, "warning"))
        self.assertIn("Reload", notice.content)
        session = NativeSession("scripted", "session", f"{self.base}/p")
        self.assertEqual(self.drifting.points, [SessionPoint(session, "end")] * 2)
        self.assertEqual(self.told, self.notices())

    def test_only_where_it_is_asked_for(self) -> None:
        """Reading a page is no opening."""
        self.messages()
        self.assertEqual(self.drifting.points, [])

    def test_a_session_that_is_as_it_was(self) -> None:
        """Nobody is told anything."""
        self.drifting.answers.append(succeed(False))
        self.open_chat()
        self.assertEqual(self.notices(), [])

    def test_one_look_at_a_time(self) -> None:
        """However often the chat is opened meanwhile."""
        looking: Deferred[bool] = Deferred()
        self.drifting.answers.append(looking)
        self.open_chat()
        self.open_chat()
        self.assertEqual(len(self.drifting.points), 1)
        looking.callback(True)
        self.assertEqual(len(self.notices()), 1)
        self.open_chat()
        self.assertEqual(len(self.notices()), 2)

    def test_a_turn_that_began_meanwhile(self) -> None:
        """Makes the answer one about the past."""
        looking: Deferred[bool] = Deferred()
        self.drifting.answers.append(looking)
        view = self.open_chat()["transcriptViewId"]
        self.run_chat(view)
        looking.callback(True)
        self.open_chat()
        self.assertEqual(len(self.drifting.points), 1)
        self.local.last.finish()
        self.assertEqual(self.notices(), [])

    def test_where_nobody_can_tell(self) -> None:
        """A turn whose end has no name, an executor that is away, fails or does not answer."""
        view = self.messages().body["transcriptViewId"]
        self.run_chat(view)
        self.local.last.finish()
        self.open_chat()
        self.assertEqual(self.drifting.points, [])
        self.run_chat(view)
        self.local.last.finish(anchor="end")
        self.executors.states["local"] = "offline"
        self.open_chat()
        self.executors.states["local"] = "ready"
        self.drifting.answers.append(fail(GarconError("X", "no")))
        self.open_chat()
        self.drifting.answers.append(Deferred())
        self.open_chat()
        self.clock.advance(INTERACTIVE_WAIT)
        self.assertEqual(self.notices(), [])
        self.open_chat()
        self.assertEqual(len(self.notices()), 1)

    def test_a_session_that_began_since(self) -> None:
        """Has no turn of its own yet."""
        self.run_chat(self.messages().body["transcriptViewId"])
        self.local.last.session("another")
        self.local.last.interrupted()
        self.told.clear()
        self.open_chat()
        self.assertEqual((self.drifting.points, self.notices()), ([], []))
