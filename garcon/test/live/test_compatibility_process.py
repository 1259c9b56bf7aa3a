"""A controller as a process of somebody else's harness: how it starts, what it leaves on the
machine, how it ends, and what outlasts that (existing-clients.md; server.md B.6 to B.8, F; I,
restart, crash, delete, corrupt ledger, CLI).
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import time
from pathlib import Path

from garcon.test.live.foreign import GONE, KEY, Actor, ForeignCase
from garcon.testing.fleet import eventually
from garcon.testing.foreign_client import CAPABILITY, ForeignClient, discover, message


class StartTests(ForeignCase):
    """From the command line to the first answer."""

    def actor_with(self, *options: str) -> Actor:
        """Start a controller of this test's own, whose folders exist and are empty."""
        config = self.stage.folder()
        options = tuple(one.replace("CONFIG", str(config)) for one in options)
        if options[0] == "--workspace":
            (config / f"workspace-{options[1]}").mkdir()
        else:
            Path(options[1]).mkdir()
        actor = Actor(self.stage, config, options)
        self.addCleanup(actor.service.kill)
        return actor

    def test_the_ready_line(self) -> None:
        """Within two seconds of its own time, with nothing glued to the URL, followed by what
        authentication is; then everything works (server.md F.2).
        """
        lines = self.actor.service.output.text().splitlines()
        [ready] = [line for line in lines if "Started at" in line]
        self.assertRegex(ready, r"^\[server\] Started at http://127\.0\.0\.1:\d+$")
        line = re.compile(r"^\[server\] Authentication: DISABLED$")
        self.assertIsNotNone(self.actor.service.output.wait_for(line, 20))
        self.assertEqual(self.client.ask("GET", "/auth/status").status, 200)

    def test_named_and_explicit_workspaces(self) -> None:
        """Both are where they were said to be; a named one also has the descriptor of old."""
        explicit = self.actor_with("--workspace-dir", "CONFIG/elsewhere")
        named = self.actor_with("--workspace", "some.name")
        for actor in (explicit, named):
            self.assertTrue((actor.workspace / ".garcon-workspace.lock").exists())
            own = json.loads((actor.config / "runtime.json").read_text())
            self.assertEqual(own["baseUrl"], actor.service.url)
        self.assertFalse((explicit.workspace / "server-runtime.json").exists())
        client, found = discover(named.config, "some.name")
        self.assertEqual(found["pid"], named.service.process.pid)
        self.assertEqual(found["baseUrl"], named.service.url)
        self.assertEqual(client.chats(), [])
        for actor in (explicit, named):
            self.assertEqual(actor.service.stop(), 0)
            self.assertFalse((actor.config / "runtime.json").exists())
            self.assertFalse((actor.workspace / "server-runtime.json").exists())

    def test_the_older_descriptor(self) -> None:
        """Private, proved, new with each process, and only removed if it is still its own."""
        config, name = self.actor.config, self.actor.options[1]
        path = config / f"workspace-{name}" / "server-runtime.json"
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        _, first = discover(config, name)
        self.assertTrue(CAPABILITY.fullmatch(first["localCapability"]))
        fixed = json.loads((config / "runtime.json").read_text())
        for member in ("instanceId", "localCapability", "baseUrl", "pid", "workspaceDir"):
            self.assertEqual(fixed[member], first[member])
        self.assertIsInstance(fixed["startedAt"], int)
        output = self.actor.service.output
        self.crash()
        _, second = discover(config, name)
        for member in ("instanceId", "localCapability", "pid"):
            self.assertNotEqual(first[member], second[member])
        path.write_text(path.read_text().replace(second["instanceId"], "somebody-else"))
        self.restart()
        for text in (output.text(), self.actor.service.output.text()):
            self.assertNotIn("garcon_local_", text)
        self.actor.service.stop()
        self.assertFalse(path.exists())
        path.write_text(json.dumps(second))
        self.actor.open()

    def test_another_ones_descriptor_is_left(self) -> None:
        """A graceful stop removes its own only."""
        path = self.actor.workspace / "server-runtime.json"
        other = json.dumps(json.loads(path.read_text()) | {"instanceId": "somebody-else"})
        path.write_text(other)
        self.assertEqual(self.actor.service.stop(), 0)
        self.assertEqual(path.read_text(), other)
        self.actor.open()

    def test_proof_of_identity(self) -> None:
        """Of a challenge of 43 characters and of nothing else, uncached and without any token."""
        discover(self.actor.config, self.actor.options[1])
        for challenge in ("", "c" * 42, "c" * 44, "c" * 42 + "=", "c" * 42 + "+"):
            reply = self.client.ask("GET", "/runtime", challenge=challenge)
            self.assertEqual((reply.status, reply.headers["cache-control"]), (400, "no-store"))
        self.assertEqual(self.client.ask("GET", "/runtime").status, 400)

    def test_a_workspace_behind_a_link(self) -> None:
        """Is found where it really is (I, CLI)."""
        config = self.stage.folder()
        (config / "workspace-real").mkdir()
        (config / "workspace-alias").symlink_to(config / "workspace-real")
        actor = Actor(self.stage, config, ("--workspace", "alias"))
        self.addCleanup(actor.service.kill)
        for name in ("alias", "real"):
            _, found = discover(config, name)
            self.assertEqual(found["workspaceDir"], str(config / "workspace-real"))

    def test_files_of_others_are_in_nobodys_way(self) -> None:
        """A workspace in which another program kept its own, and its profiles without what came
        later.
        """
        config = self.stage.folder()
        workspace = config / "workspace-old"
        ledger = workspace / "transcript-ledgers" / "1700000000000000" / "ledger.sqlite"
        ledger.parent.mkdir(parents=True)
        ledger.write_bytes(b"garbage")
        (workspace / "chats.json").write_text('{"version": 5, "sessions": {"1": {}}}')
        (workspace / "project-settings.json").write_text('{"pinnedChatIds": ["1"]}')
        (workspace / "workspace-version.json").write_text('{"version": 5}')
        (workspace / ".garcon-workspace.lock").write_text("4711")
        endpoint = {
            "id": "old_openai",
            "protocol": "openai-compatible",
            "baseUrl": "https://models.example/v1",
            "apiKey": "sk-old-key-0123",
            "defaultModel": "m",
        }
        rows = [{"id": "old", "label": "Old", "endpoints": [endpoint]}]
        profiles = config / "api-providers.json"
        profiles.write_text(json.dumps({"version": 1, "apiProviders": rows}))
        profiles.chmod(0o600)
        service = self.stage.start(config, "--workspace", "old")
        self.addCleanup(service.kill)
        client = ForeignClient(service.url)
        self.assertEqual(client.chats(), [])
        [shown] = client.raw("GET", "/api/v1/api-providers").json["providers"]
        self.assertEqual((shown["id"], shown["endpoints"][0]["hasApiKey"]), ("old", True))
        client.do("POST", "/api-providers", self.models[0].profile())
        self.assertIn("sk-old-key-0123", profiles.read_text())

    def test_a_page_of_the_browsers_client(self) -> None:
        """Where one was built, `/` has it, with the title (I, start-up)."""
        folder = self.stage.folder() / "page"
        folder.mkdir()
        page = "<!doctype html><html><head><title>x</title></head><body></body></html>"
        (folder / "index.html").write_text(page)
        options = ("--workspace", "page", "--browser-dir", str(folder))
        service = self.stage.start(self.stage.folder(), *options)
        self.addCleanup(service.kill)
        for path in ("/", "/chat", "/chat/1", "/login", "/setup"):
            reply = ForeignClient(service.url).raw("GET", path)
            self.assertEqual((reply.status, reply.headers["content-type"][:9]), (200, "text/html"))
            self.assertIn(b"<title>Garcon</title>", reply.body)


