"""Preambles and settings over a running pair: what agents are told, what sockets hear, what starts
leave behind, and what the command makes of it (control.md A.8, C, D; decisions.md 28).
"""

from __future__ import annotations

import json
from typing import Any

from garcon.contract import operations
from garcon.contract.events import SettingsUpdated
from garcon.test.live.fleets import SCRIPTED
from garcon.test.live.strict import StrictTestCase
from garcon.test.live.test_direct_fleet import Provider
from garcon.test.runtime.agents.direct_cast import CASES, KEY
from garcon.testing.strict_client import StrictClient

DENIED = (403, "CLI_ACCESS_DENIED", False)


class PreambleTests(StrictTestCase):
    """What is said ahead of a chat's first input."""

    def preamble(self, content: str, **more: Any) -> str:
        """Add a preamble; returns its id."""
        given = {
            "enabled": True,
            "title": content[:20],
            "content": content,
            "scope": {"type": "global"},
            "agentIds": [],
            "tagFilter": {"mode": "any", "tags": []},
        }
        revision = self.direct.asked(operations.LIST_PREAMBLES).revision
        body = {"expectedRevision": revision, "preamble": given | more}
        made = self.direct.asked(operations.CREATE_PREAMBLE, body)
        self.assertEqual(made.snapshot.revision, revision + 1)
        preamble_id: str = made.snapshot.preambles[-1].id
        return preamble_id

    def echoed(self, client: StrictClient, executor_id: str, **more: Any) -> tuple[str, Any]:
        """Start a chat that repeats what it is told; returns its id and what it was told."""
        chat, _, receipt = self.begun(client, executor_id, "hello", **more)
        return chat, receipt.output.text.removeprefix("You said: ")

    def test_they_reach_agents_on_either_executor(self) -> None:
        """The defaults, exactly those named, or none; only the agent is told."""
        self.preamble("Chat {{chat_id}}.")
        tagged = self.preamble("For reviews.", tagFilter={"mode": "all", "tags": ["review"]})
        there = self.preamble(
            "On the worker.",
            scope={
                "type": "project-paths",
                "rules": [
                    {
                        "projectPath": str(self.fleet.projects),
                        "includeNested": True,
                        "executorId": self.executor_id,
                    }
                ],
            },
        )
        for client, executor_id in self.everywhere():
            is_there = executor_id == self.executor_id
            chat, told = self.echoed(client, executor_id)
            own = [f"Chat {chat}.", *(["On the worker."] if is_there else [])]
            self.assertEqual(told, "\n\n".join([*own, "hello"]))
            user = client.messages(chat).messages[0].message
            self.assertEqual(user.content, "hello")  # type: ignore[union-attr]
            view = client.messages(chat).transcript_view_id
            accepted = client.run(client.run_body(view, chat, "again"))
            receipt: Any = client.settled(chat, accepted.turn_id)
            self.assertEqual(receipt.output.text, "You said: again")
            _, told = self.echoed(client, executor_id, orderedPreambleIds=[])
            self.assertEqual(told, "hello")
            _, told = self.echoed(client, executor_id, orderedPreambleIds=[tagged])
            self.assertEqual(told, "For reviews.\n\nhello")
            body = client.start_body(
                executor_id, self.project, "hello", orderedPreambleIds=[there, "none"]
            )
            missing = (404, "PREAMBLE_NOT_FOUND", False)
            self.assertEqual(client.refused(operations.START_CHAT, body), missing)

    def test_they_reach_direct_models(self) -> None:
        """As what a user said first, with every turn: there is no system message."""
        script = self.fleet.root / "script.json"
        script.write_text(json.dumps({"sides_take_turns": True}))
        service = self.fleet.model_server(script, "--wire", "openai-chat", "--strict", KEY)
        provider = Provider(CASES[0], service, self.direct, "local", self.executor_id)
        self.preamble("Be brief.")
        for client, executor_id in self.everywhere():
            provider.push("one", "two", "three")
            chat, view, _ = self.begun(client, executor_id, "hello", **provider.chosen())
            self.assertEqual(provider.said_to_it(), [("user", "Be brief.\n\nhello")])
            accepted = client.run(client.run_body(view, chat, "more"))
            client.settled(chat, accepted.turn_id)
            said = [("user", "Be brief.\n\nhello"), ("assistant", "one"), ("user", "more")]
            self.assertEqual(provider.said_to_it(), said)
            body = client.made_body(chat, "fork")
            client.settled(body["chatId"], client.make(operations.FORK_RUN, body).turn_id)
            said += [("assistant", "two"), ("user", "fork")]
            self.assertEqual(provider.said_to_it(), said)
        self.assertEqual(provider.control("violations"), [])

    def test_a_workers_commands_only_read_them(self) -> None:
        """And the command lists them and names them, from both sides."""
        first, second = self.preamble("One."), self.preamble("Two.", enabled=False)
        listed = self.gateway.asked(operations.LIST_PREAMBLES)
        self.assertEqual([one.id for one in listed.preambles], [first, second])
        body = {"expectedRevision": 2, "id": first}
        self.assertEqual(self.gateway.refused(operations.DELETE_PREAMBLE, body), DENIED)
        for service in (self.controller, self.worker):
            shown = self.fleet.garcon(service, "list", "preambles", "--json").json["preambles"]
            self.assertEqual(
                [(one["id"], one["title"], one["enabled"]) for one in shown],
                [(first, "One.", True), (second, "Two.", False)],
            )
            words = ("start", *SCRIPTED, "--cwd", self.project, "hello")
            for more, told in (
                ((), "One.\n\nhello"),
                (("--no-preamble",), "hello"),
                (("--preamble", first), "One.\n\nhello"),
            ):
                done = self.fleet.garcon(service, *words, *more)
                self.assertTrue(done.out.endswith(f"You said: {told}\n"), done.out)
            refused = self.fleet.garcon(service, *words, "--preamble", second, check=False)
            self.assert_refused(refused, 2, "PREAMBLE_SELECTION_COMPOSITION_INVALID")

    def test_they_survive_a_crash(self) -> None:
        """Catalog, selections and all."""
        self.preamble("One.")
        chat, _ = self.echoed(self.direct, "local")
        before = self.direct.asked(operations.LIST_PREAMBLES)
        self.controller.kill()
        self.controller = self.fleet.controller()
        own = self.controller.descriptor()
        client = StrictClient(own["baseUrl"], own["localCapability"])
        self.assertEqual(client.asked(operations.LIST_PREAMBLES), before)
        body = client.made_body(chat, "fork")
        accepted = client.make(operations.FORK_RUN, body)
        receipt: Any = client.settled(body["chatId"], accepted.turn_id)
        self.assertEqual(receipt.output.text, "You said: fork")


