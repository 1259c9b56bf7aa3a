"""What tests of direct agents share: the three wires, their pretend servers and judges."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any

from attrs import frozen

from garcon.contract.messages import Image
from garcon.contract.providers import Capabilities, ResolvedEndpoint
from garcon.runtime.agents.direct_anthropic import AnthropicMessages
from garcon.runtime.agents.direct_chat import ChatCompletions
from garcon.runtime.agents.direct_events import EventStream
from garcon.runtime.agents.direct_responses import Responses
from garcon.runtime.agents.direct_wire import EVENT, ModelRequest, Reply, Wire
from garcon.testing.models import anthropic, judges, openai_chat, openai_responses, server
from garcon.testing.models.script import Asked, Text, Think, Turn

KEY = "sk-secret-0123456789"
PNG = b64encode(b"\x89PNG\r\n\x1a\n").decode()


@frozen
class Case:
    """One wire: ours, its pretend server, who judges requests, and where its base is."""

    agent_id: str
    wire: Wire
    fake: server.Wire
    judge: Callable[..., server.Judge]
    base: str
    messages: str
    route: str

    def endpoint(self, host: str = "http://models.example", **changes: Any) -> ResolvedEndpoint:
        """Return an endpoint of this wire."""
        usual: dict[str, Any] = {
            "protocol": self.wire.speech,
            "base_url": f"{host}{self.base}",
            "api_key": KEY,
            "revision": 1,
        }
        if self.wire.speech == "openai-compatible":
            usual["capabilities"] = Capabilities(True, True)
        return ResolvedEndpoint(**(usual | changes))

    def violations(self, request: ModelRequest, **more: Any) -> list[str]:
        """Return what the judge finds wrong with a request."""
        seen = server.HttpRequest(
            "POST",
            request.url.removeprefix("http://models.example"),
            {name.lower(): value for name, value in request.headers.items()},
            json.loads(request.body),
        )
        return list(self.judge(base="/v1", key=KEY, **more).judge(seen))

    def stream(self, turn: Turn) -> list[bytes]:
        """Return the frames of a turn's answer."""
        asked = Asked("", "", "m", True, "", "", (), {})
        encoder = self.fake.encoder(asked, turn)
        frames = list(encoder.start())
        for step in turn.steps:
            match step:
                case Text():
                    frames += encoder.text(step.pieces())
                case Think():
                    frames += encoder.think(step.text)
        return [*frames, *encoder.finish()]

    def read(self, *pieces: bytes) -> Reply:
        """Read an answer that comes in these pieces."""
        events, reader = EventStream(EVENT), self.wire.reader()
        for piece in pieces:
            if any(reader.take(event) for event in events.feed(piece)):
                break
        return reader.reply()


CHAT = Case(
    "direct-openai-compatible",
    ChatCompletions(),
    openai_chat.ChatCompletions(),
    judges.ChatJudge,
    "/v1",
    "messages",
    "/chat/completions",
)
RESPONSES = Case(
    "direct-openai-responses-compatible",
    Responses(),
    openai_responses.Responses(),
    judges.ResponsesJudge,
    "/v1",
    "input",
    "/responses",
)
ANTHROPIC = Case(
    "direct-anthropic-compatible",
    AnthropicMessages(),
    anthropic.AnthropicMessages(),
    judges.AnthropicJudge,
    "",
    "messages",
    "/messages",
)
CASES = (CHAT, RESPONSES, ANTHROPIC)


def an_image(mime_type: str, content: bytes | str = PNG, name: str = "file") -> Image:
    """Return an attachment as a client sends it."""
    payload = content if isinstance(content, str) else b64encode(content).decode()
    return Image(f"data:{mime_type};base64,{payload}", name, mime_type)


def sse(*events: dict[str, Any] | str, names: bool = False) -> bytes:
    """Return events as bytes."""
    return b"".join(_frames(events, names))


def _frames(events: Iterable[dict[str, Any] | str], names: bool) -> Iterable[bytes]:
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        name = f"event: {event['type']}\n" if names and isinstance(event, dict) else ""
        yield f"{name}data: {data}\n\n".encode()
