"""Codex's app server, as values and against recordings of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.messages import Compaction, Image, TodoWriteToolUse
from garcon.contract.runs import RowProduced, RunEnded, SessionStarted, Usage
from garcon.contract.steering import Steer, Steered, SteerTarget
from garcon.runtime.agents.codex_protocol import NO_INSTRUCTIONS
from garcon.runtime.agents.codex_settings import USUAL_EFFORTS, effort
from garcon.runtime.agents.conversation import SteerSettled, Unknown
from garcon.test.runtime.agents.codex_cast import THREAD, TURN, CodexCase
from garcon.test.runtime.agents.codex_replay import Player
from garcon.testing.agent_runs import a_launch

EDIT = "item/fileChange/requestApproval"
ITEM: dict[str, Any] = {"type": "agentMessage", "id": "item-1", "text": "hello"}
TOKENS = "thread/tokenUsage/updated"
WARNED = "TranscriptNotice: Model metadata for `scripted-model` not found."


class Recordings(SynchronousTestCase):
    """What really came, turn by turn."""

    def stories(self, name: str) -> dict[str, list[str]]:
        """Play a recording, and return the stories of all its threads, without their beginnings."""
        found = {}
        for number, talk in enumerate(Player().play(name)):
            for title, story in talk.turns.items():
                words = [line for line in story if not line.startswith((WARNED, "session "))]
                found[f"{number}.{title}"] = words
        return found

    def test_approvals(self) -> None:
        """Allowed, denied, taken back by Codex, allowed for good; escalated without a sandbox."""
        stories = self.stories("codex-approvals.jsonl")
        allowed = stories["0.1 a"]
        self.assertEqual([line.split(":")[0] for line in allowed[:3]], _ASKED)
        self.assertIn("CODEX_SANDBOX_NETWORK_DISABLED=1", allowed[2])
        self.assertEqual(allowed[3:], ["AssistantMessage: fin", "finished"])
        self.assertEqual(
            stories["0.2 b"],
            [
                "BashToolUse: touch nope",
                "asked: BashToolUse",
                "result error: This was not allowed.",
                "AssistantMessage: fin2",
                "finished",
            ],
        )
        self.assertEqual(
            stories["0.3 c"][2:],
            ["withdrawn", "result error: This was not allowed.", "interrupted"],
        )
        self.assertEqual(
            stories["0.4 c"][2:],
            ["withdrawn", "result error: This failed.", "AssistantMessage: fin4", "finished"],
        )
        self.assertEqual(
            [line.split(":")[0] for line in stories["0.5 c"]],
            [*_ASKED, *_ASKED[:1], *_ASKED[2:], "AssistantMessage", "finished"],
        )
        self.assertIn("Read-only file system", stories["1.1 d"][1])
        self.assertIn("openai-responses", stories["1.2 e"][2])

    def test_turns(self) -> None:
        """Interrupted in text, steered twice, a command to its end, one interrupted, three
        failures, and an interrupt of a question.
        """
        stories = self.stories("codex-turns.jsonl")
        self.assertEqual(stories["0.1 one"], ["AssistantMessage: part ", "interrupted"])
        self.assertEqual(
            stories["0.2 two"],
            ["AssistantMessage: part one", "AssistantMessage: steered answer", "finished"],
        )
        self.assertEqual(stories["0.3 three"][-1], "finished")
        self.assertEqual(stories["0.4 four"][:2], ["BashToolUse: sleep 2; echo x", "result: x\n"])
        self.assertEqual(
            stories["0.5 five"],
            [
                "BashToolUse: sleep 300; echo x",
                "result error: The call did not end.",
                "interrupted",
            ],
        )
        self.assertEqual(
            stories["0.6 err"],
            ["failed: exceeded retry limit, last status: 429 Too Many Requests"],
        )
        again, failed = stories["0.7 err"]
        self.assertIn("Reconnecting... 1/1", again)
        self.assertIn("(HTTP 500)", failed)
        self.assertEqual(
            stories["1.1 six"][1:],
            ["asked: BashToolUse", "result error: The call did not end.", "interrupted"],
        )

    def test_nothing_in_them_is_unknown(self) -> None:
        """What this version of Codex says is known, to the members of what we read."""
        for name in ("codex-approvals.jsonl", "codex-turns.jsonl"):
            for talk in Player().play(name):
                unknown = [one for one in talk.taken.other if isinstance(one, Unknown)]
                self.assertEqual(unknown, [])

    def test_what_became_of_steers(self) -> None:
        """Delivered, to the wrong turn, and delivered to a command."""
        talk = Player().play("codex-turns.jsonl")[0]
        settled = [one for one in talk.taken.other if isinstance(one, SteerSettled)]
        outcomes = [one.steered.outcome for one in settled]
        self.assertEqual(outcomes, ["delivered", "turn-changed", "delivered"])


_ASKED = ["BashToolUse", "asked", "result"]


class Turns(CodexCase):
    def test_everything_is_said_with_each_turn(self) -> None:
        """What is left out would stay as the turn before has left it."""
        parameters = self.turn["params"]
        self.assertEqual(self.turn["method"], "turn/start")
        self.assertEqual(
            {name: parameters[name] for name in ("threadId", "cwd", "approvalPolicy", "model")},
            {
                "threadId": THREAD,
                "cwd": "/srv/project",
                "approvalPolicy": "on-request",
                "model": "m",
            },
        )
        self.assertEqual(parameters["sandboxPolicy"]["type"], "workspaceWrite")
        self.assertIs(parameters["sandboxPolicy"]["networkAccess"], False)
        self.assertIsNone(parameters["effort"])
        self.assertEqual(parameters["collaborationMode"]["mode"], "default")

    def test_a_picture_alone(self) -> None:
        """No empty text is said with it."""
        self.complete()
        picture = Image(data="data:image/png;base64,AAA")
        for text, kinds in (("", ["image"]), ("look", ["image", "text"])):
            launch = a_launch(text, images=[picture])
            self.taken.take(self.conversation.prompt(launch, self.taken.stamp()))
            self.assertEqual([one["type"] for one in self.sent["params"]["input"]], kinds)

    def test_modes(self) -> None:
        """Policy and sandbox of each mode."""
        for mode, policy, sandbox, collaboration in (
            ("acceptEdits", "on-request", "workspaceWrite", "default"),
            ("manualBypass", "on-request", "workspaceWrite", "default"),
            ("plan", "on-request", "readOnly", "plan"),
            ("bypassPermissions", "never", "dangerFullAccess", "default"),
        ):
            self.begin(mode)
            parameters = self.turn["params"]
            self.assertEqual(parameters["approvalPolicy"], policy, mode)
            self.assertEqual(parameters["sandboxPolicy"]["type"], sandbox, mode)
            self.assertEqual(parameters["collaborationMode"]["mode"], collaboration, mode)

    def test_the_threads_model_is_used_where_the_launch_names_none(self) -> None:
        """A collaboration mode has to name one."""
        self.begin(model="")
        parameters = self.turn["params"]
        self.assertEqual(parameters["model"], "gpt-x")
        self.assertEqual(parameters["collaborationMode"]["settings"]["model"], "gpt-x")

    def test_the_session_is_told_when_it_can_be_resumed(self) -> None:
        """With the turn's name, not before, and once."""
        self.converse()
        self.reply(thread={"id": THREAD}, model="gpt-x")
        self.taken.take(self.conversation.prompt(self.launch, self.taken.stamp()))
        self.assertEqual(self.taken.events, [])
        self.hear("turn/started", turn={"id": TURN})
        self.reply(turn={"id": TURN})
        self.assertEqual(self.taken.events, [SessionStarted(agent_session_id=THREAD)])
        self.complete()
        self.prompt(agent_session_id=THREAD)
        self.assertEqual([e for e in self.taken.events if isinstance(e, SessionStarted)], [])

    def test_a_turn_ends_with_its_anchor(self) -> None:
        """A session can be forked after each turn."""
        self.complete()
        self.assertEqual(self.taken.events, [RunEnded(outcome="finished", anchor=TURN)])

    def test_other_turns_and_threads_end_nothing(self) -> None:
        """Subagents have turns of their own."""
        self.hear("turn/completed", turn={"id": "turn-0", "status": "completed"})
        self.take(
            {
                "method": "turn/completed",
                "params": {"threadId": "other", "turn": {"id": TURN, "status": "completed"}},
            }
        )
        self.take(
            {
                "method": "item/completed",
                "params": {"threadId": "other", "item": {"type": "agentMessage", "text": "sub"}},
            }
        )
        self.assertEqual(self.taken.events, [])

    def test_a_refused_turn_fails(self) -> None:
        """With the refusal's text."""
        self.complete()
        self.taken.take(self.conversation.prompt(self.launch, self.taken.stamp()))
        self.taken.story()
        self.refuse("no such model")
        self.assertEqual(self.taken.story(), ["failed: no such model"])

    def test_a_command_may_go_on_after_its_turn(self) -> None:
        """Its end is shown when it comes in a later turn, and only once."""
        running: dict[str, Any] = {"command": "sleep 9", "processId": "1", "status": "inProgress"}
        self.item("commandExecution", "started", **running)
        self.complete()
        self.assertEqual(
            self.taken.story(),
            [
                "BashToolUse: sleep 9",
                "result: The command still runs in the background.",
                "finished",
            ],
        )
        self.prompt()
        ended = {**running, "status": "completed", "exitCode": 0, "aggregatedOutput": "slept"}
        self.item("commandExecution", **ended)
        self.assertEqual(self.taken.story(), ["result: slept"])

    def test_a_plan_of_steps(self) -> None:
        """Shown as a list of what is to be done."""
        self.hear(
            "turn/plan/updated",
            plan=[
                {"step": "read", "status": "completed"},
                {"step": "write", "status": "inProgress"},
                {"step": "test", "status": "pending"},
            ],
        )
        row = self.taken.events[0]
        assert isinstance(row, RowProduced) and isinstance(row.message, TodoWriteToolUse)
        self.assertEqual(
            [(todo.content, todo.status) for todo in row.message.todos or []],
            [("read", "completed"), ("write", "in_progress"), ("test", "pending")],
        )

    def test_warnings_are_told_once(self) -> None:
        """Codex repeats most with each turn."""
        for _ in range(2):
            self.hear("warning", message="careful")
        self.hear("model/rerouted", fromModel="a", toModel="b")
        self.assertEqual(
            self.taken.story(),
            [
                "TranscriptNotice: careful",
                "TranscriptNotice: The model b answers instead of a.",
            ],
        )

    def test_the_end_of_the_process(self) -> None:
        """It fails the turn, and stops the one that was being stopped."""
        self.taken.take(self.conversation.ended("the agent was killed", self.taken.stamp()))
        self.assertEqual(self.taken.story(), ["failed: the agent was killed"])
        self.taken.take(self.conversation.ended("again", self.taken.stamp()))
        self.assertEqual(self.taken.story(), [])
        self.begin()
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))
        self.taken.take(self.conversation.ended("the agent was killed", self.taken.stamp()))
        self.assertEqual(self.taken.story(), ["interrupted"])


