"""`fork` and `fork-async`: at a controller, through a worker's gateway, and where answers are lost
(control.md I.3, I.7).
"""

from __future__ import annotations

import json
from typing import Any

from garcon.test.live.fleets import SCRIPTED, FleetTestCase
from garcon.test.live.test_cli_recovery import CHAT, RECEIPT, TURN, RecoveryCase, accepted, receipt
from garcon.testing.fleet import Service
from garcon.testing.http_double import Asked, answer, refusal

FORK, FORK_RUN = "POST /chats/fork", "POST /chats/fork-run"
NOT_YET = refusal(409, "TRANSCRIPT_NOT_YET_PERSISTED", "not yet", retryable=True)


def made(asked: Asked) -> bytes:
    """Make the chat that was asked for."""
    return answer({"success": True, "chat": {"id": asked.json["chatId"], "title": "t (1)"}})


def run(asked: Asked) -> bytes:
    """Make it and run it."""
    return accepted("fork-run", chat={"id": asked.json["chatId"]})(asked)


class ForkTests(RecoveryCase):
    """What is sent, and what becomes of it."""

    def setUp(self) -> None:
        super().setUp()
        self.fake.on(FORK, made)
        self.fake.on(FORK_RUN, run)

    def bodies(self, key: str) -> list[Any]:
        return [asked.json for asked in self.fake.asked(key)]

    def test_a_fork_without_a_prompt(self) -> None:
        """Nothing but the two chats; consent only where it was given."""
        self.assertEqual(self.garcon("fork", CHAT), 0, self.err)
        (body,) = self.bodies(FORK)
        self.assertEqual(set(body), {"sourceChatId", "chatId"})
        self.assertEqual((body["sourceChatId"], len(body["chatId"])), (CHAT, 16))
        self.assertEqual(self.out, f"chat id: {body['chatId']}\n")
        self.assertEqual(self.garcon("fork", CHAT, "--allow-handoff-fork"), 0)
        self.assertIs(self.bodies(FORK)[1]["allowHandoffFork"], True)
        self.assertEqual(self.bodies(FORK_RUN), [])

    def test_its_json(self) -> None:
        """The source and the whole chat."""
        self.assertEqual(self.garcon("fork", CHAT, "--json"), 0)
        said = json.loads(self.out)
        self.assertEqual(
            list(said),
            [
                *("schemaVersion", "command", "workspace", "serverInstanceId"),
                *("sourceChatId", "chat"),
            ],
        )
        self.assertEqual((said["command"], said["sourceChatId"]), ("fork", CHAT))
        self.assertEqual(said["chat"]["title"], "t (1)")

    def test_it_is_never_repeated(self) -> None:
        """An answer that is lost, late or another's: the chat that may be there is named."""
        for reply in (
            b"",
            answer(b"{half"),
            answer({"success": True, "chat": {"id": CHAT}}),
            refusal(500, "INTERNAL_ERROR", "oh"),
            refusal(503, "CLI_OUTCOME_UNKNOWN", "lost"),
        ):
            self.fake.on(FORK, reply)
            before = len(self.bodies(FORK))
            self.assertEqual((self.garcon("fork", CHAT), self.out), (3, ""))
            (body,) = self.bodies(FORK)[before:]
            self.assertIn(f"chat {body['chatId']} may have been made", self.err)

    def test_refusals_that_are_certain(self) -> None:
        """Say nothing of a chat that may be there; each has its exit status."""
        for reply, status in (
            (refusal(404, "SESSION_NOT_FOUND"), 2),
            (refusal(422, "UNSUPPORTED_AGENT"), 2),
            (refusal(409, "SOURCE_REVISION_CHANGED"), 3),
            (refusal(503, "SERVER_SHUTTING_DOWN"), 3),
        ):
            for key, words in ((FORK, ()), (FORK_RUN, ("hello",))):
                self.fake.on(key, reply)
                self.assertEqual((self.garcon("fork", CHAT, *words), self.out), (status, ""))
        self.assertNotIn("may have been", self.err)

    def test_a_point_that_cannot_be_forked_yet(self) -> None:
        """Says how to go on all the same; it is not done by itself."""
        for key, words in ((FORK, ()), (FORK_RUN, ("hello",))):
            self.fake.on(key, NOT_YET)
            self.assertEqual(self.garcon("fork", CHAT, *words), 3)
            self.assertEqual(len(self.bodies(key)), 1)
        self.assertEqual(self.err.count("--allow-handoff-fork"), 2)

    def test_a_prompt_makes_it_one_command(self) -> None:
        """Identities, the prompt, and a repetition that is the same to the byte."""
        self.fake.on(FORK_RUN, b"", run)
        words = ("fork-async", CHAT, "-", "--allow-handoff-fork")
        self.assertEqual(self.garcon(*words, stdin="é\n".encode()), 0, self.err)
        first, second = self.bodies(FORK_RUN)
        self.assertEqual(first, second)
        self.assertEqual(
            set(first),
            {
                *("sourceChatId", "chatId", "clientRequestId", "clientMessageId"),
                *("command", "allowHandoffFork"),
            },
        )
        self.assertEqual(first["command"], "é\n")
        self.assertEqual(self.out, f"chat id: {first['chatId']}\nturn id: {TURN}\n")

    def test_the_json_of_both(self) -> None:
        """The one that waits has the receipt too."""

        def settled(asked: Asked) -> bytes:
            request = self.bodies(FORK_RUN)[-1]["clientRequestId"]
            about = {"chatId": asked.query["chatId"], "clientRequestId": request}
            return answer(receipt() | about)

        names = ["sourceChatId", "receipt", "parentChat", "chat"]
        self.fake.on(RECEIPT, settled)
        self.assertEqual(self.garcon("fork-async", CHAT, "hello", "--json"), 0)
        said = json.loads(self.out)
        self.assertEqual((said["command"], list(said)[4:]), ("fork-async", names))
        self.machine.out.truncate(0)
        self.machine.out.seek(0)
        self.assertEqual(self.garcon("fork", CHAT, "hello", "--json"), 0, self.err)
        said = json.loads(self.out)
        self.assertEqual((said["command"], list(said)[4:]), ("fork", [*names, "turnReceipt"]))
        self.assertEqual(said["receipt"]["commandType"], "fork-run")
        self.assertEqual(said["turnReceipt"]["output"]["text"], "the answer")

    def test_what_is_refused_before_anything_is_sent(self) -> None:
        """A chat that is none, a blank prompt, none where one is needed."""
        for words in (
            ("fork",),
            ("fork", "12"),
            ("fork", CHAT, " "),
            ("fork-async", CHAT),
            ("fork", CHAT, "--title", "x"),
        ):
            self.assertEqual(self.garcon(*words), 2)
        self.assertEqual(self.fake.double.asked, [])


