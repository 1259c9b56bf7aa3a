"""The real Pi on Local, against a pretend model server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from twisted.internet.defer import Deferred, succeed

from garcon.contract.messages import Compaction, Image, TranscriptNotice
from garcon.contract.providers import ResolvedEndpoint
from garcon.contract.runs import (
    ForkPoint,
    NativeSession,
    PermissionAutoResolved,
    PermissionRequested,
    RowProduced,
    RunEnded,
    SessionPoint,
    SessionStarted,
    UnknownEvent,
)
from garcon.contract.steering import Steer
from garcon.runtime.agents.pi_history import can_fork
from garcon.test.live.codex_cases import PIXEL, running
from garcon.test.runtime.agents.direct_shell import FakeCredentials
from garcon.test.runtime.agents.test_pi_history import text
from garcon.testing.agent_runs import RecordingSink, a_launch, a_response
from garcon.testing.local_runtimes import PiRuntimeCase
from garcon.testing.models.anthropic import AnthropicMessages
from garcon.testing.models.script import Call, Fail, Hold, Script, Turn, said
from garcon.testing.pi_coding_agent import (
    ASKING_TOOL,
    MODEL,
    OTHER_MODEL,
    VERSION,
    add_extension,
)

FRESH = """
export default function (pi) {
  pi.registerCommand("fresh", { handler: async (_args, ctx) => { await ctx.newSession(); } });
}
"""
KEY, TEAM = "!sk-$profile-key-1", "team-$token-2"


def bash(command: str) -> Call:
    """Return a call of the shell."""
    return Call("bash", {"command": command})


class PiCase(PiRuntimeCase):
    """Whatever a test is about, nothing that this version of Pi says may be unknown."""

    def setUp(self) -> None:
        super().setUp()
        self.pi = self.a_runtime()
        self._sinks: list[RecordingSink] = []
        self.addCleanup(self._check)

    def _check(self) -> None:
        for sink in self._sinks:
            self.assertEqual(sink.of(UnknownEvent), [])

    async def go(self, prompt: str, **changes: Any) -> tuple[str, RecordingSink]:
        """Begin a turn and return its run id and what it says."""
        launch, sink = await self.begin(
            self.pi, prompt, **({"agent_id": "pi", "model": MODEL} | changes)
        )
        self._sinks.append(sink)
        return launch.run_id, sink

    async def whole(self, prompt: str, **changes: Any) -> RecordingSink:
        """Run a whole turn."""
        _, sink = await self.go(prompt, **changes)
        await sink.ended(60.0)
        return sink

    def end(self, sink: RecordingSink) -> RunEnded:
        """How it ended."""
        (end,) = sink.of(RunEnded)
        return end

    def agent_pid(self) -> int:
        """The process of the one session that there is."""
        (slot,) = self.pi._sessions._slots.values()
        return cast(int, cast(Any, slot.session).process_id)


class TurnTests(PiCase):
    async def test_catalog(self) -> None:
        """Its models are those that it can use; what it can is said there."""
        (entry,) = await self.pi.catalog("pi")
        self.assertEqual([model.value for model in entry.models], [MODEL, OTHER_MODEL])
        self.assertEqual((entry.default_model, entry.native_fork), (MODEL, "message"))
        self.assertTrue(entry.supports_steering and entry.requires_strict_model_discovery)

    async def test_two_turns_and_another_process(self) -> None:
        """One session, which another process takes up."""
        self.script.push("one", "two", "three")
        first = await self.whole("the first words")
        self.assertEqual(first.texts, ["one"])
        end = self.end(first)
        self.assertEqual((end.outcome, end.agent_version), ("finished", VERSION))
        usage = end.usage
        assert usage is not None
        self.assertEqual((usage.input_tokens, usage.output_tokens), (10, 5))
        second = await self.whole("more", agent_session_id=first.session_id)
        self.assertEqual((second.texts, second.of(SessionStarted)), (["two"], []))
        await self.pi.stop()
        self.pi = self.a_runtime()
        third = await self.whole("again", agent_session_id=first.session_id)
        self.assertEqual((third.texts, third.of(SessionStarted)), (["three"], []))
        self.assertIn("the first words", str(self.script.asked[-1].body))

    async def test_model_and_effort(self) -> None:
        """Both change without another process; what there is not fails the turn."""
        sink = await self.whole("one", thinking_mode="high")
        pid, session = self.agent_pid(), sink.session_id
        self.assertEqual(self.script.asked[-1].body["reasoning_effort"], "high")
        await self.whole("2", model=OTHER_MODEL, thinking_mode="low", agent_session_id=session)
        asked = self.script.asked[-1]
        self.assertEqual((asked.model, asked.body["reasoning_effort"]), ("m2", "low"))
        failed = await self.whole("3", model="scripted/none", agent_session_id=session)
        error = self.end(failed).error
        assert error is not None
        self.assertIn("Model not found", error.message)
        await self.whole("4", agent_session_id=session)
        self.assertEqual((self.script.asked[-1].model, self.agent_pid()), ("m1", pid))

    async def test_errors_and_pictures(self) -> None:
        """A failure that repeats is told each time, and fails the turn with its text."""
        failing = [Turn((Fail(500, message="it broke"),)) for _ in range(3)]
        self.script.push(*failing)
        failed = await self.whole("hi")
        error = self.end(failed).error
        assert error is not None
        self.assertIn("it broke", error.message)
        self.assertEqual(len(failed.rows(TranscriptNotice)), 2)
        session = failed.session_id
        await self.whole("look", agent_session_id=session, images=[Image(data=PIXEL)])
        self.assertIn(PIXEL, str(self.script.asked[-1].body))

    async def test_compaction(self) -> None:
        """A session is summed up; one with nothing to sum up says so."""
        self.script.side = said("a summary")
        sink = await self.whole("word " * 4000)
        session = sink.session_id
        await self.whole("word " * 4000, agent_session_id=session)
        done = await self.whole("be short", agent_session_id=session, is_compaction=True)
        (row,) = done.rows(Compaction)
        self.assertEqual((row.trigger, row.summary[:9]), ("manual", "a summary"))
        end = self.end(done)
        self.assertEqual(end.outcome, "finished")
        fork = ForkPoint(session, end.anchor)
        self.assertTrue(can_fork(fork, str(self.project), self.environment))
        self.assertIn("be short", str([one.body for one in self.script.asked]))

    async def test_fork(self) -> None:
        """A fork has its source's memory up to where it begins; one of nothing is told what was
        said.
        """
        self.script.push(said("I will", bash("true")), "done", "two")
        bypass = {"permission_mode": "bypassPermissions"}
        sink = await self.whole("the first words", **bypass)
        session = sink.session_id
        early, end = (one.anchor for one in sink.of(RowProduced) if one.anchor)
        self.assertEqual(self.end(sink).anchor, end)
        await self.whole("later words", agent_session_id=session)
        for number, (anchor, knows) in enumerate(
            (
                (early, "the first words;I will;No result provided"),
                (end, "the first words;I will;(no output);done"),
                (None, "the first words;I will;(no output);done;later words;two"),
            )
        ):
            self.script.push("in the fork")
            point, chat = ForkPoint(session, anchor), f"170000000000000{number + 2}"
            fork = await self.whole("on", chat_id=chat, fork_from=point)
            self.assertTrue(fork.of(SessionStarted)[0].is_fork)
            self.assertNotEqual(fork.session_id, session)
            self.assertEqual(self.told(), [*knows.split(";"), "on"])
        lost = await self.whole("on", chat_id="1700000000000009", fork_from=ForkPoint("gone"))
        self.assertFalse(lost.of(SessionStarted)[0].is_fork)

    def told(self) -> list[str]:
        """What the model was told last, without its instructions."""
        said = [one["content"] for one in self.script.asked[-1].body["messages"][1:]]
        return [one[0]["text"] if isinstance(one, list) else one or "" for one in said]

    async def test_another_directory(self) -> None:
        """The session goes along, with all its memory, and works there."""
        sink = await self.whole("the first words")
        elsewhere = self.project.parent / "elsewhere"
        elsewhere.mkdir()
        self.script.push(said(bash("touch here")), "done")
        moved = {"project_path": str(elsewhere), "permission_mode": "bypassPermissions"}
        after = await self.whole("go", agent_session_id=sink.session_id, **moved)
        self.assertTrue((elsewhere / "here").exists())
        self.assertIn("the first words", self.told())
        self.assertNotEqual(after.session_id, sink.session_id)
        again = await self.whole("on", agent_session_id=after.session_id, **moved)
        self.assertEqual(again.of(SessionStarted), [])

    async def test_lost_session(self) -> None:
        """It is not begun anew in silence."""
        launch = a_launch(
            "hi",
            agent_id="pi",
            model=MODEL,
            project_path=str(self.project),
            agent_session_id="99999999-1111-4111-8111-111111111111",
        )
        refusal = await self.refused(self.pi, launch)
        self.assertIn("No session found", refusal.text)


class HistoryTests(PiCase):
    async def read(self, session: str) -> list[str]:
        """What Pi remembers of a session, each row in a few words."""
        rows: list[Any] = []

        def take(some: Sequence[Any]) -> Deferred[None]:
            rows.extend(some)
            return succeed(None)

        await self.pi.read_history(NativeSession("pi", session, str(self.project)), take)
        return [text(row) for row in rows]

    async def test_a_session_is_read_back(self) -> None:
        """What it did and was told is remembered, and a fork's own part of it."""
        self.script.push(said("I will", bash("echo hé")), "done")
        sink = await self.whole("go 漢字", permission_mode="bypassPermissions")
        session = sink.session_id
        first = ["user: go 漢字", "said: I will", "ran: echo hé", "result: hé\n", "said: done"]
        self.assertEqual(await self.read(session), first)
        self.script.push("two", "two")
        point = ForkPoint(session, self.end(sink).anchor)
        await self.whole("more", agent_session_id=session)
        fork = await self.whole("aside", chat_id="1700000000000002", fork_from=point)
        self.assertEqual(await self.read(fork.session_id), [*first, "user: aside", "said: two"])
        self.assertEqual(await self.read(session), [*first, "user: more", "said: two"])

    async def test_what_was_said_outside_is_noticed(self) -> None:
        """A session that Pi went on with by itself has moved on."""
        sink = await self.whole("hi")
        session = NativeSession("pi", sink.session_id, str(self.project))
        point = SessionPoint(session, self.end(sink).anchor or "")
        self.assertFalse(await self.pi.has_moved_on(point))
        await self.whole("by hand", agent_session_id=sink.session_id)
        self.assertTrue(await self.pi.has_moved_on(point))

    async def test_its_account(self) -> None:
        """By the provider that it has a key for, wherever that comes from."""
        told = (await self.pi.auth("pi"))["pi"]
        self.assertEqual((told.authenticated, told.label), (True, "scripted"))
        keyless = (await self.a_runtime({"SCRIPTED_KEY": ""}).auth("pi"))["pi"]
        self.assertEqual((keyless.authenticated, keyless.label), (False, "Not signed in"))


