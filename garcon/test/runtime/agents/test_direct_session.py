"""A direct session and its HTTP, on a clock: turns, failures, deadlines, bounds, stops and steers
(chats.md 5.1, 5.6, 5.7, 5.11).
"""

from __future__ import annotations

import html
import json
from typing import Any
from urllib.parse import quote
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError, DNSLookupError
from zope.interface.verify import verifyObject

from garcon.contract.messages import AssistantMessage, Thinking, TranscriptNotice
from garcon.contract.runs import (
    HistoryMessage,
    PermissionResponse,
    RowProduced,
    RunEvent,
    SessionStarted,
)
from garcon.contract.steering import Steer, SteerTarget
from garcon.errors import GarconError
from garcon.runtime.agents import direct_session
from garcon.runtime.agents.direct_http import DRAIN, DRAIN_TIME, ERROR_BODY, HEAD
from garcon.runtime.agents.direct_session import REPLY_TIME, STEER_BYTES, STEERS
from garcon.runtime.interfaces import IAgentSession
from garcon.test.runtime.agents.direct_cast import CHAT, KEY, RESPONSES, sse
from garcon.test.runtime.agents.direct_shell import Connection, DirectCase
from garcon.testing.agent_runs import RecordingSink
from garcon.testing.models.script import Text, Think, said


def reply(text: str, thinking: str = "") -> bytes:
    """An answer that says a text."""
    steps = [Think(thinking)] if thinking else []
    return b"".join(CHAT.stream(said(*steps, Text(text, chunks=3))))


PART = b"".join(CHAT.stream(said(Text("one two three", chunks=3)))[:3])
"""An answer that has begun."""


def a_steer(content: str) -> Steer:
    return Steer(target=SteerTarget(run_id="run"), client_message_id="m", content=content)


class StoppingSink(RecordingSink):
    """Stops the turn in the very event of a kind."""

    stop_at: type
    session: IAgentSession

    def event(self, event: RunEvent) -> None:
        """Keep it, and stop."""
        super().event(event)
        if isinstance(event, self.stop_at):
            self.session.interrupt()


