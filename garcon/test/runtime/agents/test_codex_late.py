"""What Codex says late, early, or between turns, and what would grow without an end."""

from __future__ import annotations

from typing import Any

from garcon.runtime.agents.codex_turn import ENDED, ENDED_TEXT, NOTICED
from garcon.test.runtime.agents.codex_cast import THREAD, TURN, CodexCase

RUNNING: dict[str, Any] = {"command": "sleep 9", "processId": "1", "status": "inProgress"}


class BetweenTurns(CodexCase):
    def end_of(self, name: str, printed: str) -> None:
        """Let a command end well."""
        members = {**RUNNING, "id": name, "status": "completed", "exitCode": 0}
        self.item("commandExecution", **members, aggregatedOutput=printed)

    def leave_running(self, *names: str) -> None:
        """End a turn whose commands go on."""
        for name in names:
            self.item("commandExecution", "started", **RUNNING, id=name)
        self.complete()
        self.taken.story()

    def begun(self) -> list[str]:
        """Begin the next turn, and return what it tells before the agent does."""
        self.taken.take(self.conversation.prompt(self.launch, self.taken.stamp()))
        return self.taken.story()

    def test_the_end_of_a_command_is_told_with_the_next_turn(self) -> None:
        """Once; and nothing else that comes then is."""
        self.leave_running("a")
        self.end_of("a", "slept")
        self.end_of("b", "never begun")
        self.item("agentMessage", text="late")
        self.assertEqual(self.taken.story(), [])
        self.assertEqual(self.begun(), ["result: slept"])
        self.complete()
        self.taken.story()
        self.assertEqual(self.begun(), [])

    def test_of_many_and_of_long_ones_the_last_is_kept(self) -> None:
        """They may end while nobody looks for days."""
        names = [f"c{number}" for number in range(ENDED + 1)]
        self.leave_running(*names)
        for name in names:
            self.end_of(name, f"{name} {'x' * ENDED_TEXT}!")
        told = self.begun()
        self.assertEqual(len(told), ENDED)
        self.assertNotIn("c0 ", told[0])
        self.assertTrue(all(len(one) < ENDED_TEXT + 100 and one.endswith("x!") for one in told))


class OutOfOrder(CodexCase):
    def test_an_answer_to_an_earlier_turn_is_not_this_ones(self) -> None:
        """A turn may have its name, and its end, ahead of the answer to what began it."""
        self.complete()
        asked = []
        for _ in range(2):
            self.taken.take(self.conversation.prompt(self.launch, self.taken.stamp()))
            asked.append(self.sent["id"])
            if len(asked) == 1:
                self.hear("turn/started", turn={"id": "turn-1"})
                self.hear("turn/completed", turn={"id": "turn-1", "status": "completed"})
        self.take({"id": asked[0], "result": {"turn": {"id": "turn-1"}}})
        self.take({"id": asked[1], "result": {"turn": {"id": "turn-2"}}})
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))
        self.assertEqual(self.sent["params"], {"threadId": THREAD, "turnId": "turn-2"})

    def test_a_clean_up_that_nobody_waited_for(self) -> None:
        """Does not end the stop of the next turn before its own."""
        self.complete("interrupted")
        earlier = self.sent["id"]
        self.prompt()
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))
        self.complete("interrupted")
        self.taken.story()
        self.take({"id": earlier, "result": {}})
        self.assertEqual(self.taken.story(), [])
        self.reply()
        self.assertEqual(self.taken.story(), ["interrupted"])

    def test_an_end_before_the_turn_has_its_name(self) -> None:
        """It names the turn, and with that the session is there."""
        self.converse()
        self.reply(thread={"id": THREAD}, model="gpt-x")
        self.taken.take(self.conversation.prompt(self.launch, self.taken.stamp()))
        self.complete()
        self.assertEqual(self.taken.story(), [f"session {THREAD}", "finished"])
        self.reply(turn={"id": TURN})
        self.assertEqual(self.taken.story(), [])

    def test_a_name_that_cannot_be_kept(self) -> None:
        """Is none: a thread has to be asked for again by it."""
        self.converse()
        self.reply(thread={"id": "x" * 201}, model="gpt-x")
        self.assertIn("the agent named no thread", str(self.taken.other[-1]))


class Bounds(CodexCase):
    def test_warnings_that_are_new_each_time(self) -> None:
        """Not all of them are remembered."""
        for number in range(NOTICED * 2):
            self.hear("warning", message=f"careful {number}")
        self.assertEqual(len(self.taken.story()), NOTICED * 2)
        self.assertLessEqual(len(self.conversation._memory.noticed), NOTICED)

    def test_a_call_that_has_ended(self) -> None:
        """Its row is not kept, and it is not shown anew."""
        self.item("commandExecution", "started", command="ls")
        self.item("commandExecution", command="ls", status="completed")
        self.item("commandExecution", "started", command="ls")
        self.assertEqual(self.taken.story(), ["BashToolUse: ls", "result: "])
        turn = self.conversation._turn
        assert turn is not None
        self.assertEqual([one for one in turn._shown.values() if one is not None], [])