class Efforts(SynchronousTestCase):
    def test_no_more_than_a_model_takes(self) -> None:
        """The most below what is wanted, and the least where there is nothing below."""
        for wanted, supported, used in (
            ("none", USUAL_EFFORTS, None),
            ("low", USUAL_EFFORTS, "low"),
            ("xhigh", USUAL_EFFORTS, "xhigh"),
            ("max", USUAL_EFFORTS, "xhigh"),
            ("ultra", ("low", "max"), "max"),
            ("ultra", ("low", "ultra"), "ultra"),
            ("low", ("medium", "high"), "medium"),
            ("high", (), None),
        ):
            self.assertEqual(effort(wanted, supported), used, (wanted, supported))  # type: ignore[arg-type]


class Interrupts(CodexCase):
    def interrupt(self) -> None:
        """Stop the turn."""
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))

    def test_a_stopped_turn_ends_when_it_is_cleaned_up(self) -> None:
        """Its commands would run on."""
        self.item("commandExecution", "started", command="sleep 9", processId="1")
        self.interrupt()
        self.assertEqual(self.sent["params"], {"threadId": THREAD, "turnId": TURN})
        self.reply()
        self.complete("interrupted")
        self.assertEqual(self.sent["method"], "thread/backgroundTerminals/clean")
        self.assertEqual(
            self.taken.story(), ["BashToolUse: sleep 9", "result error: The call did not end."]
        )
        self.reply()
        self.assertEqual(self.taken.story(), ["interrupted"])

    def test_what_comes_while_it_is_cleaned_up(self) -> None:
        """Rows are too late, requests are denied, and the end of the process is the end."""
        self.interrupt()
        self.complete("interrupted")
        self.item("agentMessage", text="late")
        self.assertEqual(self.taken.story(), [])
        self.ask("item/commandExecution/requestApproval", command="x")
        self.assertEqual(self.sent, {"id": 7, "result": {"decision": "decline"}})
        self.interrupt()
        self.taken.take(self.conversation.ended("gone", self.taken.stamp()))
        self.assertEqual(self.taken.story(), ["interrupted"])

    def test_a_failed_clean_up_is_one_too(self) -> None:
        """The turn is over all the same."""
        self.interrupt()
        self.complete("interrupted")
        self.refuse("unknown method")
        self.assertEqual(self.taken.story(), ["interrupted"])

    def test_a_turn_without_a_name_is_stopped_when_it_has_one(self) -> None:
        """There is nothing to interrupt before."""
        self.complete()
        self.taken.take(self.conversation.prompt(self.launch, self.taken.stamp()))
        self.interrupt()
        self.assertEqual(self.sent["method"], "turn/start")
        self.hear("turn/started", turn={"id": "turn-2"})
        self.assertEqual(self.sent["params"], {"threadId": THREAD, "turnId": "turn-2"})

    def test_a_turn_that_ends_meanwhile(self) -> None:
        """Whatever it says of itself, it was stopped; a second interrupt asks nothing."""
        for status in ("completed", "failed"):
            self.begin()
            self.interrupt()
            asked = len(self.taken.sent)
            self.interrupt()
            self.assertEqual(len(self.taken.sent), asked)
            self.refuse("no active turn to interrupt")
            self.complete(status)
            self.reply()
            self.assertEqual(self.taken.story(), ["interrupted"])

    def test_one_that_codex_interrupts_itself(self) -> None:
        """It is over at once, and cleaned up after."""
        self.complete("interrupted")
        self.assertEqual(self.sent["method"], "thread/backgroundTerminals/clean")
        self.assertEqual(self.taken.story(), ["interrupted"])
        self.reply()
        self.assertEqual(self.taken.story(), [])

    def test_without_a_turn_there_is_nothing_to_stop(self) -> None:
        """Nothing is written."""
        self.complete()
        self.assertEqual(self.conversation.interrupt(self.taken.stamp()), [])