class TurnTests(DirectCase):
    """Turns that go well."""

    def test_it_is_a_session(self) -> None:
        """As every agent's."""
        verifyObject(IAgentSession, self.session)

    def test_a_reply_is_one_row(self) -> None:
        """However many pieces it came in, and after its thinking; nothing comes before the whole
        (chats.md 5.1.5).
        """
        sink = self.begin()
        connection = self.connected()
        body = reply("one two three", "well")
        connection.answer(body[:100])
        for place in range(100, len(body), 50):
            self.assertEqual(sink.rows(object), [])
            connection.more(body[place : place + 50])
        self.assertEqual([type(row) for row in sink.rows(object)], [Thinking, AssistantMessage])
        self.assertEqual(sink.texts, ["one two three"])
        self.assertEqual(sink.rows(Thinking)[0].content, "well")
        self.assertEqual(self.end_of(sink).outcome, "finished")

    def test_a_key_that_is_sent_back(self) -> None:
        """Is in no row, whichever way it came."""
        sink = self.begin()
        self.connected().whole(reply(f"I was sent {KEY} today", f"is it {KEY}"))
        self.assertEqual(sink.texts, ["I was sent [secret] today"])
        self.assertEqual(sink.rows(Thinking)[0].content, "is it [secret]")

    def test_the_model_is_asked_for_by_its_own_name(self) -> None:
        """Without the endpoint's id, which the selection begins with; only at the beginning."""
        for model, raw in (
            ("endpoint:scripted/model:1", "scripted/model:1"),
            ("scripted/model:1", "scripted/model:1"),
            ("endpoint:endpoint:x", "endpoint:x"),
            ("other:x", "other:x"),
        ):
            self.begin(model=model)
            connection = self.connected()
            self.assertEqual(connection.requests[0]["model"], raw)
            connection.lose()
            self.successResultOf(self.session.interrupt())

    def test_the_first_turn_names_a_session_and_later_ones_go_on(self) -> None:
        """A fresh name, said once; the launch says whether there is one."""
        first, second = self.begin(), None
        UUID(first.session_id)
        connection = self.connected()
        connection.whole(reply("one"))
        second = self.begin(agent_session_id=first.session_id)
        connection.whole(reply("two"))
        self.assertEqual(second.of(SessionStarted), [])
        self.assertEqual(second.texts, ["two"])
        third = self.begin()
        self.assertNotEqual(third.session_id, first.session_id)

    def test_each_launch_brings_the_conversation(self) -> None:
        """The session remembers none of it."""
        self.begin("one")
        connection = self.connected()
        connection.whole(reply("two"))
        history = [HistoryMessage("user", "other"), HistoryMessage("assistant", "still other")]
        self.begin("three", agent_session_id="x", history=history)
        texts = [message["content"] for message in connection.requests[1]["messages"]]
        self.assertEqual(texts, ["other", "still other", "three"])

    def test_the_endpoint_is_looked_up_for_each_turn(self) -> None:
        """Its key is not kept: a turn is run with what is stored now."""
        self.begin()
        self.connected().whole(reply("one"))
        self.credentials.endpoint = self.case.endpoint(api_key="sk-another")
        self.begin(agent_session_id="x")
        self.assertEqual(self.credentials.asked, [("profile", "endpoint")] * 2)
        value = self.endpoints.connections[0].transport.value()
        self.assertEqual(value.count(KEY.encode()), 1)
        self.assertEqual(value.count(b"sk-another"), 1)

    def test_a_connection_serves_the_next_turn(self) -> None:
        """Where the provider lets it, and for a minute."""
        self.begin()
        connection = self.connected()
        connection.whole(reply("one"))
        self.clock.advance(59)
        self.begin()
        self.assertEqual(len(self.endpoints.connections), 1)
        connection.whole(reply("two"))
        self.clock.advance(60)
        self.assertFalse(connection.is_open)
        self.begin()
        self.assertEqual(len(self.endpoints.connections), 2)

    def test_a_turn_ends_with_its_reply_not_with_its_connection(self) -> None:
        """A provider that goes on talking, or says nothing, is left: by time and by size."""
        for more, advance in ((b"x" * (DRAIN + 1), 0.0), (b"", DRAIN_TIME)):
            sink = self.begin()
            connection = self.connected()
            connection.answer(reply("done"))
            self.assertEqual(self.end_of(sink).outcome, "finished")
            self.assertTrue(connection.is_open)
            connection.more(more)
            self.clock.advance(advance)
            self.assertFalse(connection.is_open)

    def test_what_little_follows_a_reply_is_read(self) -> None:
        """So that its connection can serve the next turn."""
        self.begin()
        connection = self.connected()
        connection.answer(reply("done"))
        connection.more(b"x" * (DRAIN - 7))
        connection.end()
        self.begin()
        self.assertEqual(len(connection.requests), 2)

    def test_a_reply_that_the_model_cut_short_says_so(self) -> None:
        """In a notice of its own: the text stays what the model said."""
        sink = self.begin()
        body = reply("half").replace(b'"finish_reason": "stop"', b'"finish_reason": "length"')
        self.connected().whole(body)
        self.assertEqual(sink.texts, ["half"])
        self.assertIn("ends early", sink.rows(TranscriptNotice)[0].content)

    def test_a_server_that_closes_instead_of_ending_is_understood(self) -> None:
        """HTTP/1.0 knows no other end; the stream has its own."""
        sink = self.begin()
        connection = self.connected()
        connection.say(b"HTTP/1.0 200 OK\r\n\r\n" + reply("done").replace(b"data: [DONE]\n\n", b""))
        self.assertEqual(sink.texts, [])
        connection.lose()
        self.assertEqual(sink.texts, ["done"])

    def test_no_permission_is_ever_asked_for(self) -> None:
        """So no decision is delivered."""
        decision = PermissionResponse(run_id="r", permission_occurrence_id="p", allow=True)
        self.assertEqual(self.session.respond(decision), "not-delivered")


