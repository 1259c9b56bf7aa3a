"""Scripts of pretend models and the Anthropic wire, as values."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.models.anthropic import AnthropicMessages
from garcon.testing.models.gemini import Gemini
from garcon.testing.models.openai_chat import ChatCompletions
from garcon.testing.models.openai_responses import Responses
from garcon.testing.models.script import (
    Asked,
    Call,
    Cut,
    Fail,
    Hold,
    Script,
    Sleep,
    StreamError,
    Text,
    Think,
    Turn,
    said,
    script_from_json,
)

WIRE = AnthropicMessages()


def asked(text: str = "hi", tools: tuple[str, ...] = ("Bash",)) -> Asked:
    """A request with one user message."""
    body = {
        "model": "m",
        "stream": True,
        "system": [{"type": "text", "text": "be good"}],
        "tools": [{"name": name} for name in tools],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": text}]},
            {"role": "assistant", "content": "x"},
        ],
    }
    return WIRE.parse("/v1/messages", body)


def events(turn: Turn) -> list[dict[str, Any]]:
    """The data of every event of an answer's stream."""
    encoder = WIRE.encoder(asked(), turn)
    frames = list(encoder.start())
    for step in turn.steps:
        match step:
            case Text():
                frames += encoder.text(step.pieces())
            case Think():
                frames += encoder.think(step.text)
            case Call():
                frames += encoder.call(step)
    frames += encoder.finish()
    return [json.loads(frame.decode().partition("data: ")[2]) for frame in frames]


class Scripts(SynchronousTestCase):
    def test_turns_in_order_then_the_fallback(self) -> None:
        """Each request takes a turn and is remembered."""
        script = Script()
        script.push("one", lambda a: said(f"you said {a.last_user}"))
        answers = [script.answer(asked("hello")) for _ in range(3)]
        self.assertEqual(answers, [said("one"), said("you said hello"), said("ok")])
        self.assertEqual([a.last_user for a in script.asked], ["hello"] * 3)

    def test_side_requests_take_no_turn(self) -> None:
        """A request without tools is a title, a summary or a probe, unless the script says else."""
        script = Script()
        script.push("one")
        self.assertEqual(script.answer(asked(tools=())), script.side)
        script.sides_take_turns = True
        self.assertEqual(script.answer(asked(tools=())), said("one"))

    def test_gates(self) -> None:
        """A gate lets go those who wait and those who come later."""
        script = Script()
        waiting = script.wait("g")
        self.assertNoResult(waiting)
        self.assertEqual(script.release("g"), 1)
        self.successResultOf(waiting)
        self.successResultOf(script.wait("g"))

    def test_json_form(self) -> None:
        """Every step has one."""
        script = script_from_json(
            json.dumps(
                {
                    "turns": [
                        ["a", {"tool": "Bash", "args": {"command": "ls"}}, {"think": "t"}],
                        {"error": 500, "message": "m"},
                        {"steps": [{"sleep": 1}, {"hold": "g"}, {"cut": 1}], "usage": [1, 2]},
                        {"stream_error": "overloaded_error", "message": "x"},
                    ],
                    "rules": [{"match": "good", "turn": "rule"}],
                    "side": "s",
                }
            )
        )
        self.assertEqual(
            list(script.turns),
            [
                said("a", Call("Bash", {"command": "ls"}), Think("t")),
                said(Fail(500, message="m")),
                Turn((Sleep(1), Hold("g"), Cut()), (1, 2)),
                said(StreamError("overloaded_error", "x")),
            ],
        )
        self.assertEqual(script.answer(asked()), said("rule"))
        self.assertRaises(ValueError, script_from_json, '{"turns": [{"odd": 1}]}')


