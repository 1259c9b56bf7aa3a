"""A pretend controller for tests of the command: proof and context are real, the rest is told."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import define, field

from garcon.cli.system import System
from garcon.local.descriptors import Descriptor, new_capability, proof, publish
from garcon.local.roots import ConfigRoot
from garcon.testing.http_double import Asked, HttpDouble, answer, refusal

if TYPE_CHECKING:
    from garcon.local.descriptors import Role

Reply = bytes | Callable[[Asked], bytes]
STARTED = 1_700_000_000_000


@define(eq=False)
class FakeController:
    """Prove itself, give a context, and answer each route from its own list of replies.

    The last reply of a route stays for later requests.  A route without any is 404.
    """

    server_instance_id: str = "5b7d1f0e-0000-4000-8000-000000000001"
    instance_id: str = "5b7d1f0e-0000-4000-8000-000000000002"
    default_executor_id: str = "local"
    workspace_name: str | None = "default"
    capability: str = field(factory=new_capability)
    replies: dict[str, list[Reply]] = field(factory=dict)
    proves: Callable[[str], dict[str, Any]] | None = None
    double: HttpDouble = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.double = HttpDouble(self._respond)

    def on(self, key: str, *replies: Reply) -> None:
        """Answer ``METHOD /path`` (below ``/api/v1``) with these, in turn."""
        self.replies[key] = list(replies)

    def asked(self, key: str) -> list[Asked]:
        """Return the requests of one route so far."""
        return [a for a in self.double.asked if _key(a) == key]

    def publish(self, root: ConfigRoot, role: Role = "controller", started: int = STARTED) -> None:
        """Publish the descriptor that leads here."""
        descriptor = Descriptor(
            role=role,
            instance_id=self.instance_id,
            started_at=started,
            pid=os.getpid(),
            base_url=self.double.url,
            local_capability=self.capability,
            workspace_dir=root.path if role == "controller" else None,
        )
        publish(root.descriptor(role), descriptor)

    def context(self) -> dict[str, Any]:
        return {
            "serverInstanceId": self.server_instance_id,
            "defaultExecutorId": self.default_executor_id,
            "workspaceName": self.workspace_name,
        }

    def _respond(self, asked: Asked) -> bytes:
        key = _key(asked)
        listed = self.replies.get(key)
        if listed:
            reply = listed.pop(0) if len(listed) > 1 else listed[0]
            return reply if isinstance(reply, bytes) else reply(asked)
        if key == "GET /runtime":
            return answer(self._proof(asked.query["challenge"]))
        if asked.headers.get("authorization") != f"Bearer {self.capability}":
            return refusal(401, "VALIDATION_FAILED", "who are you?")
        if key == "GET /cli/context":
            return answer(self.context())
        return refusal(404, "SESSION_NOT_FOUND", f"nothing is told for {key}")

    def _proof(self, challenge: str) -> dict[str, Any]:
        if self.proves is not None:
            return self.proves(challenge)
        said = proof(self.capability, self.instance_id, challenge)
        return {"schemaVersion": 1, "instanceId": self.instance_id, "proof": said}


def _key(asked: Asked) -> str:
    return f"{asked.method} {asked.path.removeprefix('/api/v1')}"


@define(eq=False)
class FakeMachine:
    """A machine whose time passes only by sleeping, and whose streams are kept."""

    environ: dict[str, str] = field(factory=dict)
    stdin: bytes = b""
    slept: list[float] = field(factory=list)
    out: io.BytesIO = field(factory=io.BytesIO)
    err: io.BytesIO = field(factory=io.BytesIO)
    on_sleep: Callable[[], None] | None = None
    password: str | None = None
    """What is typed at a terminal; None where there is no terminal."""
    prompts: list[str] = field(factory=list)
    _now: float = 1_000.0

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._now += seconds
        if self.on_sleep is not None:
            self.on_sleep()

    def system(self) -> System:
        """Return what a command gets; chance always gives the middle."""
        counter = iter(range(1, 1_000_000))

        def random(length: int) -> bytes:
            # Jitter asks for two bytes: the middle of their range leaves delays as they are.
            if length == 2:
                return b"\x80\x00"
            return next(counter).to_bytes(length, "big")

        return System(
            environ=self.environ,
            stdin=io.BytesIO(self.stdin),
            stdout=self.out,
            stderr=self.err,
            clock=lambda: self._now,
            now=lambda: 1_753_000_000.0 + self._now,
            sleep=self.sleep,
            random=random,
            secret=self._secret,
        )

    def _secret(self, prompt: str) -> str | None:
        self.prompts.append(prompt)
        return self.password

    def stdout(self) -> str:
        return self.out.getvalue().decode()

    def stderr(self) -> str:
        return self.err.getvalue().decode()