class LaunchTests(DirectCase):
    """Launches that begin no turn."""

    def refusal(self, **changes: Any) -> GarconError:
        """Launch, and return the refusal; nothing was connected."""
        sink = RecordingSink(self.clock)
        d = self.session.run(self.launch(**changes), sink)
        error = self.failureResultOf(d, GarconError).value
        assert isinstance(error, GarconError)
        self.clock.advance(0)
        self.assertEqual((sink.events, self.endpoints.connections), ([], []))
        return error

    def test_a_model_of_no_endpoint_is_refused(self) -> None:
        """There is nowhere to send it."""
        for missing in ("api_provider_id", "model_endpoint_id"):
            self.assertEqual(self.refusal(**{missing: None}).status, 422)

    def test_an_endpoint_that_cannot_be_had_refuses_the_launch(self) -> None:
        """With its own words: a start that never began is undone (decisions.md 22)."""
        missing = GarconError("API_PROVIDER_UNAVAILABLE", "no such endpoint", status=404)
        failed: Deferred[object] = Deferred()
        failed.errback(missing)
        self.credentials.answers.append(failed)  # type: ignore[arg-type]
        self.assertIs(self.refusal(), missing)

    def test_an_endpoint_of_another_api_is_refused(self) -> None:
        """Before anything is sent to it."""
        self.credentials.endpoint = RESPONSES.endpoint(protocol="anthropic-messages")
        self.assertIn("does not offer", self.refusal().text)

    def test_a_compaction_is_refused(self) -> None:
        """There is no session that could be compacted."""
        self.assertEqual(self.refusal(is_compaction=True).code, "OPERATION_UNSUPPORTED")

    def test_a_launch_that_is_given_up_waits_for_no_endpoint(self) -> None:
        """The question is given up with it."""
        waiting: Deferred[object] = Deferred()
        self.credentials.answers.append(waiting)  # type: ignore[arg-type]
        d = self.session.run(self.launch(), RecordingSink(self.clock))
        d.cancel()
        self.failureResultOf(d)
        self.assertTrue(waiting.called)


class StoppedEarlyTests(DirectCase):
    """A server that may give any reason for its model's end."""

    case = RESPONSES

    def test_why_a_model_stopped_is_shown_as_an_error_is(self) -> None:
        """Cut, on one line, and without the key, whatever a server says."""
        sink = self.begin()
        why = f"tired\nof {KEY} " + "x" * 2_000
        delta = {"type": "response.output_text.delta", "delta": "half"}
        response = {"incomplete_details": {"reason": why}}
        self.connected().whole(sse(delta, {"type": "response.incomplete", "response": response}))
        (notice,) = sink.rows(TranscriptNotice)
        self.assertIn("tired of [secret] xxx", notice.content)
        self.assertLess(len(notice.content), 1_100)


