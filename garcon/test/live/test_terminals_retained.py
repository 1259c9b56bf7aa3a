"""A worker's shell outlives its link and its controller, whichever side dials; what was started in
it before a restart does not act for the controller after it (server.md C; gateway design).
"""

from __future__ import annotations

from garcon.test.live.terminal_clients import TerminalCase, TerminalClient
from garcon.test.live.test_controller import API, ask
from garcon.testing.fleet import Service, eventually, free_port
from garcon.testing.relay import Relay

BACK = 60
"""Seconds in which an executor is connected again."""


class RetainedCase(TerminalCase):
    """A pair with a relay in its link, and a shell on the worker that a browser has."""

    executor_id: str
    relay: Relay
    controller: Service

    def setUp(self) -> None:
        super().setUp()
        self.port = free_port()
        self.controller = self.fleet.controller(port=self.port)
        self.bring_up()
        self.addCleanup(self.relay.close)
        self.fleet.await_executor(self.controller, self.executor_id)
        self.query = f"?executorId={self.executor_id}"
        self.before = self.listed(self.query)
        self.name = self.new(executorId=self.executor_id)
        self.browser_before = self.browser()
        self.browser_before.open(self.name)
        self.remember()

    def bring_up(self) -> None:
        """Connect a worker that dials through the relay."""
        self.relay = Relay(self.port)
        address = f"ws://127.0.0.1:{self.relay.port}/executor/{{executorId}}"
        self.executor_id = self.fleet.executor(
            self.controller,
            *("--label", "w", "--direction", "executor-connects", "--no-tls", "true"),
            *("--advertise-url", address),
        )
        url = self.fleet.garcon(self.controller, "executor", "connection", self.executor_id).out
        self.fleet.worker("--no-tls", url=url.strip())

    # -- the shell's state

    def remember(self) -> None:
        """Give the shell something to remember: a variable, a directory, a size."""
        self.fleet.project("deep")
        self.browser_before.say("resize", self.name, cols=101, rows=33)
        self.browser_before.enter(self.name, "kept=$$; cd deep; echo kee''ps", "keeps")

    def assert_remembered(self, browser: TerminalClient) -> None:
        """It is the same shell, where it was."""
        shown = browser.enter(
            self.name, "echo $(($$-kept)) ${PWD##*/} $(stty size) re''membered", "remembered"
        )
        self.assertIn("0 deep 33 101 remembered", shown)

    def assert_fenced(self, shown: str) -> None:
        """A command that was started before the controller's restart has ended, and says why."""
        self.assertIn("Garcon restarted while the turn was running", shown)
        self.assertIn("old 3", shown)

    # -- what happens to its link

    def cut(self) -> None:
        """Break the link, until the controller knows."""
        self.relay.cut()
        eventually(
            "the worker is missed",
            lambda: self.terminals("GET", query=self.query).status == 503,
        )

    def mend(self) -> None:
        """Let it come back, and find the terminal as it was: the same process, the same name."""
        self.relay.mend()
        self.fleet.await_executor(self.controller, self.executor_id, BACK)
        listed = self.listed(self.query)
        self.assertEqual(listed["terminalRuntimeId"], self.before["terminalRuntimeId"])
        (terminal,) = listed["terminals"]
        self.assertEqual(
            (terminal["terminalId"], terminal["processStatus"], terminal["attachmentStatus"]),
            (self.name, "running", "detached"),
        )

    def back(self) -> TerminalClient:
        """Open the same browser's next socket, which goes on where the last one was."""
        again = self.browser(self.browser_before.client_id)
        again.judgement.texts[self.name] = self.browser_before.texts[self.name]
        again.attach(self.name, after=self.browser_before.last[self.name])
        return again


