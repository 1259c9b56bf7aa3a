"""The real Claude Code through a controller's whole door, on Local and on a worker, against a
pretend model server: what reaches the transcripts (chats.md 3, 5).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from garcon.contract import operations
from garcon.contract.events import OperationalNotice, Reloaded
from garcon.test.live.fleets import FleetTestCase, claude_code
from garcon.testing.claude_code import scripted_environment
from garcon.testing.fleet import Service, eventually
from garcon.testing.strict_client import StrictClient
from garcon.testing.strict_socket import StrictSocket

KEY = "sk-of-the-profile-0123456789"


class ClaudeFleetTests(FleetTestCase):
    """A controller and a worker, each with a Claude Code whose home is its own."""

    def setUp(self) -> None:
        program = claude_code()
        super().setUp()
        script = self.fleet.root / "script.json"
        script.write_text(json.dumps({"fallback": "ok"}))
        self.models = self.fleet.model_server(script)

        def environment(name: str) -> dict[str, str]:
            home = self.fleet.root / f"claude-{name}"
            return {**scripted_environment(home, self.models.port), "CLAUDE_BINARY": program}

        self.controller = self.fleet.controller(environment=environment("local"))
        self.executor_id = self.fleet.executor(
            self.controller,
            *("--label", "workshop", "--direction", "executor-connects", "--no-tls", "true"),
        )
        url = self.fleet.garcon(self.controller, "executor", "connection", self.executor_id)
        self.worker = self.fleet.worker(
            "--no-tls", url=url.out.strip(), environment=environment("worker")
        )
        self.fleet.await_executor(self.controller, self.executor_id)
        own = self.controller.descriptor()
        self.client = StrictClient(own["baseUrl"], own["localCapability"])
        self.socket = StrictSocket(own["baseUrl"])
        self.addCleanup(self.socket.close)
        self.project = self.fleet.project("project")

    # The model

    def model(self, path: str, body: Any = None) -> Any:
        """Ask the model server's own routes."""
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"{self.models.url}/_script/{path}", data), timeout=20) as answer:
            return json.load(answer)

    def push(self, *turns: Any) -> None:
        """Append turns to the model's script."""
        self.model("turns", list(turns))

    def last_said(self) -> str:
        """What the model was told last."""
        return json.dumps(self.model("bodies")[-1]["messages"], ensure_ascii=False)

    # Chats

    def everywhere(self) -> tuple[str, str]:
        """Every executor."""
        return "local", self.executor_id

    def begin(self, executor_id: str, command: str, **more: Any) -> Any:
        """Start a chat; its first turn runs on."""
        chosen = {
            "agentId": "claude",
            "model": "sonnet",
            "agentSettings": {"ownerId": "claude", "schemaVersion": 1, "values": {}},
            "permissionMode": "manualBypass",
        }
        body = self.client.start_body(executor_id, str(self.project), command, **(chosen | more))
        return self.client.start(body)

    def view(self, chat_id: str) -> str:
        """A chat's present view."""
        return self.client.messages(chat_id).transcript_view_id

    def go_on(self, chat_id: str, command: str, **more: Any) -> Any:
        """Run a turn of a chat."""
        return self.client.run(self.client.run_body(self.view(chat_id), chat_id, command, **more))

    def settled(self, accepted: Any) -> list[str]:
        """Wait for a turn to end well, and return what was said."""
        receipt = self.client.settled(accepted.chat_id, accepted.turn_id)
        self.assertEqual(receipt.state, "completed", receipt)
        output: Any = receipt.output
        said: list[str] = output.assistant_messages
        return said

    def shown(self, chat_id: str) -> list[tuple[str, Any]]:
        """The rows of a chat: type, and text where there is one."""
        page = self.client.ask(operations.MESSAGES, query={"chatId": chat_id, "limit": 200}).body
        rows = [row["message"] for row in json.loads(page)["messages"]]
        return [(row["type"], row.get("content", row.get("command"))) for row in rows]

    def ordinal_of(self, chat_id: str, text: str) -> int:
        """The row that has this text."""
        page = self.client.ask(operations.MESSAGES, query={"chatId": chat_id, "limit": 200}).body
        found = [
            int(row["ordinal"])
            for row in json.loads(page)["messages"]
            if row["message"].get("content") == text
        ]
        self.assertEqual(len(found), 1, text)
        return found[0]

    def figures(self) -> dict[str, float]:
        """The controller's own figures."""
        token = self.controller.descriptor()["localCapability"]
        request = Request(
            f"{self.controller.url}/metrics", headers={"Authorization": f"Bearer {token}"}
        )
        with urlopen(request, timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    # What is promised

    def test_further_input_joins_the_turn(self) -> None:
        """Its row stands where the agent got it, and the answer behind it (5.11)."""
        for number, executor_id in enumerate(self.everywhere()):
            flag = self.project / f"on-{number}"
            call = {"tool": "Bash", "args": {"command": f"touch {flag}; sleep 1; echo slept"}}
            self.push(["First.", call], "Both.")
            accepted = self.begin(executor_id, "work")
            eventually("the command", flag.exists)
            body = self.client.entry_body(self.view(accepted.chat_id), accepted.chat_id, "and more")
            self.assertEqual(self.client.steer(body).turn_id, accepted.turn_id)
            self.assertEqual(self.settled(accepted), ["First.", "Both."])
            kinds = [kind for kind, _ in self.shown(accepted.chat_id)]
            self.assertLess(
                kinds.index("user-message", 1), len(kinds) - 1 - kinds[::-1].index("tool-result")
            )
            self.assertEqual(kinds.count("user-message"), 2)
            self.assertIn("and more", self.last_said())

    def test_a_fork_at_a_message_has_the_session(self) -> None:
        """Tools included, and nothing of later turns; a fork at a tool's row needs consent."""
        for executor_id in self.everywhere():
            call = {"tool": "Bash", "args": {"command": "echo seen-by-the-tool"}}
            self.push(["Looking.", call], "Found.")
            accepted = self.begin(executor_id, "look")
            self.settled(accepted)
            self.push("The heron.")
            self.settled(self.go_on(accepted.chat_id, "and later"))
            view = self.view(accepted.chat_id)
            at = self.ordinal_of(accepted.chat_id, "Found.")
            fork = self.client.fork(accepted.chat_id, upToOrdinal=at, transcriptViewId=view)
            self.push("In the fork.")
            self.assertEqual(self.settled(self.go_on(fork.id, "go on")), ["In the fork."])
            heard = self.last_said()
            self.assertIn("seen-by-the-tool", heard)
            self.assertNotIn("The heron.", heard)
            self.assertNotIn("Below is the conversation", heard)
            body = {
                "sourceChatId": accepted.chat_id,
                "chatId": f"{int(fork.id) + 1}",
                "upToOrdinal": at - 1,
                "transcriptViewId": view,
            }
            refused = self.client.refused(operations.FORK, body)
            self.assertEqual(refused, (409, "TRANSCRIPT_NOT_YET_PERSISTED", True))
            self.client.asked(operations.FORK, body | {"allowHandoffFork": True})
            self.push("Told.")
            self.settled(self.go_on(body["chatId"], "go on"))
            self.assertIn("Below is the conversation", self.last_said())

    def test_a_reload_shows_the_same(self) -> None:
        """What the agent wrote of its session, over the link as well, forks included; twice the
        same (server.md A.7).
        """
        for executor_id in self.everywhere():
            call = {"tool": "Bash", "args": {"command": "echo once"}}
            self.push(["Looking.", call], "Fóund 界.")
            accepted = self.begin(executor_id, "look")
            self.settled(accepted)
            fork = self.client.fork(accepted.chat_id)
            self.push("In the fork.")
            self.settled(self.go_on(fork.id, "go on"))
            for chat_id in (accepted.chat_id, fork.id):
                before, old = self.shown(chat_id), self.view(chat_id)
                for _ in range(2):
                    answer = self.socket.ask("chat-reload", chatId=chat_id)
                    self.assertIsInstance(answer, Reloaded)
                    shown = [row for row in self.shown(chat_id) if row[0] != "permission-resolved"]
                    wanted = [row for row in before if not row[0].startswith("permission-")]
                    self.assertEqual(shown, wanted)
                    self.assertNotEqual(self.view(chat_id), old)
            self.push("After.")
            self.assertEqual(self.settled(self.go_on(fork.id, "and on")), ["After."])

    def test_a_session_that_was_gone_on_with_elsewhere(self) -> None:
        """Whoever opens the chat is told, on either machine; nothing else changes until it is
        reloaded.
        """
        for executor_id, name in zip(self.everywhere(), ("local", "worker"), strict=True):
            self.push("One.")
            accepted = self.begin(executor_id, "hello")
            self.settled(accepted)
            chat_id = accepted.chat_id
            self.go_on_by_hand(self.fleet.root / f"claude-{name}", self.session_of(chat_id))
            before = self.shown(chat_id)
            self.client.messages(chat_id, purpose="activation")
            self.assertEqual(self.notice_of(chat_id).notice_type, "warning")
            self.assertEqual(self.shown(chat_id), before)
            self.socket.ask("chat-reload", chatId=chat_id)
            self.assertIn(("user-message", "by hand"), self.shown(chat_id))

    def go_on_by_hand(self, home: Path, session: str) -> None:
        """Add an input to the file of a session that is at rest."""

        def written() -> Path | None:
            found = list(home.glob(f"projects/*/{session}.jsonl"))
            return found[0] if found and "One." in found[0].read_text() else None

        path: Path = eventually("the whole session", written)
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        last = [entry for entry in entries if entry.get("type") == "assistant"][-1]
        said = {"role": "user", "content": [{"type": "text", "text": "by hand"}]}
        entry = {"type": "user", "uuid": "by-hand", "parentUuid": last["uuid"], "message": said}
        with path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def notice_of(self, chat_id: str) -> OperationalNotice:
        """Wait until clients were told something of a chat."""

        def find(heard: list[Any]) -> OperationalNotice | None:
            for one in heard:
                if isinstance(one, OperationalNotice) and one.chat_id == chat_id:
                    return one
            return None

        return self.socket.wait_for("the notice", find)

    def test_a_compaction(self) -> None:
        """Is a row with the summary; the session goes on from it (3.9)."""
        for executor_id in self.everywhere():
            self.push("One.", "Two.", "THE SUMMARY", "Three.")
            accepted = self.begin(executor_id, "first")
            self.settled(accepted)
            self.settled(self.go_on(accepted.chat_id, "second"))
            body = {
                "clientRequestId": self.client.request_id(),
                "chatId": accepted.chat_id,
                "instructions": "keep the names",
            }
            self.settled(self.client.asked(operations.COMPACT, body))
            self.assertIn("keep the names", self.last_said())
            (summary,) = [
                row
                for row in json.loads(
                    self.client.ask(
                        operations.MESSAGES, query={"chatId": accepted.chat_id, "limit": 200}
                    ).body
                )["messages"]
                if row["message"]["type"] == "compaction"
            ]
            self.assertIn("THE SUMMARY", summary["message"]["summary"])
            self.assertEqual(self.settled(self.go_on(accepted.chat_id, "go on")), ["Three."])
            self.assertIn("THE SUMMARY", self.last_said())

    def test_the_session_is_found_and_survives_a_restart(self) -> None:
        """Its agent's name leads to the chat, also after it was changed; another controller
        process goes on with it.
        """
        chats = []
        for executor_id in self.everywhere():
            self.push("One.")
            accepted = self.begin(executor_id, "the heron")
            self.settled(accepted)
            first = self.session_of(accepted.chat_id)
            self.settled_empty(self.go_on(accepted.chat_id, "/clear"))
            session = self.session_of(accepted.chat_id)
            self.assertNotEqual(session, first)
            done = self.fleet.garcon(
                self.controller, "lookup-native-session", session, "--executor", executor_id
            )
            self.assertEqual(done.out.strip(), accepted.chat_id)
            self.push("Two.")
            self.settled(self.go_on(accepted.chat_id, "the magpie"))
            chats.append(accepted.chat_id)
        self.restart()
        for chat_id in chats:
            self.push("Three.")
            self.assertEqual(self.settled(self.go_on(chat_id, "and now")), ["Three."])
            self.assertIn("the magpie", self.last_said())
            self.assertNotIn("the heron", self.last_said())

    def session_of(self, chat_id: str) -> str:
        """The agent's own name of a chat's session."""
        found = self.client.asked(operations.CHAT_DETAILS, query={"chatId": chat_id})
        session = found.agent_session_id
        assert isinstance(session, str)
        return session

    def settled_empty(self, accepted: Any) -> None:
        """Wait for a turn that says nothing."""
        receipt = self.client.settled(accepted.chat_id, accepted.turn_id)
        self.assertEqual(receipt.state, "completed")

    def restart(self) -> None:
        """Have another controller process over the same workspace."""
        self.socket.close()
        port, environment = self.controller.port, self.environment_of_local()
        self.assertEqual(self.controller.stop(), 0)
        self.controller = self.fleet.controller(port=port, environment=environment)
        self.fleet.await_executor(self.controller, self.executor_id)
        own = self.controller.descriptor()
        self.client = StrictClient(own["baseUrl"], own["localCapability"])
        self.socket = StrictSocket(own["baseUrl"])

    def environment_of_local(self) -> dict[str, str]:
        """What Local's agent is started with."""
        home = self.fleet.root / "claude-local"
        return {**scripted_environment(home, self.models.port), "CLAUDE_BINARY": claude_code()}

    def test_a_profiles_model(self) -> None:
        """Is asked with the profile's key, which is nowhere but in the controller's file, and shows
        in the catalogs of the executors that it is assigned to.
        """
        endpoint = {
            "protocol": "anthropic-messages",
            "baseUrl": self.models.url,
            "apiKey": KEY,
            "defaultModel": "glm-5",
            "models": [{"value": "glm-5", "label": "GLM"}],
            "supportsImages": True,
        }
        made = self.client.asked(
            operations.CREATE_PROVIDER,
            {
                "templateId": "custom",
                "label": "models",
                "executorIds": ["local", self.executor_id],
                "endpoint": endpoint,
            },
        )
        name = f"{made.endpoints[0].id}:glm-5"
        for executor_id in self.everywhere():
            call = {"tool": "Bash", "args": {"command": "echo $ANTHROPIC_API_KEY"}}
            self.push(["Looking.", call], f"It is {KEY}.")
            accepted = self.begin(
                executor_id,
                "which key?",
                model=name,
                apiProviderId=made.id,
                modelEndpointId=made.endpoints[0].id,
                modelProtocol="anthropic-messages",
            )
            self.assertEqual(self.settled(accepted), ["Looking.", "It is [secret]."])
            self.assertIn(("tool-result", {"text": "[secret]"}), self.shown(accepted.chat_id))
            asked = self.model("asked")[-1]
            self.assertEqual(asked["model"], "glm-5")
        holders = [
            path.name
            for folder in (self.controller.config, self.worker.config)
            for path in Path(folder).rglob("*")
            if path.is_file() and KEY.encode() in path.read_bytes()
        ]
        self.assertEqual(holders, ["api-providers.json"])
        self.assertNotIn(KEY, self.fleet.logs())

    def test_what_is_unknown_is_counted_and_the_version_kept(self) -> None:
        """The pinned version says nothing that is not known; a program that does is counted,
        wherever it runs, and its turn goes on.
        """
        for executor_id in self.everywhere():
            self.push("One.")
            self.settled(self.begin(executor_id, "hello"))
        self.assertEqual(
            [name for name in self.figures() if name.startswith("garcon_agent_unknown")], []
        )


class ClaudeStandInTests(FleetTestCase):
    """A program in Claude Code's place that says what nobody knows."""

    SOURCE = """\
import json, sys
def say(**message): print(json.dumps(message), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "control_request":
        answer = {"subtype": "success", "request_id": message["request_id"], "response": {}}
        say(type="control_response", response=answer)
    elif message["type"] == "user":
        say(type="system", subtype="init", session_id="s", claude_code_version="9.9")
        say(**message, isReplay=True)
        for _ in range(3):
            say(type="aurora", colour="green")
        words = [{"type": "text", "text": "Hello."}]
        say(type="assistant", uuid="u", session_id="s", message={"content": words})
        say(type="result", is_error=False, result="", session_id="s", sparkle=1)
"""

    def test_it_is_counted_by_agent_wherever_it_runs(self) -> None:
        """Messages and fields; the turn goes on."""
        program = self.fleet.root / "stand-in"
        program.write_text(f"#!/usr/bin/env python3\n{self.SOURCE}")
        program.chmod(0o755)
        environment = {"CLAUDE_BINARY": str(program)}
        controller: Service = self.fleet.controller(environment=environment)
        executor_id = self.fleet.executor(
            controller,
            *("--label", "workshop", "--direction", "executor-connects", "--no-tls", "true"),
        )
        url = self.fleet.garcon(controller, "executor", "connection", executor_id).out.strip()
        self.fleet.worker("--no-tls", url=url, environment=environment)
        self.fleet.await_executor(controller, executor_id)
        project = self.fleet.project("project")
        token = controller.descriptor()["localCapability"]
        for number, executor in enumerate(("local", executor_id), 1):
            self.fleet.garcon(
                controller,
                *("start", "--agent", "claude", "--model", "opus", "--executor", executor),
                *("--cwd", str(project), "hello"),
            )
            request = Request(
                f"{controller.url}/metrics", headers={"Authorization": f"Bearer {token}"}
            )
            with urlopen(request, timeout=20) as answer:
                figures = answer.read().decode()
            wanted = f'garcon_agent_unknown_events_total{{agent="claude"}} {4.0 * number}'
            self.assertIn(wanted, figures)
        self.assertIn("aurora", self.fleet.logs())
        self.assertIn("9.9", self.fleet.logs())