class Steering(CodexCase):
    def steer(self, turn: str = TURN) -> None:
        """Give the turn further input."""
        steer = Steer(
            target=SteerTarget(run_id="run", turn=turn), client_message_id="m-1", content="more"
        )
        self.taken.take(self.conversation.steer(steer))

    def outcome(self) -> Steered:
        """What became of it."""
        settled = self.taken.other[-1]
        assert isinstance(settled, SteerSettled)
        return settled.steered

    def test_what_is_asked(self) -> None:
        """With the turn that it is meant for."""
        target = self.conversation.capture_steering().target
        self.assertEqual(target, SteerTarget(run_id=self.launch.run_id, turn=TURN))
        self.steer("turn-0")
        self.assertEqual(
            self.sent["params"],
            {
                "threadId": THREAD,
                "expectedTurnId": "turn-0",
                "clientUserMessageId": "m-1",
                "input": [{"type": "text", "text": "more", "text_elements": []}],
            },
        )

    def test_outcomes(self) -> None:
        """As it is told, in words for the most part."""
        self.steer()
        self.reply(turnId=TURN)
        self.assertEqual(self.outcome(), Steered(outcome="delivered"))
        for text, more, outcome in (
            ("no active turn to steer", {}, "turn-unavailable"),
            ("expected active turn id `a` but found `b`", {}, "turn-changed"),
            (
                "cannot steer",
                {"data": {"codexErrorInfo": {"activeTurnNotSteerable": {"turnKind": "review"}}}},
                "not-steerable",
            ),
            ("too long", {}, "rejected"),
        ):
            self.steer()
            self.refuse(text, **more)
            self.assertEqual(self.outcome(), Steered(outcome=outcome, text=text))  # type: ignore[arg-type]

    def test_when_there_is_nothing_to_steer(self) -> None:
        """Before a turn has its name, when it is being stopped, and after it."""
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))
        self.must_be("turn-unavailable")
        self.complete("interrupted")
        self.must_be("turn-unavailable")
        self.reply()
        self.must_be("turn-unavailable")
        self.taken.take(self.conversation.prompt(self.launch, self.taken.stamp()))
        self.must_be("turn-unavailable")

    def must_be(self, outcome: str) -> None:
        self.assertEqual(self.conversation.capture_steering().outcome, outcome)
        self.steer()
        self.assertEqual(self.outcome().outcome, outcome)

    def test_a_compaction_cannot_be_steered(self) -> None:
        """It takes no input."""
        self.complete()
        self.prompt(is_compaction=True)
        self.assertEqual(self.conversation.capture_steering().outcome, "not-steerable")


