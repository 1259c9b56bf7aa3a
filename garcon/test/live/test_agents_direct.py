"""Direct agents on Local's runtime, on real sockets, against pretend servers that judge requests
(existing-clients.md; chats.md 5.1, 5.6, 5.7, 5.11).
"""

from __future__ import annotations

import os
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, succeed
from twisted.logger import ILogObserver, LogEvent, eventAsText, globalLogPublisher
from zope.interface import provider
from zope.interface.verify import verifyObject

from garcon.contract.limits import MIB
from garcon.contract.messages import Thinking
from garcon.contract.providers import Capabilities, ResolvedEndpoint
from garcon.contract.runs import HistoryMessage, RunEnded, SessionStarted
from garcon.contract.steering import Steer
from garcon.link.outgoing import OutgoingEndpoints
from garcon.runtime.agents.direct_wire import REPLY
from garcon.runtime.executor import LocalRuntime
from garcon.runtime.interfaces import IAgent
from garcon.runtime.shipped import agents_for
from garcon.test.runtime.agents.direct_cast import ANTHROPIC, CASES, CHAT, KEY, Case, an_image
from garcon.testing.agent_runs import RecordingSink, a_launch
from garcon.testing.local_runtimes import RuntimeCase
from garcon.testing.models.script import (
    Cut,
    Fail,
    Hold,
    Raw,
    Script,
    Sleep,
    Stop,
    StreamError,
    Text,
    Think,
    Turn,
    said,
)
from garcon.testing.models.server import port_of, serve


class _Credentials:
    """Every profile and endpoint that a test has."""

    def __init__(self) -> None:
        self.endpoints: dict[tuple[str, str], ResolvedEndpoint] = {}

    def resolve(self, profile_id: str, endpoint_id: str) -> Deferred[ResolvedEndpoint]:
        """See `ICredentials`."""
        return succeed(self.endpoints[profile_id, endpoint_id])


class DirectRuntimeCase(RuntimeCase):
    """One runtime, and for each wire a pretend server with a script of its own.

    A request that some compatible server might refuse fails the test, whatever it is about.
    """

    def setUp(self) -> None:
        super().setUp()
        self.credentials = _Credentials()
        self.scripts: dict[Case, Script] = {}
        for case in CASES:
            script = self.scripts[case] = Script(sides_take_turns=True)
            judge = case.judge(base="/v1", key=KEY)
            listening: Any = self.successResultOf(serve(reactor, script, [case.fake], judge=judge))
            self.addCleanup(listening.stopListening)
            where = case.agent_id, "endpoint"
            host = f"http://127.0.0.1:{port_of(listening)}"
            self.credentials.endpoints[where] = case.endpoint(host)
        self.addCleanup(self.assert_no_violation)
        self.runtime = self.a_direct_runtime()

    def a_direct_runtime(self) -> LocalRuntime:
        """Start a runtime with the direct agents."""
        agents = agents_for(
            reactor,
            self.environment,
            str(self.project),
            False,
            credentials=self.credentials,  # type: ignore[arg-type]
            endpoints=OutgoingEndpoints.from_environment(reactor, {}),
        )
        runtime = LocalRuntime(
            reactor,
            "instance",
            str(self.project),
            self.environment,
            "controller",
            str(self.project / "config"),
            agents,
        )
        self.addCleanup(runtime.stop)
        return runtime

    def assert_no_violation(self) -> None:
        """No judge had anything to say."""
        self.assertEqual(
            {c.agent_id: s.violations for c, s in self.scripts.items() if s.violations}, {}
        )

    async def ask(self, case: Case, prompt: str = "hi", **changes: Any) -> RecordingSink:
        """Run a whole turn of a direct agent."""
        _, sink = await self.start(case, prompt, **changes)
        await sink.ended(60.0)
        return sink

    async def start(self, case: Case, prompt: str, **changes: Any) -> tuple[Any, RecordingSink]:
        """Launch a turn of a direct agent."""
        usual = {
            "agent_id": case.agent_id,
            "model": "endpoint:scripted",
            "api_provider_id": case.agent_id,
            "model_endpoint_id": "endpoint",
            "model_protocol": case.wire.speech,
        }
        return await self.begin(self.runtime, prompt, **(usual | changes))

    async def asked(self, case: Case, number: int) -> None:
        """Wait until a server has been asked that often."""
        script = self.scripts[case]
        await self.eventually(lambda: len(script.asked) >= number, f"request {number}")


