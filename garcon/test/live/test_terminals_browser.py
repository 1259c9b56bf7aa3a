"""Terminals of a controller's own machine as a browser has them (server.md C.3 to C.6)."""

from __future__ import annotations

import hashlib
import shutil

from garcon.contract.limits import KIB, MIB, TERMINAL_INPUT
from garcon.test.live.terminal_clients import OpenCase, TerminalClient
from garcon.testing.fleet import eventually


class Sockets(OpenCase):
    """What goes over the socket."""

    def opened(self) -> tuple[str, TerminalClient]:
        """A terminal, and a browser that has it."""
        name, browser = self.new(), self.browser()
        browser.open(name)
        return name, browser

    def test_attach_type_and_see(self) -> None:
        """What is typed right behind the wish to attach arrives, and the answer comes back."""
        name = self.new()
        browser = self.browser()
        browser.attach(name)
        browser.type(name, "echo $((6*7))\n")
        attached = browser.heard("attached")
        self.assertEqual(attached["attachmentId"], browser.attachments[name])
        self.assertEqual(attached["terminal"]["attachmentStatus"], "attached")
        browser.shows(name, "42")
        browser.say("resize", name, cols=132, rows=50)
        browser.enter(name, "stty size", "50 132")

    def test_a_client_that_knows_no_attachment_ids(self) -> None:
        """Means its present attachment, and is told none."""
        name, browser = self.new(), self.browser()
        wish = {"terminalId": name, "clientId": "old", "afterSequence": 0, "intent": "restore"}
        browser.send(type="terminal-attach", **wish)
        browser.send(type="terminal-input", terminalId=name, data="echo by o''ld\n")
        self.assertNotIn("attachmentId", browser.heard("attached"))
        browser.shows(name, "by old")
        browser.send(type="terminal-input", terminalId=name, data="x", attachmentId="mine")
        self.assertEqual(browser.heard("error")["code"], "terminal-not-attached")
        browser.send(type="terminal-detach", terminalId=name)
        browser.send(type="terminal-input", terminalId=name, data="x")
        self.assertEqual(browser.heard("error")["code"], "terminal-not-attached")

    def test_what_was_missed_is_told_again(self) -> None:
        """To whoever attaches again, from where it was; at first also to somebody else."""
        name, browser = self.opened()
        browser.enter(name, "echo fi''rst", "first")
        browser.socket.close()
        again = self.browser(browser.client_id)
        again.judgement.texts[name] = browser.texts[name]
        again.attach(name, after=browser.last[name])
        again.heard("attached")
        again.enter(name, "echo sec''ond", "second")
        fresh = self.browser()
        fresh.attach(name, intent="takeover")
        fresh.heard("attached")
        fresh.shows(name, "second")
        # What follows, a prompt, comes to whoever has the terminal by then.
        said = [one.texts[name].partition("second")[0] for one in (fresh, again)]
        self.assertEqual(*said)

    def test_a_replay_that_is_too_large_for_one_message(self) -> None:
        """Comes in batches; what is no longer kept is said to be missing."""
        name, browser = self.opened()
        browser.enter(name, "seq 1 40000; echo fin''ished", "finished")
        fresh = self.browser()
        fresh.attach(name, intent="takeover")
        attached = fresh.heard("attached")
        self.assertEqual(attached["replay"], [])
        fresh.until(
            lambda: fresh.last[name] >= attached["terminal"]["latestOutputSequence"], "all of it"
        )
        # What follows, a prompt, comes to whoever has the terminal by then.
        said = [one.texts[name].partition("finished")[0] for one in (fresh, browser)]
        self.assertEqual(*said)
        browser.attach(name, intent="takeover")
        browser.heard("attached")
        browser.enter(name, "seq 1 400000; echo agai''n", "again")
        late = self.browser()
        late.attach(name, intent="takeover")
        truncated = late.heard("replay-truncated")
        self.assertGreater(truncated["firstSequence"], 1)
        late.shows(name, "again")
        whole, kept = (one.texts[name].partition("again")[0] for one in (browser, late))
        self.assertTrue(whole.endswith(kept))
        self.assertGreater(len(kept), MIB - 64 * KIB)

    def test_ahead_of_the_output(self) -> None:
        """Nobody can have seen what was not said."""
        name, browser = self.new(), self.browser()
        browser.attach(name, after=10**6)
        self.assertEqual(browser.heard("error")["code"], "terminal-replay-sequence")

    def test_another_client(self) -> None:
        """Has to say that it takes over; who had it hears of that, types no more and still hears
        of the terminal itself.
        """
        name, first = self.opened()
        second = self.browser()
        second.attach(name)
        self.assertEqual(second.heard("error")["code"], "terminal-takeover-required")
        self.terminals("PATCH", {"terminalId": name, "title": "t"})
        for browser in (first, second):
            self.assertEqual(browser.heard("status")["terminal"]["title"], "t")
        second.attach(name, intent="takeover")
        second.heard("attached")
        taken = first.heard("taken-over")
        self.assertEqual(taken["replacementClientId"], second.client_id)
        first.type(name, "echo not''hing\n")
        self.assertEqual(first.heard("error")["code"], "terminal-not-attached")
        second.enter(name, "echo min''e", "mine")
        self.assertNotIn("nothing", second.texts[name])
        self.assertNotIn("mine", first.texts[name])
        self.terminals("DELETE", {"terminalId": name, "requestId": "r"})
        for browser in (first, second):
            browser.heard("terminated")
            browser.type(name, "x")
            self.assertEqual(browser.heard("error")["code"], "terminal-not-attached")

    def test_another_socket_of_the_same_client(self) -> None:
        """Restores without a question, and nobody is told."""
        name, first = self.opened()
        second = self.browser(first.client_id)
        second.attach(name)
        second.heard("attached")
        second.enter(name, "echo her''e", "here")
        first.type(name, "x")
        self.assertEqual(first.heard("error")["code"], "terminal-not-attached")
        self.assertEqual(first.seen, [])

    def test_attaching_anew_on_the_same_socket(self) -> None:
        """Retires the attachment before, whose messages stop and whose words count no more."""
        name, browser = self.opened()
        before = browser.attachments[name]
        after = browser.attach(name)
        browser.send(type="terminal-input", terminalId=name, data="x", attachmentId=before)
        error = browser.heard("error")
        self.assertEqual((error["code"], error["attachmentId"]), ("terminal-not-attached", before))
        browser.send(type="terminal-detach", terminalId=name, attachmentId=before)
        browser.enter(name, "echo sti''ll", "still")
        self.assertEqual(browser.heard("attached")["attachmentId"], after)

    def test_exit(self) -> None:
        """Is told after all output; then the terminal can be seen, and not typed into."""
        name, browser = self.opened()
        browser.type(name, "echo la''st; exit 7\n")
        status = browser.heard("status")
        self.assertIn("last", browser.texts[name])
        terminal = status["terminal"]
        self.assertEqual((terminal["processStatus"], terminal["exitCode"]), ("exited", 7))
        browser.say("resize", name, cols=10, rows=10)
        browser.type(name, "x")
        self.assertEqual(browser.heard("error")["code"], "terminal-process-exited")
        browser.attach(name, after=0)
        browser.heard("attached")

    def test_detaching_ends_nothing(self) -> None:
        """Nor does a socket that ends; the shell goes on, without an owner."""
        name, browser = self.opened()
        browser.say("detach", name)
        status = {"attachmentStatus": "detached", "processStatus": "running"}
        (listed,) = self.listed()["terminals"]
        self.assertEqual({**listed, **status}, listed)
        browser.attach(name)
        browser.heard("attached")
        browser.enter(name, "echo al''ive", "alive")
        browser.socket.close()
        eventually(
            "the terminal is let go",
            lambda: self.listed()["terminals"][0]["attachmentStatus"] == "detached",
        )

    def test_messages_that_are_not_as_they_have_to_be(self) -> None:
        """Are a failure of no terminal, change nothing, and are nothing for the chats."""
        name, browser = self.opened()
        wish = {"terminalId": name, "clientId": "c", "afterSequence": 0, "intent": "restore"}
        here = {"terminalId": name}
        for kind, body in (
            ("attach", {}),
            ("attach", {**wish, "clientId": ""}),
            ("attach", {**wish, "clientId": "x" * 257}),
            ("attach", {**wish, "attachmentId": "x" * 257}),
            ("attach", {**wish, "afterSequence": -1}),
            ("attach", {**wish, "afterSequence": 1.5}),
            ("attach", {**wish, "intent": "steal"}),
            ("attach", {**wish, "terminalId": "elsewhere"}),
            ("input", here),
            ("input", {**here, "data": 1}),
            ("input", {"terminalId": "x", "data": ""}),
            ("resize", {**here, "cols": 0, "rows": 1}),
            ("resize", {**here, "cols": 1, "rows": "1"}),
            ("detach", {}),
        ):
            browser.socket.send({"type": f"terminal-{kind}", **body})
            error = browser.heard("error")
            self.assertEqual(error["code"], "terminal-validation", body)
            self.assertNotIn("terminalId", error)
        browser.enter(name, "echo sti''ll", "still")

    def test_the_longest_input(self) -> None:
        """64 KiB of UTF-8 arrive; of one byte more nothing does."""
        name, browser = self.opened()
        browser.enter(name, "stty raw; echo r''aw; head -c 65536 | sha256sum; stty -raw", "raw")
        whole = "é" * (TERMINAL_INPUT // 2)
        browser.type(name, whole + "x")
        self.assertEqual(browser.heard("error")["code"], "terminal-validation")
        browser.type(name, whole)
        browser.shows(name, hashlib.sha256(whole.encode()).hexdigest())

    def test_a_large_paste(self) -> None:
        """Ten mebibytes in the largest pieces arrive whole and in order."""
        name, browser = self.opened()
        size = 10 * MIB
        data = "".join(f"{number:07d}\n" for number in range(size // 8))
        command = f"stty raw; echo r''aw; head -c {size} | sha256sum; stty -raw"
        browser.enter(name, command, "raw")
        for begin in range(0, size, TERMINAL_INPUT):
            browser.type(name, data[begin : begin + TERMINAL_INPUT])
        browser.shows(name, hashlib.sha256(data.encode()).hexdigest())
        self.assertEqual(browser.seen, [])

    def test_programs_that_own_the_screen(self) -> None:
        """Draw it for the size that the browser has, and anew for another."""
        programs = [name for name in ("less", "vim") if shutil.which(name)]
        (self.fleet.projects / "text").write_text("".join(f"line {n}\n" for n in range(200)))
        name, browser = self.opened()

        def seen(text: str) -> None:
            browser.shows(name, text)
            browser.texts[name] = browser.texts[name].partition(text)[2]

        for program in programs:
            browser.say("resize", name, cols=80, rows=10)
            browser.type(name, f"{program} text\n")
            browser.shows(name, "line 8")
            self.assertNotIn("line 30", browser.texts[name])
            browser.say("resize", name, cols=80, rows=40)
            # The signal may come while it draws; then it looks at the next key.
            browser.type(name, "\x0c")
            seen("line 30")
            browser.type(name, "q" if program == "less" else ":q!\r")
            seen("% ")

    def test_nobody_else_is_told(self) -> None:
        """A socket that has not used terminals hears nothing of them."""
        name, browser = self.opened()
        other = self.open()
        browser.enter(name, "echo he''llo", "hello")
        self.terminals("PATCH", {"terminalId": name, "title": "t"})
        browser.heard("status")
        self.ping(other)
        self.assertEqual(other.frames_now(), [])
