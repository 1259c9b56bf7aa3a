"""What the command does when answers are lost, late, wrong or refused: a pretend controller
tells.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli.main import run
from garcon.contract.notices import RECEIPT_CUT
from garcon.local.roots import ConfigRoot
from garcon.test.cli.test_status import a_snapshot
from garcon.test.live.test_cli_discovery import AGENT, MODELS
from garcon.testing.fake_controller import FakeController, FakeMachine
from garcon.testing.http_double import Asked, answer, refusal

CHAT, TURN = "1753000000000000", "turn-1"
SETTINGS = answer(
    {
        "version": 1,
        "features": {},
        "ui": {},
        "uiEffective": {},
        "paths": {},
        "pinnedChatIds": [],
        "recentAgentSettings": [],
        "projectBasePath": "/",
        "telegram": {},
        "executionDefaults": {"global": {"permissionMode": "default"}, "byAgent": {}},
    }
)
RECEIPT = "GET /chats/turn-receipt"
START = "POST /chats/start"
STOP = "POST /chats/stop"
WORKER = "5b7d1f0e-0000-4000-8000-00000000000b"


def accepted(command_type: str, **more: Any) -> Callable[[Asked], bytes]:
    """Accept whatever identity was sent."""

    def reply(asked: Asked) -> bytes:
        body = {
            "success": True,
            "commandType": command_type,
            "clientRequestId": asked.json["clientRequestId"],
            "chatId": asked.json["chatId"],
            "turnId": TURN,
            "status": "accepted",
            "acceptedAt": "2026-01-01T00:00:00.000Z",
            "parentChat": None,
        }
        return answer(body | more, 202)

    return reply


def receipt(state: str = "completed", **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "chatId": CHAT,
        "turnId": TURN,
        "clientRequestId": "r",
        "acceptedAt": "2026-01-01T00:00:00.000Z",
        "updatedAt": "2026-01-01T00:00:00.000Z",
        "state": state,
    }
    if state != "pending":
        fields["settledAt"] = "2026-01-01T00:00:00.000Z"
        fields["output"] = {
            "availability": "available",
            "completeness": "complete",
            "text": "the answer",
        }
    return fields | more


class RecoveryCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = ConfigRoot(self.mktemp())
        self.fake = FakeController()
        self.fake.double.__enter__()
        self.addCleanup(self.fake.double.stop)
        self.fake.publish(self.root)
        self.fake.on("GET /models", MODELS)
        self.fake.on("GET /app/settings", SETTINGS)
        self.machine = FakeMachine({"GARCON_CONFIG_DIR": self.root.path})

    def garcon(self, *words: str, stdin: bytes = b"") -> int:
        self.machine.stdin = stdin
        return run(list(words), self.machine.system())

    def start(self, *words: str) -> int:
        return self.garcon(
            "start-async", "--agent", "scripted", "--model", "scripted", "hello", *words
        )

    @property
    def out(self) -> str:
        return self.machine.stdout()

    @property
    def err(self) -> str:
        return self.machine.stderr()

    def replaced(self) -> None:
        """From now on another controller instance answers here."""
        self.fake.server_instance_id = "5b7d1f0e-0000-4000-8000-0000000000ff"


class SubmissionTests(RecoveryCase):
    def bodies(self, key: str = START) -> list[bytes]:
        return [asked.body for asked in self.fake.asked(key)]

    def test_body_of_a_start(self) -> None:
        """Everything is explicit: executor, resolved path, modes, settings, tags, origin."""
        self.fake.on(START, accepted("chat-start"))
        self.assertEqual(0, self.start("--cwd", self.root.path, "--tag", "B a", "--no-preamble"))
        body = json.loads(self.bodies()[0])
        for name in ("chatId", "clientRequestId", "clientMessageId"):
            self.assertTrue(body.pop(name))
        self.assertEqual(
            {
                "agentId": "scripted",
                "agentSettings": AGENT["defaultSettings"],
                "apiProviderId": None,
                "command": "hello",
                "executorId": "local",
                "model": "scripted",
                "modelEndpointId": None,
                "modelProtocol": None,
                "orderedPreambleIds": [],
                "origin": "cli",
                "permissionMode": "default",
                "projectPath": self.root.path,
                "tags": ["b-a", "cli"],
                "thinkingMode": "none",
            },
            body,
        )
        query = self.fake.asked("GET /models")[0].query
        self.assertEqual({"executorId": "local", "agent": "scripted"}, query)

    def test_a_lost_answer_is_asked_for_again(self) -> None:
        """The repetition is the same to the byte, after a pause and a verification."""
        self.fake.on(START, b"", answer(b"{half", 202), accepted("chat-start"))
        self.assertEqual(0, self.start())
        bodies = self.bodies()
        self.assertEqual((3, 1), (len(bodies), len(set(bodies))))
        self.assertEqual([0.1, 0.2], self.machine.slept)
        self.assertEqual(3, len(self.fake.asked("GET /runtime")))
        self.assertEqual(3, len(self.fake.asked("GET /cli/context")))

    def test_three_attempts_at_most(self) -> None:
        """After the third lost answer the outcome is told as unknown."""
        self.fake.on(START, refusal(503, "CLI_OUTCOME_UNKNOWN", "lost"))
        self.assertEqual(3, self.start())
        self.assertEqual(3, len(self.bodies()))
        self.assertTrue(self.err.startswith("transport recovery: chat "), self.err)
        chat = json.loads(self.bodies()[0])["chatId"]
        self.assertIn(f"chat {chat} may have been accepted", self.err)
        look = f"garcon status {chat} --config-dir {self.root.path} --runtime controller"
        self.assertIn(f"(look with: {look})", self.err)
        self.assertEqual("", self.out)

    def test_not_dispatched_is_not_unknown(self) -> None:
        """A busy bridge never ran anything, however often it says so; its wish is honoured, for
        fifteen seconds.
        """
        self.fake.on(START, refusal(503, "CLI_SERVICE_BUSY", "busy", retry_after=4))
        self.assertEqual(3, self.start())
        self.assertEqual([4.4] * 3, [round(seconds, 2) for seconds in self.machine.slept])
        self.assertIn("was not accepted", self.err)
        self.assertNotIn("look with", self.err)

    def test_a_busy_gateway_is_waited_for(self) -> None:
        """By reads and by what is submitted, which counts as sent only when it is taken."""
        busy = refusal(503, "CLI_SERVICE_BUSY", "busy", retry_after=1)
        self.fake.on("GET /cli/context", busy, answer(self.fake.context()))
        self.fake.on("GET /models", busy, busy, MODELS)
        self.fake.on(START, *[busy] * 5, accepted("chat-start"))
        self.assertEqual(0, self.start(), self.err)
        self.assertEqual([1.1] * 8, [round(seconds, 2) for seconds in self.machine.slept])
        self.assertEqual(1, len({asked.body for asked in self.fake.asked(START)}))

    def test_retry_after_is_capped(self) -> None:
        """Nobody makes a submission wait longer than five seconds."""
        self.fake.on(START, refusal(503, "X", retry_after=900), accepted("chat-start"))
        self.assertEqual(0, self.start())
        self.assertEqual([5.0], self.machine.slept)

    def test_a_later_refusal_does_not_undo_doubt(self) -> None:
        """Unknown first, refused next: still unknown, with the refusal told."""
        self.fake.on(START, b"", refusal(409, "CHAT_ID_COLLISION", "taken"))
        self.assertEqual(3, self.start())
        self.assertEqual(2, len(self.bodies()))
        self.assertIn("may have been accepted", self.err)
        self.assertIn("taken (HTTP 409, CHAT_ID_COLLISION)", self.err)

    def test_definite_refusals_are_final(self) -> None:
        """One attempt, the server's words, and the exit status of the code."""
        for reply, status, text in (
            (refusal(422, "EXPLICIT_BYPASS_REQUIRED", "say so"), 2, "submission: say so"),
            (refusal(409, "SESSION_BUSY", "busy"), 3, "submission: busy (HTTP 409, SESSION_BUSY)"),
            (refusal(403, "CLI_ACCESS_DENIED", "no"), 3, "authentication: no"),
            (refusal(413, "CLI_REQUEST_TOO_LARGE", "big"), 3, "submission: big"),
            (refusal(409, "CLI_CONTROLLER_CHANGED", "x"), 3, "transport recovery: another"),
            (answer(b"Not found", 404), 3, "submission: the request failed (HTTP 404)"),
        ):
            self.fake.on(START, reply)
            self.fake.double.asked.clear()
            self.machine.err.truncate(0)
            self.assertEqual(status, self.start(), text)
            self.assertIn(text, self.err)
            self.assertEqual(1, len(self.bodies()))

    def test_a_collision_takes_new_ids(self) -> None:
        """Up to three more times, each under ids of its own."""
        collision = refusal(409, "CHAT_ID_COLLISION", "taken")
        self.fake.on(START, collision, collision, collision, accepted("chat-start"))
        self.assertEqual(0, self.start())
        ids = [json.loads(body)["chatId"] for body in self.bodies()]
        self.assertEqual((4, 4), (len(ids), len(set(ids))))
        self.fake.double.asked.clear()
        self.fake.on(START, collision)
        self.assertEqual(3, self.start())
        self.assertEqual(4, len(self.bodies()))

    def test_another_controller_ends_recovery(self) -> None:
        """After a restart nothing is replayed into the new controller."""
        self.fake.on(START, b"")
        self.machine.on_sleep = self.replaced
        self.assertEqual(3, self.start())
        self.assertEqual(1, len(self.bodies()))
        self.assertIn("may have been accepted", self.err)

    def test_lost_access_ends_recovery(self) -> None:
        """A revoked grant between two attempts stops the repetition."""
        self.fake.on(START, b"")
        self.machine.on_sleep = lambda: self.fake.on(
            "GET /cli/context", refusal(403, "CLI_ACCESS_DENIED", "revoked")
        )
        self.assertEqual(3, self.start())
        self.assertEqual(1, len(self.bodies()))
        self.assertIn("revoked", self.err)
        self.assertIn("may have been accepted", self.err)

    def test_an_answer_to_something_else(self) -> None:
        """What does not correlate is not taken for acceptance."""
        self.fake.on(STOP, accepted("agent-stop", chatId=CHAT[::-1], outcome="already-idle"))
        self.assertEqual(3, self.garcon("stop", CHAT))
        self.assertEqual(3, len(self.bodies(STOP)))
        self.assertEqual("", self.out)

    def test_stop(self) -> None:
        """The outcome is printed; a failed one is exit 3."""
        self.fake.on(STOP, accepted("agent-stop", outcome="interrupt-requested", control={}))
        self.assertEqual(0, self.garcon("stop", CHAT))
        self.assertEqual(f"chat id: {CHAT}\nstop: interrupt-requested\n", self.out)
        self.fake.on(STOP, accepted("agent-stop", outcome="failed", control={}))
        self.assertEqual(3, self.garcon("stop", CHAT))