class ExtensionTests(PiCase):
    async def test_another_session_in_the_same_process(self) -> None:
        """An extension of the user's that begins one takes the chat along, endpoint and all."""
        add_extension(self.environment, "fresh", FRESH)
        first = await self.whole("the first words")
        session = first.session_id
        await self.whole("/fresh", agent_session_id=session)
        after = await self.whole("on", agent_session_id=session)
        self.assertNotEqual(after.session_id, session)
        self.assertNotIn("the first words", str(self.script.asked[-1].body))
        run, sink = await self.go("go", agent_session_id=after.session_id)
        await sink.ended()
        self.assertEqual(sink.of(SessionStarted), [])
        self.script.push(said(bash("touch never")))
        run, sink = await self.go("go", agent_session_id=after.session_id)
        await self.pi.respond(a_response(run, await sink.asked(), allow=False))
        await sink.ended()
        self.assertFalse((self.project / "never").exists())

    async def test_a_question(self) -> None:
        """It waits for the user in whatever mode, and hears the answer."""
        add_extension(self.environment, "ask")
        given = {"question": "Which?", "options": ["Blue", "Red"]}
        self.script.push(said(Call(ASKING_TOOL, given)), "as you like")
        run, sink = await self.go("ask me", permission_mode="bypassPermissions")
        asked = await sink.asked()
        chosen = {"questionId": "question-1", "selectedOptionIds": ["option-2"]}
        response = {"outcome": "answered", "answers": [chosen]}
        await self.pi.respond(a_response(run, asked, response=response))
        self.assertEqual((await sink.ended()).outcome, "finished")
        self.assertEqual(sink.results, [("Red", False), ("Red", False)])


