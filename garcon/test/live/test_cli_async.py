"""`resume-async`: one message to a chat that may be busy (chats.md 6.5 to 6.7, control.md I.3)."""

from __future__ import annotations

import json
from typing import Any

from garcon.cli.commands.resume_async import ATTEMPTS, PAUSE
from garcon.test.cli.test_status import a_snapshot
from garcon.test.live.fleets import FleetTestCase
from garcon.test.live.test_cli_recovery import CHAT, TURN, RecoveryCase, accepted
from garcon.testing.http_double import answer, refusal
from garcon.testing.strict_client import StrictClient

RUN, STEER = "POST /chats/run", "POST /chats/steer"
BUSY = refusal(409, "SESSION_BUSY", "A turn of this chat is still running.")
QUEUED = refusal(409, "SESSION_BUSY", "The chat has pending control state.")
SENT = "chat id: {}\ndelivery: {}\nturn id: {}\n"


class AlternationTests(RecoveryCase):
    """A chat that changes under its sender's hands."""

    def setUp(self) -> None:
        super().setUp()
        self.fake.on("GET /chats/snapshot", answer(a_snapshot()))
        self.fake.on(RUN, accepted("agent-run"))
        self.fake.on(STEER, accepted("steer"))

    def send(self, *more: str, stdin: bytes = b"") -> int:
        return self.garcon("resume-async", CHAT, "hello", *more, stdin=stdin)

    def bodies(self, key: str) -> list[Any]:
        return [asked.json for asked in self.fake.asked(key)]

    def test_an_idle_chat(self) -> None:
        """A turn of its own: view and identities, and nothing that was not asked for."""
        self.assertEqual(self.send(), 0)
        self.assertEqual(self.out, SENT.format(CHAT, "new-turn", TURN))
        (body,) = self.bodies(RUN)
        self.assertEqual(
            set(body),
            {"chatId", "transcriptViewId", "clientRequestId", "clientMessageId", "command"},
        )
        self.assertEqual((body["command"], body["transcriptViewId"]), ("hello", "view-1"))

    def test_the_message_from_standard_input_and_its_presentation(self) -> None:
        """In the steer as in the run."""
        self.fake.on(RUN, BUSY)
        words = ("resume-async", CHAT, "-", "--message-title", "Note", "--allow-steer")
        self.assertEqual(self.garcon(*words, stdin="é\n".encode()), 0)
        (run,), (steer,) = self.bodies(RUN), self.bodies(STEER)
        self.assertEqual((run["command"], steer["content"]), ("é\n", "é\n"))
        self.assertEqual(steer["userMessagePresentation"], run["userMessagePresentation"])
        self.assertEqual(steer["userMessagePresentation"]["title"], "Note")

    def test_a_busy_chat_without_leave_to_steer(self) -> None:
        """Exit 3, nothing on standard output, and what can be done."""
        self.fake.on(RUN, BUSY)
        self.assertEqual((self.send(), self.out), (3, ""))
        for words in ("cannot accept a new turn", "--allow-steer", "paused or queued work"):
            self.assertIn(words, self.err)
        self.assertEqual(self.bodies(STEER), [])

    def test_a_busy_chat_is_steered(self) -> None:
        """And never queued."""
        self.fake.on(RUN, BUSY)
        self.assertEqual(self.send("--allow-steer"), 0)
        self.assertEqual(self.out, SENT.format(CHAT, "steer", TURN))

    def test_what_the_queue_blocks_is_not_steered(self) -> None:
        """With leave or without."""
        self.fake.on(RUN, QUEUED)
        for more in ((), ("--allow-steer",)):
            self.assertEqual((self.send(*more), self.out), (3, ""))
            self.assertIn("pending control state", self.err)
            self.assertIn("paused or queued work in Garcon", self.err)
            self.assertNotIn("changed execution state repeatedly", self.err)
        self.assertEqual(self.bodies(STEER), [])

    def test_the_turn_ends_before_it_is_steered(self) -> None:
        """Then it is run, under its first identity."""
        for code in ("STEER_TURN_UNAVAILABLE", "STEER_TURN_CHANGED"):
            self.fake.on(RUN, BUSY, accepted("agent-run"))
            self.fake.on(STEER, refusal(409, code, "no"))
            self.assertEqual(self.send("--allow-steer"), 0)
            self.assertTrue(self.out.endswith(SENT.format(CHAT, "new-turn", TURN)))
            first, second = self.fake.asked(RUN)[-2:]
            self.assertEqual(first.body, second.body)
            self.assertEqual(self.machine.slept[-1], PAUSE)

    def test_three_rounds_are_enough(self) -> None:
        """Each steer has an identity of its own, the run keeps its one; the message was not
        sent.
        """
        self.fake.on(RUN, BUSY)
        self.fake.on(STEER, refusal(409, "STEER_TURN_UNAVAILABLE", "no"))
        self.assertEqual((self.send("--allow-steer"), self.out), (3, ""))
        self.assertIn("the message was not sent", self.err)
        runs, steers = self.bodies(RUN), self.bodies(STEER)
        self.assertEqual((len(runs), len(steers)), (ATTEMPTS, ATTEMPTS))
        for name in ("clientRequestId", "clientMessageId"):
            self.assertEqual(len({body[name] for body in runs}), 1)
            self.assertEqual(len({body[name] for body in steers}), ATTEMPTS)
        self.assertEqual(self.machine.slept, [PAUSE] * (ATTEMPTS - 1))

    def test_any_other_steer_error_is_final(self) -> None:
        """Whatever its status: a steer with a code is never sent twice (6.4)."""
        self.fake.on(RUN, BUSY)
        for status, code, exit_status in (
            (409, "STEER_PROVIDER_REJECTED", 3),
            (409, "STEER_TURN_NOT_STEERABLE", 3),
            (500, "STEER_OUTCOME_UNKNOWN", 3),
            (500, "STEER_NOT_DELIVERED", 3),
            (503, "SERVER_SHUTTING_DOWN", 3),
            (400, "VALIDATION_FAILED", 2),
            (422, "OPERATION_UNSUPPORTED", 2),
        ):
            before = len(self.bodies(STEER))
            self.fake.on(STEER, refusal(status, code, "because"))
            self.assertEqual(self.send("--allow-steer"), exit_status, code)
            self.assertIn(code, self.err)
            self.assertEqual(len(self.bodies(STEER)), before + 1, code)

    def test_a_steer_whose_answer_is_lost(self) -> None:
        """Sent again to the byte, and what comes then is its answer."""
        self.fake.on(RUN, BUSY)
        self.fake.on(STEER, b"", accepted("steer"))
        self.assertEqual(self.send("--allow-steer"), 0)
        first, second = self.fake.asked(STEER)
        self.assertEqual(first.body, second.body)

    def test_a_steer_whose_outcome_the_bridge_does_not_know(self) -> None:
        """The same identity may be sent again."""
        self.fake.on(RUN, BUSY)
        self.fake.on(STEER, refusal(503, "CLI_OUTCOME_UNKNOWN", "lost"), accepted("steer"))
        self.assertEqual(self.send("--allow-steer"), 0)
        self.assertEqual(len(self.bodies(STEER)), 2)

    def test_automation(self) -> None:
        """One envelope (control.md I.7)."""
        self.fake.on(RUN, BUSY)
        self.assertEqual(self.send("--allow-steer", "--json"), 0)
        said = json.loads(self.out)
        self.assertEqual((said["command"], said["delivery"]), ("resume-async", "steer"))
        self.assertEqual(said["receipt"]["commandType"], "steer")
        self.assertEqual(said["receipt"]["turnId"], TURN)
        self.assertIn("parentChat", said)

    def test_no_such_chat(self) -> None:
        """Exit 2."""
        self.fake.on("GET /chats/snapshot", refusal(404, "SESSION_NOT_FOUND", "no"))
        self.assertEqual((self.send(), self.out), (2, ""))

    def test_arguments(self) -> None:
        """One message, and not a blank one."""
        for words in ((), ("a", "b"), (" ",), ("hello", "--title", "x")):
            self.assertEqual(self.garcon("resume-async", CHAT, *words), 2)


