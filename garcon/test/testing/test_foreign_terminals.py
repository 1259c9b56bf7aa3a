"""The judge of what a controller says of terminals fails it for what it must not say."""

from __future__ import annotations

import copy
import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.foreign_rules import Malformed
from garcon.testing.foreign_socket import Judgement
from garcon.testing.strict_socket_rules import Hearing

NAME = "local/00000000-0000-4000-8000-000000000001/00000000-0000-4000-8000-000000000002"
TERMINAL: dict[str, Any] = {
    "terminalId": NAME,
    "displaySequence": 1,
    "title": None,
    "initialWorkingDirectory": "/base",
    "processStatus": "running",
    "attachmentStatus": "attached",
    "createdAt": "2026-01-02T03:04:05.678Z",
    "exitCode": None,
    "latestOutputSequence": 0,
}
HERE = {"terminalId": NAME, "attachmentId": "a"}


class Judged(SynchronousTestCase):
    """One socket's messages, in their order."""

    def setUp(self) -> None:
        self.judgement = Judgement()

    def ask(self, kind: str = "attach", **more: Any) -> None:
        self.judgement.terminals.asked({"type": f"terminal-{kind}", **HERE, **more})

    def heard(self, kind: str, **said: Any) -> None:
        self.judgement.heard(json.dumps({"type": f"terminal-{kind}", **said}).encode())

    def refuse(self, kind: str, **said: Any) -> None:
        before = copy.deepcopy(self.judgement)
        with self.assertRaises(Malformed):
            self.heard(kind, **said)
        self.judgement = before

    def attached(self, **more: Any) -> None:
        self.ask(afterSequence=0)
        self.heard("attached", terminal=TERMINAL, replay=[], attachmentId="a", **more)

    def test_a_socket_that_has_not_used_terminals(self) -> None:
        """Hears nothing of them, not even what would be well said."""
        self.refuse("status", terminal=TERMINAL)
        self.refuse("error", code="terminal-internal", message="x")
        raw = json.dumps({"type": "terminal-status", "terminal": TERMINAL}).encode()
        self.assertRaises(AssertionError, Hearing().heard, raw)

    def test_shapes(self) -> None:
        """Every field, and no other."""
        self.attached()
        for bad in (
            {"title": ""},
            {"title": "x" * 121},
            {"exitCode": 1},
            {"processStatus": "gone"},
            {"createdAt": "now"},
            {"more": 1},
        ):
            self.refuse("status", terminal={**TERMINAL, **bad}, attachmentId="a")
        self.refuse("status", terminal=TERMINAL, attachmentId="b")
        self.refuse("status", terminal=TERMINAL, attachmentId="a", more=1)
        self.refuse("unheard", **HERE)
        self.refuse("error", code="terminal-strange", message="x", **HERE)
        self.refuse("output", sequence=1, data="x" * 65_536, **HERE)
        self.heard("status", terminal=TERMINAL, attachmentId="a")

    def test_output(self) -> None:
        """Follows what came before, after it is attached."""
        self.ask(afterSequence=0)
        self.refuse("output", sequence=1, data="x", **HERE)
        self.attached()
        self.refuse("attached", terminal=TERMINAL, replay=[], attachmentId="a")
        self.refuse("output", sequence=2, data="x", **HERE)
        self.heard("output", sequence=1, data="x", **HERE)
        self.refuse("output", sequence=1, data="x", **HERE)
        self.refuse("replay-batch", chunks=[{"sequence": 3, "dataBase64": "eA=="}], **HERE)
        self.refuse("replay-batch", chunks=[{"sequence": 2, "dataBase64": "eA"}], **HERE)
        self.heard("replay-batch", chunks=[{"sequence": 2, "dataBase64": "eA=="}], **HERE)
        self.refuse("replay-truncated", firstSequence=9, **HERE)

    def test_fragments(self) -> None:
        """One after the other, with nothing of the terminal between."""
        self.attached()
        part = {"sequence": 1, "fragmentCount": 2, "dataBase64": "eHh4", **HERE}
        self.refuse("output-fragment", fragmentIndex=1, **part)
        self.heard("output-fragment", fragmentIndex=0, **part)
        self.refuse("output", sequence=1, data="x", **HERE)
        self.refuse("output-fragment", fragmentIndex=0, **part)
        self.heard("output-fragment", fragmentIndex=1, **part)
        self.assertEqual(self.judgement.terminals.texts[NAME], "xxxxxx")

    def test_the_end(self) -> None:
        """Of an attachment or of the authority is the last that is said of it."""
        self.attached()
        self.heard("terminated", **HERE)
        self.refuse("status", terminal=TERMINAL, attachmentId="a")
        self.attached()
        self.heard("error", code="terminal-backpressure", message="x", **HERE)
        self.refuse("output", sequence=1, data="x", **HERE)
        self.heard("error", code="terminal-auth-expired", message="x")
        self.refuse("error", code="terminal-auth-expired", message="x")

    def test_the_strict_socket_judges_alike(self) -> None:
        """And key for key."""
        hearing = Hearing()
        hearing.terminals.asked({"type": "terminal-attach", **HERE})
        good = {"type": "terminal-error", "code": "terminal-internal", "message": "x", **HERE}
        hearing.heard(json.dumps(good).encode())
        for bad in ({"more": 1}, {"message": ""}, {"attachmentId": "b"}):
            raw = json.dumps({**good, **bad}).encode()
            self.assertRaises(AssertionError, hearing.heard, raw)
