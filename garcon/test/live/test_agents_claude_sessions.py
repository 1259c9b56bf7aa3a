"""The real Claude Code on this machine: steered, told of other settings, compacted, forked, read
back, and over a profile's endpoint.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from garcon.contract.catalogs import AgentSettings
from garcon.contract.messages import (
    AssistantMessage,
    BashToolUse,
    Compaction,
    Image,
    TaskToolUse,
    Thinking,
    ToolResult,
    TranscriptNotice,
    UserMessage,
)
from garcon.contract.providers import ResolvedEndpoint
from garcon.contract.runs import (
    ForkPoint,
    HistoryMessage,
    NativeRow,
    NativeSession,
    PermissionRequested,
    RowProduced,
    RunEnded,
    SessionStarted,
    UnknownEvent,
)
from garcon.contract.steering import Steer
from garcon.errors import GarconError
from garcon.runtime.executor import LocalRuntime
from garcon.runtime.interfaces import ICredentials
from garcon.testing.agent_runs import RecordingSink, a_response
from garcon.testing.local_runtimes import ClaudeRuntimeCase, runs
from garcon.testing.models.script import Call, Fail, Hold, Text, Turn, said

PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAW"
    "jR9awAAAABJRU5ErkJggg=="
)
SECRET = "sk-very-secret-key"


@implementer(ICredentials)
class OneEndpoint:
    """Knows one endpoint, or none."""

    def __init__(self) -> None:
        self.endpoint: ResolvedEndpoint | None = None

    def resolve(self, profile_id: str, endpoint_id: str) -> Deferred[ResolvedEndpoint]:
        if self.endpoint is None:
            return fail(GarconError("API_PROVIDER_UNAVAILABLE", "no such endpoint", status=404))
        return succeed(self.endpoint)


class SessionsCase(ClaudeRuntimeCase):
    """A runtime with Claude Code."""

    def setUp(self) -> None:
        super().setUp()
        self.profiles = self.credentials = OneEndpoint()
        self.claude: LocalRuntime = self.a_runtime()

    async def go(self, prompt: str, **changes: Any) -> tuple[str, RecordingSink]:
        """Begin a turn and return its run id and what it says."""
        usual = {"agent_id": "claude", "model": "sonnet"}
        launch, sink = await self.begin(self.claude, prompt, **(usual | changes))
        return launch.run_id, sink

    async def whole(self, prompt: str, **changes: Any) -> RecordingSink:
        """Run a turn to its end, which is a good one; nothing of it is unknown."""
        _, sink = await self.go(prompt, **changes)
        end = await sink.ended(60.0)
        self.assertEqual((end.outcome, end.error), ("finished", None))
        self.assertEqual(sink.of(UnknownEvent), [])
        return sink

    async def steer(self, run_id: str, content: str) -> str:
        """Hand in further input and return what became of it."""
        capture = await self.claude.capture_steering(run_id)
        assert capture.target is not None, capture
        steer = Steer(target=capture.target, client_message_id=content, content=content)
        return (await self.claude.steer(steer)).outcome

    def process_id(self) -> int:
        """The process of the chat."""
        (slot,) = self.claude._sessions._slots.values()
        pid = slot.session.process_id  # type: ignore[attr-defined]
        assert isinstance(pid, int)
        return pid

    def last_said(self) -> str:
        """What the model was told last."""
        return json.dumps(self.script.asked[-1].body["messages"], ensure_ascii=False)

    async def history(self, session_id: str) -> list[NativeRow]:
        """Read a session back."""
        rows: list[NativeRow] = []

        def take(some: Sequence[NativeRow]) -> Deferred[None]:
            rows.extend(some)
            return succeed(None)

        session = NativeSession("claude", session_id, str(self.project))
        await self.claude.read_history(session, take)
        return rows


class Steering(SessionsCase):
    """Further input for a turn that runs."""

    async def test_while_a_tool_runs(self) -> None:
        """It is delivered at once, taken up at the tool's end, and the turn is one."""
        self.script.push(said(Call("Bash", {"command": "touch on; sleep 1; echo slept"})), "Both.")
        run_id, sink = await self.go("sleep", permission_mode="manualBypass")
        await self.eventually(lambda: (self.project / "on").exists(), "the command")
        self.assertEqual(await self.steer(run_id, "and hurry"), "delivered")
        self.assertEqual(sink.results, [])
        await sink.ended()
        self.assertEqual((sink.texts, sink.results), (["Both."], [("slept", False)]))
        self.assertIn("and hurry", self.last_said())
        self.assertEqual(len(self.script.asked), 2)

    async def test_while_the_model_speaks(self) -> None:
        """It is heard at once: what was said so far stays, and another answer follows."""
        self.script.push(said(Text("Half of "), Hold("never"), Text("it.")), "Something else.")
        run_id, sink = await self.go("talk")
        await sink.until(lambda: bool(sink.texts), "the beginning of the answer")
        self.assertEqual(await self.steer(run_id, "about cats"), "delivered")
        end = await sink.ended()
        self.assertEqual(end.outcome, "finished")
        self.assertEqual(sink.texts, ["Half of ", "Something else."])
        self.assertIn("about cats", self.last_said())

    async def test_several_are_all_heard(self) -> None:
        """In order, in one run."""
        self.script.push(
            said(Call("Bash", {"command": "touch on; sleep 1"})), "one", "two", "three"
        )
        run_id, sink = await self.go("work", permission_mode="manualBypass")
        await self.eventually(lambda: (self.project / "on").exists(), "the command")
        for content in ("first more", "second more", "third more"):
            self.assertEqual(await self.steer(run_id, content), "delivered")
        await sink.ended()
        heard = self.last_said()
        places = [heard.index(text) for text in ("first more", "second more", "third more")]
        self.assertEqual(places, sorted(places))
        self.assertEqual(len(sink.of(RunEnded)), 1)

    async def test_one_that_waits_does_not_run_after_a_stop(self) -> None:
        """The next turn hears only what it brings itself."""
        self.script.push(said(Call("Bash", {"command": "touch on; sleep 60"})), "never", "never")
        run_id, sink = await self.go("work", permission_mode="manualBypass")
        await self.eventually(lambda: (self.project / "on").exists(), "the command")
        self.assertEqual(await self.steer(run_id, "waits"), "delivered")
        await self.claude.abort(run_id)
        self.assertEqual((await sink.ended(5.0)).outcome, "interrupted")
        self.script.turns.clear()
        self.script.push("fine")
        after = await self.whole("go on", agent_session_id=sink.session_id)
        self.assertEqual(after.texts, ["fine"])
        self.assertEqual(len(self.script.asked), 2)

    async def test_the_catalog_says_so(self) -> None:
        """What is shown here, and no more."""
        (entry,) = await self.claude.catalog("claude")
        self.assertTrue(entry.supports_steering and entry.supports_compact)
        self.assertTrue(entry.accepts_api_provider_endpoints and entry.supports_images)
        self.assertEqual(entry.native_fork, "message")
        self.assertFalse(entry.supports_goals)


