"""A controller as a process: how it starts, what it leaves on the machine, how it ends."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from twisted.trial.unittest import SynchronousTestCase

from garcon.local.descriptors import is_capability, proof
from garcon.testing.certificates import make_authority
from garcon.testing.fleet import Fleet, Service, eventually, free_port

CHALLENGE = "c" * 43
API = "/api/v1"


class Answer:
    """What a server said."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def ask(
    url: str,
    method: str,
    path: str,
    body: Any = None,
    token: str | None = None,
    headers: dict[str, str] | None = None,
    context: ssl.SSLContext | None = None,
) -> Answer:
    """Send one request over a connection of its own."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(host, port, timeout=10, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=10)
    sent = dict(headers or {})
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
    content = None
    if body is not None:
        content = json.dumps(body).encode()
        sent["Content-Type"] = "application/json"
    try:
        connection.request(method, path, content, sent)
        return Answer(connection.getresponse())
    finally:
        connection.close()


class ControllerCase(SynchronousTestCase):
    """A fleet of controllers."""

    def setUp(self) -> None:
        self.fleet = Fleet()
        self.addCleanup(self._end)

    def _end(self) -> None:
        Path(self.mktemp()).write_text(self.fleet.logs())
        self.fleet.close()

    def start(
        self,
        *options: str,
        config: Path | None = None,
        environment: dict[str, str] | None = None,
        auth: bool = True,
        port: int = 0,
    ) -> Service:
        """Start a controller, with accounts on unless told otherwise, and wait for it."""
        return self.fleet.await_ready(
            self.launch(*options, config=config, environment=environment, auth=auth, port=port)
        )

    def launch(
        self,
        *options: str,
        config: Path | None = None,
        environment: dict[str, str] | None = None,
        auth: bool = True,
        port: int = 0,
    ) -> Service:
        """Start a controller without waiting."""
        config = config or self.fleet.root / "config"
        argv = [sys.executable, "-m", "garcon.cli.main", "controller"]
        argv += ["--port", str(port), "--config-dir", str(config)]
        argv += ["--project-base-dir", str(self.fleet.projects), "--enable-scripted-agent"]
        argv += [] if auth else ["--disable-auth"]
        return self.fleet.start("controller", config, [*argv, *options], environment)

    def refused(self, *options: str, **more: Any) -> str:
        """Start a controller that cannot start; return its one line."""
        service = self.launch(*options, **more)
        self.assertEqual(service.process.wait(20), 1, service.output.text())
        eventually("the reason", lambda: service.output.text())
        (line,) = service.output.text().splitlines()
        self.assertTrue(line.startswith("[server] Failed to start server: "), line)
        return line

    def chat(self, url: str, token: str, command: str) -> tuple[str, str]:
        """Start a scripted chat; return its id and its turn's."""
        chat_id = str(time.time_ns() // 1000)
        answer = ask(
            url,
            "POST",
            f"{API}/chats/start",
            {
                "clientRequestId": str(uuid4()),
                "clientMessageId": str(uuid4()),
                "chatId": chat_id,
                "agentId": "scripted",
                "projectPath": str(self.fleet.project("project")),
                "model": "scripted",
                "agentSettings": {"ownerId": "scripted", "schemaVersion": 1, "values": {}},
                "command": command,
            },
            token,
        )
        self.assertEqual(answer.status, 202, answer.body)
        return chat_id, answer.json["turnId"]


class StartTests(ControllerCase):
    """From nothing to the ready line."""

    def test_a_start_from_nothing(self) -> None:
        """Ready within two seconds or so, in the words of chats.md 5.20; private files; proof,
        context, API; status 0.
        """
        began = time.monotonic()
        service = self.start()
        self.assertLess(time.monotonic() - began, 10)
        lines = service.output.text().splitlines()
        self.assertEqual(lines[0], f"[server] Started at {service.url}")
        eventually("the second line", lambda: len(service.output.text().splitlines()) == 2)
        self.assertEqual(service.output.text().splitlines()[1], "[server] Authentication: ENABLED")

        descriptor = service.descriptor()
        workspace = service.config / "workspace-default"
        self.assertEqual(descriptor["schemaVersion"], 1)
        self.assertEqual(descriptor["pid"], service.process.pid)
        self.assertEqual(descriptor["baseUrl"], service.url)
        self.assertEqual(descriptor["workspaceDir"], str(workspace))
        self.assertTrue(is_capability(descriptor["localCapability"]))
        self.assertLess(abs(descriptor["startedAt"] / 1000 - time.time()), 30)
        UUID(descriptor["instanceId"])
        older = json.loads((workspace / "server-runtime.json").read_text())
        self.assertIsInstance(older.pop("startedAt"), str)
        self.assertEqual(older, {k: v for k, v in descriptor.items() if k != "startedAt"})
        for path in (service.config / "runtime.json", workspace / "server-runtime.json"):
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600, path)

        token = descriptor["localCapability"]
        found = ask(service.url, "GET", f"{API}/runtime?challenge={CHALLENGE}")
        self.assertEqual(found.json["proof"], proof(token, descriptor["instanceId"], CHALLENGE))
        context = ask(service.url, "GET", f"{API}/cli/context", token=token).json
        self.assertEqual(context["serverInstanceId"], found.json["instanceId"])
        self.assertEqual(context["workspaceName"], "default")
        self.assertEqual(ask(service.url, "GET", f"{API}/executors").status, 401)
        self.assertEqual(ask(service.url, "GET", f"{API}/executors", token=token).status, 200)
        self.assertEqual(ask(service.url, "GET", "/readyz").status, 200)
        evil = ask(service.url, "GET", "/livez", headers={"Host": "evil.example"})
        self.assertEqual(evil.status, 403)

        self.assertEqual(service.stop(), 0)
        self.assertFalse((service.config / "runtime.json").exists())
        self.assertFalse((workspace / "server-runtime.json").exists())
        self.assertNotIn(token, service.output.text())

    def test_a_bare_workspace_directory(self) -> None:
        """It has no name, and no older descriptor."""
        folder = self.fleet.root / "bare"
        service = self.start("--workspace-dir", str(folder), "--workspace", "ignored", auth=False)
        self.assertEqual(service.descriptor()["workspaceDir"], str(folder))
        context = ask(service.url, "GET", f"{API}/cli/context").json
        self.assertIsNone(context["workspaceName"])
        self.assertFalse((folder / "server-runtime.json").exists())

    def test_variables_instead_of_flags(self) -> None:
        """A flag beats its variable, an empty one is unset."""
        service = self.start(
            environment={
                "GARCON_WORKSPACE": "two",
                "GARCON_PORT": "1",
                "GARCON_DISABLE_AUTH": "yes",
                "GARCON_BIND_ADDRESS": "",
            }
        )
        self.assertEqual(urlsplit(service.url).hostname, "127.0.0.1")
        self.assertTrue(service.descriptor()["workspaceDir"].endswith("/workspace-two"))
        self.assertEqual(ask(service.url, "GET", f"{API}/executors").status, 200)

    def test_a_symbolic_workspace(self) -> None:
        """It is known by the directory it leads to."""
        config, real = self.fleet.root / "config", self.fleet.root / "real"
        config.mkdir()
        real.mkdir()
        (config / "workspace-default").symlink_to(real)
        service = self.start()
        self.assertEqual(service.descriptor()["workspaceDir"], str(real))

    def test_other_addresses(self) -> None:
        """An IPv6 loopback address is bracketed; a wildcard is shown as given and found on
        loopback.
        """
        service = self.start("--bind-address", "::1")
        self.assertTrue(service.url.startswith("http://[::1]:"), service.url)
        self.assertEqual(service.descriptor()["baseUrl"], service.url)
        self.assertEqual(ask(service.url, "GET", "/livez").status, 200)
        self.assertEqual(service.stop(), 0)
        service = self.start("--bind-address", "0.0.0.0")
        self.assertEqual(service.url, f"http://0.0.0.0:{service.port}")
        self.assertEqual(service.descriptor()["baseUrl"], f"http://127.0.0.1:{service.port}")

    def test_an_open_port_must_be_meant(self) -> None:
        """No accounts on an address that others reach needs a word more, and is warned of."""
        line = self.refused("--bind-address", "0.0.0.0", auth=False)
        self.assertIn("--allow-remote-without-auth", line)
        service = self.start("--bind-address", "0.0.0.0", "--allow-remote-without-auth", auth=False)
        eventually("a warning", lambda: "authentication is disabled" in service.output.text())

    def test_a_public_url_is_warned_of_as_an_open_port_is(self) -> None:
        """It says that a proxy lets others in, also to a port on loopback."""
        public = "--public-url", "https://garcon.example"
        service = self.start(*public)
        eventually("a warning", lambda: "there is no account yet" in service.output.text())
        self.assertEqual(service.stop(), 0)
        service = self.start(*public, auth=False)
        eventually("a warning", lambda: "authentication is disabled" in service.output.text())

    def test_a_stale_descriptor_is_replaced(self) -> None:
        """Whatever it is; an unreadable or foreign one does not block a start."""
        config = self.fleet.root / "config"
        config.mkdir()
        target = self.fleet.root / "target"
        target.write_text("kept")
        (config / "runtime.json").symlink_to(target)
        service = self.start()
        self.assertEqual(service.descriptor()["pid"], service.process.pid)
        self.assertEqual(target.read_text(), "kept")

    def test_only_our_own_descriptor_is_removed(self) -> None:
        """Another instance's stays."""
        service = self.start()
        path = service.config / "runtime.json"
        other = {**service.descriptor(), "instanceId": str(uuid4())}
        path.write_text(json.dumps(other))
        self.assertEqual(service.stop(), 0)
        self.assertEqual(json.loads(path.read_text()), other)


