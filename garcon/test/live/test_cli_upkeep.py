"""The commands that find and look after chats: at a controller, through a worker's gateway, and
where answers are lost (control.md I.3).
"""

from __future__ import annotations

import os
import time
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli.main import run
from garcon.contract.limits import ROW_BYTES
from garcon.local.files import private_directory
from garcon.local.roots import ConfigRoot
from garcon.test.live.fleets import FleetTestCase
from garcon.testing.fake_controller import FakeController, FakeMachine
from garcon.testing.fleet import Finished, Service
from garcon.testing.http_double import answer, refusal

CHAT, UNKNOWN = "1767000000000001", "1700000000000000"


class CommandTests(FleetTestCase):
    """A pair, and a shell beside either of the two."""

    def setUp(self) -> None:
        super().setUp()
        self.controller, self.worker, self.executor_id = self.fleet.pair()

    def chat(self, service: Service, prompt: str, *options: str) -> str:
        """Start a chat; returns its id."""
        return self.start(service, prompt, *options).handle()[0]

    def changes(self, service: Service, *words: str) -> list[str]:
        """Run a set-style command twice; returns what it prints, which must converge."""
        first, second = (self.fleet.garcon(service, *words) for _ in range(2))
        self.assertTrue(first.out.endswith("changed: yes\n"), first.out)
        self.assertEqual(second.out, first.out.replace("changed: yes", "changed: no"))
        return first.out.splitlines()

    def test_wanted_states(self) -> None:
        """Each says what is now and whether that is new, from both sides."""
        for service in (self.controller, self.worker):
            chat = self.chat(service, "say one")
            first = f"chat id: {chat}"
            for command, line in (
                ("pin", "pinned: yes"),
                ("unpin", "pinned: no"),
                ("archive", "archived: yes"),
                ("unarchive", "archived: no"),
            ):
                self.assertEqual(self.changes(service, command, chat)[:2], [first, line])
            lines = self.changes(service, "rename", chat, " A new name ")
            self.assertEqual(lines[:2], [first, "title: A new name"])
            lines = self.changes(service, "set-tags", chat, "--tag", "B b", "--tag", "a")
            self.assertEqual(lines[:2], [first, "tags: a, b-b"])
            self.assertEqual(self.changes(service, "set-tags", chat, "--clear")[1], "tags: none")
            said = self.fleet.garcon(service, "pin", chat, "--json").json
            self.assertEqual(
                (said["schemaVersion"], said["command"], said["workspace"]), (1, "pin", "default")
            )
            self.assertEqual((said["chatId"], said["pinned"], said["changed"]), (chat, True, True))
            said = self.fleet.garcon(service, "set-tags", chat, "--tag", "x", "--json").json
            self.assertEqual((said["tags"], said["changed"]), (["x"], True))

    def test_rows(self) -> None:
        """A block that automation can read; the content is kept to the byte."""
        for service in (self.controller, self.worker):
            chat = self.chat(service, "say one")
            done = self.fleet.garcon(
                service, "add-row", chat, "--type", "error", "--title", "T", "-", stdin=" é\r\n\n"
            )
            view, ordinal = self.last(service, chat)
            self.assertEqual(
                done.out,
                f"chat id: {chat}\ntranscript view id: {view}\nordinal: {ordinal}\n"
                "type: error\nstatus: appended\n",
            )
            row = self.rows(service, chat)[-1]
            self.assertEqual(
                (row["type"], row["title"], row["content"]), ("error", "T", " é\r\n\n")
            )
            said = self.fleet.garcon(
                service,
                *("add-row", chat, "--color", "AABBCC,001122", "--markdown", "--collapsible"),
                *("--json", "--", "-"),
            ).json
            self.assertEqual(said["command"], "add-row")
            self.assertEqual(
                (said["response"]["type"], said["response"]["ordinal"]), ("custom", ordinal + 1)
            )
            row = self.rows(service, chat)[-1]
            colours = {"lightAccent": "#aabbcc", "darkAccent": "#001122"}
            self.assertEqual(row["presentation"], {"style": "custom", "customStyle": colours})
            self.assertEqual(
                (row["type"], row["content"], row["format"], row["bodyDisclosure"]),
                ("transcript-notice", "-", "markdown", "collapsed"),
            )
            info = self.fleet.garcon(service, "add-row", chat, "--type", "info", "for you")
            self.assertIn("type: info\n", info.out)

    def test_native_sessions(self) -> None:
        """The chat and nothing else; an executor's sessions are its own."""
        here = self.chat(self.controller, "say one")
        there = self.chat(self.worker, "say one")
        for service, chat in ((self.controller, here), (self.worker, there)):
            session = self.session(chat)
            for options in ((), ("--agent", "scripted")):
                done = self.fleet.garcon(service, "lookup-native-session", session, *options)
                self.assertEqual(done.out, f"{chat}\n")
        elsewhere = self.look_up(self.worker, self.session(here))
        self.assert_refused(elsewhere, 2, "no chat has the native session", self.executor_id)
        done = self.fleet.garcon(
            self.worker, "lookup-native-session", self.session(here), "--executor", "local"
        )
        self.assertEqual(done.out, f"{here}\n")
        self.assert_refused(self.look_up(self.controller, "x", "--executor", "there"), 2)

    def test_finding_chats(self) -> None:
        """By the filter, newest first, page by page."""
        chats = [self.chat(self.controller, f"say {word}") for word in ("one", "two", "three")]
        self.fleet.garcon(self.controller, "rename", chats[0], "The First")
        self.fleet.garcon(self.controller, "pin", chats[0])
        for service in (self.controller, self.worker):
            for words, wanted in (
                ((), chats[::-1]),
                (("--filter", 'title:"the first"'), chats[:1]),
                (("--filter", "is:!pinned"), chats[:0:-1]),
                (("--filter", f"id:{chats[1]}|{chats[2]} two"), chats[1:2]),
                (("--filter", "created-before:2020-01-01"), []),
                (("--limit", "1", "--offset", "1"), chats[1:2]),
            ):
                said = self.fleet.garcon(service, "chats", *words, "--json").json
                self.assertEqual([one["id"] for one in said["chats"]], wanted, words)
            self.assertEqual((said["total"], said["limit"], said["offset"]), (3, 1, 1))
            done = self.fleet.garcon(service, "chats", "--limit", "2")
            lines = done.out.splitlines()
            self.assertEqual(lines[0].split(), ["CHAT", "UPDATED", "STATUS", "AGENT", "TITLE"])
            self.assertEqual([line.split()[0] for line in lines[2:]], chats[:0:-1])
            self.assertEqual(done.err, "1 more: --offset 2\n")

    def test_an_unknown_chat(self) -> None:
        """Exit 2, and nothing on standard output."""
        for words in (
            ("pin", UNKNOWN),
            ("archive", UNKNOWN),
            ("rename", UNKNOWN, "x"),
            ("set-tags", UNKNOWN, "--clear"),
            ("add-row", UNKNOWN, "--type", "notice", "x"),
        ):
            for service in (self.controller, self.worker):
                done = self.fleet.garcon(service, *words, check=False)
                self.assert_refused(done, 2, "SESSION_NOT_FOUND")

    def look_up(self, service: Service, session: str, *options: str) -> Finished:
        """Look a session up that is not to be found."""
        return self.fleet.garcon(service, "lookup-native-session", session, *options, check=False)

    def session(self, chat: str) -> str:
        """Return the agent's name of a chat's session."""
        from garcon.contract import operations
        from garcon.testing.strict_client import StrictClient

        own = self.controller.descriptor()
        client = StrictClient(own["baseUrl"], own["localCapability"])
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            details = client.asked(operations.CHAT_DETAILS, query={"chatId": chat})
            if details.agent_session_id:
                return str(details.agent_session_id)
        self.fail("the agent has not named its session")

    def last(self, service: Service, chat: str) -> tuple[str, int]:
        """Return the view of a chat and its last ordinal."""
        transcript = self.snapshot(service, chat)["transcript"]
        return transcript["transcriptViewId"], transcript["lastOrdinal"]