class Settings(SessionsCase):
    """Turns of one chat with different settings."""

    async def test_another_model_effort_and_mode_in_the_same_process(self) -> None:
        """Each is in force for the turn that asked for it."""
        self.script.push("one", "two", said(Call("Bash", {"command": "touch made"})), "three")
        first = await self.whole("turn 1", model="haiku")
        session, pid = first.session_id, self.process_id()
        self.assertIn("haiku", self.script.asked[-1].body["model"])
        changed = {"model": "sonnet", "thinking_mode": "max", "agent_session_id": session}
        await self.whole("turn 2", **changed)
        asked = self.script.asked[-1].body
        self.assertIn("sonnet", asked["model"])
        self.assertEqual(asked["output_config"]["effort"], "max")
        sink = await self.whole("turn 3", permission_mode="acceptEdits", **changed)
        self.assertEqual(sink.of(PermissionRequested), [])
        self.assertTrue((self.project / "made").exists())
        self.assertEqual(self.process_id(), pid)

    async def test_plan_is_left_and_taken_again(self) -> None:
        """By the mode that each turn asks for."""
        write = Call("Write", {"file_path": str(self.project / "made"), "content": "x"})
        self.script.push("one", said(write), "two", said(write), "three")
        first = await self.whole("turn 1")
        more = {"agent_session_id": first.session_id}
        second = await self.whole("turn 2", permission_mode="plan", **more)
        self.assertEqual([row.is_error for row in second.rows(ToolResult)], [True])
        self.assertFalse((self.project / "made").exists())
        await self.whole("turn 3", permission_mode="acceptEdits", **more)
        self.assertTrue((self.project / "made").exists())

    async def test_bypass_is_a_process_of_its_own(self) -> None:
        """The session goes on in it; it asks for nothing."""
        self.environment["IS_SANDBOX"] = "1"  # only tests run it as root
        self.claude = self.a_runtime()
        outside = self.project.parent / "outside"
        self.script.push("one", said(Call("Bash", {"command": f"touch {outside}"})), "two")
        first = await self.whole("turn 1")
        pid, more = self.process_id(), {"agent_session_id": first.session_id}
        second = await self.whole("turn 2", permission_mode="bypassPermissions", **more)
        self.assertNotEqual(self.process_id(), pid)
        self.assertEqual((second.of(PermissionRequested), second.texts), ([], ["two"]))
        self.assertTrue(outside.exists())
        self.assertIn("turn 1", self.last_said())

    async def test_thinking_is_a_process_of_its_own(self) -> None:
        """It cannot be told how to think while it runs; the session goes on."""
        self.script.push("one", "two")
        first = await self.whole("turn 1")
        usual = self.script.asked[-1].body["thinking"]
        settings = AgentSettings("claude", 1, {"claudeThinkingMode": "off"})
        second = await self.whole(
            "turn 2", agent_settings=settings, agent_session_id=first.session_id
        )
        self.assertEqual(second.texts, ["two"])
        self.assertNotEqual(self.script.asked[-1].body["thinking"], usual)
        self.assertIn("turn 1", self.last_said())