class WorkerDials(RetainedCase):
    """The worker connects, and connects again."""

    def test_a_cut(self) -> None:
        """Its browser is told; the shell works on, and all it said is told once."""
        name, browser = self.name, self.browser_before
        go = self.fleet.root / "go"
        wait = f"until [ -e {go} ]; do sleep 0.05; done"
        browser.enter(name, f"({wait}; echo mean''while) & echo beg''un", "begun")
        self.cut()
        self.assertEqual(browser.heard("error")["code"], "terminal-unavailable")
        browser.type(name, "echo lo''st\n")
        self.assertEqual(browser.heard("error")["code"], "terminal-not-attached")
        go.touch()
        self.mend()
        browser.attach(name)
        browser.shows(name, "meanwhile")
        self.assert_remembered(browser)
        shown = browser.enter(name, "garcon list agents; echo en''ded $?", "ended")
        self.assertIn("scripted", shown)
        self.assertIn("ended 0", shown)
        self.assertNotIn("lost", browser.texts[name])

    def test_a_cut_in_which_the_controller_is_restarted(self) -> None:
        """The command that waits fails its fence, the next one works, and another browser takes
        over.
        """
        name, browser = self.name, self.browser_before
        start = "garcon start --agent scripted --model scripted --cwd ."
        browser.enter(name, f"{start} $'say early\\nsleep 600'; echo o''ld $?", "turn id: ")
        self.cut()
        self.controller.kill()
        self.controller = self.fleet.controller(port=self.port)
        self.mend()
        again = self.back()
        shown = again.shows(name, "old ", BACK)
        self.assert_fenced(shown)
        other = self.browser()
        other.attach(name)
        self.assertEqual(other.heard("error")["code"], "terminal-takeover-required")
        other.attach(name, intent="takeover")
        other.shows(name, again.texts[name])
        self.assertEqual(again.heard("taken-over")["replacementClientId"], other.client_id)
        again.type(name, "echo no''body\n")
        self.assertEqual(again.heard("error")["code"], "terminal-not-attached")
        self.assert_remembered(other)
        shown = other.enter(name, f"{start} 'say a''gain'; echo n''ew $?", "new ")
        self.assertIn("again\r\nnew 0", shown)
        self.assertNotIn("nobody", other.texts[name])


class ControllerDials(WorkerDials):
    """The same where the controller connects, and connects again."""

    def bring_up(self) -> None:
        """Connect a worker that is dialled through the relay."""
        port = free_port()
        worker = self.fleet.worker("--listen", str(port), "--no-tls")
        self.relay = Relay(port)
        address = f"ws://127.0.0.1:{self.relay.port}/executor"
        url = self.fleet.garcon(worker, "executor", "connection-url", "--advertise-url", address)
        made = self.fleet.garcon(
            self.controller,
            *("executor", "create", "--label", "w", "--direction", "controller-connects"),
            *("--connection-url", "-", "--allow-controller-cli", "true", "--json"),
            *("--no-tls", "true"),
            stdin=url.out,
        )
        self.executor_id = made.json["id"]


class Expiry(TerminalCase):
    """Authority that a worker has only lent."""

    def test_the_end_of_a_token(self) -> None:
        """Lets go of the worker's terminal, which works on for whoever signs in next."""
        self.controller = self.start(environment={"GARCON_JWT_TOKEN_EXPIRY": "6s"})
        executor_id = self.fleet.executor(
            self.controller,
            *("--label", "w", "--direction", "executor-connects", "--no-tls", "true"),
        )
        url = self.fleet.garcon(self.controller, "executor", "connection", executor_id).out
        self.fleet.worker("--no-tls", url=url.strip())
        self.fleet.await_executor(self.controller, executor_id)
        self.token = self.signed("register")
        name = self.new(executorId=executor_id)
        browser = self.browser()
        browser.open(name)
        browser.type(name, "while sleep 0.1; do echo tick; done\n")
        error = browser.heard("error")
        self.assertEqual(error["code"], "terminal-auth-expired")
        self.assertNotIn("terminalId", error)
        self.ping(browser.socket)
        self.token = self.signed("login")
        (listed,) = self.listed(f"?executorId={executor_id}")["terminals"]
        self.assertEqual(
            (listed["processStatus"], listed["attachmentStatus"]), ("running", "detached")
        )
        other = self.browser()
        other.attach(name)
        other.shows(name, "tick\r\ntick")

    def signed(self, how: str) -> str:
        """Sign a user up, or in; return the token."""
        credentials = {"username": "ann", "password": "correct horse"}
        answer = ask(self.controller.url, "POST", f"{API}/auth/{how}", credentials)
        token: str = answer.json["token"]
        return token
