"""Looking after chats, as a strict client meets it: at both endpoints, on both executors, over
restarts (chats.md 3.1 to 3.3, 3.20, 3.25 to 3.29, 3.33 to 3.35, 3.37).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from garcon.contract import operations
from garcon.contract.messages import TranscriptNotice
from garcon.contract.upkeep import StartInvalid
from garcon.test.live.strict import INVALID, StrictTestCase
from garcon.testing.fleet import eventually
from garcon.testing.strict_client import StrictClient
from garcon.testing.strict_rules import exactly, refusal

GONE = (404, "SESSION_NOT_FOUND", False)
DENIED = (403, "CLI_ACCESS_DENIED", False)
COLOURS = {"lightAccent": "#aabbcc", "darkAccent": "#001122"}


class Forwarded(StrictTestCase):
    """What a worker's gateway carries too (control.md F.5)."""

    def test_places_tags_names_and_sessions(self) -> None:
        """Desired states converge; the list shows them at once, everywhere."""
        for client, executor_id in self.everywhere():
            chat, _, _ = self.begun(client, executor_id, "say one")
            for changed in (True, False):
                pinned = client.asked(operations.PIN, {"chatId": chat, "pinned": True})
                self.assertEqual((pinned.pinned, pinned.changed), (True, changed))
            self.assertEqual((client.chats()[0].id, client.chats()[0].is_pinned), (chat, True))
            archived = client.asked(operations.ARCHIVE, {"chatId": chat, "archived": True})
            self.assertTrue(archived.changed)
            self.assertEqual(self.entry(client, chat).order_group, "archived")
            tags = {"chatId": chat, "tags": ["B b", "a", "!"]}
            for changed in (True, False):
                put = client.asked(operations.SET_TAGS, tags)
                self.assertEqual((put.tags, put.changed), (["a", "b-b"], changed))
            read = client.asked(operations.READ_TAGS, query={"chatId": chat})
            self.assertEqual(read.tags, ["a", "b-b"])
            for changed in (True, False):
                named = client.asked(operations.SESSION_NAME, {"chatId": chat, "title": " New "})
                self.assertEqual((named.title, named.changed), ("New", changed))
            entry = self.entry(client, chat)
            self.assertEqual((entry.title, entry.tags), ("New", ["a", "b-b"]))
            session = self.session(chat)
            looked_up = {"nativeSessionId": session, "executorId": executor_id}
            found = client.asked(operations.LOOKUP_NATIVE_SESSION, looked_up).matches
            self.assertEqual([one.chat_id for one in found], [chat])
            elsewhere = "local" if executor_id != "local" else self.executor_id
            looked_up["executorId"] = elsewhere
            found = client.asked(operations.LOOKUP_NATIVE_SESSION, looked_up).matches
            self.assertEqual(found, [])

    def test_rows(self) -> None:
        """Idle and while a turn runs; the same again is the row that is there."""
        for client, executor_id in self.everywhere():
            chat, view, _ = self.begun(client, executor_id, "say one")
            seen = client.asked(operations.READ_ROWS, query={"chatId": chat})
            self.assertEqual(seen.transcript_view_id, view)
            before = self.entry(client, chat)
            last = client.messages(chat).last_ordinal
            row = self.row(client, chat, view, type="notice", title="T", content="look\n")
            added = client.asked(operations.ADD_ROW, row)
            self.assertEqual(
                (added.status, added.ordinal, added.type), ("appended", last + 1, "notice")
            )
            again = client.asked(operations.ADD_ROW, row)
            self.assertEqual((again.status, again.timestamp), ("duplicate", added.timestamp))
            other = {**row, "content": "else"}
            conflict = (409, "IDEMPOTENCY_CONFLICT", False)
            self.assertEqual(client.refused(operations.ADD_ROW, other), conflict)
            self.assertEqual(self.entry(client, chat), before)
            run = client.run(client.run_body(view, chat, "sleep 60"))
            style = {"style": "custom", "customStyle": COLOURS}
            styled = self.row(
                client, chat, view, presentation=style, format="markdown", content="*look*"
            )
            self.assertEqual(client.asked(operations.ADD_ROW, styled).type, "custom")
            message = client.messages(chat).messages[-1].message
            assert isinstance(message, TranscriptNotice)
            self.assertEqual((message.content, message.format), ("*look*", "markdown"))
            client.stop({"clientRequestId": client.request_id(), "chatId": chat})
            self.assertEqual(client.receipt(chat, run.turn_id).state, "interrupted")

    def test_what_it_does_not_carry(self) -> None:
        """Browsers' own operations are refused there, and have no effect."""
        chat, _, _ = self.begun(self.gateway, "local", "say one")
        before = self.entry(self.direct, chat)
        for operation in (
            operations.DELETE_CHAT,
            operations.SELECT_CHAT,
            operations.TOGGLE_PIN,
            operations.TOGGLE_ARCHIVE,
            operations.REORDER_CHAT,
            operations.MARK_READ,
            operations.CHANGE_TAGS,
            operations.CHANGE_EXECUTION_SETTINGS,
            operations.CHANGE_MODEL,
            operations.CHANGE_PROJECT_PATH,
            operations.RUNNING_CHATS,
            operations.CHAT_DETAILS,
            operations.VALIDATE_START,
        ):
            body = None if operation.body is None else {"chatId": chat}
            self.assertEqual(self.gateway.refused(operation, body), DENIED, operation.route)
        self.assertEqual(self.entry(self.direct, chat), before)

    def session(self, chat: str) -> str:
        """Return the agent's name of a chat's session."""
        details = self.direct.asked(operations.CHAT_DETAILS, query={"chatId": chat})
        name: str = details.agent_session_id
        return name

    def entry(self, client: StrictClient, chat: str) -> Any:
        """Return how a chat is listed."""
        return next(entry for entry in client.chats() if entry.id == chat)

    def row(self, client: StrictClient, chat: str, view: str, **more: Any) -> dict[str, Any]:
        """Return a row that is in order."""
        body = {
            "clientRequestId": client.request_id(),
            "clientMessageId": client.request_id(),
            "chatId": chat,
            "transcriptViewId": view,
        }
        return body | more