class RefusalTests(ControllerCase):
    """One clear line on standard error, status 1, nothing half started."""

    def test_options(self) -> None:
        """Mistakes name the flag or the variable."""
        for options, environment, word in (
            (("--port", "65536"), {}, "--port"),
            (("--bind-address",), {}, "--bind-address"),
            (("--workspace", ".."), {}, "--workspace"),
            (("--public-url", "ftp://x"), {}, "--public-url"),
            (("--tls-cert", "x"), {}, "--tls-private-key"),
            (("--frobnicate",), {}, "--frobnicate"),
            (("extra",), {}, "extra"),
            ((), {"GARCON_MAX_CONNECTIONS": "many"}, "GARCON_MAX_CONNECTIONS"),
            ((), {"GARCON_DISABLE_AUTH": "maybe"}, "GARCON_DISABLE_AUTH"),
        ):
            self.assertIn(word, self.refused(*options, environment=environment))
        self.assertFalse((self.fleet.root / "config").exists())

    def test_a_taken_port(self) -> None:
        """It is said, no descriptor is left, and the leases are free again."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            line = self.refused(port=taken.getsockname()[1])
        self.assertIn("in use", line)
        self.assertFalse((self.fleet.root / "config" / "runtime.json").exists())
        self.start()

    def test_a_held_config_root(self) -> None:
        """Two controllers do not share one, and the first is not disturbed."""
        first = self.start()
        line = self.refused("--workspace", "other")
        self.assertIn("WORKSPACE_IN_USE", line)
        self.assertEqual(first.descriptor()["pid"], first.process.pid)
        self.assertEqual(ask(first.url, "GET", "/livez").status, 200)

    def test_a_held_workspace(self) -> None:
        """Also from another config root, and through another name."""
        folder = self.fleet.root / "shared"
        alias = self.fleet.root / "alias"
        alias.symlink_to(folder)
        self.start("--workspace-dir", str(folder))
        other = self.fleet.root / "other"
        line = self.refused("--workspace-dir", str(alias), config=other)
        self.assertIn("WORKSPACE_IN_USE", line)
        self.assertFalse((other / "runtime.json").exists())

    def test_a_predecessor_that_is_ending_is_waited_for(self) -> None:
        """A few seconds."""
        first = self.start()
        second = self.launch()
        time.sleep(0.5)
        first.process.send_signal(signal.SIGTERM)
        self.fleet.await_ready(second)

    def test_the_workers_folder_is_reserved(self) -> None:
        """By its own name, below it, and by every alias."""
        config = self.fleet.root / "config"
        (config / "executor").mkdir(parents=True)
        alias = self.fleet.root / "alias"
        alias.symlink_to(config / "executor")
        for folder in (config / "executor", config / "executor" / "deep", alias):
            self.assertIn("reserved", self.refused("--workspace-dir", str(folder)))

    def test_an_insecure_executors_file(self) -> None:
        """Secrets that others can read are not used."""
        workspace = self.fleet.root / "config" / "workspace-default"
        workspace.mkdir(parents=True)
        path = workspace / "executors.json"
        path.write_text("{}")
        path.chmod(0o644)
        self.assertIn("executors.json", self.refused())
        self.assertFalse((self.fleet.root / "config" / "runtime.json").exists())

    def test_certificates(self) -> None:
        """Missing, unreadable and mismatched files are named."""
        authority = make_authority(self.fleet.root)
        certificate, key = authority.issue("localhost")
        _, other = authority.issue("127.0.0.1")
        missing = self.fleet.root / "missing.pem"
        for first, second in (
            (certificate, other),
            (missing, key),
            (certificate, missing),
            (key, certificate),
        ):
            line = self.refused("--tls-cert", str(first), "--tls-private-key", str(second))
            self.assertTrue(str(first) in line or str(second) in line, line)
        self.assertFalse((self.fleet.root / "config" / "runtime.json").exists())


class TlsTests(ControllerCase):
    """A public TLS port, and the command's own plain one."""

    def test_two_listeners(self) -> None:
        """The same API on both; workers' sockets on the public one only."""
        authority = make_authority(self.fleet.root)
        certificate, key = authority.issue("localhost", "127.0.0.1")
        service = self.start("--tls-cert", str(certificate), "--tls-private-key", str(key))
        self.assertTrue(service.url.startswith("https://127.0.0.1:"), service.url)
        descriptor = service.descriptor()
        own = descriptor["baseUrl"]
        self.assertTrue(own.startswith("http://127.0.0.1:"), own)
        self.assertNotEqual(urlsplit(own).port, service.port)
        context = ssl.create_default_context(cafile=str(authority.certificate))
        token = descriptor["localCapability"]
        for url in (own, service.url):
            answer = ask(url, "GET", f"{API}/executors", token=token, context=context)
            self.assertEqual(answer.status, 200)
        upgrade = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        made = ask(
            own,
            "POST",
            f"{API}/executors",
            {"label": "w", "direction": "executor-connects", "advertisedUrl": "wss://a.test/x"},
            token,
        )
        self.assertEqual(made.status, 200, made.body)
        lane = f"/executor/{made.json['id']}"
        answer = ask(own, "GET", lane, headers=upgrade)
        self.assertEqual((answer.status, answer.body), (404, b"Not found"))
        foreign = {**upgrade, "Host": "anything.test"}
        answer = ask(service.url, "GET", lane, headers=foreign, context=context)
        self.assertEqual(answer.status, 101)
        big = ask(service.url, "GET", f"{API}/openapi.json", token=token, context=context)
        self.assertEqual(big.status, 200)
        self.assertEqual(service.stop(), 0)