class ArgumentTests(SynchronousTestCase):
    """What is refused before anything is asked (there is nobody to ask)."""

    def test_refused(self) -> None:
        """Exit 2, with a reason."""
        for words, reason in (
            (("pin",), "needs a chat"),
            (("pin", "17"), "chat id"),
            (("rename", CHAT, " "), "blank"),
            (("rename", CHAT, "x" * 4_097), "4096 bytes"),
            (("set-tags", CHAT), "--clear"),
            (("set-tags", CHAT, "--tag", "a", "--clear"), "--clear"),
            (("set-tags", CHAT, "--tag", "!"), "letter or digit"),
            (("add-row", CHAT, "x"), "--type"),
            (("add-row", CHAT, "--type", "info", "--color", "aabbcc", "x"), "--color"),
            (("add-row", CHAT, "--type", "loud", "x"), "--type"),
            (("add-row", CHAT, "--color", "red", "x"), "hexadecimal"),
            (("add-row", CHAT, "--type", "info", " "), "blank"),
            (("add-row", CHAT, "--type", "info", "a", "b"), "does not take"),
            (("add-row", CHAT, "--type", "info", "x" * (ROW_BYTES + 1)), "65536"),
            (("add-row", CHAT, "--type", "info", "--title", "x" * 121, "x"), "120"),
            (("add-row", CHAT, "--type", "info", "--title", "a\nb", "x"), "one line"),
            (("add-row", CHAT, "--type", "info", "--title", " ", "x"), "blank"),
            (("lookup-native-session", " "), "blank"),
            (("lookup-native-session", "x", "--executor", "y"), "UUID"),
            (("chats", "--limit", "0"), "1 to 100"),
            (("chats", "--limit", "101"), "1 to 100"),
            (("chats", "--offset", "-1"), "--offset"),
            (("chats", "--filter", "is:lost"), "is:"),
        ):
            machine = FakeMachine(environ={"HOME": "/nowhere"})
            self.assertEqual(run(list(words), machine.system()), 2, words)
            self.assertEqual(machine.out.getvalue(), b"")
            self.assertIn(reason, machine.err.getvalue().decode(), words)


