"""Terminals of a controller's own machine as a browser has them (server.md C)."""

from __future__ import annotations

from uuid import uuid4

from garcon.test.live.terminal_clients import TerminalCase


class Routes(TerminalCase):
    """What HTTP says and does."""

    def setUp(self) -> None:
        super().setUp()
        self.controller = self.start(auth=False)

    def test_create_list_rename_and_terminate(self) -> None:
        """Each with its answer, and the list with the process it holds for."""
        empty = self.listed()
        self.assertEqual(empty["terminals"], [])
        terminal = self.create(expectedTerminalRuntimeId=empty["terminalRuntimeId"])
        name = terminal["terminalId"]
        where, runtime, _ = name.split("/")
        self.assertEqual((where, runtime), ("local", empty["terminalRuntimeId"]))
        self.assertEqual(self.listed("?executorId=local")["terminals"], [terminal])
        renamed = self.terminals("PATCH", {"terminalId": name, "title": "  build  "})
        self.assertEqual(renamed.json, {"success": True, "terminalId": name, "title": "build"})
        ended = self.terminals("DELETE", {"terminalId": name, "requestId": "r"})
        self.assertEqual(ended.json["terminal"]["title"], "build")
        again = self.terminals("DELETE", {"terminalId": name, "requestId": "r"})
        self.assertEqual(again.json, ended.json)
        other = self.terminals("DELETE", {"terminalId": name, "requestId": "s"})
        self.assertEqual(other.json, {"success": True, "terminalId": name, "terminal": None})
        self.assertEqual(self.listed(), empty)


class Sockets(TerminalCase):
    """What goes over the socket."""

    def setUp(self) -> None:
        super().setUp()
        self.controller = self.start(auth=False)

    def test_attach_type_and_see(self) -> None:
        """What is typed right behind the wish to attach arrives, and the answer comes back."""
        name = self.new()
        browser = self.browser()
        browser.attach(name)
        browser.type(name, "echo $((6*7))\n")
        attached = browser.heard("attached")
        self.assertEqual(attached["attachmentId"], browser.attachments[name])
        browser.shows(name, "42")
        browser.say("resize", name, cols=132, rows=50)
        browser.enter(name, "stty size", "50 132")
        self.ping(browser.socket, str(uuid4()))
