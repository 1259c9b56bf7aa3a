"""An agent that does what its prompt says: a real child process that speaks the Agent Client
Protocol.

    python -m garcon.testing.scripted_agent

A prompt whose lines are all commands is run as a program; any other is answered by ``You said: ``
and the prompt.

    say TEXT        say it
    ask COMMAND     ask for permission, then run it
    run COMMAND     run it, by /bin/sh in the session's directory
    sleep SECONDS   do nothing
    emit N          say N short messages
    fail TEXT       end the turn with an error
    exit STATUS     end the process

Input that is steered into a turn is taken up at the turn's end, as a prompt would be.

``SCRIPTED_AGENT_SESSION`` names its new sessions, so that several machines can have the same name.

Only the standard library, and little of it: a turn must not wait for imports.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

OUTPUT_LIMIT = 64 * 1024 * 1024
DRAIN = 0.2
"""How long output is read on after a command ended: what it left running may hold the pipe open."""

_COMMAND = re.compile(r"(say|ask|run|sleep|emit|fail|exit) +(\S.*)")
_SHAPES = {
    "sleep": re.compile(r"\d+(\.\d+)?"),
    "emit": re.compile(r"\d{1,7}"),
    "exit": re.compile(r"\d{1,3}"),
}


class Cancelled(Exception):
    """The client cancelled the turn."""


class Failed(Exception):
    """The program wants its turn to fail."""


def parse(prompt: str) -> list[tuple[str, str]] | None:
    """Return the commands of a program, or None for a prompt that is none."""
    program = []
    for line in filter(None, map(str.strip, prompt.splitlines())):
        found = _COMMAND.fullmatch(line)
        if found is None:
            return None
        name, argument = found.groups()
        shape = _SHAPES.get(name)
        if shape is not None and shape.fullmatch(argument) is None:
            return None
        program.append((name, argument))
    return program or None


class Wire:
    """JSON-RPC over two pipes; any thread may write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._output = sys.stdout.buffer

    def send(self, message: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n"
        with self._lock:
            try:
                self._output.write(data)
                self._output.flush()
            except OSError:
                os._exit(1)  # nobody reads any more


class Session:
    """One conversation and the turn that runs in it."""

    def __init__(self, wire: Wire, session_id: str, directory: str, request: Requests) -> None:
        self._wire = wire
        self._id = session_id
        self._directory = directory
        self._request = request
        self._cancelled = threading.Event()
        self._command: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._counter = 0
        self._takes_more = False
        self._steered: list[str] = []

    # -- from the reading thread

    def prompt(self, prompt_id: Any, text: str) -> None:
        """Run a turn in a thread of its own."""
        self._cancelled.clear()
        with self._lock:
            self._takes_more = True
            self._steered.clear()
        threading.Thread(target=self._turn, args=(prompt_id, text), daemon=True).start()

    def steer(self, text: str) -> str:
        """Take further input for the turn that runs; returns what became of it."""
        with self._lock:
            if not self._takes_more or self._cancelled.is_set():
                return "turn-unavailable"
            self._steered.append(text)
            return "delivered"

    def cancel(self) -> None:
        """End the turn at once, and the command it runs."""
        with self._lock:
            self._cancelled.set()
            self.kill_command()
        self._request.abandon()

    def kill_command(self) -> None:
        command = self._command
        if command is not None and command.poll() is None:
            try:
                os.killpg(command.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it ended meanwhile

    # -- the turn

    def _turn(self, prompt_id: Any, text: str) -> None:
        try:
            more: str | None = text
            while more is not None:
                self._do(more)
                more = self._next()
            answer: dict[str, Any] = {"result": {"stopReason": "end_turn"}}
        except Cancelled:
            answer = {"result": {"stopReason": "cancelled"}}
        except Failed as failure:
            answer = {"error": {"code": -32000, "message": str(failure)}}
        except Exception as error:
            answer = {"error": {"code": -32603, "message": f"Internal error: {error!r}"}}
        with self._lock:
            self._takes_more = False
        self._wire.send({"id": prompt_id, **answer})

    def _do(self, text: str) -> None:
        program = parse(text)
        if program is None:
            self._say(f"You said: {text}")
            return
        for name, argument in program:
            self._check()
            getattr(self, f"_do_{name}")(argument)

    def _next(self) -> str | None:
        """Return what was steered meanwhile; after None nothing more is taken."""
        self._check()
        with self._lock:
            self._takes_more = bool(self._steered)
            return self._steered.pop(0) if self._steered else None

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled

    def _update(self, update: dict[str, Any]) -> None:
        self._wire.send(
            {"method": "session/update", "params": {"sessionId": self._id, "update": update}}
        )

    def _chunk(self, text: str, message_id: str) -> None:
        self._update(
            {
                "sessionUpdate": "agent_message_chunk",
                "messageId": message_id,
                "content": {"type": "text", "text": text},
            }
        )

    def _fresh(self, kind: str) -> str:
        self._counter += 1
        return f"{kind}-{self._counter}"

    def _say(self, text: str) -> None:
        """Say one whole message; the empty beginning of the next one tells the client that it is
        whole.
        """
        self._chunk(text, self._fresh("message"))
        self._chunk("", self._fresh("message"))

    def _do_say(self, text: str) -> None:
        self._say(text)

    def _do_emit(self, count: str) -> None:
        for number in range(1, int(count) + 1):
            self._check()
            self._chunk(f"row {number}", self._fresh("message"))
        self._chunk("", self._fresh("message"))

    def _do_sleep(self, seconds: str) -> None:
        if self._cancelled.wait(float(seconds)):
            raise Cancelled

    def _do_fail(self, text: str) -> None:
        raise Failed(text)

    def _do_exit(self, status: str) -> None:
        os._exit(int(status))

    def _do_run(self, command: str) -> None:
        self._run(self._describe(command), command)

    def _do_ask(self, command: str) -> None:
        call_id = self._describe(command)
        outcome = self._request.ask(
            "session/request_permission",
            {
                "sessionId": self._id,
                "toolCall": {"toolCallId": call_id, "title": f"`{command}`"},
                "options": [
                    {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
                    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
                    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
                ],
            },
        ).get("outcome", {})
        self._check()
        if outcome.get("optionId") in ("allow", "always"):
            self._run(call_id, command)
        else:
            self._call_over(call_id, "failed", "Permission was denied.", None)

    def _describe(self, command: str) -> str:
        call_id = f"call-{os.urandom(6).hex()}"
        self._update(
            {
                "sessionUpdate": "tool_call",
                "toolCallId": call_id,
                "title": f"`{command}`",
                "kind": "execute",
                "status": "pending",
                "rawInput": {"command": command},
            }
        )
        return call_id

    def _run(self, call_id: str, command: str) -> None:
        self._update(
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": call_id,
                "status": "in_progress",
            }
        )
        with self._lock:
            self._check()
            process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._command = process
        output: list[bytes] = []
        reader = threading.Thread(target=_read, args=(process, output), daemon=True)
        reader.start()
        status = process.wait()
        reader.join(DRAIN)
        with self._lock:
            self._command = None
        self._check()
        text = b"".join(output).decode("utf-8", "replace")
        self._call_over(
            call_id, "completed" if status == 0 else "failed", text, {"exitCode": status}
        )

    def _call_over(
        self, call_id: str, status: str, text: str, output: dict[str, Any] | None
    ) -> None:
        self._update(
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": call_id,
                "status": status,
                "content": [{"type": "content", "content": {"type": "text", "text": text}}],
                **({"rawOutput": output} if output is not None else {}),
            }
        )


def _read(process: subprocess.Popen[bytes], output: list[bytes]) -> None:
    """Collect a command's output, up to the limit; what is beyond it is read and dropped."""
    assert process.stdout is not None
    size = 0
    while piece := os.read(process.stdout.fileno(), 65536):
        if size < OUTPUT_LIMIT:
            output.append(piece)
            size += len(piece)


class Requests:
    """Our own requests to the client, one at a time."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._next = 0
        self._answered = threading.Event()
        self._result: dict[str, Any] = {}

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._next += 1
        self._result = {}
        self._answered.clear()
        self._wire.send({"id": self._next, "method": method, "params": params})
        self._answered.wait()
        return self._result

    def answered(self, message: dict[str, Any]) -> None:
        if message.get("id") == self._next:
            result = message.get("result")
            self._result = result if isinstance(result, dict) else {}
            self._answered.set()

    def abandon(self) -> None:
        self._answered.set()


class Agent:
    """The protocol's agent side: requests in, turns out."""

    def __init__(self) -> None:
        self._wire = Wire()
        self._requests = Requests(self._wire)
        self._sessions: dict[str, Session] = {}
        self._methods: dict[str, Callable[[Any, dict[str, Any]], dict[str, Any] | None]] = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/load": self._load,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "_garcon/steer": self._steer,
        }

    def serve(self) -> None:
        """Take messages until the input ends; then nothing of ours goes on."""
        for line in sys.stdin.buffer:
            try:
                message = json.loads(line)
            except ValueError:
                print("a line that is not JSON", file=sys.stderr, flush=True)
                continue
            if isinstance(message, dict):
                self._received(message)
        self.kill_commands()

    def kill_commands(self) -> None:
        for session in self._sessions.values():
            session.kill_command()

    def _received(self, message: dict[str, Any]) -> None:
        name, request_id = message.get("method"), message.get("id")
        if name is None:
            self._requests.answered(message)
            return
        method = self._methods.get(name)
        if method is None:
            if request_id is not None:
                error = {"code": -32601, "message": "Method not found"}
                self._wire.send({"id": request_id, "error": error})
            return
        result = method(request_id, message.get("params") or {})
        if result is not None and request_id is not None:
            self._wire.send({"id": request_id, "result": result})

    def _initialize(self, request_id: Any, params: dict[str, Any]) -> dict[str, Any]:
        return {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": False},
                "_meta": {"garcon": {"steer": True}},
            },
            "agentInfo": {"name": "scripted", "title": "Scripted", "version": "1"},
        }

    def _open(self, session_id: str, params: dict[str, Any]) -> None:
        directory = str(params.get("cwd") or os.getcwd())
        self._sessions[session_id] = Session(self._wire, session_id, directory, self._requests)

    def _new(self, request_id: Any, params: dict[str, Any]) -> dict[str, Any]:
        session_id = os.environ.get("SCRIPTED_AGENT_SESSION") or os.urandom(16).hex()
        self._open(session_id, params)
        return {"sessionId": session_id}

    def _load(self, request_id: Any, params: dict[str, Any]) -> dict[str, Any]:
        self._open(str(params.get("sessionId")), params)
        return {}

    def _prompt(self, request_id: Any, params: dict[str, Any]) -> None:
        session = self._sessions.get(str(params.get("sessionId")))
        if session is None:
            error = {"code": -32602, "message": "Unknown session"}
            self._wire.send({"id": request_id, "error": error})
            return
        session.prompt(request_id, _text(params))

    def _steer(self, request_id: Any, params: dict[str, Any]) -> dict[str, Any]:
        session = self._sessions.get(str(params.get("sessionId")))
        outcome = "turn-unavailable" if session is None else session.steer(_text(params))
        return {"outcome": outcome}

    def _cancel(self, request_id: Any, params: dict[str, Any]) -> None:
        session = self._sessions.get(str(params.get("sessionId")))
        if session is not None:
            session.cancel()


def _text(params: dict[str, Any]) -> str:
    """Return what is to be done; what stands before it tells of a conversation elsewhere."""
    parts = [part for part in params.get("prompt") or [] if isinstance(part, dict)]
    texts = [str(part["text"]) for part in parts if "text" in part]
    return texts[-1] if texts else ""


def main() -> None:
    """Serve until the input ends or a signal says so."""
    agent = Agent()

    def end(number: int, frame: object) -> None:
        agent.kill_commands()
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    agent.serve()
    os._exit(0)


if __name__ == "__main__":
    main()
