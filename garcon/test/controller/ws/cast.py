"""The cast of the socket tests: chats that answer as the test says, and a wire that remembers."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from zope.interface import implementer

from garcon.contract.chats import TransientFeed
from garcon.contract.events import (
    ControlResult,
    ProcessingChat,
    ProcessingSnapshot,
    Reloaded,
    Subscribed,
)
from garcon.controller.principals import LOCAL_PRINCIPAL, Principal
from garcon.controller.ws.deflate import Compressor, Deflate
from garcon.controller.ws.interfaces import IAnswers, IReloading, Progress
from garcon.controller.ws.outbox import TRANSPORT_FULL
from garcon.controller.ws.requests import Reload, Subscribe
from garcon.controller.ws.socket import Socket, SocketLimits

INSTANCE = "instance-1"
NOW = "2026-01-02T03:04:05.678Z"


@implementer(IReloading)
@define(eq=False)
class FakeReloading:
    """A reload that ends when the test says so."""

    done: Deferred[Reloaded] = field(factory=Deferred)
    stopped: int = 0

    def stop(self) -> None:
        self.stopped += 1


@implementer(IAnswers)
@define(eq=False)
class FakeAnswers:
    """Chats without chats: pages and reloads wait for the test."""

    server_instance_id: str = INSTANCE
    busy: list[ProcessingChat] = field(factory=list)
    error: Exception | None = None
    pages: list[tuple[Subscribe, Deferred[Subscribed]]] = field(factory=list)
    reloads: list[tuple[Reload, Progress, FakeReloading]] = field(factory=list)
    cancelled: int = 0

    def now(self) -> str:
        return NOW

    def processing(self) -> ProcessingSnapshot:
        if self.error is not None:
            raise self.error
        return ProcessingSnapshot(chats=list(self.busy))

    def controls(self, chat_ids: Sequence[str]) -> list[ControlResult]:
        if self.error is not None:
            raise self.error
        return [ControlResult(chat_id=one, outcome="not-found") for one in chat_ids]

    def page(self, request: Subscribe) -> Deferred[Subscribed]:
        d: Deferred[Subscribed] = Deferred(self._cancelled)
        self.pages.append((request, d))
        return d

    def reload(self, request: Reload, progress: Progress) -> IReloading:
        reloading = FakeReloading()
        self.reloads.append((request, progress, reloading))
        return reloading

    def _cancelled(self, d: Deferred[Subscribed]) -> None:
        self.cancelled += 1

    def turn(self, at: int = 0) -> None:
        """Answer a page."""
        request, d = self.pages.pop(at)
        d.callback(page(request))


def page(request: Subscribe) -> Subscribed:
    """An empty page."""
    return Subscribed(
        client_request_id=request.request_id,
        chat_id=request.chat_id,
        transcript_view_id=request.view_id,
        messages=[],
        first_ordinal=request.after + 1,
        last_ordinal=request.after,
        next_after_ordinal=request.after,
        through_ordinal=request.after,
        has_more=False,
        resend_candidates=[],
        transient_feed=TransientFeed(
            server_instance_id=INSTANCE,
            chat_id=request.chat_id,
            transcript_view_id=request.view_id,
            transient_revision=0,
            rows=[],
        ),
    )


@define(eq=False)
class FakeWire:
    """A WebSocket that remembers its frames.  While it `is_stuck` it holds what it is given."""

    socket: Socket
    frames: list[bytes] = field(factory=list)
    stuck: int = 0
    is_stuck: bool = False
    pings: int = 0
    holds: list[bool] = field(factory=list)
    closes: list[tuple[int, str]] = field(factory=list)
    aborts: int = 0
    error: Exception | None = None
    """What the next frame meets."""

    def put(self, frame: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.frames.append(frame)
        if self.is_stuck:
            self.stuck += len(frame)
            if self.stuck > TRANSPORT_FULL:
                self.socket.wire_full()

    def ping(self) -> None:
        self.pings += 1

    def hold_reading(self, is_held: bool) -> None:
        self.holds.append(is_held)

    def close(self, code: int, reason: str) -> None:
        self.closes.append((code, reason))

    def abort(self) -> None:
        self.aborts += 1

    def drain(self) -> None:
        """Let go what is held."""
        self.stuck = 0
        self.socket.wire_empty()

    def said(self) -> list[Any]:
        """What was sent, decoded; forgotten then."""
        frames, self.frames = self.frames, []
        return [json.loads(payload_of(frame)) for frame in frames]


def payload_of(frame: bytes) -> bytes:
    """The text of one frame."""
    skip = {126: 4, 127: 10}.get(frame[1], 2)
    payload = frame[skip:]
    if not frame[0] & 0x40:
        return payload
    return zlib.decompressobj(-15).decompress(payload + b"\x00\x00\xff\xff")


def new_socket(
    clock: Clock,
    *,
    limits: SocketLimits | None = None,
    principal: Principal = LOCAL_PRINCIPAL,
    is_newer: bool = False,
    deflate: Deflate | None = None,
) -> Socket:
    """Make a socket that has not opened."""
    return Socket(
        *(clock, Compressor(), limits or SocketLimits(), principal),
        is_newer=is_newer,
        deflate=deflate,
    )
