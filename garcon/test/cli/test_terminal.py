"""`terminal` against a pretend controller: what is asked, and what is refused before that."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli.main import run
from garcon.local.roots import ConfigRoot
from garcon.local.tokens import SavedToken, save_token
from garcon.testing.fake_controller import STARTED, FakeController, FakeMachine
from garcon.testing.http_double import Asked, answer, refusal

TOKEN = "garcon_user_saved"
RUNTIME = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
WORKER = "0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d"
SESSIONS = (
    "16fd2706-8baf-433b-82eb-8c7fada847da",
    "16fd3333-8baf-433b-82eb-8c7fada847da",
    "20000000-8baf-433b-82eb-8c7fada847da",
)
STATUS = {"needsSetup": False, "isAuthenticated": False, "authDisabled": False}


def terminal(number: int, executor: str = "local", **more: Any) -> dict[str, Any]:
    return {
        "terminalId": f"{executor}/{RUNTIME}/{SESSIONS[number - 1]}",
        "displaySequence": number,
        "title": None,
        "initialWorkingDirectory": "/src",
        "processStatus": "running",
        "attachmentStatus": "detached",
        "createdAt": "2026-01-31T00:00:00.000Z",
        "exitCode": None,
        "latestOutputSequence": 0,
        **more,
    }


def listed(*terminals: dict[str, Any]) -> bytes:
    return answer(
        {
            "success": True,
            "terminals": list(terminals),
            "terminalRuntimeId": RUNTIME,
            "attachmentEpoch": "e",
        }
    )


class TerminalCase(SynchronousTestCase):
    """A machine with a controller, a login, and three terminals."""

    def setUp(self) -> None:
        self.root = ConfigRoot(os.path.abspath(self.mktemp()))
        os.mkdir(self.root.path, 0o700)
        self.controller = FakeController()
        self.controller.double.__enter__()
        self.addCleanup(self.controller.double.stop)
        self.controller.publish(self.root)
        save_token(self.root.tokens, SavedToken(self.controller.double.url, "ann", TOKEN))
        self.controller.on("GET /auth/status", answer(STATUS))
        self.all = [
            terminal(1),
            terminal(2, title="build"),
            terminal(3, processStatus="exited", exitCode=7, attachmentStatus="attached"),
        ]
        self.controller.on("GET /terminals", listed(*self.all))
        self.controller.on("PATCH /terminals", self._rename)
        self.controller.on("DELETE /terminals", self._kill)
        made = {"success": True, "terminal": terminal(1)}
        self.controller.on("POST /terminals", answer(made, 201))
        self.machine = FakeMachine({"GARCON_CONFIG_DIR": self.root.path})

    def _rename(self, asked: Asked) -> bytes:
        return answer({"success": True, **asked.json})

    def _kill(self, asked: Asked) -> bytes:
        named = asked.json["terminalId"]
        found = [one for one in self.all if one["terminalId"] == named]
        last = found[0] if found else None
        return answer({"success": True, "terminalId": named, "terminal": last})

    def garcon(self, *words: str) -> int:
        """Run a command line."""
        for stream in (self.machine.out, self.machine.err):
            stream.truncate(0)
            stream.seek(0)
        return run(["terminal", *words], self.machine.system())

    def sent(self, method: str) -> list[Any]:
        """Return the bodies of one kind of change."""
        return [asked.json for asked in self.controller.asked(f"{method} /terminals")]


class UserTests(TerminalCase):
    """On whose behalf."""

    def bearers(self) -> set[str]:
        return {asked.headers["authorization"] for asked in self.controller.asked("GET /terminals")}

    def test_the_login_is_used(self) -> None:
        """The user's token goes to the terminals, the capability to everything else."""
        self.assertEqual(self.garcon("list"), 0, self.machine.stderr())
        self.assertEqual(self.bearers(), {f"Bearer {TOKEN}"})

    def test_without_accounts(self) -> None:
        """Nobody needs a login; the capability will do."""
        self.controller.on("GET /auth/status", answer({**STATUS, "authDisabled": True}))
        self.machine.environ["GARCON_TOKEN_FILE"] = "/nothing"
        self.assertEqual(self.garcon("list"), 0, self.machine.stderr())
        self.assertEqual(self.bearers(), {f"Bearer {self.controller.capability}"})

    def test_nobody_is_logged_in(self) -> None:
        """Exit 3, and what to do; nothing is asked of the terminals."""
        os.unlink(next(Path(self.root.tokens).iterdir()))
        self.assertEqual(self.garcon("list"), 3)
        self.assertTrue(self.machine.stderr().startswith("authentication: "))
        self.assertIn("garcon login", self.machine.stderr())
        self.assertEqual(self.bearers(), set())

    def test_a_login_that_has_ended(self) -> None:
        """Exit 3, and what to do, whatever command it was."""
        self.controller.on("GET /terminals", refusal(401, "terminal-validation", "who?"))
        self.controller.on("POST /terminals", refusal(401, "terminal-validation", "who?"))
        for words in (("list",), ("kill", "1"), ("new", "--detached")):
            self.assertEqual(self.garcon(*words), 3, words)
            self.assertIn("authentication: the login has ended: run `garcon login", self.err)

    @property
    def err(self) -> str:
        return self.machine.stderr()

    def file(self, content: bytes, mode: int = 0o600) -> str:
        path = Path(self.mktemp()).absolute()
        path.write_bytes(content)
        path.chmod(mode)
        return str(path)

    def test_a_token_file_comes_first(self) -> None:
        """Before the login; the end of its line does not count."""
        for content in (b"garcon_user_file", b"garcon_user_file\n"):
            self.machine.environ["GARCON_TOKEN_FILE"] = self.file(content)
            self.assertEqual(self.garcon("list"), 0, self.err)
        self.assertEqual(self.bearers(), {"Bearer garcon_user_file"})
        self.machine.environ["GARCON_TOKEN_FILE"] = ""
        self.assertEqual(self.garcon("list"), 0, "an empty variable is none")

    def test_a_token_file_must_be_private(self) -> None:
        """One that others can read, a link, one that is not there, and one without a token."""
        link = self.mktemp()
        os.symlink(self.file(b"garcon_user_file"), link)
        for path, word in (
            (self.file(b"garcon_user_file", 0o640), "open to other users"),
            (os.path.abspath(link), "symbolic link"),
            ("/nothing/here", "cannot read GARCON_TOKEN_FILE"),
            (self.file(b"two words"), "holds no token"),
            (self.file(b""), "holds no token"),
            (self.file(b"x" * 8_193), "larger than 8192 bytes"),
        ):
            self.machine.environ["GARCON_TOKEN_FILE"] = path
            self.assertEqual(self.garcon("list"), 3, path)
            self.assertIn(word, self.err)
            self.assertNotIn("garcon_user_file", self.err)
        self.assertEqual(self.bearers(), set())

    def test_a_token_file_whose_token_has_ended(self) -> None:
        """It is named."""
        self.machine.environ["GARCON_TOKEN_FILE"] = self.file(b"garcon_user_file")
        self.controller.on("GET /terminals", refusal(401, "terminal-validation", "who?"))
        self.assertEqual(self.garcon("list"), 3)
        self.assertIn("GARCON_TOKEN_FILE", self.err)

    def test_from_a_worker(self) -> None:
        """Its gateway is not even asked to prove itself; exit 2."""
        self.controller.publish(self.root, "executor")
        for words in (("list",), ("new", "--detached"), ("rename", "1", "x"), ("kill", "1")):
            self.assertEqual(self.garcon(*words, "--runtime", "executor"), 2, words)
            self.assertIn("terminals are reached from the controller's machine", self.err)
        self.assertEqual(self.controller.double.asked, [])

    def test_beside_a_worker(self) -> None:
        """The controller is meant, without a word, though the worker of this machine is newer."""
        worker = FakeController()
        worker.double.__enter__()
        self.addCleanup(worker.double.stop)
        os.mkdir(self.root.executor_dir)
        worker.publish(self.root, "executor", STARTED + 1)
        self.assertEqual(self.garcon("list"), 0)
        self.assertEqual(self.err, "")
        self.assertEqual(worker.double.asked, [])