class TurnTests(DirectRuntimeCase):
    """What a turn gives, on each wire."""

    async def test_the_agents_are_there_without_any_program(self) -> None:
        """With the names, modes and generation priorities of the contract (control.md A.6)."""
        found = {entry.id: entry for entry in await self.runtime.catalog(None)}
        for case, label, priority, files in (
            (ANTHROPIC, "Direct (Anthropic)", 20, 3),
            (CASES[1], "Direct (Responses)", 40, 3),
            (CHAT, "Direct (Chat Completions)", 50, 2),
        ):
            entry = found[case.agent_id]
            self.assertEqual(entry.label, label)
            assert entry.generation is not None
            self.assertEqual((entry.generation.priority, entry.generation.model), (priority, ""))
            self.assertEqual(
                entry.supported_permission_modes,
                ["default", "acceptEdits", "manualBypass", "bypassPermissions"],
            )
            self.assertEqual(len(entry.supported_thinking_modes), 7)
            self.assertEqual(entry.supported_protocols, [case.wire.speech])
            self.assertEqual(len(entry.file_attachment_mime_types), files)
            self.assertTrue(
                entry.supports_images
                and entry.supports_steering
                and entry.needs_history
                and entry.supports_update_project_path
                and entry.accepts_api_provider_endpoints
            )
            self.assertFalse(entry.supports_compact or entry.requires_strict_model_discovery)

    async def test_a_conversation(self) -> None:
        """Two turns, on one connection; the second is given the first."""
        for case in CASES:
            script = self.scripts[case]
            script.push(said(Think("well"), Text("grüße 🙂 back", chunks=5)), "and again")
            first = await self.ask(case, "hello")
            self.assertEqual(first.texts, ["grüße 🙂 back"])
            self.assertEqual([row.content for row in first.rows(Thinking)], ["well"])
            history = [HistoryMessage("user", "hello"), HistoryMessage("assistant", first.texts[0])]
            second = await self.ask(
                case,
                "more",
                agent_session_id=first.session_id,
                history=history,
                thinking_mode="high",
            )
            self.assertEqual((second.texts, second.of(SessionStarted)), (["and again"], []))
            self.assertEqual([one.model for one in script.asked], ["scripted"] * 2)
            messages = script.asked[1].body[case.messages]
            self.assertEqual(
                [(m["role"], m["content"]) for m in messages],
                [("user", "hello"), ("assistant", first.texts[0]), ("user", "more")],
            )

    async def test_pictures_and_documents(self) -> None:
        """Each wire's own parts arrive, of a picture that is large."""
        picture = an_image("image/png", os.urandom(3 * MIB), "big.png")
        text = an_image("text/markdown", b"# title", "notes.md")
        for case in CASES:
            sink = await self.ask(case, "what is this?", images=[picture, text])
            self.assertEqual(sink.texts, ["ok"])
            body = repr(self.scripts[case].asked[0].body)
            self.assertIn(picture.data.partition(",")[2], body)
            self.assertIn("# title", body)

    async def test_bases_without_a_path_and_with_one(self) -> None:
        """A base as people write it leads to the same route."""
        for case in CASES:
            where = case.agent_id, "endpoint"
            known = self.credentials.endpoints[where]
            host = known.base_url.removesuffix("/v1")
            for base in (host, f"{host}/v1", f"{host}/v1/"):
                self.credentials.endpoints[where] = case.endpoint("", base_url=base)
                self.assertEqual((await self.ask(case)).texts, ["ok"])

    async def test_chats_are_independent(self) -> None:
        """One waits, one fails, one is stopped, one is answered (chats.md 5.1.6)."""
        script = self.scripts[CHAT]
        script.rules = []
        script.push(
            said("a", Hold("gate"), "b"),
            Turn((Fail(400),)),
            said("never", Hold("other")),
            "answered",
        )
        chats = [f"170000000000000{number}" for number in range(4)]
        _, waiting = await self.start(CHAT, "0", chat_id=chats[0])
        await self.asked(CHAT, 1)
        failed = await self.ask(CHAT, "1", chat_id=chats[1])
        launch, stopped = await self.start(CHAT, "2", chat_id=chats[2])
        await self.asked(CHAT, 3)
        answered = await self.ask(CHAT, "3", chat_id=chats[3])
        await self.runtime.abort(launch.run_id)
        self.assertEqual((await stopped.ended()).outcome, "interrupted")
        self.assertEqual(answered.texts, ["answered"])
        self.assertEqual(failed.of(RunEnded)[0].outcome, "failed")
        self.assertEqual(waiting.texts, [])
        script.release("gate")
        await waiting.ended()
        self.assertEqual(waiting.texts, ["ab"])

    async def test_sessions_are_those_of_any_agent(self) -> None:
        """One interface for all of them."""
        agents = agents_for(
            reactor,
            {},
            "",
            False,
            credentials=self.credentials,  # type: ignore[arg-type]
            endpoints=OutgoingEndpoints.from_environment(reactor, {}),
        )
        self.assertEqual(len([agent for agent in agents if agent.id.startswith("direct-")]), 3)
        for agent in agents:
            verifyObject(IAgent, agent)