class FailureTests(DirectCase):
    """Turns that fail: what they say, and that nothing is left of them (chats.md 5.1.5, 5.7.3)."""

    def test_an_answer_that_breaks_off_leaves_no_row(self) -> None:
        """Whether its connection broke or it ended in good order; it is not asked for again."""
        for lost in (True, False):
            sink = self.begin()
            connection = self.connected()
            connection.answer(PART)
            if lost:
                connection.lose()
            else:
                connection.end()
            self.assertIn("broke off", self.failure_of(sink))
            self.assertEqual(len(connection.requests), 1)

    def test_an_empty_answer_fails(self) -> None:
        """Also one without any event."""
        for body in (reply(""), b""):
            sink = self.begin()
            self.connected().whole(body)
            self.failure_of(sink)

    def test_garbage_fails_at_once(self) -> None:
        """Its connection is dropped in the middle."""
        sink = self.begin()
        connection = self.connected()
        connection.answer(b"data: {garbage\n\n")
        self.assertIn("could not be understood", self.failure_of(sink))
        self.assertFalse(connection.is_open)

    def test_an_error_in_the_stream_fails_with_the_providers_message(self) -> None:
        """After some of the text, of which nothing is kept."""
        sink = self.begin()
        self.connected().answer(PART + b'data: {"error": {"message": "out of order"}}\n\n')
        self.assertIn("out of order", self.failure_of(sink))

    def test_an_http_failure_says_its_status(self) -> None:
        """And the provider's message; it is not asked again for what will not pass."""
        sink = self.begin()
        connection = self.connected()
        connection.whole(b'{"error": {"message": "no such model"}}', "404 Not Found")
        text = self.failure_of(sink)
        self.assertIn("404", text)
        self.assertIn("no such model", text)
        self.assertEqual(len(connection.requests), 1)

    def test_an_answer_that_is_no_stream_fails(self) -> None:
        """With the error that it tells of, if it does, although its status was good."""
        for body, words in (
            (b'{"error": {"message": "no such model"}}', "no such model"),
            (b'{"choices": []}', "did not stream"),
            (b"{", "did not stream"),
        ):
            sink = self.begin()
            header = "Content-Type: application/json; charset=utf-8"
            self.connected().whole(body, "200 OK", header)
            self.assertIn(words, self.failure_of(sink))

    def test_a_redirect_is_not_followed(self) -> None:
        """The key is for this address alone."""
        sink = self.begin()
        self.connected().whole(b"", "307 Away", "Location: http://other.example/v1")
        self.assertIn("307", self.failure_of(sink))
        self.assertEqual(len(self.endpoints.urls), 1)

    def test_the_key_is_in_no_failure(self) -> None:
        """Though some providers repeat what they were sent."""
        self.credentials.endpoint = self.case.endpoint(headers={"X-Other": "also-secret"})
        sink = self.begin()
        body = f'{{"error": "bad key {KEY}, also-secret"}}'.encode()
        self.connected().whole(body, "401 Unauthorized")
        text = self.failure_of(sink)
        self.assertIn("bad key", text)
        self.assertNotIn(KEY, text)
        self.assertNotIn("also-secret", text)

    def test_a_long_text_is_cut_and_no_part_of_the_key_with_it(self) -> None:
        """A thousand characters are kept, of which none is the key's, wherever it stands."""
        for length, end in ((1_000, "x"), (1_001, "…")):
            sink = self.begin()
            # What the text begins with counts too.
            said = length - len("The provider answered with HTTP status 400: ")
            self.connected().whole(b'{"error": "%s"}' % (b"x" * said), "400 Bad Request")
            self.assertTrue(self.failure_of(sink).endswith("x" + end))
        for place in range(900, 1_000, 7):
            sink = self.begin()
            self.connected().whole(
                b'{"error": "%s%s"}' % (b"x" * place, KEY.encode()), "400 Bad Request"
            )
            self.assertNotIn(KEY[:4], self.failure_of(sink))

    def test_the_key_is_in_no_failure_in_another_form(self) -> None:
        """As JSON, a page or an address has to write it."""
        key = 'sk-"a<b\\c/d'
        self.credentials.endpoint = self.case.endpoint(api_key=key)
        for form in (json.dumps(key)[1:-1], html.escape(key), quote(key, "")):
            sink = self.begin()
            self.connected().whole(
                json.dumps({"error": f"bad key {form}"}).encode(), "401 Unauthorized"
            )
            self.assertIn("bad key [secret]", self.failure_of(sink))

    def test_a_key_that_http_cannot_carry_fails_without_showing_it(self) -> None:
        """Nothing is connected for it."""
        for change in ({"api_key": "sk-\u4e2d"}, {"base_url": "http://exämple"}):
            self.credentials.endpoint = self.case.endpoint(**change)
            text = self.failure_of(self.begin())
            self.assertIn("cannot be sent", text)
            self.assertNotIn("\u4e2d", text)
        self.assertEqual(self.endpoints.connections, [])

    def test_an_error_body_of_any_length_is_read_so_far(self) -> None:
        """Its beginning is enough."""
        sink = self.begin()
        connection = self.connected()
        connection.answer(b"x" * (ERROR_BODY - 1), "400 Bad Request")
        self.assertNotIn("RunEnded", repr(sink.events))
        connection.more(b"x")
        self.assertIn("400", self.failure_of(sink))

    def test_a_head_of_any_length_is_not_read(self) -> None:
        """A provider that never comes to its point is left at the bound."""
        sink = self.begin()
        connection = self.connected()
        line = b"X-Filler: " + b"x" * 1_000 + b"\r\n"
        connection.say(b"HTTP/1.1 200 OK\r\n")
        while connection.is_open:
            connection.say(line)
            self.assertLess(len(connection.transport.value()), HEAD)
        self.assertIn("head", self.failure_of(sink))

    def test_a_head_of_the_largest_size_is_read(self) -> None:
        """One byte less than the bound."""
        sink = self.begin()
        connection = self.connected()
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
        filler = HEAD - len(head) - 3
        while filler:
            line = min(filler, 10_000)
            if 0 < filler - line < 10:
                line -= 10
            head += b"X: " + b"x" * (line - 5) + b"\r\n"
            filler -= line
        connection.say(head + b"\r\n")
        self.assertEqual(len(head) + 2, HEAD - 1)
        self.assertIn("broke off", self.failure_of(sink))

    def test_a_compressed_answer_fails(self) -> None:
        """Nobody asked for one, and its size would not be known."""
        sink = self.begin()
        self.connected().answer(b"\x1f\x8b", "200 OK", "Content-Encoding: gzip")
        self.assertIn("compressed", self.failure_of(sink))

    def test_a_way_that_is_closed_on_purpose_is_not_tried_again(self) -> None:
        """A certificate or a proxy will not be another one in a second."""
        sink = self.begin()
        self.endpoints.connections[0].made.errback(GarconError("X", "the name is wrong"))
        self.assertIn("the name is wrong", self.failure_of(sink))
        self.assertEqual(len(self.endpoints.connections), 1)

    def test_a_fault_of_ours_is_told_in_the_log_alone(self) -> None:
        """Its words are not for the transcript."""
        self.patch(direct_session, "conversation", lambda launch: 1 / 0)
        sink = self.begin()
        self.assertNotIn("division", self.failure_of(sink))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class RetryTests(DirectCase):
    """Requests that are sent again, as nothing of an answer came."""

    def test_statuses_that_may_pass_are_tried_three_times(self) -> None:
        """With a pause that doubles; then the last one's text is the turn's."""
        sink = self.begin()
        connection = self.connected()
        for number, pause in ((1, 0.5), (2, 1.0), (3, 0.0)):
            self.assertEqual(len(connection.requests), number)
            self.assertEqual(len(sink.events), 1)
            connection.whole(b"", f"50{number} Busy")
            if pause:
                self.clock.advance(pause - 0.01)
                self.assertEqual(len(connection.requests), number)
                self.clock.advance(0.01)
        self.assertIn("503", self.failure_of(sink))

    def test_a_later_attempt_is_the_whole_request_and_its_reply_the_turns(self) -> None:
        """Nobody sees that there was another."""
        sink = self.begin()
        connection = self.connected()
        connection.whole(b"", "429 Slow", "Retry-After: 7")
        self.clock.advance(6.9)
        self.assertEqual(len(connection.requests), 1)
        self.clock.advance(0.1)
        connection.whole(reply("at last"))
        self.assertEqual(sink.texts, ["at last"])
        self.assertEqual(connection.requests[0], connection.requests[1])

    def test_a_provider_that_wants_too_long_a_pause_fails_at_once(self) -> None:
        """More than half a minute is for people to wait."""
        sink = self.begin()
        self.connected().whole(b"", "429 Slow", "Retry-After: 31")
        self.assertIn("429", self.failure_of(sink))

    def test_connections_that_fail_are_tried_again(self) -> None:
        """Refused, unknown, closed before an answer: each says which at the end."""
        sink = self.begin()
        self.endpoints.connections[0].made.errback(ConnectionRefusedError())
        self.clock.advance(0.5)
        self.endpoints.connections[1].made.errback(DNSLookupError())
        self.clock.advance(1.0)
        self.connected().lose()
        self.assertIn("closed the connection", self.failure_of(sink))

    def test_a_cached_connection_that_was_closed_costs_no_turn(self) -> None:
        """The provider closed it when the request was on its way."""
        self.begin()
        connection = self.connected()
        connection.whole(reply("one"))
        sink = self.begin()
        connection.lose()
        self.clock.advance(0.5)
        self.connected().whole(reply("two"))
        self.assertEqual(sink.texts, ["two"])

    def test_what_has_begun_well_is_never_asked_for_again(self) -> None:
        """Its status was good: a second answer could be another one."""
        sink = self.begin()
        connection = self.connected()
        connection.answer()
        connection.lose()
        self.assertIn("broke off", self.failure_of(sink))
        self.clock.advance(60)
        self.assertEqual(len(self.endpoints.connections), 1)