class Memory(SessionsCase):
    """What a session is, and what is made of it."""

    async def test_a_fork_at_a_message(self) -> None:
        """It knows all up to there and nothing later, tools included; the parent is as it was."""
        self.script.push(said("I will.", Call("Bash", {"command": "echo from-tool"})), "Done.")
        first = await self.whole("one")
        parent = first.session_id
        anchors = [
            e.anchor for e in first.of(RowProduced) if isinstance(e.message, AssistantMessage)
        ]
        self.script.push("Two.")
        await self.whole("the heron", agent_session_id=parent)
        self.assertEqual(len(set(anchors)), 2)
        self.script.push("forked")
        point = ForkPoint(parent, anchors[1])
        told = [HistoryMessage("user", "one")]
        fork = await self.whole(
            "the branch", chat_id="1700000000000002", fork_from=point, history=told
        )
        started = fork.of(SessionStarted)[0]
        self.assertTrue(started.is_fork)
        self.assertNotEqual(started.agent_session_id, parent)
        heard = self.last_said()
        for text in ("one", "from-tool", "Done.", "the branch"):
            self.assertIn(text, heard)
        for text in ("the heron", "Two.", "Below is the conversation"):
            self.assertNotIn(text, heard)
        self.script.push("on", "still")
        await self.whole(
            "more", chat_id="1700000000000002", agent_session_id=started.agent_session_id
        )
        self.assertIn("the branch", self.last_said())
        await self.whole("parent again", agent_session_id=parent)
        self.assertIn("the heron", self.last_said())
        self.assertNotIn("the branch", self.last_said())

    async def test_a_fork_after_an_interrupted_tool(self) -> None:
        """The end of a turn that was stopped is a point like any other."""
        self.script.push(said("Now.", Call("Bash", {"command": "touch on; sleep 60"})))
        run_id, sink = await self.go("work", permission_mode="manualBypass")
        await self.eventually(lambda: (self.project / "on").exists(), "the command")
        await self.claude.abort(run_id)
        end = await sink.ended(5.0)
        self.assertIsNotNone(end.anchor)
        self.script.push("forked")
        point = ForkPoint(sink.session_id, end.anchor)
        fork = await self.whole("the branch", chat_id="1700000000000002", fork_from=point)
        self.assertTrue(fork.of(SessionStarted)[0].is_fork)
        self.assertIn("sleep 60", self.last_said())

    async def test_a_fork_that_cannot_be_made_is_told_what_was_said(self) -> None:
        """Its parent's session is gone, or was compacted since: it begins one of its own."""
        self.script.push("one", "two", "a summary")
        first = await self.whole("first")
        anchor = first.of(RunEnded)[0].anchor
        await self.whole("second", agent_session_id=first.session_id)
        await self.whole("", agent_session_id=first.session_id, is_compaction=True)
        gone = "00000000-0000-4000-8000-000000000000"
        told = [HistoryMessage("user", "first"), HistoryMessage("assistant", "one")]
        for number, session in enumerate((gone, first.session_id)):
            self.script.turns.clear()
            self.script.push("anew")
            fork = await self.whole(
                "the branch",
                chat_id=f"170000000000000{number + 2}",
                fork_from=ForkPoint(session, anchor),
                history=told,
            )
            self.assertFalse(fork.of(SessionStarted)[0].is_fork)
            self.assertIn("Below is the conversation", self.last_said())

    async def test_compaction(self) -> None:
        """What to keep is told; the summary is a row, and the session goes on from it."""
        self.script.push("one", "more", "THE SUMMARY", "two")
        first = await self.whole("remember me")
        more = {"agent_session_id": first.session_id}
        await self.whole("and me", **more)
        sink = await self.whole("keep the names", is_compaction=True, **more)
        (row,) = sink.rows(Compaction)
        self.assertEqual(row.trigger, "manual")
        self.assertIn("THE SUMMARY", row.summary)
        self.assertIn("keep the names", self.last_said())
        after = await self.whole("go on", **more)
        self.assertEqual(after.texts, ["two"])
        self.assertIn("THE SUMMARY", self.last_said())

    async def test_a_compaction_that_comes_to_nothing_fails(self) -> None:
        """And the session goes on as it was."""
        self.script.push("one", "more")
        first = await self.whole("remember me")
        await self.whole("and me", agent_session_id=first.session_id)
        self.script.push(*[Turn((Fail(400, message="prompt is too long"),))] * 3)
        more = {"agent_session_id": first.session_id}
        _, sink = await self.go("", is_compaction=True, **more)
        end = await sink.ended(30.0)
        self.assertEqual(end.outcome, "failed")
        assert end.error is not None
        self.assertIn("ompaction failed", end.error.message)
        self.script.turns.clear()
        self.script.push("two")
        self.assertEqual((await self.whole("go on", **more)).texts, ["two"])

    async def test_clear_changes_the_session(self) -> None:
        """The new name is told, is the one that is gone on with, and knows nothing of before."""
        self.script.push("one", "two", "three")
        first = await self.whole("the heron")
        cleared = await self.whole("/clear", agent_session_id=first.session_id)
        self.assertNotEqual(cleared.session_id, first.session_id)
        await self.whole("the magpie", agent_session_id=cleared.session_id)
        self.assertNotIn("the heron", self.last_said())
        await self.claude.stop()
        self.claude = self.a_runtime()
        await self.whole("the heron", agent_session_id=cleared.session_id)
        self.assertIn("the magpie", self.last_said())

    async def test_what_it_remembers_is_what_was_shown(self) -> None:
        """Its file gives the same rows again: input, further input, tools, failures, compactions
        and forks.
        """
        self.script.push(said("I will.", Call("Bash", {"command": "touch on; sleep 1"})), "Done.")
        run_id, sink = await self.go("work", permission_mode="manualBypass")
        await self.eventually(lambda: (self.project / "on").exists(), "the command")
        await self.steer(run_id, "and more")
        await sink.ended()
        session = sink.session_id
        await self.whole("/cost", agent_session_id=session)
        self.script.push("A picture.", "THE SUMMARY", "After.")
        picture = [Image(data=PICTURE, mime_type="image/png")]
        await self.whole("look", images=picture, agent_session_id=session)
        self.assertIn(PICTURE.partition(",")[2], self.last_said())
        await self.whole("", is_compaction=True, agent_session_id=session)
        await self.whole("go on", agent_session_id=session)
        rows = await self.history(session)
        shown = [
            getattr(row, "content", getattr(row, "command", None))
            for row in rows
            if isinstance(row, UserMessage | AssistantMessage | BashToolUse)
        ]
        self.assertEqual(
            shown,
            [
                *("work", "I will.", "touch on; sleep 1", "and more", "Done."),
                *("look", "A picture.", "go on", "After."),
            ],
        )
        self.assertEqual(len([row for row in rows if isinstance(row, ToolResult)]), 1)
        (compaction,) = [row for row in rows if isinstance(row, Compaction)]
        self.assertIn("THE SUMMARY", compaction.summary)
        (look,) = [row for row in rows if isinstance(row, UserMessage) and row.content == "look"]
        assert isinstance(look.images, list)
        self.assertEqual(look.images[0].data, PICTURE)

    async def test_a_session_that_is_not_here(self) -> None:
        """Is told as such."""
        with self.assertRaises(GarconError) as caught:
            await self.history("00000000-0000-4000-8000-000000000000")
        self.assertEqual(caught.exception.code, "HISTORY_LOAD_FAILED")


