"""What of a turn one commit takes: it is told to every socket in one step (server.md A.12)."""

from __future__ import annotations

from garcon.contract.events import ChatMessages
from garcon.contract.limits import MIB
from garcon.contract.messages import AssistantMessage
from garcon.controller.chats.commits import COMMIT_BYTES, COMMIT_ROWS
from garcon.controller.transcripts.rows import provider_row
from garcon.test.controller.chats.cast import HeldStoreTestCase
from garcon.testing.fake_runtime import AT

AROUND = len(provider_row(AssistantMessage(timestamp=AT, content="")).payload)


class CommitTests(HeldStoreTestCase):
    """A turn whose first row is on its way to a store that waits for the test."""

    def setUp(self) -> None:
        super().setUp()
        self.start()
        self.pool.held = True
        self.say(1_000)

    def say(self, *sizes: int) -> None:
        """Let the agent write rows of these sizes."""
        for size in sizes:
            self.local.last.say("x" * (size - AROUND))

    def told_by_commit(self) -> list[list[int]]:
        """Let the store go on, a commit at a time; returns the rows' sizes that each one told."""
        steps = []
        while len(self.pool):
            self.told.clear()
            self.pool.run_next()
            events = [event for event in self.told if isinstance(event, ChatMessages)]
            rows = [row for event in events for row in event.messages]
            steps.append([memoryview(row.message).nbytes for row in rows])
        return steps

    def test_large_rows_that_gathered_are_told_one_by_one(self) -> None:
        """Each when the store has kept it, so that sockets send what went before meanwhile."""
        self.say(*[1_000_000] * 5)
        self.assertEqual(self.told_by_commit(), [[1_000], *[[1_000_000]] * 5])

    def test_a_commit_takes_a_mebibyte_of_rows(self) -> None:
        """At the bound they go together; with a byte more the last waits for the next commit."""
        self.assertEqual(COMMIT_BYTES, MIB)
        first = COMMIT_BYTES - 2_000
        self.say(first, 1_000, 1_000)
        self.assertEqual(self.told_by_commit(), [[1_000], [first, 1_000, 1_000]])
        self.say(1_000, first, 1_000, 1_001)
        self.assertEqual(self.told_by_commit(), [[1_000], [first, 1_000], [1_001]])

    def test_one_row_may_be_larger(self) -> None:
        """It goes alone, after what is before it and before what is behind it."""
        self.say(1_000, 5 * MIB, 1_000, 1_000)
        self.assertEqual(self.told_by_commit(), [[1_000], [1_000], [5 * MIB], [1_000, 1_000]])

    def test_small_rows_go_as_many_at_a_time_as_ever(self) -> None:
        """Their sizes do not part them; their number does."""
        self.say(*[1_000] * (COMMIT_ROWS + 1))
        self.assertEqual([len(rows) for rows in self.told_by_commit()], [1, COMMIT_ROWS, 1])