class Compactions(CodexCase):
    def use(self, tokens: int) -> None:
        """Let it count the tokens of its last request."""
        self.hear("thread/tokenUsage/updated", tokenUsage={"last": {"totalTokens": tokens}})

    def compaction(self) -> Compaction:
        """The row of it."""
        rows = [e.message for e in self.taken.events if isinstance(e, RowProduced)]
        found = [row for row in rows if isinstance(row, Compaction)]
        return found[-1]

    def test_by_request(self) -> None:
        """A turn of its own, with the tokens before and after."""
        self.use(9000)
        self.complete()
        self.taken.take(self.conversation.prompt(self.compact(), self.taken.stamp()))
        self.assertEqual(self.sent["method"], "thread/compact/start")
        self.assertEqual(self.sent["params"], {"threadId": THREAD})
        self.reply()
        self.hear("turn/started", turn={"id": "turn-2"})
        self.item("contextCompaction", "started")
        self.use(700)
        self.item("contextCompaction")
        row = self.compaction()
        self.assertEqual((row.trigger, row.pre_tokens, row.post_tokens), ("manual", 9000, 700))
        self.hear("turn/completed", turn={"id": "turn-2", "status": "completed"})
        self.assertEqual(self.taken.events[-1], RunEnded(outcome="finished", anchor="turn-2"))

    def test_by_itself(self) -> None:
        """In the midst of a turn."""
        self.item("contextCompaction", "started")
        self.item("contextCompaction")
        self.assertEqual(self.compaction().trigger, "auto")

    def test_instructions_are_left_out_with_a_word(self) -> None:
        """Codex takes none."""
        self.complete()
        self.taken.take(self.conversation.prompt(self.compact("keep names"), self.taken.stamp()))
        self.assertIn(f"TranscriptNotice: {NO_INSTRUCTIONS}", self.taken.story())

    def compact(self, instructions: str = "") -> Any:
        return replace(self.launch, is_compaction=True, prompt=instructions)


