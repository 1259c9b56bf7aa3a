"""The cast of the API providers' tests: both files in folders of their own, executors that the test
plays, and the operations through their one door.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.catalogs import AgentEntry, AgentSettings, Protocol
from garcon.contract.operations import Operation
from garcon.controller.handlers import Handlers
from garcon.controller.principals import LOCAL_PRINCIPAL, Principal
from garcon.controller.providers.discovering import Discoveries
from garcon.controller.providers.offers import Offers
from garcon.controller.providers.operations import ProviderOperations
from garcon.controller.providers.store import (
    ASSIGNMENTS_FILE,
    PROFILES_FILE,
    ProviderStore,
)
from garcon.local.files import read_private, write_private
from garcon.testing.fake_runtime import FakeExecutors, FakeRuntime, agent_entry
from garcon.testing.inline_threads import InlinePool, InlineReactor

WORKER = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"
KEY = "sk-0123456789abcdef"
AT = "2026-01-02T03:04:05.678Z"


def endpoint_body(**more: Any) -> dict[str, Any]:
    """Return an endpoint that is in order."""
    body = {
        "protocol": "openai-compatible",
        "baseUrl": "https://models.example/v1",
        "apiKey": KEY,
        "defaultModel": "m1",
        "models": [{"value": "m1", "label": "M 1"}, {"value": "m2", "label": "M 2"}],
    }
    return body | more


def profile_body(endpoint: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a profile that is in order."""
    body = {"label": "Models", "templateId": "custom", "endpoint": endpoint_body(**endpoint or {})}
    return body | more


def direct_entry(agent_id: str, *protocols: Protocol, **more: Any) -> AgentEntry:
    """Return the entry of an agent that has only the models of profiles."""
    members: dict[str, Any] = {
        "id": agent_id,
        "label": agent_id,
        "supports_images": True,
        "accepts_api_provider_endpoints": True,
        "supported_protocols": list(protocols),
        "supported_permission_modes": ["default"],
        "supported_thinking_modes": ["none"],
        "default_settings": AgentSettings(agent_id, 1, {}),
        "default_model": "",
        "models": [],
    }
    return AgentEntry(**members | more)


CHAT = direct_entry("direct-openai-compatible", "openai-compatible")
RESPONSES = direct_entry("direct-openai-responses-compatible", "openai-compatible")
ANTHROPIC = direct_entry("direct-anthropic-compatible", "anthropic-messages")


class StoreCase(SynchronousTestCase):
    """A store whose disk the test can make fail; `restart` makes another process over it."""

    def setUp(self) -> None:
        self.config, self.workspace = (os.path.realpath(self.mktemp()) for _ in range(2))
        os.makedirs(self.config)
        os.makedirs(self.workspace)
        self.clock = Clock()
        self.write: Callable[[str, bytes], None] = write_private
        self.writes: list[str] = []
        self.pool = InlinePool()
        self.store = self.make_store()

    def make_store(self) -> ProviderStore:
        """Make the store of a process."""
        return ProviderStore(
            InlineReactor(),
            self.config,
            self.workspace,
            pool=self.pool,
            read=read_private,
            write=self._write,
        )

    def _write(self, path: str, content: bytes) -> None:
        self.writes.append(os.path.basename(path))
        self.write(path, content)

    def open(self, *executors: str, is_fresh: bool = True, is_known: bool = False) -> bool:
        """Open the store, as a start does."""
        ids = executors or ("local", WORKER)
        opening = self.store.open(ids, is_fresh=is_fresh, is_known=is_known)
        return self.successResultOf(opening)

    def path(self, name: str) -> str:
        """Return where a file lies."""
        folder = self.config if name == PROFILES_FILE else self.workspace
        return os.path.join(folder, name)

    def on_disk(self, name: str) -> Any:
        """Read a file as anybody would."""
        with open(self.path(name), "rb") as file:
            return msgspec.json.decode(file.read())

    def put(self, name: str, content: Any) -> None:
        """Write a file behind the store's back."""
        raw = content if isinstance(content, bytes) else msgspec.json.encode(content)
        write_private(self.path(name), raw)

    @property
    def assigned(self) -> dict[str, list[str]]:
        """Who may use what, on disk."""
        found: dict[str, list[str]] = self.on_disk(ASSIGNMENTS_FILE)["assignments"]
        return found


class ProvidersCase(StoreCase):
    """The operations over an open store; Local and one worker are there."""

    def setUp(self) -> None:
        super().setUp()
        self.open()
        self.used: dict[str, list[str]] = {}
        self.managing: set[str] = set()
        self.begin_process()

    def begin_process(self) -> None:
        """Serve the store."""
        self.local, self.worker = (
            FakeRuntime(agents=[agent_entry(), CHAT, RESPONSES, ANTHROPIC]) for _ in range(2)
        )
        self.executors = FakeExecutors({"local": self.local, WORKER: self.worker})
        self.offers = Offers(self.store)
        self.handlers = Handlers()
        self.randoms = 0
        self.time = 0
        ProviderOperations(
            self.store,
            self.executors,
            lambda profile: self.used.get(profile, []),
            lambda executor: executor in self.managing,
            self._random,
            self._now,
        ).register(self.handlers)
        Discoveries(self.store, self.executors, self.clock).register(self.handlers)

    def _random(self, size: int) -> bytes:
        self.randoms += 1
        return self.randoms.to_bytes(size, "big")

    def _now(self) -> str:
        self.time += 1
        return f"2026-01-01T00:00:{self.time:02}.000Z"

    def ask(
        self,
        operation: Operation,
        body: dict[str, Any] | None = None,
        principal: Principal = LOCAL_PRINCIPAL,
        **query: str,
    ) -> tuple[int, Any]:
        """Ask for an operation that is answered at once; no answer ever shows a key."""
        answer = self.successResultOf(
            self.handlers.run(operation, principal, query=list(query.items()), body=body)
        )
        self.assertNotIn(KEY.encode(), answer.body)
        self.assertEqual(answer.headers.get("Cache-Control"), "no-store")
        return answer.status, msgspec.json.decode(answer.body)

    def asked(self, *args: Any, **more: Any) -> Any:
        """Ask for what succeeds."""
        status, body = self.ask(*args, **more)
        self.assertIn(status, (200, 201), body)
        return body

    def refused(self, *args: Any, **more: Any) -> tuple[int, str]:
        """Ask for what is refused; returns status and code."""
        status, body = self.ask(*args, **more)
        self.assertFalse(body["success"])
        return status, body["errorCode"]
