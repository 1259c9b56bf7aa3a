"""Tags and names (chats.md 3.28, 3.37, 4.14; control.md D.4, K9, K10; decisions.md 30)."""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.contract.events import ListRefreshRequested, TitleUpdated
from garcon.controller.chats.fields import slug
from garcon.test.controller.chats.cast import CHAT, ChatsTestCase, Said

UNKNOWN = "1767000000000009"
GONE = (404, "SESSION_NOT_FOUND", False)
INVALID = (400, "VALIDATION_FAILED", False)
CHANGED = ListRefreshRequested(chat_id=CHAT, reason="tags-updated")


class NormalisationTests(ChatsTestCase):
    """How a tag is written."""

    def test_slugs(self) -> None:
        """Trimmed, in lower case, words joined, everything else dropped, one hyphen at an end."""
        for tag, wanted in (
            ("Review Needed", "review-needed"),
            ("  a \t\n b  ", "a-b"),
            ("ünïcode", "ncode"),
            ("a--b---c", "a-b-c"),
            ("-a-", "a"),
            ("--a--", "a"),
            ("a - b", "a-b"),
            ("_!?", ""),
            ("v1.2", "v12"),
        ):
            self.assertEqual(slug(tag), wanted, tag)


class TagTests(ChatsTestCase):
    """`GET`, `PUT` and `PATCH /chats/tags`."""

    def setUp(self) -> None:
        super().setUp()
        self.started(tags=["b"])
        self.told.clear()

    def put(self, tags: Any, **more: Any) -> Said:
        """Set a chat's tags."""
        return self.asked(operations.SET_TAGS, {"chatId": CHAT, "tags": tags} | more)

    def patch_tags(self, body: dict[str, Any]) -> Said:
        """Replace a chat's tags as a browser does."""
        return self.asked(operations.CHANGE_TAGS, body)

    def test_read(self) -> None:
        """The id and the tags, no more."""
        answer = self.asked(operations.READ_TAGS, query={"chatId": CHAT})
        self.assertEqual((answer.status, answer.body), (200, {"chatId": CHAT, "tags": ["b"]}))
        self.assertEqual(self.asked(operations.READ_TAGS).failure, INVALID)
        unknown = self.asked(operations.READ_TAGS, query={"chatId": UNKNOWN})
        self.assertEqual(unknown.failure, GONE)

    def test_put_sets_the_whole(self) -> None:
        """Normalised, once each, sorted; repeating converges and tells nobody."""
        for changed in (True, False):
            answer = self.put(["Z", "a a", "z", "!"])
            self.assertEqual(
                answer.body,
                {"success": True, "chatId": CHAT, "tags": ["a-a", "z"], "changed": changed},
            )
        self.assertEqual(self.told, [CHANGED])
        self.restart()
        self.assertEqual(self.listed()[0]["tags"], ["a-a", "z"])
        self.assertEqual(self.put([]).body["tags"], [])

    def test_put_takes_exactly_its_body(self) -> None:
        """Chat and a list of texts."""
        bodies: tuple[dict[str, Any], ...] = (
            {"chatId": CHAT},
            {"tags": []},
            {"chatId": CHAT, "tags": "a"},
            {"chatId": CHAT, "tags": [1]},
            {"chatId": CHAT, "tags": None},
            {"chatId": CHAT, "tags": [], "more": 1},
            {"chatId": "", "tags": []},
        )
        for body in bodies:
            self.assertEqual(self.asked(operations.SET_TAGS, body).failure, INVALID, body)
        self.assertEqual(self.put([], chatId=UNKNOWN).failure, GONE)

    def test_patch_replaces_all(self) -> None:
        """What is no list is none; the answer has no more than the tags."""
        answer = self.patch_tags({"chatId": CHAT, "tags": ["New One", 7]})
        self.assertEqual(answer.body, {"success": True, "chatId": CHAT, "tags": ["new-one"]})
        for tags in ("a", None, 7, {"a": 1}):
            self.assertEqual(self.patch_tags({"chatId": CHAT, "tags": tags}).body["tags"], [])
        self.assertEqual(self.patch_tags({"chatId": CHAT}).body["tags"], [])
        self.assertEqual(self.told, [CHANGED, CHANGED])

    def test_patch_malformed_and_unknown(self) -> None:
        """400 without an id, 404 for one that is not there."""
        self.assertEqual(self.patch_tags({"tags": []}).failure, INVALID)
        self.assertEqual(self.patch_tags({"chatId": " ", "tags": []}).failure, INVALID)
        self.assertEqual(self.patch_tags({"chatId": "x", "tags": []}).failure, GONE)

    def test_a_store_that_refuses(self) -> None:
        """The tags are as they were."""
        self.memory.refusals = 1
        self.assertEqual(self.put(["x"]).failure, (500, "INTERNAL_ERROR", True))
        self.assertEqual((self.listed()[0]["tags"], self.told), (["b"], []))

    def test_durable_before_it_is_answered(self) -> None:
        """And two that come at once are one after the other."""
        self.memory.held = True
        calls = [self.ask(operations.SET_TAGS, {"chatId": CHAT, "tags": ["x"]}) for _ in range(2)]
        for d in calls:
            self.assertNoResult(d)
        self.memory.release()
        changed = [self.successResultOf(d).body["changed"] for d in calls]
        self.assertEqual(changed, [True, False])


class RunTests(ChatsTestCase):
    """Tags that come with a turn (chats.md 3.5)."""

    def test_a_run_that_adds_tags_is_told(self) -> None:
        """Once, where they are new; a repetition adds nothing."""
        view = self.started(tags=["a"])
        self.told.clear()
        body = self.run_body(view, tagsToAdd=["A", "b b"])
        for _ in range(2):
            self.assertEqual(self.asked(operations.RUN_CHAT, body).status, 202)
        self.local.last.finish()
        self.asked(operations.RUN_CHAT, self.run_body(view, tagsToAdd=["a"]))
        self.assertEqual(self.told.count(CHANGED), 1)
        self.assertEqual(self.listed()[0]["tags"], ["a", "b-b"])


class TitleEventTests(ChatsTestCase):
    """What is told of a name."""

    def test_a_new_title_is_told(self) -> None:
        """As lists show it; the same name again is no news."""
        self.started()
        self.told.clear()
        for changed in (True, False):
            answer = self.asked(operations.SESSION_NAME, {"chatId": CHAT, "title": "  One\nTwo  "})
            self.assertEqual(
                answer.body, {"success": True, "title": "One\nTwo", "changed": changed}
            )
        self.assertEqual(self.told, [TitleUpdated(chat_id=CHAT, title="One")])
        self.assertEqual(self.listed()[0]["title"], "One")