class ListTests(TerminalCase):
    """garcon terminal list."""

    def test_a_table(self) -> None:
        """Numbers, short names, titles and states."""
        self.assertEqual(self.garcon("list"), 0)
        lines = self.machine.stdout().splitlines()
        self.assertEqual(lines[0].split()[:4], ["NUMBER", "TERMINAL", "TITLE", "STATUS"])
        self.assertEqual(lines[3].split()[:5], ["2", "16fd3333", "build", "running", "detached"])
        self.assertIn("exited 7", lines[4])
        (asked,) = self.controller.asked("GET /terminals")
        self.assertEqual(asked.query, {"executorId": "local"})

    def test_json(self) -> None:
        """As the controller says, with the executor."""
        self.controller.on("GET /terminals", listed(terminal(1, WORKER)))
        self.assertEqual(self.garcon("list", "--json", "--executor", WORKER), 0)
        said = json.loads(self.machine.stdout())
        self.assertEqual(said, {"executorId": WORKER, "terminals": [terminal(1, WORKER)]})

    def test_what_cannot_be(self) -> None:
        """Another executor's terminals, and malformed ones: exit 3."""
        wrong: tuple[Any, ...] = (
            [terminal(1, WORKER)],
            [{}],
            [terminal(1, exitCode="x")],
            [terminal(1, title=1)],
            [terminal(1, displaySequence=True)],
            "x",
        )
        for terminals in wrong:
            self.controller.on("GET /terminals", answer({"terminals": terminals}))
            self.assertEqual(self.garcon("list"), 3, terminals)

    def test_errors(self) -> None:
        """An executor that is away: 3; one that is none: 2."""
        self.controller.on("GET /terminals", refusal(503, "terminal-unavailable", "it is offline"))
        self.assertEqual(self.garcon("list", "--executor", WORKER), 3)
        self.assertIn("terminal: it is offline", self.machine.stderr())
        self.assertEqual(self.garcon("list", "--executor", "x"), 2)


