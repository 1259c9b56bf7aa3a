"""What a client may say, and how it is refused (server.md A.4 to A.7)."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.events import ClientRequestError, Fault
from garcon.controller.ws.requests import (
    CONTROLS_BYTES,
    MENDED_BYTES,
    CancelReload,
    Ping,
    ReconnectQuery,
    Refused,
    Reload,
    Request,
    Subscribe,
    Terminal,
    read,
)

LARGEST = 2**53 - 1


def say(kind: Any, **fields: Any) -> Request | None:
    """Read one message."""
    return read(json.dumps({"type": kind, **fields}).encode())


class Envelopes(SynchronousTestCase):
    """Every message is one JSON object."""

    def test_what_is_no_object_is_malformed(self) -> None:
        """Also text that is not UTF-8, and nesting without an end."""
        for payload in (
            *(b"", b"{", b"nonsense", b"[]", b"1", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000),
            b'{"a":' * 100_000,
        ):
            self.assertEqual(read(payload), Refused(Fault(error="Malformed JSON")), payload[:9])

    def test_an_unknown_type_is_ignored(self) -> None:
        """Whatever it is."""
        kinds: tuple[Any, ...] = ("chat-start", "", None, 1, [], {}, "WS-PING", "ws-pong")
        for kind in kinds:
            self.assertEqual(say(kind, clientRequestId="a"), None)
        self.assertEqual(read(b"{}"), None)

    def test_terminal_messages_go_to_the_terminals(self) -> None:
        """Even where the rest of them is malformed."""
        for kind in ("terminal-attach", "terminal-input", "terminal-resize", "terminal-detach"):
            payload = json.dumps({"type": kind, "cols": "x"}).encode()
            self.assertEqual(read(payload), Terminal(kind, payload))

    def test_half_a_character_becomes_one_that_says_so(self) -> None:
        """Wherever a text was cut; whole pairs stay, and what only looks like a half."""
        for half in (
            *(r"\ud83d", r"\uDE00", r"a\ud83db", r"\ude00\ud83d", r"\ud83d\ud83d\ude00\ude00"),
            *(r"\\\ud83d", r"\ud83d\n", r"\ud83d\uffff", r"\ude00\\ud83d"),
        ):
            payload = b'{"type":"terminal-input","data":"%s"}' % half.encode()
            request = read(payload)
            assert isinstance(request, Terminal), half
            cut: str = json.loads(payload)["data"]
            whole = cut.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            self.assertEqual(msgspec.json.decode(request.payload)["data"], whole)

    def test_the_largest_message_that_is_mended(self) -> None:
        """A longer one is malformed, as looking for halves takes its time."""
        for more, kind in ((0, Terminal), (1, Refused)):
            begin, end = b'{"type":"terminal-input","data":"', b'\\ud83d"}'
            payload = begin + b"x" * (MENDED_BYTES + more - len(begin + end)) + end
            self.assertIsInstance(read(payload), kind)

    def test_what_is_not_asked_for_becomes_nothing(self) -> None:
        """However many lists an unknown field holds, or a known one that is to be a text."""
        bomb = b"[" + b"[]," * 500_000 + b"[]]"
        for payload in (
            b'{"type":"ws-ping","clientRequestId":"a","x":' + bomb + b"}",
            b'{"type":"ws-ping","clientRequestId":"a","sentAt":' + bomb + b"}",
            b'{"type":"chat-subscribe","chatId":' + bomb + b',"clientRequestId":"a"}',
            b'{"type":' + bomb + b"}",
        ):
            tracemalloc.start()
            self.addCleanup(tracemalloc.stop)
            read(payload)
            self.assertLess(tracemalloc.get_traced_memory()[1], 3 * len(bomb))
            tracemalloc.stop()
        self.assertEqual(
            read(b'{"type":"ws-ping","clientRequestId":"a","sentAt":' + bomb + b"}"), Ping("a", 0)
        )


class Pings(SynchronousTestCase):
    """``ws-ping``."""

    def test_the_instant_is_given_back_as_it_came(self) -> None:
        """Any finite number."""
        for sent_at in (0, 1, -1, 1.5, 1_767_000_000_000, LARGEST):
            self.assertEqual(
                say("ws-ping", clientRequestId="a", sentAt=sent_at), Ping("a", sent_at)
            )

    def test_what_is_no_number_counts_as_zero(self) -> None:
        """Missing, of another type, or too large to be one."""
        self.assertEqual(say("ws-ping", clientRequestId="a"), Ping("a", 0))
        wrong: tuple[Any, ...] = (None, "1", True, [], {}, 10**400)
        for sent_at in wrong:
            self.assertEqual(say("ws-ping", clientRequestId="a", sentAt=sent_at), Ping("a", 0))
        for number in (b"1e999", b"-1e999", b"9" * 10_000):
            payload = b'{"type":"ws-ping","clientRequestId":"a","sentAt":%s}' % number
            self.assertEqual(read(payload), Ping("a", 0))

    def test_a_number_beyond_the_safe_ones_can_be_sent_back(self) -> None:
        """It is what a client's own arithmetic makes of it."""
        ping = say("ws-ping", clientRequestId="a", sentAt=10**30)
        assert isinstance(ping, Ping)
        self.assertEqual(msgspec.json.encode(ping.sent_at), b"1e30")

    def test_without_an_id_there_is_no_answer(self) -> None:
        """Also with a blank one, or one that is no text."""
        bad: tuple[Any, ...] = (None, "", " ", 1, [])
        for request_id in bad:
            self.assertEqual(say("ws-ping", clientRequestId=request_id, sentAt=1), None)