class StopAndSteerTests(DirectRuntimeCase):
    """Turns that others reach into."""

    async def test_a_stop_in_mid_stream_closes_the_providers_connection(self) -> None:
        """At once, and once; nothing of the reply is kept (chats.md 5.6.1)."""
        for case in CASES:
            script = self.scripts[case]
            script.push(said(Text("some of it"), Hold("never"), "the rest"))
            launch, sink = await self.start(case, "go")
            await self.asked(case, 1)
            self.assertTrue(await self.runtime.abort(launch.run_id))
            self.assertEqual(sink.of(RunEnded)[0].outcome, "interrupted")
            await self.eventually(
                lambda script=script: script.asked[0].outcome == "client hung up", "the hang-up"
            )
            self.assertEqual((sink.rows(object), len(script.asked)), ([], 1))

    async def test_an_input_for_a_running_turn_is_answered_in_it(self) -> None:
        """By a second request, which has the first reply; both replies are the turn's."""
        for case in CASES:
            script = self.scripts[case]
            script.push(said("first", Hold(case.agent_id)), "second")
            launch, sink = await self.start(case, "one")
            await self.asked(case, 1)
            capture = await self.runtime.capture_steering(launch.run_id)
            assert capture.target is not None
            for text in ("two", "three"):
                steer = Steer(target=capture.target, client_message_id=text, content=text)
                self.assertEqual((await self.runtime.steer(steer)).outcome, "delivered")
            script.release(case.agent_id)
            await sink.ended()
            self.assertEqual(sink.texts, ["first", "second"])
            self.assertEqual(
                [(m["role"], m["content"]) for m in script.asked[1].body[case.messages]],
                [("user", "one"), ("assistant", "first"), ("user", "two"), ("user", "three")],
            )
            after = Steer(target=capture.target, client_message_id="four", content="four")
            self.assertEqual((await self.runtime.steer(after)).outcome, "turn-unavailable")

    async def test_an_end_of_the_runtime_closes_every_connection(self) -> None:
        """Those of turns, and those that wait for another one."""
        script = self.scripts[CHAT]
        script.push("done", said("x", Hold("never")))
        await self.ask(CHAT, chat_id="1700000000000001")
        _, sink = await self.start(CHAT, "go", chat_id="1700000000000002")
        await self.asked(CHAT, 2)
        await self.runtime.stop()
        self.assertEqual(sink.of(RunEnded)[0].outcome, "interrupted")
        await self.eventually(lambda: script.asked[1].outcome == "client hung up", "the hang-up")