class NameTests(TerminalCase):
    """How a terminal is named."""

    def killed(self, *words: str) -> str:
        """Kill one by name; return which was."""
        before = len(self.sent("DELETE"))
        self.assertEqual(self.garcon("kill", *words), 0, self.machine.stderr())
        (body,) = self.sent("DELETE")[before:]
        named: str = body["terminalId"]
        return named

    def test_by_number_or_beginning(self) -> None:
        """Of what the list shows, in either case."""
        self.assertEqual(self.killed("2"), self.all[1]["terminalId"])
        for name in ("2000", "20000000", SESSIONS[2], SESSIONS[2].upper()):
            self.assertEqual(self.killed(name), self.all[2]["terminalId"])

    def test_by_the_whole_id(self) -> None:
        """Nothing has to be listed, on whatever executor."""
        for executor in ("local", WORKER):
            name = terminal(1, executor)["terminalId"]
            self.all.append(terminal(1, executor))
            self.assertEqual(self.killed(name), name)
            self.assertEqual(self.killed(name, "--executor", executor), name)
        self.assertEqual(self.controller.asked("GET /terminals"), [])

    def test_what_is_meant_twice_or_never(self) -> None:
        """Exit 2, and nothing is done."""
        for name, word in (
            ("16fd", "more than one"),
            ("9", "no terminal 9"),
            ("9999", "no terminal 9999"),
            ("abcd", "no terminal abcd"),
        ):
            self.assertEqual(self.garcon("kill", name), 2, name)
            self.assertIn(word, self.machine.stderr())
            self.assertIn("terminal list", self.machine.stderr())
        self.assertEqual(self.sent("DELETE"), [])

    def test_what_is_no_name(self) -> None:
        """Too short, blank, or half an id: nothing is asked."""
        whole = terminal(1)["terminalId"]
        for name in ("", " ", "abc", "a/b/c", "x" + whole, whole + "/", f"local/{RUNTIME}/x"):
            self.assertEqual(self.garcon("kill", name), 2, name)
        self.assertEqual(self.garcon("kill", whole, "--executor", WORKER), 2)
        self.assertEqual(self.controller.double.asked, [])


