"""What a client may say about terminals (server.md C.3)."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import CLIENT_ID_BYTES, TERMINAL_INPUT
from garcon.contract.terminals import VALIDATION
from garcon.controller.terminals import requests
from garcon.errors import GarconError

ATTACH: dict[str, Any] = {
    "type": "terminal-attach",
    "terminalId": "t",
    "clientId": "c",
    "afterSequence": 0,
    "intent": "restore",
}
INPUT: dict[str, Any] = {"type": "terminal-input", "terminalId": "t", "data": "x"}
RESIZE: dict[str, Any] = {"type": "terminal-resize", "terminalId": "t", "cols": 1, "rows": 1}
DETACH: dict[str, Any] = {"type": "terminal-detach", "terminalId": "t"}


def raw(message: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({**message, **more}, ensure_ascii=False).encode("utf-8", "surrogatepass")


class Requests(SynchronousTestCase):
    """Read, or refused."""

    def refused(self, payload: bytes) -> None:
        with self.assertRaises(GarconError) as caught:
            requests.read(payload)
        self.assertEqual(caught.exception.code, VALIDATION, payload[:200])

    def test_what_fits(self) -> None:
        """With fields that nobody knows left aside, and numbers that are whole."""
        for message in (ATTACH, INPUT, RESIZE, DETACH):
            requests.read(raw(message))
            requests.read(raw(message, attachmentId="a", further={"x": 1}))
        requests.read(raw(ATTACH, intent="takeover", afterSequence=2**53 - 1))
        requests.read(raw(INPUT, data=""))

    def test_what_does_not(self) -> None:
        """Every field that is missing, of another kind, or out of its range."""
        for message in (ATTACH, INPUT, RESIZE, DETACH):
            for name in message:
                if name != "type":
                    self.refused(raw({k: v for k, v in message.items() if k != name}))
                    self.refused(raw(message, **{name: None}))
                    self.refused(raw(message, **{name: []}))
            self.refused(raw(message, attachmentId=""))
            self.refused(raw(message, attachmentId=None))
            self.refused(raw(message, terminalId=""))
        for message, more in (
            (ATTACH, {"afterSequence": -1}),
            (ATTACH, {"afterSequence": 2**53}),
            (ATTACH, {"clientId": ""}),
            (ATTACH, {"attachmentEpoch": ""}),
            (RESIZE, {"cols": 0}),
            (RESIZE, {"rows": -1}),
            (RESIZE, {"rows": 1.5}),
        ):
            self.refused(raw(message, **more))
        self.refused(b'{"type":"terminal-input","terminalId":"t","data":"\xff"}')
        self.refused(b'{"type":"terminal-input","terminalId":"t","data":"\\ud800"}')
        self.refused(b'{"type":"terminal-resize","terminalId":' + b"[" * 100_000)

    def test_the_longest_input(self) -> None:
        """65,536 bytes of UTF-8, at N and N+1, in characters of every length."""
        for character in ("x", "é", "漢", "🙂"):
            count, rest = divmod(TERMINAL_INPUT, len(character.encode()))
            longest = character * count + "x" * rest
            requests.read(raw(INPUT, data=longest))
            self.refused(raw(INPUT, data=longest + "x"))

    def test_the_longest_ids(self) -> None:
        """256 bytes of UTF-8, at N and N+1."""
        for name in ("terminalId", "clientId", "attachmentId", "attachmentEpoch"):
            for longest in ("x" * CLIENT_ID_BYTES, "é" * (CLIENT_ID_BYTES // 2)):
                requests.read(raw(ATTACH, **{name: longest}))
                self.refused(raw(ATTACH, **{name: longest + "x"}))