class TargetTests(RecoveryCase):
    def test_another_executor_needs_its_own_path(self) -> None:
        """Without an absolute --cwd it is refused; with one the text goes out unchanged."""
        self.fake.on(START, accepted("chat-start"))
        for words in ((), ("--cwd", "here"), ("--cwd", ".")):
            self.assertEqual(2, self.start("--executor", WORKER, *words))
        self.assertEqual([], self.fake.asked(START))
        for path in ("/no/such/../place", "C:\\work"):
            self.assertEqual(0, self.start("--executor", WORKER, "--cwd", path))
            body = self.fake.asked(START)[-1].json
            self.assertEqual((WORKER, path), (body["executorId"], body["projectPath"]))
        self.assertEqual(WORKER, self.fake.asked("GET /models")[-1].query["executorId"])

    def test_the_default_is_the_contexts(self) -> None:
        """On a worker new chats and catalogs are that worker's; Local is another executor."""
        self.fake.default_executor_id = WORKER
        self.fake.on(START, accepted("chat-start"))
        self.assertEqual(0, self.start())
        self.assertEqual(WORKER, self.fake.asked(START)[0].json["executorId"])
        self.assertEqual(2, self.start("--executor", "local"))
        self.assertEqual(0, self.garcon("list", "agents"))
        self.assertEqual({"executorId": WORKER}, self.fake.asked("GET /models")[-1].query)

    def test_local_paths_must_exist(self) -> None:
        """Here the directory is resolved and checked."""
        self.assertEqual(2, self.start("--cwd", self.root.path + "/missing"))
        self.assertIn("not a directory", self.err)

    def resume(self, *words: str, **chat: Any) -> dict[str, Any]:
        chat = {"executorId": WORKER, "agentId": "scripted"} | chat
        self.fake.on("GET /chats/snapshot", answer(a_snapshot(1, **chat)))
        self.fake.on("POST /chats/run", accepted("agent-run"))
        self.fake.on(
            RECEIPT,
            lambda asked: answer(
                receipt(
                    clientRequestId=self.fake.asked("POST /chats/run")[-1].json["clientRequestId"]
                )
            ),
        )
        self.assertEqual(0, self.garcon("resume", CHAT, "more", *words), self.err)
        self.assertEqual([], self.fake.asked("GET /chats"))
        body: dict[str, Any] = self.fake.asked("POST /chats/run")[-1].json
        return body

    def test_a_plain_resume_needs_no_catalog(self) -> None:
        """The server chooses atomically; only the fallback policy goes along."""
        body = self.resume()
        self.assertEqual(
            {
                "chatId",
                "clientRequestId",
                "clientMessageId",
                "command",
                "permissionFallbackPolicy",
                "transcriptViewId",
            },
            set(body),
        )
        self.assertEqual("require-explicit-bypass", body["permissionFallbackPolicy"])
        self.assertEqual([], self.fake.asked("GET /models"))
        self.assertEqual(f"chat id: {CHAT}\nturn id: {TURN}\nthe answer\n", self.out)

    def test_choices_use_the_owners_catalog_and_epoch(self) -> None:
        """The chat's executor is asked, and the run is bound to the ownership that was read."""
        body = self.resume("--permissions", "default", "--agent", "scripted")
        self.assertEqual(WORKER, self.fake.asked("GET /models")[0].query["executorId"])
        self.assertEqual("epoch-1", body["expectedAgentOwnershipEpoch"])
        self.assertEqual("default", body["permissionMode"])
        self.assertEqual("scripted", body["expectedAgentId"])
        self.assertNotIn("model", body)
        self.assertNotIn("handoff", body)

    def test_another_agent_is_a_hand_off(self) -> None:
        """The target is that agent on the same executor, with its default model and modes."""
        body = self.resume("--agent", "scripted", agentId="claude")
        self.assertEqual("epoch-1", body["handoff"]["expectedAgentOwnershipEpoch"])
        target = body["handoff"]["target"]
        self.assertEqual(("scripted", "scripted"), (target["agentId"], target["model"]))
        self.assertEqual("scripted", target["agentSettings"]["ownerId"])
        self.assertNotIn("permissionMode", body)
        self.assertEqual(WORKER, self.fake.asked("GET /models")[0].query["executorId"])

    def test_admission(self) -> None:
        """A missing chat is exit 2 and names the workspace; a fenced transcript is exit 3."""
        self.fake.on("GET /chats/snapshot", refusal(404, "SESSION_NOT_FOUND", "none"))
        for words in (("status", CHAT, "--messages", "1"), ("resume", CHAT, "more")):
            self.assertEqual(2, self.garcon(*words))
            self.assertIn('Garcon workspace "default"', self.err)
        snapshot = a_snapshot()
        snapshot["transcript"] = {"availability": "unavailable", "errorCode": "LEDGER_FENCED"}
        self.fake.on("GET /chats/snapshot", answer(snapshot))
        self.assertEqual(3, self.garcon("resume", CHAT, "more"))
        self.assertIn("resume admission:", self.err)
        self.assertEqual("", self.out)


