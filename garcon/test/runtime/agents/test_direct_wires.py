"""The three model APIs as values: what is asked, and what a reply is (existing-clients.md, chats.md
5.1).
"""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.catalogs import THINKING_MODES, ThinkingMode
from garcon.contract.decoding import PARTS
from garcon.contract.messages import Image
from garcon.contract.providers import Capabilities
from garcon.contract.runs import HistoryMessage
from garcon.runtime.agents.direct_messages import Message, conversation, newest
from garcon.runtime.agents.direct_wire import (
    CUT_SHORT,
    FILTERED,
    REPLY,
    ModelRequest,
    Pieces,
    ProviderFailed,
)
from garcon.test.runtime.agents.direct_cast import (
    ANTHROPIC,
    CASES,
    CHAT,
    KEY,
    PNG,
    RESPONSES,
    Case,
    an_image,
    sse,
)
from garcon.testing.agent_runs import a_launch
from garcon.testing.models.script import Text, Think, Turn, said


def asked(
    case: Case,
    *history: HistoryMessage,
    prompt: str = "hi",
    images: tuple[Image, ...] = (),
    effort: ThinkingMode = "none",
    model: str = "m",
    **changes: Any,
) -> tuple[ModelRequest, dict[str, Any]]:
    """Return the request of a turn, and its body."""
    launch = a_launch(prompt, history=list(history), images=list(images))
    messages = newest(conversation(launch))
    request = case.wire.request(case.endpoint(**changes), model, effort, messages)
    return request, json.loads(request.body)