class PermissionTests(PiCase):
    async def test_asks_and_waits(self) -> None:
        """Nothing runs before it is allowed; what is denied never does."""
        self.script.push(said(bash("touch one")), "done", said(bash("touch two")), "so be it")
        run, sink = await self.go("go")
        asked = await sink.asked()
        self.assertFalse((self.project / "one").exists())
        self.assertEqual(await self.pi.respond(a_response(run, asked)), "confirmed")
        await sink.ended()
        self.assertTrue((self.project / "one").exists())
        run, sink = await self.go("again", agent_session_id=sink.session_id)
        await self.pi.respond(a_response(run, await sink.asked(), allow=False))
        await sink.ended()
        self.assertFalse((self.project / "two").exists())
        self.assertEqual(sink.results, [("This was not allowed.", True)])

    async def test_modes(self) -> None:
        """Each mode lets pass what it says, in one process."""
        session, pid = None, None
        inside = Call("write", {"path": "in.txt", "content": "x"})
        outside = Call("write", {"path": "../out.txt", "content": "x"})
        for mode, call, asks, auto, runs in (
            ("bypassPermissions", bash("true"), 0, 0, True),
            ("manualBypass", bash("true"), 0, 1, True),
            ("acceptEdits", inside, 0, 0, True),
            ("acceptEdits", outside, 1, 0, False),
            ("default", inside, 1, 0, False),
            ("default", Call("read", {"path": "in.txt"}), 0, 0, True),
            ("plan", bash("true"), 0, 0, False),
        ):
            self.script.push(said(call), "done")
            run, sink = await self.go("go", permission_mode=mode, agent_session_id=session)
            if asks:
                await self.pi.respond(a_response(run, await sink.asked(), allow=False))
            await sink.ended()
            session = session or sink.session_id
            pid = pid or self.agent_pid()
            told = len(sink.of(PermissionRequested)), len(sink.of(PermissionAutoResolved))
            self.assertEqual((told, not sink.results[0][1]), ((asks, auto), runs), mode)
        self.assertEqual(self.agent_pid(), pid)
        self.assertFalse((self.project.parent / "out.txt").exists())