class Work(SessionsCase):
    """What shows while it works."""

    async def test_a_subagent(self) -> None:
        """Its calls are rows and are asked for; its answer is the result of the call that began
        it.
        """
        task = Call(
            "Agent",
            {"description": "look", "prompt": "LOOK", "subagent_type": "general-purpose"},
        )
        self.script.push(
            said(task), said(Call("Bash", {"command": "touch sub"})), "I saw it.", "So."
        )
        run_id, sink = await self.go("delegate")
        asked = await sink.asked()
        assert isinstance(asked.requested_tool, BashToolUse)
        await self.claude.respond(a_response(run_id, asked))
        await sink.ended(30.0)
        self.assertEqual(len(sink.rows(TaskToolUse)), 1)
        self.assertEqual([row.command for row in sink.rows(BashToolUse)], ["touch sub"])
        self.assertEqual([is_error for _, is_error in sink.results], [False, False])
        self.assertIn("I saw it.", sink.results[1][0])
        self.assertEqual((sink.texts, sink.of(UnknownEvent)), (["So."], []))
        self.assertEqual(sink.rows(Thinking), [])

    async def test_a_request_that_is_sent_again(self) -> None:
        """Shows as a notice, and the turn goes on."""
        self.script.push(Turn((Fail(529, kind="overloaded_error", message="busy"),)), "There.")
        sink = await self.whole("go")
        (notice,) = sink.rows(TranscriptNotice)
        self.assertIn("529", notice.content)
        self.assertEqual(sink.texts, ["There."])

    async def test_what_goes_on_in_the_background(self) -> None:
        """Does not keep the turn; what the agent says of its end is told with the next one."""
        call = Call("Bash", {"command": "touch begun; sleep 1", "run_in_background": True})
        self.script.push(said(call), "Started.", "It has ended.", "Next.")
        first = await self.whole("work", permission_mode="manualBypass")
        self.assertEqual(first.texts, ["Started."])
        (slot,) = self.claude._sessions._slots.values()
        talk = slot.session._member.conversation  # type: ignore[attr-defined]
        await self.eventually(lambda: talk._alone != "", "its own turn")
        second = await self.whole("and", agent_session_id=first.session_id)
        (notice,) = second.rows(TranscriptNotice)
        self.assertIn("It has ended.", notice.content)
        self.assertEqual(second.texts, ["Next."])

    async def test_what_a_turn_used(self) -> None:
        """Is told with its end, with the version of the agent."""
        self.script.push(Turn((Text("one"),), usage=(100, 20)), Turn((Text("two"),), usage=(7, 3)))
        first = await self.whole("go")
        second = await self.whole("on", agent_session_id=first.session_id)
        for sink, given, made in ((first, 100, 20), (second, 7, 3)):
            end = sink.of(RunEnded)[0]
            self.assertEqual(end.agent_version, "2.1.197")
            assert end.usage is not None
            self.assertEqual((end.usage.input_tokens, end.usage.output_tokens), (given, made))
            self.assertEqual(end.usage.context_window, 200_000)

    async def test_its_own_commands(self) -> None:
        """Answer without a model, and end their turn."""
        sink = await self.whole("/cost")
        self.assertIn("cost", sink.texts[0])
        self.assertEqual(self.script.asked, [])

    async def test_the_environment_of_its_tools(self) -> None:
        """They find this executor, and none of the marks that Claude Code sets for itself before
        it was started.
        """
        names = "$GARCON_CONFIG_DIR $GARCON_RUNTIME"
        self.script.push(said(Call("Bash", {"command": f"echo {names}"})), "So.")
        sink = await self.whole("look", permission_mode="manualBypass")
        self.assertEqual(sink.results, [(f"{self.project / 'config'} controller", False)])


