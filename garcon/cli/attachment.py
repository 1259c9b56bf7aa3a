"""One client's hold on one terminal, as values: the socket's messages in, what to show and what to
answer out (server.md C.3 to C.6).

It outlives sockets.  What has been shown is known by its sequence, so that attaching again goes on
exactly there.  After anything that ends the attachment but not the terminal it says `Lost`, and its
owner decides when to `attach` again.
"""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as Base64Error
from typing import NamedTuple

from garcon.cli.failures import (
    AUTHENTICATION,
    DONE,
    OPERATIONAL,
    STOPPED,
    TERMINAL,
    TURN_FAILED,
)
from garcon.cli.keyboard import pieces
from garcon.cli.websocket import ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LOGIN_OVER = "the login has ended; run `garcon login` and attach again"
LARGEST_CHUNK = 16 * 1024 * 1024
"""What fragments may make together; an executor reads far less from a PTY at once."""


class Attached(NamedTuple):
    """The terminal is ours now."""

    is_first: bool


class Shown(NamedTuple):
    """Output, each of it once and in order.  `is_replayed` if it was there before this client."""

    data: bytes
    is_replayed: bool


class Told(NamedTuple):
    """Something that the person should know; the attachment goes on."""

    text: str


class Lost(NamedTuple):
    """The attachment is over, the terminal is not.  `is_soon`: nothing speaks against attaching
    again at once.
    """

    text: str
    is_soon: bool


class Ended(NamedTuple):
    """There is nothing to attach to any more, or no right to it.  `phase` is empty where nothing
    went wrong; `has_exited` tells of the end of the shell.
    """

    phase: str
    text: str
    status: int
    has_exited: bool = False


Event = Attached | Shown | Told | Lost | Ended