class CommandTests(FleetTestCase):
    """A pair, and a shell beside either of the two."""

    def setUp(self) -> None:
        super().setUp()
        self.controller, self.worker, self.executor_id = self.fleet.pair()

    def chat(self, service: Service, prompt: str) -> str:
        """Start a chat; returns its id."""
        project = str(self.fleet.project("project"))
        words = ("start", *SCRIPTED, "--cwd", project, prompt)
        return self.fleet.garcon(service, *words).handle()[0]

    def test_forks_from_both_sides(self) -> None:
        """Each on its source's executor, with the conversation, and the answer of its turn."""
        for service in (self.controller, self.worker):
            chat = self.chat(service, "say one")
            bare = self.fleet.garcon(service, "fork", chat)
            fork = bare.out.removeprefix("chat id: ").strip()
            self.assertEqual(self.said(service, fork), ["one"])
            done = self.fleet.garcon(service, "fork", chat, "say", "two")
            fork, turn = done.handle()
            self.assertEqual(done.out, f"chat id: {fork}\nturn id: {turn}\ntwo\n")
            self.assertEqual(self.said(service, fork), ["one", "two"])
            self.assertEqual(self.said(service, chat), ["one"])
            executor = self.snapshot(service, fork)["chat"]["executorId"]
            self.assertEqual(executor, self.snapshot(service, chat)["chat"]["executorId"])
            said = self.fleet.garcon(service, "fork", chat, "--json").json
            self.assertEqual(said["chat"]["title"], "say one (3)")
            self.assertEqual(said["chat"]["parentChat"]["chatId"], chat)

    def test_a_fork_of_a_chat_that_runs(self) -> None:
        """While the agent itself waits for it: that is how agents use it."""
        for service in (self.controller, self.worker):
            chat = self.chat(service, "say one")
            self.fleet.garcon(service, "resume-async", chat, "sleep 60")
            done = self.fleet.garcon(service, "fork-async", chat, "say two", "--json").json
            self.assertEqual(done["parentChat"]["relation"], "fork")
            fork, turn = done["receipt"]["chatId"], done["receipt"]["turnId"]
            self.fleet.garcon(service, "stop", fork)
            waited = self.fleet.garcon(service, "wait", fork, "--turn", turn, check=False)
            self.assertEqual(waited.status, 4, str(waited))
            self.fleet.garcon(service, "stop", chat)

    def test_turns_that_fail_and_chats_that_are_not_there(self) -> None:
        """With the exit statuses of every command."""
        for service in (self.controller, self.worker):
            chat = self.chat(service, "say one")
            failed = self.fleet.garcon(service, "fork", chat, "fail out of cheese", check=False)
            self.assertEqual(failed.status, 1)
            self.assertIn("out of cheese", failed.err)
            for words in ((), ("say two",)):
                unknown = self.fleet.garcon(
                    service, "fork", "1700000000000000", *words, check=False
                )
                self.assert_refused(unknown, 2, "submission", "SESSION_NOT_FOUND")

    def test_handing_over_by_resume(self) -> None:
        """Another agent takes the next turn; the one that owns the chat just goes on."""
        for service in (self.controller, self.worker):
            chat = self.chat(service, "say one")
            epoch = self.snapshot(service, chat)["chat"]["agentOwnershipEpoch"]
            same = self.fleet.garcon(service, "resume", chat, "--agent", "scripted", "say two")
            self.assertTrue(same.out.endswith("\ntwo\n"))
            self.assertEqual(self.snapshot(service, chat)["chat"]["agentOwnershipEpoch"], epoch)
            none = self.fleet.garcon(
                service, "resume", chat, "--agent", "nobody", "say three", check=False
            )
            self.assert_refused(none, 2, "nobody")
