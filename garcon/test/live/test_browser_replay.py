"""A long transcript, replayed in bounded pages while a turn runs (server.md A.6; I, bounded
replay).
"""

from __future__ import annotations

import json
from typing import Any

from garcon.contract.events import ChatMessages, Subscribed
from garcon.contract.limits import KIB
from garcon.contract.messages import AssistantMessage, BashToolUse, Thinking, ToolResult
from garcon.contract.runs import RunFailure
from garcon.controller.service import STORE_FILE
from garcon.controller.transcripts import rows
from garcon.controller.transcripts.rows import Draft
from garcon.store.records import AppendRows
from garcon.store.sqlite import SqliteStore
from garcon.test.live.fleets import FleetTestCase
from garcon.testing.fleet import Service
from garcon.testing.inline_threads import InlinePool, InlineReactor
from garcon.testing.strict_client import StrictClient
from garcon.testing.strict_socket import StrictSocket

AT = "2026-01-02T03:04:05.678Z"
LONG = 50_000
LARGE = 128 * KIB


def draft(n: int) -> Draft:
    """Return one of fifty thousand rows: every kind, some that show nothing, some very large, and
    letters of several bytes.
    """
    if 30_000 < n <= 30_600:
        return rows.session(AT, f"session-{n}")
    if n % 2_000 < 30 and n > 1_000:
        return rows.provider_row(AssistantMessage(timestamp=AT, content="é" * (LARGE // 2)))
    kinds = [
        lambda: rows.user_input(AT, f"input {n}", [], f"m-{n}"),
        lambda: rows.provider_row(AssistantMessage(timestamp=AT, content=f"reply {n}")),
        lambda: rows.provider_row(Thinking(timestamp=AT, content=f"thought {n}")),
        lambda: rows.provider_row(BashToolUse(timestamp=AT, tool_id=f"t{n}", command="make")),
        lambda: rows.provider_row(
            ToolResult(timestamp=AT, tool_id=f"t{n}", content={"raw": "ok"}, is_error=False)
        ),
        lambda: rows.notice(AT, f"notice {n}"),
        lambda: rows.session(AT, f"session-{n}"),
        lambda: rows.run_ended(AT, f"turn-{n}", "finished", None),
        lambda: rows.run_ended(AT, f"turn-{n}", "failed", RunFailure("X", "failed")),
    ]
    return kinds[n % len(kinds)]()


class ReplayTests(FleetTestCase):
    """One chat with fifty thousand rows."""

    def setUp(self) -> None:
        super().setUp()
        controller = self.open()
        project = str(self.fleet.project("project"))
        body = self.direct.start_body("local", project, "say first")
        accepted = self.direct.start(body)
        self.direct.settled(accepted.chat_id, accepted.turn_id)
        self.chat_id = accepted.chat_id
        page = self.direct.messages(self.chat_id)
        self.view, self.last = page.transcript_view_id, page.last_ordinal
        self.assertEqual(controller.stop(), 0)
        self.fill(str(controller.config / "workspace-default" / STORE_FILE))
        self.controller = self.open()
        self.socket = StrictSocket(self.controller.url)
        self.addCleanup(self.socket.close)

    def open(self) -> Service:
        """Start a controller, or its successor, and a client of it."""
        controller = self.fleet.controller()
        own = controller.descriptor()
        self.direct = StrictClient(own["baseUrl"], own["localCapability"])
        return controller

    def fill(self, path: str) -> None:
        """Add rows behind those of the first turn, through the store."""
        store = SqliteStore(path, InlineReactor(), InlinePool())
        self.successResultOf(store.open())
        for first in range(self.last + 1, self.last + LONG + 1, 5_000):
            some = tuple(draft(n).placed(n) for n in range(first, first + 5_000))
            self.successResultOf(store.write([AppendRows(self.view, some)]))
        self.successResultOf(store.close())
        self.last += LONG

    def replay(self, through: int | None = None) -> list[Subscribed]:
        """Read every page from the beginning; the strict socket judges each."""
        pages = [self.socket.page(self.chat_id, self.view, 0, through)]
        while pages[-1].has_more:
            last = pages[-1]
            pages.append(
                self.socket.page(
                    self.chat_id, self.view, last.next_after_ordinal, last.through_ordinal
                )
            )
        return pages

    def test_a_long_replay_while_a_turn_runs(self) -> None:
        """Every page advances, is bounded and has the first one's watermark; the turn comes live
        and is not in it.  A later replay has it.
        """
        pages = [self.socket.page(self.chat_id, self.view, 0)]
        through = pages[0].through_ordinal
        self.assertEqual(through, self.last)
        run = self.direct.run_body(self.view, self.chat_id, "emit 500")
        turn_id = self.direct.run(run).turn_id
        while pages[-1].has_more:
            after = pages[-1].next_after_ordinal
            pages.append(self.socket.page(self.chat_id, self.view, after, through))
        self.socket.turn_ended(self.chat_id, turn_id)
        self.assertEqual({page.through_ordinal for page in pages}, {through})
        self.check(pages)
        live = self.socket.heard(ChatMessages, self.chat_id)
        self.assertEqual(live[0].first_ordinal, through + 1)
        self.assertEqual(sum(len(batch.messages) for batch in live), 501)

        later = self.replay()
        self.assertGreater(later[0].through_ordinal, through)
        self.assertEqual(later[-1].next_after_ordinal, live[-1].last_ordinal)
        self.assertEqual(shown(later)[: len(shown(pages))], shown(pages))
        self.assertEqual(len(shown(later)) - len(shown(pages)), 501)
        newest = self.direct.messages(self.chat_id, limit=200).messages
        ordinals = [ordinal for ordinal, _ in shown(later)]
        self.assertEqual(ordinals[-len(newest) :], [one.ordinal for one in newest])

    def check(self, pages: list[Subscribed]) -> None:
        """Some pages are empty, some cut by their bytes, and together they are all there is."""
        sizes = [page.next_after_ordinal - page.first_ordinal + 1 for page in pages]
        self.assertTrue(any(not page.messages for page in pages), "no page is empty")
        self.assertIn(200, sizes)
        cut = [n for n in sizes[:-1] if n < 200]
        self.assertGreater(len(cut), 40, "no page was cut by its bytes")
        texts = dict(shown(pages))
        hidden = [n for n in range(5, self.last + 1) if draft(n).kind in ("session", "run-ended")]
        self.assertEqual(len(texts), self.last - len(hidden) - 2)
        for n in (5, 6, 12_345, 30_601, 49_999):
            if n in texts:
                self.assertEqual(texts[n], json.loads(draft(n).payload), n)


def shown(pages: list[Subscribed]) -> list[tuple[int, Any]]:
    """Return what pages show: ordinal and message."""
    return [
        (row.ordinal, json.loads(bytes(row.message))) for page in pages for row in page.messages
    ]