class ChangeTests(TerminalCase):
    """What is changed, and what is known of it afterwards."""

    def test_new(self) -> None:
        """In the project base of the controller's machine, unless another place is said."""
        self.assertEqual(self.garcon("new", "--detached"), 0, self.machine.stderr())
        self.assertEqual(self.machine.stdout(), terminal(1)["terminalId"] + "\n")
        (body,) = self.sent("POST")
        self.assertEqual(body["requestedInitialWorkingDirectory"], None)
        self.assertEqual(body["executorId"], "local")
        self.assertEqual(self.garcon("new", "--detached", "--json", "--cwd", "/tmp/.."), 0)
        self.assertEqual(json.loads(self.machine.stdout()), terminal(1))
        self.assertEqual(self.sent("POST")[1]["requestedInitialWorkingDirectory"], "/")

    def test_on_a_worker(self) -> None:
        """A directory is absolute there, and sent as it is."""
        made = {"success": True, "terminal": terminal(1, WORKER)}
        self.controller.on("POST /terminals", answer(made, 201))
        words = ("new", "--detached", "--executor", WORKER)
        self.assertEqual(self.garcon(*words, "--cwd", "/nothing/../x"), 0, self.machine.stderr())
        self.assertEqual(self.sent("POST")[0]["requestedInitialWorkingDirectory"], "/nothing/../x")
        self.assertEqual(self.garcon(*words, "--cwd", "x"), 2)

    def test_a_title(self) -> None:
        """It is given right after; without one that works the terminal is there all the same."""
        self.assertEqual(self.garcon("new", "--detached", "--title", " a b "), 0)
        named = terminal(1)["terminalId"]
        self.assertEqual(self.sent("PATCH"), [{"terminalId": named, "title": "a b"}])
        self.controller.on("PATCH /terminals", refusal(500, "terminal-internal", "no"))
        self.assertEqual(self.garcon("new", "--detached", "--title", "a"), 0)
        self.assertIn("warning", self.machine.stderr())
        self.assertEqual(self.machine.stdout(), named + "\n")

    def test_the_longest_title(self) -> None:
        """120 characters, none of them for control."""
        for title in ("x" * 121, "a\tb", "a\x7fb"):
            self.assertEqual(self.garcon("rename", "1", title), 2, title)
            self.assertEqual(self.garcon("new", "--detached", "--title", title), 2, title)
        self.assertEqual(self.controller.double.asked, [])
        self.assertEqual(self.garcon("rename", "1", f" {'é' * 120} "), 0)
        self.assertEqual(self.sent("PATCH")[0]["title"], "é" * 120)

    def test_rename(self) -> None:
        """An empty title takes it away."""
        self.assertEqual(self.garcon("rename", "2", "", "--json"), 0, self.machine.stderr())
        named = self.all[1]["terminalId"]
        self.assertEqual(json.loads(self.machine.stdout()), {"terminalId": named, "title": None})
        self.assertEqual(self.garcon("rename", "2", "x"), 0)
        self.assertEqual(self.machine.stdout(), f"{named}: x\n")

    def test_kill(self) -> None:
        """What was last known of it, if there was one."""
        self.assertEqual(self.garcon("kill", "3", "--json"), 0)
        said = json.loads(self.machine.stdout())
        self.assertEqual(said["terminal"], self.all[2])
        self.all.clear()
        self.assertEqual(self.garcon("kill", "3"), 0)
        self.assertIn("there is no terminal", self.machine.stdout())

    def test_a_lost_answer_is_asked_for_again(self) -> None:
        """With the same request, so that nothing is done twice."""
        made = answer({"success": True, "terminal": terminal(1)}, 201)
        lost = refusal(503, "terminal-outcome-unknown", "the answer is lost")
        self.controller.on("POST /terminals", b"", lost, made)
        self.assertEqual(self.garcon("new", "--detached"), 0, self.machine.stderr())
        first, *others = self.sent("POST")
        self.assertEqual(others, [first, first])

    def test_an_outcome_that_stays_unknown(self) -> None:
        """Exit 3, and where to look."""
        lost = refusal(503, "terminal-outcome-unknown", "the answer is lost")
        self.controller.on("POST /terminals", lost)
        self.assertEqual(self.garcon("new", "--detached", "--executor", WORKER), 3)
        self.assertIn("may have been accepted", self.machine.stderr())
        self.assertIn(f"garcon terminal list --executor {WORKER}", self.machine.stderr())

    def test_refusals_are_final(self) -> None:
        """They are asked once: 2 for what the caller can correct, 3 otherwise."""
        for http, code, status in (
            (422, "terminal-validation", 2),
            (409, "terminal-limit", 3),
            (429, "terminal-backpressure", 3),
            (500, "terminal-internal", 3),
            (501, "terminal-unsupported", 3),
            (503, "terminal-unavailable", 3),
        ):
            self.controller.double.asked.clear()
            self.controller.on("POST /terminals", refusal(http, code, "no"))
            self.assertEqual(self.garcon("new", "--detached"), status, code)
            self.assertEqual(len(self.sent("POST")), 1, code)
            self.assertNotIn("may have", self.machine.stderr())
        self.controller.on("POST /terminals", refusal(409, "terminal-limit", "eight are there"))
        self.garcon("new", "--detached")
        self.assertIn("garcon terminal kill", self.machine.stderr())


class AttachTests(TerminalCase):
    """What is refused before anything is attached or made."""

    def test_without_a_terminal(self) -> None:
        """There is nothing to lend; nothing is asked or made."""
        for words in (("attach", "1"), ("new",)):
            self.assertEqual(self.garcon(*words), 2, words)
            self.assertIn("no terminal to attach", self.machine.stderr())
        self.assertEqual(self.controller.double.asked, [])

    def test_wrong_options(self) -> None:
        """A key that is none, and a document where a terminal is attached."""
        self.assertEqual(self.garcon("attach", "1", "--detach-key", "x"), 2)
        self.assertIn("--detach-key", self.machine.stderr())
        self.assertEqual(self.garcon("new", "--json"), 2)
        self.assertEqual(self.garcon("attach"), 2)