class Unknowns(CodexCase):
    def kinds(self) -> list[str]:
        """What was found to be unknown."""
        return [one.kind for one in self.taken.other if isinstance(one, Unknown)]

    def test_messages_that_mean_nothing_are_no_surprise(self) -> None:
        """They are known."""
        self.hear("thread/name/updated", name="x")
        self.take({"method": "account/updated", "params": {}})
        self.assertEqual(self.kinds(), [])

    def test_what_is_new_is_kept_and_stops_nothing(self) -> None:
        """Methods, kinds of items, members of items, and answers to nothing."""
        self.hear("turn/applauded", volume=3)
        self.item("dream", text="x")
        self.item("agentMessage", text="hello", mood="fine")
        self.take({"id": 4711, "result": {}})
        self.take({"hello": 1})
        self.assertEqual(
            self.kinds(),
            ["turn/applauded", "item.dream", "item.agentMessage.mood", "message", "message"],
        )
        self.assertEqual(self.taken.story(), ["AssistantMessage: hello"])

    def test_new_members_are_kept(self) -> None:
        """Of notifications, of what they hold, and of requests: each is told once."""
        told: tuple[tuple[str, Callable[[], None]], ...] = (
            ("item/started.mood", partial(self.hear, "item/started", item=ITEM, mood=1)),
            ("warning.mood", partial(self.hear, "warning", message="x", mood=1)),
            ("turn.mood", partial(self.hear, "turn/started", turn={"id": TURN, "mood": 1})),
            ("error.mood", partial(self.hear, "error", error={"message": "x", "mood": 1})),
            ("error.mood", partial(self.complete, "failed", error={"message": "x", "mood": 1})),
            ("tokenUsage.mood", partial(self.hear, TOKENS, tokenUsage={"mood": 1})),
            (f"{EDIT}.mood", partial(self.ask, EDIT, mood=1)),
        )
        for kind, say in told:
            self.begin()
            self.taken.other.clear()
            say()
            self.assertEqual(self.kinds(), [kind])

    def test_what_is_new_is_kept_outside_of_a_turn_too(self) -> None:
        """Between turns, and where a subagent says it."""
        self.hear("item/completed", threadId="other", item={**ITEM, "mood": 1})
        self.complete()
        self.hear("warning", message="x", mood=1)
        self.ask(EDIT, mood=1)
        self.assertEqual(self.kinds(), ["item.agentMessage.mood", "warning.mood", f"{EDIT}.mood"])
        self.assertEqual(self.sent["result"], {"decision": "decline"})

    def test_an_end_of_a_new_kind_is_a_failure(self) -> None:
        """Nobody has stopped it, so that is not what is told; unless somebody has."""
        self.complete("novel", error={"message": "as never before"})
        self.assertEqual(self.kinds(), ["turn.status.novel"])
        self.assertEqual(self.taken.story(), ["failed: as never before"])
        self.begin()
        self.complete("interrupted")
        self.assertEqual((self.kinds(), self.taken.story()), ([], ["interrupted"]))
        self.begin()
        self.taken.take(self.conversation.interrupt(self.taken.stamp()))
        self.complete("novel")
        self.reply()
        self.assertEqual(self.taken.story(), ["interrupted"])

    def test_every_request_is_answered(self) -> None:
        """Those that are known and not served by an error as well, but they are no news."""
        for method, is_news in (("item/tool/call", False), ("moon/requestPhase", True)):
            self.taken.other.clear()
            self.ask(method, "r-1")
            self.assertEqual(self.sent["id"], "r-1")
            self.assertEqual(self.sent["error"]["code"], -32601)
            self.assertEqual(bool(self.kinds()), is_news)