class Direct(StrictTestCase):
    """What only the controller itself is asked."""

    def test_a_running_chat_is_deleted_for_good(self) -> None:
        """Its agent is stopped where it runs, its receipt says why, and it never comes back."""
        chats = []
        for executor_id in ("local", self.executor_id):
            body = self.direct.start_body(executor_id, self.project, "say one\nrun sleep 61")
            started = self.direct.start(body)
            eventually("the agent's command", self.sleepers)
            self.direct.asked(operations.DELETE_CHAT, {"chatId": started.chat_id})
            receipt = self.direct.receipt(started.chat_id, started.turn_id)
            self.assertEqual((receipt.state, receipt.reason), ("interrupted", "chat-deleted"))
            eventually("the end of the agent's command", lambda: not self.sleepers())
            again = self.direct.start(body, "duplicate")
            self.assertIsNone(again.chat)
            chats.append(started.chat_id)
        self.assert_gone(chats)
        self.assertEqual(self.direct.refused(operations.DELETE_CHAT, {"chatId": "1"}), INVALID)
        self.reopen()
        self.assert_gone(chats)

    def test_everything_survives_a_restart(self) -> None:
        """After a kill: the order, groups, tags, names, marks, settings and rows."""
        chats = [self.begun(self.direct, "local", f"say {name}")[0] for name in "abcd"]
        a, b, c, d = chats
        self.assertTrue(self.direct.asked(operations.TOGGLE_PIN, {"chatId": a}).is_pinned)
        self.assertTrue(self.direct.asked(operations.TOGGLE_ARCHIVE, {"chatId": b}).is_archived)
        placement = {"kind": "relative", "referenceChatId": d, "position": "before"}
        moved = self.direct.asked(operations.REORDER_CHAT, {"chatId": c, "placement": placement})
        self.assertEqual((moved.order_group, moved.changed), ("normal", True))
        self.direct.asked(operations.CHANGE_TAGS, {"chatId": c, "tags": ["X"]})
        self.direct.asked(operations.SESSION_NAME, {"chatId": d, "title": "named"})
        marks = self.direct.asked(
            operations.MARK_READ, {"entries": [{"chatId": one} for one in chats]}
        )
        self.assertEqual([mark.chat_id for mark in marks.results], chats)
        self.direct.asked(
            operations.CHANGE_EXECUTION_SETTINGS, {"chatId": c, "thinkingMode": "think"}
        )
        self.direct.asked(operations.CHANGE_MODEL, {"chatId": c, "model": "scripted"})
        selected = self.direct.asked(operations.SELECT_CHAT, {"chatId": d})
        self.assertEqual(selected.last_selected_chat_id, d)
        before = self.direct.chats()
        self.assertEqual([entry.id for entry in before], [a, c, d, b])
        self.assertFalse(any(entry.is_unread for entry in before))
        self.reopen(kill=True)
        self.assertEqual(self.direct.chats(), before)
        self.assertIsNone(self.direct.asked(operations.LIST_CHATS).last_selected_chat_id)

    def test_directories(self) -> None:
        """Judged by the executor that is asked; the one a chat has is always right."""
        for executor_id in ("local", self.executor_id):
            for path, code in (
                ("/", "outside_base_dir"),
                (f"{self.project}/gone", "path_not_found"),
                (f"{self.project}/file", "not_directory"),
            ):
                (self.fleet.project("project") / "file").touch()
                query = {"path": path, "executorId": executor_id}
                said = self.direct.ask(operations.VALIDATE_START, query=query)
                self.assertEqual(said.status, 200)
                self.assertEqual(exactly(said.body, StartInvalid).error_code, code)
            query = {"path": self.project, "executorId": executor_id}
            self.assertFalse(self.direct.asked(operations.VALIDATE_START, query=query).is_git_repo)
            (self.fleet.project("project") / ".git").mkdir()
            self.assertTrue(self.direct.asked(operations.VALIDATE_START, query=query).is_git_repo)
            (self.fleet.project("project") / ".git").rmdir()
            chat, _, _ = self.begun(self.direct, executor_id, "say one")
            same = {"chatId": chat, "projectPath": self.project}
            changed = self.direct.asked(operations.CHANGE_PROJECT_PATH, same)
            self.assertEqual(changed.previous_project_path, self.project)
            outside = {"chatId": chat, "projectPath": "/"}
            self.assertEqual(
                self.direct.refused(operations.CHANGE_PROJECT_PATH, outside),
                (403, "PROJECT_PATH_OUTSIDE_BASE", False),
            )
        said = self.direct.ask(operations.VALIDATE_START)
        self.assertEqual(
            (said.status, exactly(said.body, StartInvalid).error_code), (400, "path_required")
        )

    def test_what_runs(self) -> None:
        """By agent, on every executor."""
        self.assertEqual(self.direct.asked(operations.RUNNING_CHATS).sessions["scripted"], [])
        body = self.direct.start_body(self.executor_id, self.project, "sleep 60")
        chat = self.direct.start(body).chat_id
        running = self.direct.asked(operations.RUNNING_CHATS).sessions["scripted"]
        self.assertEqual([one.id for one in running], [chat])
        details = self.direct.asked(operations.CHAT_DETAILS, query={"chatId": chat})
        self.assertEqual(
            (details.executor_id, details.first_message), (self.executor_id, "sleep 60")
        )

    def test_unknown_chats(self) -> None:
        """404 of every operation on one, with the whole envelope."""
        unknown = "1700000000000000"
        top = {"kind": "boundary", "boundary": "top"}
        for operation, more in (
            (operations.DELETE_CHAT, {}),
            (operations.SELECT_CHAT, {}),
            (operations.TOGGLE_PIN, {}),
            (operations.TOGGLE_ARCHIVE, {}),
            (operations.PIN, {"pinned": True}),
            (operations.ARCHIVE, {"archived": True}),
            (operations.REORDER_CHAT, {"placement": top}),
            (operations.CHANGE_TAGS, {"tags": []}),
            (operations.SET_TAGS, {"tags": []}),
            (operations.CHANGE_EXECUTION_SETTINGS, {}),
            (operations.CHANGE_MODEL, {"model": "scripted"}),
            (operations.CHANGE_PROJECT_PATH, {"projectPath": self.project}),
            (operations.SESSION_NAME, {"title": "x"}),
        ):
            body: dict[str, Any] = {"chatId": unknown} | more
            self.assertEqual(self.direct.refused(operation, body), GONE, operation.route)
        for operation in (operations.READ_TAGS, operations.READ_ROWS, operations.CHAT_DETAILS):
            said = self.direct.ask(operation, query={"chatId": unknown})
            self.assertEqual(refusal(said), GONE, operation.route)

    def sleepers(self) -> list[int]:
        """Return the commands that agents of this fleet run now."""
        found = []
        for pid in self.fleet.left_over():
            try:
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b"sleep\x0061" in line:
                found.append(pid)
        return found

    def assert_gone(self, chats: list[str]) -> None:
        """Assert that nothing is known of these chats."""
        self.assertEqual(self.direct.chats(), [])
        for chat in chats:
            self.assertEqual(self.direct.refused(operations.MESSAGES, query={"chatId": chat}), GONE)

    def reopen(self, *, kill: bool = False) -> None:
        """End the controller and start another on the same folder and port."""
        if kill:
            self.controller.kill()
        else:
            self.assertEqual(self.controller.stop(), 0)
        self.controller = self.fleet.controller(
            config=self.controller.config, port=self.controller.port
        )
        own = self.controller.descriptor()
        self.direct = StrictClient(own["baseUrl"], own["localCapability"])