class LostAnswerTests(SynchronousTestCase):
    """A controller that misbehaves."""

    def setUp(self) -> None:
        self.controller = FakeController()
        self.controller.double.__enter__()
        self.addCleanup(self.controller.double.stop)
        self.root = ConfigRoot(os.path.abspath(self.mktemp()))
        private_directory(self.root.path)
        self.controller.publish(self.root)

    def garcon(self, *words: str, stdin: bytes = b"") -> tuple[int, str, str]:
        """Run the command; returns its status and what it printed."""
        machine = FakeMachine(environ={"GARCON_CONFIG_DIR": self.root.path}, stdin=stdin)
        status = run(list(words), machine.system())
        return status, machine.out.getvalue().decode(), machine.err.getvalue().decode()

    def test_an_unknown_outcome_is_told_and_not_repeated(self) -> None:
        """Of every set-style command: once asked, and exit 3."""
        self.controller.on("GET /chats/tags", answer({"chatId": CHAT, "tags": ["a"]}))
        bad = [
            refusal(503, "CLI_OUTCOME_UNKNOWN", "who knows"),
            refusal(500, "INTERNAL_ERROR", "oh"),
            answer({"success": True}),
            answer({"success": True, "chatId": CHAT, "changed": True}),
        ]
        for words, key in (
            (("pin", CHAT), "PUT /chats/pin"),
            (("unarchive", CHAT), "PUT /chats/archive"),
            (("rename", CHAT, "x"), "PUT /app/session-name"),
            (("set-tags", CHAT, "--clear"), "PUT /chats/tags"),
        ):
            for reply in bad:
                asked = len(self.controller.asked(key))
                self.controller.on(key, reply)
                status, out, err = self.garcon(*words)
                self.assertEqual((status, out), (3, ""), words)
                self.assertIn("may have been changed", err)
                self.assertEqual(len(self.controller.asked(key)), asked + 1)

    def test_a_definite_refusal_is_told_as_such(self) -> None:
        """The chat was not changed, and nobody says that it may have been."""
        for reply, wanted in (
            (refusal(404, "SESSION_NOT_FOUND", "gone"), 2),
            (refusal(400, "VALIDATION_FAILED", "no"), 2),
            (refusal(409, "SESSION_BUSY", "busy"), 3),
            (refusal(503, "SERVER_SHUTTING_DOWN", "bye"), 3),
        ):
            self.controller.on("PUT /chats/pin", reply)
            status, out, err = self.garcon("pin", CHAT)
            self.assertEqual((status, out), (wanted, ""))
            self.assertNotIn("may have been", err)

    def test_tags_that_are_right_are_not_sent(self) -> None:
        """What is read first says so."""
        self.controller.on("GET /chats/tags", answer({"chatId": CHAT, "tags": ["a", "b"]}))
        status, out, _ = self.garcon("set-tags", CHAT, "--tag", "B", "--tag", "a")
        self.assertEqual((status, out), (0, f"chat id: {CHAT}\ntags: a, b\nchanged: no\n"))
        self.assertEqual(self.controller.asked("PUT /chats/tags"), [])

    def test_a_row_is_sent_again_to_the_byte(self) -> None:
        """Until the answer is of this very row; what older controllers take is all that is sent."""
        self.controller.on(
            "GET /chats/rows", answer({"success": True, "chatId": CHAT, "transcriptViewId": "v"})
        )

        def added(asked: Any) -> bytes:
            body = asked.json
            names = ("clientRequestId", "clientMessageId", "chatId", "transcriptViewId", "type")
            reply = {name: body[name] for name in names}
            more = {"commandType": "chat-row-add", "ordinal": 7, "status": "duplicate"}
            return answer({"success": True, **reply, **more})

        self.controller.on(
            "POST /chats/rows",
            refusal(500, "INTERNAL_ERROR", "oh"),
            answer({"success": True, "commandType": "chat-row-add"}),
            added,
        )
        status, out, _ = self.garcon("add-row", CHAT, "--type", "notice", "-", stdin=b"a\n")
        self.assertEqual(status, 0)
        self.assertTrue(out.endswith("ordinal: 7\ntype: notice\nstatus: duplicate\n"), out)
        first, second, third = self.controller.asked("POST /chats/rows")
        self.assertEqual({first.body, second.body, third.body}, {first.body})
        self.assertEqual(
            set(first.json),
            {
                *("clientRequestId", "clientMessageId", "chatId", "transcriptViewId"),
                *("type", "content"),
            },
        )
        self.assertEqual(first.json["content"], "a\n")

    def test_standard_input_of_a_row(self) -> None:
        """Blank, too long and what is no text is refused before anybody is asked."""
        for stdin in (b" \n", b"x" * (ROW_BYTES + 1), b"\xff"):
            status, out, _ = self.garcon("add-row", CHAT, "--type", "info", "-", stdin=stdin)
            self.assertEqual((status, out), (2, ""))
        self.assertEqual(self.controller.double.asked, [])

    def test_sessions_of_several_chats(self) -> None:
        """Named on standard error; standard output stays empty."""
        match = {"executorId": "local", "agentId": "claude"}
        found = [match | {"chatId": CHAT}, match | {"chatId": UNKNOWN}]
        self.controller.on("POST /chats/lookup-native-session", answer({"matches": found}))
        status, out, err = self.garcon("lookup-native-session", "s")
        self.assertEqual((status, out), (2, ""))
        self.assertIn(f"{CHAT} (claude), {UNKNOWN} (claude)", err)
        self.controller.on("POST /chats/lookup-native-session", answer({"matches": [{}]}))
        self.assertEqual(self.garcon("lookup-native-session", "s")[0], 3)

    def test_a_list_that_cannot_be_read(self) -> None:
        """Exit 3."""
        for body in ({}, {"sessions": [1]}, {"sessions": [{"id": CHAT}]}):
            self.controller.on("GET /chats", answer(body))
            status, out, _ = self.garcon("chats")
            self.assertEqual((status, out), (3, ""))