class AnthropicWire(SynchronousTestCase):
    def test_request_is_read(self) -> None:
        """The last user text is the last user message's, whatever follows it."""
        request = asked("question")
        self.assertEqual(
            (request.model, request.system, request.last_user), ("m", "be good", "question")
        )
        self.assertTrue(WIRE.claims("POST", "/v1/v1/messages"))
        self.assertFalse(WIRE.claims("GET", "/v1/messages"))

    def test_stream_of_an_answer(self) -> None:
        """Blocks are opened, filled and closed in order; the reason tells of the tool call."""
        found = events(said(Think("hmm"), Text("abcd", chunks=2), Call("Bash", {"command": "ä"})))
        self.assertEqual(found[0]["type"], "message_start")
        self.assertEqual(
            [e["index"] for e in found if e["type"] == "content_block_stop"], [0, 1, 2]
        )
        deltas = [e["delta"] for e in found if e["type"] == "content_block_delta"]
        self.assertEqual([d["text"] for d in deltas if d["type"] == "text_delta"], ["ab", "cd"])
        given = "".join(d["partial_json"] for d in deltas if d["type"] == "input_json_delta")
        self.assertEqual(json.loads(given), {"command": "ä"})
        self.assertEqual(found[-2]["delta"]["stop_reason"], "tool_use")
        self.assertEqual(found[-1], {"type": "message_stop"})

    def test_whole_answer_and_failure(self) -> None:
        """The same without a stream, and the body of an error."""
        turn = said("a", Call("Bash"))
        whole = WIRE.encoder(asked(), turn).whole(turn)
        self.assertEqual([block["type"] for block in whole["content"]], ["text", "tool_use"])
        self.assertEqual(
            WIRE.failure(Fail(429, "rate_limit_error", "slow")),
            {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}},
        )


class GeminiWire(SynchronousTestCase):
    """Every chunk of an answer is an answer."""

    PATH = "/v1beta/models/gemini-2.5-pro:streamGenerateContent"

    def asked(self) -> Asked:
        """A request with one user message."""
        body = {
            "systemInstruction": {"parts": [{"text": "be good"}]},
            "tools": [{"functionDeclarations": [{"name": "run_shell_command"}]}],
            "contents": [
                {"role": "user", "parts": [{"text": "question"}]},
                {"role": "model", "parts": [{"text": "x"}]},
            ],
        }
        return Gemini().parse(self.PATH, body)

    def test_request_is_read(self) -> None:
        """The path names the model, and whether the answer is a stream."""
        request = self.asked()
        self.assertEqual(
            (request.model, request.system, request.last_user, request.tools, request.stream),
            ("gemini-2.5-pro", "be good", "question", ("run_shell_command",), True),
        )
        self.assertTrue(Gemini().claims("POST", self.PATH))
        self.assertFalse(Gemini().claims("POST", self.PATH.replace("streamG", "countT")))
        count = Gemini().extra("POST", "/v1beta/models/m:countTokens", {})
        self.assertEqual(count, {"totalTokens": 10})

    def test_answers(self) -> None:
        """In a stream and whole: texts, thoughts and calls are parts; the end has the usage."""
        turn = said(Think("hmm"), Text("abcd", chunks=2), Call("run", {"x": "ä"}))
        encoder = Gemini().encoder(self.asked(), turn)
        frames = [*encoder.think("hmm"), *encoder.text(["ab", "cd"])]
        frames += [*encoder.call(Call("run", {"x": "ä"})), *encoder.finish()]
        found = [json.loads(frame.decode().partition("data: ")[2]) for frame in frames]
        parts = [one["candidates"][0]["content"]["parts"][0] for one in found]
        self.assertEqual(parts[0], {"text": "hmm", "thought": True})
        self.assertEqual([part["text"] for part in parts[1:3]], ["ab", "cd"])
        self.assertEqual(parts[3]["functionCall"]["args"], {"x": "ä"})
        self.assertEqual(found[-1]["candidates"][0]["finishReason"], "STOP")
        self.assertEqual(found[-1]["usageMetadata"]["totalTokenCount"], 15)
        whole = encoder.whole(turn)["candidates"][0]["content"]["parts"]
        self.assertEqual(
            [*whole[0], *whole[1], *whole[2]], ["text", "thought", "text", "functionCall"]
        )

    def test_failure(self) -> None:
        """The body of an error."""
        failure = Gemini().failure(Fail(429, "RESOURCE_EXHAUSTED", "slow"))
        self.assertEqual(
            failure, {"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}
        )


class ModelListTests(SynchronousTestCase):
    """What every wire offers."""

    def test_one_model(self) -> None:
        """By the path that clients of its API ask."""
        for wire in (WIRE, ChatCompletions(), Responses()):
            found = wire.extra("GET", "/v1/models", {})
            assert found is not None
            self.assertEqual([one["id"] for one in found["data"]], ["scripted"])
            self.assertIsNone(wire.extra("POST", "/v1/models", {}))
