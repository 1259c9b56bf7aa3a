"""The strict readers of pretend model servers: what they let pass, and each thing they refuse."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.models.judges import AnthropicJudge, ChatJudge, ResponsesJudge
from garcon.testing.models.server import HttpRequest, Judge

KEY = "sk-test"
COMMON = {"content-type": "application/json", "accept": "text/event-stream", "host": "x"}
SAID: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]

CHAT = (
    ChatJudge(base="/v1", key=KEY),
    HttpRequest(
        "POST",
        "/v1/chat/completions",
        {**COMMON, "authorization": f"Bearer {KEY}"},
        {"model": "m", "messages": SAID, "stream": True},
    ),
)
RESPONSES = (
    ResponsesJudge(base="/v1", key=KEY),
    HttpRequest(
        "POST",
        "/v1/responses",
        {**COMMON, "authorization": f"Bearer {KEY}"},
        {"model": "m", "input": SAID, "stream": True, "store": False},
    ),
)
ANTHROPIC = (
    AnthropicJudge(base="/v1", key=KEY),
    HttpRequest(
        "POST",
        "/v1/messages",
        {**COMMON, "x-api-key": KEY, "anthropic-version": "2023-06-01"},
        {"model": "m", "messages": SAID, "stream": True, "max_tokens": 10},
    ),
)
ALL: tuple[tuple[Judge, HttpRequest], ...] = (CHAT, RESPONSES, ANTHROPIC)


class JudgeTests(SynchronousTestCase):
    """One fault at a time in a request that is right otherwise."""

    def assert_violates(self, judge: Judge, request: HttpRequest) -> None:
        """Assert that a judge finds something."""
        self.assertNotEqual(list(judge.judge(request)), [], request)

    def test_what_is_right_passes(self) -> None:
        """And so does asking for the models, with the same credentials."""
        for judge, request in ALL:
            self.assertEqual(list(judge.judge(request)), [])
            models = HttpRequest("GET", "/v1/models", request.headers, {})
            self.assertEqual(list(judge.judge(models)), [])

    def test_every_other_route_is_a_violation(self) -> None:
        """Also the other APIs' own."""
        for judge, request in ALL:
            for path in ("/chat/completions", "/v1/embeddings", "/v1/models"):
                self.assert_violates(judge, evolve(request, path=path))
            self.assert_violates(judge, evolve(request, method="PUT"))

    def test_credentials_are_exactly_those_of_the_wire(self) -> None:
        """No more, no fewer, and no other key."""
        for judge, request in ALL:
            for name in request.headers.keys() - {"host"}:
                less = {key: value for key, value in request.headers.items() if key != name}
                self.assert_violates(judge, evolve(request, headers=less))
                self.assert_violates(judge, evolve(request, headers={**request.headers, name: "x"}))
            for name in ("authorization", "x-api-key", "cookie", "x-other"):
                if name not in request.headers:
                    more = {**request.headers, name: KEY}
                    self.assert_violates(judge, evolve(request, headers=more))

    def test_members_that_a_server_may_refuse_are_violations(self) -> None:
        """Tools, instructions, numbers nobody asked for; and a stream that is none."""
        for judge, request in ALL:
            for name, value in (
                ("tools", []),
                ("system", "be good"),
                ("instructions", "be good"),
                ("temperature", 1),
                ("stream_options", {}),
                ("stream", False),
                ("stream", 1),
                ("model", ""),
            ):
                self.assert_violates(judge, evolve(request, body={**request.body, name: value}))
        judge, request = RESPONSES
        self.assert_violates(judge, evolve(request, body={**request.body, "store": True}))

    def test_only_users_and_assistants_speak(self) -> None:
        """In text or in the wire's own parts, and the user last."""
        for judge, request in ALL:
            name = "input" if judge is RESPONSES[0] else "messages"
            for messages in (
                [],
                None,
                [{"role": "system", "content": "be good"}, *SAID],
                [{"role": "developer", "content": "be good"}, *SAID],
                [*SAID, {"role": "assistant", "content": "x"}],
                [{"role": "user", "content": ""}],
                [{"role": "user", "content": []}],
                [{"role": "user", "content": "x", "name": "me"}],
                [{"role": "user", "content": [{"type": "other", "text": "x"}]}],
                [{"role": "assistant", "content": [{"type": "text", "text": "x"}]}, *SAID],
            ):
                self.assert_violates(judge, evolve(request, body={**request.body, name: messages}))

    def test_efforts_are_the_wires_own(self) -> None:
        """Words, or numbers that leave something for the reply."""
        for (judge, request), wrong in (
            (CHAT, {"reasoning_effort": "max"}),
            (RESPONSES, {"reasoning": {"effort": "none"}}),
            (RESPONSES, {"reasoning": {"effort": "low", "summary": "auto"}}),
            (ANTHROPIC, {"max_tokens": 0}),
            (ANTHROPIC, {"output_config": {"effort": "low"}}),
            (ANTHROPIC, {"thinking": {"type": "adaptive"}}),
            (
                ANTHROPIC,
                {"max_tokens": 2_000, "thinking": {"type": "enabled", "budget_tokens": 2_000}},
            ),
        ):
            judged: Judge = judge
            self.assert_violates(judged, evolve(request, body={**request.body, **wrong}))
