"""Preambles over their routes, and in the turns of chats (control.md D)."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from garcon.contract import operations
from garcon.controller.preambles.service import PreambleService
from garcon.store.records import PutSetting
from garcon.test.controller.chats.cast import CHAT, WORKER, ChatsTestCase, Said
from garcon.testing.fake_runtime import agent_entry

NOBODY = "0f8b9d52-6a3e-4e0e-9d07-7a3c5d9a1b12"


class PreamblesTestCase(ChatsTestCase):
    """Chats whose workspace has preambles."""

    def open_process(self, instance: str = "instance") -> None:
        super().open_process(instance)
        self.preambles = PreambleService(
            self.store, self.executors, self.clock, wall_clock=lambda: self.time
        )
        self.successResultOf(self.preambles.load())
        self.preambles.register(self.handlers)
        self.chats.use_preambles(self.preambles)

    def read(self) -> Any:
        return self.asked(operations.LIST_PREAMBLES).body

    def create(self, content: str, **more: Any) -> Said:
        """Add a preamble."""
        preamble = {
            "enabled": True,
            "title": content,
            "content": content,
            "scope": {"type": "global"},
            "agentIds": [],
            "tagFilter": {"mode": "any", "tags": []},
        }
        body = {"expectedRevision": self.read()["revision"], "preamble": preamble | more}
        return self.asked(operations.CREATE_PREAMBLE, body)

    def made(self, content: str, **more: Any) -> str:
        """Add a preamble; returns its id."""
        answer = self.create(content, **more)
        self.assertEqual(answer.status, 201, answer.body)
        preamble_id: str = answer.body["snapshot"]["preambles"][-1]["id"]
        return preamble_id


class RouteTests(PreamblesTestCase):
    """The catalog."""

    def test_it_begins_empty_and_is_kept(self) -> None:
        """Over a restart."""
        self.assertEqual(self.read(), {"revision": 0, "preambles": []})
        first = self.made("one")
        self.made("two")
        before = self.read()
        self.restart()
        self.assertEqual(self.read(), before)
        self.assertEqual((before["revision"], before["preambles"][0]["id"]), (2, first))
        self.assertEqual(before["preambles"][0]["createdAt"], "2026-01-02T03:04:05.000Z")

    def test_change_reorder_and_delete(self) -> None:
        """Each answered with the whole catalog."""
        first, second = self.made("one"), self.made("two")
        changed = dict(self.read()["preambles"][0], title="new")
        for name in ("id", "createdAt", "updatedAt"):
            del changed[name]
        body: dict[str, Any] = {"expectedRevision": 2, "id": first, "preamble": changed}
        answer = self.asked(operations.REPLACE_PREAMBLE, body)
        self.assertEqual((answer.status, answer.body["success"]), (200, True))
        self.assertEqual(answer.body["snapshot"]["preambles"][0]["title"], "new")
        body = {"expectedRevision": 3, "orderedPreambleIds": [second, first]}
        answer = self.asked(operations.REORDER_PREAMBLES, body)
        ids = [one["id"] for one in answer.body["snapshot"]["preambles"]]
        self.assertEqual(ids, [second, first])
        body = {"expectedRevision": 4, "id": first}
        answer = self.asked(operations.DELETE_PREAMBLE, body)
        self.assertEqual(answer.body["snapshot"]["revision"], 5)
        answer = self.asked(operations.DELETE_PREAMBLE, body)
        self.assertEqual(answer.failure, (409, "PREAMBLE_REVISION_CONFLICT", False))

    def test_a_key_too_many(self) -> None:
        """Anywhere, is refused."""
        self.assertEqual(self.create("x", more=1).status, 400)
        self.assertEqual(self.create("x", scope={"type": "global", "more": 1}).status, 400)
        body = {"expectedRevision": 0, "id": "x", "more": 1}
        self.assertEqual(self.asked(operations.DELETE_PREAMBLE, body).status, 400)

    def test_directories_are_resolved_by_their_executor(self) -> None:
        """And kept as it spells them; what it refuses has codes of its own."""
        rule = {"projectPath": f"{self.base}/./p", "includeNested": True}
        self.made("x", scope={"type": "project-paths", "rules": [rule]})
        kept = self.read()["preambles"][0]["scope"]["rules"][0]
        self.assertEqual(kept, {"projectPath": f"{self.base}/p", "includeNested": True})
        rule["projectPath"] = f"{self.base}/missing"
        answer = self.create("y", scope={"type": "project-paths", "rules": [rule]})
        self.assertEqual(answer.failure, (400, "PREAMBLE_PROJECT_PATH_NOT_FOUND", False))
        rule["executorId"] = NOBODY
        answer = self.create("y", scope={"type": "project-paths", "rules": [rule]})
        self.assertEqual(answer.status, 404)

    def test_a_directory_that_it_had_is_not_asked_about_again(self) -> None:
        """A preamble can be switched off while its executor is away; a new directory is asked."""
        rule = {"projectPath": f"{self.base}/p", "includeNested": True, "executorId": WORKER}
        scope = {"type": "project-paths", "rules": [rule]}
        preamble_id = self.made("x", scope=scope)
        self.executors.states[WORKER] = "offline"
        body: dict[str, Any] = {"expectedRevision": 1, "id": preamble_id}
        given = {"enabled": False, "title": "x", "content": "x", "scope": scope}
        answer = self.asked(operations.REPLACE_PREAMBLE, body | {"preamble": given})
        self.assertEqual(answer.status, 200, answer.body)
        other = rule | {"projectPath": f"{self.base}/q"}
        given |= {"scope": {"type": "project-paths", "rules": [rule, other]}}
        body["expectedRevision"] = 2
        answer = self.asked(operations.REPLACE_PREAMBLE, body | {"preamble": given})
        self.assertEqual(answer.failure, (503, "EXECUTOR_UNAVAILABLE", True))

    def test_a_revision_that_is_old(self) -> None:
        """Is told before any directory is looked at, and so is an id that does not exist."""
        rule = {"projectPath": f"{self.base}/missing", "includeNested": True}
        given = {"enabled": True, "title": "x", "content": "x"}
        given["scope"] = {"type": "project-paths", "rules": [rule]}
        for operation, body, failure in (
            (operations.CREATE_PREAMBLE, {}, (409, "PREAMBLE_REVISION_CONFLICT", False)),
            (
                operations.REPLACE_PREAMBLE,
                {"id": "x"},
                (409, "PREAMBLE_REVISION_CONFLICT", False),
            ),
            (
                operations.REPLACE_PREAMBLE,
                {"id": "x", "expectedRevision": 0},
                (404, "PREAMBLE_NOT_FOUND", False),
            ),
        ):
            answer = self.asked(operation, {"expectedRevision": 7, "preamble": given} | body)
            self.assertEqual(answer.failure, failure)

    def test_bodies_that_have_not_their_shape(self) -> None:
        """Are told as what they say would be, whatever is wrong with them (D.1, D.5)."""
        refused = (400, "PREAMBLE_VALIDATION_FAILED", False)
        for title in ("x", None):
            self.assertEqual(self.create("x", title=title, extra=1).failure, refused)
        for operation in (
            operations.CREATE_PREAMBLE,
            operations.REPLACE_PREAMBLE,
            operations.DELETE_PREAMBLE,
            operations.REORDER_PREAMBLES,
        ):
            self.assertEqual(self.asked(operation, {"expectedRevision": "0"}).failure, refused)

    def test_two_spellings_of_one_directory(self) -> None:
        """Are one rule, given twice."""
        rules = [
            {"projectPath": f"{self.base}/p", "includeNested": True},
            {"projectPath": f"{self.base}/./p", "includeNested": True},
        ]
        answer = self.create("x", scope={"type": "project-paths", "rules": rules})
        self.assertEqual(answer.failure, (400, "PREAMBLE_VALIDATION_FAILED", False))

    def test_a_store_that_refuses(self) -> None:
        """Nothing has changed."""
        self.memory.refusals = 1
        self.assertEqual(self.create("x").status, 500)
        self.assertEqual(self.read()["revision"], 0)

    def test_an_illegible_catalog(self) -> None:
        """Is named in the log; none applies."""
        self.successResultOf(self.store.write([PutSetting("preambles", "{")]))
        self.restart()
        self.assertEqual(self.read()["revision"], 0)


class TurnTests(PreamblesTestCase):
    """What agents are told."""

    def test_a_new_chat_has_the_defaults(self) -> None:
        """Ahead of its first input; the row shows the input alone, and later turns have none."""
        self.made("Chat {{chat_id}}.")
        view = self.started()
        self.assertEqual(self.local.last.launch.prompt, f"Chat {CHAT}.\n\nhello")
        self.assertEqual(self.kinds()[0][2], "hello")
        self.run_chat(view)
        self.assertEqual(self.local.last.launch.prompt, "again")

    def test_a_selection_that_is_named(self) -> None:
        """Exactly that, in its order; an empty one is none."""
        first, second = self.made("one"), self.made("two")
        self.start(orderedPreambleIds=[second, first])
        self.assertEqual(self.local.last.launch.prompt, "two\n\none\n\nhello")
        self.start(chatId="1767323045000901", orderedPreambleIds=[])
        self.assertEqual(self.local.last.launch.prompt, "hello")

    def test_a_selection_that_cannot_apply(self) -> None:
        """Nothing is started, and each reason is given."""
        off = self.made("off", enabled=False)
        answer = self.start(orderedPreambleIds=[off])
        self.assertEqual(answer.failure, (422, "PREAMBLE_SELECTION_COMPOSITION_INVALID", False))
        self.assertEqual(answer.body["details"], f"{off}: disabled")
        answer = self.start(orderedPreambleIds=[off, "gone"])
        self.assertEqual(answer.failure, (404, "PREAMBLE_NOT_FOUND", False))
        self.assertEqual(answer.body["details"], f"{off}: disabled, gone: missing")
        self.assertEqual(self.listed(), [])

    def test_a_fork_is_told_again(self) -> None:
        """Ahead of the conversation that it goes on with."""
        self.made("Be brief.")
        self.started()
        fork = "1767323045000902"
        self.asked(operations.FORK, {"sourceChatId": CHAT, "chatId": fork})
        view = self.messages(fork).body["transcriptViewId"]
        self.run_chat(view, chatId=fork)
        launch = self.local.last.launch
        self.assertEqual([one.content for one in launch.history], ["Be brief.\n\nhello", "hi"])
        self.assertEqual(launch.prompt, "again")

    def test_an_agent_that_keeps_no_session(self) -> None:
        """Is told with every turn, at the head of the conversation."""
        self.local.agents = [structs.replace(agent_entry(), needs_history=True)]
        self.made("Be brief.")
        view = self.started()
        self.run_chat(view)
        history = [one.content for one in self.local.last.launch.history]
        self.assertEqual(history, ["Be brief.\n\nhello", "hi"])

    def test_a_change_of_hands_is_told_again(self) -> None:
        """And so is a continuation: both begin an agent's session (boundary kinds)."""
        self.made("Be brief.")
        view = self.started()
        self.local.agents.append(agent_entry("other"))
        epoch = self.listed()[0]["agentOwnershipEpoch"]
        target = {"agentId": "other", "model": "other"}
        handoff = {"expectedAgentOwnershipEpoch": epoch, "target": target}
        self.run_chat(view, handoff=handoff)
        launch = self.local.last.launch
        self.assertEqual([one.content for one in launch.history], ["Be brief.\n\nhello", "hi"])
        self.local.last.finish()
        body = {
            "clientRequestId": "c",
            "clientMessageId": "c",
            "sourceChatId": CHAT,
            "chatId": "1767323045000903",
            "command": "go on",
        }
        self.assertEqual(self.asked(operations.HANDOFF_RUN, body).status, 202)
        self.assertEqual(self.local.last.launch.history[0].content, "Be brief.\n\nhello")

    def test_another_executor(self) -> None:
        """Has only what is meant for it."""
        rule = {"projectPath": f"{self.base}/p", "includeNested": False}
        self.made("local", scope={"type": "project-paths", "rules": [rule]})
        self.start(executorId=WORKER)
        self.assertEqual(self.worker.last.launch.prompt, "hello")