class Queries(SynchronousTestCase):
    """``reconnect-state-query``."""

    def ids(self, value: Any) -> tuple[str, ...]:
        """The chats that are asked about."""
        query = say("reconnect-state-query", controlChatIds=value)
        assert isinstance(query, ReconnectQuery)
        return query.chat_ids

    def test_what_is_no_list_is_empty(self) -> None:
        """And the query is still one that is answered."""
        for value in (None, "1", 1, {}, {"0": "1"}):
            self.assertEqual(self.ids(value), ())
        self.assertEqual(say("reconnect-state-query"), ReconnectQuery(None, ()))

    def test_each_chat_is_asked_about_once(self) -> None:
        """What is no text or blank is dropped, and the order kept."""
        self.assertEqual(self.ids(["2", 1, None, "", "  ", "1", "2", " 1 ", []]), ("2", "1"))

    def test_at_most_256_chats(self) -> None:
        """Counted after the rest was dropped."""
        for many in (256, 257):
            ids = [str(n) for n in range(many)]
            self.assertEqual(self.ids(["", *ids[:1], *ids]), tuple(ids[:256]))

    def test_a_mebibyte_of_chats_and_no_more(self) -> None:
        """One byte more is refused, with what the query names it by."""
        for size in (CONTROLS_BYTES, CONTROLS_BYTES + 1):
            ids = '["1",%s"2"]' % (" " * (size - 9))
            payload = '{"type":"reconnect-state-query","controlChatIds":%s%s}'
            query = read((payload % (ids, ',"clientRequestId":"a"')).encode())
            anonymous = read((payload % (ids, "")).encode())
            if size == CONTROLS_BYTES:
                self.assertEqual(query, ReconnectQuery("a", ("1", "2")))
                self.assertEqual(anonymous, ReconnectQuery(None, ("1", "2")))
                continue
            assert isinstance(query, Refused)
            assert isinstance(query.answer, ClientRequestError)
            self.assertEqual(query.answer.client_request_id, "a")
            self.assertEqual(query.answer.code, "REQUEST_VALIDATION_FAILED")
            assert isinstance(anonymous, Refused)
            self.assertIsInstance(anonymous.answer, Fault)

    def test_the_id_is_optional(self) -> None:
        """One that is no text counts as none."""
        for request_id in (None, "", 1):
            query = say("reconnect-state-query", clientRequestId=request_id)
            self.assertEqual(query, ReconnectQuery(None, ()))
        query = say("reconnect-state-query", clientRequestId="a")
        self.assertEqual(query, ReconnectQuery("a", ()))


GOOD: dict[str, Any] = {
    "clientRequestId": "a",
    "chatId": "1",
    "transcriptViewId": "v",
    "afterOrdinal": 0,
}