class Attachment:
    """What this client has of a terminal, and what it still expects."""

    def __init__(
        self, terminal_id: str, client_id: str, has_to_take: bool, ids: Callable[[], str]
    ) -> None:
        self.terminal_id = terminal_id
        self.is_attached = False
        self.last = 0
        """The sequence of the newest output that was shown."""
        self._client_id = client_id
        self._intent = "takeover" if has_to_take else "restore"
        self._ids = ids
        self._attachment_id = ""
        self._was_attached = False
        self._replayed_through = 0
        self._awaited = 0
        """The newest output there was when the terminal became ours."""
        self._exit: dict[str, Any] | None = None
        self._parts: list[bytes] = []
        self._parts_of = (0, 0)

    # To the terminal

    def attach(self) -> dict[str, Any]:
        """Return the message that asks for the terminal, from what was shown on."""
        self.lost()
        self._attachment_id = self._ids()
        return self._message(
            "terminal-attach",
            clientId=self._client_id,
            afterSequence=self.last,
            intent=self._intent,
        )

    def typed(self, text: str) -> list[dict[str, Any]]:
        """Return the messages that type a text; only while attached."""
        return [self._message("terminal-input", data=piece) for piece in pieces(text)]

    def resized(self, columns: int, rows: int) -> dict[str, Any]:
        """Return the message that tells the size of the window."""
        return self._message("terminal-resize", cols=columns, rows=rows)

    def detach(self) -> dict[str, Any]:
        """Return the message that lets the terminal go."""
        return self._message("terminal-detach")

    def lost(self) -> None:
        """The socket is gone, or the attachment."""
        self.is_attached = False
        self._parts = []

    def _message(self, kind: str, **fields: Any) -> dict[str, Any]:
        return {
            "type": kind,
            "terminalId": self.terminal_id,
            "attachmentId": self._attachment_id,
            **fields,
        }

    # From the terminal

    def received(self, text: str) -> list[Event]:
        """Take one of the socket's messages; most of them are about other things.

        Raises `ProtocolError` for one of this terminal that cannot be.
        """
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            raise ProtocolError("a message is no JSON") from None
        kind = message.get("type") if isinstance(message, dict) else None
        take = _READERS.get(kind) if isinstance(kind, str) else None
        if take is None or message.get("attachmentId", self._attachment_id) != self._attachment_id:
            return []
        if kind != "terminal-error" and self._named(message) != self.terminal_id:
            return []
        try:
            return take(self, message)
        except (KeyError, TypeError, ValueError, Base64Error):
            raise ProtocolError(f"a {kind} is malformed") from None

    def _named(self, message: dict[str, Any]) -> object:
        terminal = message.get("terminal", message)
        return terminal.get("terminalId") if isinstance(terminal, dict) else None

    def _attached(self, message: dict[str, Any]) -> list[Event]:
        terminal = message["terminal"]
        latest = _number(terminal["latestOutputSequence"])
        self.is_attached = True
        is_first, self._was_attached = not self._was_attached, True
        self._intent = "restore"
        self._awaited = latest
        if is_first:
            self._replayed_through = latest
        self._exit = terminal if terminal["processStatus"] == "exited" else None
        events: list[Event] = [Attached(is_first)]
        for chunk in message["replay"]:
            events += self._chunk(_number(chunk["sequence"]), _encoded(chunk["data"]))
        return events + self._if_exited()

    def _output(self, message: dict[str, Any]) -> list[Event]:
        return self._come(_number(message["sequence"]), _encoded(message["data"]))

    def _batch(self, message: dict[str, Any]) -> list[Event]:
        events: list[Event] = []
        for chunk in message["chunks"]:
            events += self._come(_number(chunk["sequence"]), _decoded(chunk["dataBase64"]))
        return events

    def _fragment(self, message: dict[str, Any]) -> list[Event]:
        sequence, count = _number(message["sequence"]), _number(message["fragmentCount"])
        index = message["fragmentIndex"]
        if index == 0:
            self._parts, self._parts_of = [], (sequence, count)
        if self._parts_of != (sequence, count) or index != len(self._parts) or index >= count:
            raise ProtocolError("a fragment of output is missing")
        self._parts.append(_decoded(message["dataBase64"]))
        if sum(map(len, self._parts)) > LARGEST_CHUNK:
            raise ProtocolError("a piece of output is too large")
        if len(self._parts) < count:
            return []
        data, self._parts, self._parts_of = b"".join(self._parts), [], (0, 0)
        return self._come(sequence, data)

    def _come(self, sequence: int, data: bytes) -> list[Event]:
        return self._chunk(sequence, data) + self._if_exited()

    def _chunk(self, sequence: int, data: bytes) -> list[Event]:
        if sequence <= self.last or not self.is_attached:
            return []
        if sequence != self.last + 1 and self.last > 0:
            raise ProtocolError("a piece of output is missing")
        self.last = sequence
        return [Shown(data, sequence <= self._replayed_through)]

    def _truncated(self, message: dict[str, Any]) -> list[Event]:
        first = _number(message["firstSequence"])
        if first <= self.last + 1:
            return []
        self.last = first - 1
        return [Told("the output before this is not kept any more")]

    def _status(self, message: dict[str, Any]) -> list[Event]:
        terminal = message["terminal"]
        if terminal["processStatus"] != "exited" or not self.is_attached:
            return []
        self._exit = terminal
        return self._if_exited()

    def _if_exited(self) -> list[Event]:
        # The status comes after all new output; what is replayed may still be on its way.
        if self._exit is None or self.last < self._awaited:
            return []
        code = self._exit["exitCode"]
        shown = "" if code is None else f" {code}"
        return [Ended("", f"exited{shown}", DONE if code == 0 else TURN_FAILED, True)]

    def _taken(self, message: dict[str, Any]) -> list[Event]:
        return [Ended(TERMINAL, "another client has taken the terminal over", OPERATIONAL)]

    def _terminated(self, message: dict[str, Any]) -> list[Event]:
        return [Ended(TERMINAL, "the terminal was killed", STOPPED)]

    def _error(self, message: dict[str, Any]) -> list[Event]:
        named = message.get("terminalId")
        if named is not None and named != self.terminal_id:
            return []
        code, text = message["code"], str(message["message"])
        if code == "terminal-auth-expired":
            self.lost()
            return [Ended(AUTHENTICATION, LOGIN_OVER, OPERATIONAL)]
        was_attached = self.is_attached
        if code in ("terminal-unavailable", "terminal-backpressure", "terminal-not-attached"):
            self.lost()
            if not self._was_attached:
                return [Ended(TERMINAL, f"{text} ({code})", OPERATIONAL)]
            # What there was too much of is gone now, so that it can go on at once.
            return [Lost(text, code == "terminal-backpressure" and was_attached)]
        if was_attached:
            # One thing that was asked failed, such as typing into a shell that has just exited.
            return [] if code == "terminal-process-exited" else [Told(text)]
        if code == "terminal-takeover-required":
            text = (
                "another client has taken the terminal over"
                if self._was_attached
                else "another client is attached to the terminal; take it over with --take-over"
            )
        elif code == "terminal-not-found" and self._was_attached:
            text = "the terminal is gone: it was killed, or its machine's service has ended"
        else:
            text = f"{text} ({code})"
        return [Ended(TERMINAL, text, OPERATIONAL)]


_READERS = {
    "terminal-attached": Attachment._attached,
    "terminal-output": Attachment._output,
    "terminal-replay-batch": Attachment._batch,
    "terminal-output-fragment": Attachment._fragment,
    "terminal-replay-truncated": Attachment._truncated,
    "terminal-status": Attachment._status,
    "terminal-taken-over": Attachment._taken,
    "terminal-terminated": Attachment._terminated,
    "terminal-error": Attachment._error,
}


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("no number")
    return value


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _decoded(text: str) -> bytes:
    return b64decode(text, validate=True)