class InterruptTests(PiCase):
    async def test_in_text_and_in_a_tool(self) -> None:
        """The turn ends, its command with it, and the session goes on in the same process."""
        self.script.push(said("part", Hold("never")))
        run, sink = await self.go("go", permission_mode="bypassPermissions")
        await self.eventually(lambda: bool(self.script.asked), "a request")
        await self.pi.abort(run)
        self.assertEqual((await sink.ended()).outcome, "interrupted")
        session = sink.session_id
        command = "sleep 341.75"
        self.script.push(said(bash(command)), "never")
        bypass = {"permission_mode": "bypassPermissions", "agent_session_id": session}
        run, sink = await self.go("go", **bypass)
        await self.eventually(lambda: bool(running(command)), "the command")
        pid = self.agent_pid()
        await self.pi.abort(run)
        self.assertEqual((await sink.ended()).outcome, "interrupted")
        await self.eventually(lambda: not running(command), "its end")
        self.script.turns.clear()
        self.assertEqual(self.end(await self.whole("on", **bypass)).outcome, "finished")
        self.assertEqual(self.agent_pid(), pid)

    async def test_while_it_asks(self) -> None:
        """What waited for an answer never runs."""
        self.script.push(said(bash("touch never")))
        run, sink = await self.go("go")
        await sink.asked()
        await self.pi.abort(run)
        self.assertEqual((await sink.ended()).outcome, "interrupted")
        self.assertFalse((self.project / "never").exists())

    async def test_steer(self) -> None:
        """Further input joins the turn."""
        self.script.push(said("part", Hold("gate")), "both")
        run, sink = await self.go("go")
        await self.eventually(lambda: bool(self.script.asked), "a request")
        captured = await self.pi.capture_steering(run)
        assert captured.target is not None
        steer = Steer(target=captured.target, client_message_id="cm", content="and more")
        self.assertEqual((await self.pi.steer(steer)).outcome, "delivered")
        self.script.release("gate")
        await sink.ended()
        self.assertEqual(sink.texts, ["part", "both"])
        self.assertIn("and more", str(self.script.asked[-1].body))


class EndpointTests(PiCase):
    def setUp(self) -> None:
        super().setUp()
        self.elsewhere = Script()

    def reach(self, protocol: Any, path: str, wire: Any = None) -> dict[str, Any]:
        """Have a profile's endpoint, and return what a launch says of it."""
        port = self.a_model_server(self.elsewhere, wire)
        self.profiles = FakeCredentials(
            ResolvedEndpoint(
                protocol=protocol,
                base_url=f"http://127.0.0.1:{port}{path}",
                api_key=KEY,
                headers={"X-Team": TEAM},
                revision=1,
            )
        )
        self.pi = self.a_runtime()
        return {
            "model": "end:m9",
            "api_provider_id": "profile",
            "model_endpoint_id": "end",
            "model_protocol": protocol,
        }

    async def test_the_model_is_reached_there(self) -> None:
        """Key and headers as they are; neither is in the command line or in a command's
        environment.
        """
        routed = self.reach("openai-compatible", "/v1")
        self.elsewhere.push(said(bash("env")), f"it is {KEY}")
        sink = await self.whole("hi", permission_mode="bypassPermissions", **routed)
        self.assertEqual(sink.texts, ["it is [secret]"])
        asked = self.elsewhere.asked[0]
        self.assertEqual((asked.model, asked.headers["authorization"]), ("m9", f"Bearer {KEY}"))
        self.assertEqual((asked.headers["x-team"], self.script.asked), (TEAM, []))
        told = str(self.elsewhere.asked[-1].body)
        self.assertIn("PI_SESSION_ID", told)
        self.assertNotIn("profile-key", told)
        line = Path(f"/proc/{self.agent_pid()}/cmdline").read_bytes()
        self.assertNotIn(b"profile-key", line)

    async def test_messages(self) -> None:
        """The other protocol, by its base address."""
        routed = self.reach("anthropic-messages", "", AnthropicMessages)
        self.elsewhere.push("from there")
        sink = await self.whole("hi", **routed)
        self.assertEqual(sink.texts, ["from there"])
        self.assertEqual(self.elsewhere.asked[0].headers["x-api-key"], KEY)
