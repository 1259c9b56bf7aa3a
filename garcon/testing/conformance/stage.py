"""Where the scenarios of one agent are played: a controller, its worker where that is the place, a
pretend model, and the command.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any, Literal
from urllib.request import Request, urlopen

from attrs import define, field

from garcon.contract import operations
from garcon.testing.conformance.casts import Cast, Plan, program_of
from garcon.testing.fleet import Finished, Fleet, Service, eventually, expect
from garcon.testing.strict_client import StrictClient

Place = Literal["local", "worker"]
PLACES: tuple[Place, ...] = ("local", "worker")
PATIENCE = 120.0
"""Seconds for a turn: some agents take their time to start."""


class NotOffered(Exception):
    """The agent has no such thing; the text says why."""


@define(eq=False)
class Stage:
    """One agent in one place.  Owned by the table, which closes it."""

    cast: Cast
    place: Place
    fleet: Fleet = field(factory=Fleet)
    service: Service = field(init=False)
    models: Service = field(init=False)
    _controller: Service = field(init=False)
    _executor_id: str = ""
    _url: str = ""
    _program: str = ""
    _chosen: tuple[str, ...] = ()

    def open(self) -> None:
        """Start everything."""
        self._program = self.cast.install()
        self._start()
        self._compare()

    def _start(self) -> None:
        if self.cast.configuration is not None:
            config = self.fleet.root / ("controller" if self.place == "local" else "worker")
            config.mkdir()
            (config / "agents.toml").write_text(self.cast.configuration(self._program))
        script = self.fleet.root / "model.json"
        script.write_text(json.dumps({"fallback": "ok"}))
        self.models = self.fleet.model_server(script)
        if self.place == "local":
            self.service = self._controller = self.fleet.controller(environment=self._variables())
            self._add_provider("local")
            return
        self._controller = self.fleet.controller()
        options = ("--label", "workshop", "--direction", "executor-connects", "--no-tls", "true")
        self._executor_id = self.fleet.executor(self._controller, *options)
        shown = self.fleet.garcon(self._controller, "executor", "connection", self._executor_id)
        self._url = shown.out.strip()
        self._begin_worker()
        self._add_provider(self._executor_id)

    def _compare(self) -> None:
        """What the table takes for offered is what the catalog says."""
        own = self._controller.descriptor()
        client = StrictClient(own["baseUrl"], own["localCapability"])
        query = {"executorId": self._executor_id or "local", "agent": self.cast.agent_id}
        (entry,) = client.asked(operations.MODELS, None, query).catalog.agents
        expect(entry.supports_steering is self.cast.steers, f"steering is otherwise: {entry}")
        modes = {self.cast.open_mode, self.cast.question_mode, "default", "manualBypass"}
        missing = modes - set(entry.supported_permission_modes)
        expect(not missing, f"the catalog has no modes {missing}: {entry}")
        offered = {model.value for model in entry.models} | {
            model.raw_model for model in entry.models
        }
        if entry.requires_strict_model_discovery or self.cast.endpoint is not None:
            wanted = {self.cast.model, self.cast.other_model} - {None}
            expect(wanted <= offered, f"the catalog has no models {wanted - offered}")

    def _add_provider(self, executor_id: str) -> None:
        if self.cast.endpoint is None:
            return
        own = self._controller.descriptor()
        client = StrictClient(own["baseUrl"], own["localCapability"])
        made = client.asked(
            operations.CREATE_PROVIDER,
            {
                "templateId": "custom",
                "label": "pretended",
                "executorIds": [executor_id],
                "endpoint": {**self.cast.endpoint, "baseUrl": f"{self.models.url}/v1"},
            },
        )
        self._chosen = ("--provider", made.id, "--endpoint", made.endpoints[0].id)

    def close(self) -> None:
        """End everything."""
        self.fleet.close()

    def restart(self) -> None:
        """End the service that runs the agent, and start it again."""
        self.service.stop()
        self.cast.before_reload(self.home)
        if self.place == "local":
            port = self.service.port
            self.service = self._controller = self.fleet.controller(
                port=port, environment=self._variables()
            )
        else:
            self._begin_worker()

    def _begin_worker(self) -> None:
        self.service = self.fleet.worker("--no-tls", url=self._url, environment=self._variables())
        self.fleet.await_executor(self._controller, self._executor_id, 60)

    def _variables(self) -> dict[str, str]:
        return self.cast.environment(self._program, self.home, self.models.port)

    @property
    def services(self) -> tuple[Service, ...]:
        """The controller, and the worker where that is the place."""
        return (self._controller,) if self.place == "local" else (self._controller, self.service)

    @property
    def home(self) -> Path:
        """The agent's."""
        return self.fleet.root / "agent-home"

    @property
    def project(self) -> Path:
        """Where the agent works."""
        return self.fleet.project("project")

    # -- the model

    def control(self, path: str, body: Any = None) -> Any:
        """Ask the model server's own routes."""
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"{self.models.url}/_script/{path}", data), timeout=30) as answer:
            return json.load(answer)

    def fresh(self, fallback: Any = "ok") -> None:
        """Let the model forget what it was to say, and what it was asked."""
        script = {"fallback": fallback, "sides_take_turns": self.cast.endpoint is not None}
        request = Request(f"{self.models.url}/_script", json.dumps(script).encode())
        with urlopen(request, timeout=30):
            pass

    def asked(self) -> list[dict[str, Any]]:
        """The requests that a turn was made of, without those that agents make besides."""
        is_direct = self.cast.endpoint is not None
        return [one for one in self.control("asked") if one["tools"] or is_direct]

    def last_told(self) -> str:
        """What the model was told last."""
        return json.dumps(self.control("bodies")[-1], ensure_ascii=False)

    # -- chats

    def prompt(self, plan: Plan, words: str = "go", *, asks: bool = False) -> str:
        """Have the agent do what a plan says, and return the prompt for that."""
        if not self.cast.has_model:
            return program_of(plan, asks=asks)
        self.control("turns", [self.cast.turn(turn) for turn in plan])
        return words

    def start(self, prompt: str, *options: str) -> tuple[str, str]:
        """Begin a chat, and return its id and its turn's."""
        model = () if "--model" in options else ("--model", self.cast.model)
        return self.fleet.garcon(
            self.service,
            *("start-async", "--agent", self.cast.agent_id, *model),
            *("--cwd", str(self.project), *self._chosen, *options, prompt),
            seconds=PATIENCE,
        ).handle()

    def resume(self, chat: str, prompt: str, *options: str) -> Finished:
        """Run another turn of a chat to its end."""
        if "--model" in options:
            options = (*self._chosen, *options)
        return self.fleet.garcon(
            self.service, "resume", chat, *options, prompt, check=False, seconds=PATIENCE
        )

    def wait(self, chat: str, turn: str, seconds: float = PATIENCE) -> Finished:
        """Wait for a turn, however it ends."""
        return self.fleet.garcon(
            self.service, "wait", chat, "--turn", turn, check=False, seconds=seconds
        )

    def stop(self, chat: str) -> None:
        """Stop a chat's turn."""
        self.fleet.garcon(self.service, "stop", chat, check=False)

    def snapshot(self, chat: str) -> Any:
        """What is told of a chat."""
        return self.fleet.garcon(
            self.service, "status", chat, "--messages", "100", "--json", seconds=PATIENCE
        ).json

    def rows(self, chat: str) -> list[dict[str, Any]]:
        """A chat's transcript."""
        return [row["message"] for row in self.snapshot(chat)["transcript"]["messages"]]

    def said(self, chat: str) -> list[str]:
        """What the agent said."""
        rows = self.rows(chat)
        return [row["content"] for row in rows if row["type"] == "assistant-message"]

    def request(self, chat: str) -> dict[str, Any]:
        """Wait for a permission request."""

        def asked() -> dict[str, Any] | None:
            snapshot = self.snapshot(chat)
            rows = snapshot["transientFeed"]["rows"]
            instance = snapshot["control"]["serverInstanceId"]
            return {**rows[0], "serverInstanceId": instance} if rows else None

        found: dict[str, Any] = eventually("a permission request", asked, PATIENCE)
        return found

    def decide(self, chat: str, row: dict[str, Any], decision: str) -> None:
        """Answer it."""
        self.fleet.garcon(
            self.service,
            *("permission-decision", chat, row["permissionOccurrenceId"], decision),
            *("--run", row["runId"], "--server-instance", row["serverInstanceId"]),
        )

    # -- processes

    def agents(self) -> list[int]:
        """The processes of agents and of what they started."""
        return self.fleet.left_over()

    def rest(self) -> None:
        """End what agents have left running for their next turn, so that there is room."""
        for pid in self.agents():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended by itself
        eventually("the end of the agents", lambda: not self.agents(), PATIENCE)


def running(command: str) -> bool:
    """Whether there is a process with exactly this command line."""
    wanted = "\0".join(command.split()).encode() + b"\0"
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if Path(f"/proc/{name}/cmdline").read_bytes() == wanted:
                    return True
            except OSError:
                continue
    return False
