"""One publisher, and failures that two would tell of (server.md A.11.6)."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.events import Event, RunFailed, RunFinished, SessionDeleted
from garcon.controller.events import Publisher


def failed(turn: str = "t", chat: str = "1") -> RunFailed:
    """A failure."""
    return RunFailed(chat_id=chat, turn_id=turn, client_request_id="r", error="x")


class Publishing(SynchronousTestCase):
    """A publisher on a clock of the test's."""

    def setUp(self) -> None:
        self.now = 0.0
        self.publisher = Publisher(lambda: self.now)
        self.told: list[Event] = []
        self.end = self.publisher.subscribe(self.told.append)

    def test_readers_are_told_in_order(self) -> None:
        """Until they want no more."""
        events = [SessionDeleted(chat_id=str(n)) for n in range(3)]
        for event in events:
            self.publisher.publish(event)
        self.end()
        self.publisher.publish(events[0])
        self.assertEqual(self.told, events)

    def test_a_turn_fails_once_in_thirty_seconds(self) -> None:
        """Whoever else reports it then says nothing new; after that it is told again."""
        self.publisher.publish(failed())
        self.now = 29.9
        self.publisher.publish(failed())
        self.assertEqual(len(self.told), 1)
        self.now = 30.0
        self.publisher.publish(failed())
        self.assertEqual(len(self.told), 2)

    def test_other_turns_and_other_ends_are_told(self) -> None:
        """Only the very same failure is a repetition."""
        finished = RunFinished(chat_id="1", turn_id="t", client_request_id="r")
        for event in (failed(), failed("u"), failed(chat="2"), finished, finished):
            self.publisher.publish(event)
        self.assertEqual(len(self.told), 5)

    def test_failures_are_not_remembered_without_end(self) -> None:
        """The oldest of more than a thousand is forgotten."""
        for n in range(1_025):
            self.publisher.publish(failed(str(n)))
        self.told.clear()
        self.publisher.publish(failed("1024"))
        self.publisher.publish(failed("1"))
        self.assertEqual(self.told, [])
        self.publisher.publish(failed("another"))
        self.publisher.publish(failed("0"))
        self.assertEqual(len(self.told), 2)
