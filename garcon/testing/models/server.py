"""The HTTP side that all wires share: routing, streaming, control, journal.

One listening port can serve every wire at once, since their paths differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, cast

from attrs import Factory, define, frozen
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.interfaces import IListeningPort, ITCPTransport
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from garcon.testing.models.script import (
    Asked,
    Call,
    Cut,
    Fail,
    FreeCall,
    Hold,
    Raw,
    Script,
    Sleep,
    Step,
    Stop,
    StreamError,
    Text,
    Think,
    Turn,
    script_from_json,
    turn_from_json,
)

_log = Logger()


class Encoder(Protocol):
    """Turns the steps of one answer into the bytes of one stream."""

    def start(self) -> Iterator[bytes]:
        """What precedes the first step."""

    def text(self, text: Sequence[str]) -> Iterator[bytes]:
        """A text block; yields once or more for every piece."""

    def think(self, text: str) -> Iterator[bytes]:
        """A reasoning block."""

    def call(self, call: Call | FreeCall) -> Iterator[bytes]:
        """A tool call."""

    def error(self, error: StreamError) -> Iterator[bytes]:
        """An error inside the stream; nothing follows it."""

    def finish(self) -> Iterator[bytes]:
        """What follows the last step."""

    def whole(self, turn: Turn) -> dict[str, Any]:
        """The same answer as one JSON object, for a request without streaming."""


class Wire(Protocol):
    """One model API."""

    @property
    def name(self) -> str:
        """What the journal calls it."""

    def claims(self, method: str, path: str) -> bool:
        """Whether this request is a model request of this wire."""

    def parse(self, path: str, body: dict[str, Any]) -> Asked:
        """What was asked."""

    def encoder(self, asked: Asked, turn: Turn) -> Encoder:
        """An encoder for one answer."""

    def failure(self, fail: Fail) -> dict[str, Any]:
        """The JSON body of an HTTP error."""

    def extra(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a helper request (model list, token count), or None."""