class LiveTests(FleetTestCase):
    """A pair, and a shell beside either of the two; chats on Local and on the worker."""

    def setUp(self) -> None:
        super().setUp()
        self.controller, self.worker, self.executor_id = self.fleet.pair()

    def test_a_message_to_an_idle_and_to_a_busy_chat(self) -> None:
        """A turn, and then further input for it."""
        for service in (self.controller, self.worker):
            chat, _ = self.start(service, "say one").handle()
            program = "sleep 3\nsay slept"
            first = self.fleet.garcon(service, "resume-async", chat, program)
            self.assertIn("delivery: new-turn\n", first.out)
            turn = first.out.splitlines()[2].removeprefix("turn id: ")
            refused = self.fleet.garcon(service, "resume-async", chat, "say no", check=False)
            self.assert_refused(refused, 3, "cannot accept a new turn", "--allow-steer")
            words = ("resume-async", chat, "say steered", "--allow-steer")
            steered = self.fleet.garcon(service, *words)
            self.assertEqual(steered.out, SENT.format(chat, "steer", turn))
            done = self.fleet.garcon(service, "wait", chat, "--turn", turn)
            self.assertEqual(done.out, "slept\n\nsteered\n")
            self.assertEqual(self.said(service, chat), ["one", "slept", "steered"])

    def test_a_queue_blocks_it(self) -> None:
        """With leave to steer and without; the queue stays as it is."""
        own = self.controller.descriptor()
        client = StrictClient(own["baseUrl"], own["localCapability"])
        chat, _ = self.start(self.controller, "sleep 60", wait=False).handle()
        client.create(client.entry_body(client.messages(chat).transcript_view_id, chat, "waits"))
        self.fleet.garcon(self.controller, "stop", chat)
        before = client.queue(chat)
        for more in ((), ("--allow-steer",)):
            done = self.fleet.garcon(
                self.controller, "resume-async", chat, "hello", *more, check=False
            )
            self.assert_refused(done, 3, "pending control state", "paused or queued work in Garcon")
            self.assertNotIn("changed execution state repeatedly", done.err)
        self.assertEqual(client.queue(chat), before)
        shown = self.fleet.garcon(self.controller, "status", chat).out
        self.assertIn("queue: 1\nqueue paused: manual\n", shown)
        self.assertIn("status: idle\n", shown)
