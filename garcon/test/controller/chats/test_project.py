"""The project directory of a chat (chats.md 3.29, 3.35, 5.18)."""

from __future__ import annotations

from typing import Any

from msgspec import structs
from twisted.internet.defer import Deferred, fail, succeed

from garcon.contract import operations
from garcon.contract.events import ProjectPathUpdated
from garcon.contract.limits import INTERACTIVE_READ
from garcon.contract.runs import ProjectInspection
from garcon.errors import CallError, GarconError, LaneLost
from garcon.runtime.projects import NO_ACCESS
from garcon.test.controller.chats.cast import CHAT, WORKER, ChatsTestCase, Said
from garcon.testing.fake_runtime import agent_entry

UNKNOWN = "1767000000000009"
GONE = (404, "SESSION_NOT_FOUND", False)
INVALID = (400, "VALIDATION_FAILED", False)
NOT_IDLE = (409, "CHAT_NOT_IDLE", True)
AWAY = (503, "EXECUTOR_UNAVAILABLE", True)
REFUSALS = {
    "PROJECT_PATH_OUTSIDE_BASE": (403, "outside_base_dir"),
    "PROJECT_PATH_NOT_FOUND": (404, "path_not_found"),
    "PROJECT_PATH_NOT_DIRECTORY": (400, "not_directory"),
}


class ProjectCase(ChatsTestCase):
    """An idle chat whose agent can go on elsewhere."""

    moves = True
    needs_native_path = False
    needs_history = False

    def setUp(self) -> None:
        super().setUp()
        self.view = self.started()
        self.told.clear()
        self.old, self.new = f"{self.base}/p", f"{self.base}/q"

    def open_process(self, instance: str = "instance-1") -> None:
        """Let every agent of the process be one that moves."""
        super().open_process(instance)
        self.local.agents = self.worker.agents = [
            structs.replace(
                agent_entry(),
                supports_update_project_path=self.moves,
                requires_native_path_for_project_path_update=self.needs_native_path,
                needs_history=self.needs_history,
            )
        ]

    def move(self, path: str, **more: Any) -> Said:
        """Ask for another directory."""
        body = {"chatId": CHAT, "projectPath": path} | more
        return self.asked(operations.CHANGE_PROJECT_PATH, body)

    def path(self) -> Any:
        """Return where the next turn would run, after a restart."""
        self.restart()
        return self.snapshot(limit=0).body["chat"]["projectPath"]


