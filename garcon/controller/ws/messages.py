"""One message on its way to sockets: encoded once, framed and compressed once for all who agreed on
the same.
"""

from __future__ import annotations

from typing import Any

import msgspec
from attrs import define, field
from msgspec import UNSET

from garcon.contract.events import (
    NEWER_ONLY,
    ProcessingChat,
    ProcessingSnapshot,
    ProcessingUpdated,
)
from garcon.controller.ws.deflate import Compressor, Deflate

_TEXT, _COMPRESSED = 0x81, 0xC1
"""The first byte of a whole text message, and of one that is compressed (RFC 6455 5.2, 7692 6)."""

_encode = msgspec.json.Encoder().encode


@define(eq=False)
class Message:
    """The JSON text of a message, and the frames that were made of it so far."""

    text: bytes
    _compressor: Compressor
    _frames: dict[Deflate | None, bytes] = field(factory=dict)

    def frame(self, deflate: Deflate | None) -> bytes:
        """Return the message as one frame for a socket with this agreement."""
        frame = self._frames.get(deflate)
        if frame is None:
            if deflate is None:
                frame = framed(_TEXT, self.text)
            else:
                frame = framed(_COMPRESSED, self._compressor.compress(self.text, deflate))
            self._frames[deflate] = frame
        return frame


def framed(first: int, payload: bytes) -> bytes:
    """Return a payload as one unmasked frame."""
    size = len(payload)
    if size < 126:
        head = bytes((first, size))
    elif size < 65_536:
        head = bytes((first, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((first, 127)) + size.to_bytes(8, "big")
    return head + payload


class Broadcast:
    """One event in the forms in which it goes out: clients that offered no more than the older
    protocol see a chat that waits for its executor as running (decisions.md 14).
    """

    def __init__(self, event: Any, compressor: Compressor) -> None:
        self._events = {True: event, False: as_older(event)}
        self._compressor = compressor
        self._made: dict[int, Message] = {}

    def form(self, is_newer: bool) -> Message | None:
        """Return the message for newer or for older clients; where nothing differs, the same.  None
        for what older ones do not know.
        """
        event = self._events[is_newer]
        if event is None:
            return None
        message = self._made.get(id(event))
        if message is None:
            message = self._made[id(event)] = Message(_encode(event), self._compressor)
        return message


def as_older(event: Any) -> Any:
    """Return an event as older clients know it; the very same one where nothing differs, None where
    they know nothing of the kind.
    """
    if isinstance(event, NEWER_ONLY):
        return None
    if isinstance(event, ProcessingUpdated) and event.phase == "reconnecting":
        return ProcessingUpdated(chat_id=event.chat_id, phase="running")
    return event


def as_older_snapshot(snapshot: ProcessingSnapshot) -> ProcessingSnapshot:
    """Return what the chats do as older clients know it."""
    if snapshot.chats is UNSET or all(one.phase != "reconnecting" for one in snapshot.chats):
        return snapshot
    chats = [
        ProcessingChat(one.chat_id, "running") if one.phase == "reconnecting" else one
        for one in snapshot.chats
    ]
    return ProcessingSnapshot(chats=chats)