class Subscriptions(SynchronousTestCase):
    """``chat-subscribe``."""

    def say(self, **fields: Any) -> Request | None:
        """Ask with some fields changed; None takes one away."""
        merged = GOOD | fields
        return say("chat-subscribe", **{k: v for k, v in merged.items() if v is not None})

    def code(self, **fields: Any) -> tuple[str, bool, Any]:
        """Ask for what is refused with a code."""
        refused = self.say(**fields)
        assert isinstance(refused, Refused)
        assert isinstance(refused.answer, ClientRequestError), refused.answer
        self.assertEqual(refused.answer.request_type, "chat-subscribe")
        self.assertEqual(refused.answer.client_request_id, "a")
        return refused.answer.code, refused.answer.retryable, refused.answer.chat_id

    def test_one_that_is_in_order(self) -> None:
        """With a watermark and without."""
        self.assertEqual(self.say(), Subscribe("a", "1", "v", 0, None))
        self.assertEqual(
            self.say(afterOrdinal=7.0, throughOrdinal=LARGEST), Subscribe("a", "1", "v", 7, LARGEST)
        )

    def test_it_needs_an_id(self) -> None:
        """Said before anything else, and without a correlation: there is none."""
        fault = Refused(Fault(error="chat-subscribe requires a clientRequestId"))
        bad: tuple[Any, ...] = (None, "", "  ", 5, [])
        for request_id in bad:
            self.assertEqual(self.say(clientRequestId=request_id), fault)
        self.assertEqual(say("chat-subscribe"), fault)

    def test_it_needs_a_chat(self) -> None:
        """Said before whatever else is wrong."""
        fault = Refused(Fault(error='Missing chatId for "chat-subscribe"'))
        for chat_id in (None, "", " ", 5):
            self.assertEqual(self.say(chatId=chat_id), fault)
        self.assertEqual(self.say(chatId="", afterOrdinal=-1, transcriptViewId=3), fault)

    def test_the_rest_is_refused_with_a_code(self) -> None:
        """A bad cursor, no view, a bad watermark."""
        wanted = ("REQUEST_VALIDATION_FAILED", False, "1")
        numbers: tuple[Any, ...] = (-1, 0.5, "0", True, [], LARGEST + 1, 10**400)
        texts: tuple[Any, ...] = ("", " ", 5, [])
        for name, values in (
            ("afterOrdinal", numbers),
            ("throughOrdinal", numbers),
            ("transcriptViewId", texts),
        ):
            for value in values:
                self.assertEqual(self.code(**{name: value}), wanted, f"{name} {value}")
        self.assertEqual(self.code(transcriptViewId=None), wanted)
        self.assertEqual(self.code(afterOrdinal=None), wanted)

    def test_a_watermark_of_null_is_a_bad_one(self) -> None:
        """What is optional is left out, not null."""
        refused = say("chat-subscribe", **GOOD, throughOrdinal=None)
        assert isinstance(refused, Refused)

    def test_a_watermark_below_the_cursor_is_for_later(self) -> None:
        """A stale view is said first, and that is not known here."""
        self.assertEqual(self.say(afterOrdinal=5, throughOrdinal=4), Subscribe("a", "1", "v", 5, 4))


class Reloads(SynchronousTestCase):
    """``chat-reload`` and ``chat-reload-cancel``."""

    def test_without_an_id_it_is_ignored(self) -> None:
        """Whatever else it has or lacks."""
        self.assertEqual(say("chat-reload", chatId="1"), None)
        self.assertEqual(say("chat-reload", clientRequestId=""), None)

    def test_it_needs_a_chat(self) -> None:
        """A fault, as for a subscription."""
        fault = Refused(Fault(error='Missing chatId for "chat-reload"'))
        self.assertEqual(say("chat-reload", clientRequestId="a"), fault)
        self.assertEqual(say("chat-reload", clientRequestId="a", chatId="1"), Reload("a", "1"))

    def test_a_cancel_names_its_reload(self) -> None:
        """One that does not is ignored."""
        self.assertEqual(
            say("chat-reload-cancel", chatId="1", reloadRequestId="a"), CancelReload("a", "1")
        )
        self.assertEqual(say("chat-reload-cancel", chatId="1"), None)
        self.assertEqual(say("chat-reload-cancel", reloadRequestId="a"), None)