class ChangeTests(ProjectCase):
    """`PATCH /chats/project-path`."""

    def test_a_chat_goes_on_elsewhere(self) -> None:
        """Answered with what is and what was; told, durable, and where the next turn runs."""
        paths = {
            "projectPath": self.new,
            "effectiveProjectKey": self.new,
            "previousProjectPath": self.old,
            "previousEffectiveProjectKey": self.old,
        }
        answer = self.move(f" {self.new} ")
        self.assertEqual(answer.body, {"success": True, "chatId": CHAT} | paths)
        self.assertEqual(
            self.told,
            [
                ProjectPathUpdated(
                    chat_id=CHAT,
                    project_path=self.new,
                    effective_project_key=self.new,
                    previous_project_path=self.old,
                    previous_effective_project_key=self.old,
                )
            ],
        )
        self.assertEqual(self.path(), self.new)
        self.run_chat(self.view)
        self.assertEqual(self.local.last.launch.project_path, self.new)

    def test_the_agent_is_told_what_was_said_so_far(self) -> None:
        """Its session is found by the directory it began in, so another one begins."""
        self.move(self.new)
        self.run_chat(self.view)
        launch = self.local.last.launch
        self.assertIsNone(launch.agent_session_id)
        self.assertEqual([one.content for one in launch.history], ["hello", "hi"])
        self.local.last.session("another")
        self.local.last.finish()
        self.run_chat(self.view)
        self.assertEqual(self.local.last.launch.agent_session_id, "another")

    def test_the_same_path_changes_nothing(self) -> None:
        """Even while a turn runs, and whatever its executor does; links are followed."""
        self.run_chat(self.view)
        writes = self.memory.writes
        self.local.reads.append(succeed(ProjectInspection(self.old, self.old)))
        linked = self.move(f"{self.base}/link-to-p")
        self.executors.states["local"] = "offline"
        for answer in (linked, self.move(self.old)):
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.body["projectPath"], answer.body["previousProjectPath"])
        self.assertEqual(self.memory.writes, writes)
        self.assertEqual([e for e in self.told if isinstance(e, ProjectPathUpdated)], [])
        self.local.last.finish()
        self.executors.states["local"] = "ready"
        self.run_chat(self.view)
        self.assertEqual(self.local.last.launch.agent_session_id, "agent-session")

    def test_a_chat_that_is_not_idle(self) -> None:
        """While a turn runs, from its admission until its last row is kept."""
        self.run_chat(self.view)
        self.assertEqual(self.move(self.new).failure, NOT_IDLE)
        self.memory.held = True
        self.local.last.finish()
        self.assertEqual(self.move(self.new).failure, NOT_IDLE)
        self.memory.release()
        self.assertEqual(self.move(self.new).status, 200)

    def test_a_directory_that_cannot_be_used(self) -> None:
        """As the executor says, and nothing changes."""
        for code, (status, _) in REFUSALS.items():
            self.local.reads.append(fail(GarconError(code, "no", status=status)))
            self.assertEqual(self.move(self.new).failure, (status, code, False))
        self.local.reads.append(fail(GarconError(NO_ACCESS, "no", status=403)))
        self.assertEqual(self.move(self.new).failure, (404, "PROJECT_PATH_NOT_FOUND", False))
        self.assertEqual(self.path(), self.old)

    def test_the_executor_of_the_chat_judges(self) -> None:
        """A worker's directory is no business of this machine."""
        self.started(chatId=UNKNOWN, executorId=WORKER)
        self.worker.reads.append(succeed(ProjectInspection("/elsewhere", "/elsewhere")))
        self.assertEqual(self.move("/elsewhere", chatId=UNKNOWN).status, 200)
        self.executors.states[WORKER] = "offline"
        self.assertEqual(self.move("/other", chatId=UNKNOWN).failure, AWAY)

    def test_an_executor_that_says_nothing(self) -> None:
        """It has its time, and then the chat is where it was."""
        self.local.reads.append(Deferred())
        body = {"chatId": CHAT, "projectPath": self.new}
        d = self.ask(operations.CHANGE_PROJECT_PATH, body)
        self.clock.advance(INTERACTIVE_READ)
        self.assertEqual(self.successResultOf(d).failure, AWAY)

    def test_malformed_and_unknown(self) -> None:
        """400 and 404."""
        for body in ({"projectPath": " "}, {"chatId": "17"}, {"projectPath": 7}):
            self.assertEqual(self.move(**({"path": self.new} | body)).failure, INVALID, body)
        self.assertEqual(self.move(self.new, chatId=UNKNOWN).failure, GONE)

    def test_a_store_that_refuses(self) -> None:
        """The chat is where it was, with the session that it had."""
        self.memory.refusals = 1
        self.assertEqual(self.move(self.new).failure, (500, "INTERNAL_ERROR", True))
        self.assertEqual(self.told, [])
        self.run_chat(self.view)
        self.assertEqual(self.local.last.launch.agent_session_id, "agent-session")


class SettledAgentTests(ProjectCase):
    """An agent that cannot go on elsewhere."""

    moves = False

    def test_is_refused(self) -> None:
        """422; but the directory it has is right."""
        failure = (422, "PROJECT_PATH_UPDATE_UNSUPPORTED", False)
        self.assertEqual(self.move(self.new).failure, failure)
        self.assertEqual(self.move(self.old).status, 200)


