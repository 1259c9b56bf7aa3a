"""The cast of a matrix: a controller, its worker and a pretend model server, and two doors to ask.

A case may name what has to be there before it is asked; everything of that is prepared through the
controller's own HTTP, for each door anew.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from attrs import define, field

from garcon.contract import operations, routes
from garcon.contract.limits import BRIDGE_BULK_REPLY, BRIDGE_PRIMARY
from garcon.runtime.agents import tree
from garcon.runtime.marks import Marks
from garcon.testing.fleet import Fleet, Service, eventually, expect
from garcon.testing.matrix.cases import filled
from garcon.testing.strict_client import StrictClient

AGENT = "direct-openai-compatible"
_FRESH = "new "


@define(eq=False)
class Door:
    """One endpoint: `client` asks it, and commands run beside `service`."""

    name: str
    client: StrictClient
    service: Service
    names: dict[str, str] = field(factory=dict)
    """What the names in cases stand for at this door; those of one case are put on top."""

    @property
    def selectors(self) -> str:
        """How a follow-up command names the endpoint that was asked."""
        return f"--config-dir {self.service.config} --runtime {self.service.runtime}"


@define(eq=False)
class Scene:
    """One case at one door: what its names stand for."""

    door: Door
    shared: dict[str, str]
    fresh: dict[str, str] = field(factory=dict)
    """What was made for this case alone."""
    _makes: Callable[[str], str] = str
    _of_door: bool = False

    def value_of(self, name: str) -> str:
        """Return a name's value; what begins with ``new`` is made when it is first asked for."""
        if name in self.fresh:
            return self.fresh[name]
        if name in self.door.names:
            self._of_door = True
            return self.door.names[name]
        if name in self.shared:
            return self.shared[name]
        expect(name.startswith(_FRESH), f"nothing is called {name!r} here")
        self.fresh[name] = self._makes(name)
        return self.fresh[name]

    def fill(self, template: Any) -> Any:
        """Fill a template in."""
        return filled(template, self.value_of)

    def named(self) -> dict[str, str]:
        """Return what stands in the answer for what the other door's stands for there: what is
        the same for both doors needs no name.
        """
        own = self.door.names if self._of_door else {}
        return {**own, **self.fresh, "selectors": self.door.selectors}


