"""The cast of the compatibility tests: a controller as other people's harnesses start it, pretend
providers for its three direct agents, and clients that share nothing with us.

One controller serves all tests that want it alike, over its restarts; what has to be there for all
of them is made once and ended with the process.
"""

from __future__ import annotations

import atexit
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.request import Request, urlopen

from attrs import define, field, frozen
from twisted.trial.unittest import SynchronousTestCase

import garcon
from garcon.testing.fleet import Fleet, Output, Service, eventually
from garcon.testing.foreign_client import ForeignClient, message
from garcon.testing.foreign_socket import ForeignSocket

KEY = "sk-foreign-0123456789abcdef"
SCRIPT = {"sides_take_turns": True}
GONE = (404, "SESSION_NOT_FOUND", False)
STALE = (409, "STALE_TRANSCRIPT_VIEW", False)
INVALID = (400, "VALIDATION_FAILED", False)
BUSY = (409, "SESSION_BUSY", True)
CONFLICT = (409, "IDEMPOTENCY_CONFLICT", False)

STARTED = re.compile(r"Started at (http://\S+)")
MODELS_READY = re.compile(r'"port": (\d+)')

_LAUNCHER = """#!{python}
import sys

sys.path.insert(0, {root!r})
from garcon.cli.main import main

sys.argv[1:1] = ["controller"]
main()
"""


@frozen
class Api:
    """One of the three: what a profile for it says, and where its requests have their messages."""

    wire: str
    agent: str
    protocol: str
    path: str
    messages: str
    capabilities: dict[str, bool] | None = None


APIS = (
    Api(
        "openai-chat",
        "direct-openai-compatible",
        "openai-compatible",
        "/v1",
        "messages",
        {"chatCompletions": True, "responses": False},
    ),
    Api(
        "openai-responses",
        "direct-openai-responses-compatible",
        "openai-compatible",
        "/v1",
        "input",
        {"chatCompletions": False, "responses": True},
    ),
    Api("anthropic", "direct-anthropic-compatible", "anthropic-messages", "", "messages"),
)


@define(eq=False)
class Model:
    """A pretend provider, which judges whatever it is asked."""

    api: Api
    service: Service

    def control(self, path: str = "", body: Any = None) -> Any:
        """Use the server's own routes."""
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"{self.service.url}/_script{path}", data), timeout=20) as answer:
            return json.load(answer)

    def push(self, *turns: Any) -> None:
        """Append answers."""
        self.control("/turns", list(turns))

    def release(self, gate: str) -> None:
        """Let held answers go on."""
        self.control(f"/release/{gate}", {})

    def asked(self) -> list[dict[str, Any]]:
        """The requests of this test so far."""
        found: list[dict[str, Any]] = self.control("/asked")
        return found

    def await_request(self, number: int) -> None:
        """Wait until it was asked so often."""
        eventually(f"request {number}", lambda: len(self.asked()) >= number)

    def await_hang_up(self, number: int) -> None:
        """Wait until whoever sent a request, counted from one, has hung up."""
        self.await_request(number)
        eventually("the hang-up", lambda: self.asked()[number - 1]["outcome"] == "client hung up")

    def told(self, number: int = 0) -> list[tuple[str, Any]]:
        """The messages of a request, counted from one, or of the newest: roles and texts."""
        body = self.control("/bodies")[number - 1]
        return [(one["role"], one["content"]) for one in body[self.api.messages]]

    def profile(self) -> dict[str, Any]:
        """The body that makes its profile in a controller."""
        endpoint: dict[str, Any] = {
            "protocol": self.api.protocol,
            "baseUrl": self.service.url + self.api.path,
            "apiKey": KEY,
            "defaultModel": "scripted",
            "models": [
                {"value": "scripted", "label": "Scripted"},
                {"value": "other", "label": "Other"},
            ],
            "supportsImages": True,
            "modelDiscovery": "none",
        }
        if self.api.capabilities is not None:
            endpoint["capabilities"] = self.api.capabilities
        return {"templateId": "custom", "label": self.api.wire, "endpoint": endpoint}


