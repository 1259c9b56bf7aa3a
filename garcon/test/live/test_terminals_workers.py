"""Terminals of a worker as a browser has them, through a real controller (server.md C)."""

from __future__ import annotations

import hashlib
import time

from garcon.contract.limits import KIB, MIB, TERMINAL_INPUT
from garcon.test.live.terminal_clients import TerminalCase, TerminalClient
from garcon.testing.fleet import eventually


class WorkerCase(TerminalCase):
    """A pair without accounts."""

    def setUp(self) -> None:
        super().setUp()
        self.controller, self.worker, self.executor_id = self.fleet.pair()
        self.query = f"?executorId={self.executor_id}"

    def new_there(self) -> str:
        """Start a terminal on the worker."""
        return self.new(executorId=self.executor_id)

    def having(self) -> tuple[str, TerminalClient]:
        """A terminal on the worker, and a browser that has it."""
        name, browser = self.new_there(), self.browser()
        browser.open(name)
        return name, browser


class Workers(WorkerCase):
    """What is the same there, and what a link adds."""

    def test_each_executor_has_its_own(self) -> None:
        """Named with the executor and its process, and listed by executor."""
        name, here = self.new_there(), self.new()
        listed = self.listed(self.query)
        (terminal,) = listed["terminals"]
        self.assertEqual(terminal["terminalId"], name)
        self.assertEqual(name.split("/")[:2], [self.executor_id, listed["terminalRuntimeId"]])
        self.assertEqual([one["terminalId"] for one in self.listed()["terminals"]], [here])
        browser = self.browser()
        for one in (name, here):
            browser.attach(one)
            browser.type(one, "echo $((6*7))\n")
            browser.shows(one, "42")
        renamed = self.terminals("PATCH", {"terminalId": name, "title": "far"})
        self.assertEqual(renamed.status, 200)
        self.assertEqual(browser.heard("status")["terminal"]["title"], "far")
        ended = self.terminals("DELETE", {"terminalId": name, "requestId": "r"})
        self.assertEqual(ended.json["terminal"]["title"], "far")
        self.assertEqual(browser.heard("terminated")["terminalId"], name)

    def test_take_over_and_replay(self) -> None:
        """Across the link: in batches where it is much, and nothing twice."""
        name, first = self.having()
        first.enter(name, "seq 1 40000; echo fin''ished", "finished")
        second = self.browser()
        second.attach(name, intent="takeover")
        self.assertEqual(second.heard("attached")["replay"], [])
        second.shows(name, "finished")
        # What follows, a prompt, comes to whoever has the terminal by then.
        said = [one.texts[name].partition("finished")[0] for one in (second, first)]
        self.assertEqual(*said)
        self.assertEqual(first.heard("taken-over")["replacementClientId"], second.client_id)
        second.say("resize", name, cols=132, rows=50)
        second.enter(name, "stty size", "50 132")

    def test_a_large_paste(self) -> None:
        """Ten mebibytes in the largest pieces arrive whole and in order."""
        name, browser = self.having()
        size = 10 * MIB
        data = "".join(f"{number:07d}\n" for number in range(size // 8))
        browser.enter(name, f"stty raw; echo r''aw; head -c {size} | sha256sum; stty -raw", "raw")
        for begin in range(0, size, TERMINAL_INPUT):
            browser.type(name, data[begin : begin + TERMINAL_INPUT])
        browser.shows(name, hashlib.sha256(data.encode()).hexdigest())
        self.assertEqual(browser.seen, [])

    def test_a_flood_that_nobody_reads(self) -> None:
        """Ends that attachment, and holds up nobody else."""
        name, other = self.new_there(), self.new_there()
        flooded = self.browser(receive_buffer=4 * KIB, deflate=None)
        flooded.open(name)
        reader = self.browser()
        reader.open(other)
        flooded.type(name, "yes\n")
        deadline = time.monotonic() + 5
        number = 0
        while time.monotonic() < deadline:
            number += 1
            reader.enter(other, f"echo re''ply {number}", f"reply {number}")
            reader.ping()
            self.assertEqual(self.terminals("GET").status, 200)
        error = flooded.heard("error")
        self.assertEqual((error["code"], error["terminalId"]), ("terminal-backpressure", name))
        flooded.attach(name)
        flooded.heard("attached")
        flooded.type(name, "\x03")
        flooded.enter(name, "echo do''ne", "done")

    def test_a_controller_that_is_restarted(self) -> None:
        """Leaves the shells where they are, with what they said meanwhile."""
        name, browser = self.having()
        browser.enter(name, "(sleep 1; echo mean''while) & echo beg''un", "begun")
        port = self.controller.port
        self.controller.stop()
        self.controller = self.fleet.controller(port=port)
        self.fleet.await_executor(self.controller, self.executor_id)
        (terminal,) = self.listed(self.query)["terminals"]
        self.assertEqual((terminal["terminalId"], terminal["attachmentStatus"]), (name, "detached"))
        again = self.browser(browser.client_id)
        again.judgement.texts[name] = browser.texts[name]
        again.attach(name, after=browser.last[name])
        again.shows(name, "meanwhile")
        again.enter(name, "echo al''ive", "alive")

    def test_a_worker_that_is_restarted(self) -> None:
        """Has none of the terminals before; nothing is started for who believes it has."""
        before = self.listed(self.query)
        name, browser = self.having()
        self.worker.kill()
        error = browser.heard("error")
        self.assertEqual((error["code"], error["terminalId"]), ("terminal-unavailable", name))
        eventually(
            "the worker is missed",
            lambda: self.terminals("GET", query=self.query).status == 503,
        )
        self.failed(self.terminals("GET", query=self.query), 503, "terminal-unavailable")
        browser.attach(name)
        self.assertEqual(browser.heard("error")["code"], "terminal-unavailable")
        request = {
            "requestId": "r",
            "requestedInitialWorkingDirectory": None,
            "executorId": self.executor_id,
        }
        self.failed(self.terminals("POST", request), 503, "terminal-unavailable")
        url = self.fleet.garcon(
            self.controller, "executor", "connection", self.executor_id
        ).out.strip()
        self.fleet.worker("--no-tls", url=url, name="again")
        self.fleet.await_executor(self.controller, self.executor_id)
        after = self.listed(self.query)
        self.assertEqual(after["terminals"], [])
        self.assertNotEqual(after["terminalRuntimeId"], before["terminalRuntimeId"])
        old = {"expectedTerminalRuntimeId": before["terminalRuntimeId"]}
        self.failed(self.terminals("POST", {**request, **old}), 409, "terminal-runtime-changed")
        browser.attach(name)
        self.assertEqual(browser.heard("error")["code"], "terminal-not-found")
        browser.attach(name, attachmentEpoch=before["attachmentEpoch"])
        self.assertEqual(browser.heard("error")["code"], "terminal-unavailable")
        ended = self.terminals("DELETE", {"terminalId": name, "requestId": "r"})
        self.assertEqual((ended.status, ended.json["terminal"]), (200, None))
        self.failed(
            self.terminals("PATCH", {"terminalId": name, "title": "t"}), 404, "terminal-not-found"
        )
        self.assertEqual(self.terminals("POST", request).status, 201)