class EndTests(ForeignCase):
    """Ends and new beginnings."""

    def page(self, chat_id: str) -> object:
        """All that is to outlast a restart of a chat that is idle."""
        return self.client.entry(chat_id), self.client.history(chat_id)

    def test_sigterm_while_a_turn_runs(self) -> None:
        """Status 0 within 15 s, its request aborted, its sockets dropped; again and again."""
        turn = self.held("interrupted", "never")
        began = time.monotonic()
        self.actor.service.process.send_signal(signal.SIGTERM)
        self.actor.service.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.actor.service.process.wait(15), 0)
        self.assertLess(time.monotonic() - began, 15)
        self.providers[0].model.await_hang_up(1)
        self.actor.open()
        candidates = self.client.history(turn["chatId"])["resendCandidates"]
        self.assertEqual([one["content"] for one in candidates], ["interrupted"])

    def test_it_does_not_end_by_itself(self) -> None:
        """Not when its sockets go, nor when nobody reads what it prints."""
        for _ in range(3):
            self.open_socket().close()
        self.assertIsNone(self.actor.service.process.poll())
        self.socket.ping()

    def test_a_restart(self) -> None:
        """A new instance everywhere, empty controls, nothing processing; chats, profiles and
        ordinals persist, and what was interrupted is to be sent again (I, restart; 5.5.8, 5.7.4).
        """
        idle = self.chat("kept", self.providers[1])
        self.client.do("PATCH", "/chats/tags", {"chatId": idle, "tags": ["t"]})
        self.client.do("PUT", "/app/session-name", {"chatId": idle, "title": "N"})
        turn = self.held("interrupted", "never")
        busy = turn["chatId"]
        self.client.enqueue(busy, "lost")
        before, old = self.page(idle), self.socket.ping()["serverInstanceId"]
        self.restart()
        self.assertEqual(self.page(idle), before)
        socket = self.open_socket()
        state = socket.reconnect(idle, busy)
        new = state["serverInstanceId"]
        self.assertNotEqual(new, old)
        self.assertEqual(self.client.do("GET", "/runtime", challenge="c" * 43)["instanceId"], new)
        self.assertEqual(state["processing"]["chats"], [])
        for one in state["controlResults"]:
            control = one["control"]
            self.assertEqual((control["version"], control["updatedAt"]), (0, None))
            self.assertEqual(
                control["queue"],
                {
                    "entries": [],
                    "steeringEntryId": None,
                    "recentlyDispatched": [],
                    "pause": None,
                    "reorderRevision": 0,
                },
            )
            self.assertEqual(control, self.client.control(one["chatId"]))
        self.assertEqual(self.client.said(busy), [("user-message", "interrupted")])
        self.assertEqual(
            self.client.refused("GET", "/chats/turn-receipt", chatId=busy, turnId=turn["turnId"]),
            (404, "TURN_RECEIPT_NOT_FOUND", False),
        )
        model = self.providers[0].model
        model.push("both")
        self.assertEqual(self.ended(self.client.run(busy, "again")), ("completed", ["both"]))
        self.assertEqual(model.told(), [("user", "interrupted\n\nagain")])
        catalog = self.client.do("GET", "/models")["catalog"]
        self.assertEqual(
            sorted(one["id"] for one in catalog["apiProviders"]),
            sorted(one.id for one in self.providers),
        )
        self.ended(self.client.run(idle, "and on"))
        self.assertEqual(
            self.providers[1].model.told(),
            [("user", "kept"), ("assistant", "ok"), ("user", "and on")],
        )

    def test_a_crash(self) -> None:
        """Killed in a turn, it starts at once on the same directories and port, even with a lock
        file of long ago; a command that was sent before is known by its message (2.4, I, crash).
        """
        chat_id = self.chat("kept")
        view = self.client.view(chat_id)
        done = message(chatId=chat_id, transcriptViewId=view, command="second")
        self.ended(self.client.do("POST", "/chats/run", done))
        turn = self.held("interrupted", "never")
        old, waiting = self.client, socket.create_connection(("127.0.0.1", self.actor.service.port))
        port = self.actor.service.port
        self.actor.service.kill()
        lock = self.actor.workspace / ".garcon-workspace.lock"
        os.utime(lock, (time.time() - 60, time.time() - 60))
        began = time.monotonic()
        self.actor.open(port)
        self.assertLess(time.monotonic() - began, 20)
        waiting.close()
        self.assertEqual(self.actor.service.url, old.url)
        rows, asked = self.client.rows(chat_id), len(self.providers[0].model.asked())
        again = self.client.do("POST", "/chats/run", done)
        self.assertEqual(self.client.rows(chat_id), rows)
        self.assertEqual(len(self.providers[0].model.asked()), asked)
        self.assertEqual(self.ended(again), ("completed", []))
        candidates = self.client.history(turn["chatId"])["resendCandidates"]
        self.assertEqual([one["content"] for one in candidates], ["interrupted"])

    def test_a_command_of_old_after_a_crash(self) -> None:
        """Its capability is worth nothing any more; one that looks again is let in, and finds the
        chat idle and its queue empty (I, CLI).
        """
        config, name = self.actor.config, self.actor.options[1]
        attached, first = discover(config, name)
        turn = self.held("runs", "never")
        self.client.enqueue(turn["chatId"], "queued")
        self.crash()
        reply = self.client.ask("GET", "/runtime", challenge="c" * 43)
        self.assertNotEqual(reply.json["instanceId"], first["instanceId"])
        fenced = attached.ask(
            "GET",
            "/chats/snapshot",
            headers={"X-Garcon-Server-Instance": first["instanceId"]},
            chatId=turn["chatId"],
        )
        self.assertEqual((fenced.status, fenced.json["errorCode"]), (409, "CLI_CONTROLLER_CHANGED"))
        fresh, second = discover(config, name)
        snapshot = fresh.do("GET", "/chats/snapshot", chatId=turn["chatId"], limit=5)
        self.assertIsNone(snapshot["processingPhase"])
        self.assertEqual(snapshot["control"]["queue"]["entries"], [])
        self.assertEqual(snapshot["control"]["serverInstanceId"], second["instanceId"])

    def test_what_was_deleted_stays_so(self) -> None:
        """Also where it was running, over both kinds of end (I, delete)."""
        running, idle = (
            self.held("running", "never")["chatId"],
            self.chat("idle", self.providers[1]),
        )
        for chat_id in (running, idle):
            self.client.do("DELETE", "/chats", {"chatId": chat_id})
        self.providers[0].model.await_hang_up(1)
        for end in (self.restart, self.crash):
            end()
            self.assertEqual(self.client.chats(), [])
            for chat_id in (running, idle):
                self.assertEqual(
                    self.client.refused("GET", "/chats/messages", chatId=chat_id), GONE
                )

    def test_keys_are_kept_in_one_place(self) -> None:
        """`api-providers.json`, which only its owner may read; in no other file, and in nothing
        that was printed (I, harness facts).
        """
        for provider in self.providers:
            provider.model.push({"error": 400, "message": f"the key {KEY} is wrong"})
            self.ended(self.begin("x", provider))
            self.chat("y", provider)
        self.restart()
        self.chat("z")
        found = []
        roots = (self.actor.config, self.stage.fleet.root / "home", self.stage.projects)
        for path in (one for root in roots for one in root.rglob("*")):
            if path.is_file() and KEY.encode() in path.read_bytes():
                found.append(path)
        self.assertEqual(found, [self.actor.config / "api-providers.json"])
        self.assertEqual(stat.S_IMODE(found[0].stat().st_mode), 0o600)
        for service in self.stage.fleet.services:
            if service.name == "controller":
                self.assertNotIn(KEY, service.output.text())

    def test_secrets_are_private(self) -> None:
        """Whatever holds one is its owner's alone."""
        for path in (
            self.actor.config / "api-providers.json",
            self.actor.config / "runtime.json",
            self.actor.workspace / "server-runtime.json",
            self.actor.workspace / "api-provider-assignments.json",
        ):
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600, path)

    def test_one_damaged_chat(self) -> None:
        """Says so, for good; the others and the list are as they were (5.17; I, corrupt ledger)."""
        bad, good = self.chat("bad chat's input"), self.chat("good chat's input")
        kept = self.client.history(good)
        self.assertEqual(self.actor.service.stop(), 0)
        stores = [
            path
            for path in self.actor.workspace.rglob("*")
            if path.is_file() and b"bad chat's input" in path.read_bytes()
        ]
        self.assertTrue(stores)
        for path in stores:
            data = path.read_bytes()
            path.write_bytes(data.replace(b"bad chat's input", b"bad chat's inpuX"))
        self.actor.open()
        page = self.client.history(bad)
        self.assertEqual(
            page["historyState"],
            {"kind": "degraded", "errorCode": "LEDGER_FENCED", "retryable": False},
        )
        snapshot = self.client.do("GET", "/chats/snapshot", chatId=bad)
        self.assertEqual(snapshot["transcript"]["availability"], "unavailable")
        self.assertEqual(snapshot["transcript"]["errorCode"], "LEDGER_FENCED")
        self.assertEqual({one["id"] for one in self.client.chats()}, {bad, good})
        self.assertEqual(self.client.history(good), kept)
        self.assertEqual(self.ended(self.client.run(good, "on"))[0], "completed")
        self.assertEqual(
            self.client.refused("GET", "/chats/rows", chatId=bad)[:2],
            (422, "TRANSCRIPT_UNAVAILABLE"),
        )
        socket = self.open_socket()
        view = snapshot["transientFeed"]["transcriptViewId"]
        answer = socket.subscribe(bad, view, 0)
        self.assertEqual((answer["code"], answer["retryable"]), ("HISTORY_LOAD_FAILED", False))

    def test_a_taken_workspace(self) -> None:
        """Starts nothing, and says so in one line (server.md F.2, F.4)."""
        began = time.monotonic()
        second = self.stage.launch(self.actor.config, *self.actor.options)
        self.assertEqual(second.process.wait(20), 1)
        self.assertLess(time.monotonic() - began, 20)
        line = eventually("the reason", second.output.text)
        self.assertTrue(re.match(r"\[server\] Failed to start server: ", line), line)
        self.assertNotIn("\n", line)
        self.socket.ping()