class EndTests(ControllerCase):
    """How a controller ends, and starts again."""

    def test_interrupts_end_it_too(self) -> None:
        """SIGINT and SIGHUP like SIGTERM; a second signal changes nothing."""
        for number in (signal.SIGINT, signal.SIGHUP):
            service = self.start()
            service.process.send_signal(number)
            service.process.send_signal(signal.SIGTERM)
            self.assertEqual(service.process.wait(15), 0)
            self.assertFalse((service.config / "runtime.json").exists())

    def test_a_crash_leaves_nothing_in_the_way(self) -> None:
        """After SIGKILL the same directories and port work at once, with a new instance."""
        port = free_port()
        first = self.start(port=port)
        before = first.descriptor()
        chat_id, _ = self.chat(first.url, before["localCapability"], "say kept")
        connection = socket.create_connection(("127.0.0.1", port))
        first.kill()
        second = self.start(port=port)
        connection.close()
        after = second.descriptor()
        self.assertNotEqual(before["instanceId"], after["instanceId"])
        token = after["localCapability"]
        self.assertEqual(
            ask(second.url, "GET", f"{API}/executors", token=before["localCapability"]).status, 401
        )
        stale = ask(
            second.url,
            "GET",
            f"{API}/executors",
            token=token,
            headers={"X-Garcon-Server-Instance": before["instanceId"]},
        )
        self.assertEqual((stale.status, stale.json["errorCode"]), (409, "CLI_CONTROLLER_CHANGED"))
        page = ask(second.url, "GET", f"{API}/chats/messages?chatId={chat_id}", token=token)
        self.assertEqual(page.json["messages"][0]["message"]["content"], "say kept")

    def test_a_running_turn_does_not_hold_it_up(self) -> None:
        """The turn is interrupted, its agent ended, the status 0 within 15 s."""
        service = self.start()
        token = service.descriptor()["localCapability"]
        self.chat(service.url, token, "sleep 300")
        eventually("the agent", self.fleet.left_over)
        self.assertEqual(service.stop(), 0)
        self.assertEqual(self.fleet.left_over(), [])

    def test_a_client_that_hangs_does_not_hold_it_up(self) -> None:
        """Half a request, an idle connection and a reader that does not read."""
        service = self.start()
        sockets = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(3)]
        sockets[0].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        sockets[1].sendall(b"POST /api/v1/chats/stop HTTP/1.1\r\nContent-Length: 5\r\n\r\n")
        time.sleep(0.2)
        began = time.monotonic()
        self.assertEqual(service.stop(), 0)
        self.assertLess(time.monotonic() - began, 10)
        for sock in sockets:
            sock.close()

    def test_a_poor_environment(self) -> None:
        """HOME and PATH are enough, standard input may be closed, nobody need read its output."""
        home = self.fleet.root / "poor"
        home.mkdir()
        read, write = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-m", "garcon.cli.main", "controller", "--port", "0"],
            env={
                "HOME": str(home),
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": self.fleet.environment()["PYTHONPATH"],
            },
            cwd=self.fleet.root,
            stdout=write,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.close(0),
        )
        os.close(write)
        try:
            path = home / ".garcon" / "runtime.json"
            eventually("the descriptor", path.exists)
            url = json.loads(path.read_text())["baseUrl"]
            self.assertIn(f"Started at {url}", os.read(read, 4_096).decode())
            os.close(read)
            token = json.loads(path.read_text())["localCapability"]
            models = ask(url, "GET", f"{API}/models", token=token)
            self.assertEqual(models.status, 200)
        finally:
            process.terminate()
            status = process.wait(15)
        self.assertEqual(status, 0)