class Stage:
    """Owns the processes; leave the ``with`` block of its fleet to end them."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.controller, self.worker, self.own = fleet.pair()
        own, gateway = self.controller.descriptor(), self.worker.descriptor()
        self.instance: str = own["instanceId"]
        self.direct = StrictClient(own["baseUrl"], own["localCapability"], self.instance)
        through = StrictClient(gateway["baseUrl"], gateway["localCapability"], self.instance)
        self.doors = (
            Door("direct", self.direct, self.controller),
            Door("gateway", through, self.worker),
        )
        self._shared = {
            "own": self.own,
            "instance": self.instance,
            "project": str(fleet.project("project")),
            "outside": str(fleet.root),
        }
        self._left: dict[str, subprocess.Popen[bytes]] = {}
        self._chat_number = 1_767_000_000_000_000
        self._begin()

    def _begin(self) -> None:
        self._shared["profile"] = self._profile()
        body = {"enabled": False, "title": "Greet", "content": "Be kind.", "scope": GLOBAL}
        self.direct.asked(operations.CREATE_PREAMBLE, {"expectedRevision": 0, "preamble": body})
        read: dict[str, str] = {}
        self.settled(read, "say hello\nsay world")
        self._shared |= {f"read {name}": value for name, value in read.items()}
        for door in self.doors:
            self.settled(door.names, "say one")

    def _profile(self) -> str:
        """Make a profile whose models a pretend server knows; the worker may use it."""
        argv = [*(sys.executable, "-m", "garcon.testing.models"), *("--wire", "openai-chat")]
        service = self.fleet.start("models", self.fleet.root, argv)
        self.fleet.await_ready(service, re.compile(r'"port": (\d+)'))
        body = {
            "label": "Pretend",
            "executorIds": ["local", self.own],
            "endpoint": {
                "protocol": "openai-compatible",
                "baseUrl": f"http://127.0.0.1:{service.url}/v1",
                "apiKey": "sk-of-the-matrix",
                "defaultModel": "scripted",
            },
        }
        made = self.direct.asked(operations.CREATE_PROVIDER, body)
        return str(made.id)

    def grant_management(self) -> None:
        """Let the worker's account manage executors from now on."""
        self.change(self.own, allowExecutorManagement=True)

    def change(self, executor_id: str, **changes: Any) -> None:
        """Patch an executor."""
        target = routes.UPDATE_EXECUTOR.path.replace(":executorId", executor_id)
        said = self.direct.send("PATCH", target, json.dumps(changes).encode())
        expect(said.status == 200, str(said))

    def scene(self, door: Door, before: tuple[str, ...]) -> Scene:
        """Prepare what a case needs at one door."""
        fresh: dict[str, str] = {}
        for what in before:
            PREPARATIONS[what](self, fresh)
        return Scene(door, self._shared, fresh, self._new)

    def end(self, scene: Scene) -> None:
        """Take away what later answers would show of a scene, or what would go on for long."""
        left = self._left.pop(scene.fresh.get("process", ""), None)
        if left is not None:
            left.kill()
            left.wait()
        executor, chat = scene.fresh.get("executor"), scene.fresh.get("chat")
        if executor is not None:
            target = routes.DELETE_EXECUTOR.path.replace(":executorId", executor)
            self.direct.send("DELETE", target)
        if chat is not None:
            stop = {"clientRequestId": str(uuid4()), "chatId": chat}
            self.direct.ask(operations.STOP_CHAT, stop)

    def _new(self, name: str) -> str:
        return self.new_chat() if name.endswith("chat") else str(uuid4())

    def new_chat(self) -> str:
        """Return a chat id that nobody has used."""
        self._chat_number += 1
        return str(self._chat_number)

    # What a case may need before it is asked

    def running(self, names: dict[str, str], prompt: str, **more: Any) -> str:
        """Start a chat on the worker; names its chat, turn and view."""
        wish: dict[str, Any] = {"chatId": self.new_chat(), **more}
        body = self.direct.start_body(self.own, self._shared["project"], prompt, **wish)
        accepted = self.direct.start(body)
        chat = names["chat"] = accepted.chat_id
        names["turn"] = str(accepted.turn_id)
        names["view"] = self.direct.messages(chat).transcript_view_id
        names["epoch"] = self.direct.snapshot(chat).chat.agent_ownership_epoch
        return chat

    def settled(self, names: dict[str, str], prompt: str, **more: Any) -> None:
        """Start a chat whose turn ends."""
        chat = self.running(names, prompt, **more)
        self.direct.settled(chat, names["turn"])
        details = self.direct.asked(operations.CHAT_DETAILS, query={"chatId": chat})
        names["session"] = str(details.agent_session_id)

    def busy(self, names: dict[str, str]) -> None:
        """Start a chat whose agent has begun to sleep."""
        chat = self.running(names, "say awake\nsleep 60")

        def awake() -> bool:
            return "awake" in str(self.direct.messages(chat).messages[-1])

        eventually("the beginning of a turn", awake)

    def question(self, names: dict[str, str]) -> None:
        """Start a chat whose agent asks for permission."""
        chat = self.running(names, "ask true")
        control = self.direct.permission(chat)
        names["run"], names["occurrence"] = control["runId"], control["permissionOccurrenceId"]

    def executor(self, names: dict[str, str], **more: Any) -> None:
        """Register a worker that nobody has started."""
        label = names["label"] = f"spare {uuid4()}"
        body = {"label": label, "direction": "executor-connects", **more}
        names["executor"] = str(self.direct.asked(operations.CREATE_EXECUTOR, body).id)

    def disabled(self, names: dict[str, str]) -> None:
        """Register a worker that may not connect."""
        self.executor(names, advertisedUrl=ADDRESS)
        self.change(names["executor"], enabled=False)

    def assigned(self, names: dict[str, str], *, wanted: bool) -> None:
        """Let the worker use the profile, or no more."""
        operation = operations.ASSIGN_PROVIDER if wanted else operations.UNASSIGN_PROVIDER
        query = {"executorId": self.own, "apiProviderId": self._shared["profile"]}
        self.direct.asked(operation, None, query)

    def leftover(self, names: dict[str, str]) -> None:
        """Have a process run that carries the mark of an earlier one of the worker's."""
        marks = Marks.of("executor", str(self.worker.config))
        environment = marks.put_into(self.fleet.environment({}))
        process = subprocess.Popen(["sleep", "600"], env=environment)
        self._left[str(process.pid)] = process
        seen = tree.look(process.pid)
        assert seen is not None
        names["process"], names["begun"] = str(process.pid), str(seen.process.started)


GLOBAL = {"type": "global"}
ADDRESS = "wss://controller.example/executor/{executorId}"

PREPARATIONS: dict[str, Callable[[Stage, dict[str, str]], None]] = {
    "a settled chat": lambda stage, names: stage.settled(names, "say one"),
    "a busy chat": Stage.busy,
    "a question": Stage.question,
    "a failed chat": lambda stage, names: stage.settled(names, "say no\nfail it is broken"),
    "a long answer": lambda stage, names: stage.settled(names, _lines(BRIDGE_PRIMARY)),
    "a huge chat": lambda stage, names: stage.settled(names, _lines(BRIDGE_BULK_REPLY // 2)),
    "an executor": lambda stage, names: stage.executor(names, advertisedUrl=ADDRESS),
    "an executor without an address": lambda stage, names: stage.executor(names, noTls=True),
    "a disabled executor": Stage.disabled,
    "a process that is left over": Stage.leftover,
    "the profile assigned": lambda stage, names: stage.assigned(names, wanted=True),
    "the profile taken away": lambda stage, names: stage.assigned(names, wanted=False),
}
"""What a case may name in `before`, in words."""


def _lines(size: int) -> str:
    """Return a program that says about `size` bytes."""
    line = "say " + "x" * 59_996
    return "\n".join([line] * (size // len(line) + 1))