class Endpoints(SessionsCase):
    """Models of profiles."""

    def setUp(self) -> None:
        super().setUp()
        base = self.environment["ANTHROPIC_BASE_URL"]
        self.credentials.endpoint = ResolvedEndpoint(
            protocol="anthropic-messages",
            base_url=f"{base}/v1",
            api_key=SECRET,
            headers={"X-Team": "secret-team"},
            revision=1,
        )
        # Its own account leads nowhere: what is answered was reached by the endpoint.
        self.environment["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
        self.environment["ANTHROPIC_AUTH_TOKEN"] = "the users own"
        self.claude = self.a_runtime()
        self.routing = {
            "model": "endpoint:glm-5",
            "api_provider_id": "profile",
            "model_endpoint_id": "endpoint",
            "model_protocol": "anthropic-messages",
        }

    async def test_a_turn(self) -> None:
        """It is asked with its key, its headers and its own name of the model."""
        self.script.push("hello")
        sink = await self.whole("hi", **self.routing)
        self.assertEqual(sink.texts, ["hello"])
        for asked in self.script.asked:
            headers = {name.lower(): value for name, value in asked.headers.items()}
            self.assertEqual(headers["x-api-key"], SECRET)
            self.assertEqual(headers["x-team"], "secret-team")
            self.assertNotIn("the users own", str(headers))
            self.assertEqual(asked.model, "glm-5")

    async def test_the_key_does_not_come_back(self) -> None:
        """Its tools can read it; what they print of it is taken out of every row, and so is what
        the provider says of it when it fails.
        """
        show = Call("Bash", {"command": 'echo "key: $ANTHROPIC_API_KEY"'})
        self.script.push(said(f"It is {SECRET}.", show), f"So {SECRET}")
        sink = await self.whole("tell", permission_mode="manualBypass", **self.routing)
        self.assertEqual(sink.texts, ["It is [secret].", "So [secret]"])
        self.assertEqual(sink.results, [("key: [secret]", False)])
        self.script.push(Turn((Fail(400, message=f"bad key {SECRET}"),)))
        _, failed = await self.go("again", agent_session_id=sink.session_id, **self.routing)
        end = await failed.ended(30.0)
        assert end.error is not None
        self.assertIn("bad key [secret]", end.error.message)
        self.assertNotIn(SECRET, repr((sink.events, failed.events)))

    async def test_the_key_is_in_that_child_only(self) -> None:
        """Not in its arguments, and not in a process for a model of its own."""
        self.script.push("hello")
        await self.whole("hi", **self.routing)
        process = Path(f"/proc/{self.process_id()}")
        self.assertNotIn(SECRET.encode(), (process / "cmdline").read_bytes())
        self.assertIn(SECRET.encode(), (process / "environ").read_bytes())
        self.assertNotIn(SECRET, str(self.claude._environment))
        self.assertNotIn(SECRET, str(dict(os.environ)))

    async def test_another_endpoint_is_another_process(self) -> None:
        """The session goes on."""
        self.script.push("one", "two")
        first = await self.whole("turn 1", **self.routing)
        pid = self.process_id()
        assert self.credentials.endpoint is not None
        self.credentials.endpoint = ResolvedEndpoint(
            protocol="anthropic-messages",
            base_url=self.credentials.endpoint.base_url,
            revision=2,
        )
        second = await self.whole("turn 2", agent_session_id=first.session_id, **self.routing)
        self.assertEqual(second.texts, ["two"])
        self.assertNotEqual(self.process_id(), pid)
        self.assertFalse(runs(pid))
        self.assertIn("turn 1", self.last_said())

    async def test_an_endpoint_that_is_not_there(self) -> None:
        """Refuses the launch, and nothing was started."""
        self.credentials.endpoint = None
        with self.assertRaises(GarconError) as caught:
            await self.go("hi", **self.routing)
        self.assertEqual(caught.exception.code, "API_PROVIDER_UNAVAILABLE")
        self.assertEqual(self.claude._sessions._slots, {})