@frozen
class Provider:
    """A profile in a controller."""

    model: Model
    id: str
    endpoint_id: str

    @classmethod
    def make(cls, client: ForeignClient, model: Model) -> Provider:
        """Create it."""
        made = client.do("POST", "/api-providers", model.profile())
        return cls(model, made["id"], made["endpoints"][0]["id"])

    @property
    def agent(self) -> str:
        """Who uses it."""
        return self.model.api.agent

    def chosen(self) -> dict[str, Any]:
        """What a start or a hand-off says to use it."""
        return {
            "agentId": self.agent,
            "agentSettings": {"ownerId": self.agent, "schemaVersion": 1, "values": {}},
            "model": f"{self.endpoint_id}:scripted",
            "apiProviderId": self.id,
            "modelEndpointId": self.endpoint_id,
            "modelProtocol": self.model.api.protocol,
        }


class Stage:
    """What is there for all classes: the folder, the program, and the three providers."""

    current: ClassVar[Stage | None] = None

    def __init__(self) -> None:
        self.fleet = Fleet(scripted=False)
        self.program = self.fleet.binaries / "garcon-controller"
        root = str(Path(garcon.__file__).parents[1])
        self.program.write_text(_LAUNCHER.format(python=sys.executable, root=root))
        self.program.chmod(0o755)
        self.projects = self.fleet.projects
        script = self.fleet.root / "script.json"
        script.write_text(json.dumps(SCRIPT))
        self.models: list[Model] = []
        for api in APIS:
            argv = [sys.executable, "-m", "garcon.testing.models", "--port", "0"]
            argv += ["--script", str(script), "--wire", api.wire, "--strict", KEY]
            self.models.append(Model(api, self.fleet.start("models", self.fleet.root, argv)))
        for model in self.models:
            self.fleet.await_ready(model.service, MODELS_READY)
            model.service.url = f"http://127.0.0.1:{model.service.url}"
        self._actors = 0
        atexit.register(self.fleet.close)

    @classmethod
    def get(cls) -> Stage:
        """Return the one of this process."""
        if cls.current is None:
            cls.current = Stage()
        return cls.current

    def folder(self) -> Path:
        """Return a folder for one controller's files."""
        self._actors += 1
        folder = self.fleet.root / f"controller-{self._actors}"
        folder.mkdir()
        return folder

    def launch(
        self,
        config: Path,
        *options: str,
        port: int = 0,
        accounts: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Service:
        """Start a controller as harnesses do; it is not waited for."""
        home = self.fleet.root / "home"
        argv = [str(self.program), "--port", str(port), "--bind-address", "127.0.0.1"]
        argv += [] if accounts else ["--disable-auth"]
        argv += ["--config-dir", str(config), "--project-base-dir", str(self.projects), *options]
        process = subprocess.Popen(
            argv,
            cwd=home,
            env={
                "HOME": str(home),
                "XDG_CONFIG_HOME": str(home / "config"),
                "XDG_CACHE_HOME": str(home / "cache"),
                "XDG_DATA_HOME": str(home / "data"),
                "XDG_STATE_HOME": str(home / "state"),
                "TMPDIR": str(self.fleet.root / "tmp"),
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "NO_COLOR": "1",
                **(environment or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
        )
        service = Service("controller", config, process, Output())
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            service.output.follow(stream)
        self.fleet.services.append(service)
        return service

    def start(self, config: Path, *options: str, **more: Any) -> Service:
        """Start one and wait for its line."""
        return self.fleet.await_ready(self.launch(config, *options, **more), STARTED)


@define(eq=False)
class Actor:
    """One controller over its restarts, with its client and its three profiles."""

    stage: Stage
    config: Path
    options: Sequence[str]
    environment: Mapping[str, str] = field(factory=dict)
    service: Service = field(init=False)
    client: ForeignClient = field(init=False)
    providers: list[Provider] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.open()
        self.providers = [Provider.make(self.client, model) for model in self.stage.models]
        for provider in self.providers:
            assert provider.id and provider.endpoint_id
        self.client.do("PUT", "/app/settings", {"ui": {"chatTitle": {"enabled": False}}})

    def open(self, port: int = 0) -> None:
        """Start it, or its successor."""
        self.service = self.stage.start(
            self.config, *self.options, port=port, environment=self.environment
        )
        self.client = ForeignClient(self.service.url)

    @property
    def workspace(self) -> Path:
        """Its workspace's folder."""
        kind, value = self.options[0], self.options[1]
        return Path(value) if kind == "--workspace-dir" else self.config / f"workspace-{value}"


class ForeignCase(SynchronousTestCase):
    """Tests that share one controller; each has a socket of its own from beginning to end, and
    leaves no chat behind.
    """

    options: ClassVar[Sequence[str]] = ("--workspace", "black-box")
    environment: ClassVar[Mapping[str, str]] = {}
    """What the controller gets besides the little that every harness gives."""
    _actor: ClassVar[Actor | None] = None

    def setUp(self) -> None:
        self.stage = Stage.get()
        for model in self.stage.models:
            model.control("", SCRIPT)
        self.actor = self._shared()
        self.project = str(self.stage.fleet.project("project"))
        self.socket = self.open_socket()
        self.addCleanup(self._end)

    def _shared(self) -> Actor:
        """Return the controller, which whoever wants the same one shares."""
        wanted = tuple(self.options), dict(self.environment)
        known = ForeignCase._actor
        if known is None or (tuple(known.options), dict(known.environment)) != wanted:
            ForeignCase._actor = None
            if known is not None:
                self.assertEqual(known.service.stop(), 0)
            known = Actor(self.stage, self.stage.folder(), *wanted)
            ForeignCase._actor = known
        return known

    def _end(self) -> None:
        """Leave no turn behind; whatever the test was about, its requests were right."""
        if self.actor.service.process.poll() is not None:
            self.fail(f"the controller has ended:\n{self.actor.service.output.text()}")
        for entry in self.client.chats():
            self.client.do("DELETE", "/chats", {"chatId": entry["id"]})
        for model in self.models:
            self.assertEqual(model.control("/violations"), [])
        for answer in self.client.answers:
            self.assertNotIn(KEY, answer)

    @property
    def client(self) -> ForeignClient:
        """The client of the controller that runs now."""
        return self.actor.client

    @property
    def models(self) -> list[Model]:
        """The three pretend providers."""
        return self.stage.models

    @property
    def providers(self) -> list[Provider]:
        """Their profiles: Chat Completions, Responses, Anthropic."""
        return self.actor.providers

    def open_socket(self, **more: Any) -> ForeignSocket:
        """Open a socket, which offers nothing; it is well to its end."""
        socket = ForeignSocket(self.actor.service.url, **more)
        self.addCleanup(socket.close)
        return socket

    def restart(self) -> None:
        """End the controller in good order, and start it again on the same port."""
        port = self.actor.service.port
        self.assertEqual(self.actor.service.stop(), 0, self.actor.service.output.text())
        self.actor.open(port)

    def crash(self) -> None:
        """Kill it and start it again at once on the same port."""
        port = self.actor.service.port
        self.actor.service.kill()
        self.actor.open(port)

    # Chats

    def start_body(self, provider: Provider, text: str, **more: Any) -> dict[str, Any]:
        """Return what starts a chat."""
        chat_id = self.client.ids.chat()
        body = message(chatId=chat_id, projectPath=self.project, command=text, tags=[])
        modes = {"permissionMode": "default", "thinkingMode": "none"}
        return body | modes | provider.chosen() | more

    def begin(self, text: str, provider: Provider | None = None, **more: Any) -> dict[str, Any]:
        """Start a chat; its turn runs on."""
        body = self.start_body(provider or self.providers[0], text, **more)
        started: dict[str, Any] = self.client.do("POST", "/chats/start", body)
        return started

    def chat(self, text: str = "hello", provider: Provider | None = None, **more: Any) -> str:
        """Start a chat whose turn ends well; returns its id."""
        turn = self.begin(text, provider, **more)
        self.assertEqual(self.client.settled(turn)["state"], "completed")
        chat_id: str = turn["chatId"]
        return chat_id

    def ended(self, turn: dict[str, Any]) -> tuple[str, list[str]]:
        """Wait for a turn; returns its state and what was said."""
        receipt = self.client.settled(turn)
        return receipt["state"], receipt["output"]["assistantMessages"]

    def held(self, text: str, gate: str, provider: Provider | None = None) -> dict[str, Any]:
        """Start a chat whose model says a part and waits at a gate."""
        provider = provider or self.providers[0]
        before = len(provider.model.asked())
        provider.model.push([{"text": "part"}, {"hold": gate}])
        turn = self.begin(text, provider)
        provider.model.await_request(before + 1)
        return turn
