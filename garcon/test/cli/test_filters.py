"""The filter language for chats, as a value (control.md I.4)."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli.failures import CommandFailure
from garcon.cli.filters import activity, parse


def entry(**more: Any) -> dict[str, Any]:
    """Return a chat's list entry, as far as filters look at it."""
    usual = {
        "id": "1",
        "title": "Fix the Parser",
        "projectPath": "/src/garcon",
        "agentId": "claude",
        "model": "sonnet",
        "tags": ["cli", "review-needed"],
        "preview": {"firstMessage": "please fix it", "lastMessage": "All Done"},
        "activity": {
            "createdAt": "2026-01-02T03:04:05.678Z",
            "lastActivityAt": "2026-02-03T04:05:06.789Z",
            "lastReadAt": None,
        },
        "isPinned": False,
        "isArchived": False,
        "isActive": False,
        "isUnread": True,
        "parentChat": None,
    }
    return usual | more


class FilterTests(SynchronousTestCase):
    """One entry, and what lets it through."""

    def assert_passes(self, *filters: str, **more: Any) -> None:
        """Assert that each filter lets an entry through."""
        for text in filters:
            self.assertTrue(parse(text)(entry(**more)), text)

    def assert_stopped(self, *filters: str, **more: Any) -> None:
        """Assert that no filter lets an entry through."""
        for text in filters:
            self.assertFalse(parse(text)(entry(**more)), text)

    def test_an_empty_filter_lets_everything_through(self) -> None:
        """Nothing was asked for."""
        self.assert_passes("", "   ")

    def test_bare_terms_are_anded_over_what_is_shown(self) -> None:
        """Title, project, first and last message, tags; in any case."""
        self.assert_passes("PARSER", "garcon", "please", "done", "review", "fix cli")
        self.assert_passes('"the parser"', '"all done" fix')
        self.assert_passes("a|b:c", title="a|b:c")
        self.assert_stopped("fix nothing", '"parser the"', "claude", "sonnet")
        self.assert_stopped("please", preview={"lastMessage": "x"})

    def test_titles_and_tags_are_anded(self) -> None:
        """Alternatives inside one clause, every clause for itself."""
        self.assert_passes(
            "title:parser title:FIX", "title:lexer|parser", "tag:cli tag:review-needed"
        )
        self.assert_passes('tag:"Review Needed"', "tag:x|cli", 'title:"the parser"')
        self.assert_stopped("title:parser title:lexer", "tag:cli tag:x", "tag:review")

    def test_agents_models_and_projects_are_alternatives(self) -> None:
        """Of one kind; different kinds are anded."""
        self.assert_passes(
            "agent:codex agent:claude", "agent:codex|claude", "model:opus model:sonn"
        )
        self.assert_passes("project:/src", "agent:claude project:garcon model:SONNET")
        self.assert_stopped("agent:codex", "agent:clau", "agent:claude model:opus", "project:/tmp")
        self.assert_stopped("model:sonnet", model=None)

    def test_identities_are_exact_and_clauses_anded(self) -> None:
        """A pipe is or; a chat has one id and at most one parent."""
        self.assert_passes("id:1", "id:2|1", "id:1|2 id:1|3")
        self.assert_stopped("id:11", "id:1 id:2")
        child = {"parentChat": {"chatId": "7", "relation": "delegation"}}
        self.assert_passes("parent:7", "parent:8|7", **child)
        self.assert_stopped("parent:8", "parent:7 parent:8", **child)
        self.assert_stopped("parent:7")

    def test_groups_and_states(self) -> None:
        """An orphan is as normal as the others; a mark of exclamation is not."""
        self.assert_passes(
            "is:normal", "is:!pinned is:!archived", "is:pinned|normal", "status:unread"
        )
        self.assert_stopped("is:pinned", "is:!normal", "status:active", "is:normal is:pinned")
        self.assert_passes("is:pinned", "is:!normal", "is:!archived", isPinned=True)
        self.assert_passes("is:ARCHIVED", "is:!normal", isArchived=True)
        self.assert_passes("status:active", "status:active|unread", isActive=True, isUnread=False)

    def test_times_are_compared_strictly(self) -> None:
        """A date is midnight in UTC; a time says where it is, to the millisecond."""
        self.assert_passes(
            "created-after:2026-01-02",
            "created-before:2026-01-03",
            "created-after:2026-01-02T03:04:05.677Z",
            "created-before:2026-01-02T05:05+02:00",
            "updated-after:2026-02-03 updated-before:2026-02-04",
        )
        self.assert_stopped(
            "created-after:2026-01-02T03:04:05.678Z",
            "created-before:2026-01-02T03:04:05.678Z",
            "created-before:2026-01-02",
            "updated-before:2026-02-03",
        )

    def test_where_nothing_was_said_the_beginning_counts(self) -> None:
        """For what was updated; what has no time at all is neither before nor after."""
        times = {"createdAt": "2026-01-02T03:04:05.678Z", "lastActivityAt": None}
        self.assertEqual(activity(entry(activity=times)), times["createdAt"])
        self.assert_passes("updated-before:2026-01-03", activity=times)
        never = {"createdAt": None, "lastActivityAt": None}
        self.assertEqual(activity(entry(activity=never)), "")
        self.assert_stopped("updated-before:2030-01-01", "created-after:2000-01-01", activity=never)

    def test_quotes_make_words_of_operators(self) -> None:
        """What is quoted is text, and a pipe in it too."""
        self.assert_passes('"is:pinned"', 'title:"is:pinned"', title="about is:pinned")
        self.assert_passes('title:"a|b"', title="x a|b")
        self.assert_stopped('title:"a|b"', title="b")

    def test_what_cannot_be_meant(self) -> None:
        """Exit 2 before anything is asked."""
        for text in (
            'title:"open',
            "title:",
            "id:1|",
            "tag:|x",
            '""',
            '" "',
            "is:lost",
            "is:!",
            "status:idle",
            "created-after:yesterday",
            "created-after:2026-13-01",
            "created-after:2026-01-02T03:04",
            "created-after:2026-01-02T03:04:05.1234Z",
            "created-after:20260102",
            "updated-before:2026-01-02T25:00Z",
        ):
            error = self.assertRaises(CommandFailure, parse, text)
            self.assertEqual(error.exit_status, 2, text)
