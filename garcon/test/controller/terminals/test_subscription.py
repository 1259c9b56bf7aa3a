"""From what an executor tells to what a client is told (server.md C.4 to C.6)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from msgspec import UNSET
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import TERMINAL_MESSAGE
from garcon.contract.terminals import TerminalAttached, TerminalChunk, TerminalInfo
from garcon.controller.terminals.subscription import Subscription, Worded
from garcon.test.properties import given
from garcon.testing.foreign_terminals import TerminalJudgement

EXECUTOR, RUNTIME = "local", "00000000-0000-4000-8000-000000000001"
SESSION = "00000000-0000-4000-8000-000000000002"
NAME = f"{EXECUTOR}/{RUNTIME}/{SESSION}"

INFO = TerminalInfo(
    session_id=SESSION,
    display_sequence=1,
    title=None,
    initial_working_directory="/base",
    process_status="running",
    attachment_status="attached",
    created_at="2026-01-02T03:04:05.678Z",
    exit_code=None,
    latest_output_sequence=0,
)


class Subscribed(SynchronousTestCase):
    """One attachment, and the judge of what its client hears."""

    def make(self, first: int, through: int, *, after: int | None = None) -> list[Worded]:
        nobody: Any = None
        self.subscription = Subscription(NAME, EXECUTOR, RUNTIME, "ours", "a", nobody)
        self.judgement = TerminalJudgement()
        self.said: list[dict[str, Any]] = []
        self.through = 0
        after = first - 1 if after is None else after
        self.judgement.asked(
            {
                "type": "terminal-attach",
                "terminalId": NAME,
                "attachmentId": "a",
                "afterSequence": after,
            }
        )
        attached = TerminalAttached(
            terminal=INFO,
            generation=1,
            first_sequence=first,
            replay_through=through,
            is_truncated=after < first - 1,
        )
        return self.hear(self.subscription.attached(attached))

    def hear(self, said: list[Worded]) -> list[Worded]:
        for text, through in said:
            message = json.loads(text)
            self.judgement.heard(text, message)
            self.said.append(message)
            self.assertTrue(through == 0 or through >= self.through)
            self.through = max(self.through, through)
        return said

    def kinds(self) -> list[str]:
        said, self.said = self.said, []
        return [one["type"].removeprefix("terminal-") for one in said]

    def output(self, first: int, *texts: str) -> list[Worded]:
        chunks = [TerminalChunk(sequence=n, data=text) for n, text in enumerate(texts, first)]
        return self.hear(self.subscription.output(chunks))

    def test_nothing_to_replay(self) -> None:
        """It is attached at once."""
        self.make(5, 4)
        self.assertEqual(self.kinds(), ["attached"])
        self.output(5, "x")
        self.assertEqual((self.kinds(), self.through), (["output"], 5))

    def test_a_small_replay_and_what_follows_it_at_once(self) -> None:
        """One message with all of it, then output."""
        self.make(1, 3)
        self.assertEqual(self.output(1, "a", "b"), [])
        self.output(3, "c", "d")
        self.assertEqual(self.judgement.texts[NAME], "abcd")
        self.assertEqual(self.kinds(), ["attached", "output"])

    def test_the_largest_replay_in_one_message(self) -> None:
        """Is one of 65,536 bytes; one byte more makes batches of it."""
        self.make(1, 1)
        around = len(self.output(1, "")[0][0])
        for size, kinds in (
            (TERMINAL_MESSAGE - around, ["attached"]),
            (TERMINAL_MESSAGE - around + 1, ["attached", "replay-batch", "replay-batch"]),
        ):
            half = size // 2 - 100
            self.make(1, 3)
            self.output(1, "x" * half, "y" * half)
            second = len(json.dumps({"sequence": 2, "data": ""}, separators=(",", ":"))) + 1
            self.output(3, "z" * (size - 2 * half - 2 * second))
            self.assertEqual(self.kinds(), kinds)

    def test_what_is_missing_comes_first(self) -> None:
        """Before it is attached."""
        self.make(9, 9, after=3)
        self.output(9, "x")
        self.assertEqual(self.kinds(), ["replay-truncated", "attached"])

    def test_what_comes_in_the_middle_of_a_replay(self) -> None:
        """Is told after it is attached and after what came of the replay."""
        for event, kind in (
            (lambda: self.subscription.changed(INFO), "status"),
            (lambda: self.subscription.taken_over("other"), "taken-over"),
            (self.subscription_terminated, "terminated"),
            (lambda: self.subscription.failed("terminal-unavailable", "gone"), "error"),
        ):
            self.make(1, 3)
            self.output(1, "a")
            self.hear(event())
            self.assertEqual(self.kinds(), ["attached", "replay-batch", kind])
            if kind == "status":
                self.output(2, "b", "c")
                self.assertEqual(self.kinds(), ["replay-batch"])

    def subscription_terminated(self) -> list[Worded]:
        return self.subscription.terminated()

    def test_a_refused_attachment(self) -> None:
        """Hears of the terminal without ever being attached."""
        self.make(1, 0)
        nobody: Any = None
        refused = Subscription(NAME, EXECUTOR, RUNTIME, "ours", UNSET, nobody)
        ((text, _),) = refused.changed(INFO)
        self.assertNotIn("attachmentId", json.loads(text))

    @given(
        st.lists(st.sampled_from([1, 100, 9_000, 28_000]), min_size=1, max_size=12),
        st.integers(0, 12),
        st.lists(st.integers(1, 5), min_size=12, max_size=12),
        st.integers(0, 12),
    )
    def test_any_replay(
        self, sizes: list[int], replayed: int, portions: list[int], change: int
    ) -> None:
        """However it is portioned, and whenever the terminal changes meanwhile: all of it, once,
        in order, and nothing of it before the client knows that it is attached.
        """
        texts = [f"{number:02}" + "漢" * (size // 3) for number, size in enumerate(sizes)]
        replayed = min(replayed, len(texts))
        self.make(1, replayed)
        sent = 0
        for number, portion in enumerate(portions):
            if number == change:
                self.hear(self.subscription.changed(INFO))
            taken = texts[sent : sent + portion]
            if taken:
                self.output(sent + 1, *taken)
            sent += len(taken)
        self.assertEqual(self.judgement.texts[NAME], "".join(texts))
        self.assertEqual(self.kinds().count("attached"), 1)