class PollingTests(RecoveryCase):
    def wait(self, *words: str) -> int:
        return self.garcon("wait", CHAT, "--turn", TURN, *words)

    def test_pending_until_settled(self) -> None:
        """Asked ever less often, and verified every 30 s while it lasts."""
        pending = answer(receipt("pending"))
        self.fake.on(RECEIPT, *[pending] * 20, answer(receipt()))
        self.assertEqual(0, self.wait())
        self.assertEqual("the answer\n", self.out)
        self.assertEqual([0.25, 0.5, 1.0, 2.0], [round(s, 2) for s in self.machine.slept[:4]])
        # 36 s of waiting: the proof at the start, and one more.
        self.assertEqual(2, len(self.fake.asked("GET /runtime")))

    def test_passing_trouble_is_borne(self) -> None:
        """Seven failures in a row are borne."""
        trouble = [b"", refusal(503, "X"), answer(b"{"), refusal(429, "X", retry_after=3)]
        self.fake.on(RECEIPT, *trouble, b"", b"", b"", answer(receipt()))
        self.assertEqual(0, self.wait())
        self.assertIn(3.0, [round(s, 2) for s in self.machine.slept])

    def test_eight_failures_are_too_many(self) -> None:
        """Then the command gives up, and says so without guessing at the turn."""
        self.fake.on(RECEIPT, b"")
        self.assertEqual(3, self.wait())
        self.assertEqual(8, len(self.fake.asked(RECEIPT)))
        self.assertTrue(self.err.startswith("transport recovery: "), self.err)

    def test_a_restart_is_told(self) -> None:
        """Whether the fence, the verification or a lost receipt shows it."""
        restarted = "transport recovery: Garcon restarted while the turn was running"
        fence = refusal(409, "CLI_CONTROLLER_CHANGED")
        lost = refusal(404, "TURN_RECEIPT_NOT_FOUND")
        for first, then in ((fence, b""), (b"", self.replaced), (lost, b"")):
            self.setUp()
            self.fake.on(RECEIPT, first)
            if callable(then):
                self.machine.on_sleep = then
            elif first == lost:
                ready = answer(self.fake.context())
                changed = self.fake.context() | {"serverInstanceId": "other"}
                self.fake.on("GET /cli/context", ready, answer(changed))
            self.assertEqual(3, self.wait())
            self.assertIn(restarted, self.err)
            self.assertEqual("", self.out)

    def test_a_successor_ends_the_wait_sooner(self) -> None:
        """When the endpoint is gone and a successor has published itself, waiting is over."""

        def succeed() -> None:
            self.fake.double.stop()
            successor = FakeController(instance_id="5b7d1f0e-0000-4000-8000-0000000000ee")
            successor.double.__enter__()
            self.addCleanup(successor.double.stop)
            successor.publish(self.root)
            self.machine.on_sleep = lambda: self.assertEqual([], successor.double.asked)

        self.fake.on(RECEIPT, answer(receipt("pending")))
        self.machine.on_sleep = succeed
        self.assertEqual(3, self.wait())
        self.assertIn("Garcon restarted while the turn was running", self.err)

    def test_a_lost_receipt(self) -> None:
        """Same controller, no receipt: exit 3 and the workspace is named, also when it has none."""
        self.fake.on(RECEIPT, refusal(404, "TURN_RECEIPT_NOT_FOUND", "none"))
        self.assertEqual(3, self.wait())
        self.assertTrue(self.err.startswith("receipt polling: "), self.err)
        self.assertIn('Garcon workspace "default"', self.err)
        self.assertEqual("", self.out)
        self.fake.workspace_name = None
        self.assertEqual(3, self.wait())
        self.assertIn("in this Garcon workspace", self.err)

    def test_final_answers(self) -> None:
        """Expired, denied, or somebody else's receipt: exit 3 at once."""
        for reply, text in (
            (refusal(410, "TURN_RESULT_EXPIRED", "gone"), "receipt polling: the result of turn"),
            (refusal(401, "VALIDATION_FAILED", "who"), "authentication: who"),
            (refusal(403, "CLI_ACCESS_DENIED", "no"), "authentication: no"),
            (answer(receipt(turnId="other")), "receipt polling: the receipt names another turn"),
            (answer(receipt(chatId="other")), "receipt polling: the receipt names another turn"),
        ):
            self.fake.on(RECEIPT, reply)
            self.fake.double.asked.clear()
            self.assertEqual(3, self.wait())
            self.assertIn(text, self.err)
            self.assertEqual(1, len(self.fake.asked(RECEIPT)))

    def test_json_is_printed_before_a_bad_end(self) -> None:
        """The receipt of a stopped turn is on standard output, the reason on standard error."""
        stopped = receipt("interrupted", reason="user-stop")
        self.fake.on(RECEIPT, answer(stopped))
        self.assertEqual(4, self.wait("--json"))
        self.assertEqual("user-stop", json.loads(self.out)["reason"])
        self.assertEqual(
            "receipt polling: agent turn interrupted: the turn was stopped\n", self.err
        )

    def test_a_cut_answer_is_read_whole(self) -> None:
        """The rest comes from the chat's messages, in smaller pages when they are too large."""
        whole = "x" * 3_000 + "the end"
        output = {
            "availability": "available",
            "completeness": "best-effort",
            "text": RECEIPT_CUT + whole[-1_500:],
        }
        self.fake.on(RECEIPT, answer(receipt(output=output)))
        rows = [
            {"type": "user-message", "content": "q", "timestamp": "T"},
            {"type": "assistant-message", "content": whole, "timestamp": "T"},
        ]
        newest = {
            "transcriptViewId": "v",
            "messages": [{"ordinal": 3, "message": rows[1]}],
            "nextBeforeOrdinal": 3,
        }
        older = {
            "transcriptViewId": "v",
            "messages": [{"ordinal": 1, "message": rows[0]}],
            "nextBeforeOrdinal": None,
        }
        large = refusal(413, "CLI_RESULT_TOO_LARGE")
        self.fake.on("GET /chats/messages", large, answer(newest), b"", answer(older))
        self.assertEqual(0, self.wait())
        self.assertEqual(whole + "\n", self.out)
        queries = [asked.query for asked in self.fake.asked("GET /chats/messages")]
        self.assertEqual(["200", "50", "50", "50"], [query["limit"] for query in queries])
        self.assertEqual("3", queries[-1]["beforeOrdinal"])
        self.assertEqual("v", queries[-1]["transcriptViewId"])

    def test_a_cut_answer_is_never_passed_off_as_whole(self) -> None:
        """If the rows do not hold it any more the command fails, with nothing printed."""
        output = {
            "availability": "available",
            "completeness": "best-effort",
            "text": RECEIPT_CUT + "end",
        }
        self.fake.on(RECEIPT, answer(receipt(output=output)))
        self.fake.on(
            "GET /chats/messages",
            answer({"transcriptViewId": "v", "messages": [], "nextBeforeOrdinal": None}),
        )
        self.assertEqual(3, self.wait())
        self.assertEqual("", self.out)


