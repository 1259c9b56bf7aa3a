"""The cast of the live tests with the real Codex: a runtime, calls of its shell, and what runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from garcon.contract.runs import NativeRow, NativeSession, UnknownEvent
from garcon.runtime.executor import LocalRuntime
from garcon.testing.agent_runs import RecordingSink
from garcon.testing.codex_cli import MODEL
from garcon.testing.local_runtimes import CodexRuntimeCase
from garcon.testing.models.script import (
    Call,
)

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def runs_command(text: str, **more: Any) -> Call:
    """Return a call of the shell."""
    return Call("exec_command", {"cmd": text, "yield_time_ms": 60_000, **more})


def escalated(text: str) -> Call:
    """Return a call of the shell that needs permission."""
    return runs_command(
        text, sandbox_permissions="require_escalated", justification="it has to be so"
    )


def running(command: str) -> list[int]:
    """Return the processes with exactly this command line, whatever their namespace."""
    wanted = "\0".join(command.split()).encode() + b"\0"
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if line == wanted:
                found.append(int(name))
    return found


def running_in(home: Path) -> list[int]:
    """Return the processes that have this home."""
    wanted = f"CODEX_HOME={home}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if wanted in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found.append(int(name))
            except OSError:
                continue
    return found


class CodexCase(CodexRuntimeCase):
    """Whatever a test is about, nothing that this version of Codex says may be unknown."""

    def setUp(self) -> None:
        super().setUp()
        self.codex: LocalRuntime = self.a_runtime()
        self._sinks: list[RecordingSink] = []
        self.addCleanup(self._check)

    def _check(self) -> None:
        for sink in self._sinks:
            self.assertEqual(sink.of(UnknownEvent), [])

    async def go(self, prompt: str, **changes: Any) -> tuple[str, RecordingSink]:
        """Begin a turn of Codex and return its run id and what it says."""
        usual = {"agent_id": "codex", "model": MODEL}
        launch, sink = await self.begin(self.codex, prompt, **(usual | changes))
        self._sinks.append(sink)
        return launch.run_id, sink

    async def whole(self, prompt: str, **changes: Any) -> RecordingSink:
        """Run a whole turn."""
        _, sink = await self.go(prompt, **changes)
        await sink.ended(60.0)
        return sink

    async def remembered(self, session_id: str) -> list[NativeRow]:
        """Read a session's history."""
        found: list[NativeRow] = []

        def take(rows: Any) -> Deferred[None]:
            found.extend(rows)
            return deferLater(cast(Any, reactor), 0)

        session = NativeSession("codex", session_id, str(self.project))
        await self.codex.read_history(session, take)
        return found

    @property
    def asked(self) -> dict[str, Any]:
        """What the model was asked last."""
        return self.script.asked[-1].body

    def agent_pid(self) -> int:
        """The process of the one session that there is."""
        (slot,) = self.codex._sessions._slots.values()
        pid = cast(Any, slot.session).process_id
        assert isinstance(pid, int)
        return pid