class NativePathTests(ProjectCase):
    """An agent that takes its session along, and so must have one."""

    needs_native_path = True

    def test_without_a_session_it_is_not_resolved(self) -> None:
        """409, which may pass."""
        self.start(chatId=UNKNOWN)
        self.local.last.finish()
        answer = self.move(self.new, chatId=UNKNOWN)
        self.assertEqual(answer.failure, (409, "PROJECT_PATH_NATIVE_PATH_UNRESOLVED", True))

    def test_its_session_goes_on(self) -> None:
        """In the other directory."""
        self.assertEqual(self.move(self.new).status, 200)
        self.run_chat(self.view)
        launch = self.local.last.launch
        self.assertEqual(
            (launch.project_path, launch.agent_session_id), (self.new, "agent-session")
        )


class NoSessionTests(ProjectCase):
    """An agent that is told everything with each turn."""

    needs_history = True

    def test_nothing_is_lost(self) -> None:
        """It knows no directory."""
        self.assertEqual(self.move(self.new).status, 200)
        self.run_chat(self.view)
        launch = self.local.last.launch
        self.assertEqual(launch.agent_session_id, "agent-session")
        self.assertEqual([one.content for one in launch.history], ["hello", "hi"])


class ValidateStartTests(ProjectCase):
    """`GET /chats/validate-start`."""

    def validate(self, **query: Any) -> Said:
        """Ask about a directory."""
        return self.asked(operations.VALIDATE_START, query=query)

    def test_a_directory_that_can_be_used(self) -> None:
        """And whether it is a Git work tree."""
        self.assertEqual(self.validate(path=self.new).body, {"valid": True, "isGitRepo": False})
        self.local.reads.append(succeed(ProjectInspection("/p", "/p", True)))
        self.assertEqual(self.validate(path="/p").body, {"valid": True, "isGitRepo": True})

    def test_why_a_directory_cannot_be_used(self) -> None:
        """An answer, not a failure: 200 with a code of its own, from near and far."""
        codes = {code: verdict for code, (_, verdict) in REFUSALS.items()}
        codes |= {NO_ACCESS: "permission_denied", "VALIDATION_FAILED": "unknown"}
        for code, verdict in codes.items():
            for error in (
                GarconError(code, "because", status=403),
                CallError(code, "because", outcome="rejected", status=403),
            ):
                self.local.reads.append(fail(error))
                answer = self.validate(path="/x")
                self.assertEqual(answer.status, 200)
                self.assertEqual(
                    answer.body,
                    {
                        "success": False,
                        "valid": False,
                        "error": "because",
                        "errorCode": verdict,
                        "retryable": False,
                    },
                )

    def test_no_path(self) -> None:
        """The same shape, with status 400."""
        for query in ({}, {"path": ""}, {"path": "  "}):
            answer = self.validate(**query)
            self.assertEqual((answer.status, answer.body["valid"]), (400, False))
            self.assertEqual(answer.failure, (400, "path_required", False))

    def test_another_executor(self) -> None:
        """It is asked; one that is away, unknown or malformed is an error and never Local."""
        self.worker.reads.append(succeed(ProjectInspection("/w", "/w", True)))
        self.assertTrue(self.validate(path="/w", executorId=WORKER).body["isGitRepo"])
        self.executors.states[WORKER] = "offline"
        self.assertEqual(self.validate(path=self.new, executorId=WORKER).failure, AWAY)
        malformed = self.validate(path=self.new, executorId="there")
        self.assertEqual(malformed.failure, INVALID)
        other = "22222222-2222-4222-8222-222222222222"
        self.assertEqual(
            self.validate(path=self.new, executorId=other).failure,
            (404, "EXECUTOR_NOT_FOUND", False),
        )

    def test_a_link_that_is_lost(self) -> None:
        """Nothing is known of the directory."""
        self.local.reads.append(fail(LaneLost("cut")))
        self.assertEqual(self.validate(path="/x").failure, AWAY)