class RequestTests(SynchronousTestCase):
    """What is asked, judged by the strict pretend servers as well."""

    def test_the_one_completion_route(self) -> None:
        """Below the base of each; an OpenAI base without any path is its version's, as for its
        list of models.
        """
        for case, base, url in (
            (CHAT, "https://a.example/v1", "https://a.example/v1/chat/completions"),
            (CHAT, "https://a.example/v1/", "https://a.example/v1/chat/completions"),
            (
                CHAT,
                "https://a.example/api/paas/v4",
                "https://a.example/api/paas/v4/chat/completions",
            ),
            (CHAT, "https://a.example", "https://a.example/v1/chat/completions"),
            (RESPONSES, "https://a.example/v1", "https://a.example/v1/responses"),
            (RESPONSES, "http://a.example:1", "http://a.example:1/v1/responses"),
            (ANTHROPIC, "https://a.example", "https://a.example/v1/messages"),
            (ANTHROPIC, "https://a.example/v1", "https://a.example/v1/messages"),
            (ANTHROPIC, "https://a.example/anthropic/", "https://a.example/anthropic/v1/messages"),
        ):
            self.assertEqual(asked(case, base_url=base)[0].url, url)

    def test_the_key_goes_where_the_protocol_has_its_place(self) -> None:
        """A bearer for OpenAI's, a header of its own and the version for Anthropic's; nothing where
        there is no key.
        """
        for case in CASES:
            headers = asked(case)[0].headers
            if case is ANTHROPIC:
                self.assertEqual(headers["x-api-key"], KEY)
                self.assertEqual(headers["anthropic-version"], "2023-06-01")
                self.assertNotIn("Authorization", headers)
            else:
                self.assertEqual(headers["Authorization"], f"Bearer {KEY}")
            self.assertNotIn(KEY, repr(asked(case, api_key=None)[0].headers))

    def test_headers_of_the_profile_go_along_but_replace_none_of_ours(self) -> None:
        """Whatever their case."""
        extra = {
            "X-Title": "Garcon",
            "authorization": "no",
            "HOST": "no",
            "Accept": "no",
        }
        for case in CASES:
            request, _ = asked(case, headers=extra)
            self.assertEqual(request.headers["X-Title"], "Garcon")
            self.assertNotIn("no", request.headers.values())
            wanted = {"x-title": "Garcon"}
            self.assertEqual(case.violations(request, extra_headers=wanted), [])

    def test_every_stream_is_asked_for_and_nothing_stored(self) -> None:
        """`stream` always, `store` false for Responses, and no member beside the needed ones."""
        _, chat = asked(CHAT)
        self.assertEqual(
            chat, {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
        )
        _, responses = asked(RESPONSES)
        self.assertEqual(
            responses,
            {
                "model": "m",
                "input": [{"role": "user", "content": "hi"}],
                "stream": True,
                "store": False,
            },
        )
        _, messages = asked(ANTHROPIC)
        self.assertEqual(
            messages,
            {
                "model": "m",
                "messages": [{"role": "user", "content": "hi"}],
                "stream": True,
                "max_tokens": 8192,
            },
        )

    def test_all_said_before_comes_first_each_as_its_own_message(self) -> None:
        """In order, also where one speaker spoke twice; no system message."""
        history = [
            HistoryMessage("user", "one"),
            HistoryMessage("user", "two"),
            HistoryMessage("assistant", "three"),
            HistoryMessage("assistant", "four"),
        ]
        for case in CASES:
            request, body = asked(case, *history, prompt="five")
            self.assertEqual(
                [(m["role"], m["content"]) for m in body[case.messages]],
                [
                    ("user", "one"),
                    ("user", "two"),
                    ("assistant", "three"),
                    ("assistant", "four"),
                    ("user", "five"),
                ],
            )
            self.assertEqual(case.violations(request), [])

    def test_no_more_than_two_hundred_messages_are_sent(self) -> None:
        """The newest 199 and the prompt (chats.md 5.1.4)."""
        for number in (199, 200):
            history = [HistoryMessage("user", f"m{i}") for i in range(number)]
            _, body = asked(CHAT, *history, prompt="last")
            texts = [m["content"] for m in body["messages"]]
            self.assertEqual(texts, [*(f"m{i}" for i in range(number - 199, number)), "last"])

    def test_messages_without_anything_in_them_are_left_out(self) -> None:
        """Servers refuse them: an input whose attachments were too many to be sent again."""
        _, body = asked(CHAT, HistoryMessage("user", ""), HistoryMessage("assistant", " \n"))
        self.assertEqual(len(body["messages"]), 1)

    def test_pictures_are_the_wires_own_parts(self) -> None:
        """Of the prompt and of what was said before, followed by the text."""
        picture = an_image("image/png")
        for case, part in (
            (CHAT, {"type": "image_url", "image_url": {"url": picture.data}}),
            (RESPONSES, {"type": "input_image", "image_url": picture.data}),
            (
                ANTHROPIC,
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                },
            ),
        ):
            before = HistoryMessage("user", "look", [picture])
            request, body = asked(case, before, prompt="again", images=(picture, picture))
            first, last = body[case.messages][0]["content"], body[case.messages][-1]["content"]
            self.assertEqual(first[0], part)
            self.assertEqual(first[1]["text"], "look")
            self.assertEqual(last[:2], [part, part])
            self.assertEqual(last[2]["text"], "again")
            self.assertEqual(case.violations(request), [])

    def test_a_picture_may_come_without_text(self) -> None:
        """Then there is no text part at all."""
        for case in CASES:
            request, body = asked(case, prompt="", images=(an_image("image/webp"),))
            self.assertEqual(len(body[case.messages][0]["content"]), 1)
            self.assertEqual(case.violations(request), [])

    def test_a_pdf_is_a_document_where_the_wire_has_one(self) -> None:
        """Responses and Anthropic; to Chat Completions it is named, as another agent may have been
        given it.
        """
        pdf = an_image("application/pdf", b"%PDF-1.7", "paper.pdf")
        _, body = asked(RESPONSES, images=(pdf,))
        part = {"type": "input_file", "filename": "paper.pdf", "file_data": pdf.data}
        self.assertEqual(body["input"][0]["content"][0], part)
        request, body = asked(ANTHROPIC, images=(pdf,))
        self.assertEqual(body["messages"][0]["content"][0]["type"], "document")
        self.assertEqual(ANTHROPIC.violations(request), [])
        _, body = asked(CHAT, HistoryMessage("user", "", [pdf]))
        self.assertIn("paper.pdf", body["messages"][0]["content"][0]["text"])
        self.assertNotIn("JVBERi0", json.dumps(body))

    def test_texts_and_drawings_are_sent_as_text(self) -> None:
        """No wire takes these as files; what cannot be decoded does not stop them."""
        for mime_type in ("text/markdown", "text/plain", "image/svg+xml"):
            for case in CASES:
                one = an_image(mime_type, "# Grüße ".encode() + b"\xff", "notes.md")
                request, body = asked(case, images=(one,))
                text = body[case.messages][0]["content"][0]["text"]
                self.assertIn("notes.md", text)
                self.assertTrue(text.endswith("# Grüße \ufffd"), text)
                self.assertEqual(case.violations(request), [])

    def test_an_effort_is_said_where_there_is_one(self) -> None:
        """None is not said at all; the others are words or budgets that servers know."""
        for case in CASES:
            plain = asked(case)[1].keys()
            for effort in THINKING_MODES:
                request, body = asked(case, effort=effort)
                self.assertEqual(case.violations(request), [], effort)
                self.assertEqual(body.keys() == plain, effort == "none")
        self.assertEqual(asked(CHAT, effort="high")[1]["reasoning_effort"], "high")
        self.assertEqual(asked(RESPONSES, effort="ultra")[1]["reasoning"], {"effort": "xhigh"})

    def test_claude_is_told_an_effort_as_its_version_takes_it(self) -> None:
        """A budget up to 4.5 and for other makers' models, an effort from 4.6 on."""
        for model, effort, thinking in (
            ("claude-sonnet-4-5-20250929", "low", 4_000),
            ("claude-opus-4-20250514", "max", 24_000),
            ("claude-opus-4-1", "xhigh", 20_000),
            ("qwen-plus", "medium", 8_000),
            ("claude-opus-4-6", "xhigh", "high"),
            ("claude-sonnet-4.6", "max", "max"),
            ("anthropic/claude-opus-4.7", "xhigh", "xhigh"),
            ("claude-opus-4-8", "ultra", "max"),
            ("claude-fable-5", "low", "low"),
        ):
            effort_: Any = effort
            request, body = asked(ANTHROPIC, model=model, effort=effort_)
            self.assertEqual(ANTHROPIC.violations(request), [], model)
            if isinstance(thinking, int):
                wanted = {"type": "enabled", "budget_tokens": thinking}
                self.assertEqual(body["thinking"], wanted, model)
            else:
                self.assertEqual(body["output_config"], {"effort": thinking}, model)

    def test_claude_may_make_more_than_other_models(self) -> None:
        """A number that each server takes, where none is named."""
        for model, tokens in (
            ("claude-sonnet-4-5", 32_000),
            ("claude-3-5-haiku-20241022", 8_192),
            ("glm-5.1", 8_192),
        ):
            self.assertEqual(asked(ANTHROPIC, model=model)[1]["max_tokens"], tokens)

    def test_a_request_shows_neither_key_nor_content(self) -> None:
        """In its representation, which may end up in a log."""
        for case in CASES:
            shown = repr(asked(case, prompt="private")[0])
            self.assertNotIn(KEY, shown)
            self.assertNotIn("private", shown)

    def test_an_endpoint_must_offer_the_wire(self) -> None:
        """By its protocol and its capabilities."""
        for case in CASES:
            for other in CASES:
                same = case.wire.speech == other.wire.speech
                self.assertEqual(case.wire.is_offered_by(other.endpoint()), same)
        only_chat = RESPONSES.endpoint(capabilities=Capabilities(True, False))
        self.assertFalse(RESPONSES.wire.is_offered_by(only_chat))
        only_responses = CHAT.endpoint(capabilities=Capabilities(False, True))
        self.assertFalse(CHAT.wire.is_offered_by(only_responses))