class DeadlineTests(DirectCase):
    """Every wait has its end."""

    def test_connecting(self) -> None:
        """Twenty seconds each time."""
        sink = self.begin()
        for number in (1, 2, 3):
            self.assertEqual(len(self.endpoints.connections), number)
            self.clock.advance(19.9)
            self.assertFalse(self.endpoints.connections[-1].is_given_up)
            self.clock.advance(0.1)
            self.assertTrue(self.endpoints.connections[-1].is_given_up)
            self.clock.advance(1.0)
        self.assertIn("reached in time", self.failure_of(sink))

    def test_the_beginning_of_an_answer(self) -> None:
        """Ten minutes; a provider that took them is not asked again."""
        sink = self.begin()
        connection = self.connected()
        self.clock.advance(599.9)
        self.assertTrue(connection.is_open)
        self.clock.advance(0.1)
        self.assertFalse(connection.is_open)
        self.assertIn("in time", self.failure_of(sink))

    def test_a_silent_answer(self) -> None:
        """Five minutes since its last piece, be that a comment."""
        sink = self.begin()
        connection = self.connected()
        connection.answer(PART)
        for _ in range(3):
            self.clock.advance(299.9)
            connection.more(b": still here\n\n")
        self.clock.advance(300)
        self.assertFalse(connection.is_open)
        self.assertIn("mid-answer", self.failure_of(sink))

    def test_a_silent_error(self) -> None:
        """Its status is known: the rest is not waited for that long."""
        sink = self.begin()
        connection = self.connected()
        connection.answer(b"{", "400 Bad Request")
        self.clock.advance(20)
        self.assertFalse(connection.is_open)
        self.failure_of(sink)

    def test_a_reply_that_never_ends(self) -> None:
        """An hour, however lively it is."""
        sink = self.begin()
        connection = self.connected()
        connection.answer(PART)
        for _ in range(int(REPLY_TIME) // 100):
            self.assertTrue(connection.is_open)
            connection.more(b": still here\n\n")
            self.clock.advance(100)
        self.assertFalse(connection.is_open)
        self.assertIn("too long", self.failure_of(sink))


class StopTests(DirectCase):
    """A stop drops the connection and is no failure (chats.md 5.6)."""

    def assert_stopped(self, sink: RecordingSink) -> None:
        """Stop now, and see that the turn ended by that, at once."""
        self.successResultOf(self.session.interrupt())
        end = self.end_of(sink)
        self.assertEqual((end.outcome, end.error, sink.rows(object)), ("interrupted", None, []))

    def test_before_the_request_is_on_its_way(self) -> None:
        """Nothing is connected."""
        sink = RecordingSink(self.clock)
        self.successResultOf(self.session.run(self.launch(), sink))
        self.assert_stopped(sink)
        self.clock.advance(1)
        self.assertEqual(self.endpoints.connections, [])

    def test_while_it_connects(self) -> None:
        """The attempt is given up."""
        sink = self.begin()
        self.assert_stopped(sink)
        self.assertTrue(self.endpoints.connections[0].is_given_up)

    def test_before_the_answer(self) -> None:
        """The connection is dropped, not ended."""
        sink = self.begin()
        connection = self.connected()
        self.assert_stopped(sink)
        self.assertFalse(connection.is_open)
        self.assertTrue(connection.transport.aborted)

    def test_in_the_middle_of_the_answer(self) -> None:
        """What comes after is dropped; there is no row of a part."""
        sink = self.begin()
        connection = self.connected()
        connection.answer(PART)
        self.assert_stopped(sink)
        self.assertTrue(connection.transport.aborted)

    def test_in_the_middle_of_an_error(self) -> None:
        """It is a stop all the same."""
        sink = self.begin()
        connection = self.connected()
        connection.answer(b"{", "500 Busy")
        self.assert_stopped(sink)

    def test_between_two_attempts(self) -> None:
        """There is no further one."""
        sink = self.begin()
        self.connected().whole(b"", "500 Busy")
        self.assert_stopped(sink)
        self.clock.advance(60)
        self.assertEqual(len(self.endpoints.connections[0].requests), 1)

    def test_from_within_an_event(self) -> None:
        """The session's name, or a reply: whoever hears it may stop the turn at once."""
        for kind in (SessionStarted, RowProduced):
            sink = StoppingSink(self.clock)
            sink.stop_at, sink.session = kind, self.session
            self.successResultOf(self.session.run(self.launch(), sink))
            self.clock.advance(0)
            if kind is RowProduced:
                self.successResultOf(self.session.steer(a_steer("more")))
                self.connected().whole(reply("one"))
            self.assertEqual(self.end_of(sink).outcome, "interrupted")

    def test_twice_is_once(self) -> None:
        """A turn that is over, or none, is stopped already."""
        self.successResultOf(self.session.interrupt())
        sink = self.begin()
        self.assert_stopped(sink)
        self.assert_stopped(sink)

    def test_the_next_turn_is_not_affected(self) -> None:
        """It has a connection of its own."""
        self.assert_stopped(self.begin())
        sink = self.begin("again")
        self.connected().whole(reply("fine"))
        self.assertEqual(sink.texts, ["fine"])

    def test_closing_stops_and_drops_everything(self) -> None:
        """The turn, and connections that wait for another one."""
        sink = self.begin()
        connection = self.connected()
        connection.whole(reply("one"))
        self.successResultOf(self.session.close())
        self.assertFalse(connection.is_open)
        self.assertEqual(self.end_of(sink).outcome, "finished")


class SteerTests(DirectCase):
    """Input for a turn that runs is answered in it, after the reply that is being made (5.11)."""

    def steered(self, content: str) -> str:
        """Steer, and return what became of it."""
        return self.successResultOf(self.session.steer(a_steer(content))).outcome

    def texts(self, connection: Connection, number: int) -> list[tuple[str, str]]:
        """What the model was given with the `number`-th request."""
        return [(m["role"], m["content"]) for m in connection.requests[number]["messages"]]

    def test_a_turn_has_a_reply_for_what_was_asked_and_one_for_what_was_steered(self) -> None:
        """The second request has the first reply in it, then the inputs in their order."""
        sink = self.begin("one", history=[HistoryMessage("user", "zero")])
        connection = self.connected()
        connection.answer(PART)
        self.assertEqual([self.steered("two"), self.steered("three")], ["delivered"] * 2)
        self.assertEqual(len(connection.requests), 1)
        self.assertEqual(sink.texts, [])
        rest = reply("one two three")[len(PART) :]
        connection.more(rest)
        connection.end()
        self.assertEqual(sink.texts, ["one two three"])
        self.assertEqual(self.session.capture_steering().outcome, "captured")
        follow = self.connected()
        self.assertEqual(
            self.texts(follow, -1),
            [
                ("user", "zero"),
                ("user", "one"),
                ("assistant", "one two three"),
                ("user", "two"),
                ("user", "three"),
            ],
        )
        follow.whole(reply("both"))
        self.assertEqual(sink.texts, ["one two three", "both"])
        self.assertEqual(self.end_of(sink).outcome, "finished")

    def test_steering_goes_on_in_the_follow_up(self) -> None:
        """As long as the turn does, one request after the other."""
        sink = self.begin("0")
        for number in range(3):
            self.assertEqual(self.steered(f"steer {number}"), "delivered")
            self.connected().whole(reply(f"reply {number}"))
        self.connected().whole(reply("last"))
        self.assertEqual(sink.texts, ["reply 0", "reply 1", "reply 2", "last"])
        self.assertEqual(self.end_of(sink).outcome, "finished")

    def test_a_turn_that_does_not_run_cannot_be_steered(self) -> None:
        """Before, after and while it stops."""
        self.assertEqual(self.session.capture_steering().outcome, "turn-unavailable")
        self.assertEqual(self.steered("x"), "turn-unavailable")
        self.begin()
        self.assertEqual(self.session.capture_steering().outcome, "captured")
        self.connected().whole(reply("done"))
        self.assertEqual(self.steered("x"), "turn-unavailable")

    def test_an_empty_input_is_invalid(self) -> None:
        """No provider takes one."""
        self.begin()
        self.assertEqual(self.steered(" \n"), "invalid")

    def test_so_many_inputs_wait_and_no_more(self) -> None:
        """By number and by size; the reply makes room."""
        self.begin()
        for _ in range(STEERS):
            self.assertEqual(self.steered("x"), "delivered")
        self.assertEqual(self.steered("x"), "rejected")
        self.connected().whole(reply("one"))
        self.assertEqual(self.steered("x" * STEER_BYTES), "delivered")
        self.assertEqual(self.steered("x"), "rejected")

    def test_a_failure_ends_the_turn_whatever_was_steered(self) -> None:
        """The input is in the transcript, and part of the next turn's conversation."""
        sink = self.begin()
        self.steered("more")
        connection = self.connected()
        connection.whole(b"", "400 Bad")
        self.assertIn("400", self.failure_of(sink))
        self.assertEqual(len(connection.requests), 1)
