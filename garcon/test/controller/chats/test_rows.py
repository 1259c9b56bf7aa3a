"""Chat rows (chats.md 3.20, 5.13; decisions.md 29)."""

from __future__ import annotations

from typing import Any

import msgspec

from garcon.contract import operations
from garcon.contract.events import ChatMessages
from garcon.contract.limits import ROW_BYTES, ROW_TITLE_CHARACTERS
from garcon.controller.transcripts.rows import displayed
from garcon.store.interfaces import Damaged
from garcon.store.records import AppendRows, Row
from garcon.test.controller.chats.cast import CHAT, OTHER, ChatsTestCase, Said

UNKNOWN = "1767000000000009"
GONE = (404, "SESSION_NOT_FOUND", False)
INVALID = (400, "VALIDATION_FAILED", False)
CONFLICT = (409, "IDEMPOTENCY_CONFLICT", False)
UNREADABLE = (422, "TRANSCRIPT_UNAVAILABLE", False)
COLOURS = {"lightAccent": "#aabbcc", "darkAccent": "#001122"}


class RowsCase(ChatsTestCase):
    """A chat whose first turn is over; its transcript has four raw rows."""

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.told.clear()

    def row_body(self, content: str = "look", **more: Any) -> dict[str, Any]:
        """Return a row that is in order; what is None is left out."""
        body = {
            "clientRequestId": self.request_id(),
            "clientMessageId": f"m-{self.requests}",
            "chatId": CHAT,
            "transcriptViewId": self.view,
            "type": "notice",
            "content": content,
        }
        return {name: value for name, value in (body | more).items() if value is not None}

    def add(self, content: str = "look", **more: Any) -> Said:
        """Add a row."""
        return self.asked(operations.ADD_ROW, self.row_body(content, **more))

    def added(self, content: str = "look", **more: Any) -> dict[str, Any]:
        """Add a row that is taken; returns what shows of it."""
        answer = self.add(content, **more)
        self.assertEqual(answer.status, 200, answer.body)
        last = self.messages().body["messages"][-1]
        self.assertEqual(last["ordinal"], answer.body["ordinal"])
        message: dict[str, Any] = last["message"]
        return message


class ViewTests(RowsCase):
    """`GET /chats/rows`."""

    def test_names_the_view(self) -> None:
        """And is never cached."""
        answer = self.asked(operations.READ_ROWS, query={"chatId": CHAT})
        self.assertEqual(
            answer.body, {"success": True, "chatId": CHAT, "transcriptViewId": self.view}
        )
        self.assertEqual(answer.headers["Cache-Control"], "no-store")

    def test_malformed_unknown_and_fenced(self) -> None:
        """400, 404 and 422."""
        for query, failure in (
            ({}, INVALID),
            ({"chatId": "17"}, INVALID),
            ({"chatId": UNKNOWN}, GONE),
        ):
            self.assertEqual(self.asked(operations.READ_ROWS, query=query).failure, failure)
        self.memory.damage(self.view, 1)
        self.messages()
        answer = self.asked(operations.READ_ROWS, query={"chatId": CHAT})
        self.assertEqual(answer.failure, UNREADABLE)


