"""A controller, workers and commands as real processes in one temporary folder, always cleaned up.

Everything here blocks: it drives other processes and shares no reactor with them.  Used by the live
tests, the benches and the demo.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any
from urllib.parse import urlsplit
from uuid import uuid4

from attrs import define, frozen

import garcon

READY = re.compile(r"Started at (https?://\S+)")
MARK = "FLEET_MARK"
"""A variable that every process of a fleet inherits, so that the fleet finds what they left."""

READY_TIME = 20.0
STOP_TIME = 15.0
COMMAND_TIME = 60.0


@frozen
class Finished:
    """A command that has ended."""

    argv: tuple[str, ...]
    status: int
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)

    def handle(self) -> tuple[str, str]:
        """Return the chat id and the turn id that a start or resume printed first."""
        found = re.search(r"^chat id: (\S+)\nturn id: (\S+)$", self.out, re.MULTILINE)
        if found is None:
            raise AssertionError(str(self))
        return found[1], found[2]

    def __str__(self) -> str:
        shown = " ".join(self.argv)
        return f"$ {shown}\nstatus {self.status}\n{self.out}{self.err}"


def expect(good: object, text: str) -> None:
    """Fail with `text` unless `good` is true; unlike ``assert`` also under ``python -O``."""
    if not good:
        raise AssertionError(text)


class Output:
    """The lines that a process prints, kept while it runs; safe to ask from another thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._open = 0

    def follow(self, stream: IO[str]) -> threading.Thread:
        """Read a stream to its end in a thread of its own."""
        with self._changed:
            self._open += 1
        thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        thread.start()
        return thread

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                with self._changed:
                    self._lines.append(line.rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._open -= 1
            self._changed.notify_all()

    def text(self) -> str:
        """Everything printed so far."""
        with self._changed:
            return "\n".join(self._lines)

    def wait_for(self, pattern: re.Pattern[str], seconds: float) -> re.Match[str] | None:
        """Return the first match in any line; None when the stream or the time ends without it."""
        deadline = time.monotonic() + seconds
        with self._changed:
            at = 0
            while True:
                for line in self._lines[at:]:
                    if found := pattern.search(line):
                        return found
                at = len(self._lines)
                left = deadline - time.monotonic()
                if left <= 0 or self._open == 0:
                    return None
                self._changed.wait(left)


@define(eq=False)
class Service:
    """One controller or worker process.  `url` is its ready line's, `output` both its streams."""

    name: str
    config: Path
    process: subprocess.Popen[str]
    output: Output
    url: str = ""

    @property
    def port(self) -> int:
        """The port of its ready line."""
        port = urlsplit(self.url).port
        if port is None:
            raise AssertionError(f"{self.name} has no port: {self.url!r}")
        return port

    @property
    def runtime(self) -> str:
        """The role by which a command selects this service."""
        return "executor" if "worker" in self.name else "controller"

    def stop(self, seconds: float = STOP_TIME) -> int:
        """Ask it to end; return its exit status.  Killed, as a failure, when it takes too long."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not stop:\n{self.output.text()}") from None

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOP_TIME)

    def descriptor(self) -> dict[str, Any]:
        """What the service published for commands."""
        folder = self.config / "executor" if self.runtime == "executor" else self.config
        found: dict[str, Any] = json.loads((folder / "runtime.json").read_text())
        return found


def free_port() -> int:
    """Return a loopback port that nothing listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def eventually(
    what: str, question: Callable[[], Any], seconds: float = 20.0, every: float = 0.05
) -> Any:
    """Ask until the answer is true; return it, or fail by saying what never came."""
    deadline = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        expect(time.monotonic() < deadline, f"{what}: not within {seconds} s ({answer!r})")
        time.sleep(every)


def _marked(mark: str) -> list[int]:
    """The pids of processes whose environment carries a mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


class Fleet:
    """Owns a folder and every process started in it; leaving the ``with`` block ends them all."""

    def __init__(self, *, scripted: bool = True) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="garcon-fleet-")).resolve()
        self.projects = self.root / "projects"
        self.binaries = self.root / "bin"
        self.services: list[Service] = []
        self._scripted = scripted
        self._mark = uuid4().hex
        for folder in (self.projects, self.binaries, self.root / "home", self.root / "tmp"):
            folder.mkdir()
        self._write_command()

    def _write_command(self) -> None:
        command = self.binaries / "garcon"
        command.write_text(
            f"#!/bin/sh\nPYTHONPATH='{Path(garcon.__file__).parents[1]}' "
            f"exec '{sys.executable}' -m garcon.cli.main \"$@\"\n"
        )
        command.chmod(0o755)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(self.logs())
        self.close()

    def logs(self) -> str:
        """What every service printed, for a person who looks into a failure."""
        return "\n".join(
            f"--- {service.name} (pid {service.process.pid}, status {service.process.poll()})\n"
            f"{service.output.text()}"
            for service in self.services
        )

    def close(self) -> None:
        """End everything that still runs and remove the folder."""
        for service in self.services:
            if service.process.poll() is None:
                service.process.terminate()
        for service in self.services:
            try:
                service.process.wait(STOP_TIME)
            except subprocess.TimeoutExpired:
                service.kill()
        for pid in _marked(self._mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it ended between the look and the signal
        shutil.rmtree(self.root, ignore_errors=True)

    def left_over(self) -> list[int]:
        """The pids of this fleet's processes that are not one of its running services."""
        ours = {service.process.pid for service in self.services if service.process.poll() is None}
        return [pid for pid in _marked(self._mark) if pid not in ours]

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """What every process of the fleet gets: nothing of the caller's but its Python."""
        return {
            "HOME": str(self.root / "home"),
            "LANG": "C.UTF-8",
            "PATH": f"{self.binaries}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": str(Path(garcon.__file__).parents[1]),
            "TMPDIR": str(self.root / "tmp"),
            MARK: self._mark,
            **(more or {}),
        }

    def project(self, name: str) -> Path:
        """Return a project directory, made when it is missing."""
        folder = self.projects / name
        folder.mkdir(exist_ok=True)
        return folder

    def start(
        self,
        name: str,
        config: Path,
        argv: Sequence[str],
        environment: Mapping[str, str] | None = None,
    ) -> Service:
        """Start any process as a service, without waiting for its ready line."""
        process = subprocess.Popen(
            argv,
            cwd=self.root,
            env=self.environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
        )
        output = Output()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            output.follow(stream)
        service = Service(name, config, process, output)
        self.services.append(service)
        return service

    def await_ready(self, service: Service, pattern: re.Pattern[str] = READY) -> Service:
        """Wait for a service's ready line."""
        found = service.output.wait_for(pattern, READY_TIME)
        if found is None:
            raise AssertionError(f"{service.name} is not ready:\n{service.output.text()}")
        service.url = found[1] if found.groups() else ""
        return service

    def controller(
        self,
        *options: str,
        config: Path | None = None,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> Service:
        """Start a controller with a workspace of its own below its config root."""
        config = config or self.root / "controller"
        argv = [
            *(sys.executable, "-m", "garcon.cli.main", "controller"),
            *("--port", str(port), "--bind-address", "127.0.0.1", "--disable-auth"),
            *("--config-dir", str(config), "--project-base-dir", str(self.projects)),
            *(("--enable-scripted-agent",) if self._scripted else ()),
            *options,
        ]
        service = self.start("controller", config, argv, environment)
        return self.await_ready(service) if wait else service

    def worker(
        self,
        *options: str,
        url: str | None = None,
        name: str = "worker",
        environment: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> Service:
        """Start a worker: dialling `url`, or as its options say."""
        config = self.root / name
        argv = [
            *(sys.executable, "-m", "garcon.cli.main", "worker"),
            *("--config-dir", str(config), "--project-base-dir", str(self.projects)),
            *(("--enable-scripted-agent",) if self._scripted else ()),
            *options,
        ]
        secret = {"GARCON_CONTROLLER_URL": url} if url else {}
        service = self.start(name, config, argv, {**secret, **(environment or {})})
        return self.await_ready(service) if wait else service

    def model_server(self, script: Path, *options: str) -> Service:
        """Start a pretend model server that plays a script; `url` is where agents find it."""
        argv = [sys.executable, "-m", "garcon.testing.models", "--port", "0"]
        service = self.start("models", self.root, [*argv, "--script", str(script), *options])
        self.await_ready(service, re.compile(r'"port": (\d+)'))
        service.url = f"http://127.0.0.1:{service.url}"
        return service

    def proxy(self, target: int, prefix: str, certificate: Path, key: Path) -> Service:
        """Start a proxy that ends TLS and takes a prefix off the path; it is ready."""
        argv = [
            *(sys.executable, "-m", "garcon.testing.proxy", "--target", str(target)),
            *("--tls-cert", str(certificate), "--tls-private-key", str(key), "--prefix", prefix),
        ]
        service = self.start("proxy", self.root, argv)
        return self.await_ready(service, re.compile(r"Listening at (https://\S+)"))

    def garcon(
        self,
        service: Service,
        *arguments: str,
        stdin: str | None = None,
        check: bool = True,
        seconds: float = COMMAND_TIME,
        environment: Mapping[str, str] | None = None,
    ) -> Finished:
        """Run the command as a shell beside a service would; with `check` it must exit 0."""
        began = time.monotonic()
        process = self.begin(service, *arguments, stdin=stdin, environment=environment)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"garcon {arguments} hangs:\n{out}{err}") from None
        took = time.monotonic() - began
        done = Finished(("garcon", *arguments), process.returncode, out, err, took)
        expect(not check or done.status == 0, str(done))
        return done

    def begin(
        self,
        service: Service,
        *arguments: str,
        stdin: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start the command beside a service and leave it running."""
        selection = {
            "GARCON_CONFIG_DIR": str(service.config),
            "GARCON_RUNTIME": service.runtime,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "garcon.cli.main", *arguments],
            cwd=self.projects,
            env=self.environment({**selection, **(environment or {})}),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
        )
        if stdin is not None:
            assert process.stdin is not None
            try:
                with process.stdin as pipe:
                    pipe.write(stdin)
            except BrokenPipeError:
                pass  # it ended without reading; its status will say why
            process.stdin = None
        return process

    def executor(self, controller: Service, *options: str, grant: bool = True) -> str:
        """Create an executor by the command, by default with CLI access; return its id."""
        access = ("--allow-controller-cli", "true" if grant else "false")
        made = self.garcon(controller, "executor", "create", *access, *options, "--json")
        executor_id: str = made.json["id"]
        return executor_id

    def pair(
        self,
        *,
        grant: bool = True,
        label: str = "worker",
        environment: Mapping[str, str] | None = None,
    ) -> tuple[Service, Service, str]:
        """Start a controller and a worker that dials it over plain loopback; both are ready.

        `environment` is the worker's.
        """
        controller = self.controller()
        executor_id = self.executor(
            controller,
            *("--label", label, "--direction", "executor-connects", "--no-tls", "true"),
            grant=grant,
        )
        url = self.garcon(controller, "executor", "connection", executor_id).out.strip()
        worker = self.worker("--no-tls", url=url, environment=environment)
        self.await_executor(controller, executor_id)
        return controller, worker, executor_id

    def await_executor(self, controller: Service, executor_id: str, seconds: int = 20) -> None:
        """Wait, by the command, until an executor is ready."""
        self.garcon(
            controller, "executor", "wait", executor_id, "--ready", "--timeout", str(seconds)
        )