class FailureTests(DirectRuntimeCase):
    """Turns that fail: one end, one text, no row (chats.md 5.1.5, 5.7.3)."""

    async def failure(self, case: Case, *steps: Any) -> str:
        """Run a turn whose answer is made of these steps, and return why it failed."""
        self.scripts[case].push(said(*steps))
        sink = await self.ask(case)
        end = sink.of(RunEnded)[0]
        self.assertEqual((end.outcome, sink.rows(object)), ("failed", []), steps)
        assert end.error is not None
        self.assertNotIn(KEY, end.error.message)
        return end.error.message

    async def test_no_row_is_left_of_a_stream_that_went_wrong(self) -> None:
        """Truncated, empty, garbage, in error: whatever of it had come."""
        for case in CASES:
            for steps, words in (
                (("part", Sleep(0.05), Cut()), "broke off"),
                (("part", Stop()), "broke off"),
                ((), "empty"),
                ((Stop(),), "broke off"),
                (("part", Raw(b"data: {garbage\n\n")), "could not be understood"),
                (("part", StreamError("overloaded", "come back later")), "come back later"),
            ):
                self.assertIn(words, await self.failure(case, *steps))

    async def test_an_http_failure_says_its_number(self) -> None:
        """With the provider's own words."""
        for case in CASES:
            text = await self.failure(case, Fail(418, "teapot", "no coffee here"))
            self.assertIn("418", text)
            self.assertIn("no coffee here", text)

    async def test_a_failure_that_passes_is_not_seen(self) -> None:
        """Three attempts, as the provider asked for them; the third is answered."""
        for case in CASES:
            script = self.scripts[case]
            script.push(
                Turn((Fail(529),)), Turn((Fail(429, headers={"retry-after": "0"}),)), "ok then"
            )
            sink = await self.ask(case)
            self.assertEqual((sink.texts, len(script.asked)), (["ok then"], 3))

    async def test_a_failure_that_stays_is_the_turns(self) -> None:
        """After three attempts, with the last one's number."""
        script = self.scripts[CHAT]
        script.push(Turn((Fail(500),)), Turn((Fail(502),)))
        self.assertIn("503", await self.failure(CHAT, Fail(503)))
        self.assertEqual(len(script.asked), 3)

    async def test_nobody_there(self) -> None:
        """A refused connection is tried again, and then told."""
        where = CHAT.agent_id, "endpoint"
        self.credentials.endpoints[where] = CHAT.endpoint("http://127.0.0.1:9")
        sink = await self.ask(CHAT)
        error = sink.of(RunEnded)[0].error
        assert error is not None
        self.assertIn("refused", error.message)

    async def test_an_endpoint_of_another_kind_is_refused_at_the_launch(self) -> None:
        """There is no turn then."""
        where = CHAT.agent_id, "endpoint"
        self.credentials.endpoints[where] = CHAT.endpoint(capabilities=Capabilities(False, True))
        launch = a_launch(
            "hi",
            agent_id=CHAT.agent_id,
            api_provider_id=CHAT.agent_id,
            model_endpoint_id="endpoint",
        )
        refusal = await self.refused(self.runtime, launch)
        self.assertIn("does not offer", refusal.text)


class SecretTests(DirectRuntimeCase):
    """What may be read of a turn by whoever reads logs and transcripts."""

    async def test_neither_the_key_nor_what_was_said_is_in_any_log_line(self) -> None:
        """At every level, of turns that go well, fail, are stopped and are asked for again."""
        lines: list[str] = []

        @provider(ILogObserver)
        def keep(event: LogEvent) -> None:
            lines.append(eventAsText(event, includeTraceback=True) + repr(event))

        globalLogPublisher.addObserver(keep)
        self.addCleanup(globalLogPublisher.removeObserver, keep)
        for case in CASES:
            script = self.scripts[case]
            leak = Fail(400, "x", f"the key {KEY} is wrong")
            script.push("private reply", Turn((leak,)), Turn((Fail(500),)), "more", said(Hold("x")))
            await self.ask(case, "private prompt")
            failed = await self.ask(case, "private prompt")
            self.assertNotIn(KEY, repr(failed.events))
            await self.ask(case, "private prompt")
            launch, sink = await self.start(case, "private prompt")
            await self.asked(case, 5)
            await self.runtime.abort(launch.run_id)
            self.assertEqual(sink.of(RunEnded)[0].outcome, "interrupted")
        told = "".join(lines)
        self.assertIn("asking a provider again", told)
        # The pretend servers' own lines, of which they are part, show a path at most.
        for secret in (KEY, KEY[3:], "private"):
            self.assertNotIn(secret, told)


class LargeReplyTests(DirectRuntimeCase):
    """Replies of the largest size, whole or in very many pieces."""

    async def test_a_reply_at_the_bound_and_one_over(self) -> None:
        """The first is one row, the second a failure without one."""
        for case in CASES:
            script = self.scripts[case]
            script.push("x" * REPLY, "x" * (REPLY + 1))
            [text] = (await self.ask(case)).texts
            self.assertEqual(len(text), REPLY)
            sink = await self.ask(case)
            end = sink.of(RunEnded)[0]
            assert end.error is not None
            self.assertIn("longer than", end.error.message)
            self.assertEqual(sink.rows(object), [])

    async def test_very_many_pieces_are_joined_once(self) -> None:
        """A quarter of a million of them; joined again with each, they would take minutes."""
        pieces = 250_000
        chunk = b'data: {"choices": [{"delta": {"content": "0123456789"}}]}\n\n' * pieces
        end = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
        self.scripts[CHAT].push(said(Raw(chunk), Raw(end)))
        sink = await self.ask(CHAT)
        self.assertEqual(len(sink.texts[0]), 10 * pieces)