class Usages(CodexCase):
    def use(self, total: tuple[int, int], last: tuple[int, int], window: int = 1000) -> None:
        """Let it count."""
        counted = [
            {"inputTokens": given, "outputTokens": made, "totalTokens": given + made}
            for given, made in (total, last)
        ]
        self.hear(
            "thread/tokenUsage/updated",
            tokenUsage={"total": counted[0], "last": counted[1], "modelContextWindow": window},
        )

    def used(self) -> Usage | None:
        """What the turn that has just ended used."""
        (end,) = [event for event in self.taken.events if isinstance(event, RunEnded)]
        return end.usage

    def test_each_turn_has_what_it_used(self) -> None:
        """Of a thread whose totals have a past; what is told twice counts once."""
        self.use((510, 205), (10, 5))
        self.use((510, 205), (10, 5))
        self.use((530, 215), (20, 10))
        self.complete()
        self.assertEqual(self.used(), Usage(input_tokens=30, output_tokens=15, context_window=1000))
        self.taken.events.clear()
        self.prompt()
        self.use((531, 217), (1, 2))
        self.complete()
        self.assertEqual(self.used(), Usage(input_tokens=1, output_tokens=2, context_window=1000))

    def test_nothing_used_is_nothing_told(self) -> None:
        """Also where the counts are none."""
        self.hear("thread/tokenUsage/updated", tokenUsage={"total": {"inputTokens": "x"}})
        self.hear("thread/tokenUsage/updated")
        self.complete()
        self.assertIsNone(self.used())