class TitleTests(RecoveryCase):
    def settle(self) -> None:
        self.fake.on(START, accepted("chat-start"))
        self.fake.on(
            RECEIPT,
            lambda asked: answer(
                receipt(
                    chatId=asked.query["chatId"],
                    clientRequestId=self.fake.asked(START)[-1].json["clientRequestId"],
                )
            ),
        )

    def test_told_after_the_answer(self) -> None:
        """A failed title is one attempt, reported last, and then decides the exit status."""
        self.settle()
        for reply, status in (
            (refusal(400, "VALIDATION_FAILED", "bad"), 2),
            (refusal(500, "INTERNAL_ERROR", "bad"), 3),
        ):
            self.fake.on("PUT /app/session-name", reply)
            self.fake.double.asked.clear()
            words = ("start", "--agent", "scripted", "--model", "scripted", "hi", "--title", "T")
            self.assertEqual(status, self.garcon(*words))
            self.assertTrue(self.out.endswith("the answer\n"))
            self.assertIn("title update: bad", self.err)
            self.assertEqual(1, len(self.fake.asked("PUT /app/session-name")))

    def test_an_uncertain_title_is_called_that(self) -> None:
        """Only a definite refusal says that the title was not changed."""
        self.settle()
        for reply, uncertain in (
            (b"", True),
            (refusal(503, "CLI_OUTCOME_UNKNOWN", "lost"), True),
            (refusal(503, "CLI_SERVICE_BUSY", "busy"), False),
            (refusal(404, "SESSION_NOT_FOUND", "gone"), False),
        ):
            self.fake.on("PUT /app/session-name", reply)
            self.machine.err.seek(0)
            self.machine.err.truncate()
            self.assertNotEqual(0, self.start("--title", "T", "--json"))
            self.assertEqual(uncertain, "the title may have been changed" in self.err, self.err)
            self.assertEqual(uncertain, "may have been changed" in self.out)
            self.machine.out.seek(0)
            self.machine.out.truncate()

    def test_envelope(self) -> None:
        """Automation learns the title's fate beside the receipt."""
        self.settle()
        self.fake.on("PUT /app/session-name", answer({"success": True, "title": "T"}))
        self.assertEqual(0, self.start("--title", " T ", "--json"))
        said = json.loads(self.out)
        self.assertEqual(
            {"status": "succeeded", "title": "T", "changed": True}, said["titleUpdate"]
        )
        self.assertEqual("default", said["workspace"])
        self.assertEqual(self.fake.server_instance_id, said["serverInstanceId"])
        self.assertNotIn(self.fake.capability, self.out)
        self.assertNotIn(self.root.path, self.out)