@frozen
class HttpRequest:
    """What of a request a judge sees.  Header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Judge(Protocol):
    """Who is strict about requests, on behalf of every server that may be."""

    def judge(self, request: HttpRequest) -> Iterator[str]:
        """Say everything that is wrong with a request."""


@define(eq=False)
class _Player:
    """Plays one turn onto one HTTP request."""

    clock: Any
    request: Request
    script: Script
    asked: Asked
    turn: Turn
    encoder: Encoder
    gone: bool = False

    async def play(self) -> None:
        """Stream every step; stop quietly when the client hangs up."""
        self.request.notifyFinish().addBoth(self._ended)
        self.request.setHeader(b"content-type", b"text/event-stream")
        self.request.setHeader(b"cache-control", b"no-cache")
        self._send(self.encoder.start())
        for step in self.turn.steps:
            await self._step(step)
            if self.gone:
                return
        self._send(self.encoder.finish())
        self.asked.outcome = "answered"
        self.request.finish()

    async def _step(self, step: Step) -> None:
        match step:
            case Text():
                await self._text(step)
            case Think():
                self._send(self.encoder.think(step.text))
            case Call() | FreeCall():
                self._send(self.encoder.call(step))
            case Sleep():
                await deferLater(self.clock, step.seconds, lambda: None)
            case Hold():
                await self.script.wait(step.gate)
            case Raw():
                self._send(iter([step.data]))
            case Stop():
                self.asked.outcome = "stopped"
                self.gone = True
                self.request.finish()
            case StreamError():
                self._send(self.encoder.error(step))
                self.asked.outcome = "stream error"
                self.gone = True
                self.request.finish()
            case Cut():
                self.asked.outcome = "cut"
                self.gone = True
                cast(ITCPTransport, self.request.transport).abortConnection()

    async def _text(self, step: Text) -> None:
        for frame in self.encoder.text(step.pieces()):
            if self.gone:
                return
            self.request.write(frame)
            if step.delay:
                await deferLater(self.clock, step.delay, lambda: None)

    def _send(self, frames: Iterator[bytes]) -> None:
        for frame in frames:
            if not self.gone:
                self.request.write(frame)

    def _ended(self, _result: object) -> None:
        self.gone = True
        if self.asked.outcome == "open":
            self.asked.outcome = "client hung up"


@define(eq=False)
class Models(Resource):
    """The root resource: every wire, and ``/_script`` for control.

    ``GET /_script/asked`` lists what was asked and ``GET /_script/violations`` what `judge`, if
    any, found wrong with it, which is answered with status 400; ``POST /_script/release/GATE``
    opens a gate; ``POST /_script/turns`` appends a JSON list of turns;
    ``POST /_script`` replaces the script's turns and rules.
    """

    reactor: Any
    script: Script
    wires: list[Wire] = Factory(list)
    judge: Judge | None = None
    isLeaf = True

    def __attrs_pre_init__(self) -> None:
        Resource.__init__(self)

    def render(self, request: Request) -> bytes | int:
        """Route by path alone.  What a HEAD would be answered with is left out: Twisted warns of
        it, with everything that this resource holds.
        """
        answer = self._routed(request)
        return b"" if request.method == b"HEAD" and isinstance(answer, bytes) else answer

    def _routed(self, request: Request) -> bytes | int:
        method = request.method.decode()
        path = request.path.decode()
        raw = request.content.read() if request.content else b""
        if path.startswith("/_script"):
            return self._control(request, path, raw)
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            return _json(request, 400, {"error": {"message": "not JSON"}})
        wrong = self._judged(request, method, path, body)
        if wrong:
            return _json(request, 400, {"error": {"message": "; ".join(wrong)}})
        for wire in self.wires:
            if wire.claims(method, path):
                return self._model(request, wire, path, body)
            extra = wire.extra(method, path, body)
            if extra is not None:
                return _json(request, 200, extra)
        return _json(request, 404, {"error": {"message": f"no {method} {path}"}})

    def _judged(self, request: Request, method: str, path: str, body: dict[str, Any]) -> list[str]:
        if self.judge is None:
            return []
        wrong = list(self.judge.judge(HttpRequest(method, path, _headers(request), body)))
        self.script.violations += [f"{method} {path}: {one}" for one in wrong]
        return wrong

    def _model(self, request: Request, wire: Wire, path: str, body: dict[str, Any]) -> bytes | int:
        asked = wire.parse(path, body)
        asked.headers = _headers(request)
        turn = self.script.answer(asked)
        if fail := turn.failure:
            asked.outcome = f"failed {fail.status}"
            for key, value in fail.headers.items():
                request.setHeader(key.encode(), value.encode())
            return _json(request, fail.status, wire.failure(fail))
        encoder = wire.encoder(asked, turn)
        if not asked.stream:
            asked.outcome = "answered"
            return _json(request, 200, encoder.whole(turn))
        player = _Player(self.reactor, request, self.script, asked, turn, encoder)
        ensureDeferred(player.play()).addErrback(
            lambda f: _log.failure("a scripted answer went wrong", failure=f)
        )
        return NOT_DONE_YET

    def _control(self, request: Request, path: str, raw: bytes) -> bytes:
        parts = path.split("/")[2:]
        match parts:
            case ["asked"]:
                return _json(request, 200, [_summary(a) for a in self.script.asked])
            case ["violations"]:
                return _json(request, 200, self.script.violations)
            case ["bodies"]:
                return _json(request, 200, [a.body for a in self.script.asked])
            case ["release", gate]:
                return _json(request, 200, {"released": self.script.release(gate)})
            case ["turns"]:
                self.script.push(*[turn_from_json(t) for t in json.loads(raw)])
                return _json(request, 200, {"turns": len(self.script.turns)})
            case []:
                self.script = script_from_json(raw.decode())
                return _json(request, 200, {"turns": len(self.script.turns)})
        return _json(request, 404, {"error": {"message": "no such control"}})


def _headers(request: Request) -> dict[str, str]:
    return {
        name.decode().lower(): ", ".join(value.decode("latin-1") for value in values)
        for name, values in request.requestHeaders.getAllRawHeaders()
    }


def _summary(asked: Asked) -> dict[str, Any]:
    """A journal entry without the bulky parts."""
    return {
        "wire": asked.wire,
        "path": asked.path,
        "model": asked.model,
        "stream": asked.stream,
        "last_user": asked.last_user[-400:],
        "tools": list(asked.tools),
        "outcome": asked.outcome,
    }


def _json(request: Request, status: int, data: Any) -> bytes:
    """Answer with JSON."""
    request.setResponseCode(status)
    request.setHeader(b"content-type", b"application/json")
    return json.dumps(data).encode()


def sse(data: dict[str, Any] | str, event: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {event}\n" if event else ""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"{head}data: {text}\n\n".encode()


def serve(
    reactor: Any,
    script: Script,
    wires: Sequence[Wire],
    port: int = 0,
    judge: Judge | None = None,
) -> Deferred[IListeningPort]:
    """Listen on loopback; `port_of` says on which port."""
    models = Models(reactor, script, list(wires), judge)
    site = Site(models, parsePOSTFormSubmission=False)
    listening: Deferred[IListeningPort] = TCP4ServerEndpoint(
        reactor, port, interface="127.0.0.1"
    ).listen(site)
    return listening


def port_of(listening: IListeningPort) -> int:
    """Return the TCP port a server was given."""
    return cast(IPv4Address, listening.getHost()).port