class AddTests(RowsCase):
    """`POST /chats/rows` as older clients send it."""

    def test_the_answer(self) -> None:
        """200, with everything a client compares."""
        body = self.row_body(type="error", title=" A title ")
        answer = self.asked(operations.ADD_ROW, body)
        self.assertEqual((answer.status, answer.headers["Cache-Control"]), (200, "no-store"))
        self.assertEqual(
            answer.body,
            {
                "success": True,
                "commandType": "chat-row-add",
                "clientRequestId": body["clientRequestId"],
                "clientMessageId": body["clientMessageId"],
                "chatId": CHAT,
                "transcriptViewId": self.view,
                "ordinal": 5,
                "type": "error",
                "status": "appended",
                "timestamp": "2026-01-02T03:04:05.000Z",
            },
        )

    def test_how_it_shows(self) -> None:
        """As a notice or an error that says it is a row; to the byte, and with no member more."""
        detail = {"type": "cli-row"}
        content = "  line 1\r\n\tline 2\n\n"
        self.assertEqual(
            self.added(content),
            {
                "type": "transcript-notice",
                "timestamp": "2026-01-02T03:04:05.000Z",
                "content": content,
                "detail": detail,
            },
        )
        shown_error = self.added("bad", type="error", title="Oh")
        self.assertEqual(
            (shown_error["type"], shown_error["title"], shown_error["detail"]),
            ("error", "Oh", detail),
        )
        self.restart()
        self.assertEqual(self.kinds()[-1], (6, "error", "bad"))

    def test_the_same_message_again_is_the_row_that_is_there(self) -> None:
        """Whatever its request id, also after a restart; its ordinal and time are the first's."""
        body = self.row_body(title="T")
        first = self.asked(operations.ADD_ROW, body).body
        self.time += 9
        for _ in range(2):
            again = self.asked(operations.ADD_ROW, body | {"clientRequestId": self.request_id()})
            self.assertEqual(
                again.body,
                first | {"status": "duplicate", "clientRequestId": f"request-{self.requests}"},
            )
            self.restart()
        self.assertEqual(self.messages().body["lastOrdinal"], 5)

    def test_another_row_under_its_identity_conflicts(self) -> None:
        """Type, title and content are what it is; a user's message has another identity."""
        body = self.row_body(title="T")
        self.asked(operations.ADD_ROW, body)
        for change in (
            {"content": "other"},
            {"type": "error"},
            {"title": "U"},
            {"title": None},
            {"format": "markdown"},
            {"bodyDisclosure": "collapsed"},
            {"clientMessageId": "m-start"},
        ):
            self.assertEqual(self.asked(operations.ADD_ROW, body | change).failure, CONFLICT)
        run = self.run_body(self.view, clientMessageId=body["clientMessageId"], command="look")
        self.assertEqual(self.asked(operations.RUN_CHAT, run).failure, CONFLICT)
        self.assertEqual(self.messages().body["lastOrdinal"], 5)

    def test_two_at_once_are_one(self) -> None:
        """The second waits for the first, and finds it."""
        self.memory.held = True
        body = self.row_body()
        calls = [self.ask(operations.ADD_ROW, body) for _ in range(2)]
        for d in calls:
            self.assertNoResult(d)
        self.memory.release()
        answers = [self.successResultOf(d).body for d in calls]
        self.assertEqual([one["status"] for one in answers], ["appended", "duplicate"])
        self.assertEqual([one["ordinal"] for one in answers], [5, 5])

    def test_malformed(self) -> None:
        """Each member for itself."""
        for change in (
            {"content": " \n"},
            {"content": None},
            {"type": None},
            {"type": "warning"},
            {"type": "custom"},
            {"clientRequestId": ""},
            {"clientMessageId": " "},
            {"clientMessageId": "x" * 257},
            {"chatId": "17"},
            {"transcriptViewId": ""},
            {"title": ""},
            {"title": "a\nb"},
            {"title": "a\x07b"},
            {"title": "a\u2028b"},
            {"format": "html"},
            {"bodyDisclosure": "hidden"},
        ):
            self.assertEqual(self.add(**change).failure, INVALID, change)
        self.assertEqual(self.messages().body["lastOrdinal"], 4)

    def test_limits(self) -> None:
        """65,536 bytes of content and 120 characters of title are taken, one more is not."""
        self.assertEqual(len(self.added("é" * (ROW_BYTES // 2))["content"]), ROW_BYTES // 2)
        self.assertEqual(self.add("é" * (ROW_BYTES // 2) + "x").failure, INVALID)
        longest = "\U0001f600" * ROW_TITLE_CHARACTERS
        self.assertEqual(self.added(title=f" {longest} ")["title"], longest)
        self.assertEqual(self.add(title=longest + "x").failure, INVALID)

    def test_other_views_and_chats(self) -> None:
        """A stale view and an unknown chat have no effect."""
        stale = self.add(transcriptViewId="another")
        self.assertEqual(stale.failure, (409, "STALE_TRANSCRIPT_VIEW", False))
        self.assertEqual(self.add(chatId=UNKNOWN).failure, GONE)

    def test_a_fenced_transcript_takes_none(self) -> None:
        """422, and other chats take theirs."""
        other = self.started(chatId=OTHER)
        self.memory.damage(self.view, 1)
        self.messages()
        self.assertEqual(self.add().failure, UNREADABLE)
        self.assertEqual(self.add(chatId=OTHER, transcriptViewId=other).status, 200)

    def test_a_store_that_refuses(self) -> None:
        """No row, and the same row may be sent again."""
        self.memory.refusals = 1
        body = self.row_body()
        answer = self.asked(operations.ADD_ROW, body)
        self.assertEqual(answer.failure, (500, "INTERNAL_ERROR", True))
        self.assertEqual(self.asked(operations.ADD_ROW, body).body["status"], "appended")


class PresentationTests(RowsCase):
    """The newer form: styles, colours, disclosure and format."""

    def test_styles(self) -> None:
        """Each as a type or as a presentation; an error is an error, any other a notice."""
        for style, wanted in (
            ("info", "transcript-notice"),
            ("notice", "transcript-notice"),
            ("error", "error"),
        ):
            message = self.added(type=None, presentation={"style": style})
            self.assertEqual((message["type"], message["presentation"]), (wanted, {"style": style}))
            self.assertEqual((message["bodyDisclosure"], message["format"]), ("expanded", "plain"))
        self.assertEqual(self.added(type="info")["presentation"], {"style": "info"})

    def test_colours_disclosure_and_format(self) -> None:
        """Kept as they are given; the answer names the style."""
        custom = {"style": "custom", "customStyle": COLOURS}
        body = self.row_body(
            type=None, presentation=custom, bodyDisclosure="collapsed", format="markdown", title="T"
        )
        answer = self.asked(operations.ADD_ROW, body)
        self.assertEqual((answer.body["type"], answer.body["status"]), ("custom", "appended"))
        message = self.messages().body["messages"][-1]["message"]
        self.assertEqual(
            {name: message[name] for name in ("presentation", "bodyDisclosure", "format", "title")},
            {
                "presentation": custom,
                "bodyDisclosure": "collapsed",
                "format": "markdown",
                "title": "T",
            },
        )
        again = self.asked(operations.ADD_ROW, body)
        self.assertEqual((again.body["type"], again.body["status"]), ("custom", "duplicate"))

    def test_both_forms_name_one_row(self) -> None:
        """A type and the same style are the same; a type and another style are not."""
        body = self.row_body(type="error")
        self.asked(operations.ADD_ROW, body)
        newer = {**body, "presentation": {"style": "error"}}
        self.assertEqual(self.asked(operations.ADD_ROW, newer).body["status"], "duplicate")
        del newer["type"]
        self.assertEqual(self.asked(operations.ADD_ROW, newer).body["status"], "duplicate")
        self.assertEqual(self.add(type="notice", presentation={"style": "error"}).failure, INVALID)

    def test_malformed(self) -> None:
        """Colours go with the style custom, and are six small hexadecimal digits."""
        for presentation in (
            {"style": "loud"},
            {"style": "custom"},
            {"style": "notice", "customStyle": COLOURS},
            {"style": "custom", "customStyle": COLOURS | {"lightAccent": "#AABBCC"}},
            {"style": "custom", "customStyle": {"lightAccent": "#aabbcc"}},
            {"style": "notice", "more": 1},
            "notice",
        ):
            answer = self.add(type=None, presentation=presentation)
            self.assertEqual(answer.failure, INVALID, presentation)

    def test_an_unreadable_one_is_an_expanded_notice(self) -> None:
        """What another version stored is shown all the same; what is no row at all fences."""
        stored = {
            "type": "error",
            "timestamp": "2026-01-02T03:04:05.000Z",
            "content": "look",
            "detail": {"type": "cli-row"},
            "title": "T",
            "presentation": {"style": "sparkling"},
            "bodyDisclosure": "folded",
            "format": "html",
        }
        row = Row(5, "notice", "2026-01-02T03:04:05.000Z", msgspec.json.encode(stored), "m-odd")
        found = displayed("view", row)
        assert found is not None
        self.assertEqual(
            msgspec.json.decode(found.message),
            stored
            | {
                "type": "transcript-notice",
                "presentation": {"style": "notice"},
                "bodyDisclosure": "expanded",
                "format": "plain",
            },
        )
        broken = Row(5, "notice", row.at, b'{"type":"error"}', "m-odd")
        self.assertRaises(Damaged, displayed, "view", broken)
        self.successResultOf(self.store.write([AppendRows(self.view, (row,))]))
        self.restart()
        self.assertEqual(self.kinds()[-1], (5, "transcript-notice", "look"))


class NoAccountTests(RowsCase):
    """What a row does not change (5.13)."""

    def entry(self) -> Any:
        """Return how the chat is listed."""
        return self.listed()[0]

    def test_previews_activity_and_control(self) -> None:
        """Neither in the list nor in the snapshot does anything move."""
        entry, control = self.entry(), self.snapshot().body["control"]
        self.time += 60
        self.added()
        self.assertEqual(self.entry(), entry)
        self.assertEqual(self.snapshot().body["control"], control)
        self.restart("instance-1")
        self.assertEqual(self.entry(), entry)

    def test_it_is_told_like_any_row(self) -> None:
        """With its ordinal, once."""
        self.added(title="T")
        [event] = self.told
        assert isinstance(event, ChatMessages)
        self.assertEqual((event.first_ordinal, event.last_ordinal), (5, 5))
        [one] = event.messages
        message = msgspec.json.decode(one.message)
        self.assertEqual((message["title"], message["detail"]), ("T", {"type": "cli-row"}))

    def test_while_a_turn_runs(self) -> None:
        """It takes the next ordinal between the turn's rows; two in a row are consecutive."""
        turn = self.run_chat(self.view, command="long").body["turnId"]
        self.local.last.say("one")
        ordinals = [self.add().body["ordinal"] for _ in range(2)]
        self.local.last.say("two")
        self.assertEqual(self.phase(), "running")
        self.local.last.finish()
        self.assertEqual(ordinals, [7, 8])
        self.assertEqual(
            self.kinds()[2:],
            [
                (5, "user-message", "long"),
                (6, "assistant-message", "one"),
                (7, "transcript-notice", "look"),
                (8, "transcript-notice", "look"),
                (9, "assistant-message", "two"),
            ],
        )
        receipt = self.receipt(turn).body
        self.assertEqual(receipt["output"]["assistantMessages"], ["one", "two"])

    def test_no_agent_is_told(self) -> None:
        """Neither in the history of an agent without a session nor in a prompt."""
        self.start(chatId=OTHER, command="first")
        self.local.last.interrupted()
        view = self.messages(OTHER).body["transcriptViewId"]
        self.added_to(OTHER, view)
        self.run_chat(view, chatId=OTHER, command="second")
        launch = self.local.last.launch
        self.assertEqual((launch.prompt, launch.history), ("first\n\nsecond", []))
        self.local.last.say("answer")
        self.local.last.finish()
        self.added_to(OTHER, view)
        self.run_chat(view, chatId=OTHER, command="third")
        self.assertEqual(
            [one.content for one in self.local.last.launch.history], ["first", "second", "answer"]
        )

    def test_it_answers_no_input(self) -> None:
        """What was not answered is still to be sent again."""
        self.run_chat(self.view, command="long")
        self.local.last.interrupted()
        before = self.messages().body["resendCandidates"]
        self.added(type="error")
        self.assertEqual(len(before), 1)
        self.assertEqual(self.messages().body["resendCandidates"], before)
        self.restart()
        self.assertEqual(self.messages().body["resendCandidates"], before)

    def added_to(self, chat_id: str, view: str) -> None:
        """Add a row to another chat."""
        self.assertEqual(self.add(chatId=chat_id, transcriptViewId=view).status, 200)