class DecisionTests(RecoveryCase):
    def decide(self, decision: str, instance: str | None = None) -> int:
        instance = instance or self.fake.server_instance_id
        words = ("--run", TURN, "--server-instance", instance)
        return self.garcon("permission-decision", CHAT, "occurrence-1", decision, *words)

    def test_one_identity_for_both_answers(self) -> None:
        """Allow and deny share their request id, so that the opposite one conflicts."""
        self.fake.on("POST /chats/permissions/decision", accepted("permission-decision"))
        self.assertEqual((0, 0), (self.decide("allow"), self.decide("deny")))
        allow, deny = (a.json for a in self.fake.asked("POST /chats/permissions/decision"))
        self.assertEqual(allow["clientRequestId"], deny["clientRequestId"])
        self.assertEqual((True, False), (allow["allow"], deny["allow"]))
        self.assertEqual(TURN, allow["control"]["runId"])

    def test_stale_controls_fail_closed(self) -> None:
        """Of another controller: nothing is sent; no longer open: exit 3; a typo: exit 2."""
        self.assertEqual(3, self.decide("allow", "other"))
        self.assertEqual([], self.fake.asked("POST /chats/permissions/decision"))
        self.fake.on("POST /chats/permissions/decision", refusal(409, "PERMISSION_NOT_ACTIONABLE"))
        self.assertEqual(3, self.decide("allow"))
        self.assertEqual(2, self.decide("maybe"))

    def test_an_unknown_outcome_is_not_repeated(self) -> None:
        """The agent may have been answered: only looking can tell."""
        lost = refusal(503, "PERMISSION_DECISION_OUTCOME_UNKNOWN", "lost")
        self.fake.on("POST /chats/permissions/decision", lost)
        self.assertEqual(3, self.decide("allow"))
        self.assertIn("may have been accepted", self.err)
        self.assertEqual(1, len(self.fake.asked("POST /chats/permissions/decision")))