class BoundTests(ControllerCase):
    """The door's bounds over real sockets."""

    def test_bodies(self) -> None:
        """N bytes are taken, N+1 are a bare 413: with a length, in chunks, after asking."""
        limit = 100_000
        service = self.start(auth=False, environment={"GARCON_MAX_REQUEST_BODY_SIZE": str(limit)})
        path = f"{API}/app/settings"
        kind = "Content-Type: application/json"

        def status(head: list[str], body: bytes) -> tuple[int, bytes]:
            with socket.create_connection(("127.0.0.1", service.port), 10) as sock:
                lines = [f"PUT {path} HTTP/1.1", "Host: localhost", kind, *head, "", ""]
                sock.sendall("\r\n".join(lines).encode() + body)
                raw = b""
                while b"\r\n\r\n" not in raw.replace(b"100 Continue\r\n\r\n", b""):
                    raw += sock.recv(65_536)
                return int(raw.split(b" ")[1]), raw

        whole = b"{" + b" " * (limit - 2) + b"}"
        self.assertEqual(status([f"Content-Length: {limit}"], whole)[0], 200)
        self.assertEqual(status([f"Content-Length: {limit + 1}"], whole + b" ")[0], 413)
        asked = ["Expect: 100-continue"]
        self.assertEqual(status([f"Content-Length: {limit}", *asked], whole)[0], 100)
        code, raw = status([f"Content-Length: {10**10}", *asked], b"")
        self.assertEqual(code, 413)
        self.assertNotIn(b"100 Continue", raw)
        self.assertIn(b"Connection: close", raw)
        chunked = ["Transfer-Encoding: chunked"]
        pieces = b"%x\r\n%s\r\n" % (limit, whole)
        self.assertEqual(status(chunked, pieces + b"0\r\n\r\n")[0], 200)
        self.assertEqual(status(chunked, pieces + b"1\r\n \r\n0\r\n\r\n")[0], 413)

    def test_headers(self) -> None:
        """Too many bytes of them are 431."""
        service = self.start(auth=False)
        answer = ask(service.url, "GET", "/livez", headers={"X": "a" * 40_000})
        self.assertEqual(answer.status, 431)

    def test_connections(self) -> None:
        """N are served, one more is closed."""
        service = self.start(auth=False, environment={"GARCON_MAX_CONNECTIONS": "3"})
        held = [socket.create_connection(("127.0.0.1", service.port), 5) for _ in range(3)]
        request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for sock in held:
            sock.sendall(request)
            self.assertIn(b"200 OK", sock.recv(4_096))
        with socket.create_connection(("127.0.0.1", service.port), 5) as sock:
            try:
                sock.sendall(request)
                self.assertEqual(sock.recv(4_096), b"")
            except ConnectionError:
                pass  # closed before we wrote, which is the same refusal
        held.pop().close()

        def served() -> bool:
            try:
                return ask(service.url, "GET", "/livez").status == 200
            except (ConnectionError, http.client.HTTPException):
                return False

        eventually("a free place", served)
        for sock in held:
            sock.close()


