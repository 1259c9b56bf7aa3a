"""How operations on chats fail: one envelope, known codes, and whether the very same request could
succeed (chats.md 1.2, 1.3).  `cast` judges every error of every test by the same table.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract import operations
from garcon.controller import chats
from garcon.controller.handlers import error_answer, internal_error
from garcon.errors import GarconError
from garcon.test.controller.chats.bodies import requests
from garcon.test.controller.chats.cast import CHAT, OTHER, said
from garcon.test.controller.chats.codes import CODES, check_failure
from garcon.test.controller.chats.queue_cast import QueueTestCase

UNKNOWN = "1767000000000009"
CODE = re.compile(r"[A-Z]+(_[A-Z]+)+")
INSIDE = {
    *("OUTCOME_UNKNOWN", "AGENT_FAILED", "OUTPUT_OVERFLOW"),  # of failed turns
    *("CHAT_RUNNING", "HISTORY_LOAD_FAILED", "REQUEST_CANCELLED", "REQUEST_VALIDATION_FAILED"),
}
"""Codes that no operation is answered with: they are in receipts' texts, or on sockets."""


class TableTests(SynchronousTestCase):
    """The table itself, which has the codes of chats.md 8.6 too."""

    def test_no_other_code_is_raised(self) -> None:
        """Whatever looks like one in the modules of the chats is in the table."""
        found = set()
        for path in Path(chats.__path__[0]).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found |= {node.value} if CODE.fullmatch(node.value) else set()
        self.assertEqual(found - CODES.keys(), INSIDE)

    def test_codes_are_spelled_alike(self) -> None:
        """As history states have them too (the last line of 1.3)."""
        for code in CODES:
            self.assertRegex(code, r"^[A-Z][A-Z0-9_]{0,63}$")

    def test_it_judges(self) -> None:
        """Another code, status or flag, a member too few or too many, and an empty text."""
        good = {
            "success": False,
            "error": "why",
            "errorCode": "SESSION_BUSY",
            "retryable": True,
        }
        check_failure(409, good | {"control": {}})
        for bad in (
            good | {"errorCode": "BUSY"},
            good | {"retryable": False},
            good | {"success": True},
            good | {"error": " "},
            good | {"more": 1},
            {name: good[name] for name in ("success", "error", "errorCode")},
        ):
            self.assertRaises(AssertionError, check_failure, 409, bad)
        self.assertRaises(AssertionError, check_failure, 400, good)


class EnvelopeTests(QueueTestCase):
    """What every error has (1.2)."""

    def test_what_nobody_chose(self) -> None:
        """Below 500 a request is wrong and stays so; from there on it may be tried again."""
        error = said(error_answer(GarconError("X", "x")))
        self.assertEqual((error.status, error.body["retryable"]), (400, False))
        error = said(error_answer(internal_error("incident")))
        self.assertEqual(error.failure, (500, "INTERNAL_ERROR", True))

    def test_an_unexpected_failure_is_hidden(self) -> None:
        """Its text stays in the log."""
        self.patch(self.memory, "read_rows", lambda *args: fail(ValueError("private")))
        answer = self.messages()
        self.assertEqual(answer.failure, (500, "INTERNAL_ERROR", True))
        self.assertNotIn("private", str(answer.body))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_details_are_further_text(self) -> None:
        """Only where there is some."""
        answer = self.start(chatId=OTHER, orderedPreambleIds=["nothing"])
        self.assertIn("nothing", answer.body["details"])
        self.assertNotIn("details", self.messages(UNKNOWN).body)


class GeneralTests(QueueTestCase):
    """Codes that belong to no single route; the others are in the tests of theirs."""

    def test_an_unknown_chat_is_not_found(self) -> None:
        """404 ``SESSION_NOT_FOUND``, of every operation on one."""
        for operation, body, query in requests(UNKNOWN, OTHER).values():
            answer = self.asked(operation, body, query)
            failure = (404, "SESSION_NOT_FOUND", False)
            self.assertEqual(answer.failure, failure, operation.route.key)

    def test_what_is_required_is_required(self) -> None:
        """400 ``VALIDATION_FAILED`` for each member that is left out, null, or of another kind.

        A few may be absent, and one null means something.
        """
        absent = {
            ("PATCH /chats/execution-settings", "thinkingMode"),
            ("PATCH /chats/tags", "tags"),
        }
        for key, (operation, body, query) in requests(UNKNOWN, OTHER).items():
            given = body or query
            for name in given:
                if (key, name) in absent or name in ("type", "command"):
                    continue
                less = {one: value for one, value in given.items() if one != name}
                wrong = [less, given | {name: [7]}]
                if key != "PUT /chats/last-selected":
                    wrong.append(given | {name: None})
                for one in wrong if body else [less]:
                    answer = self.asked(operation, one if body else {}, {} if body else one)
                    self.assertEqual(answer.failure, (400, "VALIDATION_FAILED", False), (key, one))

    def test_a_controller_that_stops(self) -> None:
        """503 ``SERVER_SHUTTING_DOWN`` for whatever begins something, and for snapshots; a steer
        is not to be repeated.
        """
        down: Deferred[Any] = self.chats.shut_down()
        every = requests(CHAT, OTHER)
        for operation in (
            *(operations.RUN_CHAT, operations.FORK, operations.FORK_RUN, operations.HANDOFF_RUN),
            *(operations.COMPACT, operations.CREATE_ENTRY, operations.SNAPSHOT),
            *(operations.ADD_ROW, operations.DELETE_CHAT, operations.PERMISSION_DECISION),
        ):
            _, body, query = every[operation.route.key]
            failure = (503, "SERVER_SHUTTING_DOWN", True)
            answer = self.asked(operation, body, query)
            self.assertEqual(answer.failure, failure, operation.route.key)
        self.assertEqual(self.start(chatId=OTHER).failure, (503, "SERVER_SHUTTING_DOWN", True))
        body = every[operations.STEER.route.key][1] | {"transcriptViewId": self.view}
        answer = self.asked(operations.STEER, body)
        self.assertEqual(answer.failure, (503, "SERVER_SHUTTING_DOWN", False))
        self.successResultOf(down)

    def test_a_result_that_is_not_kept_any_more(self) -> None:
        """410 ``TURN_RESULT_EXPIRED``, which is not 404."""
        turn = self.run_chat(self.view).body["turnId"]
        self.local.last.say("x" * 1_000_000)
        self.local.last.finish()
        for _ in range(70):
            self.run_chat(self.view)
            self.local.last.say("x" * 1_000_000)
            self.local.last.finish()
        self.assertEqual(self.receipt(turn).failure, (410, "TURN_RESULT_EXPIRED", False))
        self.assertEqual(self.receipt("none").failure, (404, "TURN_RECEIPT_NOT_FOUND", False))

    def test_a_failure_that_is_remembered(self) -> None:
        """409 ``INTERNAL_ERROR``, never to be retried, with the text of the first attempt (2.3)."""
        body = self.run_body(self.view, clientMessageId="m-start", command="other")
        first = self.asked(operations.RUN_CHAT, body)
        again = self.asked(operations.RUN_CHAT, body)
        self.assertEqual(again.failure, (409, "INTERNAL_ERROR", False))
        self.assertEqual(again.body["error"], first.body["error"])