class ExecutorTests(RecoveryCase):
    def executor(self, **more: Any) -> dict[str, Any]:
        return {
            "id": WORKER,
            "label": "W",
            "kind": "remote",
            "enabled": True,
            "allowControllerCli": False,
            "allowExecutorManagement": False,
            "direction": "controller-connects",
            "availability": "offline",
            "bulk": None,
            "instanceId": None,
            "projectBasePath": None,
            "lastError": None,
            "machineServices": {},
        } | more

    def create(self, *words: str, stdin: bytes = b"") -> int:
        words = ("executor", "create", "--label", "W", "--direction", *words)
        return self.garcon(*words, stdin=stdin)

    def test_a_secret_comes_from_standard_input(self) -> None:
        """One line, its end not counted; a typed one works with a warning; neither is printed."""
        self.fake.on("POST /executors", answer({"id": WORKER, "connectionUrl": "wss://x#secret=s"}))
        url = b"wss://worker/executor#secret=" + b"A" * 43
        self.assertEqual(
            0, self.create("controller-connects", "--connection-url", "-", stdin=url + b"\r\n")
        )
        self.assertEqual((f"{WORKER}\n", ""), (self.out, self.err))
        self.assertEqual(url.decode(), self.fake.asked("POST /executors")[0].json["connectionUrl"])
        self.assertEqual(0, self.create("controller-connects", "--connection-url", url.decode()))
        self.assertIn("warning:", self.err)
        self.assertNotIn("secret=A", self.err + self.out)

    def test_urls_are_bounded(self) -> None:
        """4096 bytes and a line's end pass; one more, spaces, two lines or no UTF-8 do not."""
        self.fake.on("POST /executors", answer({"id": WORKER}))
        for stdin, status in (
            (b"x" * 4_096 + b"\r\n", 0),
            (b"x" * 4_097, 2),
            (b"x" * 4_097 + b"\n", 2),
            (b"a b", 2),
            (b"a\nb\n", 2),
            (b"\xff", 2),
            (b"", 2),
        ):
            words = ("controller-connects", "--connection-url", "-")
            self.assertEqual(status, self.create(*words, stdin=stdin), stdin[:10])

    def test_wrong_combinations(self) -> None:
        """Options of the other direction, half a connection edit, and Local are exit 2."""
        for words in (
            ("executor", "create", "--label", "W"),
            ("executor", "create", "--direction", "executor-connects"),
            ("executor", "create", "--label", "W", "--direction", "controller-connects"),
            ("executor", "create", "--label", "x" * 101, "--direction", "executor-connects"),
            ("executor", "update", WORKER),
            ("executor", "update", WORKER, "--no-tls", "true"),
            ("executor", "update", WORKER, "--allow-unverified-tls", "true"),
            ("executor", "update", "local", "--label", "x"),
            ("executor", "delete", "local"),
            ("executor", "connection", "local"),
            ("executor", "show", "W"),
            ("executor", "wait", WORKER),
            ("executor", "wait", WORKER, "--ready", "--timeout", "0"),
            ("executor", "wait", WORKER, "--ready", "--timeout", "3601"),
            ("executor", "connection", WORKER, "--output", "x", "--json"),
        ):
            self.assertEqual(2, self.garcon(*words), words)
        self.assertEqual(2, self.create("executor-connects", "--connection-url", "-", stdin=b"x"))
        self.assertEqual(2, self.create("executor-connects", "--allow-unverified-tls", "true"))
        self.assertEqual([], self.fake.double.asked)

    def test_changes_are_never_repeated(self) -> None:
        """One attempt; a lost or malformed answer is unknown and says how to look."""
        for reply, status, text in (
            (b"", 3, "may have been made"),
            (refusal(500, "INTERNAL_ERROR", "oh"), 3, "may have been made"),
            (refusal(503, "CLI_OUTCOME_UNKNOWN", "oh"), 3, "may have been made"),
            (answer({"executors": []}), 3, "may have been made"),
            (refusal(503, "CLI_SERVICE_BUSY", "busy"), 3, "executors: busy"),
            (refusal(409, "EXECUTOR_IN_USE", "in use"), 3, "executors: in use"),
            (refusal(400, "VALIDATION_FAILED", "bad"), 2, "executors: bad"),
        ):
            self.fake.on(f"PATCH /executors/{WORKER}", reply)
            self.fake.double.asked.clear()
            self.machine.err.seek(0)
            self.machine.err.truncate()
            self.assertEqual(status, self.garcon("executor", "disable", WORKER), text)
            self.assertIn(text, self.err)
            self.assertEqual("may have" in text, "executor list --config-dir" in self.err)
            self.assertEqual(1, len(self.fake.asked(f"PATCH /executors/{WORKER}")))

    def test_granting_is_called_what_it_is(self) -> None:
        """Whoever grants CLI access reads that it means command execution."""
        granted = self.executor(allowControllerCli=True)
        self.fake.on(f"PATCH /executors/{WORKER}", answer({"executors": [granted]}))
        words = ("executor", "update", WORKER, "--allow-controller-cli")
        self.assertEqual(0, self.garcon(*words, "true"))
        self.assertIn("CLI access means command execution", self.err)
        self.machine.err.seek(0)
        self.machine.err.truncate()
        self.assertEqual(0, self.garcon(*words, "false"))
        self.assertEqual("", self.err)

    def test_waiting_bears_what_may_pass(self) -> None:
        """Polled every half second; busy reads and reconnecting are borne, readiness ends it."""
        self.fake.on(
            "GET /executors",
            refusal(503, "CLI_SERVICE_BUSY"),
            b"",
            answer({"executors": [self.executor(availability="reconnecting")]}),
            answer({"executors": [self.executor(availability="ready")]}),
        )
        self.assertEqual(0, self.garcon("executor", "wait", WORKER, "--ready"))
        self.assertEqual([0.5] * 3, self.machine.slept)

    def test_a_poll_lasts_no_longer_than_the_wait(self) -> None:
        """A controller that says nothing does not hold the command beyond its own time."""

        def silent(asked: Asked) -> bytes:
            sleep(1.2)
            return b""

        self.fake.on("GET /executors", silent)
        began = monotonic()
        words = ("executor", "wait", WORKER, "--ready", "--timeout", "1")
        self.assertEqual(3, self.garcon(*words))
        self.assertLess(monotonic() - began, 10)
        self.assertIn("no answer within", self.err)

    def test_waiting_stops_for_good_reasons(self) -> None:
        """Time, missing, disabled, denied, another controller, or an answer that is none."""
        for reply, status, polls in (
            (answer({"executors": [self.executor()]}), 3, 5),
            (answer({"executors": []}), 2, 1),
            (answer({"executors": [self.executor(enabled=False)]}), 3, 1),
            (refusal(403, "CLI_ACCESS_DENIED"), 3, 1),
            (refusal(409, "CLI_CONTROLLER_CHANGED"), 3, 1),
            (answer({"executors": [{}]}), 3, 1),
        ):
            self.fake.on("GET /executors", reply)
            self.fake.double.asked.clear()
            words = ("executor", "wait", WORKER, "--ready", "--timeout", "2")
            self.assertEqual(status, self.garcon(*words))
            self.assertEqual(polls, len(self.fake.asked("GET /executors")))

    def test_a_wait_in_doubt_wants_the_proof_again(self) -> None:
        """After a lost answer another process may have the port: it is not shown the capability,
        and its controller is not adopted.
        """
        ready = answer({"executors": [self.executor(availability="ready")]})

        def strange() -> None:
            self.fake.proves = lambda challenge: {
                "schemaVersion": 1,
                "instanceId": self.fake.instance_id,
                "proof": "A" * 43,
            }
            self.fake.double.asked.clear()

        for change in (strange, self.replaced):
            self.fake.proves = None
            self.fake.on("GET /executors", b"", ready)
            self.machine.on_sleep = change
            self.assertEqual(3, self.garcon("executor", "wait", WORKER, "--ready"))
            self.assertIn("transport recovery:", self.err)
            if change == strange:
                asked = self.fake.double.asked
                self.assertEqual(["/api/v1/runtime"], [a.path for a in asked])
                self.assertNotIn("authorization", asked[0].headers)

    def test_revealing_into_a_file(self) -> None:
        """The file is new and private; an existing one is refused and kept."""
        said = {"connectionUrl": "wss://x#secret=s", "noTls": False, "allowUnverifiedTls": False}
        self.fake.on(f"GET /executors/{WORKER}/connection", answer(said))
        path = self.root.path + "/url"
        words = ("executor", "connection", WORKER, "--output", path)
        self.assertEqual((0, ""), (self.garcon(*words), self.out))
        with open(path) as written:
            self.assertEqual("wss://x#secret=s\n", written.read())
        self.assertEqual(2, self.garcon(*words))
        self.assertEqual(0, self.garcon("executor", "connection", WORKER))
        self.assertEqual("wss://x#secret=s\n", self.out)

    def test_the_listeners_url_needs_no_process(self) -> None:
        """It is made of two private files; without them, exit 3; an override replaces the
        address.
        """
        from garcon.local.files import private_directory
        from garcon.local.listener import ensure_secret, write_listener

        command = ("executor", "connection-url")
        self.assertEqual(3, self.garcon(*command))
        private_directory(self.root.executor_dir)
        secret = ensure_secret(self.root.executor_secret)
        self.assertEqual(3, self.garcon(*command))
        write_listener(self.root.executor_listener, "wss://127.0.0.1:1/executor", tls=True)
        self.assertEqual(0, self.garcon(*command))
        self.assertEqual(f"wss://127.0.0.1:1/executor#secret={secret}\n", self.out)
        self.machine.environ["GARCON_EXECUTOR_ADVERTISE_URL"] = "wss://w.example/executor"
        self.assertEqual(0, self.garcon(*command))
        self.assertTrue(self.out.endswith(f"wss://w.example/executor#secret={secret}\n"))
        self.assertEqual(0, self.garcon(*command, "--advertise-url", "wss://v.example/executor"))
        self.assertTrue(self.out.endswith(f"wss://v.example/executor#secret={secret}\n"))
        self.machine.environ.clear()
        self.machine.environ["GARCON_CONFIG_DIR"] = self.root.path
        write_listener(self.root.executor_listener, "wss://0.0.0.0:1/executor", tls=True)
        self.assertEqual(3, self.garcon(*command))
        self.assertIn("--advertise-url", self.err)
        self.assertEqual([], self.fake.double.asked)
