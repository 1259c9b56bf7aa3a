"""The routes of terminals, and whose they are, with a real controller (server.md C.2, C.7)."""

from __future__ import annotations

from garcon.contract.limits import TERMINALS
from garcon.test.live.terminal_clients import OpenCase, TerminalCase
from garcon.test.live.test_controller import API, ask

OTHER = "00000000-0000-4000-8000-000000000000"


class Routes(OpenCase):
    """What HTTP says and does."""

    def test_create_list_rename_and_terminate(self) -> None:
        """Each with its answer, and the list with the process it holds for."""
        empty = self.listed()
        self.assertEqual(empty["terminals"], [])
        terminal = self.create(expectedTerminalRuntimeId=empty["terminalRuntimeId"])
        name = terminal["terminalId"]
        where, runtime, _ = name.split("/")
        self.assertEqual((where, runtime), ("local", empty["terminalRuntimeId"]))
        (listed,) = self.listed("?executorId=local")["terminals"]
        self.assertEqual(listed["terminalId"], name)
        renamed = self.terminals("PATCH", {"terminalId": name, "title": "  build  "})
        self.assertEqual(renamed.json, {"success": True, "terminalId": name, "title": "build"})
        ended = self.terminals("DELETE", {"terminalId": name, "requestId": "r"})
        self.assertEqual(ended.json["terminal"]["title"], "build")
        again = self.terminals("DELETE", {"terminalId": name, "requestId": "r"})
        self.assertEqual(again.json, ended.json)
        other = self.terminals("DELETE", {"terminalId": name, "requestId": "s"})
        self.assertEqual(other.json, {"success": True, "terminalId": name, "terminal": None})
        self.assertEqual(self.listed(), empty)

    def test_the_same_request_again(self) -> None:
        """Starts nothing more and gets the same answer; also one that failed."""
        request = {"requestId": "one", "requestedInitialWorkingDirectory": None}
        first, again = (self.terminals("POST", request) for _ in range(2))
        self.assertEqual((first.status, first.json), (again.status, again.json))
        (self.fleet.projects / "later").exists()
        wrong = {"requestId": "two", "requestedInitialWorkingDirectory": "later"}
        self.failed(self.terminals("POST", wrong), 422, "terminal-validation")
        (self.fleet.projects / "later").mkdir()
        self.failed(self.terminals("POST", wrong), 422, "terminal-validation")
        self.assertEqual(len(self.listed()["terminals"]), 1)

    def test_eight_and_no_more(self) -> None:
        """Of one principal; one that is ended makes room."""
        names = [self.new() for _ in range(TERMINALS)]
        request = {"requestId": "nine", "requestedInitialWorkingDirectory": None}
        self.failed(self.terminals("POST", request), 409, "terminal-limit")
        self.terminals("DELETE", {"terminalId": names[0], "requestId": "r"})
        self.failed(self.terminals("POST", request), 409, "terminal-limit")
        self.assertEqual(self.terminals("POST", {**request, "requestId": "ten"}).status, 201)
        numbers = [one["displaySequence"] for one in self.listed()["terminals"]]
        self.assertEqual(numbers, list(range(2, TERMINALS + 2)))

    def test_another_process(self) -> None:
        """Nothing is started for it; its terminals are not to be named, and have ended."""
        request = {"requestId": "r", "requestedInitialWorkingDirectory": None}
        answer = self.terminals("POST", {**request, "expectedTerminalRuntimeId": OTHER})
        self.failed(answer, 409, "terminal-runtime-changed")
        self.assertEqual(self.listed()["terminals"], [])
        mine = self.new()
        gone = mine.replace(mine.split("/")[1], OTHER)
        self.failed(
            self.terminals("PATCH", {"terminalId": gone, "title": "t"}), 404, "terminal-not-found"
        )
        ended = self.terminals("DELETE", {"terminalId": gone, "requestId": "r"})
        self.assertEqual((ended.status, ended.json["terminal"]), (200, None))
        self.assertEqual(len(self.listed()["terminals"]), 1)

    def test_requests_that_are_not_as_they_have_to_be(self) -> None:
        """Are a terminal's validation failure, every one of them."""
        name = self.new()
        long = "é" * 128 + "x"
        directory = {"requestedInitialWorkingDirectory": None}
        for method, body in (
            ("POST", {"requestId": "r"}),
            ("POST", {**directory}),
            ("POST", {**directory, "requestId": ""}),
            ("POST", {**directory, "requestId": long}),
            ("POST", {**directory, "requestId": 1}),
            ("POST", {"requestId": "r", "requestedInitialWorkingDirectory": 1}),
            ("POST", {**directory, "requestId": "r", "executorId": "nobody"}),
            ("DELETE", {"terminalId": name}),
            ("DELETE", {"terminalId": name, "requestId": long}),
            ("DELETE", {"terminalId": "x", "requestId": "r"}),
            ("DELETE", {"terminalId": name + "0", "requestId": "r"}),
            ("PATCH", {"terminalId": name}),
            ("PATCH", {"terminalId": name, "title": "a\tb"}),
            ("PATCH", {"terminalId": name, "title": "x" * 121}),
            ("PATCH", {"terminalId": "local", "title": "t"}),
            ("PATCH", []),
        ):
            self.failed(self.terminals(method, body), 400, "terminal-validation")
        for query in ("?executorId=nobody", "?executorId=", "?executorId=local&executorId=local"):
            self.failed(self.terminals("GET", query=query), 400, "terminal-validation")
        self.failed(
            self.terminals("GET", query=f"?executorId={OTHER}"), 503, "terminal-unavailable"
        )
        longest = self.terminals("POST", {**directory, "requestId": "é" * 128})
        self.assertEqual(longest.status, 201)


