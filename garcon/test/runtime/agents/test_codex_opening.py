"""How a thread is opened: begun, resumed, or forked."""

from __future__ import annotations

from typing import Any

from garcon.contract.runs import ForkPoint, HistoryMessage, SessionStarted
from garcon.runtime.agents.conversation import Ready, Refused, Version
from garcon.test.runtime.agents.codex_cast import THREAD, TURN, CodexCase

HISTORY = [HistoryMessage(role="user", content="earlier")]
ROUTED: dict[str, Any] = {
    "model": "end:large",
    "api_provider_id": "profile",
    "model_endpoint_id": "end",
    "model_protocol": "openai-compatible",
}


class OpeningTests(CodexCase):
    def must_ask(self, method: str, **parameters: Any) -> None:
        """This is what is asked now."""
        self.assertEqual(self.sent["method"], method)
        usual = {"cwd": "/srv/project", "model": self.launch.model or None}
        usual = usual if method in ("thread/start", "thread/resume", "thread/fork") else {}
        self.assertEqual(self.sent["params"], usual | parameters)

    def ready(self, thread_id: str = THREAD) -> None:
        """Let the thread be there, and begin a turn in it."""
        self.reply(thread={"id": thread_id}, model="m")
        self.assertIsInstance(self.taken.other[-1], Ready)
        self.taken.take(self.conversation.prompt(self.launch, self.taken.stamp()))
        self.turn = self.sent
        self.reply(turn={"id": TURN})

    def inputs(self) -> list[str]:
        """What the turn was told."""
        return [part["text"] for part in self.turn["params"]["input"]]

    def refusal(self) -> str:
        """Why it was not opened."""
        last = self.taken.other[-1]
        assert isinstance(last, Refused)
        return last.text

    def test_a_fresh_thread(self) -> None:
        """Its release is noted, and what was said before is told ahead of the prompt."""
        self.converse(history=HISTORY)
        self.assertEqual(self.taken.other, [Version("0.171.0")])
        self.assertEqual([m["method"] for m in self.taken.sent[:2]], ["initialize", "initialized"])
        self.must_ask("thread/start")
        self.ready()
        told, prompt = self.inputs()
        self.assertIn("User:\nearlier", told)
        self.assertEqual(prompt, "hi")
        self.assertEqual(self.taken.events, [SessionStarted(agent_session_id=THREAD)])

    def test_a_fresh_thread_at_an_endpoint(self) -> None:
        """With the endpoint's provider, and the model by its own name."""
        self.converse(**ROUTED)
        self.assertEqual(
            self.sent["params"],
            {"cwd": "/srv/project", "model": "large", "modelProvider": "garcon"},
        )

    def test_resumed_with_the_provider_it_was_begun_with(self) -> None:
        """It is looked up first: the user's own, or the one that Codex has built in."""
        for configured, provider in (("mine", "mine"), (None, "openai")):
            self.converse(THREAD, agent_session_id=THREAD, history=HISTORY)
            self.must_ask("config/read", includeLayers=False)
            self.reply(config={"model_provider": configured})
            self.must_ask("thread/read", threadId=THREAD)
            self.reply(thread={"id": THREAD, "modelProvider": provider})
            self.must_ask("thread/resume", threadId=THREAD, excludeTurns=True)
            self.ready()
            self.assertEqual(self.inputs(), ["hi"])
            self.assertEqual(self.taken.events, [])

    def test_with_another_provider_it_is_forked(self) -> None:
        """A thread cannot change its provider, but its fork can have another; that is the session
        from then on, and has all that was said.
        """
        self.converse(THREAD, agent_session_id=THREAD)
        self.reply(config={"model_provider": "mine"})
        self.reply(thread={"id": THREAD, "modelProvider": "garcon"})
        self.must_ask("thread/fork", threadId=THREAD, modelProvider="mine", excludeTurns=True)
        self.ready("thread-2")
        self.assertEqual(
            self.taken.events, [SessionStarted(agent_session_id="thread-2", is_fork=True)]
        )
        self.converse(THREAD, agent_session_id=THREAD, **ROUTED)
        self.assertEqual(self.sent["method"], "thread/read")
        self.reply(thread={"id": THREAD, "modelProvider": "openai"})
        self.assertEqual(self.sent["method"], "thread/fork")
        self.assertEqual(self.sent["params"]["modelProvider"], "garcon")

    def test_what_cannot_be_looked_up_is_tried_as_it_is(self) -> None:
        """Codex itself says what is wrong."""
        self.converse("gone", agent_session_id="gone")
        self.refuse("no config")
        self.refuse("thread not loaded: gone")
        self.must_ask("thread/resume", threadId="gone", excludeTurns=True)
        self.refuse("no rollout found for thread id gone")
        self.assertEqual(
            self.refusal(),
            "the agent could not resume its session: no rollout found for thread id gone",
        )

    def test_forked_at_a_turn(self) -> None:
        """With the configured provider; what was said is not told again."""
        point = ForkPoint("parent", "turn-0")
        self.converse(fork_from=point, history=HISTORY)
        self.reply(config={})
        self.must_ask(
            "thread/fork",
            threadId="parent",
            lastTurnId="turn-0",
            modelProvider="openai",
            excludeTurns=True,
        )
        self.ready("child")
        self.assertEqual(self.inputs(), ["hi"])
        self.assertEqual(
            self.taken.events, [SessionStarted(agent_session_id="child", is_fork=True)]
        )

    def test_what_cannot_be_forked_is_told(self) -> None:
        """A fresh thread has the conversation ahead of its prompt."""
        self.converse(fork_from=ForkPoint("parent", "turn-0"), history=HISTORY)
        self.reply(config={})
        self.refuse("turn not found: turn-0")
        self.must_ask("thread/start", modelProvider="openai")
        self.ready()
        self.assertIn("earlier", self.inputs()[0])
        self.assertEqual(self.taken.events, [SessionStarted(agent_session_id=THREAD)])

    def test_refusals(self) -> None:
        """Each says what could not be done."""
        self.converse()
        self.refuse("not trusted")
        self.assertEqual(self.refusal(), "the agent could not begin a session: not trusted")
        self.converse()
        self.reply(thread={})
        self.assertEqual(self.refusal(), "the agent named no thread")
        self.converse()
        self.taken.sent.clear()
        self.taken.take(self.conversation.open())
        self.refuse("too old")
        self.assertEqual(self.refusal(), "the agent could not start: too old")

    def test_a_release_that_is_not_told(self) -> None:
        """There is none."""
        self.converse()
        self.taken.other.clear()
        self.taken.take(self.conversation.open())
        self.reply(userAgent="something else")
        self.assertEqual(self.taken.other, [])