class ReplyTests(SynchronousTestCase):
    """What an answer amounts to."""

    def assert_failed(self, case: Case, words: str, *pieces: bytes) -> None:
        """Assert that an answer is no reply, for a reason."""
        with self.assertRaises(ProviderFailed) as caught:
            case.read(*pieces)
        self.assertIn(words, caught.exception.text)

    def test_a_reply_in_pieces_is_one_text(self) -> None:
        """Its thinking apart, and what the provider counted."""
        for case in CASES:
            turn = Turn((Think("hmm, well"), Text("grüße 🙂 to all", chunks=7)), (12, 34))
            reply = case.read(*case.stream(turn))
            self.assertEqual((reply.text, reply.thinking), ("grüße 🙂 to all", "hmm, well"))
            self.assertIsNone(reply.cut_short)
            assert reply.usage is not None
            self.assertEqual((reply.usage.given, reply.usage.made), (12, 34))

    def test_an_answer_that_breaks_off_anywhere_is_no_reply(self) -> None:
        """Not a part of it either (chats.md 5.1.5)."""
        for case in CASES:
            frames = case.stream(said(Text("one two three", chunks=3)))
            ends = {CHAT: 3, RESPONSES: 1, ANTHROPIC: 2}[case]
            for kept in range(len(frames) - ends + 1):
                self.assert_failed(case, "broke off", *frames[:kept])

    def test_an_answer_without_text_is_no_reply(self) -> None:
        """Neither is one of thinking or of blanks alone."""
        for case in CASES:
            for turn in (said(), said(Think("hm")), said(Text(" \n"))):
                self.assert_failed(case, "is empty", *case.stream(turn))

    def test_an_error_in_the_stream_is_the_providers_own(self) -> None:
        """Its message is what the turn fails with (chats.md 5.7.3)."""
        error = {"message": "too busy"}
        for case, errors in (
            (
                CHAT,
                (
                    sse({"error": {"message": "too busy", "code": 529}}),
                    sse({"error": "too busy"}),
                    b'event: error\ndata: {"message": "too busy"}\n\n',
                    sse({"choices": [], "error": {"error": error}}),
                ),
            ),
            (
                RESPONSES,
                (
                    sse({"type": "error", "code": "x", "message": "too busy"}, names=True),
                    sse({"type": "error", "error": error}),
                    sse({"type": "response.failed", "response": {"error": error}}),
                ),
            ),
            (
                ANTHROPIC,
                (
                    sse(
                        {"type": "error", "error": {"type": "x", "message": "too busy"}}, names=True
                    ),
                ),
            ),
        ):
            begun = case.stream(said("some text"))[:-3]
            for end in errors:
                self.assert_failed(case, "too busy", *begun, end)

    def test_an_event_of_very_many_parts_is_no_reply(self) -> None:
        """It would take seconds to read; in whichever member they are."""
        many = b"[]," * PARTS + b"[]"
        for case, events in (
            (CHAT, (b'{"choices":[%s]}', b'{"choices":[{"delta":{"content":[%s]}}]}')),
            (RESPONSES, (b'{"type":"response.completed","response":{"output":[%s]}}',)),
            (ANTHROPIC, (b'{"type":"content_block_delta","delta":{"text":[%s]}}', b'{"x":[%s]}')),
        ):
            for event in events:
                for broken in (b"", b"\xff"):
                    self.assert_failed(
                        case, "could not be understood", b"data: " + event % many + broken + b"\n\n"
                    )

    def test_a_reply_in_very_many_pieces_takes_no_more_than_its_size(self) -> None:
        """A server may send its text letter by letter."""
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        pieces, before = Pieces(), tracemalloc.get_traced_memory()[0]
        for n in range(1_000_000):
            pieces.add(f"{n % 100:02}")
        self.assertLess(tracemalloc.get_traced_memory()[0] - before, 12_000_000)
        self.assertEqual(len(pieces.joined()), 2_000_000)

    def test_garbage_is_no_reply(self) -> None:
        """Whatever it is made of."""
        for case in CASES:
            for garbage in (
                b"<html>busy</html>",
                b"data: {not json\n\n",
                b"data: []\n\n",
                b'data: "text"\n\n',
                b"data: \xff\xfe\n\n",
                b'data: {"type": 7, "choices": 7}\n\n',
                b"data: " + b"[" * 100_000 + b"\n\n",
            ):
                with self.assertRaises(ProviderFailed):
                    case.read(garbage)

    def test_a_reply_of_the_largest_size(self) -> None:
        """N bytes are a reply; one more is none, in however many pieces."""
        for case in CASES:
            frames = case.stream(said(Text("ä" * (REPLY // 2), chunks=3)))
            self.assertEqual(len(case.read(*frames).text), REPLY // 2)
            frames = case.stream(said(Text("ä" * (REPLY // 2) + "x", chunks=3)))
            self.assert_failed(case, "longer than", *frames)

    def test_thinking_of_the_largest_size(self) -> None:
        """The same for what the model thinks aloud."""
        for case in CASES:
            frames = case.stream(said(Think("x" * REPLY), "done"))
            self.assertEqual(len(case.read(*frames).thinking), REPLY)
            self.assert_failed(
                case, "longer than", *case.stream(said(Think("x" * (REPLY + 1)), "done"))
            )

    def test_a_character_that_comes_in_two_halves_is_whole(self) -> None:
        """Servers that cut text by UTF-16 units write such; a half that stays alone becomes a
        mark.
        """
        for case in CASES:
            for halves, text in (
                (r'"a\ud83d" "\ude42b"', "a🙂b"),
                (r'"a\ud83d" "b"', "a\ufffdb"),
            ):
                frames = b"".join(case.stream(said(Text("12", chunks=2))))
                one, two = halves.split(" ")
                frames = frames.replace(b'"1"', one.encode()).replace(b'"2"', two.encode())
                self.assertEqual(case.read(frames).text, text)

    def test_a_model_that_stopped_early_says_why(self) -> None:
        """The reply stands: it is all there will be."""
        chat: dict[str, Any] = {"choices": [{"delta": {"content": "half"}}]}
        end: dict[str, Any]
        for reason, text in (("length", CUT_SHORT), ("content_filter", FILTERED), ("stop", None)):
            end = {"choices": [{"delta": {}, "finish_reason": reason}]}
            self.assertEqual(CHAT.read(sse(chat, end, "[DONE]")).cut_short, text)
        delta = {"type": "response.output_text.delta", "delta": "half"}
        for reason, text in (("max_output_tokens", CUT_SHORT), ("other", "other")):
            response = {"incomplete_details": {"reason": reason}}
            end = {"type": "response.incomplete", "response": response}
            self.assertEqual(RESPONSES.read(sse(delta, end)).cut_short, text)
        block = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "half"}}
        for reason, text in (("max_tokens", CUT_SHORT), ("end_turn", None)):
            end = {"type": "message_delta", "delta": {"stop_reason": reason}}
            stop = {"type": "message_stop"}
            self.assertEqual(ANTHROPIC.read(sse(block, end, stop)).cut_short, text)


class DialectTests(SynchronousTestCase):
    """What compatible servers do differently."""

    def test_chat_reasons_under_two_names_and_in_parts(self) -> None:
        """Each is thinking once; parts of text are text."""
        chunks: list[dict[str, Any]] = [
            {"delta": {"reasoning": "a", "reasoning_content": "a"}},
            {"delta": {"reasoning": "b"}},
            {"delta": {"content": [{"type": "thinking", "thinking": []}]}},
            {"delta": {"content": [{"type": "text", "text": "said"}]}},
            {"delta": {"refusal": " no"}, "finish_reason": "stop"},
        ]
        reply = CHAT.read(sse(*({"choices": [chunk]} for chunk in chunks)))
        self.assertEqual((reply.text, reply.thinking), ("said no", "ab"))

    def test_chat_ends_by_its_mark_or_by_its_reason(self) -> None:
        """Some servers leave one of them out; what follows the mark is not read."""
        text = {"choices": [{"delta": {"content": "x"}}]}
        self.assertEqual(CHAT.read(sse(text, "[DONE]", {"error": "late"})).text, "x")
        reason = {"choices": [{"delta": None, "finish_reason": "stop"}], "usage": None}
        self.assertEqual(CHAT.read(sse(text, reason)).text, "x")

    def test_chat_listens_to_one_choice(self) -> None:
        """And to chunks without any."""
        choices = [{"index": 0, "delta": {"content": "x"}}, {"index": 1, "delta": {"content": "y"}}]
        self.assertEqual(CHAT.read(sse({"choices": []}, {"choices": choices}, "[DONE]")).text, "x")

    def test_responses_may_come_without_deltas(self) -> None:
        """Then the response itself holds the text."""
        items = [
            {"type": "reasoning", "content": None},
            {"type": "message", "content": [{"type": "output_text", "text": "one"}]},
            {"type": "message", "content": [{"type": "refusal", "refusal": "two"}]},
        ]
        end = {"type": "response.completed", "response": {"output": items, "error": None}}
        self.assertEqual(RESPONSES.read(sse(end)).text, "one\n\ntwo")

    def test_responses_may_end_with_no_more_than_the_word(self) -> None:
        """What was said by then is the reply; a failure is one without a reason."""
        said = {"type": "response.output_text.delta", "delta": "all"}
        self.assertEqual(RESPONSES.read(sse(said, {"type": "response.completed"})).text, "all")
        with self.assertRaises(ProviderFailed):
            RESPONSES.read(sse(said, {"type": "response.failed"}))

    def test_responses_part_their_sections(self) -> None:
        """Messages, and parts of a summary, have a blank line between them."""
        events: list[dict[str, Any]] = [
            {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": "a"},
            {"type": "response.reasoning_summary_text.delta", "summary_index": 1, "delta": "b"},
            {"type": "response.output_text.delta", "output_index": 1, "delta": "c"},
            {"type": "response.output_text.delta", "output_index": 1, "delta": "d"},
            {"type": "response.output_text.delta", "output_index": 2, "delta": "e"},
            {"type": "response.completed", "response": {}},
        ]
        reply = RESPONSES.read(sse(*events, names=True))
        self.assertEqual((reply.text, reply.thinking), ("cd\n\ne", "a\n\nb"))

    def test_responses_look_only_at_what_they_need(self) -> None:
        """Events that repeat the text are not even decoded."""
        delta = {"type": "response.output_text.delta", "delta": "x"}
        end = {"type": "response.completed", "response": {}}
        repeated = b"event: response.output_text.done\ndata: {not json\n\n"
        reply = RESPONSES.read(sse(delta, names=True), repeated, sse(end, names=True))
        self.assertEqual(reply.text, "x")

    def test_anthropic_blocks_may_begin_with_their_text(self) -> None:
        """Pings and unknown events and blocks mean nothing."""
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
            {"type": "content_block_start", "content_block": {"type": "thinking", "thinking": "a"}},
            {"type": "content_block_start", "content_block": {"type": "redacted_thinking"}},
            {"type": "content_block_start", "content_block": {"type": "thinking"}},
            {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "b"}},
            {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": ""}},
            {"type": "content_block_start", "content_block": {"type": "text", "text": "c"}},
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "d"}},
            {"type": "something_new"},
            {"type": "message_stop"},
        ]
        ping = b"event: ping\ndata: not json\n\n"
        reply = ANTHROPIC.read(ping, sse(*events))
        self.assertEqual((reply.text, reply.thinking), ("cd", "a\n\nb"))


class MessageTests(SynchronousTestCase):
    """Attachments as they are stored."""

    def test_the_type_is_the_controllers_judgement(self) -> None:
        """The URL's only where there is none."""
        launch = a_launch(
            "",
            images=[
                Image("data:application/octet-stream;base64,eA==", "a.md", "text/markdown"),
                Image("data:image/PNG;charset=x;base64,eA=="),
            ],
        )
        [message] = conversation(launch)
        self.assertEqual(message, Message("user", "", message.attachments))
        first, second = message.attachments
        self.assertEqual(
            (first.mime_type, first.name, first.content), ("text/markdown", "a.md", "eA==")
        )
        self.assertEqual((second.mime_type, second.name), ("image/png", "attachment"))
        self.assertEqual(second.url, "data:image/png;base64,eA==")