class TwistdTests(ControllerCase):
    """The same service as a plugin of twistd."""

    def twistd(self, *options: str, port: int = 0, daemon: bool = False) -> Service:
        """Start ``twistd garcon-controller``, with ``-n`` unless it is to be a daemon."""
        config = self.fleet.root / "config"
        argv = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()"]
        argv += [] if daemon else ["-n"]
        argv += ["--pidfile", str(self.fleet.root / "twistd.pid") if daemon else ""]
        argv += ["garcon-controller", "--port", str(port)]
        argv += ["--config-dir", str(config), *options]
        return self.fleet.start("controller", config, argv)

    def test_it_serves(self) -> None:
        """With the same ready line and files; the signal is twistd's own status."""
        service = self.fleet.await_ready(self.twistd("--disable-auth"))
        self.assertEqual(service.descriptor()["pid"], service.process.pid)
        self.assertEqual(ask(service.url, "GET", f"{API}/executors").status, 200)
        self.assertIn(service.stop(), (143, -signal.SIGTERM))
        self.assertFalse((service.config / "runtime.json").exists())

    def test_what_is_wrong_is_one_line(self) -> None:
        """Options and leases are checked before twistd starts anything."""
        self.start()
        for options, word in ((("--port", "x"), "--port"), ((), "WORKSPACE_IN_USE")):
            service = self.twistd(*options)
            self.assertEqual(service.process.wait(20), 1)
            eventually("the reason", service.output.text)
            (line,) = service.output.text().splitlines()
            self.assertIn(word, line)

    def test_a_taken_port_is_status_1(self) -> None:
        """And leaves nothing behind."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            service = self.twistd(port=taken.getsockname()[1])
            self.assertEqual(service.process.wait(20), 1)
        (line,) = service.output.text().splitlines()
        self.assertIn("Failed to start server", line)
        self.assertFalse((service.config / "runtime.json").exists())

    def test_what_a_daemon_cannot_use_is_told_before_it_leaves(self) -> None:
        """One line and status 1 for each file, port and lease, and nothing half started."""
        workspace = self.fleet.root / "config" / "workspace-default"
        workspace.mkdir(parents=True)
        executors, store = workspace / "executors.json", workspace / "garcon.sqlite"
        authority = make_authority(self.fleet.root)
        (certificate, _), (_, key) = authority.issue("localhost"), authority.issue("other")
        pair = ("--tls-cert", str(certificate), "--tls-private-key", str(key))

        def insecure() -> None:
            executors.write_text('{"version": 1, "executors": []}')
            executors.chmod(0o644)

        def broken() -> None:
            executors.unlink()
            executors.write_text("{")
            executors.chmod(0o600)

        def no_database() -> None:
            store.write_bytes(b"this is no database" * 100)

        for prepare, options, word in (
            (insecure, (), "executors.json"),
            (broken, (), "executors.json.broken-1"),
            (no_database, (), "garcon.sqlite"),
            (lambda: None, pair, "key"),
        ):
            prepare()
            service = self.twistd(*options, daemon=True)
            self.assertEqual(service.process.wait(20), 1, word)
            (line,) = service.output.text().splitlines()
            self.assertIn(word, line)
            self.assertFalse(store.exists() and prepare is not no_database, word)
            self.assertFalse((self.fleet.root / "twistd.pid").exists())
            self.assertFalse((service.config / "runtime.json").exists())