class Accounts(TerminalCase):
    """Whose terminals they are, and for how long."""

    def sign_up(self, **environment: str) -> None:
        """Start a controller and sign its first user up."""
        self.controller = self.start(environment=environment)
        self.token = self.signed("register")

    def signed(self, how: str) -> str:
        credentials = {"username": "ann", "password": "correct horse"}
        answer = ask(self.controller.url, "POST", f"{API}/auth/{how}", credentials)
        token: str = answer.json["token"]
        return token

    def test_nobody(self) -> None:
        """Without a token there are no terminals, and the code is theirs."""
        self.sign_up()
        for token in (None, "wrong"):
            self.failed(self.terminals("GET", token=token), 401, "terminal-validation")
            request = {"requestId": "r", "requestedInitialWorkingDirectory": None}
            self.failed(self.terminals("POST", request, token=token), 401, "terminal-validation")

    def test_the_machines_own_caller(self) -> None:
        """Has terminals of its own, and none of a user's."""
        self.sign_up()
        name = self.new()
        capability = self.controller.descriptor()["localCapability"]
        listed = self.terminals("GET", token=capability)
        self.assertEqual((listed.status, listed.json["terminals"]), (200, []))
        answer = self.terminals("PATCH", {"terminalId": name, "title": "t"}, token=capability)
        self.failed(answer, 404, "terminal-not-found")
        theirs = self.terminals(
            "POST", {"requestId": "r", "requestedInitialWorkingDirectory": None}, token=capability
        ).json["terminal"]["terminalId"]
        browser = self.browser()
        browser.attach(theirs)
        self.assertEqual(browser.heard("error")["code"], "terminal-not-found")

    def test_the_end_of_a_token(self) -> None:
        """Ends the rights on terminals and nothing else; a new connection has them again."""
        self.sign_up(GARCON_JWT_TOKEN_EXPIRY="4s")
        name = self.new()
        browser = self.browser()
        browser.open(name)
        browser.type(name, "while sleep 0.1; do echo tick; done\n")
        error = browser.heard("error")
        self.assertEqual(error["code"], "terminal-auth-expired")
        self.assertNotIn("terminalId", error)
        browser.type(name, "x")
        browser.attach(name)
        self.ping(browser.socket)
        self.assertEqual(browser.socket.frames_now(), [])
        self.token = self.signed("login")
        (listed,) = self.listed()["terminals"]
        self.assertEqual(
            (listed["processStatus"], listed["attachmentStatus"]), ("running", "detached")
        )
        again = self.browser(browser.client_id)
        again.attach(name)
        again.shows(name, "tick\r\ntick")

    def test_signing_out(self) -> None:
        """Ends the rights of that login's sockets, at once, and of no other's."""
        self.sign_up()
        name, other = self.new(), self.new()
        browser = self.browser()
        browser.open(name)
        still = self.browser(token=self.signed("login"))
        still.open(other)
        silent = self.browser()
        ask(self.controller.url, "POST", f"{API}/auth/logout", {}, self.token)
        silent.attach(name)
        self.assertEqual(silent.heard("error")["code"], "terminal-auth-expired")
        silent.attach(name, intent="takeover")
        self.ping(silent.socket)
        self.assertEqual(browser.heard("error")["code"], "terminal-auth-expired")
        browser.type(name, "x")
        self.ping(browser.socket)
        still.enter(other, "echo sti''ll", "still")