class SettingsTests(StrictTestCase):
    """What a workspace keeps of what people choose."""

    def heard(self) -> list[Any]:
        """The settings that the socket was told of by now."""
        self.socket.ping()
        return [event.settings for event in self.socket.heard(SettingsUpdated)]

    def test_a_change_is_told_with_the_whole_snapshot(self) -> None:
        """Once, and both endpoints read the same; a worker's commands may not change them."""
        patch = {"ui": {"pinnedInsertPosition": "bottom", "chatTitle": {"enabled": False}}}
        changed = self.direct.asked(operations.CHANGE_SETTINGS, patch).settings
        self.assertEqual(self.heard(), [changed])
        self.direct.asked(operations.CHANGE_SETTINGS, patch)
        self.assertEqual(self.heard(), [changed])
        for client in (self.direct, self.gateway):
            self.assertEqual(client.asked(operations.READ_SETTINGS), changed)
        self.assertEqual(self.gateway.refused(operations.CHANGE_SETTINGS, patch), DENIED)
        off = {"features": {"transcriptSearch": {"enabled": False}}}
        self.assertEqual(self.gateway.asked(operations.CHANGE_SETTINGS, off).settings, changed)
        refused = self.direct.refused(operations.CHANGE_SETTINGS, {"ui": {"chatTitle": 1}})
        self.assertEqual(refused, (400, "INVALID_REMOTE_SETTINGS", False))

    def test_interactive_starts_are_remembered(self) -> None:
        """With their executor and directory, over a crash; those of a command are not."""
        for executor_id in ("local", self.executor_id):
            self.begun(self.direct, executor_id, "say one", origin="cli")
        self.assertEqual(self.heard(), [])
        for executor_id in ("local", self.executor_id):
            self.begun(self.direct, executor_id, "say one", origin="interactive")
        *_, last = self.heard()
        recents = [(one.executor_id, one.agent_id) for one in last.recent_agent_settings]
        self.assertEqual(recents, [(self.executor_id, "scripted"), ("local", "scripted")])
        self.assertEqual(last.paths.recent_project_paths, [self.project])
        there = last.paths.by_executor[self.executor_id]
        self.assertEqual(there.recent_project_paths, [self.project])
        self.controller.kill()
        self.controller = self.fleet.controller()
        own = self.controller.descriptor()
        client = StrictClient(own["baseUrl"], own["localCapability"])
        after = client.asked(operations.READ_SETTINGS)
        self.assertEqual((after.version, after.paths), (last.version, last.paths))

    def test_the_command_starts_with_the_execution_defaults(self) -> None:
        """From both sides; a mode that asks nothing has to be named."""
        defaults = {
            "global": {"thinkingMode": "high"},
            "byAgent": {"scripted": {"permissionMode": "acceptEdits"}},
        }
        self.direct.asked(operations.CHANGE_SETTINGS, {"executionDefaults": defaults})
        for service in (self.controller, self.worker):
            shown = self.fleet.garcon(service, "list", "permissions", "--agent", "scripted")
            self.assertIn("acceptEdits", shown.out)
            chat = self.start(service, "say one").handle()[0]
            found = self.snapshot(service, chat)["chat"]
            self.assertEqual(
                (found["permissionMode"], found["thinkingMode"]), ("acceptEdits", "high")
            )
            chat = self.start(service, "say one", "--permissions", "plan").handle()[0]
            self.assertEqual(self.snapshot(service, chat)["chat"]["permissionMode"], "plan")
        defaults["byAgent"] = {"scripted": {"permissionMode": "bypassPermissions"}}
        self.direct.asked(operations.CHANGE_SETTINGS, {"executionDefaults": defaults})
        for service in (self.controller, self.worker):
            refused = self.start(service, "say one", check=False)
            self.assert_refused(refused, 2, "--permissions bypassPermissions")
